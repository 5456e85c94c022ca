"""Explains database errors to users: what the cause is, and how users can solve the problem."""

from __future__ import annotations

import os

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.server.database.breaker import ServerSilent
from flask_ibi_archive.server.database.engines import describe_place, find_sqlite_file
from flask_ibi_archive.server.database.migrate import History

ADVICE_WRITABLE = "make sure that this process may write the database (for SQLite, also the folder)"
ADVICE_FREE_SPACE = "free some space and try again"
ADVICE_TRY_AGAIN = (
    "nothing was changed; if the host has an open transaction, end this transaction; then try again"
)


def explain_error(
    error: Exception, url: URL, history: History, committing: bool = False
) -> NotReady:
    """Return an error whose message states why the database failed, and what users can do.

    :param error: the error that was raised. Either no connection was free, or the server is
        silent, or the driver reported an error.
    :param url: the URL of the database. The message does not contain the password.
    :param history: the history of the tables. The message uses its setting and its command.
    :param committing: True if the error was raised by a COMMIT.
    """
    if not isinstance(error, DBAPIError):
        silent = isinstance(error, ServerSilent)
        return _no_answer(str(error) if silent else "no connection is free", history)
    message, sqlstate, text = get_driver_message(error), get_sqlstate(error), str(error.orig)
    detail = f"{describe_place(url)}: {message}"
    if sqlstate in ("42P01", "42703") or text.startswith(("no such table", "no such column")):
        advice = f"run: {history.init}"
        return NotReady("the database does not have the tables of this version", advice)
    if is_write_conflict(error):
        return NotReady("another transaction blocks this transaction", ADVICE_TRY_AGAIN, message)
    is_read_only = sqlstate == "25006" or text.startswith("attempt to write a readonly database")
    if is_read_only or (text == "unable to open database file" and _is_in_closed_folder(url)):
        return NotReady("the database is not writable", ADVICE_WRITABLE, detail)
    if sqlstate == "53100" or text == "database or disk is full":
        return NotReady("the disk of the database is full", ADVICE_FREE_SPACE, detail)
    if committing and isinstance(error.orig, TimeoutError):
        message += "; it is unknown whether the change was stored"
    return _no_answer(message, history)


def _no_answer(detail: str, history: History) -> NotReady:
    advice = f"check that the database is running and that {history.setting} is its URL"
    return NotReady("the database does not answer", advice, detail)


def get_driver_message(error: DBAPIError) -> str:
    """Return the first 200 characters of the driver's message, without line breaks."""
    return " ".join(str(error.orig).split())[:200]


def get_sqlstate(error: DBAPIError) -> str | None:
    """Return the error code of PostgreSQL. The driver psycopg2 calls it pgcode."""
    return getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)


def can_be_repeated(error: DBAPIError) -> bool:
    """Return whether PostgreSQL asks to repeat the transaction: serialization failure, deadlock."""
    return get_sqlstate(error) in ("40001", "40P01")


def is_write_conflict(error: DBAPIError) -> bool:
    """Return whether a statement failed because of a conflict with another transaction."""
    is_locked = get_sqlstate(error) == "55P03" or str(error.orig) == "database is locked"
    return is_locked or can_be_repeated(error)


def _is_in_closed_folder(url: URL) -> bool:
    """Return whether this process may not write the folder of an SQLite file."""
    file = find_sqlite_file(url)
    return file is not None and file.parent.is_dir() and not os.access(file.parent, os.W_OK)
