"""Purging: single accesses are taken out after a while, their counts stay."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta

from flask_ibi_archive.archive.accesses.url_keys import CLOCK_LEEWAY
from flask_ibi_archive.storage.access_counts import (
    count_accesses,
    count_before,
    delete_day,
    first_day,
)
from flask_ibi_archive.storage.accesses import PURGING, day_of, drop_salts
from flask_ibi_archive.storage.database import Database

#: Seconds that a key may still be on its way after it has expired.
MARGIN = 3600


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """What a purge did, or would do.

    :param purged: the accesses that were taken out; their counts stay.
    :param before: the first day (UTC) whose accesses stay.
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
    """Take out the accesses of days long gone; statistics stay as they are.

    Each day is a transaction of its own: killed in between, a purge has done some days wholly and
    the others not at all.

    :param days: whole days (UTC) that accesses are kept.
    :param key_age: seconds that a URL key is good for: what it was used for is kept longer than
        that, so that it can't be used again.
    :param now: the POSIX second.
    :raises NotReady: if the database does not answer.
    """
    safe = math.floor(now - key_age - 2 * CLOCK_LEEWAY - MARGIN)
    before = min(day_of(int(now)) - timedelta(days=days), day_of(safe))
    if dry_run:
        with database.reading() as connection:
            return PurgeResult(count_before(connection, archive_id, before), before)
    purged = 0
    while True:
        # first, as long as the accesses right before and after are there to compare with
        count_accesses(database)
        with database.writing(lock=PURGING) as connection:
            day = first_day(connection, archive_id)
            if day is None or day >= before:
                drop_salts(connection, day_of(int(now)))
                return PurgeResult(purged, before)
            purged += delete_day(connection, archive_id, day)
