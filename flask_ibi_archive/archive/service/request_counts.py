"""Counts the requests of programs, for rate limits.

Requests are counted per minute in the database, because all processes share it. A fixed window is
sufficient: a program may send twice its rate at the turn of a minute.
"""

from __future__ import annotations

from datetime import datetime
from threading import Lock

from sqlalchemy import delete, select

from flask_ibi_archive.archive.items.tables import RequestCount
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update

#: The key of the counts of requests in ``app.extensions``.
COUNTS = "ibi_request_counts"
#: The maximum number of wrong keys and secrets in a minute from one network.
WRONG_KEYS = 10
#: A process claims this part of the requests that a sender may still send in a minute.
CLAIMS = 100


class RequestCounts:
    """Counts the requests of keys, and those with wrong keys, of all processes together.

    A process claims several requests at a time, so that not each request writes to the database;
    the nearer the limit, the fewer. What it has claimed and does not use until the minute ends is
    lost: if many processes serve a program, it is refused a little before its limit, never after.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        #: For each sender: the minute, and the claimed requests that are left.
        self._claimed: dict[str, tuple[int, int]] = {}

    def count(self, database: Database, sender: str, limit: int, now: datetime) -> int | None:
        """Count a request, unless the limit of the present minute is reached.

        A refused request writes nothing.

        :param sender: whose requests are counted, such as ``key 7`` or a network.
        :returns: None if the request was counted. Otherwise, the number of seconds to wait.
        """
        second = int(now.timestamp())
        minute = second // 60
        with self._lock:
            claimed, left = self._claimed.get(sender, (minute, 0))
            if claimed == minute and left:
                self._claimed[sender] = minute, left - 1
                return None
        size = _claim(database, sender, minute, limit)
        if not size:
            return 60 - second % 60
        if size > 1:  # the sender has a key: there are few
            with self._lock:
                claimed, left = self._claimed.get(sender, (minute, 0))
                left = left if claimed == minute else 0
                self._claimed[sender] = minute, left + size - 1
        return None


def _claim(database: Database, sender: str, minute: int, limit: int) -> int:
    """Store that a sender sends further requests in a minute, and return their number.

    :returns: 0 if the limit is reached. Then nothing is written.
    """
    counted = select(RequestCount.requests).where(
        RequestCount.sender == sender, RequestCount.minute == minute
    )
    left = limit - (database.read(lambda connection: connection.scalar(counted)) or 0)
    if left < 1:
        return 0
    size = max(left // CLAIMS, 1)
    with database.writing() as connection:
        statement = insert_or_update(connection, RequestCount).values(
            sender=sender, minute=minute, requests=size
        )
        requests = connection.scalar(
            statement.on_conflict_do_update(
                index_elements=["sender", "minute"],
                set_={"requests": RequestCount.requests + size},
                where=RequestCount.requests + size <= limit,
            ).returning(RequestCount.requests)
        )
        if requests == size:
            connection.execute(delete(RequestCount).where(RequestCount.minute < minute - 1))
        return 0 if requests is None else size
