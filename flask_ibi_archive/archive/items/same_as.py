"""Identifiers of other systems and former addresses that belong to items (the field ``same_as``).

Within an Archive, such an alias belongs to one item (a constraint of the database). Aliases are
found by the digests of their form for comparison.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Select, Text, bindparam, exists, func, select

from flask_ibi_archive.archive.items.bulk import insert_rows
from flask_ibi_archive.archive.items.tables import Item, SameAs
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import batched, is_listed

#: A process remembers for this number of seconds that a database contains no former addresses.
MEMORY = 60

#: Whether each database contains former addresses, and when this process asks again.
_addresses: WeakKeyDictionary[Database, tuple[bool, float]] = WeakKeyDictionary()
_HAS_ADDRESSES = select(exists().where(SameAs.text.like("http%")))


def has_addresses(database: Database) -> bool:
    """Return whether an item has a former address.

    The answer is remembered, because a page of the app that does not exist must not wait for the
    database if no item has a former address. Therefore the first address that another process
    stores may be unknown for a minute. While one request asks again, others do not wait for it.

    :raises NotReady: if the database does not answer.
    """
    found, until = _addresses.get(database, (None, -inf))
    now = monotonic()
    if found is None or now >= until:
        if found is not None:
            _addresses[database] = found, now + MEMORY
        found = bool(database.read(lambda connection: connection.scalar(_HAS_ADDRESSES)))
        _addresses[database] = found, inf if found else now + MEMORY
    return found


def find_holders(
    connection: Connection, archive_id: int, digests: Iterable[str]
) -> dict[str, tuple[int, str]]:
    """Return the row ID and an identifier of the item that has each alias.

    :param digests: the digests of the aliases (:attr:`.ForeignIdentifier.digest`).
    :returns: a dictionary with digests as keys, without those that no item has. The identifier is
        in the short form if the item has this form.
    """
    given = {"archive_id": archive_id, "digests": json.dumps([*digests])}
    rows = connection.execute(_select_holders(connection.dialect.name), given).all()
    return {digest: (item_id, str(ibi)) for digest, item_id, ibi in rows}


@lru_cache
def _select_holders(dialect: str) -> Select[Any]:
    """Return the statement of :func:`find_holders`.

    Each request for an old link, and for a page that does not exist, runs this statement. To build
    it takes several times as long as to run it.
    """
    # SQLAlchemy executes statements faster with tables than with ORM classes
    aliases: Any = SameAs.__table__
    items: Any = Item.__table__
    named, item = aliases.c, items.c
    return (
        select(named.digest, named.item_id, func.coalesce(item.ibip, item.rep))
        .join(items, item.id == named.item_id)
        .where(
            is_listed(dialect, named.digest, bindparam("digests", type_=Text)),
            named.archive_id == bindparam("archive_id"),
        )
    )


def find_all_holders(
    connection: Connection, archive_id: int, digests: Iterable[str]
) -> dict[str, tuple[int, str]]:
    """Return the same as :func:`find_holders`, for any number of aliases."""
    holders: dict[str, tuple[int, str]] = {}
    for part in batched(digests):
        holders.update(find_holders(connection, archive_id, part))
    return holders


def add_same_as(
    connection: Connection, archive_id: int, aliases: Sequence[tuple[int, int, str]]
) -> None:
    """Store aliases of items.

    :param aliases: the row ID of the item, the position in its list, and the canonical text.
    :raises StorageError: if another item has one of the aliases.
    """
    for part in batched(aliases):
        rows: list[dict[str, Any]] = [
            {
                "digest": parse_foreign(text).digest,
                "archive_id": archive_id,
                "item_id": item_id,
                "position": position,
                "text": text,
            }
            for item_id, position, text in part
        ]
        taken = find_holders(connection, archive_id, [row["digest"] for row in rows])
        for row in rows:
            if row["digest"] in taken:
                _, holder = taken[row["digest"]]
                raise StorageError(f"same_as: {explain_taken(row['text'], holder)}")
            taken[row["digest"]] = row["item_id"], "another item that is stored with this one"
        insert_rows(connection, SameAs, rows)
        _addresses.clear()


def explain_taken(alias: str, holder: str) -> str:
    """Return the message that an alias belongs to another item.

    :param holder: an identifier of the other item.
    """
    return f"{alias} already belongs to {holder}; an alias belongs to one item of the Archive"


def keep_same_as(record: Record, before: Record) -> Record:
    """Return a record that also has the aliases that the item had.

    :param before: the present record of the item.
    """
    new = {parse_foreign(text).digest for text in record.same_as}
    old = [text for text in before.same_as if parse_foreign(text).digest not in new]
    return replace(record, same_as=(*record.same_as, *old))
