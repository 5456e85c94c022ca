"""The database: reading, writing and errors; timestamps."""

from __future__ import annotations

import gc
import re
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Column, MetaData, Table, event, insert, make_url, select, text
from sqlalchemy.exc import IntegrityError, StatementError
from support.databases import POSTGRESQL, read_only

from flask_ibi_archive.archive.items.served_archives import upgrade_tables
from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import UTCDateTime

COUNT = text("SELECT count(*) FROM ibi_prefix")
ADD = text("INSERT INTO ibi_prefix VALUES (:prefix, '1')")


@pytest.fixture
def database(uri: str) -> Iterator[Database]:
    database = Database(uri)
    with database.writing() as connection:
        migrate.upgrade(connection)
    yield database
    database.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'ibi.sqlite'}")
    database.create()
    with database.writing() as connection:
        migrate.upgrade(connection)
    yield database
    database.close()


def add(database: Database, prefix: str) -> None:
    with database.writing() as connection:
        connection.execute(ADD, {"prefix": prefix})


def counted(database: Database) -> int:
    with database.reading() as connection:
        return int(connection.execute(COUNT).scalar_one())


def test_the_connections_of_a_forgotten_database_are_closed(uri: str) -> None:
    gc.freeze()  # the collection examines only what this test makes
    database = Database(uri)
    drivers: list[Any] = []
    for way in (database.reading, database.writing):
        with way() as connection:
            drivers.append(connection.connection.driver_connection)
    del database, way, connection
    gc.collect()
    for driver in drivers:
        with pytest.raises((sqlite3.ProgrammingError, psycopg.OperationalError), match="closed"):
            driver.execute("SELECT 1")


# --- SQLite --------------------------------------------------------------------------------------


