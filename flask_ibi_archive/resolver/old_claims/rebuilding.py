"""Builds the index of claims again from the entries that a resolver keeps on its disk.

This is needed if files of the index were lost or damaged. The kept entries were verified when they
were read, so Archives are not asked. If entries are missing or damaged, the log is read from its
beginning again, and its Archive is always asked until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import case, select, update

from flask_ibi_archive.core.claims.checkpoint import get_service_rep
from flask_ibi_archive.core.claims.merkle import Frontier
from flask_ibi_archive.core.claims.tiles import WIDTH
from flask_ibi_archive.errors import ClaimError
from flask_ibi_archive.resolver.old_claims.entry_check import check_entries
from flask_ibi_archive.resolver.old_claims.followed_logs import lock_archives
from flask_ibi_archive.resolver.old_claims.index import ClaimIndex
from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.old_claims.tables import (
    CONTRADICTED,
    FORKED,
    NEW,
    FollowedLog,
)
from flask_ibi_archive.resolver.old_claims.versions import bump_version
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.database import Database

_LOGS = (
    select(
        FollowedLog.archive_id,
        FollowedLog.number,
        FollowedLog.origin,
        FollowedLog.size,
        RegisteredArchive.service_ibi,
    )
    .join(RegisteredArchive, RegisteredArchive.id == FollowedLog.archive_id)
    .order_by(FollowedLog.archive_id)
)


@dataclass(slots=True)
class Rebuilding:
    """What was read for a new index.

    :ivar logs: the number of logs.
    :ivar entries: the number of entries.
    :ivar lost: for each log with missing or damaged entries, the IBI of the service of its Archive
        and the reason.
    """

    logs: int = 0
    entries: int = 0
    lost: dict[str, str] = field(default_factory=dict)


def rebuild_index(
    database: Database,
    index: ClaimIndex,
    kept: KeptLogs,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Rebuilding:
    """Build the index again. The follower and the resolver may go on meanwhile.

    :param on_progress: called with the number of entries that were read, and that of all entries.
    :raises StorageError: if the database does not answer, or if another process is changing the
        files of the index. Then the old files remain.
    """
    logs = database.read_rows(_LOGS)
    total = sum(log.size for log in logs)
    result = Rebuilding()

    def read() -> Iterator[tuple[bytes, int, int]]:
        for log in logs:
            result.logs += 1
            try:
                for entries, holdings in _read_log(kept, log):
                    yield from holdings
                    result.entries += entries
                    on_progress(result.entries, total)
            except ClaimError as error:
                result.lost[log.service_ibi] = str(error)
                _read_again(database, log)

    index.rebuild(read())
    return result


def _read_log(kept: KeptLogs, log: Any) -> Iterator[tuple[int, Iterator[tuple[bytes, int, int]]]]:
    """Yield the number of the entries of each bundle of a log, and what they claim.

    :raises ClaimError: if entries are missing or damaged.
    """
    services = {log.service_ibi, get_service_rep(log.origin)}
    for start in range(0, log.size, WIDTH):
        entries = kept.read_bundle(log.archive_id, log.number, start // WIDTH)
        if len(entries) < min(log.size - start, WIDTH):
            raise ClaimError(f"entries from {start + len(entries)} on are missing")
        checked = check_entries(entries, start, services)
        yield len(entries), checked.list_holdings(log.archive_id)


def _read_again(database: Database, log: Any) -> None:
    """Let the follower read a log from its beginning, and ask its Archive always until then.

    The log of an Archive that is always asked for another reason keeps its state.
    """
    with database.writing() as connection:
        lock_archives(connection, [log.archive_id])  # in the order of the follower
        connection.execute(
            update(FollowedLog)
            .where(
                FollowedLog.archive_id == log.archive_id,
                FollowedLog.number == log.number,
                FollowedLog.state != FORKED,
            )
            .values(
                state=case((FollowedLog.state == CONTRADICTED, CONTRADICTED), else_=NEW),
                reason=None,
                size=0,
                length=0,
                frontier=Frontier().to_bytes(),
                checkpoint=None,
                etag=None,
                signed_at=None,
                read_at=None,
            )
        )
        bump_version(connection, [log.archive_id])
