"""Daily counts of accesses, and the purge: delete old accesses and keep their counts.

The counts are updated when some hundred new accesses are stored, and before each purge.
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
#: Seconds to wait for a lock before counting; the next acknowledgment tries again anyway.
LOCK_TIMEOUT = 0.1

#: More seconds before accesses of expired keys are deleted: an acknowledgment may be delayed.
MARGIN = 3600


class AccessCounter:
    """Adds new accesses to the daily counts when there are enough of them.

    :param step: the number of new accesses after which the counts are updated.
    """

    def __init__(self, database: Database, step: int = STEP) -> None:
        self.database = database
        self.step = step
        self._due = 0

    def note(self, access: int) -> None:
        """Update the daily counts if enough accesses were stored since the last update.

        :param access: the id of the access that was just stored.
        """
        if access < self._due:
            return
        # set first, so that the other threads of this process do not try as well
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

    :param purged: the number of accesses that were deleted, or would be.
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

    Each day is deleted in a separate transaction: if a purge is killed, no day is deleted partly.

    :param days: the number of whole days (UTC) for which accesses are stored.
    :param key_age: the seconds for which a URL key is valid. Accesses are stored longer than that,
        so that a key cannot be used again.
    :param now: the current time in POSIX seconds.
    :raises NotReady: if the database does not answer.
    """
    keys_expired = math.floor(now - key_age - 2 * CLOCK_LEEWAY - MARGIN)
    before = min(get_utc_day(int(now)) - timedelta(days=days), get_utc_day(keys_expired))
    if dry_run:
        with database.reading() as connection:
            return PurgeResult(count_accesses_before(connection, archive_id, before), before)
    purged = 0
    while True:
        # before the deletion: a double click is found by comparing two accesses
        count_accesses(database)
        with database.writing(table_lock=PURGING) as connection:
            day = find_first_day(connection, archive_id)
            if day is None or day >= before:
                delete_old_salts(connection, get_utc_day(int(now)))
                return PurgeResult(purged, before)
            purged += delete_day(connection, archive_id, day)
