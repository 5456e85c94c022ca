"""Gives identifiers: a date from the database's distributor, both forms made from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

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
from flask_ibi_archive.storage.prefixes import (
    claim_prefixes,
    lock_last_date,
    store_last_date,
    taken_labels,
)

#: The step of dates given inside a transaction of a host's, where the granularity is no finer.
FINEST_WITHIN = Fraction(1, 1000)


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
    """Give the time in POSIX seconds, exactly as the system tells it."""
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
        """Give identifiers, when the date of the last of them has come.

        The dates are stored in a transaction of their own before anything else happens, so what becomes
        of the identifiers doesn't matter: they are never given again.

        :raises ClockError: if that takes longer than it may; then no date is used up.
        :raises MintingError: if the clock shows a date that identifiers can't bear; nor then.
        :raises NotReady: if the database does not answer.
        """
        if count < 1:
            return []
        with self.database.writing() as connection:
            claim_prefixes(connection, self.prefixes)
            last = lock_last_date(connection, self.prefixes)
            now = self.clock()
            minted: list[Minted] = []
            delay = Fraction(0)
            while len(minted) < count:
                dates, delay = next_suffix_dates(now, last, self.granularity, count - len(minted))
                if delay > self.max_wait:
                    raise ClockError(
                        float(delay), self.max_wait, self._advice(count, now, last, delay)
                    )
                last = dates[-1]
                fresh = [self._build(date) for date in dates]
                taken = taken_labels(
                    connection, [text for one in fresh for text in (one.rep, one.ibip)]
                )
                minted += [one for one in fresh if one.rep not in taken and one.ibip not in taken]
            assert last is not None
            store_last_date(connection, self.prefixes, last)
        if delay > 0:
            self._wait_until(now + delay, float(delay))
        return minted

    def mint_within(self, connection: Connection) -> Minted:
        """Give an identifier inside a transaction of somebody else, who may still roll it back.

        Then nothing is left of the date in the database, so the label must not come again by itself: the
        date lies on no grid but the finest, and the answer waits till the clock is past it. Whoever mints
        later takes a later date, or one of a coarser grid ([G] 6, Algorithm 4), and that is another one.

        :param connection: SQLite's, in a transaction, which keeps all others from minting meanwhile.
        :raises ClockError: if that takes longer than it may; :raises MintingError: see :meth:`mint`.
        """
        step = min(self.granularity, FINEST_WITHIN)
        claim_prefixes(connection, self.prefixes)
        last = lock_last_date(connection, self.prefixes)
        now = self.clock()
        number = now // step if last is None else max(now // step, last // step + 1)
        while True:
            number += number % 10 == 0
            delay = (number + 1) * step - now
            if delay > self.max_wait:
                raise ClockError(float(delay), self.max_wait, self._advice(1, now, last, delay))
            minted = self._build(number * step)
            if not taken_labels(connection, [minted.rep, minted.ibip]):
                break
            number += 1
        store_last_date(connection, self.prefixes, number * step)
        self._wait_until((number + 1) * step, float(delay))
        return minted

    def _wait_until(self, moment: Fraction, longest: float) -> None:
        """Wait till the clock shows a moment; one that is set back meanwhile is not waited for."""
        while longest > 0 and (ahead := float(moment - self.clock())) > 0:
            self.wait(min(ahead, longest))
            longest -= ahead

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
