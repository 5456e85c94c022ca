"""Forgets the earlier logs of Archives whose logs began anew.

A new log contains everything that the Archive holds (federation CL-4), so the claims in the earlier
log mean nothing any more, as soon as the key of the new log is pinned. Before the new log is read,
each name in the kept entries of the earlier log is marked in the index as not claimed; then the new
log claims most of them again. Until it was read to its end, the Archive is asked about each item.

The files with the entries are deleted after the transaction that has marked their names. Therefore
a process that is killed at any point leaves the rest to the next one, and an Archive that begins
new logs again and again does not fill the disk.
"""

from __future__ import annotations

import logging
from itertools import islice
from pathlib import Path

from flask_ibi_archive.errors import ClaimError
from flask_ibi_archive.resolver.claims.entry_check import check_entries
from flask_ibi_archive.resolver.claims.followed_logs import DueLog, lock_logs
from flask_ibi_archive.resolver.claims.index import NOT_CLAIMED, ClaimIndex
from flask_ibi_archive.resolver.claims.kept_logs import KeptLogs
from flask_ibi_archive.server.database.database import Database

#: The number of bundles that are forgotten at once. Others must not wait for long meanwhile.
BATCH = 32

_logger = logging.getLogger(__name__)


def forget_replaced(database: Database, index: ClaimIndex, kept: KeptLogs, log: DueLog) -> bool:
    """Forget a part of the earlier logs of an Archive.

    :param log: the present log.
    :returns: True if nothing is left, so that the log can be read.
    :raises OSError: if a file can't be read or deleted.
    :raises StorageError: if the database does not answer.
    """
    if log.number == 1 or log.known.frontier.size > 0:
        return True
    for number in kept.list_logs(log.archive_id):
        if number < log.number:
            paths = list(islice(kept.list_files(log.archive_id, number), BATCH))
            if _forget(database, index, kept, log, paths) and len(paths) < BATCH:
                kept.remove_log(log.archive_id, number)
            return False
    return True


def _forget(
    database: Database, index: ClaimIndex, kept: KeptLogs, log: DueLog, paths: list[Path]
) -> bool:
    """Forget the claims in some files, and delete the files.

    :returns: False if another process has read the log, or if the log began anew again.
    """
    keys: set[bytes] = set()
    for path in paths:
        try:
            checked = check_entries(kept.read_file(path), 0, ())
        except ClaimError as error:
            _logger.warning(
                "some names may remain bound to %s until the command rebuild-index is run: %s",
                log.service_ibi, error,
            )  # fmt: skip
        else:
            keys.update(key for key, _, _ in checked.list_holdings(log.archive_id))
    with database.writing() as connection:
        rows = lock_logs(connection, [log.archive_id])
        if not log.is_at(rows.get(log.archive_id)):
            return False
        index.store(connection, ((key, log.archive_id, NOT_CLAIMED) for key in keys))
    for path in paths:
        path.unlink(missing_ok=True)
    return True
