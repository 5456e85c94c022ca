"""Fixtures for the tests of the registration."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of
from support.loopback import SUCCESSFUL

from flask_ibi_archive.archive.joining.registration import transport
from flask_ibi_archive.server.http.transport import HttpResponse

KEY = "1234567890-9876543210"
RESOLVER = "http://urlib.net/J8LNKB5R7W/3FUQHC5"
SETTINGS = {"IBI_REGISTRATION_KEY": KEY, "IBI_ARCHIVE_ADMIN_EMAIL": "banon@dpi.inpe.br"}
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)

NewApp = Callable[..., Flask]


@pytest.fixture
def new_archive(new_app: NewApp) -> NewApp:
    """Creates apps with an Archive that can be registered."""

    def create(**config: Any) -> Flask:
        app = new_app(**{**SETTINGS, **config})
        archive_of(app).init()
        return app

    return create


class FakeResolver:
    """A resolver with one prepared answer; the clocks of Archives advance only in tests."""

    def __init__(self) -> None:
        self.answer: HttpResponse | Exception | str = SUCCESSFUL
        self.queries: list[str] = []
        self.time = NOON

    def fetch(self, url: str, query: str, **options: object) -> HttpResponse:
        self.queries.append(query)
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, HttpResponse):
            return self.answer
        return HttpResponse(200, {}, self.answer.encode())

    def wait(self) -> datetime:
        self.time += timedelta(minutes=1)
        return self.time


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> FakeResolver:
    """A resolver that includes every Archive, until a test sets another answer."""
    resolver = FakeResolver()
    monkeypatch.setattr(transport, "fetch", resolver.fetch)
    return resolver
