"""The notes of changed items, from which the claims of an Archive are made.

An operation writes an item with several statements. Triggers note the item after each of them, but
only the last note is what others see. On PostgreSQL, the notes of one transaction belong together.
SQLite has no number of a transaction. Therefore each operation counts itself. Statements of others
have the number of the operation before them, so that at most an intermediate state is not claimed.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, update

from flask_ibi_archive.archive.items.tables import ClaimLogRow, ClaimNote


def begin_change(connection: Connection) -> None:
    """Begin a new change. The transaction must have begun, and have the write lock."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("UPDATE ibi_claim_log SET change_no = change_no + 1")


def compare_all_items(connection: Connection) -> None:
    """Let all logs compare their claims with all items again, because the items were restored.

    The restored rows were noted one by one. These notes are deleted.
    """
    connection.execute(delete(ClaimNote))
    connection.execute(update(ClaimLogRow).values(covered=0))
