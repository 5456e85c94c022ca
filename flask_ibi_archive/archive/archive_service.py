"""The Archive that an app serves, as hosts, web pages and commands use it.

:class:`ArchiveService` reads the Archive and counts accesses; it inherits the operations on items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlalchemy import Connection

from flask_ibi_archive.archive.accesses.acknowledgments import (
    NO_AGENTS,
    Acknowledgments,
    Agents,
    Outcome,
)
from flask_ibi_archive.archive.accesses.daily_counts import PurgeResult, purge_accesses
from flask_ibi_archive.archive.accesses.spool import Spool
from flask_ibi_archive.archive.accesses.statistics import Statistics, read_statistics
from flask_ibi_archive.archive.accesses.url_keys import URLKeys
from flask_ibi_archive.archive.archives import (
    ArchiveRecord,
    ServedArchive,
    create_or_refresh_archive,
    find_served,
    has_archive,
)
from flask_ibi_archive.archive.exporting import export_records
from flask_ibi_archive.archive.minting import Minted, Minter, Subsystem
from flask_ibi_archive.archive.operations.context import OperationContext
from flask_ibi_archive.archive.operations.item_operations import ItemOperations
from flask_ibi_archive.archive.operations.sessions import HostSession
from flask_ibi_archive.archive.viewing import ItemView, view_item
from flask_ibi_archive.config import ArchiveConfig
from flask_ibi_archive.identifiers import Form, parse_identifier
from flask_ibi_archive.protocol.archive_urls import ArchiveUrls
from flask_ibi_archive.protocol.catalogue import CatalogueItem
from flask_ibi_archive.protocol.messages import Acknowledgment, UrlRequest
from flask_ibi_archive.protocol.url_list import (
    ArchiveFacts,
    UrlPair,
    answer_url_request,
    list_ibi_words,
)
from flask_ibi_archive.storage import migrate
from flask_ibi_archive.storage.catalogue import StoredCatalogue
from flask_ibi_archive.storage.database import Database, lock_table_setup
from flask_ibi_archive.storage.file_store import FileStore


@dataclass
class ArchiveService(ItemOperations):
    """The Archive that an app serves.

    :param addresses: builds the URLs of items and pages.
    :param session: the database session of the host, if the host has one.
    """

    config: ArchiveConfig
    database: Database
    addresses: ArchiveUrls
    session: HostSession | None = None
    _served: tuple[ServedArchive, ArchiveFacts] | None = None

    @cached_property
    def url_keys(self) -> URLKeys:
        """The object that issues and verifies URL keys, which prove that a URL list had a URL."""
        return URLKeys(self.config.secret_keys, self.config.url_key_max_age)

    @cached_property
    def files_folder(self) -> FileStore:
        """The store of the contents of files."""
        return FileStore(self.config.files_folder)

    @cached_property
    def minter(self) -> Minter:
        """The object that mints identifiers.

        :raises ConfigError: if the settings do not allow minting.
        """
        host, ip = self.config.check_minting()
        port = self.config.mint_port
        subsystem = Subsystem(host, ip, port or 80, port or 800)
        return Minter(self.database, subsystem, self.config.granularity, self.config.mint_max_wait)

    @property
    def context(self) -> OperationContext:
        """The context of the operations on items."""
        return OperationContext(
            self.database, self.served(), self.files_folder, lambda: self.minter, self.session
        )

    def without_session(self) -> ArchiveService:
        """Return the same Archive without the host's session; each operation then commits."""
        return replace(self, session=None) if self.session else self

    # --- the Archive -----------------------------------------------------------------------------

    def served(self) -> ServedArchive:
        """Return the Archive of the database that this app serves.

        An app may start before its Archive exists, so the Archive is cached only when it is found.

        :raises NotReady: if the Archive does not exist yet.
        :raises ConfigError: if there are several and the configuration names none of them.
        """
        return self._find()[0]

    def facts(self) -> ArchiveFacts:
        """Return the facts that the Archive publishes about itself; see :meth:`served`."""
        return self._find()[1]

    def _find(self) -> tuple[ServedArchive, ArchiveFacts]:
        if self._served is None:
            wanted = self.config.archive_service_ibi
            served = self.database.read(lambda connection: find_served(connection, wanted))
            software = self.config.platform_software_ibi
            self._served = (
                served,
                ArchiveFacts(
                    address=self.config.archive_address,
                    service=list_ibi_words(served.rep, served.ibip),
                    addresses=self.addresses,
                    platform_software=(
                        ()
                        if software is None
                        else ("rep" if software.form is Form.REP else "ibip", software.text)
                    ),
                    relations=self.config.relations,
                    filter_url_list=self.config.filter_url_list,
                    follow_editions=self.config.follow_editions,
                ),
            )
        return self._served

    def serves(self, ibi: str) -> bool:
        """Return whether an identifier (canonical) is the rep or the ibip of the service."""
        served = self.served()
        return ibi in (served.rep, served.ibip)

    def init(self) -> tuple[ServedArchive, bool]:
        """Upgrade the tables, and create the Archive and the folder of its files if missing.

        :returns: the Archive, and whether it is new.
        :raises ConfigError: if the settings name no service IBI and do not allow minting one;
            nothing was written then.
        :raises RuleBroken: if an item of another Archive has the service IBI of the settings.
        """
        wanted = self.config.archive_service_ibi
        if wanted is None and not has_archive(self.database):
            self.config.check_minting()
        self.files_folder.create()
        self.upgrade()
        minted = None
        if wanted is None and not has_archive(self.database):
            [minted] = self.minter.mint()
        facts = ArchiveRecord(
            self.config.archive_address,
            self.config.archive_ip,
            self.config.archive_platform_version,
            self.config.archive_admin_email,
        )
        forms = None if minted is None else (minted.rep, minted.ibip)
        return create_or_refresh_archive(self.database, facts, wanted, forms)

    def upgrade(self, revision: str = "head") -> None:
        """Upgrade the tables to a revision; create the database if it is missing."""
        self.database.create()
        with self.database.writing() as connection:
            lock_table_setup(connection)
            migrate.upgrade(connection, revision)

    def downgrade(self, revision: str) -> None:
        """Downgrade the tables to a revision."""
        with self.database.writing() as connection:
            lock_table_setup(connection)
            migrate.downgrade(connection, revision)
        self._served = None

    # --- reading ---------------------------------------------------------------------------------

    def list_urls(self, request: UrlRequest, requested_only: bool = False) -> list[UrlPair]:
        """Return the answer to a request for the URLs of an item; this reads with one statement.

        :param requested_only: whether the list may omit relations that were not requested.
        :raises NotReady: if the database does not respond.
        """
        served, facts = self._find()

        def answer(connection: Connection) -> list[UrlPair]:
            catalogue = StoredCatalogue(connection, served.id)
            return answer_url_request(catalogue, request, facts, self._issue_key, requested_only)

        return self.database.read(answer)

    def _issue_key(self, item: CatalogueItem) -> str:
        return self.url_keys.issue(item.key)

    def view(self, ibi: str) -> ItemView | None:
        """Return the item (or the service) with an identifier; None if there is no such item.

        :raises IdentifierError: if the text is not an identifier.
        """
        text = parse_identifier(ibi).text
        return view_item(self.database, self.served().id, self.files_folder, text)

    def items(self) -> Iterator[ItemView]:
        """Yield all items except the service, all read from one snapshot of the database."""
        for record in export_records(self.database, self.served().id, self.files_folder):
            yield ItemView(record, is_service=False)

    def persistent_url(self, ibi: str) -> str:
        """Return the persistent URL of an identifier."""
        return f"{self.config.persistent_url_base}/{ibi}"

    def mint(self, count: int = 1) -> list[Minted]:
        """Return identifiers that were never issued before; see :meth:`Minter.mint`."""
        return self.minter.mint(count)

    # --- accesses --------------------------------------------------------------------------------

    @cached_property
    def accesses(self) -> Acknowledgments:
        """The object that stores acknowledgments: messages that report an access to an item."""
        return Acknowledgments(
            self.database,
            self.url_keys,
            Spool(self.config.spool_folder),
            self._find,
            self.config.anonymise_ips,
        )

    def take_acknowledgment(
        self, acknowledgment: Acknowledgment, agents: Agents = NO_AGENTS
    ) -> Outcome:
        """Store an access if its URL key is valid; see :meth:`Acknowledgments.record`.

        :param agents: the programs that made the request, by which robots are recognised.
        :raises NotReady: if the access can be stored neither in the database nor in the spool.
        """
        return self.accesses.record(acknowledgment, agents)

    def statistics(self, ibi: str | None = None, by: str = "month") -> Statistics:
        """Return the counted accesses to an item, or to all items of the Archive.

        This writes nothing. Accesses in the spool are counted after the next acknowledgment or
        purge has moved them to the database.

        :param by: the length of the periods: day, month or year.
        :raises IdentifierError: if ``ibi`` is not an identifier.
        :raises UnknownItem: if no item of this Archive has the identifier.
        """
        return read_statistics(self.database, self.served().id, ibi, by)

    def purge(self, days: int | None = None, dry_run: bool = False) -> PurgeResult:
        """Delete old single accesses; their counts remain. See :func:`..purge_accesses`.

        :param days: the number of days after which accesses are deleted; None: IBI_KEEP_ACCESSES.
        :param dry_run: only count them.
        :raises NotReady: if the database does not respond.
        """
        if not dry_run:
            # otherwise a copy in the spool could be counted again after the purge
            self.accesses.import_spool()
        return purge_accesses(
            self.database,
            self.served().id,
            self.config.keep_accesses if days is None else days,
            self.config.url_key_max_age,
            self.accesses.clock(),
            dry_run,
        )
