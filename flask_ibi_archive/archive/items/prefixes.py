"""Stores the last date that the temporal distributor issued under each prefix ([G] 5 and 6).

An identifier has two parts: a prefix and a suffix. The prefix names the Archive, and the suffix
encodes a date. The temporal distributor issues each date only once under each prefix. Therefore the
table ``ibi_prefix`` contains the last date of each prefix.

SQLite allows only one write transaction at a time. While a transaction of the host is open, no
other transaction can store the last date. If the host rolls back its transaction, the last date in
the table is lost. Therefore a date that is issued in a transaction of the host is also stored in a
file next to the database (:class:`LastDateFile`).
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, CursorResult, bindparam, select, union_all
from sqlalchemy.exc import DBAPIError

from flask_ibi_archive.archive.items.bulk import renew_plans
from flask_ibi_archive.archive.items.tables import ItemIdentifier, Prefix, Reservation
from flask_ibi_archive.core.identifiers import format_decimal, parse_decimal
from flask_ibi_archive.errors import MintingError, StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update
from flask_ibi_archive.server.database.engines import begin
from flask_ibi_archive.server.files import new_file

#: The largest number of identifiers that one statement looks for. SQLite before version 3.32
#: accepts at most 999 parameters.
LOOKUP = 200
#: The name of this file is the name of the database file and this suffix.
SUFFIX = "-ibi-last-date"


@contextmanager
def transaction(database: Database) -> Iterator[Connection]:
    """Yield a connection in a transaction for writing.

    BEGIN and COMMIT are run as plain statements, because they take half as long as a transaction of
    SQLAlchemy. They are the largest part of the time that minting one identifier takes.

    :raises NotReady: if the database does not answer, or if the tables do not exist.
    """
    with database.reading() as connection, _restoring_busy_timeout(connection):
        begin(connection, database.find_limit())
        try:
            yield connection
            connection.exec_driver_sql("COMMIT")
        except BaseException:
            if not connection.invalidated:
                with suppress(DBAPIError):
                    connection.exec_driver_sql("ROLLBACK")
            raise


@contextmanager
def _restoring_busy_timeout(connection: Connection) -> Iterator[None]:
    """On SQLite, restore the timeout for locks at the end, because the connection is used again."""
    if connection.dialect.name != "sqlite":
        yield
        return
    driver: Any = connection.connection.dbapi_connection
    [milliseconds] = driver.execute("PRAGMA busy_timeout").fetchone()
    try:
        yield
    finally:
        driver.execute(f"PRAGMA busy_timeout = {milliseconds}")


# The prefixes are sorted: if two processes lock the same prefixes in different orders, a deadlock
# is possible.
_LOCK = (
    "SELECT prefix, last_date FROM ibi_prefix WHERE prefix IN (%s, %s) ORDER BY prefix FOR UPDATE"
)
_STORE_IF_FREE = """
    UPDATE ibi_prefix SET last_date = %s WHERE prefix IN (%s, %s)
       AND NOT EXISTS (SELECT 1 FROM ibi_identifier WHERE text IN (%s, %s))
       AND NOT EXISTS (SELECT 1 FROM ibi_reservation WHERE rep = %s)
       AND NOT EXISTS (SELECT 1 FROM ibi_reservation WHERE ibip = %s)
"""
# SKIP LOCKED: if a prefix is locked, another process is minting, and nothing is stored
_STORE_AFTER = f"""
    {_STORE_IF_FREE}
       AND (SELECT count(*) FROM (SELECT last_date FROM ibi_prefix WHERE prefix IN (%s, %s)
                                   ORDER BY prefix FOR UPDATE SKIP LOCKED) AS locked
             WHERE last_date = %s) = 2
