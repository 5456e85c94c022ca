"""The example on a database of each kind, and the visitors of its pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.example import Visitor, example_repository, path_of

from example_app.models import Publication


@pytest.fixture
def app(uri: str, tmp_path: Path) -> Iterator[Flask]:
    """The example with its users and without publications."""
    with example_repository(uri, tmp_path) as app:
        yield app


@pytest.fixture
def reader(app: Flask) -> Visitor:
    return Visitor(app)


@pytest.fixture
def ana(app: Flask) -> Visitor:
    return Visitor(app, "ana")


@pytest.fixture
def librarian(app: Flask) -> Visitor:
    return Visitor(app, "librarian")


@pytest.fixture
def publish(ana: Visitor, librarian: Visitor) -> Callable[..., Publication]:
    """A function that deposits a publication of Ana and publishes it."""

    def deposit_and_publish(path: str = "/deposit", **fields: Any) -> Publication:
        publication = ana.deposit(path, **fields)
        action = f"/publications/{publication.id}/publish"
        assert librarian.send(path_of(publication), action).status_code == 200
        return publication

    return deposit_and_publish
