"""Mint (issue) identifiers.

Each identifier has two forms, and both forms contain the same date. The temporal distributor issues
each date only once. Therefore identifiers are unique ([G] 5, 6). A prefix is the part of an
identifier that names the server. A label is a complete identifier.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from sqlalchemy import Connection

from flask_ibi_archive.archive.items.prefixes import (
    LastDateFile,
    find_used_identifiers,
    insert_prefixes,
    lock_last_date,
    store_free_date,
    store_last_date,
    transaction,
)
from flask_ibi_archive.core.identifiers import (
    build_ibip_suffix,
    build_repository_suffix,
    find_granularity,
    format_date,
    format_decimal,
    next_suffix_dates,
    wait_until,
)
from flask_ibi_archive.errors import MintingError
from flask_ibi_archive.server.database.database import Database

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
