"""Purges old accesses. Their daily counts remain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta

from flask_ibi_archive.archive.accesses.url_keys import CLOCK_LEEWAY
from flask_ibi_archive.storage.accesses import (
    PURGING,
    count_accesses_before,
    delete_day,
    delete_old_salts,
    find_first_day,
    get_utc_day,
)
from flask_ibi_archive.storage.database import Database

#: Additional seconds for which accesses with expired URL keys are kept.
#: An acknowledgment may be delayed.
MARGIN = 3600


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
        with database.writing(table_lock=PURGING) as connection:
            day = find_first_day(connection, archive_id)
            if day is None or day >= before:
                delete_old_salts(connection, get_utc_day(int(now)))
                return PurgeResult(purged, before)
            purged += delete_day(connection, archive_id, day)
