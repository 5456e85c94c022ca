"""Identifiers of other systems and former addresses that belong to items (the field ``same_as``).

Within an Archive, such an alias belongs to one item (a constraint of the database). Aliases are
found by the digests of their form for comparison.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, func, select

from flask_ibi_archive.archive.items.tables import Item, SameAs
from flask_ibi_archive.server.database.dialects import is_one_of


def find_holders(
    connection: Connection, archive_id: int, digests: Iterable[str]
) -> dict[str, tuple[int, str]]:
    """Return the row ID and an identifier of the item that has each alias.

    :param digests: the digests of the aliases (:attr:`.ForeignIdentifier.digest`).
    :returns: a dictionary with digests as keys, without those that no item has. The identifier is
        in the short form if the item has this form.
    """
    rows = connection.execute(
        select(SameAs.digest, SameAs.item_id, func.coalesce(Item.ibip, Item.rep))
        .join(Item, Item.id == SameAs.item_id)
        .where(is_one_of(connection, SameAs.digest, digests), SameAs.archive_id == archive_id)
    ).all()
    return {digest: (item_id, str(ibi)) for digest, item_id, ibi in rows}
