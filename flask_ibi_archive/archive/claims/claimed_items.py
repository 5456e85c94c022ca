"""What is claimed of items: of those in the tables, of noted changes, and of a host's records.

Not claimed are items whose description is hidden from the
public. A hidden item that was claimed before is claimed again only when its state changes, and then
without anything else that is new: the log must not say for ever that the Archive has the Original.

Source: federation CL-1 and CL-2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, and_, literal, select, union_all

from flask_ibi_archive.archive.claims.log_tables import ClaimNote
from flask_ibi_archive.archive.items.read import shows_description
from flask_ibi_archive.archive.items.tables import File, Item, ItemIdentifier, SameAs
from flask_ibi_archive.core.claims.claim import Claim, format_claim, parse_claim
from flask_ibi_archive.core.claims.tiles import MAX_ENTRY
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.server.database.dialects import is_one_of


class ClaimedItem(NamedTuple):
    """What is claimed of an item.

    :param key: the ibip of the item, or its rep if it has no ibip.
    :param is_hidden: whether the description is hidden from the public.
    """

    key: str
    claim: Claim
    is_hidden: bool

    def write(self, last: bytes | None) -> bytes | None:
        """Return the new claim of the item; None if there is nothing new to claim.

        :param last: the last claim of the item, or None.
        """
        claim = self.claim
        if self.is_hidden:
            if last is None:
                return None
            known = parse_claim(last)
            if known.state == claim.state:
                return None
            claim = replace(
                known,
                state=claim.state,
                timestamp=claim.timestamp,
                original_archive=claim.original_archive,
            )
        entry = _format(claim)
        return None if entry == last else entry


def _format(claim: Claim) -> bytes:
    """Return a claim with as many of its aliases as an entry can contain."""
    while len(entry := format_claim(claim)) > MAX_ENTRY:
        claim = replace(claim, aliases=claim.aliases[: len(claim.aliases) // 2])
    return entry


def read_note(note: ClaimNote) -> ClaimedItem:
    """Return what a noted change claims.

    :param note: a row of the table.
    """
    return _make(
        note.rep,
        note.ibip,
        note.state,
        note.timestamp,
        note.original_archive,
        json.loads(note.aliases) if note.aliases else (),
        note.sha256,
        note.is_hidden,
    )


def read_record(record: Record) -> ClaimedItem:
    """Return what is claimed of an item of a host."""
    assert record.timestamp is not None  # parse_catalogue_record() has checked this
    target = (file for file in record.files if file.path == record.target_path)
    return _make(
        record.rep,
        record.ibip,
        record.state,
        record.timestamp,
        record.original_archive,
        (*record.aliases, *record.same_as),
        next((file.sha256 for file in target), None),
        record.is_hidden,
    )


def read_items(
    connection: Connection, archive_id: int, after: int, limit: int
) -> dict[int, ClaimedItem | None]:
    """Return what is claimed of the next items, by their row IDs. Stubs have the value None.

    :param after: the row ID after which the items begin.
    """
    items, file = Item.__table__.c, File.__table__.c
    rows = connection.execute(
        select(
            items.id,
            items.state,
            items.rep,
            items.ibip,
            items.timestamp,
            items.original_archive,
            file.sha256,
            (~shows_description(items)).label("is_hidden"),
        )
        .outerjoin(File, and_(file.item_id == items.id, file.path == items.target_path))
        .where(items.archive_id == archive_id, items.id > after)
        .order_by(items.id)
        .limit(limit)
    ).all()
    aliases = _read_aliases(connection, [row.id for row in rows])
    return {
        row.id: _make(
            row.rep,
            row.ibip,
            row.state,
            row.timestamp,
            row.original_archive,
            aliases.get(row.id, ()),
            row.sha256,
            row.is_hidden,
        )
        for row in rows
    }


def _read_aliases(connection: Connection, items: list[int]) -> Mapping[int, list[str]]:
    """Return the aliases of items by the row IDs of the items."""
    own, foreign = ItemIdentifier.__table__.c, SameAs.__table__.c
    statement = union_all(
        select(own.item_id, own.text).where(
            is_one_of(own.item_id, items), own.alias_no > literal(0)
        ),
        select(foreign.item_id, foreign.text).where(is_one_of(foreign.item_id, items)),
    )
    aliases: dict[int, list[str]] = {}
    for item_id, text in connection.execute(statement):
        aliases.setdefault(item_id, []).append(text)
    return aliases


def _make(
    rep: str | None,
    ibip: str | None,
    state: str,
    timestamp: datetime,
    original_archive: str | None,
    aliases: Iterable[str],
    sha256: str | None,
    is_hidden: bool,
) -> ClaimedItem:
    claim = Claim(
        rep,
        ibip,
        State(state),
        format_timestamp(timestamp),
        original_archive,
        tuple(sorted(set(aliases))),  # their order is of no importance, and must change nothing
        sha256,
    )
    return ClaimedItem(claim.identifiers[-1], claim, is_hidden)
