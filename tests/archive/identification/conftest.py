"""Fixtures for the tests of the identification server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from support.archives import archive_of
from werkzeug.test import TestResponse

from flask_ibi_archive.archive.identification.keys import create_key


class Program:
    """A program with a key, which sends requests to the identification server."""

    def __init__(self, client: FlaskClient, key: str) -> None:
        self.client = client
        self.key = key

    def __call__(
        self, method: str, path: str = "", json: Any = None, **headers: str
    ) -> TestResponse:
        """Send a request. Each "_" in the name of a header is written as "-"."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.open(
            f"/ibi/identifiers{path}",
            method=method,
            json=json,
            headers={"Authorization": f"Bearer {self.key}", **named},
        )


@pytest.fixture
def served_app(new_app: Callable[..., Flask], uri: str) -> Flask:
    """An app whose Archive gives identifiers to programs."""
    app = new_app(IBI_IDENTIFICATION=True, IBI_GRANULARITY="0.000001")
    archive_of(app).init()
    return app


@pytest.fixture
def new_program(served_app: Flask) -> Callable[..., Program]:
    def create(name: str = "ojs", may: str = "mint,deposit", **options: Any) -> Program:
        archive = archive_of(served_app)
        key = create_key(
            archive.database, archive.served().id, name, may.split(","), archive.clock(), **options
        )
        return Program(served_app.test_client(), key)

    return create


@pytest.fixture
def program(new_program: Callable[..., Program]) -> Program:
    """A program that may mint and deposit."""
    return new_program()
