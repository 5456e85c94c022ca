"""Mint (issue) identifiers."""

from __future__ import annotations

import itertools
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection, CursorResult, bindparam, select, union_all
from sqlalchemy.exc import DBAPIError

from flask_ibi_archive.archive.items.tables import ItemIdentifier, Prefix, ReservationRow
from flask_ibi_archive.archive.items.write import renew_plans
from flask_ibi_archive.core.identifiers import (
    build_ibip_suffix,
    build_repository_suffix,
    find_granularity,
    format_date,
    format_decimal,
    next_suffix_dates,
    parse_decimal,
    wait_until,
)
from flask_ibi_archive.errors import MintingError, StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update
from flask_ibi_archive.server.database.engines import begin
from flask_ibi_archive.server.files import new_file

# --- prefixes ----------------------------------------------------------------------------------


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
    select(ReservationRow.rep).where(ReservationRow.rep.in_(bindparam("reps", expanding=True))),
    select(ReservationRow.ibip).where(ReservationRow.ibip.in_(bindparam("ibips", expanding=True))),
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


# --- minting -----------------------------------------------------------------------------------


#: The largest granularity, in seconds, for an identifier that is issued in the host's transaction.
#: While such a transaction waits for the date of the identifier, no other process can write. A
#: small granularity makes the wait short.
COARSEST_IN_TRANSACTION = Fraction(1, 1000)
#: The date of the first identifier of a dry run, in POSIX seconds: the year 2999. These identifiers
#: are never stored.
DRY_RUN_DATE = 32_472_144_000
#: The maximum number of seconds that a flush of the host waits for its identifiers.
FLUSH_WAIT = Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class Minted:
    """Both forms of one new identifier, built from the same date."""

    rep: str
    ibip: str

    @property
    def ibi(self) -> str:
        """The short form, the IBIp."""
        return self.ibip


#: Stores rows for new identifiers in the transaction of the connection.
StoreMinted: TypeAlias = "Callable[[Connection, list[Minted]], None]"


@dataclass(frozen=True, slots=True)
class Issued:
    """New identifiers, which must not be used before ``delay`` seconds have passed since ``now``.

    :param minted: the identifiers, in the order of their dates.
    :param date: the date of the last identifier.
    :param now: the time of the clock when the dates were computed.
    """

    minted: list[Minted]
    date: Fraction
    now: Fraction
    delay: Fraction


def read_clock() -> Fraction:
    """Return the current time in POSIX seconds, accurate to nanoseconds."""
    return Fraction(time.time_ns(), 1_000_000_000)


