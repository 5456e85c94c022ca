"""Stores the last date that the temporal distributor issued under each prefix ([G] 5 and 6).

An identifier has two parts: a prefix and a suffix. The prefix names the Archive, and the suffix
encodes a date. The temporal distributor issues each date only once under each prefix. Therefore the
table ``ibi_prefix`` contains the last date of each prefix.

Every new identifier needs a transaction. To save time, this module builds the texts of the SQL
statements only once, and sends these texts to the driver directly. SQLAlchemy would need several
times as long.

SQLite allows only one write transaction at a time. While a transaction of the host is open, no
other transaction can store the last date. If the host rolls back its transaction, the last date in
the table is lost. Therefore a date that is issued in a transaction of the host is also stored in a
file next to the database (:class:`LastDateFile`).
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
from flask_ibi_archive.storage.engines import begin, is_in_memory
from flask_ibi_archive.storage.file_io import new_file
from flask_ibi_archive.storage.models import Prefix

#: The row with this prefix applies to all prefixes. After a restore, the row is necessary because
#: the database may not contain all prefixes that were used.
EVERY_PREFIX = ""

#: The largest number of identifiers that one statement looks for. SQLite before version 3.32
#: accepts at most 999 parameters.
LOOKUP = 200

# --- transactions of the driver ------------------------------------------------------------------


@contextmanager
def driver_transaction(database: Database) -> Iterator[Connection]:
    """Begin a transaction with the driver and yield the connection.

    The transaction is committed at the end of the ``with`` block. An exception in the block rolls
    the transaction back. Use the connection with :func:`run_driver` only.

    :raises NotReady: if the database does not answer, or if the tables do not exist.
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
    """Run a statement with the driver and return the cursor.

    :raises DBAPIError: if the driver raises an error. SQLAlchemy raises the same error.
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
    """Lock some prefixes and return the latest date that was issued under one of the prefixes.

    The date of :data:`EVERY_PREFIX` counts for all prefixes. The lock ends with the transaction. On
    SQLite, the transaction must already hold the write lock.

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
    """Insert a row for each prefix that has no row.

    A prefix without a row could not be locked. On SQLite, this function acquires the write lock,
    even if no row is missing.
    """
    run_driver(
        connection,
        _insert_prefixes(connection.dialect.name, len(prefixes)),
        tuple([value for prefix in sorted(prefixes) for value in (prefix, "")]),
    )


def store_last_date(connection: Connection, prefixes: Sequence[str], date: Fraction) -> None:
    """Store a date as the last date that was issued under each of the prefixes."""
    decimal = format_decimal(date)
    run_driver(
        connection,
        _upsert_dates(connection.dialect.name, len(prefixes)),
        tuple([value for prefix in sorted(prefixes) for value in (prefix, decimal)]),
    )