def test_SQLite_is_set_up_on_each_connection(sqlite: Database) -> None:
    for way in (sqlite.reading, sqlite.writing, sqlite.snapshot):
        with way() as connection:
            for pragma, value in (("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)):
                assert connection.scalar(text(f"PRAGMA {pragma}")) == value


@pytest.mark.parametrize("content", ["missing", "empty", "a table"])
def test_a_file_of_the_host_keeps_its_journal_mode(tmp_path: Path, content: str) -> None:
    place = tmp_path / "host.sqlite"
    if content != "missing":
        with closing(sqlite3.connect(place)) as connection:
            connection.execute("CREATE TABLE thesis (id INTEGER)" if content == "a table" else "")
    # without a session of the host, a file with tables is still not ours
    database = Database(f"sqlite:///{place}", belongs_to_host=content != "a table")
    database.create()
    with database.writing() as connection:
        migrate.upgrade(connection)
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "delete"
    database.close()


def test_a_write_transaction_locks_out_other_writers_from_its_start(sqlite: Database) -> None:
    other = sqlite3.connect(str(sqlite.engine.url.database), timeout=0, isolation_level=None)
    with sqlite.writing(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")
    other.close()


def test_a_missing_file_is_created_by_create_and_never_by_a_connection(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "ibi.sqlite"
    database = Database(f"sqlite:///{place}")
    message = rf"^the database file is missing \({place}\); run: flask ibi init$"
    for way in (database.reading, database.writing, database.snapshot):
        with pytest.raises(NotReady, match=message), way():
            pass
    with pytest.raises(NotReady, match=message):
        database.read(lambda connection: None)
    assert not database.exists()
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        database.create()
        assert place.stat().st_size > 0
    with database.writing() as connection:
        migrate.upgrade(connection)
    assert database.exists()
    before = place.read_bytes()
    database.create()
    assert place.read_bytes() == before
    database.close()


def test_a_file_that_cannot_be_created_is_an_error_that_names_it(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a' / 'ibi.sqlite'}")
    (tmp_path / "a").touch()
    with pytest.raises(
        StorageError, match=r"a/ibi\.sqlite can't be created: .*set IBI_DATABASE_URI to the URL"
    ):
        database.create()
    database.close()


def test_a_database_in_memory_is_one_for_all_connections() -> None:
    database = Database("sqlite:///:memory:")
    with database.writing() as connection:
        migrate.upgrade(connection)
    add(database, "a")
    assert counted(database) == 1
    database.close()


# --- both databases ------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_reading_opens_no_transaction(database: Database) -> None:
    statements: list[str] = []
    event.listen(
        database.reader, "before_cursor_execute", lambda *parts: statements.append(parts[2])
    )
    with database.reading() as connection:
        connection.execute(COUNT)
        raw = connection.connection.driver_connection
        if isinstance(raw, sqlite3.Connection):
            assert not raw.in_transaction
        else:
            assert isinstance(raw, psycopg.Connection)
            assert raw.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
    assert statements == [str(COUNT)]


@pytest.mark.postgresql
def test_a_snapshot_sees_one_moment_and_others_the_latest_data(
    database: Database,
) -> None:
    add(database, "a")
    with database.snapshot() as snapshot, database.reading() as reader:
        assert snapshot.scalar(COUNT) == reader.scalar(COUNT) == 1
        add(database, "b")
        assert (snapshot.scalar(COUNT), reader.scalar(COUNT)) == (1, 2)
    assert counted(database) == 2
    # afterwards the connection can write again
    add(database, "c")
    assert counted(database) == 3


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, IntegrityError])
def test_a_transaction_that_fails_is_rolled_back(
    database: Database, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        fail(database, error)
    assert counted(database) == 0
    add(database, "a")
    assert counted(database) == 1


def fail(database: Database, error: type[BaseException]) -> None:
    with database.writing() as connection:
        connection.execute(ADD, {"prefix": "a"})
        if error is IntegrityError:
            connection.execute(ADD, {"prefix": "a"})
        raise error


@pytest.mark.no_tables
@pytest.mark.parametrize("way", ["reading", "writing", "snapshot"])
def test_missing_tables_are_explained(uri: str, way: str) -> None:
    database = Database(uri)
    with (
        pytest.raises(NotReady, match="not have the tables of this version; run: flask ibi init"),
        getattr(database, way)() as connection,
    ):
        connection.execute(COUNT)
    with pytest.raises(NotReady, match="does not contain the tables; run: flask ibi init"):
        database.check()
    database.close()


@pytest.mark.parametrize("way", ["reading", "writing", "snapshot"])
@pytest.mark.parametrize("uri", ["postgresql://nobody@127.0.0.1:1/none", "sqlite:///{}"])
def test_an_unreachable_database_is_explained(uri: str, way: str, tmp_path: Path) -> None:
    database = Database(uri.format(tmp_path))
    with pytest.raises(NotReady) as refusal, getattr(database, way)():
        pass
    assert isinstance(refusal.value, StorageError)
    assert str(refusal.value).startswith("the database does not answer (")
    assert str(refusal.value).endswith(
        "check that the database is running and that IBI_DATABASE_URI is its URL"
    )
    assert "\n" not in str(refusal.value)
    database.close()


@pytest.mark.postgresql
def test_a_read_only_database_is_explained_with_its_place(database: Database, uri: str) -> None:
    reader = Database(read_only(uri))
    with pytest.raises(NotReady) as refusal:
        add(reader, "a")
    assert re.fullmatch(
        r"the database is not writable \((file:/.*\.sqlite|127\.0\.0\.1:5432/ibi_test_.*): .*"
        r"(readonly database|read-only transaction)\); make sure that this process may write the "
        r"database \(for SQLite, also the folder\)",
        str(refusal.value),
    )
    assert "127.0.0.1" not in refusal.value.summary, "the summary must not contain the place"
    assert counted(reader) == 0
    reader.close()


def test_a_full_disk_is_explained_with_its_place(sqlite: Database) -> None:
    def keep_small(connection: Any, record: Any) -> None:
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(sqlite.engine, "connect", keep_small)
    sqlite.close()

    def fill() -> None:
        with sqlite.writing() as connection:
            for number in range(10_000):
                connection.execute(ADD, {"prefix": f"prefix {number}"})

    place = re.escape(str(sqlite.engine.url.database))
    with pytest.raises(
        NotReady, match=rf"^the disk of the database is full \({place}: database or disk is full\)"
    ):
        fill()
    assert counted(sqlite) == 0


# --- times -------------------------------------------------------------------------------------

MOMENT = datetime(2013, 9, 4, 12, 27, 57, 250000, timezone.utc)


@pytest.mark.postgresql
@pytest.mark.parametrize(
    "moment",
    [
        MOMENT,
        MOMENT.astimezone(timezone(timedelta(hours=-3))),
        datetime(1, 1, 1, tzinfo=timezone.utc),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc),
        None,
    ],
)
def test_a_timestamp_is_returned_in_UTC(database: Database, moment: datetime | None) -> None:
    table = Table("moments", MetaData(), Column("moment", UTCDateTime))
    with database.writing() as connection:
        table.create(connection)
        connection.execute(insert(table), {"moment": moment})
        found = connection.execute(select(table)).scalar_one()
    assert found == moment
    assert found is None or found.tzinfo is timezone.utc


def test_a_timestamp_without_a_time_zone_is_refused(database: Database) -> None:
    table = Table("moments", MetaData(), Column("moment", UTCDateTime))
    with database.writing() as connection:
        table.create(connection)
    with pytest.raises(StatementError, match="has no time zone"), database.writing() as connection:
        connection.execute(insert(table), {"moment": datetime(2013, 9, 4)})


@pytest.mark.only_on("postgresql")
def test_a_database_that_cannot_store_all_characters_is_refused_in_one_line(uri: str) -> None:
    name = f"ibi_test_{uuid.uuid4().hex}"
    latin = f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    server = make_url(POSTGRESQL).set(drivername="postgresql")
    with psycopg.connect(server.render_as_string(hide_password=False), autocommit=True) as admin:
        admin.execute(latin)
        database = Database(server.set(database=name).render_as_string(hide_password=False))
        try:
            for check in (lambda: upgrade_tables(database), database.check_revision):
                with pytest.raises(NotReady, match=r"encoding LATIN1.*createdb -E UTF8") as refusal:
                    check()
                assert "\n" not in str(refusal.value)
        finally:
            database.close()
            admin.execute(f"DROP DATABASE {name}")
