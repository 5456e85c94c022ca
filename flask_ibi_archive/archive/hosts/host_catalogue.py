"""The items in the catalogue of a host (:class:`.RecordCatalogue`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timezone
from itertools import islice
from traceback import extract_tb

from flask import has_request_context
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException

from flask_ibi_archive.archive.hosts.record_catalogue import (
    RecordCatalogue,
    parse_catalogue_record,
    read_record,
)
from flask_ibi_archive.archive.items.archives import ServedArchive
from flask_ibi_archive.archive.items.files import FileStore
from flask_ibi_archive.archive.items.read import view_host_item
from flask_ibi_archive.archive.service.catalogue import (
    CannotList,
    ItemKey,
    KeyedFile,
    RecordSource,
)
from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import Catalogue, CatalogueItem, Scope
from flask_ibi_archive.core.records.record import ItemView, MetadataItem, Record
from flask_ibi_archive.errors import NotReady, StorageError, one_line
from flask_ibi_archive.server.database.database import Database


class HostItems(RecordSource):
    """The items in the catalogue of a host, and the service of the Archive.

    If the catalogue fails, the methods raise NotReady, because the Archive can't answer.

    The other parameters are those of :class:`.ItemCatalogue`, which reads the service.
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
        self.name = type(catalogue).__name__

    @property
    def records(self) -> HostItems:
        """This object, because the items are not in the tables of this package."""
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

    def open(self, connection: Connection, today: date) -> Catalogue:
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
        self,
        search: str | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> Generator[Record, None, None]:
        """Yield the records of items; a malformed record is an error."""
        with self.explaining():
            yield from islice(self._select(search, state), limit)

    def count(self) -> None:
        """Return None, because the number of items is unknown."""

    def find_by_alias(
        self, connection: Connection, aliases: Sequence[ForeignIdentifier]
    ) -> tuple[ForeignIdentifier, str] | None:
        """Return the first of some aliases that an item has, and an identifier of this item."""
        with self.explaining():
            for alias in aliases:
                ibi = self.catalogue.find_same_as(alias.text)
                if ibi is not None:
                    return alias, parse_identifier(ibi).text
        return None

    def may_have_addresses(self) -> bool:
        """Return whether the catalogue of the host finds items by former addresses."""
        return type(self.catalogue).find_same_as is not RecordCatalogue.find_same_as

    def find_files(
        self, connection: Connection, keys: Sequence[ItemKey], paths: Sequence[str]
    ) -> Iterator[KeyedFile]:
        """Yield the files of some items that have one of the paths or have a URL."""
        yield from super().find_files(connection, keys, paths)
        for key in keys:
            record = self.find_record(key) if isinstance(key, str) else None
            for file in record.files if record else ():
                if file.path in paths or file.url is not None:
                    yield key, file.path, file.url

    def iterate_changes(
        self, since: datetime | None, after: tuple[datetime, str] | None, limit: int
    ) -> Iterator[tuple[tuple[datetime, str], Record | None]]:
        """Yield the positions and records of changed items; see :meth:`RecordCatalogue.changes`.

        The record of a reserved item is None. The timestamps in the positions are those of the
        catalogue; those in the records are whole seconds.
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
                if state in (None, record.state) and _contains(record, search):
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
    """The catalogue that answers urlRequests for the items of a host and for the service.

    :param stored: the catalogue that contains the service.
    :param today: the current day (UTC), on which embargoes depend.
    """

    items: HostItems
    stored: Catalogue
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


def _contains(record: Record, search: str | None) -> bool:
    """Return whether a title, a creator or an identifier contains a text.

    Upper and lower case are equal. None is contained in every record.
    """
    if search is None:
        return True
    elements = getattr(record.metadata, "elements", {})
    texts = [text for name in ("title", "creator") for text, _ in elements.get(name, ())]
    return any(search.casefold() in text.casefold() for text in (*record.identifiers, *texts))