def find_used_identifiers(
    connection: Connection, reps: Sequence[str], ibips: Sequence[str]
) -> set[str]:
    """Return the identifiers that an item of any Archive has, or that were reserved at any time."""
    found: set[str] = set()
    for start in range(0, len(reps), LOOKUP):
        part = (*reps[start : start + LOOKUP], *ibips[start : start + LOOKUP])
        statement = _select_used(connection.dialect.name, len(part) // 2)
        for (label,) in run_driver(connection, statement, part + part).fetchall():
            found.add(label)
    return found


def _build_placeholders(dialect: str, count: int) -> str:
    return ", ".join(["?" if dialect == "sqlite" else "%s"] * count)


@lru_cache
def _select_dates(dialect: str, count: int) -> str:
    # The prefixes are sorted: if two processes lock the same prefixes in different orders, a
    # deadlock is possible.
    lock = " FOR UPDATE" if dialect == "postgresql" else ""
    prefixes = _build_placeholders(dialect, count)
    return (
        f"SELECT prefix, last_date FROM ibi_prefix WHERE prefix IN ({prefixes})"
        f" ORDER BY prefix{lock}"
    )


@lru_cache
def _insert_prefixes(dialect: str, count: int) -> str:
    rows = ", ".join([f"({_build_placeholders(dialect, 2)})"] * count)
    return f"INSERT INTO ibi_prefix (prefix, last_date) VALUES {rows} ON CONFLICT DO NOTHING"


@lru_cache
def _upsert_dates(dialect: str, count: int) -> str:
    return _insert_prefixes(dialect, count).replace(
        "DO NOTHING", "(prefix) DO UPDATE SET last_date = excluded.last_date"
    )


@lru_cache
def _select_used(dialect: str, count: int) -> str:
    forms = _build_placeholders(dialect, count)
    return (
        f"SELECT text FROM ibi_identifier WHERE text IN ({forms}, {forms})"
        f" UNION ALL SELECT rep FROM ibi_reservation WHERE rep IN ({forms})"
        f" UNION ALL SELECT ibip FROM ibi_reservation WHERE ibip IN ({forms})"
    )


# --- the file next to an SQLite database ---------------------------------------------------------

#: The name of this file is the name of the database file and this suffix.
SUFFIX = "-ibi-last-date"


@dataclass(frozen=True, slots=True)
class LastDateFile:
    """The file with the last date that was issued in a transaction of the host.

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
        if url.get_backend_name() != "sqlite" or is_in_memory(url):
            return None
        # SQLite resolves symbolic links in the name. Therefore every process uses the same file.
        name = database.read(
            lambda connection: connection.scalar(
                text("SELECT file FROM pragma_database_list WHERE name = 'main'")
            )
        )
        return cls(Path(f"{name}{SUFFIX}"), Path(str(name)))

    def read(self) -> Fraction | None:
        """Return the date in the file in POSIX seconds; None if the file does not exist.

        :raises MintingError: if the file cannot be read.
        """
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123 - once per identifier
                return parse_decimal(file.read().decode("ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise MintingError(
                f"the last date issued cannot be read from {self.path}: {error}; restore the file; "
                "if the clock was never set back, you can remove the file instead"
            ) from error

    def write(self, date: Fraction) -> None:
        """Store a date in the file. The file is on the disk when the method returns.

        :raises MintingError: if the file cannot be written.
        """
        try:
            mode = stat.S_IMODE(self.database.stat().st_mode)
            with new_file(self.path, mode) as file:
                file.write(format_decimal(date).encode("ascii"))
        except (OSError, StorageError) as error:
            raise MintingError(f"no identifier can be issued: {error}") from error


# --- restoring a backup --------------------------------------------------------------------------

#: A restore waits at most this number of seconds for transactions that mint identifiers.
LOCK_TIMEOUT = 60


def lock_minting(connection: Connection) -> None:
    """Prevent other transactions from minting identifiers until the end of this transaction.

    On SQLite the function does nothing, because SQLite has only one write transaction at a time.
    """
    if connection.dialect.name == "postgresql":
        # without this limit, a host that holds locks and mints identifiers could wait for ever
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s'"))
        connection.execute(text(f"LOCK TABLE {Prefix.__tablename__} IN ACCESS EXCLUSIVE MODE"))


def read_last_dates(connection: Connection) -> dict[str, Fraction]:
    """Return the last date that was issued under each prefix, in POSIX seconds."""
    rows = connection.execute(select(Prefix.prefix, Prefix.last_date))
    return {prefix: parse_decimal(date) for prefix, date in rows if date}


def raise_last_dates(
    connection: Connection, replaced: Mapping[str, Fraction], now: Fraction
) -> None:
    """Increase the last dates of all prefixes after a restore.

    After this call, no identifier is minted a second time.

    The backup does not contain identifiers that were minted after the backup. The dates of these
    identifiers are in the past, because the minter never returns an identifier before its date.
    Therefore the current time is late enough for every prefix, even for unknown prefixes.

    :param replaced: the last dates in the database before the restore.
    :param now: the current time, in POSIX seconds.
    """
    restored = read_last_dates(connection)
    for prefix in {EVERY_PREFIX, *replaced, *restored}:
        known = [dates[prefix] for dates in (replaced, restored) if prefix in dates]
        store_last_date(connection, [prefix], max([now, *known]))
