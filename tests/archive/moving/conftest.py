"""An Archive that gives items, and the taker of its offers, which sends requests to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from io import BytesIO
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from support.archives import FAR_SERVICE, archive_of
from werkzeug.test import TestResponse

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.core.records.offer_messages import OfferedRecord, SwitchAnswer

#: The address of the taker.
FAR_ADDRESS = "mtc-m19.sid.inpe.br:8080"


class Taker:
    """The taker of an offer.

    :param secret: the secret that it sends; None: that of the address.
    """

    def __init__(self, client: FlaskClient, address: str, secret: str | None = None) -> None:
        self.client = client
        self.address = messages.parse_address(address)
        self.secret = self.address.secret if secret is None else secret

    def __call__(self, path: str = "", method: str = "GET", **options: Any) -> TestResponse:
        headers = {"Authorization": f"Bearer {self.secret}", **options.pop("headers", {})}
        url = f"{messages.PATH}/{self.address.public_id}{path}"
        return self.client.open(url, method=method, headers=headers, buffered=True, **options)

    def read(self, after: int = 0) -> list[OfferedRecord]:
        answer = self(f"/items?after={after}")
        assert answer.status_code == 200, answer.text
        return list(map(messages.parse_offered, answer.data.splitlines(keepends=True)))

    def switch(self, items: Sequence[OfferedRecord]) -> tuple[SwitchAnswer, ...]:
        """Switch items in the versions that were read."""
        asked = [messages.StoredVersion(item.number, item.version) for item in items]
        request = messages.SwitchRequest(tuple(asked), FAR_ADDRESS)
        answer = self("/switch", "POST", json=messages.format_switch(request))
        assert answer.status_code == 200, answer.text
        return messages.parse_answers(json.loads(answer.data), asked)


@pytest.fixture
def giver(new_app: Callable[..., Flask]) -> Flask:
    app = new_app(IBI_GRANULARITY="0.000001")
    archive_of(app).init()
    return app


@pytest.fixture
def archive(giver: Flask) -> Archive:
    return archive_of(giver)


@pytest.fixture
def clock(archive: Archive) -> list[datetime]:
    """A list with the time of the Archive."""
    now = [datetime(2026, 11, 24, 12, tzinfo=timezone.utc)]
    archive.clock = lambda: now[0]
    return now


@pytest.fixture
def run(giver: Flask) -> Callable[..., Any]:
    runner = giver.test_cli_runner()
    return lambda *arguments, **options: runner.invoke(
        args=["ibi", *map(str, arguments)], **options
    )


@pytest.fixture
def offer(giver: Flask, run: Callable[..., Any]) -> Callable[..., Taker]:
    """Makes an offer with the command, and returns its taker."""

    def make(*arguments: str) -> Taker:
        made = run("offer", *arguments, "--to", FAR_SERVICE)
        assert made.exit_code == 0, made.output
        return Taker(giver.test_client(), made.stdout.strip())

    return make


def deposit(archive: Archive, title: str, *names: str, **fields: Any) -> str:
    """Deposit an item with files that contain their names, and return its repository name."""
    files = [(name, BytesIO(name.encode())) for name in names]
    return archive.deposit(title=title, files=files, **fields).rep
