"""Mint (issue) identifiers.

**State.** For each prefix, a row of the table ``ibi_prefix`` contains the last date that was issued
under the prefix. The two forms of an identifier (repository name and IBIp) have different prefixes
and the same date. On both databases and in each case, :meth:`Minter._issue` issues the identifiers.
It locks the rows of both prefixes, computes the next dates after the later of the two stored dates
(:func:`.next_suffix_dates`), leaves out dates whose labels exist, and stores the last date in both
rows. The caller commits, and only then waits until the last date has come.

**No label is given twice.** A label is a prefix and a date, and each new date is later than the
last date of its prefix:

- *Threads, processes, machines*: the rows are locked from the moment when they are read to the
  commit. So each transaction begins with the date that the transaction before it has stored.
- *Crashes and rollbacks*: a label is returned after its date was committed, in a transaction of its
  own. If the label is not used afterwards, there is a gap.
- *Clocks and granularities*: the stored date is compared, never the clock alone. If the clock was
  set back or the granularity was changed, the new date is still later. If the wait would be too
  long, nothing is stored.
- *Labels of other origin*: an imported or a reserved label may have a later date than the stored
  one. Therefore the tables of items and reservations are searched for each new label.

**The exception.** On SQLite, while a transaction of the host has written, nobody else can write, so
that no date can be committed. Then the date is stored in the transaction of the host
(:meth:`Minter.mint_within`), which may be rolled back. So before a label is returned, its date is
also written to a small file beside the database, which no rollback changes. The file is only read
and written by the process that has the write lock of the database. On SQLite, each transaction
begins with the later of the two dates, that in the file and that in the table. A label of a rolled
back transaction is therefore safe as long as the file exists. A backup may leave the file out, as
any restored database lacks the newest dates: this is harmless if the clock is right and the last
identifier is at least a minute old.

The dates are not in a database file of their own on SQLite, because this would not be simpler: the
labels that exist must be read from the database while the dates are locked, which a host can delay
in the rollback journal mode; and the second file would need tables, upgrades, a check and a backup.

Source: [G] 5 and 6, Algorithm 4.
"""

from __future__ import annotations

import itertools
import json
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam, func, select, text, true, union_all, update
from sqlalchemy.sql import operators

from flask_ibi_archive.archive.items.tables import (
    ArchiveRow,
    Item,
    ItemIdentifier,
    Prefix,
    ReservationRow,
    Translation,
)
from flask_ibi_archive.core.identifiers.dates import (
    find_granularity,
    format_date,
    format_decimal,
    next_suffix_dates,
    parse_decimal,
    wait_until,
)
from flask_ibi_archive.core.identifiers.grammar import build_ibip_suffix, build_repository_suffix
from flask_ibi_archive.errors import MintingError, StorageError
from flask_ibi_archive.server.atomic_files import new_file
from flask_ibi_archive.server.database import dialects
from flask_ibi_archive.server.database.database import Database

#: The largest granularity, in seconds, for an identifier that is issued in the host's transaction.
#: While such a transaction waits for the date of the identifier, no other process can write. A
#: small granularity makes the wait short.
COARSEST_IN_TRANSACTION = Fraction(1, 1000)
#: The date of the first identifier of a dry run, in POSIX seconds: the year 2999. These identifiers
#: are never stored.
DRY_RUN_DATE = 32_472_144_000
#: The number of seconds in which the dates of identifiers for many rows of the host come.
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


def read_clock() -> Fraction:
    """Return the current time in POSIX seconds, accurate to nanoseconds."""
    return Fraction(time.time_ns(), 1_000_000_000)


