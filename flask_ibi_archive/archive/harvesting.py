"""Lists the changes of items for harvesters (OAI-PMH), with the descriptions of the items.

The order is that of the harvest log (:mod:`flask_ibi_archive.storage.harvests`), or that of the
timestamps in a host's own catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from sqlalchemy import Connection

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.host_calls import logging_failure
from flask_ibi_archive.archive.host_catalogue import HostItems
from flask_ibi_archive.archive.public_works import describe_host_item, is_public, read_works
from flask_ibi_archive.errors import CannotFindSets, CannotWriteMetadata
from flask_ibi_archive.records.oai_pmh.requests import Position, Selection, is_set_spec
from flask_ibi_archive.records.oai_pmh.responses import Header
from flask_ibi_archive.records.record import Record
from flask_ibi_archive.records.work import Work
from flask_ibi_archive.storage.harvests import LOCK, Change, HarvestLog, Range
from flask_ibi_archive.storage.identifiers import find_owners

#: The largest number of notes about changed items that one request processes.
BATCH = 1000

#: The largest number of records that can't be written, and that one request skips. If it is
#: reached, the function that writes the format is wrong, rather than the items.
MAX_SKIPPED = 1_000

#: The largest length of a setSpec.
MAX_SPEC = 255

#: A function of the host that returns the sets of an item.
FindItemSets = Callable[[Work], Iterable[str]]


@dataclass
class HarvestSets:
    """The sets that a host has defined.

    :ivar names: the name of each set for people, by its setSpec.
    :ivar find: returns the sets of an item; None if there are no sets.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    find: FindItemSets | None = None

    def define(self, names: Mapping[str, str], find: FindItemSets) -> None:
        """Define the sets; see :meth:`flask_ibi_archive.IBIArchive.oai_sets`.

        :raises ValueError: if a setSpec is wrong or too long.
        """
        for spec in names:
            if not is_set_spec(spec) or len(spec) > MAX_SPEC:
                raise ValueError(f"{spec!r} is not a setSpec, such as 'theses:master'")
        self.names, self.find = dict(names), find

    def list_sets(self, work: Work) -> set[str]:
        """Return the sets of an item. A set "a:b" is a part of the set "a" (OAI-PMH 2.0, 2.6).

        If the function of the host fails or returns an unknown set, this is logged, and the item
        belongs to no set: harvesters still find it in the list of all items.
        """
        with suppress(CannotFindSets), logging_failure(CannotFindSets(work.ibi)):
            return self._list_sets(work)
        return set()

    def _list_sets(self, work: Work) -> set[str]:
        found: set[str] = set()
        for spec in () if self.find is None else self.find(work):
            if spec not in self.names:
                raise ValueError(f"{spec!r} is not one of the sets {', '.join(self.names)}")
            parts = spec.split(":")
            found.update(":".join(parts[:count]) for count in range(1, len(parts) + 1))
        return found & self.names.keys()


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

    def publish(self) -> None:
        """Move the items that have changed since the last request to the end of the log."""
        database = self._archive.database
        if database.read(lambda connection: self._log(connection).has_changed_items()):
            with database.writing(table_lock=LOCK) as connection:
                self._log(connection).publish(self._now(), BATCH, self._set_finder(connection))

    def list_records(
        self, selection: Selection, limit: int, with_works: bool
    ) -> list[HarvestedRecord]:
        """Return the first records of a selection.

        :param limit: the maximum number of records.
        :param with_works: True to read also the descriptions of the items.
        """
        wanted = Range(
            selection.since,
            selection.until,
            selection.set_spec,
            selection.after,  # type: ignore[arg-type]
        )
        return self._archive.database.read(
            lambda connection: self._complete(
                connection, self._log(connection).list_changes(wanted, limit), with_works
            )
        )

    def find_record(self, ibi: str) -> HarvestedRecord | None:
        """Return the record of an item; None if harvesters must not see the item.

        :param ibi: an identifier of the item in canonical case.
        """
        database = self._archive.database

        def find(connection: Connection) -> tuple[int | None, list[HarvestedRecord]]:
            item_id, _ = find_owners(connection, self._archive_id, [ibi]).get(ibi, (None, ""))
            change = None if item_id is None else self._log(connection).find_change(item_id)
            found = [] if change is None else [change]
            return item_id, self._complete(connection, found, True)

        item_id, records = database.read(find)
        if item_id is not None and not records:
            # other changed items may precede this item in the list of notes
            with database.writing(table_lock=LOCK) as connection:
                finder = self._set_finder(connection)
                self._log(connection).publish_items([item_id], self._now(), finder)
            _, records = database.read(find)
        return next(iter(records), None)

    def find_earliest(self) -> datetime | None:
        """Return the earliest datestamp; None if there are no records."""
        return self._archive.database.read(lambda one: self._log(one).find_earliest())

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
        ids = [change.item_id for change in changes]
        sets = self._log(connection).read_sets(ids) if self._sets.names and ids else {}
        live = [change.item_id for change in changes if not change.is_deleted]
        works = read_works(self._archive, connection, live) if with_works and live else {}
        records = []
        for change in changes:
            work = works.get(change.item_id)
            # an item without a work was deleted or hidden after its last change was published
            is_deleted = change.is_deleted or (with_works and work is None)
            member_of = tuple(sets.get(change.item_id, ()))
            header = Header(change.ibi, change.datestamp, is_deleted, member_of)
            records.append(HarvestedRecord(header, (change.datestamp, change.change_no), work))
        return records

    def _set_finder(
        self, connection: Connection
    ) -> Callable[[Sequence[int]], Mapping[int, Iterable[str]]] | None:
        if self._sets.find is None:
            return None
        return lambda ids: {
            item_id: self._sets.list_sets(work)
            for item_id, work in read_works(self._archive, connection, ids).items()
        }


