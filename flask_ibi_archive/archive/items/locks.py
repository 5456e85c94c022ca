"""Locks the relations of Archives, and items, until the end of a transaction.

Without locks, another transaction could change a relation or a record between reading and writing.
Each operation and each flush locks in the same order: first the rows of the Archives, then those of
the items, in the order of their ids. Therefore two of them cannot wait for each other. A
transaction of a host with several flushes may lock in another order. If PostgreSQL then ends the
transaction because of a deadlock, the host gets the error of the driver, and may repeat the
transaction. SQLite needs no locks, because it has only one write transaction at a time.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select, text

from flask_ibi_archive.archive.items.tables import ArchiveRow, Item
from flask_ibi_archive.server.database.dialects import is_one_of

#: The maximum number of seconds that a transaction waits for the lock on relations. The limit is
#: necessary, because the transaction of a host may hold the lock for a long time.
LOCK_WAIT = 5.0

#: The lock of a transaction that changes counts of accesses in any order, on PostgreSQL. A
#: transaction that stores one access has the same lock, shared. SQLite needs no lock.
STORING_KEY = int.from_bytes(b"ibi_accs", "big")
STORING = f"SELECT pg_advisory_xact_lock({STORING_KEY})"

#: Sets the limit in milliseconds, unless the present limit is lower. Returns the present limit.
_LIMIT_WAIT = text(
    "SELECT setting, set_config('lock_timeout',"
    " least(nullif(CAST(setting AS bigint), 0), CAST(:limit AS bigint))::text, true)"
    " FROM pg_settings WHERE name = 'lock_timeout'"
)
_RESTORE_WAIT = text("SELECT set_config('lock_timeout', :setting, true)")


def lock_relations(
    connection: Connection,
    archives: Collection[int],
    items: Collection[int] = (),
    limited: bool = True,
) -> None:
    """Lock the relations of Archives, and items whose relations or records change.

    :param archives: the row IDs of the Archives.
    :param items: the row IDs of the items.
    :param limited: whether to wait at most :data:`LOCK_WAIT` seconds for each lock.
    :raises DBAPIError: if a lock is not free in time.
    """
    if connection.dialect.name == "sqlite":
        return
    if limited:
        limit = {"limit": int(LOCK_WAIT * 1000)}
        before = connection.execute(_LIMIT_WAIT, limit).scalar_one()
    _lock(connection, ArchiveRow, archives)
    lock_items(connection, items)
    if limited:  # after an error, the rollback restores the setting
        connection.execute(_RESTORE_WAIT, {"setting": before})


def lock_items(connection: Connection, items: Collection[int]) -> None:
    """Lock items whose records change, but not their relations.

    :param items: the row IDs of the items.
    """
    if items and connection.dialect.name != "sqlite":
        _lock(connection, Item, items)


def _lock(
    connection: Connection, model: type[ArchiveRow] | type[Item], ids: Collection[int]
) -> None:
    connection.execute(
        select(model.id)
        .where(is_one_of(connection, model.id, ids))
        .order_by(model.id)
        .with_for_update(key_share=True)
    )
