"""The items of a host that keeps all data about them in its own tables.

A host describes its items in a subclass of :class:`RecordCatalogue`. This module answers
urlRequests and the pages of items from these descriptions. The tables of this package then contain
only the Archive with its service, the dates of minted identifiers, reservations and accesses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timezone
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from traceback import extract_tb
from typing import Any

from flask import has_request_context
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException

from flask_ibi_archive.archive.items import item_record
from flask_ibi_archive.archive.items.files import FileStore
from flask_ibi_archive.archive.items.read import view_host_item
from flask_ibi_archive.archive.items.served_archives import ServedArchive
from flask_ibi_archive.archive.service import catalogue as service
from flask_ibi_archive.archive.service.catalogue import CannotList, RecordSource
from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier
from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import catalogue_items as answers
from flask_ibi_archive.core.protocol.catalogue_items import CatalogueItem, OwnMetadata, Scope
from flask_ibi_archive.core.protocol.states import ELSEWHERE
from flask_ibi_archive.core.records import record as records
from flask_ibi_archive.core.records.record import FileRecord, ItemView, MetadataItem, Record
from flask_ibi_archive.core.records.rich_text import to_plain
from flask_ibi_archive.core.records.values import quoted
from flask_ibi_archive.errors import NotReady, StorageError, one_line
from flask_ibi_archive.server.database.database import Database

#: The fields of a CatalogueRecord that an ItemRecord does not have. A deposited item gets their
#: values from the Archive.
IDENTITY = ("rep", "ibip", "timestamp")
#: What a catalogue states instead of the fields with which a deposited item names another one.
ADVICE = {
    "previous_edition": "a catalogue states later editions: give the record of the earlier edition "
    "the field next_edition",
    "translation_of": "a catalogue states all translations: give each of these records the field "
    "translations",
}


class CatalogueRecord(item_record.ItemRecord, total=False):
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
    - ``translations``: the identifiers of all other translations, by language. Each translation of
      a group names all others of the group. The field ``translation_of`` is not allowed.
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
        """Return the first items that have changed, as descriptions sorted by timestamp.

        Items with the same timestamp are sorted by their identifier: the ``ibip`` if there is one,
        otherwise the ``rep``. Harvesters (OAI-PMH) read the items in this order. Removed items must
        remain in the table. This default method reads all items of :meth:`records` each time. A
        subclass with many items should override it, and use an index on these two columns.

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

        This default method always returns None: no old link leads to an item. A subclass that
        overrides it should find the alias with an index.

        :param alias: the canonical spelling, as in ``doi:10.5281/zenodo.1234567``. The case of the
            letters of a DOI or a Handle does not count.
        """
        return None

    def find(self, ibi: str, scope: Scope, today: date) -> CatalogueItem | None:
        """Return an item in any state, with what the answer to a urlRequest needs.

        This method calls :meth:`record` for the item and for each related item that the request
        leads to. A subclass may override this with one statement; the ``key`` of each item it
        returns must be an identifier.

        :param scope: the data that the caller will read.
        :param today: the current day (UTC), on which embargoes depend.
        :returns: None if there is no item with the identifier.
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
    """Check the description that a host gives of an item, and return it as a record.

    :param given: the description, a :class:`CatalogueRecord`.
    :param name: an identifier of the item, for messages.
    :raises StorageError: if the description is wrong. The message names the field.
    """
    name = name or given.get("ibip") or given.get("rep")
    identity = {field: given[field] for field in IDENTITY if given.get(field) is not None}
    try:
        described = {field: given[field] for field in given.keys() - IDENTITY}
        values = item_record.read_description(described)
        for field in item_record.find_relations(described):
            raise StorageError(f"{field}: {ADVICE[field]}")
        listed = item_record.list_files(given.get("files", ()))
        files = tuple(_read_file(number, file) for number, file in enumerate(listed))
    except StorageError as error:
        raise StorageError(f"{name}: {error}") from error
    values |= {**identity, "state": given.get("state"), "files": files}
    record = item_record.validate_record(values, name)
    if record.timestamp is None:
        raise StorageError(f"{name}: timestamp: the record needs the time of the last change")
    return record


