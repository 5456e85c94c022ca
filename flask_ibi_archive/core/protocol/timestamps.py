"""The timestamps of the protocol."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import overload


@overload
def format_timestamp(moment: datetime) -> str: ...


@overload
def format_timestamp(moment: None) -> None: ...


def format_timestamp(moment: datetime | None) -> str | None:
    """Return a time as ``YYYY-MM-DDThh:mm:ssZ``, without the fraction of the second.

    :param moment: the time. Without a time zone, it is in UTC.
    :returns: the text; None if the time is None.
    """
    if moment is None:
        return None
    if moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc)
    # strftime would write the year 33 with two digits
    return moment.replace(tzinfo=None, microsecond=0).isoformat() + "Z"
