"""Stores what was read of logs: positions, bindings, conflicts, cosignatures and forks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from flask_ibi_archive.core.claims.checkpoint import open_checkpoint
from flask_ibi_archive.core.claims.claim import STATE_NUMBERS, identifier_key
from flask_ibi_archive.core.claims.merkle import hash_leaf
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import ClaimError, StorageError
from flask_ibi_archive.resolver.claims import followed_logs
from flask_ibi_archive.resolver.claims.conflicts import end_conflicts, note_rival
from flask_ibi_archive.resolver.claims.entry_check import CheckedEntries, check_entries
from flask_ibi_archive.resolver.claims.followed_logs import DueLog
from flask_ibi_archive.resolver.claims.index import ClaimIndex
from flask_ibi_archive.resolver.claims.log_reader import Reading, report_fork
from flask_ibi_archive.resolver.claims.resolver_key import read_key
from flask_ibi_archive.resolver.claims.versions import bump_version
from flask_ibi_archive.resolver.claims.witness import cosign_verified, find_cosigned_size
from flask_ibi_archive.resolver.config import ResolverConfig

_logger = logging.getLogger(__name__)


class ReadingStore:
    """Stores readings."""

    def __init__(self, config: ResolverConfig, index: ClaimIndex) -> None:
        self._config = config
        self._index = index

    def store(
        self, connection: Connection, readings: Sequence[tuple[DueLog, Reading]], now: datetime
    ) -> list[tuple[DueLog, Reading]]:
        """Store readings in the transaction of the caller.

        :returns: the readings that were stored. The others began from a position or key that is no
            longer the stored one, or belong to Archives that are no longer included.
        """
        included = followed_logs.lock_archives(connection, [log.archive_id for log, _ in readings])
        stored, changed = [], []
        for log, reading in readings:
            if log.archive_id not in included:
                continue
            result = self._cosign(connection, log, reading, now)
            changes_trust = followed_logs.store_reading(connection, log, result, now)
            if changes_trust is None:
                continue
            stored.append((log, result))
            if changes_trust:
                changed.append(log.archive_id)
            if result.fork is not None:
                followed_logs.store_fork(connection, log, result, now)
            if result.entries:
                self._store_entries(connection, log, result, now)
        if changed:
            bump_version(connection, changed)
        return stored

    def _store_entries(
        self, connection: Connection, log: DueLog, reading: Reading, now: datetime
    ) -> None:
        services = {log.service_ibi, log.origin.partition("#")[0]}
        checked = check_entries(reading.entries, reading.start, services)
        self._note_conflicts(connection, log.archive_id, checked, now)
        self._index.store(connection, checked.list_holdings(log.archive_id))
        followed_logs.store_prefixes(connection, log.archive_id, checked.find_prefixes(), now)
        if checked.rejected:
            followed_logs.store_rejected(connection, log.archive_id, checked.rejected, now)
            position, reason = min(checked.rejected.items())
            _logger.warning(
                "%d new entries in the log of %s are not valid and were kept out; the first is"
                " entry %d: %s; to list them, run: flask ibi-resolver claims --rejected",
                len(checked.rejected), log.service_ibi, position, reason,
            )  # fmt: skip

    def _note_conflicts(
        self, connection: Connection, archive_id: int, checked: CheckedEntries, now: datetime
    ) -> None:
        """Store new conflicts, and end those whose claims have changed.

        An item with two identifiers has one conflict with each other Archive. The claims that
        another Archive made of both identifiers before are found by either.
        """
        states = checked.find_states()
        keys = {ibi: identifier_key(ibi) for ibi in states}
        holdings = self._index.find(connection, list(keys.values()))
        original = STATE_NUMBERS[State.ORIGINAL]
        rivals: dict[tuple[int, int], tuple[str, str | None]] = {}
        for ibi, (state, claim) in states.items():
            for holding in holdings.get(keys[ibi], ()):
                if holding.state != original:
                    continue
                if holding.archive_id != archive_id:
                    if state is State.ORIGINAL:
                        other = next((one for one in claim.identifiers if one != ibi), None)
                        rivals.setdefault((id(claim), holding.archive_id), (ibi, other))
                elif state is not State.ORIGINAL:
                    end_conflicts(connection, ibi, archive_id, now)
        if rivals:
            others = {other_id for _, other_id in rivals}
            registered = followed_logs.list_registered(connection, others)
            for (_, other_id), (ibi, other) in rivals.items():
                if other_id in registered:
                    note_rival(connection, ibi, archive_id, other_id, now, other)

    def _cosign(
        self, connection: Connection, log: DueLog, reading: Reading, now: datetime
    ) -> Reading:
        """Cosign the checkpoint of a log that has grown, if the resolver has a key.

        :returns: the reading, or the report of a fork: the tree contradicts one that was cosigned
            at the request of the Archive.
        """
        try:
            key = read_key(self._config) if reading.entries else None
        except StorageError as error:
            _logger.error("checkpoints can't be cosigned: %s", error)
            return reading
        if key is None or reading.checkpoint is None:
            return reading
        try:
            opened = open_checkpoint(reading.checkpoint, log.known.key)
        except ClaimError:
            return reading  # the key was replaced while a large log is read
        frontier = log.known.frontier.copy()
        size = find_cosigned_size(connection, log.origin)
        for entry in reading.entries[: max(size - reading.start, 0)]:
            frontier.add(hash_leaf(entry))
        roots = {known.size: known.root() for known in (frontier, reading.frontier)}
        earlier = cosign_verified(
            connection, key, log.known.key, opened, roots, int(now.timestamp())
        )
        if earlier is None:
            return reading
        reason = "signed a log that contradicts a checkpoint that it had cosigned"
        return report_fork(log.known, reason, earlier, reading.checkpoint)
