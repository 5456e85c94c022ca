"""Apps of hosts: with the shelf (items of every kind, imported once), or with models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.host_app import Host


@pytest.fixture
def ibi_database_uri(uri: str) -> str:
    """A new database of each kind, for the fixtures of flask_ibi_archive.testing."""
    return uri


@pytest.fixture
def host(web_with: Callable[..., Flask]) -> Callable[..., Flask]:
    """A function that creates apps of hosts with the shelf; see :func:`.make_app`."""
    return web_with


@pytest.fixture
def new_host(uri: str, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """A function that creates hosts with a model of their own."""
    made: list[Host] = []

    def make(**options: Any) -> Host:
        made.append(Host(uri, tmp_path, **options))
        return made[-1]

    yield make
    for host in made:
        host.close()
