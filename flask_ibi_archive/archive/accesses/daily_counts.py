"""Daily counts of accesses, and the purge of old accesses.

The daily counts are updated after every 500 new accesses and before each purge. A purge deletes old
accesses, but keeps their daily counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from logging import getLogger

from flask_ibi_archive.archive.accesses.url_keys import CLOCK_LEEWAY
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.storage.access_counts import (
    count_accesses,
    count_accesses_before,
    delete_day,
    find_first_day,
    find_newest_counted_id,
)
from flask_ibi_archive.storage.accesses import PURGING, delete_old_salts, get_utc_day
from flask_ibi_archive.storage.database import Database

log = getLogger("flask_ibi_archive.accesses")

#: The number of new accesses after which the daily counts are updated.
STEP = 500
#: The maximum number of seconds to wait for a lock before the daily counts are updated. If the lock
#: is not free, the next acknowledgment tries again.
LOCK_TIMEOUT = 0.1

#: Additional seconds for which accesses with expired URL keys are kept.
#: An acknowledgment may be delayed.
MARGIN = 3600


class AccessCounter:
    """Updates the daily counts after a certain number of new accesses.

    :param step: the number of new accesses after which the counts are updated.
    """

    def __init__(self, database: Database, step: int = STEP) -> None:
        self.database = database
        self.step = step
        self._due = 0

    def update_if_due(self, access: int) -> None:
        """Update the daily counts if enough accesses were stored since the last update.

        :param access: the id of the access that was just stored.
        """
        if access < self._due:
            return
        # set before the update: the other threads of this process then do not start an update
        self._due = access + self.step
        try:
            due = self.database.read(find_newest_counted_id) + self.step
            if access < due:  # another process has updated the counts
                self._due = due
            else:
                count_accesses(self.database, LOCK_TIMEOUT)
        except NotReady as error:
            log.info("the new accesses are counted later: %s", error)


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """The result of a purge or of a dry run.

    :param purged: the number of deleted accesses; in a dry run, of accesses that would be deleted.
    :param before: the first day (UTC) whose accesses are not deleted.
    """

    purged: int
    before: date


def purge_accesses(
    database: Database,
    archive_id: int,
    days: int,
    key_age: float,
    now: float,
    dry_run: bool = False,
) -> PurgeResult:
    """Delete the accesses of old days; the statistics do not change.

    The accesses of each day are deleted in a separate transaction. If the process is killed, each
    day is either deleted completely or not at all.

    :param days: the number of whole days (UTC) for which accesses are kept.
    :param key_age: the number of seconds for which a URL key is valid. Accesses are kept longer
        than this time, because a stored access prevents that its URL key is used again.
    :param now: the current time in POSIX seconds.
    :param dry_run: if true, accesses are only counted and not deleted.
    :raises NotReady: if the database does not answer.
    """
    keys_expired = math.floor(now - key_age - 2 * CLOCK_LEEWAY - MARGIN)
    before = min(get_utc_day(int(now)) - timedelta(days=days), get_utc_day(keys_expired))
    if dry_run:
        with database.reading() as connection:
            return PurgeResult(count_accesses_before(connection, archive_id, before), before)
    purged = 0
    while True:
        # count before the deletion: a double click is found by comparing two stored accesses
        count_accesses(database)
        with database.writing(table_lock=PURGING) as connection:
            day = find_first_day(connection, archive_id)
            if day is None or day >= before:
                delete_old_salts(connection, get_utc_day(int(now)))
                return PurgeResult(purged, before)
            purged += delete_day(connection, archive_id, day)
