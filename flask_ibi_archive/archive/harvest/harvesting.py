"""Lists the changes of items for harvesters (OAI-PMH), with the descriptions of the items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Connection,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import Mapped, aliased, mapped_column

from flask_ibi_archive.archive.harvest.messages import (
    THESES,
    TYPES,
    HarvestSets,
    Header,
    Position,
    Selection,
)
from flask_ibi_archive.archive.items.read import (
    describe_host_item,
    find_owners,
    is_public,
    is_public_record,
    primary_form,
    read_works,
)
from flask_ibi_archive.archive.items.tables import Base, Item
from flask_ibi_archive.archive.service.catalogue import RecordSource
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import HostFunctionFailed, NotReady
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime, insert_or_update

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


# --- harvest -----------------------------------------------------------------------------------


class ChangedItem(Base):
    """An item that has changed since it was last written to the harvest log.

    A trigger of the table of items adds the rows. An item can have several rows, so that writers
    never wait for each other.
    """

    __tablename__ = "ibi_changed_item"
    __table_args__ = (
        Index("ix_ibi_changed_item_archive", "archive_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(Key)
    item_id: Mapped[int] = mapped_column(Key)


class Harvest(Base):
    """The last change of an item, as harvesters see it."""

    __tablename__ = "ibi_harvest"
    __table_args__ = (
        ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_harvest_item",
            ondelete="CASCADE",
        ),
        CheckConstraint(
            "(change_no IS NULL) = (datestamp IS NULL)", name="ck_ibi_harvest_datestamp"
        ),
        UniqueConstraint("archive_id", "datestamp", "change_no", name="uq_ibi_harvest_change"),
    )

    item_id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    archive_id: Mapped[int] = mapped_column(Key)
    #: The position of the change: later changes have higher numbers. None: harvesters must not see
    #: the item, and have never seen it.
    change_no: Mapped[int | None] = mapped_column(BigInteger)
    #: The time (whole seconds) at which the change became visible for harvesters. A change with a
    #: higher number never has an earlier time.
    datestamp: Mapped[datetime | None] = mapped_column(UTCDateTime)
    is_deleted: Mapped[bool] = mapped_column(server_default=false())


class HarvestEnd(Base):
    """The end of the harvest log of an Archive.

    Changes that are added later get this datestamp or a later one.
    """

    __tablename__ = "ibi_harvest_end"

    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_archive.id", name="fk_ibi_harvest_end_archive", ondelete="CASCADE"),
        primary_key=True,
    )
    datestamp: Mapped[datetime] = mapped_column(UTCDateTime)


class HarvestSet(Base):
    """The membership of an item in a set. A deleted item stays in its sets."""

    __tablename__ = "ibi_harvest_set"
    __table_args__ = (
        Index("ix_ibi_harvest_set_change", "archive_id", "set_spec", "datestamp", "change_no"),
    )

    item_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_harvest.item_id", name="fk_ibi_harvest_set_item", ondelete="CASCADE"),
        primary_key=True,
    )
    set_spec: Mapped[str] = mapped_column(String(255), primary_key=True)
    archive_id: Mapped[int] = mapped_column(Key)
    change_no: Mapped[int] = mapped_column(BigInteger)
    datestamp: Mapped[datetime] = mapped_column(UTCDateTime)


# --- changes -----------------------------------------------------------------------------------


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
            sa.select(Item.id)
            .where(
                Item.archive_id == self._archive_id,
                Item.metadata_ibi.in_(sa.select(primary_form()).where(Item.id.in_(changed))),
            )
            .order_by(Item.id)
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


# --- harvesting --------------------------------------------------------------------------------


#: The largest number of notes about changed items that one transaction processes.
BATCH = 1000

#: The share of the time for the database in which a request moves changed items to the log.
PUBLISHING_SHARE = 0.5

#: If a request finds no changes, and the end of the log is behind the clock by MAX_LAG, the request
#: moves the end. It waits at most LOCK_TIMEOUT seconds for other writers.
MAX_LAG, LOCK_TIMEOUT = timedelta(minutes=1), 0.1

#: A change in a host's catalogue may be committed this long after the time that it states.
MAX_DELAY = timedelta(minutes=5)

#: One request skips at most this number of records that can't be written. If there are more, the
#: function that writes the format is wrong, rather than the items.
MAX_SKIPPED = 1_000


class UnfinishedLog(Exception):
    """So many items have changed that a list can't be complete yet; a later request continues."""


