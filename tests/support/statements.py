"""The SQL statements that run during some work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flask import Flask
from sqlalchemy import event

from flask_ibi_archive.server.database.database import Database
from support.archives import archive_of


@contextmanager
def statements_of(*databases: Database) -> Iterator[list[str]]:
    """Yield a list that receives the statements sent to some databases."""
    sent: list[str] = []

    def note(*parts: object) -> None:
        sent.append(str(parts[2]))

    engines = {engine for one in databases for engine in (one.engine, one.reader)}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", note)


def count_statements(app: Flask, work: Callable[[], object]) -> list[str]:
    """Return the SQL statements that run during some work."""
    with statements_of(archive_of(app).database) as sent:
        work()
    return sent
