"""The Archive that an app serves. Hosts, web pages and commands use this class.

Several methods are defined as functions in the module of their subject. Their first argument is the
Archive.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from functools import cached_property, partial
from typing import TypeVar
from urllib.parse import urlsplit

from sqlalchemy import Connection

from flask_ibi_archive.archive.accesses.acknowledgments import take_acknowledgment, take_page_view
from flask_ibi_archive.archive.accesses.statistics import purge, read_statistics
from flask_ibi_archive.archive.claims import Claims
from flask_ibi_archive.archive.harvest.messages import HarvestSets
from flask_ibi_archive.archive.harvest.oai_pmh import describe_items
from flask_ibi_archive.archive.hosts.host_catalogue import HostItems, RecordCatalogue
from flask_ibi_archive.archive.items import changes, served_archives
from flask_ibi_archive.archive.items.files import FileStore
from flask_ibi_archive.archive.items.item_record import Identified, require_ibi
from flask_ibi_archive.archive.items.minting import Minted, Minter, StoreMinted
from flask_ibi_archive.archive.items.operations import (
    Clock,
    OperationContext,
    add_translation,
    delete,
    deposit,
    edit,
    find_key,
    new_edition,
    read_utc_clock,
    release,
    reservations,
    reserve,
)
from flask_ibi_archive.archive.items.served_archives import downgrade, init, upgrade
from flask_ibi_archive.archive.items.sessions import HostSession
from flask_ibi_archive.archive.items.transfers import make_copy, transfer
from flask_ibi_archive.archive.service.catalogue import ItemCatalogue
from flask_ibi_archive.archive.service.url_keys import URLKeys
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import Catalogue, CatalogueItem
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import (
    ArchiveFacts,
    ArchiveUrls,
    UrlPair,
    answer_url_request,
)
from flask_ibi_archive.core.records.formats import BUILT_IN, FormatRegistry
from flask_ibi_archive.core.records.record import ItemView, Record
from flask_ibi_archive.core.records.values import quoted
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.config import ArchiveConfig
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.signals import NOBODY, Notice, Notifier, item_minted

Result = TypeVar("Result")


@dataclass(repr=False)
class Archive:
    """The Archive that an app serves.

    :param addresses: builds the URLs of items and pages.
    :param session: the database session of the host, if the host has one.
    :param notifier: sends signals (:mod:`flask_ibi_archive.signals`).
    :param catalogue: the host's own catalogue, if the items are in the tables of the host.
    :param clock: returns the current time, with a time zone. Embargoes, the timestamps of items and
        the times of accesses depend on the clock. New identifiers and URL keys always contain the
        real time.
    :param formats: the metadata formats. Formats that are added after the first answer of the
        Archive do not appear in URL lists.
    :param sets: the sets of items for harvesters.
    :param replica: a copy of the database that answers urlRequests, if the Archive has one.
    """

    config: ArchiveConfig
    database: Database
    addresses: ArchiveUrls
    session: HostSession | None = None
    notifier: Notifier = NOBODY
    catalogue: RecordCatalogue | None = None
    clock: Clock = read_utc_clock
    formats: FormatRegistry = field(default_factory=lambda: FormatRegistry(BUILT_IN))
    sets: HarvestSets = field(default_factory=HarvestSets)
    replica: Database | None = None
    _served: tuple[served_archives.ServedArchive, ArchiveFacts] | None = None

    def __repr__(self) -> str:
        return f"<Archive {self.config.archive_address}>"

    @cached_property
    def url_keys(self) -> URLKeys:
        """The object that issues and verifies URL keys."""
        return URLKeys(self.config.secret_keys, self.config.url_key_max_age)

    @cached_property
    def files_folder(self) -> FileStore:
        """The folder with the stored files."""
        return FileStore(self.config.files_folder)

    @cached_property
    def minter(self) -> Minter:
        """The object that mints identifiers.

        :raises ConfigError: if the settings allow no minting.
        """
        config, prefixes = self.config, self.config.check_minting()
        return Minter(self.database, prefixes, config.granularity, config.mint_max_wait)

    @cached_property
    def items(self) -> ItemCatalogue:
        """The items, in the tables of this package or in the host's own catalogue."""
        places = (self.database, self.served, self.files_folder)
        if self.catalogue is None:
            return ItemCatalogue(*places)
        return HostItems(self.catalogue, *places)

    def check_has_items(self) -> None:
        """Check that the items of this Archive are in the tables of this package.

        :raises StorageError: if the items are in the catalogue of the host.
        """
        if self.items.records is not None:
            raise StorageError(
                "the items of this Archive are in the tables of the repository "
                f"({self.items.records.name}); change them there"
            )

    @property
    def own_context(self) -> OperationContext:
        """The objects that operations use, even if the items are in a host's own catalogue."""
        return OperationContext(
            self.database,
            (self._served or self._find())[0],
            self.files_folder,
            lambda: self.minter,
            self.session,
            self.notifier,
            self.clock,
        )

    @property
    def context(self) -> OperationContext:
        """The same as :attr:`own_context`, but only if the items are in the tables of this package.

        :raises StorageError: if the items are in the catalogue of the host.
        """
        if self.catalogue is not None:
            self.check_has_items()
        return self.own_context

    @cached_property
    def claims(self) -> Claims:
        """The claims that the Archive publishes."""
        return Claims(self)

    def number_changes(self, connection: Connection) -> tuple[datetime, bool]:
        """Assign numbers to committed changes of items, so that harvesters and resolvers see them.

        :returns: the end of the change log, and whether there may be more changes without numbers;
            see items/changes.py.
        """
        describe, now = partial(describe_items, self), self.own_context.now()
        return changes.number_changes(connection, self.served().id, now, changes.BATCH, describe)

    @property
    def today(self) -> date:
        """The current day (UTC), on which embargoes depend."""
        return self.clock().astimezone(timezone.utc).date()

    def without_session(self) -> Archive:
        """Return the same Archive without the session of the host.

        Each operation of the returned object is committed at once.
        """
        return replace(self, session=None) if self.session else self

    def served(self) -> served_archives.ServedArchive:
        """Return the Archive that this app serves.

        The Archive is cached after it was found. An app may start before its Archive exists.

        :raises NotReady: if the Archive does not exist yet.
        :raises ConfigError: if the database contains several Archives and the configuration does
            not name one of them.
        """
        return (self._served or self._find())[0]

    def facts(self) -> ArchiveFacts:
        """Return the facts that the Archive publishes about itself.

        The errors are those of :meth:`served`.
        """
        return (self._served or self._find())[1]

    def _find(self) -> tuple[served_archives.ServedArchive, ArchiveFacts]:
        wanted = self.config.archive_service_ibi
        served = self.database.read(
            lambda connection: served_archives.find_served(connection, wanted)
        )
        facts = served_archives.build_facts(self, served)
        self._served = served, facts
        return self._served

    def serves(self, ibi: str) -> bool:
        """Return whether an identifier in canonical case is an IBI of the Archive service."""
        served = self.served()
        return ibi in (served.rep, served.ibip)

    init = init
    upgrade = upgrade
    downgrade = downgrade

    def forget(self) -> None:
        """Discard the cached Archive, because its tables were removed."""
        self._served = None

    def read_catalogue(self, read: Callable[[Catalogue], Result]) -> Result:
        """Call a function with the catalogue of the items, and return its result.

        :raises NotReady: if the database or the catalogue of the host does not respond.
        """
        items, today = self.items, self.today
        return self.database.read(lambda connection: read(items.open(connection, today)))

    def list_urls(self, request: UrlRequest, requested_only: bool = False) -> Sequence[UrlPair]:
        """Return the answer to a request for the URLs of an item.

        The database, or its replica, is read with one SQL statement for the item, and one for each
        step of the relations that are requested.

        :param requested_only: if true, the answer may omit relations that were not requested.
        :raises NotReady: if the database does not respond.
        """
        facts = self.facts()

        def issue_key(item: CatalogueItem) -> str:
            return self.url_keys.issue(item.rep or item.ibip or "")

        def answer(connection: Connection) -> Sequence[UrlPair]:
            catalogue = self.items.open(connection, self.today)
            return answer_url_request(catalogue, request, facts, issue_key, requested_only)

        return (self.replica or self.database).read(answer)

    def get(self, ibi: str | Identified) -> ItemView | None:
        """Return the item that has an identifier, or None if no item has this identifier.

        ::

            item = ibi.archive.get("8JMKD3MGP8W/35MME4E")
            if item is not None:
                item.title, item.creators, item.record.state

        The item may be the Archive service.

        :param ibi: any identifier of the item, in upper or lower case; or an object with an
            ``ibi``.
        :raises IdentifierError: if the text is not an identifier.
        :raises StorageError: if the object has no identifier yet.
        """
        return self.items.view(parse_identifier(require_ibi(ibi)).text, self.today)

    def find(
        self, search: str | None = None, *, state: str | None = None, limit: int | None = None
    ) -> Iterator[ItemView]:
        """Yield items, except the Archive service, in the order of their creation.

        ::

            for item in ibi.archive.find("silva", state="Original", limit=20):
                print(item.ibi, item.title)

        All items are read in one transaction.

        :param search: yield only items with each of these words in a title, a creator, a subject or
            an identifier. Upper and lower case are equal. None: all items.
        :param state: yield only items in this state: Original, Copy or Deleted.
        :param limit: the maximum number of items; None: no limit.
        :raises StorageError: if the state is unknown.
        """
        today = self.today
        for record in self.list_records(search, state, limit):
            yield ItemView(record, is_service=False, today=today)

    def list_records(
        self, search: str | None = None, state: str | None = None, limit: int | None = None
    ) -> Generator[Record, None, None]:
        """Yield the records of the items that :meth:`find` yields, with the same parameters."""
        states = [state.value for state in State]
        if state is not None and state not in states:
            raise StorageError(f"state: {quoted(state)} is not one of {', '.join(states)}")
        return self.items.list(search, state, limit)

    def persistent_url(self, item: str | Identified) -> str:
        """Return the persistent URL of an item.

        ::

            ibi.archive.persistent_url(item)     # "http://urlib.net/8JMKD3MGP8W/35MME4E"

        :param item: an identifier; or an object with an ``ibi``: an ItemView, new identifiers, or a
            row of the host's own model.
        :raises StorageError: if the object has no identifier yet.
        """
        return f"{self.persistent_url_base}/{require_ibi(item)}"

    @property
    def persistent_url_base(self) -> str:
        """The beginning of persistent URLs, such as ``http://urlib.net``.

        It is IBI_PERSISTENT_URL_BASE, if it is set; the host of IBI_RESOLVER_URL, if a resolver has
        confirmed the inclusion of the Archive; otherwise the Archive's own address, where
        persistent URLs work, too.
        """
        is_own = self.config.persistent_url_base is None and not served_archives.is_included(self)
        return self.addresses.base if is_own else self.resolver_base

    @property
    def resolver_base(self) -> str:
        """The beginning of persistent URLs that also lead to items of other Archives."""
        resolver = urlsplit(self.config.resolver_url)
        host = f"{resolver.scheme}://{resolver.netloc.rpartition('@')[2]}"
        return self.config.persistent_url_base or host

    def mint(self, count: int = 1, store: StoreMinted | None = None) -> list[Minted]:
        """Issue new identifiers, and wait until the date of the last one is reached.

        ::

            [minted] = ibi.archive.mint()
            row.rep, row.ibip = minted.rep, minted.ibip

        A deposit mints identifiers itself. Hosts with their own catalogue call this method.

        :param count: the number of new identifiers.
        :param store: stores data about the new identifiers, in the same transaction as their dates.
        :raises ConfigError: if the host name or the IP address for identifiers is missing.
        :raises MintingError: if the wait would be longer than IBI_MINT_MAX_WAIT.
        :raises MintingError: if an identifier cannot contain the date of the clock.
        :raises NotReady: if the database does not respond.
        """
        minted = self.minter.mint(count, store)
        for new in minted if item_minted.receivers else ():
            values = {"ibi": new.ibi, "rep": new.rep, "ibip": new.ibip}
            values["archive"] = self.served().service_ibi
            self.notifier.send([Notice(item_minted, values)])
        return minted

    deposit = deposit
    new_edition = new_edition
    add_translation = add_translation
    edit = edit
    make_copy = make_copy
    transfer = transfer
    delete = delete
    reserve = reserve
    release = release
    reservations = reservations
    find_key = find_key

    take_acknowledgment = take_acknowledgment
    take_page_view = take_page_view
    statistics = read_statistics
    purge = purge
