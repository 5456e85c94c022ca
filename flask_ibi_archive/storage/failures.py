"""What an error of a database means, as SQLite and PostgreSQL report it."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.exc import DBAPIError


def one_line(error: DBAPIError) -> str:
    """Return the message of the driver, short and on one line."""
    return " ".join(str(error.orig).split())[:200]


def is_missing_table(error: DBAPIError) -> bool:
    """Return whether a statement failed because a table or a column is missing."""
    sqlstate = getattr(error.orig, "sqlstate", None)
    message = str(error.orig)
    return sqlstate in ("42P01", "42703") or message.startswith(("no such table", "no such column"))


def is_in_the_way(error: DBAPIError) -> bool:
    """Return whether a statement failed only because others write at the same time."""
    # serialization failure, deadlock, lock not available
    sqlstate = getattr(error.orig, "sqlstate", None)
    return sqlstate in ("40001", "40P01", "55P03") or str(error.orig) == "database is locked"


def is_read_only(error: DBAPIError, file: Path | None) -> bool:
    """Return whether a statement failed because the database, or the folder of an SQLite file, is
    read-only.

    :param file: that of an SQLite database.
    """
    message = str(error.orig)
    if message == "unable to open database file":
        folder = None if file is None else file.parent
        return folder is not None and folder.is_dir() and not os.access(folder, os.W_OK)
    sqlstate = getattr(error.orig, "sqlstate", None)
    return sqlstate == "25006" or message.startswith("attempt to write a readonly database")


def is_disk_full(error: DBAPIError) -> bool:
    """Return whether a statement failed because there is no room left."""
    sqlstate = getattr(error.orig, "sqlstate", None)
    return sqlstate == "53100" or str(error.orig) == "database or disk is full"
