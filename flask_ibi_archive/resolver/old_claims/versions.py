"""The version of the list of Archives.

Each process of a resolver keeps the included Archives in memory. It reads the list again when the
version in the database is not its own, so each change of the list, or of the Archives that are
always asked, must increase the version in its transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select, update

from flask_ibi_archive.resolver.old_claims.tables import ResolverState
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.dialects import is_one_of


def bump_version(connection: Connection, archive_ids: Iterable[int]) -> int:
    """Increase the version of the list of Archives, and return the new version.

    The row of the version is locked until the end of the transaction, so versions are committed in
    their order. Therefore a transaction calls this function last, unless it has locked the rows of
    all Archives that it changes before.

    :param archive_ids: the ids of the Archives that have changed. Removed Archives are ignored.
    """
    # an inclusion locks the row of its Archive before the row of the version: so does this function
    lock_rows(connection, archive_ids)
    version: int = connection.scalars(
        update(ResolverState)
        .values(version=ResolverState.version + 1)
        .returning(ResolverState.version)
    ).one()
    return version


def lock_rows(connection: Connection, archive_ids: Iterable[int]) -> None:
    """Lock the rows of Archives, in the order in which all transactions lock them."""
    connection.execute(
        select(RegisteredArchive.id)
        .where(is_one_of(RegisteredArchive.id, archive_ids))
        .order_by(RegisteredArchive.id)
        .with_for_update(key_share=True)
    )