@dataclass(frozen=True, slots=True)
class HarvestedRecord:
    """A record for a harvester.

    :param position: the position of the record in the list of all changes.
    :param work: the description of the item; None for a deleted item, or if it was not requested.
    """

    header: Header
    position: Position
    work: Work | None = None


class StoredHarvests:
    """The changes of the items in the tables of this package."""

    def __init__(self, archive: Archive, sets: HarvestSets) -> None:
        self._archive = archive
        self._archive_id = archive.served().id
        self._sets = sets
        self._end, self._has_changed_items = EPOCH, False
        self._deadline = monotonic() + PUBLISHING_SHARE * archive.config.database_timeout

    def publish(self) -> datetime:
        """Move the items that have changed since the last request to the end of the log.

        :returns: the time that the answer states; see
            :mod:`flask_ibi_archive.archive.harvest.harvesting`.
        """
        database, now = self._archive.database, self._now()
        self._end, self._has_changed_items = database.read(
            lambda reading: self._log(reading).read_end()
        )
        if self._has_changed_items:
            self._publish_batch()
        elif now - self._end >= MAX_LAG:
            with suppress(NotReady):  # for example if the database is read-only, or locked
                with database.writing(LOCK_TIMEOUT) as connection:
                    end = self._log(connection).move_end(now)
                self._end = end
        return min(self._end, now)

    def publish_more(self, until: datetime | None) -> bool:
        """Move further changed items to the end of the log.

        :param until: the latest datestamp that the caller wants, or None.
        :returns: False if the log already contains all changes that the caller wants.
        :raises UnfinishedLog: if this request has no more time.
        """
        if not self._has_changed_items or (until is not None and until < self._end):
            return False
        if monotonic() >= self._deadline:
            raise UnfinishedLog
        self._publish_batch()
        return True

    def _publish_batch(self) -> None:
        with self._archive.database.writing() as connection:
            self._end, self._has_changed_items = self._log(connection).publish(
                self._now(), BATCH, self._set_finder(connection)
            )

    def list_records(
        self, selection: Selection, limit: int, with_works: bool
    ) -> list[HarvestedRecord]:
        """Return the first records of a selection.

        :param limit: the maximum number of records.
        :param with_works: True to read also the descriptions of the items.
        """
        return self._archive.database.read(
            lambda connection: self._complete(
                connection, self._log(connection).list_changes(selection, limit), with_works
            )
        )

    def find_record(self, ibi: str) -> HarvestedRecord | None:
        """Return the record of an item; None if harvesters must not see the item.

        :param ibi: an identifier of the item in canonical case.
        """
        database = self._archive.database

        def find(connection: Connection) -> tuple[int | None, list[HarvestedRecord]]:
            owner = find_owners(connection, self._archive_id, [ibi]).get(ibi)
            item_id = None if owner is None else owner.id
            change = None if item_id is None else self._log(connection).find_change(item_id)
            return item_id, self._complete(connection, [change] if change else [], True)

        item_id, records = database.read(find)
        if item_id is not None and not records:
            # the item may be new; do not wait until all changes before it are moved to the log
            with database.writing() as connection:
                log, finder = self._log(connection), self._set_finder(connection)
                log.publish_items([item_id], log.move_end(self._now()), finder)
            _, records = database.read(find)
        return next(iter(records), None)

    def count(self, selection: Selection) -> int | None:
        """Return the number of records of a selection."""
        return self._archive.database.read(
            lambda connection: self._log(connection).count_changes(selection)
        )

    def list_types(self) -> list[str]:
        """Return the sets of the types of the items."""
        return self._archive.database.read(lambda connection: self._log(connection).read_types())

    def find_earliest(self) -> datetime | None:
        """Return the earliest datestamp; None if there are no records."""
        return self._archive.database.read(lambda connection: self._log(connection).find_earliest())

    def note_all(self) -> None:
        """Note that all items have changed, for example because the host changed its sets."""
        with self._archive.database.writing() as connection:
            self._log(connection).note_all()

    def _log(self, connection: Connection) -> HarvestLog:
        return HarvestLog(connection, self._archive_id)

    def _now(self) -> datetime:
        return self._archive.clock().astimezone(timezone.utc).replace(microsecond=0)

    def _complete(
        self, connection: Connection, changes: Sequence[Change], with_works: bool
    ) -> list[HarvestedRecord]:
        """Return the records of changes, with the sets and the descriptions of the items."""
        ids = [change.item_id for change in changes]
        sets = self._log(connection).read_sets(ids) if ids else {}
        live = [change.item_id for change in changes if not change.is_deleted]
        works = read_works(self._archive, connection, live) if with_works and live else {}
        records = []
        for change in changes:
            work = works.get(change.item_id)
            # an item without a work was deleted or hidden after its last change was published
            is_deleted = change.is_deleted or (with_works and change.item_id not in works)
            member_of = tuple(sets.get(change.item_id, ()))
            header = Header(change.ibi, change.datestamp, is_deleted, member_of)
            records.append(HarvestedRecord(header, (change.datestamp, change.change_no), work))
        return records

    def _set_finder(
        self, connection: Connection
    ) -> Callable[[Sequence[int]], Mapping[int, Iterable[str]]]:
        """Return the function that returns the sets of the items that harvesters may see.

        An item without a title can't be described in oai_dc as aggregators demand. Since OAI-PMH
        demands oai_dc of every item (2.0, 2.3), harvesters see such an item when it has a title.
        """
        return lambda ids: {
            item_id: self._sets.list_sets(work)
            for item_id, work in read_works(self._archive, connection, ids).items()
            if work.has_title
        }


