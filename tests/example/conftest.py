"""The example on a database of each kind, and the visitors of its pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from support.archives import archive_of, close
from werkzeug.security import generate_password_hash
from werkzeug.test import TestResponse

from example_app import create_app
from example_app.extensions import db
from example_app.models import Publication, User
from example_app.seed import PASSWORD

#: The users: a librarian and two members.
USERS = ("librarian", "ana", "davi")


@lru_cache
def password_hash() -> str:
    """Return the hash of the password of all users; it takes some time."""
    return generate_password_hash(PASSWORD)


@contextmanager
def example_repository(uri: str, folder: Path, **settings: Any) -> Iterator[Flask]:
    """Yield the example on a database that contains the tables of the Archive, with users."""
    app = create_app(
        {
            "TESTING": True,
            "SQLALCHEMY_DATABASE_URI": uri,
            "UPLOAD_FOLDER": str(folder / "uploads"),
            "IBI_FILES_FOLDER": str(folder / "files"),
            **settings,
        }
    )
    archive_of(app).init()
    with app.app_context():
        db.create_all()
        for name in USERS:
            user = User(name=name, password_hash=password_hash(), is_librarian=name == "librarian")
            db.session.add(user)
        db.session.commit()
    try:
        yield app
    finally:
        close_example(app)


def close_example(app: Flask) -> None:
    """Close all connections of the example."""
    with app.app_context():
        db.session.remove()
        for engine in db.engines.values():
            engine.dispose()
    close(app)


class Visitor:
    """A person who uses the pages of the example.

    :param name: the name of the user who is logged in; None for a reader.
    """

    def __init__(self, app: Flask, name: str | None = None) -> None:
        self.app = app
        self.client = app.test_client()
        if name is not None:
            with app.app_context():
                user_id = db.session.scalars(select(User.id).where(User.name == name)).one()
            with self.client.session_transaction() as session:
                session["_user_id"], session["_fresh"] = str(user_id), True

    def get(self, path: str, status: int = 200) -> str:
        """Return the text of a page without HTML escapes."""
        with self.client.get(path) as response:
            assert response.status_code == status, response.text
            return unescape(response.text)

    def send(self, path: str, action: str | None = None, **fields: Any) -> TestResponse:
        """Open a page with a form, send the form, and return the page that follows.

        :param action: the address of the form; None for the address of the page.
        """
        token = re.search(r'name="csrf_token"[^>]* value="([^"]+)"', self.get(path))
        assert token is not None
        data = {"csrf_token": token[1], **fields}
        return self.client.post(action or path, data=data, follow_redirects=True)

    def deposit(self, path: str = "/deposit", status: str = "draft", **fields: Any) -> Publication:
        """Send the form of a new publication, and return the publication."""
        response = self.send(path, **form_fields(**fields))
        assert len(response.history) == 1, unescape(response.text)
        return self.last()

    def last(self) -> Publication:
        """Return the last publication, which is no longer in a session."""
        with self.app.app_context():
            statement = select(Publication).order_by(Publication.id.desc()).limit(1)
            publication: Publication = db.session.scalars(statement).one()
            db.session.expunge(publication)
            return publication


def form_fields(**fields: Any) -> dict[str, Any]:
    """Return values for the form of a publication."""
    return {
        "title": "On rain",
        "authors": "Silva, Ana\nSouza, Davi",
        "kind": "Thesis",
        "year": "2026",
        "language": "English",
        "level": "",
        "licence": "",
        "uploads": pdf("rain.pdf"),
        **fields,
    }


def pdf(name: str, text: str = "On rain") -> tuple[BytesIO, str]:
    """Return a PDF file for a form."""
    return BytesIO(f"%PDF-1.4\n{text}\n%%EOF\n".encode()), name


def path_of(publication: Publication) -> str:
    """Return the address of the page of a publication."""
    return f"/col/{publication.ibi}/"


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
