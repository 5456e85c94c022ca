"""backup and restore: everything is restored, on each database, or nothing is changed."""

from __future__ import annotations

import json
import random
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from support.accesses import insert_accesses, item_id
from support.archives import (
    archive_of,
    back_up,
    close,
    import_file,
    import_records,
    make_app,
    restore,
    verify,
)
from support.clocks import Clock
from support.databases import BACKENDS, count_known_rows, new_database
from support.stores import rep_of
from support.tables import SECOND, fill
from support.web import REPORT, shelf

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.care.backup import MANIFEST, BackupWriter, ContentFault
from flask_ibi_archive.archive.care.restore import Restorer
from flask_ibi_archive.archive.items import table_rows
from flask_ibi_archive.archive.items import tables as models
from flask_ibi_archive.archive.items.minting import Minter
from flask_ibi_archive.archive.items.table_rows import dump_rows, read_last_ids, reflect_tables
from flask_ibi_archive.core.identifiers import build_repository_prefix
from flask_ibi_archive.core.records.fields import format_line
from flask_ibi_archive.core.records.parse import parse_line
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import BackupError, NotReady, StorageError
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database

NEXT = rep_of(1)
MINTING = {"IBI_MINT_HOST": "sid.inpe.br", "IBI_GRANULARITY": "0.000001"}

Make = Callable[..., Archive]
#: An export of a development version, with its files.
DATA = Path(__file__).with_name("data")


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Creates Archives that are not initialised, on a new database or on that of another one."""
    with ExitStack() as stack:

        def new(backend: str, uri: str | None = None, **config: Any) -> Archive:
            folder = tmp_path_factory.mktemp(backend)
            if uri is None:
                uri = stack.enter_context(new_database(backend, folder))
            app = make_app(uri, folder, **{**MINTING, **config})
            stack.callback(close, app)
            return archive_of(app)

        yield new


def tables_of(database: Database, *left_out: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables, except those that a restore changes."""
    with database.snapshot() as connection:
        return {
            name: list(dump_rows(connection, table))
            for name, table in reflect_tables(connection).items()
            if name not in ("ibi_prefix", *left_out)
        }


def export(archive: Archive) -> list[str]:
    """Return the lines of an export without the path of the folder of files."""
    own = str(archive.files_folder.folder.absolute())
    return [format_line(item.record).replace(own, "") for item in archive.find()]


@pytest.fixture(scope="module")
def full(backend: str, make: Make, tmp_path_factory: Any) -> Archive:
    """An Archive in a database with rows in every table; tests do not change it."""
    archive = make(backend)
    uri = archive.config.database_uri
    second = make(backend, uri, IBI_ARCHIVE_SERVICE_IBI=SECOND)
    second.__dict__["files_folder"] = archive.files_folder
    fill(archive, second, tmp_path_factory.mktemp("sources"))
    return archive


