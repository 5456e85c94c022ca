"""Keeps the daily counts close to the newest access, so that few accesses are left to those who
read them.
"""

from __future__ import annotations

from logging import getLogger

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.storage.access_counts import count_accesses, newest_counted
from flask_ibi_archive.storage.database import Database

log = getLogger("flask_ibi_archive.accesses")

#: New accesses after which the stored counts are brought up to date.
STEP = 500
#: Seconds that an acknowledgment waits for others in order to count: another one will do it as
#: well.
PATIENCE = 0.1


class AccessCounter:
    """Counts the new accesses whenever there are some hundred of them.

    :param step: how many.
    """

    def __init__(self, database: Database, step: int = STEP) -> None:
        self.database = database
        self.step = step
        self._due = 0

    def note(self, access: int) -> None:
        """Note that an access was stored, and count if that is due.

        :param access: its id.
        """
        if access < self._due:
            return
        # set first: the other threads of this process need not try as well
        self._due = access + self.step
        try:
            due = self.database.read(newest_counted) + self.step
            if access < due:  # another process has counted
                self._due = due
            else:
                count_accesses(self.database, PATIENCE)
        except NotReady as error:
            log.info("the new accesses are counted later: %s", error)
