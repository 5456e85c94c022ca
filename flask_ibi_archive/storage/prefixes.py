"""The last date issued under each prefix: the state of the temporal distributor ([G] 5 and 6).

An identifier consists of a prefix, which names the Archive, and a suffix, which encodes a date. The
temporal distributor issues each date only once per prefix, so it stores the last date in the table
``ibi_prefix``. Every identifier needs a transaction. To save time, its statements are texts that
are built once and sent to the driver directly: SQLAlchemy needs several times as long for them.

SQLite has one writer at a time. While the host has a transaction open, nothing else can be
committed, and a rollback removes what the transaction stored. Dates issued in such a transaction
are therefore also stored in a file next to the database (:class:`LastDateFile`).
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError

from flask_ibi_archive.errors import MintingError, StorageError
from flask_ibi_archive.identifiers import format_decimal, parse_decimal
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.engines import begin, in_memory
from flask_ibi_archive.storage.file_io import new_file
from flask_ibi_archive.storage.models import Prefix

#: The prefix of a row that applies to all prefixes: after a restore, any may have been used.
EVERY_PREFIX = ""

#: The number of identifiers that one statement finds: SQLite before 3.32 accepts 999 parameters.
LOOKUP = 200

# --- transactions of the driver ------------------------------------------------------------------


@contextmanager
def driver_writing(database: Database) -> Iterator[Connection]:
    """Yield a connection in a transaction of the driver, which an exception rolls back.

    Use the connection with :func:`run_driver` only.

    :raises NotReady: if the database does not answer, or lacks the tables.
    """
    with database.reading() as connection:
        run = partial(run_driver, connection)
        begin(connection, database.find_budget(), run)
        try:
            yield connection
            run("COMMIT")
        except BaseException:
            if not connection.invalidated:
                with suppress(DBAPIError):
                    run("ROLLBACK")
            raise


def run_driver(connection: Connection, statement: str, values: tuple[str, ...] = ()) -> Any:
    """Run a statement with the driver and return its cursor.

    :raises DBAPIError: if the driver raises an error, as SQLAlchemy does.
    """
    driver: Any = connection.connection.dbapi_connection
    dialect = connection.dialect
    error_class: Any = dialect.loaded_dbapi.Error
    try:
        return driver.execute(statement, values)
    except error_class as error:
        is_lost = dialect.is_disconnect(error, driver, None)
        if is_lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            statement,
            values,
            error,
            error_class,
            connection_invalidated=is_lost,
            dialect=dialect,
        ) from error


# --- statements ----------------------------------------------------------------------------------


def lock_last_date(connection: Connection, prefixes: Sequence[str]) -> Fraction | None:
    """Return the latest date issued under any of the prefixes, and lock the prefixes.

    The date of :data:`EVERY_PREFIX` counts for all prefixes. The lock ends with the transaction; on
    SQLite, the transaction must hold the write lock already.

    :returns: POSIX seconds; None if no date was issued yet.
    """
    dialect = connection.dialect.name
    wanted = (EVERY_PREFIX, *sorted(prefixes))
    statement = _select_dates(dialect, len(wanted))
    rows = run_driver(connection, statement, wanted).fetchall()
    if dialect == "postgresql" and not {row[0] for row in rows}.issuperset(prefixes):
        insert_prefixes(connection, prefixes)
        rows = run_driver(connection, statement, wanted).fetchall()
    return max(map(parse_decimal, {row[1] for row in rows if row[1]}), default=None)


def insert_prefixes(connection: Connection, prefixes: Sequence[str]) -> None:
    """Insert the missing rows of the prefixes, so that the rows can be locked.

    On SQLite, this statement acquires the write lock, even if no row is missing.
    """
    run_driver(
        connection,
        _insert_prefixes(connection.dialect.name, len(prefixes)),
        tuple([value for prefix in sorted(prefixes) for value in (prefix, "")]),
    )


def store_last_date(connection: Connection, prefixes: Sequence[str], date: Fraction) -> None:
    """Store the last date issued under each of the prefixes."""
    decimal = format_decimal(date)
    run_driver(
        connection,
        _upsert_dates(connection.dialect.name, len(prefixes)),
        tuple([value for prefix in sorted(prefixes) for value in (prefix, decimal)]),
    )


def find_used_labels(connection: Connection, reps: Sequence[str], ibips: Sequence[str]) -> set[str]:
    """Return the identifiers that an item of any Archive has, or that were ever reserved."""
    found: set[str] = set()
    for start in range(0, len(reps), LOOKUP):
        part = (*reps[start : start + LOOKUP], *ibips[start : start + LOOKUP])
        statement = _select_used(connection.dialect.name, len(part) // 2)
        for (label,) in run_driver(connection, statement, part + part).fetchall():
            found.add(label)
    return found


def _places(dialect: str, count: int) -> str:
    return ", ".join(["?" if dialect == "sqlite" else "%s"] * count)


@lru_cache
def _select_dates(dialect: str, count: int) -> str:
    # sorted, because processes that share a prefix could deadlock with different orders
    lock = " FOR UPDATE" if dialect == "postgresql" else ""
    return (
        f"SELECT prefix, last_date FROM ibi_prefix WHERE prefix IN ({_places(dialect, count)})"
        f" ORDER BY prefix{lock}"
    )


@lru_cache
def _insert_prefixes(dialect: str, count: int) -> str:
    rows = ", ".join([f"({_places(dialect, 2)})"] * count)
    return f"INSERT INTO ibi_prefix (prefix, last_date) VALUES {rows} ON CONFLICT DO NOTHING"


@lru_cache
def _upsert_dates(dialect: str, count: int) -> str:
    return _insert_prefixes(dialect, count).replace(
        "DO NOTHING", "(prefix) DO UPDATE SET last_date = excluded.last_date"
    )


@lru_cache
def _select_used(dialect: str, count: int) -> str:
    forms = _places(dialect, count)
    return (
        f"SELECT text FROM ibi_identifier WHERE text IN ({forms}, {forms})"
        f" UNION ALL SELECT rep FROM ibi_reservation WHERE rep IN ({forms})"
        f" UNION ALL SELECT ibip FROM ibi_reservation WHERE ibip IN ({forms})"
    )


# --- the file next to an SQLite database ---------------------------------------------------------

#: The ending of the name of this file, after the name of the database file.
SUFFIX = "-ibi-last-date"


@dataclass(frozen=True, slots=True)
class LastDateFile:
    """The file with the last date issued in a transaction of the host.

    Callers must hold the write lock of the database.

    :param path: the path of this file.
    :param database: the path of the SQLite database.
    """

    path: Path
    database: Path

    @classmethod
    def of(cls, database: Database) -> LastDateFile | None:
        """Return the file for a database; None if the database is not an SQLite file.

        :raises NotReady: if the database does not answer.
        """
        url = database.engine.url
        if url.get_backend_name() != "sqlite" or in_memory(url):
            return None
        # SQLite resolves symbolic links in the name, so every process uses the same file
        name = database.read(
            lambda connection: connection.scalar(
                text("SELECT file FROM pragma_database_list WHERE name = 'main'")
            )
        )
        return cls(Path(f"{name}{SUFFIX}"), Path(str(name)))

    def read(self) -> Fraction | None:
        """Return the date in POSIX seconds; None if the file does not exist.

        :raises MintingError: if the file cannot be read.
        """
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123 - once per identifier
                return parse_decimal(file.read().decode("ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise MintingError(
                f"the last date issued cannot be read from {self.path}: {error}; restore the file, "
                "or remove it if the clock was never set back"
            ) from error

    def write(self, date: Fraction) -> None:
        """Store a date; when the call returns, the file is on the disk.

        :raises MintingError: if the file cannot be written.
        """
        try:
            mode = stat.S_IMODE(self.database.stat().st_mode)
            with new_file(self.path, mode) as file:
                file.write(format_decimal(date).encode("ascii"))
        except (OSError, StorageError) as error:
            raise MintingError(f"no identifier can be issued: {error}") from error


# --- restoring a backup --------------------------------------------------------------------------

#: The seconds that a restore waits for transactions that mint identifiers.
LOCK_TIMEOUT = 60


def lock_minting(connection: Connection) -> None:
    """Prevent other transactions from minting identifiers until the end of this transaction.

    On SQLite nothing is needed: it has one write transaction at a time.
    """
    if connection.dialect.name == "postgresql":
        # without a limit, a host that mints while it holds locks itself would wait for ever
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s'"))
        connection.execute(text(f"LOCK TABLE {Prefix.__tablename__} IN ACCESS EXCLUSIVE MODE"))


def read_last_dates(connection: Connection) -> dict[str, Fraction]:
    """Return the last date issued under each prefix, in POSIX seconds."""
    rows = connection.execute(select(Prefix.prefix, Prefix.last_date))
    return {prefix: parse_decimal(date) for prefix, date in rows if date}


def raise_last_dates(
    connection: Connection, replaced: Mapping[str, Fraction], now: Fraction
) -> None:
    """Set the last dates of all prefixes so that no identifier is minted twice after a restore.

    The backup does not contain the identifiers that were minted later. But their dates are in the
    past, because the minter waits until the date of an identifier has come before it returns the
    identifier. So the current time is late enough for every prefix, including unknown prefixes.

    :param replaced: the last dates in the database before the restore.
    :param now: the current time, in POSIX seconds.
    """
    restored = read_last_dates(connection)
    for prefix in {EVERY_PREFIX, *replaced, *restored}:
        known = [dates[prefix] for dates in (replaced, restored) if prefix in dates]
        store_last_date(connection, [prefix], max([now, *known]))
