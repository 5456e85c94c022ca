"""The SQL statements that run during some work."""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask
from sqlalchemy import event

from support.archives import archive_of


def count_statements(app: Flask, work: Callable[[], object]) -> list[str]:
    """Return the SQL statements that run during some work."""
    found: list[str] = []

    def note(*parts: object) -> None:
        found.append(str(parts[2]))

    database = archive_of(app).database
    for engine in {database.engine, database.reader}:
        event.listen(engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        for engine in {database.engine, database.reader}:
            event.remove(engine, "before_cursor_execute", note)
    return found
