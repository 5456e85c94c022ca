"""An Archive at work: what web and command line ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.accesses.acknowledgments import NO_AGENTS, Accesses, Agents, Outcome
from flask_ibi_archive.archive.accesses.purging import PurgeResult, purge_accesses
from flask_ibi_archive.archive.accesses.spool import Spool
from flask_ibi_archive.archive.accesses.statistics import Statistics, read_statistics
from flask_ibi_archive.archive.accesses.url_keys import URLKeys
from flask_ibi_archive.archive.archives import (
    ArchiveRecord,
    ServedArchive,
    create_archive,
    find_archives,
    find_served,
    refresh_archive,
)
from flask_ibi_archive.archive.backup.restoring import Restorer
from flask_ibi_archive.archive.backup.writing import BackedUp, Backup, ContentFault, Progress
from flask_ibi_archive.archive.exporting import export_records
from flask_ibi_archive.archive.minting import Minted, Minter, Subsystem
from flask_ibi_archive.archive.operations.context import OperationContext
from flask_ibi_archive.archive.operations.operations import Operations
from flask_ibi_archive.archive.operations.sessions import HostSession
from flask_ibi_archive.archive.verifying import Fault, Verification, Verifier
from flask_ibi_archive.archive.viewing import ItemView, view_item
from flask_ibi_archive.config import ArchiveConfig
from flask_ibi_archive.errors import IBIError, StorageError
from flask_ibi_archive.identifiers import Form, parse_identifier
from flask_ibi_archive.protocol.catalogue import CatalogueItem
from flask_ibi_archive.protocol.client_addresses import Addresses
from flask_ibi_archive.protocol.messages import Acknowledgment, UrlRequest
from flask_ibi_archive.protocol.url_list import (
    ArchiveFacts,
    UrlPair,
    answer_url_request,
    ibi_words,
)
from flask_ibi_archive.storage import migrate
from flask_ibi_archive.storage.catalogue import StoredCatalogue
from flask_ibi_archive.storage.contents import ContentFolder
from flask_ibi_archive.storage.database import Database, lock_out_others
from flask_ibi_archive.storage.rules import explain


@dataclass
class ArchiveService(Operations):
    """The Archive that an app serves.

    :param addresses: where its things are on the web; a host may hand over its own.
    :param session: the host's, where it brought one: what is done with items is a part of its
        transaction.
    """

    config: ArchiveConfig
    database: Database
    addresses: Addresses
    session: HostSession | None = None
    _served: tuple[ServedArchive, ArchiveFacts] | None = None

    @cached_property
    def url_keys(self) -> URLKeys:
        """What issues URL keys and verifies them."""
        return URLKeys(self.config.secret_keys, self.config.url_key_max_age)

    @cached_property
    def files_folder(self) -> ContentFolder:
        """Where the contents of files are kept."""
        return ContentFolder(self.config.files_folder)

    @cached_property
    def minter(self) -> Minter:
        """What gives identifiers.

        :raises ConfigError: if the settings don't allow it.
        """
        host, ip = self.config.check_minting()
        port = self.config.mint_port
        subsystem = Subsystem(host, ip, port or 80, port or 800)
        return Minter(self.database, subsystem, self.config.granularity, self.config.mint_max_wait)

    @property
    def workplace(self) -> OperationContext:
        """Where operations take place; see :class:`..operations.Operations`."""
        return OperationContext(
            self.database, self.served(), self.files_folder, lambda: self.minter, self.session
        )

    def apart(self) -> ArchiveService:
        """Return the same Archive without the host's session: each operation commits by itself."""
        return replace(self, session=None) if self.session else self

    # --- which Archive ---------------------------------------------------------------------------

    def served(self) -> ServedArchive:
        """Return the Archive of the database that this app serves.

        It is looked for until it is found: an app may start before its Archive is there.

        :raises NotReady: if it isn't there yet.
        :raises ConfigError: if there are several and none is named.
        """
        return self._find()[0]

    def facts(self) -> ArchiveFacts:
        """Return what the Archive says of itself; see :meth:`served`."""
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
                    service=ibi_words(served.rep, served.ibip),
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
        """Tell whether an identifier (canonical) is the IBI of the service, in either form."""
        served = self.served()
        return ibi in (served.rep, served.ibip)

    # --- what a resolver asks --------------------------------------------------------------------

    def list_urls(self, request: UrlRequest, requested_only: bool = False) -> list[UrlPair]:
        """Return the URL list of a request, in one statement and without a write.

        :param requested_only: whether the list may leave out relations that are not asked for.

        :raises NotReady: if the database does not answer.
        """
        served, facts = self._find()

        def answer(connection: Connection) -> list[UrlPair]:
            catalogue = StoredCatalogue(connection, served.id)
            return answer_url_request(catalogue, request, facts, self._issue_key, requested_only)

        return self.database.read(answer)

    def _issue_key(self, item: CatalogueItem) -> str:
        return self.url_keys.issue(item.key)

    # --- what people ask -------------------------------------------------------------------------

    def view(self, ibi: str) -> ItemView | None:
        """Return the item that bears an identifier, in whatever case; None where there is none
        here.

        :raises IdentifierError: if it is no identifier.
        """
        text = parse_identifier(ibi).text
        return view_item(self.database, self.served().id, self.files_folder, text)

    @cached_property
    def accesses(self) -> Accesses:
        """What takes acknowledgments."""
        return Accesses(
            self.database,
            self.url_keys,
            Spool(self.config.spool_folder),
            self._find,
            self.config.anonymise_ips,
        )

    def take_acknowledgment(
        self, acknowledgment: Acknowledgment, agents: Agents = NO_AGENTS
    ) -> Outcome:
        """Count an access, if its key is good; what is answered is stored. See
        :meth:`Accesses.take`.

        :param agents: the programs behind it, by which robots are told apart.
        :raises NotReady: if it can be kept nowhere.
        """
        return self.accesses.take(acknowledgment, agents)

    def statistics(self, ibi: str | None = None, by: str = "month") -> Statistics:
        """Return what was counted of an item, or of the whole Archive; see
        :func:`..read_statistics`.

        Nothing is written: an access in the spool is counted once an acknowledgment or a purge has
        stored it.

        :param by: day, month or year.
        :raises IdentifierError: if it is no identifier.
        :raises UnknownItem: if no item here bears it.
        """
        return read_statistics(self.database, self.served().id, ibi, by)

    def purge(self, days: int | None = None, dry_run: bool = False) -> PurgeResult:
        """Take out single accesses and keep their counts; see :func:`..purging.purge_accesses`.

        :param days: whole days that they are kept, IBI_KEEP_ACCESSES unless told.
        :raises NotReady: if the database does not answer.
        """
        if not dry_run:
            # a file whose access is in the database already must not outlive it there
            self.accesses.take_in()
        return purge_accesses(
            self.database,
            self.served().id,
            self.config.keep_accesses if days is None else days,
            self.config.url_key_max_age,
            self.accesses.clock(),
            dry_run,
        )

    def items(self) -> Iterator[ItemView]:
        """Return the items, the service left out, in the order they came, as they are at one
        moment.
        """
        for record in export_records(self.database, self.served().id, self.files_folder):
            yield ItemView(record, is_service=False)

    def persistent_url(self, ibi: str) -> str:
        """Return the persistent URL of an identifier."""
        return f"{self.config.persistent_url_base}/{ibi}"

    # --- what an administrator does --------------------------------------------------------------

    def init(self) -> tuple[ServedArchive, bool]:
        """Bring the database up to date and see that the Archive, and the folder of its files, are
        there.

        :returns: the Archive, and whether it is new.
        :raises ConfigError: if its service IBI has to be minted and can't be; nothing was written
            then.
        :raises RuleBroken: if an item of another Archive bears the IBI given for the service.
        """
        wanted = self.config.archive_service_ibi
        if wanted is None and not self._has_archive():
            self.config.check_minting()
        self.files_folder.make()
        self.upgrade()
        facts = ArchiveRecord(
            self.config.archive_address,
            self.config.archive_ip,
            self.config.archive_platform_version,
            self.config.archive_admin_email,
        )
        forms = None
        if wanted is None and not self._has_archive():
            [forms] = self.minter.mint()
        try:
            with self.database.writing() as connection:
                lock_out_others(connection)
                if find_archives(connection, wanted):
                    served = find_served(connection, wanted)
                    refresh_archive(connection, served.id, facts)
                    return served, False
                if forms is not None:
                    return create_archive(connection, facts, forms.rep, forms.ibip), True
                given = parse_identifier(str(wanted))
                rep, ibip = (given.text, None) if given.form is Form.REP else (None, given.text)
                return create_archive(connection, facts, rep, ibip), True
        except IntegrityError as error:
            # an item of another Archive bears the IBI that was given for the service
            raise explain(error, wanted) or StorageError(str(error.orig)) from error

    def _has_archive(self) -> bool:
        if not self.database.exists():
            return False
        with self.database.reading() as connection:
            if migrate.current_revision(connection) is None:
                return False
            return bool(find_archives(connection, self.config.archive_service_ibi))

    def upgrade(self, revision: str = "head") -> None:
        """Bring the tables up to date."""
        self.database.create()
        with self.database.writing() as connection:
            lock_out_others(connection)
            migrate.upgrade(connection, revision)

    def downgrade(self, revision: str) -> None:
        """Take the tables down to a revision."""
        with self.database.writing() as connection:
            lock_out_others(connection)
            migrate.downgrade(connection, revision)
        self._served = None

    def verify(
        self,
        identifiers: Sequence[str] = (),
        prune: bool = False,
        dry_run: bool = False,
        tell: Callable[[Fault], None] = lambda fault: None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Verification:
        """Look at the contents of the Archive's files, or of some items'; see :meth:`Verifier.run`."""
        verifier = Verifier(self.database, self.served().id, self.files_folder, tell, progress)
        return verifier.run(identifiers, prune, dry_run)

    def backup(
        self,
        path: Path,
        tell: Callable[[ContentFault], None] = lambda fault: None,
        progress: Progress = lambda stage, done, total: None,
    ) -> BackedUp:
        """Write all Archives of the database, with their contents, to a file; see
        :meth:`Backup.write`.
        """
        with suppress(IBIError):  # what waits for the database is no part of the file otherwise
            self.accesses.take_in()
        return Backup(self.database, self.files_folder, tell, progress).write(path)

    def restore(
        self,
        path: Path,
        replace: bool = False,
        dry_run: bool = False,
        progress: Progress = lambda stage, done, total: None,
    ) -> BackedUp:
        """Put a backup back, all of it or nothing; see :meth:`Restorer.run`."""
        restorer = Restorer(self.database, self.files_folder, replace, dry_run, progress)
        try:
            restored = restorer.run(path)
            if not dry_run:
                self.files_folder.make()
            return restored
        finally:
            self._served = None

    def mint(self, count: int = 1) -> list[Minted]:
        """Return identifiers that were never given before; see :meth:`Minter.mint`."""
        return self.minter.mint(count)
