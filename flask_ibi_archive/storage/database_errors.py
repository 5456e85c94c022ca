"""What errors of SQLite and PostgreSQL mean, and what a user can do about them."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.storage.engines import describe_place, find_sqlite_file
from flask_ibi_archive.storage.migrate import History

ADVICE_WRITABLE = "see that this process may write the database, and for SQLite the folder it is in"
ADVICE_ROOM = "make room and try again"
ADVICE_AGAIN = "nothing was done: end this one, if it is the host's, and try again"


def explain_error(
    error: Exception, url: URL, history: History, committing: bool = False
) -> NotReady:
    """Return the error for users: why the database cannot do its work, and what to do about it.

    :param error: an error of SQLAlchemy's: of the driver, or of a pool without a free connection.
    :param url: the URL of the database; its password is not shown.
    :param history: the tables that are needed; it names the setting and the command.
    :param committing: whether the transaction was being committed.
    """
    if not isinstance(error, DBAPIError):
        return _no_answer("no connection is free", history)
    message = one_line(error)
    detail = f"{describe_place(url)}: {message}"
    if is_missing_table(error):
        advice = f"run: {history.init}"
        return NotReady("the database does not have the tables of this version", advice)
    if is_write_conflict(error):
        return NotReady("another transaction is in the way", ADVICE_AGAIN, message)
    if is_read_only(error, find_sqlite_file(url)):
        return NotReady("the database is not writable", ADVICE_WRITABLE, detail)
    if is_disk_full(error):
        return NotReady("the disk of the database is full", ADVICE_ROOM, detail)
    if committing and isinstance(error.orig, TimeoutError):
        message += "; the change may have been made or not"
    return _no_answer(message, history)


def _no_answer(detail: str, history: History) -> NotReady:
    advice = f"see that it runs and that {history.setting} names it"
    return NotReady("the database does not answer", advice, detail)


def one_line(error: DBAPIError) -> str:
    """Return the driver's message on one line, at most 200 characters of it."""
    return " ".join(str(error.orig).split())[:200]


def is_missing_table(error: DBAPIError) -> bool:
    """Return whether a statement failed because a table or a column is missing."""
    sqlstate = getattr(error.orig, "sqlstate", None)
    message = str(error.orig)
    return sqlstate in ("42P01", "42703") or message.startswith(("no such table", "no such column"))


def is_write_conflict(error: DBAPIError) -> bool:
    """Return whether a statement failed only because others write at the same time."""
    # serialization failure, deadlock, lock not available
    sqlstate = getattr(error.orig, "sqlstate", None)
    return sqlstate in ("40001", "40P01", "55P03") or str(error.orig) == "database is locked"


def is_read_only(error: DBAPIError, file: Path | None) -> bool:
    """Return whether a statement failed because the database, or its folder, is read-only.

    :param file: the file of an SQLite database.
    """
    message = str(error.orig)
    if message == "unable to open database file":
        folder = None if file is None else file.parent
        return folder is not None and folder.is_dir() and not os.access(folder, os.W_OK)
    sqlstate = getattr(error.orig, "sqlstate", None)
    return sqlstate == "25006" or message.startswith("attempt to write a readonly database")


def is_disk_full(error: DBAPIError) -> bool:
    """Return whether a statement failed because the disk is full."""
    sqlstate = getattr(error.orig, "sqlstate", None)
    return sqlstate == "53100" or str(error.orig) == "database or disk is full"
