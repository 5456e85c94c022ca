"""Acknowledgments: a valid key counts one access; other acknowledgments are only logged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from flask import Flask
from sqlalchemy import create_engine
from support.accesses import (
    USER,
    acknowledge,
    forget_accesses,
    stored,
)
from support.archives import archive_of, import_records, open_app
from support.web import (
    CLOSED,
    METADATA,
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
    shelf,
)

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.service.url_keys import URLKeys
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import Acknowledgment, format_request

LOGGER = "flask_ibi_archive.accesses"
COUNTED, REFUSED = True, False
OURS = "http://mtc-m16c.sid.inpe.br"


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


def count(archive: Archive, acknowledgment: Acknowledgment) -> dict[str, Any]:
    """Take an acknowledgment, and return the access that was counted."""
    forget_accesses(archive)
    assert archive.take_acknowledgment(acknowledgment) is COUNTED
    [row] = stored(archive)
    return row


@pytest.mark.rule("R72-10")
@pytest.mark.postgresql
def test_a_valid_key_counts_one_access(archive: Archive) -> None:
    for ibi, verbs, content_type in [
        (REPORT_IBIP, "", "Data"),
        (OLD, "GetLastEdition", "Data"),
        (WITH_METADATA, "GetMetadata(oai_dc)", "Metadata"),
        # metadata that are not an item have no ibi; the URL identifies them
        (PORTUGUESE, "GetTranslation(en) GetMetadata", "Metadata"),
    ]:
        acknowledgment = acknowledge(archive, ibi, verbs)
        row = count(archive, acknowledgment)
        assert row["ibi"] == {REPORT_IBIP: REPORT}.get(ibi, ibi)
        assert row["content_type"] == content_type
        facts = archive.url_keys.read(acknowledgment.url_key or "")
        assert facts is not None
        assert row["url_key"] == f"{facts.issued}-{facts.nonce.hex()}"
        assert abs(row["second"] - time.time()) < 60
        assert not row["robot"]
    # a file requested by its path counts
    for path in ("new.txt", "日本語.txt"):
        acknowledgment = acknowledge(archive, REPORT, path=path)
        assert acknowledgment.url == f"{OURS}/col/{REPORT}/doc/{path}"
        for named in (acknowledgment, replace(acknowledgment, ibi=None)):
            row = count(archive, named)
            assert row["ibi"] == REPORT
            assert row["url"].isascii()
    # a url followed by a query counts
    for verbs, added in [("GetTranslation(pt) GetFileList", "?utm=x"), ("GetMetadata", "#p")]:
        acknowledgment = acknowledge(archive, REPORT, verbs, ibi=None)
        row = count(archive, replace(acknowledgment, url=f"{acknowledgment.url}{added}"))
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
        (SERVED_ELSEWHERE, "", "https://example.org/other.pdf", False),
    ]:
        acknowledgment = acknowledge(archive, ibi, verbs, url=url)
        assert acknowledgment.ibi
        assert unquote(count(archive, acknowledgment)["url"]) == (url if is_stored else "")
    # the url of a file that is served elsewhere is stored
    named = acknowledge(archive, SERVED_ELSEWHERE, path="日本.pdf", ibi=None)
    assert unquote(count(archive, named)["url"]) == named.url
    # a closed item counts as metadata for other addresses
    for user, content_type in [("203.0.113.9", "Metadata"), (USER, "Data")]:
        row = count(archive, acknowledge(archive, CLOSED, user=user))
        assert row["content_type"] == content_type


def test_a_deleted_item_counts_if_its_key_was_issued_before(app: Flask, tmp_path: Path) -> None:
    archive = archive_of(app)
    import_records(archive, shelf(tmp_path / "sources"))
    named, unnamed = acknowledge(archive, REPORT), acknowledge(archive, REPORT, ibi=None)
    led_on = acknowledge(archive, REPORT, "GetTranslation(pt)")
    archive.delete(REPORT, "withdrawn")
    assert archive.take_acknowledgment(named) is COUNTED
    assert archive.take_acknowledgment(unnamed) is REFUSED
    assert archive.take_acknowledgment(led_on) is REFUSED
    assert len(stored(archive)) == 1


def test_an_invalid_or_used_key_does_not_count(archive: Archive, reason: Callable[[], str]) -> None:
    past = URLKeys(archive.config.secret_keys, 3600, lambda: time.time() - 3700)
    for key, said in (
        (archive.url_keys.issue(REPORT) + "0", "forged"),
        (past.issue(REPORT), "expired"),
        (archive.url_keys.issue("a.br/x/1999/01.01.00.00"), "no item"),
    ):
        acknowledgment = acknowledge(archive, REPORT, url_key=key)
        assert archive.take_acknowledgment(acknowledgment) is REFUSED
        assert said in reason()
        assert stored(archive) == []
    # a key counts once
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


def test_incomplete_and_unrelated_acknowledgments_do_not_count(
    archive: Archive, reason: Callable[[], str]
) -> None:
    # only state and ibi may be missing
    complete = acknowledge(archive, REPORT)
    for name, pair in [
        ("client_addresses", "clientinformation.ipaddress"),
        ("content_type", "contenttype"),
        ("url", "url"),
        ("persistent_url", "url.persistent"),
        ("url_key", "urlkey"),
    ]:
        assert archive.take_acknowledgment(replace(complete, **{name: None})) is REFUSED
        assert f"{pair} is missing" in reason()
    count(archive, replace(complete, state=None, ibi=None))
    forget_accesses(archive)
    # an item without a relation to the requested item does not count
    for ibi, verbs, changes in [
        (REPORT, "", {"ibi": forms(OLD)}),
        (REPORT, "", {"ibi": forms(REPORT, ONLY_IBIP)}),  # the identifiers belong to two items
        (METADATA, "", {"ibi": forms(WITH_METADATA)}),  # the relation has the opposite direction
        (REPORT, "", {"ibi": None, "url": f"http://mtc-m16c.sid.inpe.br/col/{REPORT}/doc/no.txt"}),
        (CLOSED, "", {"client_addresses": ("203.0.113.9",)}),  # this user may not read the file
    ]:
        acknowledgment = acknowledge(archive, ibi, verbs, **changes)
        assert archive.take_acknowledgment(acknowledgment) is REFUSED
        assert f"{ibi} does not lead to " in reason()
        assert stored(archive) == []


NOTICE = b"notice {acknowledgment received}"
NewApp = Callable[..., Flask]
REP = "a.br/x/2001/01.01.00.00"


def send(app: Flask, message: Acknowledgment) -> Answer:
    return ask(app, f"{SERVICE_PATH}?{format_request(message)}")


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
    message = acknowledge(archive, REP)
    forged = replace(message, url_key="1424636122-5331490054869684")
    with locked(archive):
        answer = send(app, message)
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        assert answer.alert
        # there is nothing to count
        assert send(app, forged).body == NOTICE
    assert stored(archive) == []
    assert send(app, message).body == NOTICE
    assert len(stored(archive)) == 1
