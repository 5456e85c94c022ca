"""How the Archives answer: counts that are gathered in memory, and added here now and then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, update

from flask_ibi_archive.resolver.tables import RegisteredArchive

#: Characters of a failure that are kept.
LONGEST_FAILURE = 300


@dataclass(frozen=True, slots=True)
class ArchiveCounts:
    """What came of questions to an Archive.

    :param answers: how many it answered.
    :param failures: how many it did not, or not as it should.
    :param milliseconds: how long those answered took in all.
    :param last_failure: what was wrong the last time, to be read behind the Archive's address.
    """

    answers: int = 0
    failures: int = 0
    milliseconds: int = 0
    last_failure: str | None = None


def add_metrics(connection: Connection, counts: Mapping[int, ArchiveCounts], now: datetime) -> None:
    """Add what came of questions to what is written down of their Archives.

    :param counts: by the number of the Archive. One that is not registered any more is passed over.
    :param now: the moment of the last answer and of the last failure, where there is one.
    """
    table = RegisteredArchive
    for archive_id, more in sorted(counts.items()):  # in one order, as all that write do
        values = {
            table.answers: table.answers + more.answers,
            table.failures: table.failures + more.failures,
            table.milliseconds: table.milliseconds + more.milliseconds,
        }
        changed = update(table).where(table.id == archive_id).values(values)
        if more.answers:
            changed = changed.values(last_answer_at=now)
        if more.last_failure is not None:
            changed = changed.values(last_failure=_plain(more.last_failure), last_failure_at=now)
        connection.execute(changed)


def _plain(text: str) -> str:
    """Return a line as any database takes it: what a server says may stand in it."""
    return "".join(sign if sign.isprintable() else " " for sign in text)[:LONGEST_FAILURE]
