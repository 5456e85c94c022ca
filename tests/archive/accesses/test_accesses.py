"""Acknowledgments: a valid key counts one access; other acknowledgments are only logged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from flask import Flask
from sqlalchemy import create_engine
from support.accesses import USER, acknowledge, forget_accesses, stored
from support.archives import archive_of, import_file, import_records, open_app
from support.resolvers import run
from support.vectors import FOLDER, load
from support.web import (
    CLOSED,
    METADATA,
    NEW,
    OLD,
    ONLY_IBIP,
    PORTUGUESE,
    REPORT,
    REPORT_IBIP,
    SERVED_ELSEWHERE,
    SERVICE_PATH,
    WITH_METADATA,
    Answer,
    ask,
    ask_urls,
    shelf,
)

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.service.archive_service import CLOCK_LEEWAY, URLKeys
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import Acknowledgment, parse_request

LOGGER = "flask_ibi_archive.accesses"
COUNTED, REFUSED = True, False


@pytest.fixture(scope="module")
def kept(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """An Archive with the items of :func:`support.web.shelf`, which tests do not change."""
    folder = tmp_path_factory.mktemp("accesses")
    with open_app(backend, folder) as app:
        import_records(archive_of(app), shelf(folder / "sources"))
        yield archive_of(app)


@pytest.fixture
def archive(kept: Archive) -> Archive:
    """The Archive without accesses."""
    forget_accesses(kept)
    return kept


@pytest.fixture
def reason(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """A function that returns the only warning that was logged."""
    caplog.set_level("WARNING", LOGGER)

    def give() -> str:
        [record] = caplog.records
        assert (record.name, record.levelname) == (LOGGER, "WARNING")
        text = record.getMessage()
        assert USER not in text
        caplog.clear()
        return text

    return give


def forms(*texts: str) -> tuple[Any, ...]:
    return tuple(parse_identifier(text) for text in texts)


@pytest.mark.rule("R72-10")
@pytest.mark.postgresql
def test_a_valid_key_counts_one_access(archive: Archive) -> None:
    # a valid key counts one access of the requested item
    for ibi, verbs, content_type in [
        (REPORT_IBIP, "", "Data"),
        (OLD, "GetLastEdition", "Data"),
        (WITH_METADATA, "GetMetadata(oai_dc)", "Metadata"),
        # metadata that are not an item have no ibi; the URL identifies them
        (REPORT, "GetMetadata", "Metadata"),
        (PORTUGUESE, "GetTranslation(en) GetMetadata", "Metadata"),
    ]:
        forget_accesses(archive)
        acknowledgment = acknowledge(archive, ibi, verbs)
        assert archive.take_acknowledgment(acknowledgment) is COUNTED
        [row] = stored(archive)
        assert row["ibi"] == {REPORT_IBIP: REPORT}.get(ibi, ibi)
        assert row["content_type"] == content_type
        facts = archive.url_keys.read(acknowledgment.url_key or "")
        assert facts is not None
        assert row["url_key"] == f"{facts.issued}-{facts.nonce.hex()}"
        assert abs(row["second"] - time.time()) < 60
        assert not row["robot"]
    # a file requested by its path counts
    for path, url in [
        ("new.txt", f"http://mtc-m16c.sid.inpe.br/col/{REPORT}/doc/new.txt"),
        ("日本語.txt", f"http://mtc-m16c.sid.inpe.br/col/{REPORT}/doc/日本語.txt"),
    ]:
        for named in [True, False]:
            forget_accesses(archive)
            acknowledgment = acknowledge(archive, REPORT, path=path)
            assert acknowledgment.url == url
            if not named:
                acknowledgment = replace(acknowledgment, ibi=None)
            assert archive.take_acknowledgment(acknowledgment) is COUNTED
            [row] = stored(archive)
            assert row["ibi"] == REPORT
            assert row["url"].isascii()
    # a url followed by a query counts
    for added in ["", "?utm_source=x", "#page=2"]:
        for verbs in ["GetTranslation(pt) GetFileList", "GetMetadata"]:
            forget_accesses(archive)
            acknowledgment = acknowledge(archive, REPORT, verbs, ibi=None)
            changed = replace(acknowledgment, url=f"{acknowledgment.url}{added}")
            assert archive.take_acknowledgment(changed) is COUNTED
            [row] = stored(archive)
            assert row["url"].endswith(added)


@pytest.mark.rule("R72-10")
def test_the_url_is_stored_only_if_it_is_one_of_the_delivered_item(archive: Archive) -> None:
    for ibi, verbs, url, is_stored in [
        # a resolver appends the query of the persistent URL
        (REPORT, "", f"{OURS}/col/{REPORT}/doc/report.pdf?page=2", True),
        (REPORT, "", f"{OURS}/col/{REPORT}/doc/Relat%C3%B3rio%20Final.txt", True),
        (REPORT, "GetTranslation(pt)", f"{OURS}/col/{PORTUGUESE}/files", True),
        (REPORT, "", f"{OURS}/col/{PORTUGUESE}/files", False),
        (REPORT, "", f"{OURS}/col/{REPORT}/doc/report.pdfx", False),
    ]:
        forget_accesses(archive)
        acknowledgment = acknowledge(archive, ibi, verbs, url=url)
        assert acknowledgment.ibi
        assert archive.take_acknowledgment(acknowledgment) is COUNTED
        [row] = stored(archive)
        assert unquote(row["url"]) == (url if is_stored else "")
    # the url of a file that is served elsewhere is stored
    forget_accesses(archive)
    named = acknowledge(archive, SERVED_ELSEWHERE, path="日本.pdf", ibi=None)
    other = acknowledge(archive, SERVED_ELSEWHERE, url="https://example.org/other.pdf")
    for acknowledgment in (named, other):
        assert archive.take_acknowledgment(acknowledgment) is COUNTED
    assert [unquote(row["url"]) for row in stored(archive)] == [named.url, ""]
    # a closed item counts as metadata for other addresses
    forget_accesses(archive)
    outside = acknowledge(archive, CLOSED, user="203.0.113.9")
    assert outside.content_type == "Metadata"
    assert archive.take_acknowledgment(outside) is COUNTED
    inside = acknowledge(archive, CLOSED)
    assert inside.content_type == "Data"
    assert archive.take_acknowledgment(inside) is COUNTED


OURS = "http://mtc-m16c.sid.inpe.br"


def test_a_deleted_item_counts_if_its_key_was_issued_before(app: Flask, tmp_path: Path) -> None:
    archive = archive_of(app)
    import_records(archive, shelf(tmp_path / "sources"))
    named, unnamed = acknowledge(archive, REPORT), acknowledge(archive, REPORT, ibi=None)
    led_on = acknowledge(archive, REPORT, "GetTranslation(pt)")
    gone = {
        "rep": REPORT,
        "ibip": REPORT_IBIP,
        "state": "Deleted",
        "timestamp": "2026-01-01T00:00:00Z",
    }
    import_records(archive, [gone], on_conflict="update")
    assert archive.take_acknowledgment(named) is COUNTED
    assert archive.take_acknowledgment(unnamed) is REFUSED
    assert archive.take_acknowledgment(led_on) is REFUSED
    assert len(stored(archive)) == 1


def spliced(archive: Archive) -> str:
    """Return a key with the content of a valid key and the signature of another key."""
    first, second = (archive.url_keys.issue(ibi) for ibi in (NEW, OLD))
    body, signature = int(first.partition("-")[2]) >> 128, int(second.partition("-")[2])
    return f"{first.partition('-')[0]}-{body << 128 | signature & (1 << 128) - 1}"


def issued_at(archive: Archive, moment: float) -> str:
    keys = URLKeys(archive.config.secret_keys, 3600, lambda: moment)
    return keys.issue(REPORT)


def test_an_invalid_or_used_key_does_not_count(archive: Archive, reason: Callable[[], str]) -> None:
    # an invalid key does not count and the log says why
    now = time.time()
    for key, said in (
        (spliced(archive), "forged"),
        (archive.url_keys.issue(REPORT) + "0", "forged"),
        (issued_at(archive, now - 3700), "expired"),
        (issued_at(archive, now + CLOCK_LEEWAY + 99), "expired"),
        (archive.url_keys.issue("a.br/x/1999/01.01.00.00"), "no item"),
    ):
        acknowledgment = acknowledge(archive, REPORT, url_key=key)
        assert archive.take_acknowledgment(acknowledgment) is REFUSED
        assert said in reason()
        assert stored(archive) == []
    # a key counts once
    forget_accesses(archive)
    acknowledgment = acknowledge(archive, REPORT)
    assert archive.take_acknowledgment(acknowledgment) is COUNTED
    for _ in range(3):
        assert archive.take_acknowledgment(acknowledgment) is REFUSED
        assert "used before" in reason()
    # nor does it count for a related item
    other = acknowledge(archive, REPORT, "GetTranslation(pt)", url_key=acknowledgment.url_key)
    assert archive.take_acknowledgment(other) is REFUSED
    assert len(stored(archive)) == 1
    # a key of a refused acknowledgment can be used again
    forget_accesses(archive)
    acknowledgment = acknowledge(archive, REPORT)
    wrong = replace(acknowledgment, ibi=forms(OLD))
    assert archive.take_acknowledgment(wrong) is REFUSED
    assert archive.take_acknowledgment(acknowledgment) is COUNTED


@pytest.mark.rule("R72-10")
@pytest.mark.postgresql
def test_simultaneous_acknowledgments_with_one_key_count_once(archive: Archive) -> None:
    acknowledgment = acknowledge(archive, REPORT)
    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(archive.take_acknowledgment, [acknowledgment] * 16))
    assert len(stored(archive)) == outcomes.count(COUNTED) == 1


PAIRS = {
    "clientinformation.ipaddress": USER,
    "contenttype": "Data",
    "state": "Original",
    "url": f"http://mtc-m16c.sid.inpe.br/col/{REPORT}/doc/report.pdf",
    "url.persistent": "http://urlib.net/8JMKD3MGP8W/35MME4E",
    "ibi": f"rep {REPORT}",
}


def read(archive: Archive, pairs: list[tuple[str, str]]) -> Acknowledgment:
    key = archive.url_keys.issue(REPORT)
    subject = [("servicesubject", "acknowledgment")]
    if not any(name == "urlkey" for name, _ in pairs):
        subject.append(("urlkey", key))
    found = parse_request([*subject, *pairs])
    assert isinstance(found, Acknowledgment)
    return found


def test_incomplete_and_unrelated_acknowledgments_do_not_count(
    archive: Archive, reason: Callable[[], str]
) -> None:
    # only state and ibi may be missing
    for lacking in [*PAIRS, "urlkey"]:
        for empty in [True, False]:
            forget_accesses(archive)
            pairs = [(name, value) for name, value in PAIRS.items() if name != lacking]
            if empty or lacking == "urlkey":
                pairs.append((lacking, ""))
            good = lacking in ("state", "ibi")
            assert archive.take_acknowledgment(read(archive, pairs)) is (
                COUNTED if good else REFUSED
            )
            assert len(stored(archive)) == good
            if not good:
                assert f"{lacking} is missing" in reason()
    # an item without a relation to the requested item does not count
    for ibi, verbs, changes in [
        (REPORT, "", {"ibi": forms(OLD)}),
        (REPORT, "", {"ibi": forms(REPORT, ONLY_IBIP)}),  # the identifiers belong to two items
        (METADATA, "", {"ibi": forms(WITH_METADATA)}),  # the relation has the opposite direction
        (REPORT, "", {"ibi": None, "url": f"http://mtc-m16c.sid.inpe.br/col/{REPORT}/doc/no.txt"}),
        (CLOSED, "", {"client_addresses": ("203.0.113.9",)}),  # this user may not read the file
    ]:
        forget_accesses(archive)
        acknowledgment = acknowledge(archive, ibi, verbs, **changes)
        assert archive.take_acknowledgment(acknowledgment) is REFUSED
        assert f"{ibi} does not lead to " in reason()
        assert stored(archive) == []


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
    assert row["ibi"] == rep
    assert row["url"].endswith("/doc/Relat%F3rio%20Final.pdf")
    # the key of the example was not issued by this Archive
    assert ask(app, f"{address.path}?{address.query}").body == NOTICE
    assert len(stored(archive)) == 1


def test_the_answer_is_always_the_same_and_the_log_has_the_result(
    filled: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    for changes, counted, said in [
        ({}, 1, ""),
        ({"urlkey": "1424636122-5331490054869684"}, 0, "forged"),
        ({"contenttype": "Metadata"}, 0, "does not lead to"),
        ({"clientinformation.ipaddress": ""}, 0, "clientinformation.ipaddress is missing"),
    ]:
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
