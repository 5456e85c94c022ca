"""The Archive that an app serves: the operations that web and command line call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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
from flask_ibi_archive.archive.operations.context import (
    Files,
    OperationContext,
    canonicalize,
    utc_now,
    validate_note,
)
from flask_ibi_archive.archive.operations.copying import make_copy, transfer
from flask_ibi_archive.archive.operations.depositing import deposit
from flask_ibi_archive.archive.operations.editing import edit
from flask_ibi_archive.archive.operations.removing import delete
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
    ibi_words,
)
from flask_ibi_archive.records.record import (
    DublinCoreMetadata,
    ItemRecord,
    MetadataAddress,
    MetadataItem,
)
from flask_ibi_archive.storage import migrate
from flask_ibi_archive.storage.catalogue import StoredCatalogue
from flask_ibi_archive.storage.database import Database, lock_out_others
from flask_ibi_archive.storage.file_store import FileStore
from flask_ibi_archive.storage.identifiers import (
    RELEASED,
    Reservation,
    add_reservation,
    read_reservations,
    settle_reservation,
)


@dataclass
class ArchiveService:
    """The Archive that an app serves.

    The operations on items accept identifiers in either form, in upper or lower case. Each one is a
    transaction, or a savepoint in the transaction of the host. It raises UnknownItem, RuleBroken,
    ForbiddenMove or another StorageError if it is not possible, and then changes nothing. See
    :data:`flask_ibi_archive.storage.states.TRANSITIONS` for the changes of state.

    :param addresses: the URLs of its items and pages.
    :param session: the session of the host, if it has one.
    """

    config: ArchiveConfig
    database: Database
    addresses: ArchiveUrls
    session: HostSession | None = None
    _served: tuple[ServedArchive, ArchiveFacts] | None = None

    @cached_property
    def url_keys(self) -> URLKeys:
        """Issues and verifies URL keys."""
        return URLKeys(self.config.secret_keys, self.config.url_key_max_age)

    @cached_property
    def files_folder(self) -> FileStore:
        """The store of the contents of files."""
        return FileStore(self.config.files_folder)

    @cached_property
    def minter(self) -> Minter:
        """Mints identifiers.

        :raises ConfigError: if the settings do not allow it.
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
        """Return the same Archive without the host's session: each operation commits by itself."""
        return replace(self, session=None) if self.session else self

    # --- the Archive -----------------------------------------------------------------------------

    def served(self) -> ServedArchive:
        """Return the Archive of the database that this app serves.

        An app may start before its Archive exists, so the database is read until it is found.

        :raises NotReady: if it does not exist yet.
        :raises ConfigError: if there are several and the configuration names none.
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
        """Return whether an identifier (canonical) is the IBI of the service, in either form."""
        served = self.served()
        return ibi in (served.rep, served.ibip)

    def init(self) -> tuple[ServedArchive, bool]:
        """Update the tables, and create the Archive and the folder of its files if missing.

        :returns: the Archive, and whether it is new.
        :raises ConfigError: if its service IBI must be minted and the settings do not allow it;
            nothing was written then.
        :raises RuleBroken: if an item of another Archive has the IBI given for the service.
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
            lock_out_others(connection)
            migrate.upgrade(connection, revision)

    def downgrade(self, revision: str) -> None:
        """Downgrade the tables to a revision."""
        with self.database.writing() as connection:
            lock_out_others(connection)
            migrate.downgrade(connection, revision)
        self._served = None

    # --- reading ---------------------------------------------------------------------------------

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

    def view(self, ibi: str) -> ItemView | None:
        """Return the item with an identifier, which may be the service; None if there is none.

        :raises IdentifierError: if the text is not an identifier.
        """
        text = parse_identifier(ibi).text
        return view_item(self.database, self.served().id, self.files_folder, text)

    def items(self) -> Iterator[ItemView]:
        """Yield all items except the service, as they are in one snapshot of the database."""
        for record in export_records(self.database, self.served().id, self.files_folder):
            yield ItemView(record, is_service=False)

    def persistent_url(self, ibi: str) -> str:
        """Return the persistent URL of an identifier."""
        return f"{self.config.persistent_url_base}/{ibi}"

    # --- operations on items ---------------------------------------------------------------------

    def mint(self, count: int = 1) -> list[Minted]:
        """Return identifiers that were never issued before; see :meth:`Minter.mint`."""
        return self.minter.mint(count)

    def deposit(
        self, record: ItemRecord, files: Files = (), *, reserved: str | None = None
    ) -> Minted:
        """Store a new item with its files and give it an IBI in both forms.

        :param record: the description of the item, without identifiers.
        :param files: its files, each under its own name; the first one is the target file, unless
            the record names another.
        :param reserved: the identifier that was reserved for it; None: it gets a new one.
        :returns: its identifiers. New ones are used up even if storing the item fails.
        :raises StorageError: if a file cannot be read, or a rule does not allow the item.
        :raises MintingError: if no identifier can be minted now.
        """
        return deposit(self.context, record, files, reserved)

    def new_edition(
        self, ibi: str, record: ItemRecord, files: Files = (), *, reserved: str | None = None
    ) -> Minted:
        """Deposit an item as the next edition of another; see :meth:`deposit`.

        :param ibi: the earlier edition.
        :raises RuleBroken: rule 7, if that has a next edition already, naming the last edition.
        """
        return deposit(self.context, record, files, reserved, edition_of=ibi)

    def add_translation(
        self, ibi: str, record: ItemRecord, files: Files = (), *, reserved: str | None = None
    ) -> Minted:
        """Deposit an item as a translation of another; see :meth:`deposit`.

        :param ibi: any item of the group of translations.
        :param record: it must state a language.
        :raises RuleBroken: rule 8, if the group has that language already.
        """
        return deposit(self.context, record, files, reserved, translation_of=ibi)

    def attach_metadata(
        self, ibi: str, metadata: MetadataItem | DublinCoreMetadata | MetadataAddress | None
    ) -> None:
        """Replace the metadata of an item; None removes them. See :meth:`edit`."""
        edit(self.context, ibi, {"metadata": metadata})

    def replace_files(self, ibi: str, files: Files, *, target_file: str | None = None) -> None:
        """Replace the files of an item; see :meth:`edit`.

        :param target_file: the name of its new target file; None: the first file.
        """
        edit(self.context, ibi, {"target_file": target_file}, files)

    def edit(
        self,
        ibi: str,
        *,
        files: Files | None = None,
        add_files: Files = (),
        remove_files: Sequence[str] = (),
        add_aliases: Sequence[str] = (),
        remove_aliases: Sequence[str] = (),
        **changes: Any,
    ) -> None:
        """Change fields of an Original; its timestamp becomes now.

        :param files: its new files, which replace the old ones; None keeps those.
        :param add_files: files to add after the others.
        :param remove_files: the paths of files to remove.
        :param add_aliases: further identifiers of the item.
        :param remove_aliases: wrong aliases; another item may get them afterwards.
        :param changes: the new values of fields of :class:`ItemRecord`, by name.
        :raises TypeError: if a field can't be edited.
        :raises StorageError: if a value is wrong, or a file cannot be read.
        :raises RuleBroken: the rule that does not allow it.
        :raises ForbiddenMove: if the item is not an Original.
        """
        edit(
            self.context,
            ibi,
            changes,
            files,
            add_files=add_files,
            remove_files=remove_files,
            add_aliases=add_aliases,
            remove_aliases=remove_aliases,
        )

    def make_copy(self, ibi: str, to: str | None = None) -> None:
        """Copy an Original to another Archive of the database, or refresh its Copy there.

        The Copy has all identifiers, files and the description of its Original, and its timestamp.

        :param to: the service IBI of the Archive that gets the Copy; None: this one, and the
            Original is in another Archive.
        :raises StorageError: if there is no such Archive.
        :raises RuleBroken: rule 4, if no other Archive of the database has the Original.
        :raises ForbiddenMove: if it is not an Original, or what the other Archive has of it cannot
            become a Copy.
        """
        make_copy(self.context, ibi, to)

    def transfer(self, ibi: str, to: str, *, keep_copy: bool = False) -> None:
        """Transfer an Original to another Archive of the database.

        What that Archive has of it (a Copy, a tombstone, a stub) becomes the Original. The Copies
        in other Archives name the new Archive afterwards.

        :param to: the service IBI of the other Archive.
        :param keep_copy: whether a Copy remains here, instead of a tombstone.
        :raises StorageError: if there is no such Archive, or the item is not transferable.
        :raises RuleBroken: rule 3, if the other Archive is this one; or another rule.
        :raises ForbiddenMove: if it is not an Original.
        """
        transfer(self.context, ibi, to, keep_copy)

    def delete(
        self, ibi: str, reason: str, *, citation: str | None = None, successor: str | None = None
    ) -> None:
        """Delete an item: its tombstone and its place in the chain of editions remain.

        :param reason: why it is deleted, for its readers.
        :param citation: how to cite it; None: it is made from its Dublin Core, if it has any.
        :param successor: the IBI of the item that replaces it.
        :raises RuleBroken: rule 4, if it is an Original with Copies, naming the Archives that have
            them; rule 6, if it is the service.
        :raises ForbiddenMove: if it was deleted already.
        """
        delete(self.context, ibi, reason, citation, successor)

    # --- reservations of identifiers -------------------------------------------------------------

    def reserve(self, note: str | None = None) -> Minted:
        """Mint an identifier and reserve it for a draft; nothing else ever gets it.

        :param note: what it is for.
        :raises MintingError: if no identifier can be minted now.
        """
        note = validate_note(note)
        context = self.context
        minted = context.mint()
        with context.transaction(minted.rep) as store:
            add_reservation(
                store.connection, store.archive_id, minted.rep, minted.ibip, note, utc_now()
            )
        return minted

    def release(self, ibi: str) -> None:
        """Release a reserved identifier; it is never issued again.

        :raises StorageError: if it is not reserved for a draft of this Archive.
        """
        text = canonicalize(ibi)
        with self.context.transaction(text) as store:
            settle_reservation(store.connection, store.archive_id, text, RELEASED, utc_now())

    def reservations(self) -> list[Reservation]:
        """Return the reservations of the Archive, the oldest first."""
        with self.context.reading() as store:
            return read_reservations(store.connection, store.archive_id)

    # --- accesses --------------------------------------------------------------------------------

    @cached_property
    def accesses(self) -> Acknowledgments:
        """What takes acknowledgments."""
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
        """Count an access, if its key is good; what is answered is stored. See
        :meth:`Acknowledgments.record`.

        :param agents: the programs behind it, by which robots are told apart.
        :raises NotReady: if it can be kept nowhere.
        """
        return self.accesses.record(acknowledgment, agents)

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
            self.accesses.import_spool()
        return purge_accesses(
            self.database,
            self.served().id,
            self.config.keep_accesses if days is None else days,
            self.config.url_key_max_age,
            self.accesses.clock(),
            dry_run,
        )
