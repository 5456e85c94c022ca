"""The notes of changed items, from which the claims of an Archive are made.

An operation writes an item with several statements. Triggers note the item after each of them, but
only the last note is what others see. On PostgreSQL, the notes of one transaction belong together.
SQLite has no number of a transaction. Therefore each operation counts itself. Statements of others
have the number of the operation before them, so that at most an intermediate state is not claimed.

While no claims are to be published, the triggers note nothing. When claims are published again, all
items are compared with their last claims, as when the log began.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

#: Values of the column ``covered`` (:class:`.ClaimLogRow`).
WAITING, PAUSED = -1, -2

#: The transactions with a snapshot that may not contain the present row of the log. Each of them
#: has a lock of its own number. The automatic VACUUM has no user.
_OLDER_SNAPSHOTS = text("""
SELECT own.virtualxid FROM ibi_claim_log AS log
JOIN pg_stat_activity AS other
 ON other.datname = current_database() AND other.usesysid IS NOT NULL
 AND age(other.backend_xmin) >= age(log.xmin)
JOIN pg_locks AS own
 ON own.pid = other.pid AND own.locktype = 'virtualxid' AND own.virtualxid = own.virtualtransaction
WHERE log.archive_id = :archive_id AND other.pid <> pg_backend_pid()
""")


def begin_change(connection: Connection) -> None:
    """Begin a new change. The transaction must have begun, and have the write lock."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("UPDATE ibi_claim_log SET change_no = change_no + 1")


def find_older_snapshots(connection: Connection, archive_id: int) -> set[str]:
    """Return the transactions that may not see the present row of a log, and then note nothing.

    On PostgreSQL, the statements of a transaction with the isolation level REPEATABLE READ or
    SERIALIZABLE, and their triggers, see the data of the moment of its first statement. Other
    transactions are in the result only during a statement. On SQLite, a transaction that has read
    older data can't write.
    """
    if connection.dialect.name == "sqlite":
        return set()
    return set(connection.scalars(_OLDER_SNAPSHOTS, {"archive_id": archive_id}))
