"""All names that Archives claim, sorted, from the kept logs.

The names are sorted on the disk, so that any number of them needs little memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from flask_ibi_archive.core.claims.checkpoint import get_service_rep
from flask_ibi_archive.core.claims.claim import STATE_NUMBERS, identifier_key, name_key
from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.old_claims.tables import FollowedLog
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.dialects import batched

#: The memory in KiB that sorting may use.
MEMORY = 65536
#: The number of claims after which the progress is shown.
STEP = 10_000

#: Receives the number of names that are finished, and the number of all names, as far as known.
OnProgress = Callable[[int, int], None]


class Holder(NamedTuple):
    """What an Archive claimed last about a name.

    :param state: the number of the state of the item (core/claims/claim.py).
    :param timestamp: the time of the last change, such as ``2009-07-21T13:23:45Z``.
    :param name: the name as this Archive writes it.
    :param ibi: an identifier of the item.
    """

    archive_id: int
    state: int
    timestamp: str
    name: str
    ibi: str


class BoundName(NamedTuple):
    """A name: an identifier or an alias.

    :param fold: the text or the bytes by which the names are sorted.
    :param holders: the Archives that claim the name, at least one.
    """

    fold: bytes
    holders: tuple[Holder, ...]

    def find_place(self) -> Holder:
        """Return the Archive to which the name leads.

        It is the one that claims it last as Original; else as Copy; else as Deleted.
        """
        state = min(holder.state for holder in self.holders)
        return max(
            (holder for holder in self.holders if holder.state == state),
            key=lambda holder: (holder.timestamp, -holder.archive_id),
        )


def sort_names(
    connection: Connection,
    logs: KeptLogs,
    archive_ids: Iterable[int],
    fold: Callable[[str], bytes],
    on_read: OnProgress,
    on_sorted: OnProgress,
) -> Iterator[list[BoundName]]:
    """Yield the names that Archives claim, sorted, in groups with the same fold.

    A name that was removed from an item stays bound to it, unless the Archive gave it to another.

    :param connection: a connection to the database of the resolver.
    :param archive_ids: the Archives whose claims are read.
    :param fold: returns the bytes by which the names are sorted.
    :param on_read: the progress of reading claims.
    :param on_sorted: the progress of yielding names.
    :raises ClaimError: if a file of a log is damaged.
    """
    # SQLite deletes a database without a name when it is closed
    with closing(sqlite3.connect("", isolation_level=None)) as names:
        names.execute(f"PRAGMA cache_size = -{MEMORY}")
        names.execute("PRAGMA journal_mode = OFF")
        names.execute("CREATE TABLE name (fold, key, archive, state, timestamp, name, ibi)")
        rows = _read_names(connection, logs, archive_ids, fold, on_read)
        total = 0
        for batch in batched(rows, STEP):
            names.executemany("INSERT INTO name VALUES (?, ?, ?, ?, ?, ?, ?)", batch)
            total += len(batch)
        in_order = names.execute("SELECT * FROM name ORDER BY fold, rowid")
        done = 0
        for value, group in groupby(in_order, itemgetter(0)):
            last: dict[bytes, dict[int, Holder]] = {}
            for _, key, *values in group:
                holder = Holder(*values)
                last.setdefault(key, {})[holder.archive_id] = holder
                done += 1
                if done % STEP == 0 or done == total:
                    on_sorted(done, total)
            yield [BoundName(value, tuple(holders.values())) for holders in last.values()]


def _read_names(
    connection: Connection,
    logs: KeptLogs,
    archive_ids: Iterable[int],
    fold: Callable[[str], bytes],
    on_read: OnProgress,
) -> Iterator[tuple[bytes, bytes, int, int, str, str, str]]:
    """Yield a row for each name in each claim, in the order of the logs."""
    total = connection.scalar(select(func.sum(FollowedLog.size))) or 0
    done = 0
    for archive_id in archive_ids:
        for claim in logs.read_claims(archive_id, find_services(connection, archive_id)):
            facts = archive_id, STATE_NUMBERS[claim.state], claim.timestamp
            ibis = claim.identifiers
            for ibi in ibis:
                yield fold(ibi), identifier_key(ibi), *facts, ibi, ibi
            for alias in claim.aliases:
                yield fold(alias), name_key(alias), *facts, alias, ibis[0]
            done += 1
            if done % STEP == 0 or done == total:
                on_read(done, max(done, int(total)))


def find_services(connection: Connection, archive_id: int) -> set[str]:
    """Return the IBIs of the service of an Archive, as far as they are known."""
    rows = connection.execute(
        select(RegisteredArchive.service_ibi, FollowedLog.origin)
        .join(FollowedLog, FollowedLog.archive_id == RegisteredArchive.id)
        .where(RegisteredArchive.id == archive_id)
    )
    return {ibi for service_ibi, origin in rows for ibi in (service_ibi, get_service_rep(origin))}