@dataclass
class Minter:
    """Issues new identifiers: no process that uses the same database has issued them before.

    :param prefixes: the prefixes of the rep and the ibip form, in canonical case.
    :param granularity: the granularity r of the temporal distributor, in seconds.
    :param max_wait: the maximum number of seconds to wait for the date of an identifier.
    :param clock: returns the time in POSIX seconds.
    :param wait: waits for a number of seconds.
    :param in_flush: whether the identifiers are for a flush of the host, for error messages.
    """

    database: Database
    prefixes: tuple[str, str]
    granularity: Fraction
    max_wait: float = 10
    clock: Callable[[], Fraction] = read_clock
    wait: Callable[[float], None] = time.sleep
    in_flush: bool = False

    def mint(self, count: int = 1, store: StoreMinted | None = None) -> list[Minted]:
        """Issue identifiers, and wait until the date of the last identifier is reached.

        :param store: stores data about the new identifiers, in the same transaction as their dates.
            If it raises an exception, no date is used up.
        :raises MintingError: if the wait would be longer than ``max_wait``. No date is used up.
        :raises MintingError: if an identifier cannot contain the date of the clock. No date is used
            up.
        :raises NotReady: if the database does not respond.
        """
        if count < 1:
            return []
        with self.database.writing() as connection:
            minted, _, moment = self._issue(connection, count)
            if store is not None:
                store(connection, minted)
        self._wait_until(moment)
        return minted

    def mint_within(self, connection: Connection, count: int = 1) -> list[Minted]:
        """Issue identifiers in a transaction of the host on SQLite, which may be rolled back.

        :param connection: a connection to SQLite that has begun a transaction.
        :raises MintingError: as in :meth:`mint`, or if the file of the last date cannot be written.
            If the host then commits, a date may be used up: a gap, which is harmless.
        """
        insert_prefixes(connection, self.prefixes)  # acquires the write lock
        finer = replace(self, granularity=min(self.granularity, COARSEST_IN_TRANSACTION))
        minted, date, moment = finer._issue(connection, count)
        if (path := find_date_file(connection)) is not None:
            write_date_file(path, date)
        self._wait_until(moment)
        return minted

    def for_many(self, count: int) -> Minter:
        """Return a minter with a finer granularity: ``count`` identifiers need almost no wait."""
        finest = find_granularity(count, FLUSH_WAIT)
        return replace(self, granularity=min(self.granularity, COARSEST_IN_TRANSACTION, finest))

    def for_flush(self, count: int) -> Minter:
        """Return a minter like :meth:`for_many` that raises an error instead of a longer wait."""
        max_wait = min(self.max_wait, 2 * float(FLUSH_WAIT))
        return replace(self.for_many(count), max_wait=max_wait, in_flush=True)

    def invent(self) -> Iterator[Minted]:
        """Yield identifiers without end for a dry run. They are never issued."""
        return (self.build(Fraction(date)) for date in itertools.count(DRY_RUN_DATE))

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

    def _issue(
        self, connection: Connection, count: int
    ) -> tuple[list[Minted], Fraction, Fraction | None]:
        """Create identifiers, and store their last date, in the transaction of the caller.

        :returns: the identifiers in the order of their dates, the last date, and the time before
            which they must not be used; None if they may be used now.
        """
        last = lock_last_date(connection, self.prefixes)
        now, delay = self.clock(), Fraction(0)
        minted: list[Minted] = []
        while (missing := count - len(minted)) > 0:
            dates, delay = next_suffix_dates(now, last, self.granularity, missing)
            if delay > self.max_wait:
                raise self._refuse(count, now, last, delay)
            last = dates[-1]
            new = [self.build(date) for date in dates]
            minted += store_last_date(connection, self.prefixes, last, new)
        assert last is not None
        return minted, last, now + delay if delay else None

    def _wait_until(self, moment: Fraction | None) -> None:
        if moment is not None:
            wait_until(moment, self.max_wait, self.clock, self.wait)

    def _refuse(
        self, count: int, now: Fraction, last: Fraction | None, delay: Fraction
    ) -> MintingError:
        """Return the error for a wait that would be too long. It says what to do.

        :param count: the number of identifiers to mint.
        :param now: the time of the clock.
        :param last: the last issued date of the prefixes; None if there is no such date.
        :param delay: the wait for the last of the new dates, in seconds.
        """
        ahead = Fraction(0) if last is None else max(last - now, Fraction(0))
        room = Fraction(self.max_wait) - ahead
        if self.in_flush and delay <= 60:
            advice = f"nothing was written; roll back, and try again in {float(delay):.1f} s"
        elif room <= 0:
            advice = (
                f"the date of the last identifier, {format_date(last or now)}, is later than the "
                "time of the clock; the clock may have been set back; set the clock right, or wait"
            )
        else:
            finer = format_decimal(find_granularity(count, room))
            advice = f"mint fewer at a time, or set IBI_GRANULARITY to {finer}"
        rule = "a flush waits at most" if self.in_flush else "IBI_MINT_MAX_WAIT allows only"
        return MintingError(
            f"the next free date is {float(delay):.3f} s in the future, but {rule} "
            f"{self.max_wait:g} s; {advice}"
        )


# --- the state ---------------------------------------------------------------------------------


# The statements are constant, because SQLAlchemy needs more time to make them than to run them.


# The rows are sorted: if two processes locked the same prefixes in different orders, a deadlock
# would be possible. On SQLite, the transaction has the write lock.
_IS_LOCKED = Prefix.prefix.in_([bindparam("rep"), bindparam("ibip")])
_LOCK = select(Prefix.last_date).where(_IS_LOCKED).order_by(Prefix.prefix).with_for_update()


