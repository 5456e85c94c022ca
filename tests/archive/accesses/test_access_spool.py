"""The spool: it stores accesses while the database is locked or does not answer."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import create_engine, make_url, text
from support.accesses import USER, acknowledge, stored
from support.archives import archive_of, import_records
from support.commands import start_together
from support.web import CLOSED, OLD, REPORT

from flask_ibi_archive.archive.accesses import access_storage
from flask_ibi_archive.archive.accesses.access_storage import Spool
from flask_ibi_archive.archive.accesses.acknowledgments import Outcome, encode_url
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.errors import NotReady

SPOOLED, COUNTED, REFUSED = Outcome.SPOOLED, Outcome.COUNTED, Outcome.REFUSED
NewApp = Callable[..., Flask]


def acknowledge_once(
    archive: Archive, ibi: str = REPORT, verbs: str = "", **changes: object
) -> Outcome:
    return archive.take_acknowledgment(acknowledge(archive, ibi, verbs, **changes))


@pytest.fixture
def archive(app: Flask, tmp_path: Path) -> Archive:
    """An Archive with two items and a short timeout for locks."""
    archive = archive_of(app)
    import_records(archive, [{"rep": REPORT, "next_edition": OLD}, {"rep": OLD}])
    archive.accesses.store.lock_timeout = 0.05
    return archive


@contextmanager
def locked(archive: Archive) -> Iterator[None]:
    """Hold a lock in another connection, so that accesses cannot be stored."""
    url = archive.config.database_uri
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=9)) as other:
            other.isolation_level = None
            other.execute("BEGIN IMMEDIATE")
            yield
        return
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("LOCK TABLE ibi_access IN EXCLUSIVE MODE"))
        yield
    engine.dispose()


@contextmanager
def away(archive: Archive) -> Iterator[None]:
    """Rename the database during the block, as if the server were down."""
    url = archive.config.database_uri
    archive.database.close()
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        moved = path.with_suffix(".moved")
        path.rename(moved)
        yield
        for name in (path, *(Path(f"{path}{end}") for end in ("-wal", "-shm"))):
            name.unlink(missing_ok=True)
        moved.rename(path)
        archive.database.close()
        return
    schema = str(make_url(url).query["application_name"])
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"ALTER SCHEMA {schema} RENAME TO {schema}_away"))
        yield
        connection.execute(text(f"ALTER SCHEMA {schema}_away RENAME TO {schema}"))
    engine.dispose()
    archive.database.close()


def files(archive: Archive) -> list[Path]:
    """Return the files in the spool."""
    folder = archive.config.spool_folder
    return sorted(folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("trouble", [locked, away])
def test_an_access_is_spooled_while_the_database_is_locked_or_fails(
    archive: Archive, trouble: Callable[[Archive], object]
) -> None:
    assert acknowledge_once(archive) is COUNTED
    acknowledgment = acknowledge(archive, REPORT)
    led_on = acknowledge(archive, REPORT, "GetLastEdition")
    with trouble(archive):  # type: ignore[attr-defined]
        start = time.monotonic()
        assert archive.take_acknowledgment(acknowledgment) is SPOOLED
        assert time.monotonic() - start < 5
        assert archive.take_acknowledgment(acknowledgment) is SPOOLED  # a repetition
        assert archive.take_acknowledgment(led_on) is SPOOLED
        assert len(files(archive)) == 2
    for path in files(archive):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert USER not in path.read_text()
    assert len(stored(archive)) == 1
    assert acknowledge_once(archive, OLD) is COUNTED  # this acknowledgment imports the spool
    assert files(archive) == []
    rows = stored(archive)
    assert len(rows) == 4
    assert [(row["asked"], row["delivered"], row["relation"]) for row in rows[2:]].count(
        (REPORT, OLD, ".lastedition")
    ) == 1
    # a repetition after the import does not count
    assert archive.take_acknowledgment(acknowledgment) is REFUSED
    assert len({row["url_key"] for row in stored(archive)}) == 4


@pytest.mark.parametrize("trouble", [locked, away])
def test_the_spool_is_imported_after_a_restart(
    archive: Archive, new_app: NewApp, trouble: Callable[[Archive], object]
) -> None:
    acknowledgment = acknowledge(archive, REPORT)
    with trouble(archive):  # type: ignore[attr-defined]
        assert archive.take_acknowledgment(acknowledgment) is SPOOLED
    again = archive_of(new_app())
    assert acknowledge_once(again, OLD) is COUNTED
    assert files(again) == []
    assert again.statistics().downloads == 2


def test_a_key_that_expires_in_the_spool_still_counts(archive: Archive, new_app: NewApp) -> None:
    acknowledgment = acknowledge(archive, REPORT)
    with locked(archive):
        assert archive.take_acknowledgment(acknowledgment) is SPOOLED
    later = archive_of(new_app())
    later.url_keys.clock = later.accesses.clock = lambda: time.time() + 90_000
    assert later.accesses.store.import_spool() == 1
    [row] = stored(later)
    assert abs(row["second"] - time.time()) < 60  # the time when the acknowledgment was received
    assert later.take_acknowledgment(acknowledgment) is REFUSED


def test_forged_and_incomplete_acknowledgments_are_never_spooled(archive: Archive) -> None:
    acknowledgment = acknowledge(archive, REPORT)
    with away(archive):
        for changed in (
            replace(acknowledgment, url_key="1424636122-5331490054869684"),
            replace(acknowledgment, url=None),
        ):
            assert archive.take_acknowledgment(changed) is REFUSED
    assert files(archive) == []


def test_an_unrelated_item_is_refused_when_the_spool_is_imported(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = acknowledge(archive, OLD, ibi=(parse_identifier(REPORT),))
    with away(archive):
        assert archive.take_acknowledgment(wrong) is SPOOLED
    caplog.clear()
    assert archive.accesses.store.import_spool() == 0
    assert "does not lead to" in caplog.text
    assert files(archive) == stored(archive) == []


@pytest.mark.parametrize("trouble", [locked, away])
def test_a_url_of_another_server_is_not_stored_when_the_spool_is_imported(
    archive: Archive, trouble: Callable[[Archive], object]
) -> None:
    good = acknowledge(archive, REPORT)
    wrong = acknowledge(archive, REPORT, url="http://example.org/")
    with trouble(archive):  # type: ignore[attr-defined]
        assert archive.take_acknowledgment(good) is SPOOLED
        assert archive.take_acknowledgment(wrong) is SPOOLED
    assert archive.accesses.store.import_spool() == 2
    assert {row["url"] for row in stored(archive)} == {encode_url(good.url or ""), ""}


def test_a_user_allowed_by_the_last_octet_of_the_address_still_counts(
    archive: Archive, tmp_path: Path
) -> None:
    rule = {"networks": [f"{USER}/32"], "others": "none"}
    import_records(archive, [{"rep": CLOSED, "access": rule}])
    acknowledgment = acknowledge(archive, CLOSED)
    with away(archive):
        assert archive.take_acknowledgment(acknowledgment) is SPOOLED
    assert archive.accesses.store.import_spool() == 1


def test_an_access_is_spooled_before_the_archive_is_known(
    archive: Archive, new_app: NewApp
) -> None:
    acknowledgment = acknowledge(archive, REPORT)
    fresh = archive_of(new_app())
    with away(archive):
        assert fresh.take_acknowledgment(acknowledgment) is SPOOLED
    # the other Archive will import the file
    far = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI="sid.inpe.br/mtc-m99@80/2008/03.17.15.17"))
    far.init()
    assert far.accesses.store.import_spool() == 0
    fresh.database.close()
    assert fresh.accesses.store.import_spool() == 1
    assert files(fresh) == []


def test_an_access_that_cannot_be_spooled_is_not_answered(archive: Archive, tmp_path: Path) -> None:
    acknowledgment = acknowledge(archive, REPORT)
    (tmp_path / "file").touch()
    archive.accesses.store.spool = Spool(tmp_path / "file" / "spool")
    with locked(archive), pytest.raises(NotReady, match="IBI_SPOOL_FOLDER"):
        archive.take_acknowledgment(acknowledgment)
    assert archive.take_acknowledgment(acknowledgment) is COUNTED


def test_an_access_counts_once_after_a_crash_before_its_file_is_deleted(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(archive):
        assert acknowledge_once(archive) is SPOOLED
    with monkeypatch.context() as patch:
        patch.setattr(Spool, "delete", lambda self, path: None)
        assert archive.accesses.store.import_spool() == 1
        assert len(files(archive)) == 1
    assert archive.accesses.store.import_spool() == 0
    assert files(archive) == []
    assert len(stored(archive)) == 1


def test_broken_files_of_the_spool_are_renamed_and_skipped(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    with locked(archive):
        assert acknowledge_once(archive) is SPOOLED
    [good] = files(archive)
    content = json.loads(good.read_text())
    broken = {
        "empty": "",
        "half": good.read_text()[:50],
        "list": "[]",
        "null": "null",
        "deep": "[" * 100_000,
        "more": json.dumps({**content, "more": 1}),
        "less": json.dumps({"second": 1, "delivery": None}),
        "second": json.dumps({**content, "second": "1"}),
        "visitors": json.dumps({**content, "visitors": []}),
        "content": json.dumps({**content, "url_key": "other", "content_type": "Deleted"}),
    }
    for name, value in broken.items():
        (good.parent / f"0-{name}.json").write_text(value)
    (good.parent / ".new-0123456789abcdef").write_text("left")
    os.utime(good.parent / ".new-0123456789abcdef", (0, 0))
    (good.parent / ".new-00").write_text("being written")
    assert archive.accesses.store.import_spool() == 1
    assert sorted(path.name for path in files(archive)) == sorted(
        [".new-00", *(f"0-{name}.json.bad" for name in broken)]
    )
    assert caplog.text.count("contains no valid access") == len(broken)
    assert archive.accesses.store.import_spool() == 0
    assert len(stored(archive)) == 1


def test_the_spool_is_imported_in_batches(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_storage, "BATCH", 5)
    with locked(archive):
        archive.accesses.store.lock_timeout = 0.001
        for _ in range(13):
            assert acknowledge_once(archive) is SPOOLED
    assert acknowledge_once(archive) is COUNTED
    assert len(files(archive)) == 8
    assert archive.accesses.store.import_spool() == 8
    assert files(archive) == []
    found = archive.statistics()
    assert found.downloads + found.double_clicks == 14


def test_two_processes_with_one_key_count_once(archive: Archive, tmp_path: Path) -> None:
    acknowledgment = acknowledge(archive, REPORT)
    assert acknowledgment.url_key is not None
    (tmp_path / "acknowledgment").write_bytes(pickle.dumps(acknowledgment))
    outcomes: list[Outcome] = []

    def record_here() -> None:
        with ThreadPoolExecutor(4) as pool:
            outcomes.extend(pool.map(archive.take_acknowledgment, [acknowledgment] * 4))

    [(printed, _)] = start_together(
        Path(__file__).with_name("access_process.py"),
        (archive.config.database_uri, tmp_path, tmp_path / "acknowledgment"),
        here=record_here,
    )
    names = [*printed.split(), *(outcome.name for outcome in outcomes)]
    assert len(names) == 8
    assert names.count("COUNTED") <= 1
    archive.accesses.store.import_spool()
    assert len(stored(archive)) == 1
