"""Stores what was read of logs: positions, bindings and conflicts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain

from sqlalchemy import Connection

from flask_ibi_archive.core.claims.checkpoint import get_service_rep
from flask_ibi_archive.core.claims.claim import STATE_NUMBERS, Claim, identifier_key
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.old_claims import followed_logs
from flask_ibi_archive.resolver.old_claims.conflicts import (
    end_conflicts,
    list_open_ibis,
    note_rival,
)
from flask_ibi_archive.resolver.old_claims.entry_check import CheckedEntries, check_entries
from flask_ibi_archive.resolver.old_claims.followed_logs import DueLog
from flask_ibi_archive.resolver.old_claims.index import ClaimIndex, Holding
from flask_ibi_archive.resolver.old_claims.log_reader import Reading
from flask_ibi_archive.resolver.old_claims.tables import CURRENT
from flask_ibi_archive.resolver.old_claims.versions import bump_version

_logger = logging.getLogger(__name__)


class ReadingStore:
    """Stores readings."""

    def __init__(self, config: ResolverConfig, index: ClaimIndex) -> None:
        self._config = config
        self._index = index

    def store(
        self, connection: Connection, readings: Sequence[tuple[DueLog, Reading]], now: datetime
    ) -> list[tuple[DueLog, Reading]]:
        """Store readings of different logs in the transaction of the caller.

        :returns: the readings that were stored. The others began from a position or key that is no
            longer the stored one, or belong to Archives that are no longer included.
        """
        included = followed_logs.lock_archives(connection, [log.archive_id for log, _ in readings])
        rows = followed_logs.lock_logs(connection, included)
        stored = [
            (log, reading) for log, reading in readings if log.is_at(rows.get(log.archive_id))
        ]
        changed = followed_logs.store_readings(connection, stored, rows, now)
        if grown := [(log, reading) for log, reading in stored if reading.entries]:
            self._store_entries(connection, grown, now)
        for log, reading in stored:
            if log.archive_id in changed and reading.state == CURRENT:
                self._end_lost_conflicts(connection, log, now)
        if changed:
            bump_version(connection, changed)
        return stored

    def _store_entries(
        self, connection: Connection, readings: Sequence[tuple[DueLog, Reading]], now: datetime
    ) -> None:
        checked: dict[int, CheckedEntries] = {}
        for log, reading in readings:
            services = {log.service_ibi, get_service_rep(log.origin)}
            checked[log.archive_id] = check_entries(
                reading.entries, reading.start, services, self._config.server_name
            )
        self._note_conflicts(connection, checked, now)
        self._index.store(
            connection,
            chain.from_iterable(one.list_holdings(number) for number, one in checked.items()),
        )
        prefixes = [
            (prefix, number) for number, one in checked.items() for prefix in one.find_prefixes()
        ]
        followed_logs.store_prefixes(connection, prefixes, now)
        for log, _ in readings:
            if rejected := checked[log.archive_id].rejected:
                followed_logs.store_rejected(connection, log.archive_id, rejected, now)
                position, reason = min(rejected.items())
                _logger.warning(
                    "%d new entries in the log of %s can't be used, or not in full; the first is"
                    " entry %d: %s; to list them, run: flask ibi-resolver claims --rejected",
                    len(rejected), log.service_ibi, position, reason,
                )  # fmt: skip

    def _note_conflicts(
        self, connection: Connection, checked: Mapping[int, CheckedEntries], now: datetime
    ) -> None:
        """Store new conflicts, and end those whose claims have changed.

        The logs are compared one after the other, with what the index says and with those before.

        :param checked: the new entries of each log, by the id of the Archive.
        """
        states = {archive_id: entries.find_states() for archive_id, entries in checked.items()}
        keys = {ibi: identifier_key(ibi) for found in states.values() for ibi in found}
        holdings = self._index.find(connection, list(keys.values()))
        holders = {ibi: dict(holdings.get(key, ())) for ibi, key in keys.items()}
        for archive_id, found in states.items():
            self._compare(connection, archive_id, found, holders, now)
            for ibi, (state, _) in found.items():
                holders[ibi][archive_id] = STATE_NUMBERS[state]

    def _compare(
        self,
        connection: Connection,
        archive_id: int,
        states: Mapping[str, tuple[State, Claim]],
        holders: Mapping[str, Mapping[int, int]],
        now: datetime,
    ) -> None:
        """Compare the new claims of an Archive with those of other Archives, and its earlier ones.

        An item with two identifiers has one conflict with each other Archive. The claims that
        another Archive made of both identifiers before are found by either.

        :param states: the new claim of each identifier with its state.
        :param holders: the numbers of the states before, by identifier and Archive.
        """
        original = STATE_NUMBERS[State.ORIGINAL]
        rivals: dict[tuple[int, int], tuple[str, str | None]] = {}
        for ibi, (state, claim) in states.items():
            for holder, number in holders[ibi].items():
                if number != original:
                    continue
                if holder != archive_id:
                    if state is State.ORIGINAL:
                        other = next((one for one in claim.identifiers if one != ibi), None)
                        rivals.setdefault((id(claim), holder), (ibi, other))
                elif state is not State.ORIGINAL:
                    end_conflicts(connection, ibi, archive_id, now)
        if rivals:
            others = {other_id for _, other_id in rivals}
            registered = followed_logs.list_registered(connection, others)
            for (_, other_id), (ibi, other) in rivals.items():
                if other_id in registered:
                    note_rival(connection, ibi, archive_id, other_id, now, other)

    def _end_lost_conflicts(self, connection: Connection, log: DueLog, now: datetime) -> None:
        """End the conflicts about claims that a log that began anew does not contain.

        This is only known when the new log was read to its end.
        """
        if log.number == 1:
            return
        keys = {ibi: identifier_key(ibi) for ibi in list_open_ibis(connection, log.archive_id)}
        found = self._index.find(connection, list(keys.values()))
        original = Holding(log.archive_id, STATE_NUMBERS[State.ORIGINAL])
        for ibi, key in keys.items():
            if original not in found.get(key, ()):
                end_conflicts(connection, ibi, log.archive_id, now)
