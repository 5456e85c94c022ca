"""The items of a host that keeps all data about them in its own tables.

A host describes its items in a subclass of :class:`RecordCatalogue`. This module answers
urlRequests and the pages of items from these descriptions. The tables of this package then contain
only the Archive with its service, the dates of minted identifiers, reservations and accesses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from heapq import nsmallest
from pathlib import Path
from typing import Any

from flask_ibi_archive.archive.items.operations import (
    ItemRecord,
    find_relations,
    list_files,
    name_file,
    read_description,
    validate_record,
)
from flask_ibi_archive.archive.service.catalogue import CannotList
from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import CatalogueItem, OwnMetadata, Scope
from flask_ibi_archive.core.protocol.states import ELSEWHERE
from flask_ibi_archive.core.records.record import (
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
)
from flask_ibi_archive.core.records.values import quoted
from flask_ibi_archive.errors import StorageError

#: The fields of a CatalogueRecord that an ItemRecord does not have. A deposited item gets their
#: values from the Archive.
IDENTITY = ("rep", "ibip", "timestamp")
EDITIONS_ADVICE = (
    "a catalogue states later editions: give the record of the earlier edition the field "
    "next_edition"
)
TRANSLATIONS_ADVICE = (
    "a catalogue states all translations: give each of these records the field translations"
)


class CatalogueRecord(ItemRecord, total=False):
    """The description of an item in the tables of a host.

    ::

        CatalogueRecord(rep=row.rep, ibip=row.ibip, timestamp=row.changed_at, title=row.title,
                        language="en", files=[("report.pdf", UPLOADS / row.stored_name)])

    The fields are those of :class:`~flask_ibi_archive.ItemRecord`, and:

    - ``rep``, ``ibip``: the two forms of the identifier, which ``ibi.archive.mint()`` returned. At
      least one is required.
    - ``timestamp``: the time of the last change of the item, or of its removal, with a time zone.
      Required.

    Some fields have another meaning than for a deposited item:

    - ``files``: paths, pairs of a name and a path, and FileRecords; no streams. Readers get the
      files from these paths.
    - ``state``: an item that is "Reserved" is unknown to all readers.
    - ``next_edition``: an identifier of the next edition. The field ``previous_edition`` is not
      allowed.
    - ``translations``: the identifiers of all other translations, by language. Each of the
      translations states all others. The field ``translation_of`` is not allowed.
    """

    rep: str | None
    ibip: str | None
    timestamp: datetime


class RecordCatalogue(ABC):
    """The items of a host. A subclass describes the items that the tables of the host contain.

    ::

        class Documents(RecordCatalogue):
            def record(self, ibi):
                row = db.session.scalar(select(Document).where(
                    or_(Document.rep == ibi, Document.ibip == ibi)))
                return None if row is None else describe(row)

        ibi = IBIArchive(catalogue=Documents())

    The methods are called in the app context, in all threads that answer requests. A class that
    inherits from ``flask_ibi_archive.testing.CatalogueContract`` tests the catalogue.
    """

    @abstractmethod
    def record(self, ibi: str) -> CatalogueRecord | None:
        """Return the description of the item with an identifier; None if there is no such item.

        :param ibi: the rep, the ibip or an alias of the item, in canonical case.
        """

    def records(self) -> Iterable[CatalogueRecord]:
        """Return the descriptions of all items.

        ``ibi.archive.find()`` and the commands ``list`` and ``export`` call this method.
        """
        raise CannotList(
            f"{type(self).__name__} can't list its items, because it has no method records()"
        )

    def changes(
        self, since: datetime | None, after: tuple[datetime, str] | None, limit: int
    ) -> Iterable[CatalogueRecord]:
        """Return the descriptions of the first changed items, sorted by timestamp.

        Items with the same timestamp are sorted by their identifier: the ``ibip`` if there is one,
        otherwise the ``rep``. Harvesters (OAI-PMH) read the items in this order. This method reads
        all items of :meth:`records` each time. A subclass with many items should use a statement
        with an index on these two columns. Removed items must remain in the table.

        :param since: only items with this timestamp or a later one; None: all items.
        :param after: only items after the item with this timestamp and this identifier.
        :param limit: the maximum number of items.
        """

        def find_position(record: CatalogueRecord) -> tuple[datetime, str]:
            return record["timestamp"], record.get("ibip") or record.get("rep") or ""

        changed = (
            record
            for record in self.records()
            if (since is None or record["timestamp"] >= since)
            and (after is None or find_position(record) > after)
        )
        return nsmallest(limit, changed, key=find_position)

    def find_same_as(self, alias: str) -> str | None:
        """Return an identifier of the item whose ``same_as`` contains an alias; None if none does.

        Old links lead to an item only if a subclass has this method, which should read the alias
        with an index. Without it, no link does.

        :param alias: the canonical spelling, as in ``doi:10.5281/zenodo.1234567``. The case of
            the letters of a DOI or a Handle does not count.
        """
        return None

    def find(self, ibi: str, scope: Scope, today: date) -> CatalogueItem | None:
        """Return the item with an identifier for a urlRequest, in any state.

        This method calls :meth:`record` for the item and for each related item that the request
        leads to. A subclass can read all data with one statement instead. The ``key`` of its items
        must be an identifier.

        :param scope: the data that the caller will read.
        :param today: the current day (UTC), on which embargoes depend.
        """
        return _RecordReader(self, scope, today).find(ibi)


def read_record(catalogue: RecordCatalogue, ibi: str) -> Record | None:
    """Return the record of an item of a host; None if there is no such item.

    :param ibi: an identifier of the item, in canonical case.
    :raises StorageError: if the description is wrong. The message names the field.
    """
    described = catalogue.record(ibi)
    if described is None:
        return None
    if not isinstance(described, Mapping):
        raise StorageError(
            f"{ibi}: record() returned {quoted(described)}, not a CatalogueRecord or None"
        )
    if described.get("state") == "Reserved":
        return None
    record = parse_catalogue_record(described, ibi)
    if ibi not in record.identifiers:
        raise StorageError(
            f"{ibi}: the record has the identifiers {', '.join(record.identifiers)}; record() must "
            "return the item with the requested identifier"
        )
    return record


def parse_catalogue_record(given: Mapping[str, Any], name: str | None = None) -> Record:
    """Return the record that a description of a host contains.

    :param given: the description, a :class:`CatalogueRecord`.
    :param name: an identifier of the item, for messages.
    :raises StorageError: if the description is wrong. The message names the field.
    """
    name = name or given.get("ibip") or given.get("rep")
    identity = {field: given[field] for field in IDENTITY if given.get(field) is not None}
    try:
        described = {field: given[field] for field in given.keys() - IDENTITY}
        values = read_description(described)
        related = find_relations(described)
        if "previous_edition" in related:
            raise StorageError(f"previous_edition: {EDITIONS_ADVICE}")
        if "translation_of" in related:
            raise StorageError(f"translation_of: {TRANSLATIONS_ADVICE}")
        listed = list_files(given.get("files", ()))
        files = tuple(_read_file(number, file) for number, file in enumerate(listed))
    except StorageError as error:
        raise StorageError(f"{name}: {error}") from error
    values |= {**identity, "state": given.get("state"), "files": files}
    record = validate_record(values, name)
    if record.timestamp is None:
        raise StorageError(f"{name}: timestamp: the record needs the time of the last change")
    return record


def _read_file(number: int, file: Any) -> FileRecord:
    path, content = name_file(number, file)
    if isinstance(content, FileRecord):
        return content
    if not isinstance(content, Path):
        raise StorageError(
            f"files[{number}]: {quoted(file)} is not a path; a catalogue can't contain streams"
        )
    return FileRecord(path, source=str(content))


class RecordItem(CatalogueItem):
    """An item of a host, which reads its related items when they are needed.

    :param record: the record of the item. For an item of another Archive, the state is Elsewhere.
    :param is_requested: True if the item is the requested item; False if a relation leads to it.
    """

    def __init__(self, record: Record, reader: _RecordReader, is_requested: bool = False) -> None:
        moved = record.tombstone is not None and record.tombstone.original_archive is not None
        is_elsewhere = record.state == ELSEWHERE or (moved and not is_requested)
        super().__init__(
            record.ibip or record.identifiers[0],
            None if is_elsewhere else record.state,
            record.rep,
            record.ibip,
            record.content_type,
            record.timestamp,
            record.language,
            record.formats,
            networks=record.networks,
            embargo=record.embargo,
            shows_metadata=not record.is_hidden,
            files={file.path: file.url for file in record.files},
            target_path=record.target_path,
            scope=reader.scope,
            today=reader.today,
        )
        self._record = record
        self._reader = reader

    def metadata(self) -> CatalogueItem | OwnMetadata | None:
        """Return the metadata of the item, or None if the item has no metadata."""
        stated = self._record.metadata
        if isinstance(stated, MetadataItem):
            return self._reader.follow(stated.ibi)
        if isinstance(stated, MetadataAddress):
            return OwnMetadata(stated.url, stated.formats, stated.timestamp)
        if isinstance(stated, DublinCoreMetadata):
            return OwnMetadata(None, self.scope.own_formats)
        return None

    def next_edition(self) -> RecordItem | None:
        """Return the next edition of the item, or None if no next edition exists."""
        following = self._record.next_edition
        return None if following is None else self._reader.follow(following)

    def translations(self) -> Mapping[str, RecordItem]:
        """Return the item and all its translations, by language."""
        members = {
            language: self._reader.follow(ibi)
            for language, ibi in self._record.translations.items()
        }
        if self.language is not None:
            members[self.language] = self
        return members


class _RecordReader:
    """Reads the records that one urlRequest needs, each only once.

    :param scope: the data of the items that the caller will read.
    :param today: the current day (UTC), on which embargoes depend.
    """

    def __init__(self, catalogue: RecordCatalogue, scope: Scope, today: date) -> None:
        self.scope = scope
        self.today = today
        self._catalogue = catalogue
        self._items: dict[str, RecordItem] = {}

    def find(self, ibi: str) -> RecordItem | None:
        """Return the requested item, or None if the catalogue does not have the item."""
        record = read_record(self._catalogue, ibi)
        return None if record is None else self._add(RecordItem(record, self, is_requested=True))

    def follow(self, ibi: str) -> RecordItem:
        """Return the item to which a relation leads. The item may be in another Archive."""
        if ibi in self._items:
            return self._items[ibi]
        record = read_record(self._catalogue, ibi)
        if record is None:
            rep = ibi if parse_identifier(ibi).form is Form.REP else None
            # in answers, the word "ibip" precedes a legacy identifier of an item elsewhere
            record = Record(rep, None if rep else ibi, state=ELSEWHERE)
        return self._add(RecordItem(record, self))

    def _add(self, item: RecordItem) -> RecordItem:
        for ibi in item._record.identifiers:
            self._items[ibi] = item
        return item
