"""Health checks: whether the process runs and the database is ready."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, close, make_app
from support.web import NOBODY, ask

from flask_ibi_archive.server.config import DATABASE_TIMEOUT
from flask_ibi_archive.server.database.database import CHECK_LOCK_TIMEOUT

READY = ["/ibi/health", "/ibi/health/ready"]
LIVE = "/ibi/health/live"


def check(app: Flask, path: str) -> tuple[int, dict[str, Any]]:
    """Return the status code and the JSON of a health check."""
    answer = ask(app, path)
    assert answer.headers.getlist("Content-Type") == ["application/json"]
    assert answer.headers.getlist("Cache-Control") == ["no-store"]
    if answer.status == 503:
        assert int(answer.headers["Retry-After"]) > 0
    state: dict[str, Any] = json.loads(answer.body)
    return answer.status, state


def reason(app: Flask, part: str = "database") -> str:
    """Return why a part of an app is not ready; its process must be live."""
    assert check(app, LIVE) == (200, {"status": "ok"})
    said = [check(app, path) for path in READY]
    assert said[0] == said[1]
    status, state = said[0]
    assert (status, state.pop("status"), [*state]) == (503, "unavailable", ["not_ready"])
    reasons = dict(one.split(": ", 1) for one in state["not_ready"])
    assert len(reasons) == len(state["not_ready"])
    return reasons[part]


def test_an_initialised_archive_is_live_and_ready(app: Flask) -> None:
    for path in (LIVE, *READY):
        assert check(app, path) == (200, {"status": "ok"})
        head = ask(app, path, "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert ask(app, path, "POST").status == 405


@pytest.mark.parametrize(
    "uri", ["postgresql+psycopg://nobody:a-password@127.0.0.1:1/none", "sqlite:///{folder}"]
)
def test_an_unreachable_database_is_reported(tmp_path: Path, uri: str) -> None:
    app = make_app(uri.format(folder=tmp_path), tmp_path)
    said = reason(app)
    assert reason(app, "files").startswith("the folder of files is missing"), "each part is named"
    assert "the database does not answer" in said
    assert "IBI_DATABASE_URI" in said
    assert "a-password" not in said
    close(app)


@pytest.mark.no_tables
def test_a_database_without_tables_is_reported_until_init(new_app: Callable[..., Flask]) -> None:
    app = new_app()
    assert reason(app) == "the database does not contain the tables; run: flask ibi init"
    archive_of(new_app()).upgrade()
    assert "run: flask ibi init" in reason(app)
    archive_of(new_app()).init()
    assert check(app, "/ibi/health") == (200, {"status": "ok"})
    assert NOBODY in reason(new_app(IBI_ARCHIVE_SERVICE_IBI=NOBODY))
    archive_of(app).downgrade("base")
    assert "does not contain the tables" in reason(app)


def test_a_missing_folder_of_files_is_reported(app: Flask) -> None:
    archive = archive_of(app)
    archive.config.files_folder.rename(archive.config.files_folder.with_name("elsewhere"))
    assert reason(app, "files").startswith("the folder of files is missing; set IBI_FILES_FOLDER")
    assert not archive.config.files_folder.exists()
    archive.init()
    assert check(app, "/ibi/health") == (200, {"status": "ok"})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_reported(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        disk = Path("/dev/full")
        full.setattr(tempfile, "TemporaryFile", lambda dir: disk.open("w+b"))
        parts = (
            ["database", "files"] if "sqlite" in archive_of(app).config.database_uri else ["files"]
        )
        names = {"database": "database", "files": "folder of files"}
        said = [f"{one}: the disk of the {names[one]} is full; free some space" for one in parts]
        assert check(app, READY[0]) == (503, {"status": "unavailable", "not_ready": said})
    assert check(app, "/ibi/health") == (200, {"status": "ok"})


def test_a_folder_that_is_not_writable_is_reported(
    new_app: Callable[..., Flask], caplog: pytest.LogCaptureFixture
) -> None:
    archive_of(new_app()).init()
    said = reason(new_app(IBI_FILES_FOLDER="/proc/self"), "files")
    assert "can't be written; set IBI_FILES_FOLDER to a folder that this process may write" in said
    assert "/proc/self: " in caplog.text, "where it is, the administrator reads in the log"


@pytest.mark.only_on("sqlite")
def test_a_locked_file_is_reported_until_it_is_free(
    new_app: Callable[..., Flask], uri: str
) -> None:
    app = new_app(IBI_DATABASE_TIMEOUT=0.2)
    archive_of(app).init()
    assert check(app, "/ibi/health")[0] == 200
    with closing(sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert reason(app).startswith("the database is locked; ")
    assert CHECK_LOCK_TIMEOUT + DATABASE_TIMEOUT < 10, "programs that check wait no longer"
    assert check(app, "/ibi/health") == (200, {"status": "ok"})


def test_another_archive_in_the_database_is_reported(
    new_app: Callable[..., Flask],
) -> None:
    app = new_app(IBI_ARCHIVE_SERVICE_IBI=None)
    archive_of(app).init()
    assert check(app, "/ibi/health")[0] == 200
    mine = archive_of(app).served().service_ibi
    far = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=NOBODY))
    far.downgrade("base")
    far.init()
    assert reason(app) == (
        f"the database was replaced: it contains the Archive {NOBODY} now, but this server serves "
        f"{mine}; restart the server"
    )
    assert check(new_app(IBI_ARCHIVE_SERVICE_IBI=None), "/ibi/health")[0] == 200
