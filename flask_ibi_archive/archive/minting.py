"""Gives identifiers: a date from the database's distributor, both forms made from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from sqlalchemy import Connection

from flask_ibi_archive.errors import ClockError, MintingError
from flask_ibi_archive.identifiers import (
    build_ibip_prefix,
    build_ibip_suffix,
    build_repository_prefix,
    build_repository_suffix,
    format_date,
    format_decimal,
    granularity_for,
    next_suffix_dates,
)
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.driver import driver_writing
from flask_ibi_archive.storage.last_date_file import LastDateFile
from flask_ibi_archive.storage.prefixes import (
    claim_prefixes,
    lock_last_date,
    store_last_date,
    taken_labels,
)

#: The coarsest granularity within a host's transaction, which keeps every other writer out while it
#: waits.
COARSEST_WITHIN = Fraction(1, 1000)


@dataclass(frozen=True, slots=True)
class Minted:
    """The identifiers of one assignment: both forms, from one date."""

    rep: str
    ibip: str


@dataclass(frozen=True, slots=True)
class Subsystem:
    """Who gives identifiers: the host and IP that stand in their prefixes.

    :param host: domain name.
    :param port: port of the repository name's prefix.
    :param ip: IPv4 or IPv6 address.
    :param ip_port: port of the IBIp's prefix.
    """

    host: str
    ip: str
    port: int = 80
    ip_port: int = 800

    @property
    def prefixes(self) -> tuple[str, str]:
        """The prefixes of both forms, in canonical case."""
        return (
            build_repository_prefix(self.host, self.port),
            build_ibip_prefix(self.ip, self.ip_port),
        )


def read_clock() -> Fraction:
    """Return the time in POSIX seconds, exactly as the system tells it."""
    return Fraction(time.time_ns(), 1_000_000_000)


def wait(seconds: float) -> None:
    """Let time pass."""
    time.sleep(seconds)


class Minter:
    """Gives identifiers that were never given before, by whoever shares the database.

    :param granularity: r of the temporal distributor, in seconds.
    :param max_wait: seconds that a caller waits for its date at most.
    :param clock: tells the time; :param wait: lets it pass.

    Source: [G] 5 and 6, Algorithm 4.
    """

    def __init__(
        self,
        database: Database,
        subsystem: Subsystem,
        granularity: Fraction,
        max_wait: float = 10,
        clock: Callable[[], Fraction] = read_clock,
        wait: Callable[[float], None] = wait,
    ) -> None:
        self.database = database
        self.prefixes = subsystem.prefixes
        self.granularity = granularity
        self.max_wait = max_wait
        self.clock = clock
        self.wait = wait

    def mint(self, count: int = 1) -> list[Minted]:
        """Issue identifiers, when the date of the last of them has come.

        Their dates are committed first, so that they are never issued again, whether they are used
        or not.

        :raises ClockError: if that takes longer than it may; then no date is used up.
        :raises MintingError: if the clock shows a date that identifiers can't bear; nor then.
        :raises NotReady: if the database does not answer.
        """
        if count < 1:
            return []
        with driver_writing(self.database) as connection:
            minted, _, moment = self._take(connection, count, self.granularity)
        self._wait_until(moment)
        return minted

    def mint_within(self, connection: Connection) -> Minted:
        """Issue an identifier within a transaction of the host, which may still roll it back.

        The date is recorded outside the transaction as well, where no rollback reaches it.

        :param connection: SQLite's, in a transaction.
        :raises ClockError: as :meth:`mint`; :raises MintingError: also if the date can't be
            recorded.
        """
        claim_prefixes(connection, self.prefixes)
        granularity = min(self.granularity, COARSEST_WITHIN)
        [minted], date, moment = self._take(connection, 1, granularity)
        if self._last_date_file is not None:
            self._last_date_file.write(date)
        self._wait_until(moment)
        return minted

    @cached_property
    def _last_date_file(self) -> LastDateFile | None:
        return LastDateFile.of(self.database)

    def _take(
        self, connection: Connection, count: int, granularity: Fraction
    ) -> tuple[list[Minted], Fraction, Fraction]:
        """Return free identifiers, the date of the last one, and the moment when they may be
        issued.

        :param connection: on SQLite, it holds the write lock.
        """
        stored = lock_last_date(connection, self.prefixes)
        recorded = self._last_date_file.read() if self._last_date_file else None
        last = max((date for date in (stored, recorded) if date is not None), default=None)
        now = self.clock()
        minted: list[Minted] = []
        while True:
            dates, delay = next_suffix_dates(now, last, granularity, count - len(minted))
            if delay > self.max_wait:
                raise ClockError(float(delay), self.max_wait, self._advice(count, now, last, delay))
            last = dates[-1]
            fresh = [self._build(date) for date in dates]
            taken = taken_labels(
                connection, [one.rep for one in fresh], [one.ibip for one in fresh]
            )
            minted += [one for one in fresh if one.rep not in taken and one.ibip not in taken]
            if len(minted) == count:
                store_last_date(connection, self.prefixes, last)
                return minted, last, now + delay

    def _wait_until(self, moment: Fraction) -> None:
        """Wait until the clock shows a moment, no longer than it takes now if the clock is set
        back.
        """
        ahead = float(moment - self.clock())
        longest = min(ahead, self.max_wait)
        while ahead > 0 and longest > 0:
            self.wait(min(ahead, longest))
            longest -= ahead
            ahead = float(moment - self.clock())

    def _build(self, date: Fraction) -> Minted:
        rep, ibip = self.prefixes
        try:
            return Minted(
                f"{rep}/{build_repository_suffix(date)}", f"{ibip}/{build_ibip_suffix(date)}"
            )
        except ValueError as error:
            raise MintingError(f"the clock can't be right: {error}") from error

    def _advice(self, count: int, now: Fraction, last: Fraction | None, delay: Fraction) -> str:
        ahead = Fraction(0) if last is None else last - now
        if ahead > self.max_wait:
            return (
                f"the last date given, {format_date(last or now)}, lies ahead of the clock: was "
                "it set back? Set it right, or wait"
            )
        room = Fraction(self.max_wait) - max(ahead, Fraction(0))
        if room == 0:
            return "wait, or set IBI_MINT_MAX_WAIT to more"
        finer = f"set IBI_GRANULARITY to {format_decimal(granularity_for(count, room))}"
        return finer if count == 1 else f"ask for fewer at a time, or {finer}"
