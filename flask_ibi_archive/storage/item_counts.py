"""Reads the number of accesses to an item by month, for the page of the item.

Two statements are sufficient, and they are built only once.
"""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Any

from sqlalchemy import Connection, String, bindparam, cast, func, literal, select, union_all

from flask_ibi_archive.storage.access_counts import (
    ASKED,
    NO_LIMIT,
    DayCounts,
    select_affected_accesses,
)
from flask_ibi_archive.storage.accesses import get_utc_day
from flask_ibi_archive.storage.dialects import Key
from flask_ibi_archive.storage.models import AccessCount, CountedAccesses


def read_months(connection: Connection, archive_id: int, item_id: int) -> list[DayCounts]:
    """Return the counts of the accesses that requested an item.

    The day of each row is in the month of the accesses. The result may contain several rows for the
    same month and content type. The numbers of double clicks and robots are 0.
    """
    found, counted = [], 0
    for month, content_type, accesses in connection.execute(_stored(), {"item_id": item_id}):
        if month:
            found.append(DayCounts(date.fromisoformat(f"{month}-01"), content_type, accesses, 0, 0))
        else:
            counted = accesses
    parameters = {"item_id": item_id, "archive_id": archive_id, "counted": counted}
    for row in connection.execute(_new(), parameters):
        change = int(not (row.is_double or row.robot)) - int(row.is_counted and not row.was_double)
        found.append(DayCounts(get_utc_day(row.second), row.content_type, change, 0, 0))
    return found


@cache
def _stored() -> Any:
    """Select the stored counts by month, and the id of the newest access that they include."""
    month = func.substr(cast(AccessCount.day, String), 1, 7).label("month")
    months = (
        select(
            month,
            AccessCount.content_type,
            cast(func.sum(AccessCount.accesses), Key).label("accesses"),
        )
        .where(AccessCount.item_id == bindparam("item_id"), AccessCount.role == ASKED)
        .group_by(month, AccessCount.content_type)
    )
    newest = select(literal(""), literal(""), CountedAccesses.newest)
    return union_all(months, newest)


@cache
def _new() -> Any:
    """Select the accesses that change the stored counts."""
    return select_affected_accesses(
        ASKED,
        bindparam("counted", type_=Key),
        literal(NO_LIMIT, Key),
        bindparam("archive_id", type_=Key),
        bindparam("item_id", type_=Key),
    )