"""
_USED = union_all(
    select(ItemIdentifier.text).where(ItemIdentifier.text.in_(bindparam("both", expanding=True))),
    select(Reservation.rep).where(Reservation.rep.in_(bindparam("reps", expanding=True))),
    select(Reservation.ibip).where(Reservation.ibip.in_(bindparam("ibips", expanding=True))),
)


def lock_last_date(connection: Connection, prefixes: tuple[str, str]) -> Fraction | None:
    """Lock two prefixes and return the latest date that was issued under one of them.

    The lock ends with the transaction. On SQLite, the transaction must already hold the write lock.

    :returns: POSIX seconds; None if no date was issued yet.
    """
    dates = _read_dates(connection, prefixes)
    if dates.keys() != set(prefixes):
        insert_prefixes(connection, prefixes)
        dates = _read_dates(connection, prefixes)
    return max((parse_decimal(date) for date in {*dates.values()} if date), default=None)


def _read_dates(connection: Connection, prefixes: tuple[str, str]) -> dict[str, str]:
    return dict(_run(connection, _LOCK, prefixes).all())  # type: ignore[arg-type]


def insert_prefixes(connection: Connection, prefixes: Iterable[str]) -> None:
    """Insert a row for each prefix that has no row.

    A prefix without a row could not be locked. On SQLite, this function acquires the write lock,
    even if no row is missing.
    """
    connection.execute(
        insert_or_update(connection, Prefix).on_conflict_do_nothing(),
        [{"prefix": prefix, "last_date": ""} for prefix in sorted(prefixes)],
    )


def find_issued_prefixes(connection: Connection, prefixes: Iterable[str]) -> set[str]:
    """Return the given prefixes under which an Archive of the database has issued a date."""
    return set(connection.scalars(select(Prefix.prefix).where(Prefix.prefix.in_(prefixes))))


def store_last_date(connection: Connection, prefixes: Iterable[str], date: Fraction) -> None:
    """Store a date as the last date that was issued under each of the prefixes."""
    statement = insert_or_update(connection, Prefix)
    last_date = format_decimal(date)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["prefix"], set_={"last_date": statement.excluded.last_date}
        ),
        [{"prefix": prefix, "last_date": last_date} for prefix in sorted(prefixes)],
    )


def store_free_date(
    connection: Connection,
    prefixes: tuple[str, str],
    labels: tuple[str, str],
    date: Fraction,
    last: Fraction | None = None,
) -> bool:
    """Store the date of an unused identifier as the last date of its prefixes.

    :param connection: a connection that has locked the prefixes (:func:`lock_last_date`).
    :param labels: both forms of the identifier.
    :param last: the last date of both prefixes, if the prefixes are not locked (only on
        PostgreSQL).
    :returns: False if one of the forms is used (:func:`find_used_identifiers`), or if another
        process has issued a date after ``last``.
    """
    values = (format_decimal(date), *prefixes, *labels, *labels)
    if last is None:
        return _run(connection, _STORE_IF_FREE, values).rowcount > 0
    condition = (*prefixes, format_decimal(last))
    return _run(connection, _STORE_AFTER, (*values, *condition)).rowcount > 0


def _run(connection: Connection, statement: str, values: tuple[str, ...]) -> CursorResult[Any]:
    """Run a statement as text: SQLAlchemy would need more time to compile it than to run it."""
    if connection.dialect.name == "sqlite":
        statement = statement.replace("%s", "?").removesuffix(" FOR UPDATE")
    return connection.exec_driver_sql(statement, values)


def find_used_identifiers(
    connection: Connection, reps: Sequence[str], ibips: Sequence[str]
) -> set[str]:
    """Return the identifiers that an item of any Archive has, or that were reserved at any time."""
    used: set[str] = set()
    renew_plans(connection)
    for start in range(0, len(reps), LOOKUP):
        names = {"reps": reps[start : start + LOOKUP], "ibips": ibips[start : start + LOOKUP]}
        used.update(connection.scalars(_USED, {**names, "both": [*names["reps"], *names["ibips"]]}))
    return used


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
    def of(cls, connection: Connection) -> LastDateFile | None:
        """Return the file for a database; None if the database is not an SQLite file."""
        if connection.dialect.name != "sqlite":
            return None
        if cls not in connection.info:  # the info of a connection lives as long as the connection
            # SQLite resolves symbolic links in the name. So every process uses the same file.
            listed = connection.exec_driver_sql("PRAGMA database_list").all()
            name = next(file for _, schema, file in listed if schema == "main")
            connection.info[cls] = cls(Path(f"{name}{SUFFIX}"), Path(name)) if name else None
        file: LastDateFile | None = connection.info[cls]
        return file

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