class HostHarvests:
    """The changes of the items in the catalogue of a host."""

    def __init__(self, archive: Archive, sets: HarvestSets, records: RecordSource) -> None:
        self._archive = archive
        self._sets = sets
        self._records = records

    def publish(self) -> datetime:
        """Return the time that the answer states.

        The time is so early that the next visit of the harvester also finds late commits.
        """
        return self._archive.clock() - MAX_DELAY

    def publish_more(self, until: datetime | None) -> bool:
        """Return False, because there is no log."""
        return False

    def list_records(
        self, selection: Selection, limit: int, with_works: bool
    ) -> list[HarvestedRecord]:
        """Return the first records of a selection; see :meth:`StoredHarvests.list_records`."""
        selected: list[HarvestedRecord] = []
        for position, record in self._iterate(selection, limit):
            work = describe_host_item(self._archive, self._records.find_record, record)
            sets = self._sets.list_sets(work)
            # an item without a title can't be described in oai_dc; a deleted one is not described
            is_visible = work.has_title or record.state == State.DELETED
            if is_visible and sets.issuperset(selection.specs):
                selected.append(self._make(record, position, work, sets))
                if len(selected) == limit:
                    break
        return selected

    def _iterate(
        self, selection: Selection, limit: int
    ) -> Iterator[tuple[tuple[datetime, str], Record]]:
        """Yield the positions and records of a selection that harvesters may see, in order.

        :param limit: the number of records that are read together.
        """
        after: tuple[datetime, str] | None = selection.after  # type: ignore[assignment]
        while True:
            batch = list(self._records.iterate_changes(selection.since, after, limit))
            for after, record in batch:
                # datestamps are whole seconds, but the times of the catalogue may be more precise
                datestamp = after[0].replace(microsecond=0)
                if selection.until is not None and datestamp > selection.until:
                    return
                if record is not None and (
                    record.state == State.DELETED or is_public_record(record)
                ):
                    yield after, record
            if len(batch) < limit:
                return

    def find_record(self, ibi: str) -> HarvestedRecord | None:
        """Return the record of an item; None if harvesters must not see the item."""
        record = self._records.find_record(ibi)
        if record is None or not (record.state == State.DELETED or is_public_record(record)):
            return None
        assert record.timestamp is not None  # parse_catalogue_record() has checked this
        work = describe_host_item(self._archive, self._records.find_record, record)
        if not work.has_title and record.state != State.DELETED:
            return None
        return self._make(record, (record.timestamp, ""), work, self._sets.list_sets(work))

    def count(self, selection: Selection) -> int | None:
        """Return None, because only reading all records would tell."""
        return None

    def list_types(self) -> list[str]:
        """Return the sets of all types, for the same reason."""
        return [*TYPES]

    def find_earliest(self) -> datetime | None:
        """Return the earliest datestamp; None if there are no records."""
        first = next(self._records.iterate_changes(None, None, 1), None)
        return None if first is None else first[0][0].replace(microsecond=0)

    def _make(
        self, record: Record, position: tuple[datetime, str], work: Work, sets: set[str]
    ) -> HarvestedRecord:
        is_deleted = record.state == State.DELETED
        header = Header(
            record.ibip or record.identifiers[0],
            position[0].replace(microsecond=0),
            is_deleted,
            tuple(sorted(sets - {THESES})),
        )
        return HarvestedRecord(header, position, None if is_deleted else work)