@pytest.fixture(scope="module")
def backup(full: Archive, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of the database of ``full``."""
    path = tmp_path_factory.mktemp("backup") / "archive.zip"
    faults: list[ContentFault] = []
    back_up(full, path, report=faults.append)
    assert faults == []
    return path


@pytest.fixture
def empty(request: pytest.FixtureRequest, backend: str, make: Make) -> Archive:
    """An Archive to restore to; the kind of its database is an optional parameter."""
    return make(getattr(request, "param", backend))


# --- backup and restore ------------------------------------------------------------------------


def test_every_table_of_the_backup_has_rows(full: Archive) -> None:
    rows = tables_of(full.database)
    assert all(rows.values())
    not_dumped = {
        "ibi_prefix",
        "ibi_visitor_salt",
        "ibi_changed_item",
        "ibi_request_count",
        "ibi_claim_note",
    }
    assert rows.keys() == models.metadata.tables.keys() - not_dumped


@pytest.mark.parametrize("empty", BACKENDS, indirect=True)
def test_a_restore_returns_the_same_archives_on_each_database(
    full: Archive, backup: Path, empty: Archive
) -> None:
    reported: list[tuple[str, int, int]] = []
    done = restore(empty, backup, progress=lambda *words: reported.append(words))
    assert done.archives == [empty.config.archive_service_ibi, SECOND]
    assert (done.items, done.faults) == (len(tables_of(full.database)["ibi_item"]), 0)
    assert tables_of(empty.database) == tables_of(full.database)
    assert export(empty) == export(full)
    assert verify(empty).faults == 0
    assert len(list(empty.files_folder.walk())) == done.contents > 5
    assert ("rows", done.rows, done.rows) in reported
    empty.database.check()
    if empty.database.engine.dialect.name == "postgresql":
        assert count_known_rows(empty.database, "ibi_item") == done.items
    # the restored Archive can be used: new rows get new numbers
    added = empty.deposit(ItemRecord())
    assert added.rep not in "".join(export(full))


def test_a_backup_of_a_restored_database_is_the_same(
    full: Archive, backup: Path, empty: Archive, tmp_path: Path
) -> None:
    restore(empty, backup)
    back_up(empty, tmp_path / "again.zip")
    with zipfile.ZipFile(backup) as one, zipfile.ZipFile(tmp_path / "again.zip") as other:
        names = [name for name in one.namelist() if "ibi_prefix" not in name]
        assert names == [name for name in other.namelist() if "ibi_prefix" not in name]
        for name in names:
            assert name == "manifest.json" or one.read(name) == other.read(name)


def test_nothing_secret_is_in_a_backup(full: Archive, backup: Path) -> None:
    assert backup.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(backup) as archive:
        whole = b"\n".join(archive.read(name) for name in archive.namelist())
        assert not [name for name in archive.namelist() if "salt" in name]
    for secret in (b"a secret for tests", b"5a175a17"):
        assert secret not in whole


@pytest.mark.parametrize(
    ("kind", "empty"),
    [BACKENDS, pytest.param(*BACKENDS[::-1], marks=pytest.mark.slow)],
    indirect=["empty"],
    ids=str,
)
def test_the_id_of_a_deleted_row_is_not_reused(
    make: Make, kind: str, empty: Archive, tmp_path: Path
) -> None:
    source = make(kind)
    source.init()
    with source.database.writing() as connection:
        connection.execute(text("INSERT INTO ibi_edition_series (archive_id) VALUES (1)"))
        connection.execute(text("DELETE FROM ibi_edition_series"))
    back_up(source, tmp_path / "x.zip")
    restore(empty, tmp_path / "x.zip", replace=True)
    with empty.database.snapshot() as connection:
        numbers = read_last_ids(connection, reflect_tables(connection))
    assert numbers["ibi_edition_series"] == 1
    with empty.database.writing() as connection:
        connection.execute(text("INSERT INTO ibi_edition_series (archive_id) VALUES (1)"))
        assert connection.scalar(text("SELECT id FROM ibi_edition_series")) == 2
    # row IDs of the replaced database are not used again either
    restore(empty, tmp_path / "x.zip", replace=True)
    with empty.database.snapshot() as connection:
        numbers = read_last_ids(connection, reflect_tables(connection))
    assert numbers["ibi_edition_series"] == 2


def test_an_export_made_before_is_imported(empty: Archive) -> None:
    empty.init()
    import_file(empty, DATA / "export-1.jsonl")
    assert [without_sources(item.record) for item in empty.find()] == parse_export(
        DATA / "export-1.jsonl"
    )
    assert verify(empty).faults == 0


def parse_export(path: Path) -> list[Record]:
    return [without_sources(parse_line(line)) for line in path.read_bytes().splitlines()]


def without_sources(record: Record) -> Record:
    """Return a record without the places of its files."""
    return replace(record, files=tuple(replace(file, source=None) for file in record.files))


def test_the_statistics_are_the_same_after_a_restore(
    make: Make, empty: Archive, tmp_path: Path
) -> None:
    old = make("sqlite")
    old.init()
    import_records(old, [{"rep": REPORT}])
    item = item_id(old, REPORT)
    insert_accesses(old, [{"item_id": item, "second": 1_772_409_540 + n * 10} for n in range(9)])
    before = old.statistics(REPORT, "day"), old.statistics(None, "day")
    assert before[1].double_clicks == 8
    back_up(old, tmp_path / "old.zip")
    restore(empty, tmp_path / "old.zip")
    assert (empty.statistics(REPORT, "day"), empty.statistics(None, "day")) == before


# --- consistent while others write ------------------------------------------------------------


def test_a_backup_contains_whole_transactions(
    make: Make, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make(backend)
    archive.init()
    ended, begun = Event(), Event()

    def slowly(connection: Any, table: Any, *more: Any) -> Any:
        rows = dump_rows(connection, table, *more)
        yield from rows
        if table.name == "ibi_archive":  # the first table was read, the others not yet
            begun.set()
            assert ended.wait(60)

    def write() -> None:
        for number in range(30):
            pair = [
                {"rep": f"sid.inpe.br/{side}/2009/07.21.13.{number:02}"} for side in ("one", "two")
            ]
            (tmp_path / f"{number}.txt").write_text(str(number))
            for record in pair:
                record["files"] = [{"path": "a", "source": f"{number}.txt"}]  # type: ignore[assignment]
            import_records(archive, pair, tmp_path)
            if number == 10:
                started.set()
                assert begun.wait(60)
        ended.set()

    started = Event()
    monkeypatch.setattr(table_rows, "dump_rows", slowly)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        assert started.wait(60)
        done = back_up(archive, tmp_path / "x.zip")
        writing.result(60)
    restored = make(backend)
    restore(restored, tmp_path / "x.zip")
    lines = [json.loads(line) for line in export(restored)]
    assert len(lines) == done.items - 1 == 22
    assert sum("/one/" in line["rep"] for line in lines) == 11
    assert (verify(restored).faults, verify(restored).contents) == (0, 11)


# --- identifiers ---------------------------------------------------------------------------------


HOSTS = ("sid.inpe.br", "other.inpe.br")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(HOSTS),
        st.sampled_from(["60", "1", "0.001"]),
        st.integers(1, 4),
        st.sampled_from(["0", "0.0004", "0.9", "59", "61"]),
    ),
    max_size=3,
)


@pytest.fixture(scope="module")
def grounds(make: Make) -> list[Archive]:
    """Databases that are restored to several times."""
    found = [make(backend) for backend in BACKENDS]
    for archive in found:
        archive.init()
    return found


RUN = {
    "before": STEPS,
    "lost": STEPS,
    "after": STEPS,
    "source": st.integers(0, 1),
    "target": st.integers(0, 1),
}


@settings(max_examples=3)
@given(**RUN)
def test_no_identifier_is_minted_again_after_a_restore(
    grounds: list[Archive], tmp_path_factory: pytest.TempPathFactory, **run: Any
) -> None:
    mint_and_restore(grounds, tmp_path_factory.mktemp("backup") / "x.zip", **run)


@pytest.mark.slow
@given(**RUN)
def test_no_identifier_is_minted_again_after_many_restores(
    grounds: list[Archive], tmp_path_factory: pytest.TempPathFactory, **run: Any
) -> None:
    mint_and_restore(grounds, tmp_path_factory.mktemp("backup") / "x.zip", **run)


def mint_and_restore(
    grounds: list[Archive], path: Path, before: Any, lost: Any, after: Any, source: int, target: int
) -> None:
    """Mint before a backup, after it, and after its restore; no identifier may occur twice."""
    clock = Clock(Fraction("1287588115.5"))

    def mint(database: Database, steps: Any) -> list[str]:
        found = []
        for host, granularity, count, pause in steps:
            clock.now += Fraction(pause)
            prefixes = build_repository_prefix(host, 80), "8JMKD3MGP8W"
            minter = Minter(database, prefixes, Fraction(granularity), 1000, clock)
            minter.wait = clock.wait
            found += [text for one in minter.mint(count) for text in (one.rep, one.ibip)]
        return found

    archive = grounds[source]
    other = grounds[target]
    for one in (archive, other):
        with one.database.writing() as connection:
            connection.execute(text("DELETE FROM ibi_prefix"))
    minted = mint(archive.database, before)
    BackupWriter(archive.database, archive.files_folder, clock=clock).write(path)
    minted += mint(archive.database, lost)
    Restorer(other.database, other.files_folder, replace=True, clock=clock).run(path)
    minted += mint(other.database, [*after, *((host, "60", 1, "0") for host in HOSTS)])
    assert len(set(minted)) == len(minted)


def test_the_last_dates_of_replaced_tables_remain_valid(make: Make, tmp_path: Path) -> None:
    archive = make("sqlite")
    archive.init()
    back_up(archive, tmp_path / "x.zip")
    with archive.database.writing() as connection:
        connection.execute(text("INSERT INTO ibi_prefix VALUES ('a.br/b', '99999999999.5')"))
    restore(archive, tmp_path / "x.zip", replace=True)
    with archive.database.reading() as connection:
        rows = connection.execute(text("SELECT prefix, last_date FROM ibi_prefix"))
        dates = {row.prefix: row.last_date for row in rows}
    assert dates["a.br/b"] == "99999999999.5"
    assert float(dates[""]) < 99999999999


def test_a_clock_earlier_than_the_backup_is_refused(
    backup: Path, empty: Archive, tmp_path: Path
) -> None:
    restorer = Restorer(empty.database, empty.files_folder, clock=lambda: Fraction(1287588115))
    with pytest.raises(
        BackupError, match="set the clock right, because otherwise identifiers could"
    ):
        restorer.run(backup)


# --- what prevents a restore ---------------------------------------------------------------


def test_a_database_with_an_archive_is_replaced_only_with_replace(
    full: Archive, backup: Path, empty: Archive
) -> None:
    empty.init()
    before = tables_of(empty.database)
    with pytest.raises(StorageError, match=r"already contains an Archive; .* --replace"):
        restore(empty, backup)
    restore(empty, backup, replace=True, dry_run=True)
    assert tables_of(empty.database) == before
    assert list(empty.files_folder.walk()) == []
    restore(empty, backup, replace=True)
    assert tables_of(empty.database) == tables_of(full.database)
    assert empty.served().service_ibi == empty.config.archive_service_ibi


def test_a_restore_leaves_intact_files_and_repairs_damaged_ones(
    full: Archive, backup: Path, empty: Archive
) -> None:
    restore(empty, backup)
    kept = [empty.files_folder.path(one.sha256) for one in empty.files_folder.walk()]
    extra = empty.files_folder.path("0" * 64)
    extra.parent.mkdir(parents=True)
    extra.write_text("nobody's")
    kept[0].write_bytes(b"damaged")
    kept[1].unlink()
    number = kept[2].stat().st_ino
    restore(empty, backup, replace=True)
    assert verify(empty).faults == 0
    assert extra.exists()
    assert kept[2].stat().st_ino == number


def test_a_dry_run_changes_nothing(backup: Path, empty: Archive) -> None:
    done = restore(empty, backup, dry_run=True)
    assert done.items > 20
    assert empty.database.read(migrate.current_revision) is None
    assert not empty.files_folder.folder.exists()


def test_a_restored_archive_is_found_by_its_service_ibi(
    make: Make, empty: Archive, tmp_path: Path
) -> None:
    source = make("sqlite", IBI_ARCHIVE_SERVICE_IBI=SECOND)
    source.init()
    back_up(source, tmp_path / "x.zip")
    with pytest.raises(NotReady):
        empty.served()
    restore(empty, tmp_path / "x.zip")
    with pytest.raises(NotReady, match="does not contain the Archive sid"):
        empty.served()
    restore(source, tmp_path / "x.zip", replace=True)
    assert source.served().service_ibi == SECOND


def test_rows_that_violate_a_constraint_are_refused_and_nothing_is_changed(
    backup: Path, empty: Archive, tmp_path: Path
) -> None:
    def two_services(rows: list[dict[str, Any]]) -> None:
        rows[3]["is_service"] = True

    changed = rewrite(backup, tmp_path / "x.zip", "ibi_item", two_services)
    with pytest.raises(BackupError, match="the database refuses a row"):
        restore(empty, changed)
    assert empty.database.read(migrate.current_revision) is None
    assert list(empty.files_folder.walk()) == []


# --- contents that can't be read -----------------------------------------------------------------


def test_a_backup_reports_missing_and_damaged_files_and_contains_the_others(
    make: Make, empty: Archive, tmp_path: Path
) -> None:
    archive = make("sqlite")
    archive.init()
    import_records(archive, shelf(tmp_path / "sources"))
    kept = [archive.files_folder.path(one.sha256) for one in archive.files_folder.walk()]
    kept[0].unlink()
    kept[1].write_bytes(b"damaged")
    kept[2].unlink()
    kept[2].mkdir()
    faults: list[ContentFault] = []
    done = back_up(archive, tmp_path / "x.zip", report=faults.append)
    assert [fault.sha256 for fault in faults] == [path.name for path in kept[:3]]
    assert [fault.kind for fault in faults] == ["missing", "damaged", "missing"]
    assert (done.faults, done.contents) == (3, len(kept) - 3)
    assert restore(empty, tmp_path / "x.zip").faults == 3
    assert tables_of(empty.database) == tables_of(archive.database)
    assert {one.sha256 for one in empty.files_folder.walk()} == {path.name for path in kept[3:]}


# --- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["no folder/x.zip", "."])
def test_a_target_that_cannot_be_written_is_an_error_and_nothing_remains(
    full: Archive, tmp_path: Path, target: str
) -> None:
    with pytest.raises(StorageError, match="can't be written: "):
        back_up(full, tmp_path / target)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limits there")
def test_a_full_disk_is_an_error_and_the_old_backup_remains(full: Archive, tmp_path: Path) -> None:
    import resource

    path = tmp_path / "x.zip"
    path.write_bytes(b"old")
    for limit in (0, 1000, 4000):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        # on SQLite, the reader's own files have to fit
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            with pytest.raises(StorageError, match="can't be written: File too large"):
                BackupWriter(full.database, full.files_folder).write(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert [one.name for one in tmp_path.iterdir()] == ["x.zip"]
        assert path.read_bytes() == b"old"


def test_a_backup_replaces_the_old_one_with_its_permissions(full: Archive, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"old")
    path.chmod(0o640)
    back_up(full, path)
    assert zipfile.is_zipfile(path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["x.zip"]


def test_a_database_without_tables_is_not_backed_up(empty: Archive, tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="does not contain the tables; run: flask ibi init"):
        back_up(empty, tmp_path / "x.zip")
    assert list(tmp_path.iterdir()) == []


def rewrite(
    backup: Path, path: Path, table: str, change: Callable[[list[dict[str, Any]]], Any]
) -> Path:
    """Write a backup with other rows of a table, and with their number in the manifest."""
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(path, "w") as new:
        manifest = json.loads(old.read("manifest.json"))
        member = f"tables/{table}.jsonl"
        rows = [json.loads(line) for line in old.read(member).splitlines()]
        change(rows)
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        manifest["tables"][table] = len(rows)
        for name in old.namelist():
            other = {member: data, "manifest.json": json.dumps(manifest).encode()}
            new.writestr(name, other.get(name) or old.read(name))
    return path


def change_manifest(backup: Path, path: Path, **changes: Any) -> Path:
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "manifest.json":
                data = json.dumps({**json.loads(data), **changes}).encode()
            new.writestr(name, data)
    return path


def change_faults(backup: Path, path: Path, data: bytes) -> Path:
    leave_out(backup, path, "faults")
    return add_member(path, path, "faults.jsonl", data)


def add_member(backup: Path, path: Path, name: str, data: bytes = b"x") -> Path:
    path.write_bytes(backup.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, data)
    return path


def leave_out(backup: Path, path: Path, start: str) -> Path:
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(path, "w") as new:
        gone = next(name for name in old.namelist() if name.startswith(start))
        for name in old.namelist():
            if name != gone:
                new.writestr(name, old.read(name))
    return path


def flip(backup: Path, path: Path, start: str) -> Path:
    """Change a byte in the middle of a member."""
    data = bytearray(backup.read_bytes())
    with zipfile.ZipFile(backup) as archive:
        info = next(one for one in archive.infolist() if one.filename.startswith(start))
        place = info.header_offset + 30 + len(info.filename) + 20 + info.compress_size // 2
    data[place] ^= 0x55
    path.write_bytes(data)
    return path


def bomb(backup: Path, path: Path, start: str, size: int) -> Path:
    """State another size of a member in the ZIP's directory."""
    data = bytearray(backup.read_bytes())
    with zipfile.ZipFile(backup) as archive:
        info = next(one for one in archive.infolist() if one.filename.startswith(start))
        place = data.rindex(info.filename.encode(), archive.start_dir) - 46 + 24
    data[place : place + 4] = size.to_bytes(4, "little")
    path.write_bytes(data)
    return path


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def no_zip(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", "{}")
    return path


def counts_of(backup: Path) -> dict[str, int]:
    """Return the numbers of rows that the manifest states."""
    with zipfile.ZipFile(backup) as archive:
        found: dict[str, int] = json.loads(archive.read("manifest.json"))["tables"]
    return found


def drop_column(rows: list[dict[str, Any]]) -> None:
    del rows[0]["position"]


def wrong_type(rows: list[dict[str, Any]]) -> None:
    rows[0]["position"] = "1"


DAMAGED = "the file is not a backup, or it is damaged: "
DAMAGES: dict[str, tuple[Callable[[Path, Path], Path], str]] = {
    "empty": (lambda b, p: write(p, b""), "File is not a zip file"),
    "no ZIP": (lambda b, p: write(p, b"%PDF-1.4" * 100), "File is not a zip file"),
    "another ZIP": (lambda b, p: no_zip(p), "manifest.json is not the manifest of a"),
    "a ZIP without manifest": (lambda b, p: leave_out(b, p, "manifest"), "no item named"),
    "a byte of rows": (lambda b, p: flip(b, p, "tables/ibi_item."), DAMAGED),
    "a byte of a content": (lambda b, p: flip(b, p, "contents/"), "Bad CRC-32"),
    "a byte of the manifest": (lambda b, p: flip(b, p, "manifest"), DAMAGED),
    "a part left out": (
        lambda b, p: leave_out(b, p, "tables/ibi_file."),
        "tables/ibi_file.jsonl is missing",
    ),
    "faults left out": (lambda b, p: leave_out(b, p, "faults"), "faults.jsonl"),
    "a content left out": (lambda b, p: leave_out(b, p, "contents/"), "but manifest.json states"),
    "another content": (lambda b, p: add_member(b, p, "contents/" + "0" * 64), "has the checksum"),
    "a path that climbs out": (
        lambda b, p: add_member(b, p, "../../etc/x"),
        "the backup contains '../../etc/x', but",
    ),
    "an absolute path": (
        lambda b, p: add_member(b, p, "/etc/x"),
        "the backup contains '/etc/x', but",
    ),
    "a part too many": (
        lambda b, p: add_member(b, p, "tables/ibi_item/000002.jsonl"),
        "manifest.json does not name this member",
    ),
    "an unknown table": (
        lambda b, p: change_manifest(b, p, tables={"users": 0}),
        "'users' is not a table",
    ),
    "a table less": (
        lambda b, p: change_manifest(b, p, tables={}),
        "manifest.json does not name this member",
    ),
    "an unknown revision": (
        lambda b, p: change_manifest(b, p, revision="9999"),
        "the tables have the revision '9999', which this version",
    ),
    "a new version": (
        lambda b, p: change_manifest(b, p, version=3),
        "the backup format has the version '3'",
    ),
    "wrong counts": (
        lambda b, p: change_manifest(b, p, contents=-1),
        "contents in manifest.json has",
    ),
    "no moment": (lambda b, p: change_manifest(b, p, created="soon"), DAMAGED),
    "a moment without a zone": (
        lambda b, p: change_manifest(b, p, created="2024-01-01T00:00:00"),
        DAMAGED,
    ),
    "a fault that is no object": (lambda b, p: change_faults(b, p, b"[]\n"), DAMAGED),
    "a size too small": (lambda b, p: bomb(b, p, "tables/ibi_item.", 9), DAMAGED),
    "a size too big": (
        lambda b, p: bomb(b, p, "tables/ibi_item.", 1 << 30),
        "does not have the size",
    ),
    "a column less": (
        lambda b, p: rewrite(b, p, "ibi_file", drop_column),
        "a row of ibi_file must have the columns",
    ),
    "a row less": (
        lambda b, p: change_manifest(b, p, tables={**counts_of(b), "ibi_file": 1}),
        "rows, but manifest.json states 1",
    ),
    "another type": (lambda b, p: rewrite(b, p, "ibi_file", wrong_type), ", not int"),
}


def test_a_damaged_backup_is_refused_in_one_line_and_nothing_is_changed(
    backup: Path, make: Make, tmp_path: Path
) -> None:
    archive = make("sqlite")
    for damage, (harm, said) in DAMAGES.items():
        path = harm(backup, tmp_path / "x.zip")
        with pytest.raises(BackupError) as caught:
            restore(archive, path)
        message = str(caught.value)
        assert said in message, damage
        assert message.startswith(f"{path} can't be restored: "), damage
        assert "\n" not in message, damage
        assert archive.database.read(migrate.current_revision) is None, damage
        assert list(archive.files_folder.walk()) == [], damage
        assert not list(archive.files_folder.folder.glob(".*")), damage


#: Values that replace a value somewhere in the JSON of a backup.
HOSTILE = (None, True, -1, 2**70, 1.5, "", "\0", "\ud800", "2024-01-01", [], {}, [[]], {"a": {}})


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 30))
def test_a_backup_with_wrong_values_is_restored_or_refused(
    backup: Path, empty: Archive, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path_factory.mktemp("wrong") / "x.zip"
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(path, "w") as new:
        names = [name for name in old.namelist() if not name.startswith("contents/")]
        changed = chance.choice([*names, MANIFEST, MANIFEST])
        for name in old.namelist():
            data = old.read(name)
            if name == changed and data.strip():
                lines = [data] if name == MANIFEST else data.splitlines(keepends=True)
                number = chance.randrange(len(lines))
                values = replace_value(chance, json.loads(lines[number]))
                lines[number] = json.dumps(values).encode() + b"\n"
                data = b"".join(lines)
            new.writestr(name, data)
    with suppress(BackupError, StorageError):
        restore(empty, path, replace=True, dry_run=True)
    assert not empty.database.exists() or empty.database.read(migrate.current_revision) is None


def replace_value(chance: random.Random, value: Any) -> Any:
    """Return JSON in which one of the values, at any depth, is another one."""
    if not value or not isinstance(value, dict | list) or chance.random() < 0.1:
        return chance.choice(HOSTILE)
    key = chance.choice([*value] if isinstance(value, dict) else range(len(value)))
    value[key] = replace_value(chance, value[key])
    return value


def test_a_truncated_backup_is_refused(backup: Path, make: Make, tmp_path: Path) -> None:
    archive = make("sqlite")
    data = backup.read_bytes()
    for part in (0.0, 0.1, 0.5, 0.9, 0.99, 0.999):
        path = write(tmp_path / "x.zip", data[: int(len(data) * part)])
        with pytest.raises(BackupError, match=DAMAGED):
            restore(archive, path, dry_run=True)


def test_a_missing_backup_is_an_error(empty: Archive, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="the file can't be read: No such file"):
        restore(empty, tmp_path / "x.zip")
    with pytest.raises(BackupError, match="the file can't be read: Is a directory"):
        restore(empty, tmp_path)


def test_a_killed_restore_leaves_only_unneeded_files(
    backup: Path, empty: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flask_ibi_archive.archive.items.staging import Staging

    keep = Staging.move_to_store
    kept: list[Any] = []

    def killed(staging: Staging, content: Any) -> None:
        if len(kept) == 3:
            raise KeyboardInterrupt
        kept.append(content)
        keep(staging, content)

    monkeypatch.setattr(Staging, "move_to_store", killed)
    with pytest.raises(KeyboardInterrupt):
        restore(empty, backup)
    assert empty.database.read(migrate.current_revision) is None
    assert len(list(empty.files_folder.walk())) == 3
    monkeypatch.setattr(Staging, "move_to_store", keep)
    restore(empty, backup)
    assert verify(empty).faults == 0


@pytest.mark.parametrize("column", ["dublin_core", "timestamp"])
def test_a_backup_contains_the_text_of_a_malformed_value_and_all_other_values(
    make: Make, empty: Archive, tmp_path: Path, column: str
) -> None:
    archive = make("sqlite")
    archive.init()
    metadata = {"dc": {"title": ["On rain"]}}
    import_records(
        archive, [{"rep": REPORT, "language": "en"}, {"rep": NEXT, "metadata": metadata}]
    )
    with archive.database.writing() as connection:
        connection.execute(
            text(f"UPDATE ibi_item SET {column} = :value WHERE rep = :rep"),
            {"value": '{"title', "rep": REPORT},
        )
    faults: list[ContentFault] = []
    back_up(archive, tmp_path / "x.zip", report=faults.append)
    [fault] = faults
    assert fault.kind == "malformed"
    assert f"{column} of the row {REPORT} of ibi_item can't be read: " in fault.text
    with zipfile.ZipFile(tmp_path / "x.zip") as written:
        [line] = written.read("malformed.jsonl").splitlines()
    assert json.loads(line) == {
        "table": "ibi_item",
        "row": REPORT,
        "column": column,
        "value": '{"title',
    }
    restore(empty, tmp_path / "x.zip")
    first, second = empty.find()
    assert (first.rep, first.record.language, first.record.metadata) == (REPORT, "en", None)
    assert second.title == "On rain"
