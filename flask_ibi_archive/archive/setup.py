"""Sets up an Archive: its tables, its service, and the facts that it publishes about itself."""

from __future__ import annotations

from typing import Protocol

from flask_ibi_archive.archive.items.archives import (
    ArchiveRecord,
    ServedArchive,
    create_or_refresh_archive,
    has_archive,
)
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.minting import Minter
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts, ArchiveUrls
from flask_ibi_archive.core.protocol.catalogue import DUBLIN_CORE
from flask_ibi_archive.core.protocol.messages import list_ibi_words, name_form
from flask_ibi_archive.core.records.formats import FormatRegistry
from flask_ibi_archive.server.config import ArchiveConfig
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database, lock_table_setup


class NewArchive(Protocol):
    """The Archive whose methods the functions of this module are."""

    config: ArchiveConfig
    database: Database

    @property
    def files_folder(self) -> FileStore:
        """The folder with the stored files."""

    @property
    def minter(self) -> Minter:
        """The object that mints identifiers."""

    def forget(self) -> None:
        """Discard the cached Archive."""


def init(archive: NewArchive) -> tuple[ServedArchive, bool]:
    """Upgrade the tables; create the Archive and the folder of stored files if missing.

    If the Archive exists, the published facts about the Archive are updated.

    :returns: the Archive, and whether the Archive is new.
    :raises ConfigError: if the settings contain no service IBI and do not allow minting.
        Nothing was written in this case.
    :raises RuleBroken: if an item of another Archive has the service IBI of the settings.
    """
    config, database, folder = archive.config, archive.database, archive.files_folder
    wanted = config.archive_service_ibi
    if wanted is None and not has_archive(database):
        config.check_minting()
    folder.create()
    upgrade_tables(database)
    minted = None
    if wanted is None and not has_archive(database):
        [minted] = archive.minter.mint()
    facts = ArchiveRecord(
        config.archive_address,
        config.archive_ip,
        config.archive_platform_version,
        config.archive_admin_email,
    )
    forms = None if minted is None else (minted.rep, minted.ibip)
    served, created = create_or_refresh_archive(database, facts, wanted, forms)
    folder.enter(served.make_entry(database, folder))
    return served, created


def upgrade(archive: NewArchive, revision: str = "head") -> None:
    """Upgrade the tables to a revision; the database is created if it does not exist.

    If our migrations are part of the history of the host, the revision is only checked.

    :raises NotReady: if the host must upgrade the tables.
    """
    upgrade_tables(archive.database, revision)


def upgrade_tables(database: Database, revision: str = "head") -> None:
    """Upgrade the tables of a database to a revision; see :func:`upgrade`."""
    history = database.history
    if history.is_shared:
        if revision != "head":
            migrate.refuse_shared(history, f"flask db upgrade {revision}")
        database.check_revision()
        return
    database.create()
    with database.writing() as connection:
        lock_table_setup(connection)
        migrate.upgrade(connection, revision, history)


def downgrade(archive: NewArchive, revision: str) -> None:
    """Downgrade the tables to a revision.

    :raises StorageError: if our migrations are part of the history of the host.
    """
    database, history = archive.database, archive.database.history
    if history.is_shared:
        migrate.refuse_shared(history, f"flask db downgrade ibi@{revision}")
    with database.writing() as connection:
        lock_table_setup(connection)
        migrate.downgrade(connection, revision, history)
    archive.forget()


def build_facts(
    config: ArchiveConfig,
    addresses: ArchiveUrls,
    served: ServedArchive,
    formats: FormatRegistry,
) -> ArchiveFacts:
    """Return the facts that an Archive publishes about itself in each answer.

    URL lists contain oai_dc and the XML formats of the host. The other formats of the package are
    not necessary for resolvers, and would make each list longer.
    """
    software = config.platform_software_ibi
    return ArchiveFacts(
        address=config.archive_address,
        service=list_ibi_words(served.rep, served.ibip),
        addresses=addresses,
        platform_software=(() if software is None else (name_form(software), software.text)),
        relations=config.relations,
        filter_url_list=config.filter_url_list,
        follow_editions=config.follow_editions,
        own_formats={**DUBLIN_CORE, **dict.fromkeys(formats.list_added_xml())},
    )
