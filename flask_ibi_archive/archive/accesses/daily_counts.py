"""Daily counts of accesses: updated after every 500 new accesses, and before each purge."""

from __future__ import annotations

from logging import getLogger

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.storage.access_counts import count_accesses, find_newest_counted_id
from flask_ibi_archive.storage.database import Database

log = getLogger("flask_ibi_archive.accesses")

#: The number of new accesses after which the daily counts are updated.
STEP = 500
#: The maximum number of seconds to wait for a lock before the daily counts are updated. If the lock
#: is not free, the next acknowledgment tries again.
LOCK_TIMEOUT = 0.1


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
