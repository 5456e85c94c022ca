"""The catalogue that answers urlRequests: the tables of this package, or a host's own catalogue."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timezone
from itertools import islice

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from flask_ibi_archive.archive.archives import ServedArchive
from flask_ibi_archive.archive.record_catalogue import (
    CannotList,
    RecordCatalogue,
    parse_catalogue_record,
    read_record,
)
from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.protocol.catalogue import Catalogue, CatalogueItem, Scope
from flask_ibi_archive.records.record import Record
from flask_ibi_archive.storage.catalogue import StoredCatalogue


def open_catalogue(
    connection: Connection, served: ServedArchive, today: date, host_items: HostItems | None
) -> Catalogue:
    """Return the catalogue of an Archive.

    :param today: the current day (UTC), on which embargoes depend.
    :param host_items: the items of the host; None if the items are in the tables of this package.
    """
    stored = StoredCatalogue(connection, served.id, today)
    return stored if host_items is None else HostCatalogue(stored, served, today, host_items)


class HostItems:
    """The items in the catalogue of a host.

    If the catalogue fails, the methods raise NotReady, because the Archive can't answer.
    """

    def __init__(self, catalogue: RecordCatalogue) -> None:
        self._catalogue = catalogue
        self._name = type(catalogue).__name__

    @property
    def can_list(self) -> bool:
        """True if the catalogue of the host lists its items."""
        return type(self._catalogue).records is not RecordCatalogue.records

    def find(self, ibi: str, scope: Scope, today: date) -> CatalogueItem | None:
        """Return the item with an identifier for a urlRequest; None if there is no such item."""
        with self._explaining():
            found = self._catalogue.find(ibi, scope, today)
            if found is not None and not isinstance(found.key, str):
                raise StorageError(f"{ibi}: the key {found.key!r} is not an identifier of the item")
            return found

    def get(self, ibi: str) -> Record | None:
        """Return the record of the item with an identifier; None if there is no such item."""
        with self._explaining():
            return read_record(self._catalogue, ibi)

    def list(
        self, search: str | None = None, state: str | None = None, limit: int | None = None
    ) -> Generator[Record, None, None]:
        """Yield the records of items; see :meth:`Archive.find`."""
        with self._explaining():
            yield from islice(self._select(search, state), limit)

    def iterate_changes(
        self, since: datetime | None, after: tuple[datetime, str] | None, limit: int
    ) -> Iterator[tuple[tuple[datetime, str], Record | None]]:
        """Yield the positions and records of changed items; see :meth:`RecordCatalogue.changes`.

        The record of a reserved item is None. The timestamps in the positions are those of the
        catalogue; those in the records are whole seconds.
        """
        with self._explaining():
            for given in self._catalogue.changes(since, after, limit):
                is_reserved = given.get("state") == "Reserved"
                record = None if is_reserved else parse_catalogue_record(given)
                time = given["timestamp"].astimezone(timezone.utc)
                yield (time, given.get("ibip") or given.get("rep") or ""), record

    def _select(self, search: str | None, state: str | None) -> Iterator[Record]:
        for given in self._catalogue.records():
            if given.get("state") != "Reserved":
                record = parse_catalogue_record(given)
                if state in (None, record.state) and _contains(record, search):
                    yield record

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (NotReady, CannotList):
            raise
        except StorageError as error:
            advice = "correct the catalogue"
            raise NotReady(f"{self._name} returns a wrong record", advice, str(error)) from error
        except SQLAlchemyError as error:
            detail = " ".join(str(error).split())[:300]
            advice = "check the database of the repository"
            raise NotReady(f"{self._name} can't read the items", advice, detail) from error


class HostCatalogue:
    """The items of a host, and the service of the Archive, which is in the tables of this package.

    :param stored: the items in the tables of this package.
    :param today: the current day (UTC), on which embargoes depend.
    """

    def __init__(
        self, stored: StoredCatalogue, served: ServedArchive, today: date, host_items: HostItems
    ) -> None:
        self._stored = stored
        self._served = served
        self._today = today
        self._host_items = host_items

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item with an identifier, or None if no such item exists."""
        if ibi in (self._served.rep, self._served.ibip):
            return self._stored.find(ibi, scope)
        return self._host_items.find(ibi, scope, self._today)


def _contains(record: Record, search: str | None) -> bool:
    """Return whether a title, a creator or an identifier contains a text, in any case."""
    if search is None:
        return True
    elements = getattr(record.metadata, "elements", {})
    texts = [text for name in ("title", "creator") for text, _ in elements.get(name, ())]
    return any(search.casefold() in text.casefold() for text in (*record.identifiers, *texts))