def _read_file(number: int, file: Any) -> FileRecord:
    path, content = item_record.name_file(number, file)
    if isinstance(content, FileRecord):
        return content
    if not isinstance(content, Path):
        raise StorageError(
            f"files[{number}]: {quoted(file)} is not a path; a catalogue can't contain streams"
        )
    return FileRecord(path, source=str(content))


class RecordItem(CatalogueItem):
    """An item of a host. A related item is only read when it is needed.

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
        if isinstance(stated, records.MetadataAddress):
            return OwnMetadata(stated.url, stated.formats, stated.timestamp)
        if isinstance(stated, records.DublinCoreMetadata):
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
    """Reads the records that one urlRequest needs. No record is read twice.

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


# --- the catalogue of the Archive ----------------------------------------------------------------


class HostItems(RecordSource):
    """The items in the catalogue of a host, and the Archive service.

    The service is in the tables of this package, and is read by the base class
    :class:`.ItemCatalogue`, whose parameters this class has too. If the catalogue fails, the
    methods raise NotReady.
    """

    def __init__(
        self,
        catalogue: RecordCatalogue,
        database: Database,
        find_served: Callable[[], ServedArchive],
        folder: FileStore,
    ) -> None:
        super().__init__(database, find_served, folder)
        self.catalogue = catalogue
        self.name: str = type(catalogue).__name__

    @property
    def records(self) -> HostItems:
        """This object itself: it lists and finds the items as records."""
        return self

    @property
    def can_list(self) -> bool:
        """True if the catalogue of the host lists its items."""
        return type(self.catalogue).records is not RecordCatalogue.records

    @property
    def can_list_changes(self) -> bool:
        """True if the catalogue of the host has its own method for changed items."""
        return type(self.catalogue).changes is not RecordCatalogue.changes

    def is_service(self, ibi: str) -> bool:
        """Return whether an identifier is that of the service."""
        served = self.find_served()
        return ibi in (served.rep, served.ibip)

    def open(self, connection: Connection, today: date) -> answers.Catalogue:
        """Return the catalogue that answers urlRequests."""
        return HostCatalogue(self, super().open(connection, today), today)

    def find_record(self, ibi: str) -> Record | None:
        """Return the record of the item with an identifier; None if there is no such item."""
        with self.explaining():
            return read_record(self.catalogue, ibi)

    def view(self, ibi: str, today: date) -> ItemView | None:
        """Return an item for pages and commands; None if there is no such item."""
        if self.is_service(ibi):
            return super().view(ibi, today)
        record = self.find_record(ibi)
        if record is None:
            return None
        named = record.metadata
        metadata = self.find_record(named.ibi) if isinstance(named, MetadataItem) else None
        return view_host_item(record, metadata, today)

    def list(
        self, search: str | None = None, state: str | None = None, limit: int | None = None
    ) -> Generator[Record, None, None]:
        """Yield the records of items; see :meth:`Archive.list_records`.

        :raises NotReady: if a record is malformed.
        """
        with self.explaining():
            yield from islice(self._select(search, state), limit)

    def count(self) -> None:
        """Return None, because the number of items is unknown."""

    def find_by_alias(
        self, connection: Connection, aliases: Sequence[ForeignIdentifier]
    ) -> tuple[ForeignIdentifier, str] | None:
        """Return the first given alias that belongs to an item, with an identifier of that item.

        :returns: None if none of the aliases belongs to an item.
        """
        with self.explaining():
            for alias in aliases:
                ibi = self.catalogue.find_same_as(alias.text)
                if ibi is not None:
                    return alias, parse_identifier(ibi).text
        return None

    def may_have_addresses(self) -> bool:
        """Return whether the catalogue of the host can find items by former addresses."""
        return type(self.catalogue).find_same_as is not RecordCatalogue.find_same_as

    def find_files(
        self, connection: Connection, keys: Sequence[service.ItemKey], paths: Sequence[str]
    ) -> Iterator[service.KeyedFile]:
        """Yield those files of the given items that have one of the paths, or have a URL."""
        yield from super().find_files(connection, keys, paths)
        for key in keys:
            record = self.find_record(key) if isinstance(key, str) else None
            for file in record.files if record else ():
                if file.path in paths or file.url is not None:
                    yield key, file.path, file.url

    def iterate_changes(
        self, since: datetime | None, after: tuple[datetime, str] | None, limit: int
    ) -> Iterator[tuple[tuple[datetime, str], Record | None]]:
        """Yield the items that have changed; see :meth:`RecordCatalogue.changes`.

        Each item is a pair: its position (timestamp and identifier) and its record, which is None
        for a reserved item. The timestamps in the positions are those of the catalogue; those in
        the records are whole seconds.
        """
        with self.explaining():
            for described in self.catalogue.changes(since, after, limit):
                is_reserved = described.get("state") == "Reserved"
                record = None if is_reserved else parse_catalogue_record(described)
                time = described["timestamp"].astimezone(timezone.utc)
                yield (time, described.get("ibip") or described.get("rep") or ""), record

    def _select(self, search: str | None, state: str | None) -> Iterator[Record]:
        for described in self.catalogue.records():
            if described.get("state") != "Reserved":
                record = parse_catalogue_record(described)
                if state in (None, record.state) and _contains(record, search or ""):
                    yield record

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Replace an error of the catalogue in the ``with`` block by NotReady.

        :raises NotReady: if the catalogue fails, returns a wrong record, or can't read its
            database.
        :raises CannotList: if the catalogue can't list its items.
        :raises HTTPException: the answer of the host to a request, such as that of ``abort(403)``.
        """
        try:
            yield
        except (NotReady, CannotList):
            raise
        except StorageError as error:
            advice = "correct the catalogue"
            raise NotReady(f"{self.name} returns a wrong record", advice, str(error)) from error
        except SQLAlchemyError as error:
            detail = " ".join(str(error).split())[:300]
            advice = "check the database of the repository"
            raise NotReady(f"{self.name} can't read the items", advice, detail) from error
        except Exception as error:
            if isinstance(error, HTTPException) and has_request_context():
                raise
            *_, place = extract_tb(error.__traceback__)
            detail = f"{type(error).__name__}: {one_line(error)}, {place.filename}:{place.lineno}"
            raise NotReady(f"{self.name} fails", "correct the catalogue", detail) from error


@dataclass(frozen=True, slots=True)
class HostCatalogue:
    """Answers urlRequests for the items of a host and for the Archive service.

    :param stored: the catalogue that contains the service.
    :param today: the current day (UTC), on which embargoes depend.
    """

    items: HostItems
    stored: answers.Catalogue
    today: date

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item with an identifier, or None if no such item exists."""
        if self.items.is_service(ibi):
            return self.stored.find(ibi, scope)
        with self.items.explaining():
            item = self.items.catalogue.find(ibi, scope, self.today)
            if item is not None and not isinstance(item.key, str):
                raise StorageError(f"{ibi}: the key {item.key!r} is not an identifier of the item")
            return item


def _contains(record: Record, search: str) -> bool:
    """Return whether a record contains all words of a search, in upper or lower case.

    Titles, creators, subjects and identifiers are searched.
    """
    elements = getattr(record.metadata, "elements", {})
    names = ("title", "creator", "subject")
    texts = [to_plain(text) for name in names for text, _ in elements.get(name, ())]
    everything = "\n".join([*record.identifiers, *texts]).casefold()
    return all(word in everything for word in search.casefold().split())