class HostHarvests:
    """The changes of the items in the catalogue of a host."""

    def __init__(self, archive: Archive, sets: HarvestSets, items: HostItems) -> None:
        self._archive = archive
        self._sets = sets
        self._items = items

    def publish(self) -> None:
        """Do nothing: the catalogue itself contains the times of all changes."""

    def list_records(
        self, selection: Selection, limit: int, with_works: bool
    ) -> list[HarvestedRecord]:
        """Return the first records of a selection; see :meth:`StoredHarvests.list_records`."""
        found: list[HarvestedRecord] = []
        for position, record in self._iterate(selection, limit):
            made = self._make(record, position)
            if selection.set_spec is None or selection.set_spec in made.header.sets:
                found.append(made)
                if len(found) == limit:
                    break
        return found

    def _iterate(
        self, selection: Selection, limit: int
    ) -> Iterator[tuple[tuple[datetime, str], Record]]:
        after: tuple[datetime, str] | None = selection.after  # type: ignore[assignment]
        while True:
            batch = list(self._items.iterate_changes(selection.since, after, limit))
            for after, record in batch:
                # datestamps are whole seconds, but the times of the catalogue may be more precise
                datestamp = after[0].replace(microsecond=0)
                if selection.until is not None and datestamp > selection.until:
                    return
                if record is not None and (record.state == "Deleted" or is_public(record)):
                    yield after, record
            if len(batch) < limit:
                return

    def find_record(self, ibi: str) -> HarvestedRecord | None:
        """Return the record of an item; None if harvesters must not see the item."""
        record = self._items.get(ibi)
        if record is None or not (record.state == "Deleted" or is_public(record)):
            return None
        assert record.timestamp is not None  # parse_catalogue_record() has checked this
        return self._make(record, (record.timestamp, ""))

    def find_earliest(self) -> datetime | None:
        """Return the earliest datestamp; None if there are no records."""
        first = next(self._items.iterate_changes(None, None, 1), None)
        return None if first is None else first[0][0].replace(microsecond=0)

    def _make(self, record: Record, position: tuple[datetime, str]) -> HarvestedRecord:
        work = describe_host_item(self._archive, self._items, record)
        is_deleted = record.state == "Deleted"
        header = Header(
            record.ibip or record.identifiers[0],
            position[0].replace(microsecond=0),
            is_deleted,
            tuple(sorted(self._sets.list_sets(work))),
        )
        return HarvestedRecord(header, position, None if is_deleted else work)


def open_harvests(archive: Archive, sets: HarvestSets) -> StoredHarvests | HostHarvests:
    """Return the changes of the items of an Archive."""
    if archive.host_items is not None:
        return HostHarvests(archive, sets, archive.host_items)
    return StoredHarvests(archive, sets)


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

    A part must not be empty (OAI-PMH 2.0, 3.5). So a part has a rest only if a later record can be
    written, too. After :data:`MAX_SKIPPED` records that can't be written, the search ends.

    :param limit: the maximum number of records in the part.
    :param write: writes a record; it raises CannotWriteMetadata if this is impossible.
    """
    part = _write_part(harvests, selection, limit, with_works, write)
    is_empty = not part.entries and not part.skipped
    if is_empty and selection.after is not None and selection.until is not None:
        # All remaining records have changed, and are now later than the argument until. So the
        # first of them is returned.
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
    part = Part()
    position = selection.after
    for found in _iterate_records(harvests, selection, limit + 1, with_works):
        try:
            entry = write(found)
        except CannotWriteMetadata:
            part.skipped += 1
        else:
            if len(part.entries) == limit:
                part.rest = replace(selection, after=position)
                break
            part.entries.append(entry)
        position = found.position
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
        found = harvests.list_records(selection, limit, with_works)
        yield from found
        if len(found) < limit:
            return
        selection = replace(selection, after=found[-1].position)