def open_harvests(archive: Archive, sets: HarvestSets) -> StoredHarvests | HostHarvests:
    """Return the changes of the items of an Archive."""
    records = archive.items.records
    if records is None:
        return StoredHarvests(archive, sets)
    return HostHarvests(archive, sets, records)


@dataclass
class Part:
    """A part of a list.

    :ivar entries: the records, as the writer has written them.
    :ivar skipped: the number of records that the writer could not write.
    :ivar rest: the selection of the rest of the list; None at the end of the list.
    """

    entries: list[str] = field(default_factory=list)
    skipped: int = 0
    rest: Selection | None = None


def list_part(
    harvests: StoredHarvests | HostHarvests,
    selection: Selection,
    limit: int,
    with_works: bool,
    write: Callable[[HarvestedRecord], str],
) -> Part:
    """Return the next part of a list.

    The next part must not be empty (OAI-PMH 2.0, 3.5). Therefore a part has a rest only if a later
    record can be written. After :data:`MAX_SKIPPED` records that can't be written, the search ends.

    :param limit: the maximum number of records in the part.
    :param write: writes a record; it raises HostFunctionFailed if this is impossible.
    """
    part = _write_part(harvests, selection, limit, with_works, write)
    is_empty = not part.entries and not part.skipped
    if is_empty and selection.after is not None and selection.until is not None:
        # The part must not be empty, but all remaining records have changed again, and are now
        # later than the argument until. Therefore the first of them is returned nevertheless.
        part = _write_part(harvests, replace(selection, until=None), 1, with_works, write)
        part.rest = None
    return part


def _write_part(
    harvests: StoredHarvests | HostHarvests,
    selection: Selection,
    limit: int,
    with_works: bool,
    write: Callable[[HarvestedRecord], str],
) -> Part:
    """Return the next part of a list, which may be empty; see :func:`list_part`."""
    part = Part()
    position = selection.after
    for record in _iterate_records(harvests, selection, limit + 1, with_works):
        try:
            entry = write(record)
        except HostFunctionFailed:
            part.skipped += 1
        else:
            if len(part.entries) == limit:
                part.rest = replace(selection, after=position)
                break
            part.entries.append(entry)
        position = record.position
        if part.skipped == MAX_SKIPPED:
            part.rest = replace(selection, after=position)
            break
    return part


def _iterate_records(
    harvests: StoredHarvests | HostHarvests, selection: Selection, limit: int, with_works: bool
) -> Iterator[HarvestedRecord]:
    """Yield all records of a selection.

    :param limit: the number of records that are read together.
    """
    while True:
        records = harvests.list_records(selection, limit, with_works)
        yield from records
        if records:
            selection = replace(selection, after=records[-1].position)
        if len(records) < limit and not harvests.publish_more(selection.until):
            return
