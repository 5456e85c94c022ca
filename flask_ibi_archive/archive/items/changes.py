"""The change log: which items have changed, in an order that readers can follow.

The transaction that changes an item adds a note: triggers of the tables insert a row. A note is a
plain insert, so that writers never wait for each other, and it is stored if and only if the change
is. When a reader asks, the committed notes get numbers. A lock allows only one reader at a time to
give numbers. Therefore

- a change that is committed late gets a later number than everything that readers have seen, and
  nobody who reads on from a number misses it, whatever the clocks of the servers say;
- an item has one row, at the number of its last change, so that each item is read once;
- a killed process loses nothing: notes are deleted by the transaction that numbers them.

There are two kinds of readers: harvesters (OAI-PMH), and resolvers, which read claims. Whichever
asks first numbers the changes for both. Two things are stored with the number: a digest of what
harvesters see of the item, and the text of its claim. A note changes nothing if both are as before,
whichever statement wrote the item. Resolvers read the stored text. But a harvester reads the item
itself, before the note is numbered: it may see a version that is gone when the number is given.
Therefore the harvester renews the item (:func:`renew`), which then gets a new number in any case.

The changes that one transaction numbers are a batch, with the time at which they became visible, in
whole seconds, and a random word. Later numbers never have an earlier time. A number with the word
of its batch is a position. A database that was restored from a backup gives its next numbers again,
but with other words: it does not know the positions that readers had reached.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, aliased, mapped_column

from flask_ibi_archive.archive.items.read import ItemReader
from flask_ibi_archive.archive.items.tables import Base, Item, primary_form
from flask_ibi_archive.core.claim import Claim, format_claim
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime, insert_or_update, is_one_of

#: The end of a log that has never been written.
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: The largest number of changed items that one transaction numbers, and the number of notes that
#: it reads for each.
BATCH, NOTES = 1000, 10
#: The share of the time for the database in which a request numbers changes.
PUBLISHING_SHARE = 0.5


class ChangeNote(Base):
    """A note that an item has changed, and that this change has no number yet.

    Triggers add the rows. An item can have several.
    """

    __tablename__ = "ibi_change_note"
    __table_args__: Any = (
        sa.Index("ix_ibi_change_note_archive", "archive_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(Key)
    item_id: Mapped[int] = mapped_column(Key)


class Change(Base):
    """The number of the last change of an item, and what readers then saw of the item."""

    __tablename__ = "ibi_change"
    __table_args__: Any = (
        sa.ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_change_item",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("archive_id", "number", name="uq_ibi_change_number"),
        sa.Index(
            "ix_ibi_change_hidden",
            "archive_id",
            "hidden_prefixes",
            sqlite_where=sa.text("hidden_prefixes IS NOT NULL"),
            postgresql_where=sa.text("hidden_prefixes IS NOT NULL"),
        ),
    )

    item_id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    archive_id: Mapped[int] = mapped_column(Key)
    number: Mapped[int] = mapped_column(sa.BigInteger)
    #: Whether the item is deleted for harvesters. None: they must not see the item, and have never
    #: seen it.
    is_deleted: Mapped[bool | None]
    #: The sets of the item (OAI-PMH), with a space before and after each. A deleted item stays in
    #: its sets.
    sets: Mapped[str] = mapped_column(sa.Text)
    #: The digest of what harvesters see of the item; "" if they see nothing.
    digest: Mapped[str] = mapped_column(sa.String(64))
    #: The line with the claim of the item. None: the item was never claimed.
    claim: Mapped[str | None] = mapped_column(sa.Text)
    #: If the description of the item is hidden from the public: the prefixes of its identifiers,
    #: separated by spaces. None: it is not hidden.
    hidden_prefixes: Mapped[str | None] = mapped_column(sa.Text)


class ChangeBatch(Base):
    """The changes that were numbered together, with the last of their numbers. Rows never change.

    The numbers of a batch are those after the last number of the batch before.
    """

    __tablename__ = "ibi_change_batch"

    archive_id: Mapped[int] = mapped_column(
        Key,
        sa.ForeignKey("ibi_archive.id", name="fk_ibi_change_batch_archive", ondelete="CASCADE"),
        primary_key=True,
    )
    #: The last number of the batch.
    number: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    word: Mapped[str] = mapped_column(sa.String(16))
    datestamp: Mapped[datetime] = mapped_column(UTCDateTime)


class ChangeEnd(Base):
    """The last number and datestamp in the change log of an Archive.

    Whoever numbers changes must lock this row first.
    """

    __tablename__ = "ibi_change_end"

    archive_id: Mapped[int] = mapped_column(
        Key,
        sa.ForeignKey("ibi_archive.id", name="fk_ibi_change_end_archive", ondelete="CASCADE"),
        primary_key=True,
    )
    #: The last number.
    number: Mapped[int] = mapped_column(sa.BigInteger, server_default="0")
    #: Changes that are numbered later get this datestamp or a later one.
    datestamp: Mapped[datetime] = mapped_column(UTCDateTime)


class Appearance(NamedTuple):
    """What harvesters see of an item, to compare it with what they saw before.

    :param sets: the setSpecs of the item, with a space before and after each.
    :param digest: the digest of everything that harvesters see, with the sets.
    """

    sets: str
    digest: str


#: A function that returns what harvesters see of those items that they may see, by their row IDs.
Describe = Callable[[sa.Connection, Sequence[int]], Mapping[int, Appearance]]


# --- writing -------------------------------------------------------------------------------------


def renew(connection: sa.Connection, archive_id: int, items: Collection[int] | None = None) -> None:
    """Let items get new numbers with the next changes, even if readers see no difference.

    :param items: the row IDs; None: all items.
    """
    in_archive = Item.archive_id == archive_id
    chosen = in_archive if items is None else in_archive & is_one_of(Item.id, items)
    rows = sa.select(Item.archive_id, Item.id).where(chosen).order_by(Item.id)
    connection.execute(sa.insert(ChangeNote).from_select(["archive_id", "item_id"], rows))
    # no item looks like this, so that each item that harvesters see gets a new number
    connection.execute(
        sa.update(Change)
        .where(Change.item_id.in_(sa.select(Item.id).where(chosen)), Change.digest != "")
        .values(digest="renewed")
    )


def move_end(connection: sa.Connection, archive_id: int, now: datetime) -> tuple[int, datetime]:
    """Lock the log, and move its end to the current time unless the end is later already.

    No other process can number changes until the end of the transaction.

    :param now: the current time in whole seconds.
    :returns: the last number, and the new end of the log.
    """
    moved = insert_or_update(connection, ChangeEnd).values(archive_id=archive_id, datestamp=now)
    new, stored = moved.excluded.datestamp, ChangeEnd.datestamp
    number, end = connection.execute(
        moved.on_conflict_do_update(
            index_elements=["archive_id"],
            set_={"datestamp": sa.case((new > stored, new), else_=stored)},
        ).returning(ChangeEnd.number, stored)
    ).one()
    return number, end


def number_changes(
    connection: sa.Connection, archive_id: int, now: datetime, limit: int, describe: Describe
) -> tuple[datetime, bool]:
    """Assign numbers to the oldest committed changes.

    :param now: the current time in whole seconds.
    :param limit: the largest number of changed items to process.
    :param describe: returns what harvesters see of items, by row ID.
    :returns: the end of the log, and whether there may be more notes.
    """
    last, end = move_end(connection, archive_id, now)
    # an item often has several notes, which follow each other closely
    notes = connection.execute(
        sa.select(ChangeNote.id, ChangeNote.item_id)
        .where(ChangeNote.archive_id == archive_id)
        .order_by(ChangeNote.id)
        .limit(NOTES * limit)
    ).all()
    noted = [*dict.fromkeys(note.item_id for note in notes)][:limit]
    chosen = {*noted}
    taken = [note.id for note in notes if note.item_id in chosen]
    are_taken = is_one_of(ChangeNote.id, taken)
    # if a metadata item changes, the items that it describes change, too
    described = connection.scalars(
        sa.select(Item.id)
        .where(
            Item.archive_id == archive_id,
            is_described_by(sa.select(ChangeNote.item_id).where(are_taken)),
        )
        .order_by(Item.id)
    )
    items = [*dict.fromkeys([*noted, *described])]
    changed = _find_changed(connection, archive_id, items, describe(connection, items))
    rows = [{**row, "number": number} for number, row in enumerate(changed, last + 1)]
    if rows:
        written = insert_or_update(connection, Change)
        columns = ("number", "is_deleted", "sets", "digest", "claim", "hidden_prefixes")
        connection.execute(
            written.on_conflict_do_update(
                index_elements=["item_id"], set_={name: written.excluded[name] for name in columns}
            ),
            rows,
        )
        batch = {"archive_id": archive_id, "number": rows[-1]["number"]}
        connection.execute(
            sa.insert(ChangeBatch).values(**batch, word=secrets.token_hex(8), datestamp=end)
        )
        connection.execute(
            sa.update(ChangeEnd)
            .where(ChangeEnd.archive_id == archive_id)
            .values(number=batch["number"])
        )
    connection.execute(sa.delete(ChangeNote).where(are_taken))
    return end, len(taken) < len(notes) or len(notes) == NOTES * limit


def is_described_by(items: sa.Select[Any]) -> sa.ColumnElement[bool]:
    """Return the SQL condition that the metadata of an item are in one of the given items.

    :param items: a statement that selects the row IDs of metadata items.
    """
    metadata = aliased(Item)
    names = sa.select(primary_form(metadata)).where(metadata.id.in_(items))
    return Item.metadata_ibi.in_(names)


def make_claim(item: str, record: Record) -> Claim:
    """Return the claim of an item: what the Archive says that it has.

    An item whose description is hidden gets the claim that removes an earlier claim. Source:
    federation CL-1 and CL-2.

    :param item: a text that stands for the item.
    """
    if record.is_hidden:
        return Claim(item)
    return Claim(
        item,
        record.rep,
        record.ibip,
        State(record.state),
        format_timestamp(record.timestamp),
        record.original_elsewhere,
        tuple(sorted({*record.aliases, *record.same_as})),
    )


def _find_changed(
    connection: sa.Connection, archive_id: int, items: list[int], seen: Mapping[int, Appearance]
) -> list[dict[str, Any]]:
    """Return a row of the change log for each item of which readers see a difference.

    :param items: the row IDs; the result has the same order.
    :param seen: what harvesters see of the items now.
    :returns: the values of the columns, but for the number.
    """
    columns = [Change.is_deleted, Change.digest, Change.claim, Change.hidden_prefixes]
    stored = {
        row.item_id: row
        for row in connection.execute(
            sa.select(Change.item_id, Change.sets, *columns).where(is_one_of(Change.item_id, items))
        )
    }
    views = ItemReader(connection, archive_id).read_items(items)
    changed = []
    for item_id, record in ((one, views[one].record) for one in items if one in views):
        row = stored.get(item_id)
        # a deleted item without a row was imported as a deleted item
        was_seen = record.state == State.DELETED if row is None else row.is_deleted is not None
        sets, digest = seen.get(item_id, ((row.sets if row else "") if was_seen else "", ""))
        is_deleted = item_id not in seen if item_id in seen or was_seen else None
        was_claimed = row is not None and row.claim is not None
        is_claimed = was_claimed or not record.is_hidden
        claim = format_claim(make_claim(str(item_id), record)) if is_claimed else None
        prefixes = {parse_identifier(ibi).prefix for ibi in record.identifiers}
        hidden = " ".join(sorted(prefixes)) if record.is_hidden else None
        if row is None or [is_deleted, digest, claim, hidden] != [*row[2:]]:
            values = {"is_deleted": is_deleted, "sets": sets, "digest": digest}
            values |= {"claim": claim, "hidden_prefixes": hidden}
            changed.append({"item_id": item_id, "archive_id": archive_id, **values})
    return changed


# --- reading -------------------------------------------------------------------------------------


def read_end(connection: sa.Connection, archive_id: int) -> tuple[datetime, bool]:
    """Return the end of the log (a datestamp), and whether there are changes without a number."""
    end = sa.select(ChangeEnd.datestamp).where(ChangeEnd.archive_id == archive_id)
    noted = sa.exists().where(ChangeNote.archive_id == archive_id)
    row = connection.execute(sa.select(end.scalar_subquery(), noted)).one()
    return row[0] or EPOCH, row[1]


def find_pending(connection: sa.Connection, items: Collection[int]) -> list[int]:
    """Return the row IDs of those items whose last changes have no numbers yet."""
    noted = sa.select(ChangeNote.item_id)
    is_noted = Item.id.in_(noted) | is_described_by(noted)
    statement = sa.select(Item.id).where(is_one_of(Item.id, items), is_noted)
    return [*connection.scalars(statement)]


def select_datestamp() -> sa.ScalarSelect[datetime]:
    """Return the SQL expression for the datestamp of a change: the time when it got its number."""
    batch = (
        sa.select(ChangeBatch.datestamp)
        .where(ChangeBatch.archive_id == Change.archive_id, ChangeBatch.number >= Change.number)
        .order_by(ChangeBatch.number)
        .limit(1)
    )
    return batch.correlate(Change).scalar_subquery()


def is_within(
    archive_id: int, since: datetime | None, until: datetime | None
) -> list[sa.ColumnElement[bool]]:
    """Return the SQL conditions that a change got its number within a period.

    Both limits belong to the period. The conditions compare numbers, because later numbers never
    have earlier times.
    """

    def last(condition: Any) -> Any:
        batches = sa.select(ChangeBatch.number).where(ChangeBatch.archive_id == archive_id)
        newest = batches.where(condition).order_by(ChangeBatch.number.desc()).limit(1)
        return sa.func.coalesce(newest.scalar_subquery(), 0)

    conditions = [Change.archive_id == archive_id]
    if since is not None:
        conditions.append(Change.number > last(ChangeBatch.datestamp < since))
    if until is not None:
        conditions.append(Change.number <= last(ChangeBatch.datestamp <= until))
    return conditions
