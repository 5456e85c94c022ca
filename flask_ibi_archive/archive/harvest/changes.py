"""Writes and reads the harvest log, which lists the changes of items in their order for OAI-PMH.

A trigger of the database notes changed items. Before each list, :meth:`HarvestLog.publish` moves
the noted changes to the end of the log. Only committed changes are moved, one process at a time.
Therefore no change appears before a position that a harvester has already passed, however long the
transaction of the change took.

A harvester asks for the changes since the time that an earlier answer stated (responseDate). The
clock may have been set back since then, and the clocks of several servers differ. Therefore the
database contains the *end* of the log, a time that never moves back:

- A change never gets an earlier datestamp than the end, and moves the end to its datestamp.
- An answer reads the end first and then the list. It never states a later time than the end.

Therefore a change is either in the list, or it is moved to the log after the end was read. Then its
datestamp is not earlier than the time that the answer states, and the harvester asks for it later.
If nothing changes, an answer moves the end only if the end is too far behind the clock. Therefore
most answers write nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.harvest.oai_messages import Selection
from flask_ibi_archive.archive.harvest.sets import THESES, TYPES
from flask_ibi_archive.archive.items.conditions import is_public
from flask_ibi_archive.archive.items.tables import (
    ChangedItem,
    Harvest,
    HarvestEnd,
    HarvestSet,
    Item,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.server.database.dialects import UTCDateTime, insert_or_update

#: The end of a log that has never been written.
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: A function that returns the sets of those items that harvesters may see, by the ids of the items.
FindSets = Callable[[Sequence[int]], Mapping[int, Iterable[str]]]

#: The columns that the table of sets has in common with the log.
POSITION = ("archive_id", "datestamp", "change_no")


class Change(NamedTuple):
    """The last change of an item.

    :param ibi: the identifier of the item: the IBIp if there is one.
    """

    item_id: int
    datestamp: datetime
    change_no: int
    is_deleted: bool
    ibi: str


class HarvestLog:
    """The harvest log of one Archive. The methods use the transaction of the caller."""

    def __init__(self, connection: sa.Connection, archive_id: int) -> None:
        self._connection = connection
        self._archive_id = archive_id

    # --- writing ---------------------------------------------------------------------------------

    def move_end(self, now: datetime) -> datetime:
        """Move the end of the log to the current time if it is later, and return the end.

        No other process can write to the log until the end of the transaction.

        :param now: the current time in whole seconds.
        """
        moved = insert_or_update(self._connection, HarvestEnd).values(
            archive_id=self._archive_id, datestamp=now
        )
        new, stored = moved.excluded.datestamp, HarvestEnd.datestamp
        end: datetime = self._connection.execute(
            moved.on_conflict_do_update(
                index_elements=["archive_id"],
                set_={"datestamp": sa.case((new > stored, new), else_=stored)},
            ).returning(stored)
        ).scalar_one()
        return end

    def note_all(self) -> None:
        """Note all items as changed, because their sets or their descriptions have changed."""
        items = sa.select(Item.archive_id, Item.id).where(Item.archive_id == self._archive_id)
        self._connection.execute(
            sa.insert(ChangedItem).from_select(["archive_id", "item_id"], items.order_by(Item.id))
        )

    def publish(self, now: datetime, limit: int, find_sets: FindSets) -> tuple[datetime, bool]:
        """Move changed items to the end of the log.

        :param now: the current time in whole seconds.
        :param limit: the largest number of notes about changed items to process.
        :param find_sets: returns the sets of the items that harvesters may see.
        :returns: the end of the log, and whether there may be more changed items.
        """
        end = self.move_end(now)
        notes = self._connection.execute(
            sa.select(ChangedItem.id, ChangedItem.item_id)
            .where(ChangedItem.archive_id == self._archive_id)
            .order_by(ChangedItem.id)
            .limit(limit)
        ).all()
        changed = list(dict.fromkeys(note.item_id for note in notes))
        # if a metadata item changes, the items that it describes change, too
        described = self._connection.scalars(
            sa.select(Item.id).where(Item.metadata_item_id.in_(changed)).order_by(Item.id)
        )
        self.publish_items(list(dict.fromkeys([*changed, *described])), end, find_sets)
        self._connection.execute(
            sa.delete(ChangedItem).where(ChangedItem.id.in_([note.id for note in notes]))
        )
        return end, len(notes) == limit

    def publish_items(self, item_ids: Sequence[int], end: datetime, find_sets: FindSets) -> None:
        """Move some items to the end of the log; see :meth:`publish`.

        :param end: the result of :meth:`move_end` in this transaction.
        """
        newest = self._connection.scalar(
            sa.select(Harvest.change_no)
            .where(Harvest.archive_id == self._archive_id, Harvest.datestamp.is_not(None))
            .order_by(Harvest.datestamp.desc(), Harvest.change_no.desc())
            .limit(1)
        )
        found = self._connection.execute(
            sa.select(
                Item.id,
                is_public().label("is_public"),
                # a deleted item without a row in the log was imported as a deleted item
                sa.or_(
                    Harvest.change_no.is_not(None),
                    sa.and_(Harvest.item_id.is_(None), Item.state == State.DELETED.value),
                ).label("was_public"),
            )
            .outerjoin(Harvest, Harvest.item_id == Item.id)
            .where(Item.id.in_(item_ids), Item.archive_id == self._archive_id)
        ).all()
        sets = find_sets([row.id for row in found if row.is_public])
        # for each item that harvesters see or have seen: whether they see it now
        public = {row.id: row.id in sets for row in found if row.id in sets or row.was_public}
        rows = [
            {
                "item_id": item_id,
                "archive_id": self._archive_id,
                "datestamp": end,
                "change_no": number,
                "is_deleted": not public[item_id],
            }
            for number, item_id in enumerate(
                [item_id for item_id in item_ids if item_id in public], (newest or 0) + 1
            )
        ]
        if rows:
            written = insert_or_update(self._connection, Harvest)
            self._connection.execute(
                written.on_conflict_do_update(
                    index_elements=["item_id"],
                    set_={
                        name: written.excluded[name]
                        for name in ("archive_id", "datestamp", "change_no", "is_deleted")
                    },
                ),
                rows,
            )
            self._store_sets(rows, sets)
        self._note_hidden([item_id for item_id in item_ids if item_id not in public])

    def _note_hidden(self, item_ids: Sequence[int]) -> None:
        """Store that harvesters have never seen some items.

        If such an item is deleted later, harvesters are not told about the deletion.
        """
        values = sa.select(Item.id, Item.archive_id).where(
            Item.id.in_(item_ids), Item.archive_id == self._archive_id
        )
        self._connection.execute(
            insert_or_update(self._connection, Harvest)
            .from_select(["item_id", "archive_id"], values)
            .on_conflict_do_nothing()
        )

    def _store_sets(
        self, rows: Sequence[dict[str, Any]], found: Mapping[int, Iterable[str]]
    ) -> None:
        """Replace the sets of items; a deleted item stays in its sets."""
        positions = {row["item_id"]: row for row in rows}
        live = [row["item_id"] for row in rows if not row["is_deleted"]]
        sets: dict[int, set[str]] = {item_id: {*names} for item_id, names in found.items()}
        for member in self._connection.execute(
            sa.select(HarvestSet.item_id, HarvestSet.set_spec).where(
                HarvestSet.item_id.in_(positions.keys() - live)
            )
        ):
            sets.setdefault(member.item_id, set()).add(member.set_spec)
        self._connection.execute(sa.delete(HarvestSet).where(HarvestSet.item_id.in_(positions)))
        members = [
            {
                "item_id": item_id,
                "set_spec": set_spec,
                **{name: positions[item_id][name] for name in POSITION},
            }
            for item_id, names in sets.items()
            for set_spec in names
        ]
        if members:
            self._connection.execute(sa.insert(HarvestSet), members)

    # --- reading ---------------------------------------------------------------------------------

    def read_end(self) -> tuple[datetime, bool]:
        """Return the end of the log, and whether there are changed items to move to the log."""
        end = sa.select(HarvestEnd.datestamp).where(HarvestEnd.archive_id == self._archive_id)
        changed = sa.exists().where(ChangedItem.archive_id == self._archive_id)
        row = self._connection.execute(sa.select(end.scalar_subquery(), changed)).one()
        return row[0] or EPOCH, row[1]

    def list_changes(self, selected: Selection, limit: int) -> list[Change]:
        """Return the first changes of a selection, in their order.

        :param limit: the largest number of changes.
        """
        log, conditions = self._find_conditions(selected)
        statement = self._select().where(*conditions)
        if log is HarvestSet:
            statement = statement.join(HarvestSet, HarvestSet.item_id == Harvest.item_id)
        statement = statement.order_by(log.datestamp, log.change_no).limit(limit)
        return [Change(*row) for row in self._connection.execute(statement)]

    def count_changes(self, selected: Selection) -> int:
        """Return the number of changes of a selection."""
        log, conditions = self._find_conditions(selected)
        statement = sa.select(sa.func.count()).select_from(log).where(*conditions)
        return self._connection.execute(statement).scalar_one()

    def _find_conditions(self, selected: Selection) -> tuple[Any, list[Any]]:
        """Return the table that lists the changes of a selection, and the conditions."""
        log: Any = HarvestSet if selected.specs else Harvest
        conditions = [log.archive_id == self._archive_id]
        conditions += [log.set_spec == spec for spec in selected.specs[:1]]
        for spec in selected.specs[1:]:
            member = aliased(HarvestSet)
            conditions.append(
                sa.exists().where(member.item_id == log.item_id, member.set_spec == spec)
            )
        if selected.since is not None:
            conditions.append(log.datestamp >= selected.since)
        if selected.until is not None:
            conditions.append(log.datestamp <= selected.until)
        if selected.after is not None:
            datestamp, number = selected.after
            bound = sa.tuple_(sa.literal(datestamp, UTCDateTime), sa.literal(number))
            conditions.append(sa.tuple_(log.datestamp, log.change_no) > bound)
        elif selected.since is None:
            conditions.append(log.datestamp.is_not(None))
        return log, conditions

    def find_change(self, item_id: int) -> Change | None:
        """Return the last change of an item; None if harvesters must not see the item."""
        statement = self._select().where(Harvest.item_id == item_id, Harvest.datestamp.is_not(None))
        row = self._connection.execute(statement).first()
        return None if row is None else Change(*row)

    def _select(self) -> Any:
        return sa.select(
            Harvest.item_id,
            Harvest.datestamp,
            Harvest.change_no,
            Harvest.is_deleted,
            sa.func.coalesce(Item.ibip, Item.rep),
        ).join(Item, Item.id == Harvest.item_id)

    def read_sets(self, item_ids: Iterable[int]) -> dict[int, list[str]]:
        """Return the sets of items that harvesters see, by the ids of the items."""
        found: dict[int, list[str]] = {}
        for row in self._connection.execute(
            sa.select(HarvestSet.item_id, HarvestSet.set_spec)
            .where(HarvestSet.item_id.in_(list(item_ids)), HarvestSet.set_spec != THESES)
            .order_by(HarvestSet.item_id, HarvestSet.set_spec)
        ):
            found.setdefault(row.item_id, []).append(row.set_spec)
        return found

    def read_types(self) -> list[str]:
        """Return the sets of types that have or had members."""
        statement = sa.select(HarvestSet.set_spec).distinct().order_by(HarvestSet.set_spec)
        return [
            *self._connection.scalars(
                statement.where(
                    HarvestSet.archive_id == self._archive_id, HarvestSet.set_spec.in_(TYPES)
                )
            )
        ]

    def find_earliest(self) -> datetime | None:
        """Return the earliest datestamp; None if the log is empty."""
        return self._connection.scalar(
            sa.select(Harvest.datestamp)
            .where(Harvest.archive_id == self._archive_id, Harvest.datestamp.is_not(None))
            .order_by(Harvest.datestamp, Harvest.change_no)
            .limit(1)
        )
