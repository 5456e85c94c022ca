"""Whether the process runs and the database answers, told to those who watch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import archive_of, close, make_app
from support.web import NOBODY, ask

READY = ["/ibi/health", "/ibi/health/ready"]
LIVE = "/ibi/health/live"


def say(app: Flask, path: str) -> tuple[int, dict[str, str]]:
    """Give what an address says, in JSON."""
    answer = ask(app, path)
    assert answer.headers.getlist("Content-Type") == ["application/json"]
    assert answer.headers.getlist("Cache-Control") == ["no-store"]
    if answer.status == 503:
        assert int(answer.headers["Retry-After"]) > 0
    state: dict[str, str] = json.loads(answer.body)
    return answer.status, state


def reason(app: Flask) -> str:
    """Give why an app is not ready, the same at both addresses; the process lives all the same."""
    assert say(app, LIVE) == (200, {"status": "ok"})
    said = [say(app, path) for path in READY]
    assert said[0] == said[1]
    status, state = said[0]
    assert (status, state.pop("status"), [*state]) == (503, "unavailable", ["reason"])
    return state["reason"]


def test_an_archive_that_is_there_is_live_and_ready(app: Flask) -> None:
    for path in (LIVE, *READY):
        assert say(app, path) == (200, {"status": "ok"})
        head = ask(app, path, "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert ask(app, path, "POST").status == 405


@pytest.mark.parametrize(
    "uri", ["postgresql+psycopg://nobody:a-password@127.0.0.1:1/none", "sqlite:///{folder}"]
)
def test_a_database_that_is_away_is_the_reason(tmp_path: Path, uri: str) -> None:
    app = make_app(uri.format(folder=tmp_path), tmp_path)
    said = reason(app)
    assert "the database does not answer" in said
    assert "IBI_DATABASE_URI" in said
    assert "a-password" not in said
    close(app)


@pytest.mark.no_tables
def test_a_database_without_tables_is_the_reason_until_init(new_app: Callable[..., Flask]) -> None:
    app = new_app()
    assert reason(app) == "the database has none of our tables; run: flask ibi init"
    archive_of(new_app()).upgrade()
    assert "run: flask ibi init" in reason(app)
    archive_of(new_app()).init()
    assert say(app, "/ibi/health") == (200, {"status": "ok"})


def test_tables_of_another_revision_are_the_reason(app: Flask) -> None:
    assert say(app, "/ibi/health")[0] == 200
    with archive_of(app).database.writing() as connection:
        connection.execute(text("UPDATE ibi_alembic_version SET version_num = '0000'"))
    said = reason(app)
    assert "the database is at revision 0000" in said
    assert said.endswith("run: flask ibi upgrade")


def test_an_archive_that_is_not_there_is_the_reason(new_app: Callable[..., Flask]) -> None:
    archive_of(new_app()).init()
    assert NOBODY in reason(new_app(IBI_ARCHIVE_SERVICE_IBI=NOBODY))


def test_tables_that_are_taken_away_are_the_reason(app: Flask) -> None:
    assert say(app, "/ibi/health")[0] == 200
    archive_of(app).downgrade("base")
    assert "none of our tables" in reason(app)