class Minter:
    """Issues new identifiers: no process that uses the same database has issued them before.

    :param prefixes: the prefixes of the rep and the ibip form, in canonical case.
    :param granularity: the granularity r of the temporal distributor, in seconds.
    :param max_wait: the maximum number of seconds to wait for the date of an identifier.
    :param clock: returns the time in POSIX seconds.
    :param wait: waits for a number of seconds.

    Source: [G] 5 and 6, Algorithm 4.
    """

    def __init__(
        self,
        database: Database,
        prefixes: tuple[str, str],
        granularity: Fraction,
        max_wait: float = 10,
        clock: Callable[[], Fraction] = read_clock,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.database = database
        self.prefixes = prefixes
        self.granularity = granularity
        self.max_wait = max_wait
        self.clock = clock
        self.wait = wait
        #: On PostgreSQL: the date of the last identifier that this minter has issued.
        self._last: Fraction | None = None

    def mint(self, count: int = 1, store: StoreMinted | None = None) -> list[Minted]:
        """Issue identifiers, and wait until the date of the last identifier is reached.

        The dates are stored before the wait. Therefore no date is issued twice.

        :param store: stores what belongs to the identifiers, in the transaction that stores their
            date. If it raises an exception, no date is used up.
        :raises MintingError: if the wait would be longer than ``max_wait``. No date is used up.
        :raises MintingError: if an identifier cannot contain the date of the clock. No date is
            used up.
        :raises NotReady: if the database does not respond.
        """
        if count < 1:
            return []
        issued = self._issue_after_last() if count == 1 and store is None else None
        if issued is None:
            with transaction(self.database) as connection:
                issued = self._issue(connection, count, self.granularity)
                if store is not None:
                    store(connection, issued.minted)
                is_postgresql = connection.dialect.name == "postgresql"
            self._last = issued.date if is_postgresql else None
        self.wait_for(issued)
        return issued.minted

    def _issue_after_last(self) -> Issued | None:
        """Issue one identifier with one statement, if no other minter has issued one in between.

        A transaction of four statements would take PostgreSQL twice as long. This method is not for
        SQLite: its statements are quick, and the file with the last date must be read while the
        database is locked.

        :returns: None if another minter has issued an identifier, or if the identifier is used.
        """
        last = self._last  # a copy, because another thread may change the attribute
        if last is None:
            return None
        now = self.clock()
        [date], delay = next_suffix_dates(now, last, self.granularity, 1)
        if delay > self.max_wait:
            return None
        minted = self.build(date)
        with self.database.reading() as connection:
            if not store_free_date(
                connection, self.prefixes, (minted.rep, minted.ibip), date, last
            ):
                return None
        self._last = date
        return Issued([minted], date, now, delay)

    def for_flush(self, count: int) -> FlushMinter:
        """Return a minter that issues identifiers almost without a wait.

        :param count: the number of identifiers.
        """
        granularity = min(
            self.granularity, COARSEST_IN_TRANSACTION, find_granularity(count, FLUSH_WAIT)
        )
        return FlushMinter(
            self.database,
            self.prefixes,
            granularity,
            min(self.max_wait, 2 * float(FLUSH_WAIT)),
            self.clock,
            self.wait,
        )

    def for_many(self, count: int) -> Minter:
        """Return a minter that issues identifiers almost without a wait, as :meth:`for_flush` does.

        But if a wait is necessary, it may be as long as outside of a flush.

        :param count: the number of identifiers.
        """
        minter = self.for_flush(count)
        minter.max_wait = self.max_wait
        return minter

    def invent(self) -> Iterator[Minted]:
        """Yield identifiers for a dry run. They are never issued."""
        return (self.build(Fraction(date)) for date in itertools.count(DRY_RUN_DATE))

    def mint_within(self, connection: Connection, count: int = 1) -> list[Minted]:
        """Issue identifiers in a transaction of the host.

        The host may roll back the transaction. Therefore the date is also written to a file.

        :param connection: a connection to SQLite that has begun a transaction.
        :raises MintingError: as in :meth:`mint`.
        :raises MintingError: as in :meth:`mint`, or if the file cannot be written.
        """
        insert_prefixes(connection, self.prefixes)
        granularity = min(self.granularity, COARSEST_IN_TRANSACTION)
        issued = self._issue(connection, count, granularity)
        if (last_date_file := LastDateFile.of(connection)) is not None:
            last_date_file.write(issued.date)
        self.wait_for(issued)
        return issued.minted

    def _issue(self, connection: Connection, count: int, granularity: Fraction) -> Issued:
        """Return new identifiers, and store the date of the last one.

        :param connection: a connection in a transaction. On SQLite, the transaction must have the
            write lock.
        """
        last = lock_last_date(connection, self.prefixes)
        if (last_date_file := LastDateFile.of(connection)) is not None:
            in_file = last_date_file.read()
            if in_file is not None and (last is None or in_file > last):
                last = in_file
        now = self.clock()
        minted: list[Minted] = []
        while True:
            dates, delay = next_suffix_dates(now, last, granularity, count - len(minted))
            if delay > self.max_wait:
                raise self._refuse(count, now, last, delay)
            last = dates[-1]
            fresh = list(map(self.build, dates))
            if count == 1:
                if store_free_date(connection, self.prefixes, (fresh[0].rep, fresh[0].ibip), last):
                    return Issued(fresh, last, now, delay)
                continue
            used = find_used_identifiers(
                connection, [new.rep for new in fresh], [new.ibip for new in fresh]
            )
            minted += [new for new in fresh if new.rep not in used and new.ibip not in used]
            if len(minted) == count:
                store_last_date(connection, self.prefixes, last)
                return Issued(minted, last, now, delay)

    def wait_for(self, issued: Issued) -> None:
        """Wait until identifiers may be used."""
        if issued.delay:
            wait_until(issued.now + issued.delay, self.max_wait, self.clock, self.wait)

    def build(self, date: Fraction) -> Minted:
        """Return both forms of the identifier with a date, in POSIX seconds. Nothing is stored.

        :raises MintingError: if an identifier cannot contain the date.
        """
        rep, ibip = self.prefixes
        try:
            return Minted(
                f"{rep}/{build_repository_suffix(date)}", f"{ibip}/{build_ibip_suffix(date)}"
            )
        except ValueError as error:
            raise MintingError(f"the clock of the server is wrong: {error}") from error

    def _refuse(
        self, count: int, now: Fraction, last: Fraction | None, delay: Fraction
    ) -> MintingError:
        advice = self._advice(count, now, last, delay)
        return self._too_far(delay, "IBI_MINT_MAX_WAIT allows only", advice)

    def _too_far(self, delay: Fraction, rule: str, advice: str) -> MintingError:
        """Return the error for the next free date, which is too far ahead of the clock.

        :param rule: who sets the limit, in words.
        """
        return MintingError(
            f"the next free date is {float(delay):.3f} s in the future, but {rule} "
            f"{self.max_wait:g} s; {advice}"
        )

    def _advice(self, count: int, now: Fraction, last: Fraction | None, delay: Fraction) -> str:
        """Return what the administrator can do if the wait would be too long.

        :param count: the number of identifiers to mint.
        :param now: the time of the clock.
        :param last: the last issued date of the prefixes; None if there is no such date.
        :param delay: the wait for the last of the new dates, in seconds.
        """
        ahead = Fraction(0) if last is None else last - now
        if ahead > self.max_wait:
            return (
                f"the date of the last identifier, {format_date(last or now)}, is later than the "
                "time of the clock; the clock may have been set back; set the clock right, or wait"
            )
        room = Fraction(self.max_wait) - max(ahead, Fraction(0))
        if room == 0:
            return "wait, or increase IBI_MINT_MAX_WAIT"
        finer = f"set IBI_GRANULARITY to {format_decimal(find_granularity(count, room))}"
        return finer if count == 1 else f"mint fewer at a time, or {finer}"


class FlushMinter(Minter):
    """Issues identifiers for rows of the host during a flush, which must not wait long.

    Instead of a long wait, a MintingError is raised.
    """

    def _refuse(
        self, count: int, now: Fraction, last: Fraction | None, delay: Fraction
    ) -> MintingError:
        if delay > 60:
            advice = self._advice(count, now, last, delay)
        else:
            advice = f"nothing was written; roll back, and try again in {float(delay):.1f} s"
        return self._too_far(delay, "a flush waits at most", advice)
