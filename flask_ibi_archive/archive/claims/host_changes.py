"""Reads the changed items of a host that keeps all data in its own tables.

The changes are read in rounds. A round lists all changes since a time, sorted by their timestamps,
and may be continued by a later call. The next round begins with the time at which this one began,
and a little earlier, because a host may commit a change some time after the time that it states.
What is read twice makes no second claim.

Source: federation CL-6.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from flask_ibi_archive.archive.claims.claimed_items import ClaimedItem, read_record
from flask_ibi_archive.archive.service.catalogue import RecordSource

#: A change in a host's catalogue may be committed this long after the time that it states.
MAX_DELAY = timedelta(minutes=5)


@dataclass(frozen=True)
class Round:
    """A round of reading changes.

    :param begun: the time when the round began.
    :param since: the time since which changes are listed; None: all.
    :param after: the position of the last change that was read; None if the round has just begun.
    """

    begun: datetime
    since: datetime | None = None
    after: tuple[datetime, str] | None = None

    def format(self) -> str:
        """Return the round as text for the database."""
        time, ibi = self.after or (None, None)
        times = (one and one.isoformat() for one in (self.begun, self.since, time))
        return json.dumps([*times, ibi])


def parse_round(text: str) -> Round:
    """Return the round that :meth:`Round.format` has written."""
    begun, since, time, ibi = json.loads(text)
    return Round(
        datetime.fromisoformat(begun),
        since and datetime.fromisoformat(since),
        (datetime.fromisoformat(time), ibi) if time else None,
    )


def read_changes(
    source: RecordSource, stored: str | None, now: datetime, limit: int
) -> tuple[list[ClaimedItem], str, bool]:
    """Return the next changed items of a host.

    :param stored: the text that the last call has returned; None at the first call.
    :param limit: the largest number of changes to read.
    :returns: the items, the text for the next call, and whether the round goes on.
    """
    current = Round(now) if stored is None else parse_round(stored)
    if stored is not None and current.after is None:
        current = replace(current, begun=now)
    changes = [*source.iterate_changes(current.since, current.after, limit)]
    items = [read_record(record) for _, record in changes if record is not None]
    if len(changes) == limit:
        return items, replace(current, after=changes[-1][0]).format(), True
    return items, Round(now, current.begun - MAX_DELAY).format(), False
