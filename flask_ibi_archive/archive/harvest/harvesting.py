"""Lists the changes of items for harvesters (OAI-PMH), with the descriptions of the items.

The order is that of the harvest log (:mod:`flask_ibi_archive.archive.harvest.changes`), or that of
the timestamps in a host's own catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from time import monotonic
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from flask_ibi_archive.archive.harvest.changes import EPOCH, Change, HarvestLog
from flask_ibi_archive.archive.harvest.oai_messages import Header, Position, Selection
from flask_ibi_archive.archive.harvest.sets import THESES, TYPES, HarvestSets
from flask_ibi_archive.archive.items.identifiers import find_owners
from flask_ibi_archive.archive.items.viewing import describe_host_item, is_public_record, read_works
from flask_ibi_archive.archive.service.item_catalogue import RecordSource
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import HostFunctionFailed, NotReady

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

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
            :mod:`flask_ibi_archive.archive.harvest.changes`.
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
            item_id, _ = find_owners(connection, self._archive_id, [ibi]).get(ibi, (None, ""))
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