def _make_store() -> Any:
    """Build the SQL statement that stores a date, and returns which labels of a list are in use.

    Items and reservations use labels. A label is also in use if an item refers to it, because it
    may be that of an item elsewhere.
    """
    # the indexes of references begin with the Archive
    archives = select(ArchiveRow.id)
    conditions: dict[Any, Any] = {
        ItemIdentifier.text: true(),
        Item.next_edition: Item.archive_id.in_(archives),
        Item.metadata_ibi: Item.archive_id.in_(archives),
        Translation.ibi: Translation.archive_id.in_(archives),
        ReservationRow.rep: true(),
        ReservationRow.ibip: true(),
    }
    # a text, because a list would be made a text for each condition
    labels = bindparam("labels", type_=sa.Text)
    used = union_all(
        *(
            select(column.label("label")).where(
                dialects.IsListed(column.expression, labels, operators.in_op, sa.Boolean()),
                condition,
            )
            for column, condition in conditions.items()
        )
    ).subquery()
    return (
        update(Prefix)
        .where(_IS_LOCKED)
        .values(last_date=bindparam("date"))
        .returning(select(func.aggregate_strings(used.c.label, " ")).scalar_subquery())
    )


_STORE = _make_store()


def lock_last_date(connection: Connection, prefixes: tuple[str, str]) -> Fraction | None:
    """Lock two prefixes until the end of the transaction; return the later of their last dates.

    :returns: POSIX seconds; None if no date was issued yet.
    :raises MintingError: if the file of the last date cannot be read.
    """
    names = dict(zip(("rep", "ibip"), prefixes, strict=True))
    dates = connection.scalars(_LOCK, names).all()
    if len(dates) < len(prefixes):
        insert_prefixes(connection, prefixes)
        dates = connection.scalars(_LOCK, names).all()
    issued = [parse_decimal(date) for date in {*dates} if date]
    if (path := find_date_file(connection)) is not None:
        issued += read_date_file(path)
    return max(issued, default=None)


def insert_prefixes(connection: Connection, prefixes: Iterable[str]) -> None:
    """Insert a row for each prefix that has none. On SQLite, this acquires the write lock."""
    connection.execute(
        dialects.insert_or_update(connection, Prefix).on_conflict_do_nothing(),
        [{"prefix": prefix, "last_date": ""} for prefix in sorted(prefixes)],
    )


def store_last_date(
    connection: Connection, prefixes: tuple[str, str], date: Fraction, minted: list[Minted]
) -> list[Minted]:
    """Store the last date of two prefixes, and return those new identifiers that may be issued.

    Call :func:`lock_last_date` first.

    :param minted: the new identifiers.
    :returns: the new identifiers, without those that an item has or that were ever reserved.
    """
    if len(minted) > 1:
        # a plan that PostgreSQL has made for an empty table becomes slow while the table grows
        dialects.run_on_postgresql(connection, "DISCARD PLANS")
    rep, ibip = prefixes
    values = {
        "rep": rep,
        "ibip": ibip,
        "date": format_decimal(date),
        "labels": json.dumps([label for new in minted for label in (new.rep, new.ibip)]),
    }
    rows = connection.scalars(_STORE, values)
    used = {label for labels in rows if labels for label in labels.split()}
    return [new for new in minted if new.rep not in used and new.ibip not in used]


def find_issued_prefixes(connection: Connection, prefixes: Iterable[str]) -> set[str]:
    """Return those of the given prefixes under which a date was issued from this database."""
    issued = select(Prefix.prefix).where(Prefix.prefix.in_(prefixes), Prefix.last_date != "")
    return {*connection.scalars(issued)}


# --- the file of the last date that was issued in a transaction of the host ---------------------


_MAIN_FILE = text("SELECT file FROM pragma_database_list WHERE name = 'main'")


def find_date_file(connection: Connection) -> Path | None:
    """Return the path of the file with the last date; None if the database is no SQLite file."""
    if connection.dialect.name != "sqlite":
        return None
    if _MAIN_FILE not in connection.info:  # the info is that of the connection of the driver
        # SQLite resolves symbolic links in the name. So every process uses the same file.
        database = connection.scalar(_MAIN_FILE)
        connection.info[_MAIN_FILE] = Path(f"{database}-ibi-last-date") if database else None
    path: Path | None = connection.info[_MAIN_FILE]
    return path


def read_date_file(path: Path) -> list[Fraction]:
    """Return a list with the date in the file (POSIX seconds); an empty list if there is no file.

    :raises MintingError: if the file cannot be read.
    """
    try:
        return [parse_decimal(path.read_bytes().decode("ascii"))]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise MintingError(
            f"the last date issued cannot be read from {path}: {error}; restore the file; "
            "if the clock was never set back, you can remove the file instead"
        ) from error


def write_date_file(path: Path, date: Fraction) -> None:
    """Store a date in the file. The file is on the disk when the function returns.

    :raises MintingError: if the file cannot be written.
    """
    database = path.with_name(path.name.removesuffix("-ibi-last-date"))
    try:
        with new_file(path, stat.S_IMODE(database.stat().st_mode)) as file:
            file.write(format_decimal(date).encode("ascii"))
    except (OSError, StorageError) as error:
        raise MintingError(f"no identifier can be issued: {error}") from error
