"""Forgets the earlier logs of Archives whose logs began anew.

A new log contains everything that the Archive holds (federation CL-4), so the claims in the earlier
log mean nothing any more, as soon as the key of the new log is pinned. Before the new log is read,
each name in the kept entries of the earlier log is marked in the index as not claimed; then the new
log claims most of them again. Until it was read to its end, the Archive is asked about each item.

The follower does this between its readings. Many Archives may begin new logs at the same time, and
the others must not wait for long. Therefore only a part of the work, of all logs together, is done
at once.

The files with the entries are deleted after the transaction that has marked their names. Therefore
a process that is killed at any point leaves the rest to the next one, and an Archive that begins
new logs again and again does not fill the disk.
"""

from __future__ import annotations

import logging
from collections.abc import KeysView
from itertools import islice
from pathlib import Path

from flask_ibi_archive.errors import ClaimError, StorageError
from flask_ibi_archive.resolver.old_claims.entry_check import check_entries
from flask_ibi_archive.resolver.old_claims.followed_logs import DueLog, lock_logs
from flask_ibi_archive.resolver.old_claims.index import NOT_CLAIMED, ClaimIndex
from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs
from flask_ibi_archive.server.database.database import Database

#: The number of bundles that are forgotten at once.
BATCH = 32

_logger = logging.getLogger(__name__)


class ReplacedLogs:
    """The logs that can't be read before the earlier logs of their Archives are forgotten."""

    def __init__(self, database: Database, index: ClaimIndex, kept: KeptLogs) -> None:
        self._database = database
        self._index = index
        self._kept = kept
        self._waiting: dict[int, DueLog] = {}

    @property
    def archive_ids(self) -> KeysView[int]:
        """The ids of the Archives whose logs wait."""
        return self._waiting.keys()

    def must_wait(self, log: DueLog) -> bool:
        """Return whether an earlier log of the Archive is left. Then :meth:`forget_part` is needed.

        :param log: the present log.
        """
        try:
            must_wait = bool(self._list_numbers(log))
        except OSError:
            must_wait = True  # forget_part() returns the error
        if must_wait:
            self._waiting[log.archive_id] = log
        return must_wait

    def forget_part(self) -> tuple[DueLog, Exception] | None:
        """Forget up to :data:`BATCH` bundles of the earlier logs of all logs that wait.

        :returns: the log for which this fails, and the error. It does not wait any longer.
        """
        left = BATCH
        while self._waiting and left > 0:
            log = next(iter(self._waiting.values()))
            try:
                number = self._forget_bundles(log, left)
            except (OSError, StorageError) as error:
                del self._waiting[log.archive_id]
                return log, error
            if number < left:
                del self._waiting[log.archive_id]
            left -= max(number, 1)  # a log without files takes some time, too
        return None

    def _list_numbers(self, log: DueLog) -> list[int]:
        """Return the numbers of the earlier logs, if nothing of the present log was read yet."""
        if log.number == 1 or log.known.frontier.size > 0:
            return []
        return [number for number in self._kept.list_logs(log.archive_id) if number < log.number]

    def _forget_bundles(self, log: DueLog, limit: int) -> int:
        """Forget bundles of the earlier logs of an Archive.

        :param log: the present log.
        :param limit: the maximum number of bundles, at least 1.
        :returns: the number of bundles. It is lower than the limit if nothing is left to do.
        :raises OSError: if a file can't be read or deleted.
        :raises StorageError: if the database does not answer.
        """
        forgotten = 0
        for number in self._list_numbers(log):
            files = self._kept.list_files(log.archive_id, number)
            paths = list(islice(files, limit - forgotten))
            if not self._forget_files(log, paths):
                break
            forgotten += len(paths)
            if forgotten == limit:
                break
            self._kept.remove_log(log.archive_id, number)
        return forgotten

    def _forget_files(self, log: DueLog, paths: list[Path]) -> bool:
        """Forget the claims in some files, and delete the files.

        :returns: False if another process has read the log, or if the log began anew again.
        """
        keys: set[bytes] = set()
        for path in paths:
            try:
                checked = check_entries(self._kept.read_file(path), 0, ())
            except ClaimError as error:
                _logger.warning(
                    "some names may remain bound to %s until the command rebuild-index is run: %s",
                    log.service_ibi, error,
                )  # fmt: skip
            else:
                keys.update(key for key, _, _ in checked.list_holdings(log.archive_id))
        with self._database.writing() as connection:
            rows = lock_logs(connection, [log.archive_id])
            if not log.is_at(rows.get(log.archive_id)):
                return False
            self._index.store(connection, ((key, log.archive_id, NOT_CLAIMED) for key in keys))
        for path in paths:
            path.unlink(missing_ok=True)
        return True
