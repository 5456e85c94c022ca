"""Acknowledgments over HTTP: the answer is always the same; only the log contains the result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flask import Flask
from sqlalchemy import create_engine
from support.accesses import forget_accesses, stored
from support.archives import archive_of, import_file, import_records
from support.cases import for_each
from support.resolvers import run
from support.vectors import FOLDER, load
from support.web import SERVICE_PATH, Answer, ask, ask_urls

from flask_ibi_archive.archive.archive import Archive

NOTICE = b"notice {acknowledgment received}"
NewApp = Callable[..., Flask]
REP = "a.br/x/2001/01.01.00.00"


@pytest.fixture
def filled(app: Flask) -> Flask:
    """An app with an item."""
    import_records(archive_of(app), [{"rep": REP}])
    return app


def query(app: Flask, key: str, **changes: str) -> str:
    pairs = {
        "servicesubject": "acknowledgment",
        "clientinformation.ipaddress": "150.163.2.175",
        "contenttype": "Data",
        "state": "Original",
        "url": f"http://mtc-m16c.sid.inpe.br/col/{REP}/",
        "url.persistent": f"http://urlib.net/{REP}",
        "urlkey": key,
        "ibi": f"rep%20{REP}",
        **changes,
    }
    return "&".join(f"{name}={value}" for name, value in pairs.items())


def key_of(app: Flask) -> str:
    return ask_urls(app, REP)["urlkey"][0]


def send(app: Flask, raw: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(app, f"{SERVICE_PATH}?{raw}", headers=named)


@pytest.mark.rule("R62-15")
def test_example_6_9_counts_although_it_has_no_state(new_app: NewApp) -> None:
    [example] = [
        one
        for one in load("messages.json")["requests"]
        if one["source"].startswith("[R] Example 6.9")
    ]
    address = urlsplit(example["url"])
    service = address.path[1:]
    app = new_app(
        IBI_ARCHIVE_SERVICE_IBI=service, IBI_ARCHIVE_ADDRESS=address.netloc, SECRET_KEY="of our own"
    )
    archive = archive_of(app)
    archive.init()
    import_file(archive, FOLDER / "archive" / "example_4_2" / "items.jsonl")
    rep = "sid.inpe.br/mtc-m19/2013/09.04.12.27.57"
    key = archive.url_keys.issue(rep)
    raw = address.query.replace("1424636122-5331490054869684", key)
    assert raw != address.query
    assert ask(app, f"{address.path}?{raw}").body == NOTICE
    [row] = stored(archive)
    assert (row["ibi"], row["state"]) == (rep, None)
    assert row["url"].endswith("/doc/Relat%F3rio%20Final.pdf")
    # the key of the example was not issued by this Archive
    assert ask(app, f"{address.path}?{address.query}").body == NOTICE
    assert len(stored(archive)) == 1


@for_each(
    ("changes", "counted", "said"),
    [
        ({}, 1, ""),
        ({"urlkey": "1424636122-5331490054869684"}, 0, "forged"),
        ({"contenttype": "Metadata"}, 0, "does not lead to"),
        ({"clientinformation.ipaddress": ""}, 0, "clientinformation.ipaddress is missing"),
    ],
)
def test_the_answer_is_always_the_same_and_the_log_has_the_result(
    filled: Flask,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, str],
    counted: int,
    said: str,
) -> None:
    caplog.clear()
    forget_accesses(archive_of(filled))
    with caplog.at_level(logging.WARNING):
        answer = send(filled, query(filled, key_of(filled), **changes))
    assert (answer.status, answer.body) == (200, NOTICE)
    assert len(stored(archive_of(filled))) == counted
    assert said in caplog.text
    assert bool(caplog.records) is not bool(counted)
    assert "150.163.2.175" not in caplog.text


@contextmanager
def locked(archive: Archive) -> Iterator[None]:
    """Hold a lock in another connection, so that accesses cannot be stored."""
    engine = create_engine(archive.config.database_uri)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql("LOCK TABLE ibi_access IN EXCLUSIVE MODE")
        yield
    engine.dispose()


@pytest.mark.postgresql
def test_an_acknowledgment_during_a_lock_is_answered_503_and_counts_later(
    new_app: NewApp,
) -> None:
    app = new_app(IBI_DATABASE_TIMEOUT=0.5)
    archive = archive_of(app)
    archive.init()
    import_records(archive, [{"rep": REP}])
    raw = query(app, key_of(app))
    with locked(archive):
        answer = send(app, raw)
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        assert answer.alert
        # there is nothing to count
        assert send(app, query(app, "1424636122-5331490054869684")).body == NOTICE
    assert stored(archive) == []
    assert send(app, raw).body == NOTICE
    assert len(stored(archive)) == 1


@pytest.mark.slow
def test_each_answered_acknowledgment_counts_once_on_each_database(
    uri: str, tmp_path: Path
) -> None:
    # three processes and one that is killed
    assert "counted once each" in run(uri, tmp_path, count=120, threads=8, kills=1)
