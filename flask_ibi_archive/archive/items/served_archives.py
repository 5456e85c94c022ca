"""Finds and creates the Archives of a database, their tables, and the facts that they publish."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from math import inf
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.items.rules import find_broken_rule
from flask_ibi_archive.archive.items.tables import (
    ArchiveElsewhere,
    ArchiveRow,
    Item,
    ItemIdentifier,
    Registration,
)
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import DUBLIN_CORE
from flask_ibi_archive.core.protocol.messages import list_ibi_words, name_form
from flask_ibi_archive.core.protocol.url_list import ArchiveFacts
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import ConfigError, NotReady, StorageError
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database, lock_table_setup
from flask_ibi_archive.server.database.dialects import insert_or_update

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

SERVICE_KEY = "IBI_ARCHIVE_SERVICE_IBI"
#: A process remembers for this number of seconds whether a resolver includes an Archive.
MEMORY = 10
#: Whether a resolver includes the Archives of each database, by the IBI in the settings, and when
#: this process asks again.
_inclusions: WeakKeyDictionary[Database, dict[str | None, tuple[bool, float]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ServedArchive:
    """An Archive of the database.

    :param id: the row ID of the Archive.
    :param rep: the rep of the Archive service, or None.
    :param ibip: the ibip of the Archive service, or None.
    :param database: a random word, the same for all Archives of the database.
    """

    id: int
    rep: str | None
    ibip: str | None
    database: str

    @property
    def service_ibi(self) -> str:
        """The IBI of the Archive service: the rep if there is one, otherwise the ibip."""
        return self.rep or self.ibip or ""


def find_archives(connection: Connection, service_ibi: str | None = None) -> list[ServedArchive]:
    """Return the Archives of the database.

    :param service_ibi: return only the Archive whose service has this IBI.
    """
    statement = (
        select(ArchiveRow.id, Item.rep, Item.ibip, ArchiveRow.database)
        .join(Item, Item.id == ArchiveRow.service_item_id)
        .order_by(ArchiveRow.id)
    )
    if service_ibi is not None:
        statement = statement.join(ItemIdentifier, ItemIdentifier.item_id == Item.id)
        statement = statement.where(ItemIdentifier.text == service_ibi)
    return [ServedArchive(*row) for row in connection.execute(statement)]


def find_served(connection: Connection, service_ibi: str | None) -> ServedArchive:
    """Return the Archive that an app serves.

    :param service_ibi: the service IBI from the configuration, in canonical case; None if the
        configuration contains no service IBI.
    :raises NotReady: if the Archive does not exist yet.
    :raises ConfigError: if there are several Archives and ``service_ibi`` is None.
    """
    found = find_archives(connection, service_ibi)
    if not found:
        name = f"the Archive {service_ibi}" if service_ibi else "an Archive"
        raise NotReady(f"the database does not contain {name} yet", "run: flask ibi init")
    if len(found) > 1:
        names = ", ".join(archive.service_ibi for archive in found[:5])
        raise ConfigError(
            SERVICE_KEY,
            None,
            f"the service IBI of one of the {len(found)} Archives of the database: {names}",
        )
    return found[0]


def has_archive(database: Database) -> bool:
    """Return whether the database exists and contains an Archive."""
    if not database.exists():
        return False
    with database.reading() as connection:
        return database.find_revision(connection) is not None and bool(find_archives(connection))


def store_address(connection: Connection, archive_id: int, service_ibi: str, address: str) -> None:
    """Store the address of an Archive on another server, to which Originals have moved.

    :param archive_id: the row ID of the Archive in this database that had the Originals.
    :param service_ibi: the service IBI of the other Archive.
    """
    key = {"archive_id": archive_id, "service_ibi": service_ibi}
    statement = insert_or_update(connection, ArchiveElsewhere).values(**key, address=address)
    connection.execute(
        statement.on_conflict_do_update(index_elements=[*key], set_={"address": address})
    )


def find_address(connection: Connection, archive_id: int, service_ibi: str) -> str | None:
    """Return the address of another Archive, in this database or on another server.

    :returns: None if the address is unknown.
    """
    elsewhere = select(ArchiveElsewhere.address).where(
        ArchiveElsewhere.archive_id == archive_id, ArchiveElsewhere.service_ibi == service_ibi
    )
    beside = (
        select(ArchiveRow.address)
        .join(ItemIdentifier, ItemIdentifier.item_id == ArchiveRow.service_item_id)
        .where(ItemIdentifier.text == service_ibi)
    )
    address: str | None = connection.scalar(elsewhere) or connection.scalar(beside)
    return address


def is_included(archive: Archive) -> bool:
    """Return whether a resolver has confirmed that it includes an Archive.

    The answer is remembered, because each page depends on it. If another process stores a
    confirmation, the remembered answer may be out of date for :data:`MEMORY` seconds. If the
    database does not answer, the last answer remains valid.
    """
    key, now = archive.config.archive_service_ibi, monotonic()
    answers = _inclusions.setdefault(archive.database, {})
    included, until = answers.get(key, (False, -inf))
    if now >= until:
        with suppress(NotReady, ConfigError):
            confirmed_at = select(Registration.confirmed_at).where(
                Registration.archive_id == archive.served().id
            )
            included = (
                archive.database.read(lambda connection: connection.scalar(confirmed_at))
                is not None
            )
        answers[key] = included, now + MEMORY
    return included


def forget_inclusions() -> None:
    """Forget the answers of :func:`is_included`, so that the databases are asked again."""
    _inclusions.clear()


def create_archive(
    connection: Connection, facts: Mapping[str, str | None], rep: str | None, ibip: str | None
) -> ServedArchive:
    """Insert an Archive and its service item.

    :param facts: what the Archive publishes about itself ([R] 3.2, Figure 3.3), by the columns of
        :class:`.ArchiveRow`.
    :param rep: the rep of the service item, or None.
    :param ibip: the ibip of the service item, or None. At least one of the two must be given.
    """
    now = datetime.now(timezone.utc).replace(microsecond=0)
    word = connection.scalar(select(ArchiveRow.database).limit(1)) or secrets.token_hex(16)
    # The two rows refer to each other. The foreign key is checked at the end of the transaction.
    values = {"service_item_id": 0, "database": word, **facts}
    archive_id = connection.execute(
        insert(ArchiveRow).values(values).returning(ArchiveRow.id)
    ).scalar_one()
    record = Record(rep=rep, ibip=ibip, timestamp=now, transferable=False)
    store = ItemStore(connection, archive_id)
    [item_id] = store.insert([record], [{}], now, is_service=True)
    connection.execute(
        update(ArchiveRow).where(ArchiveRow.id == archive_id).values(service_item_id=item_id)
    )
    return ServedArchive(archive_id, rep, ibip, word)


def init(archive: Archive) -> tuple[ServedArchive, bool]:
    """Upgrade the tables. Create the Archive and the folder of stored files if they are missing.

    If the Archive exists, update the facts that it publishes.

    :returns: the Archive, and whether the Archive is new.
    :raises ConfigError: if the settings contain no service IBI and do not allow minting. Nothing
        was written in this case.
    :raises RuleBroken: if an item of another Archive has the service IBI of the settings.
    """
    config, database = archive.config, archive.database
    service_ibi = config.archive_service_ibi
    if service_ibi is None and not has_archive(database):
        config.check_minting()
    archive.files_folder.create()
    upgrade_tables(database)
    rep = ibip = None
    if service_ibi is not None:
        parsed = parse_identifier(service_ibi)
        rep, ibip = (parsed.text, None) if parsed.form is Form.REP else (None, parsed.text)
    elif not has_archive(database):  # another process may have created the Archive meanwhile
        [minted] = archive.minter.mint()
        rep, ibip = minted.rep, minted.ibip
    facts = {
        "address": config.archive_address,
        "ip": config.archive_ip,
        "platform_version": config.archive_platform_version,
        "admin_email": config.archive_admin_email,
    }
    try:
        with database.writing() as connection:
            lock_table_setup(connection)
            if not find_archives(connection, service_ibi):
                return create_archive(connection, facts, rep, ibip), True
            served = find_served(connection, service_ibi)
            row = update(ArchiveRow).where(ArchiveRow.id == served.id)
            connection.execute(row.values(**facts))
            return served, False
    except IntegrityError as error:
        raise find_broken_rule(error, service_ibi) or StorageError(str(error.orig)) from error


def upgrade(archive: Archive, revision: str = "head") -> None:
    """Upgrade the tables to a revision; the database is created if it does not exist."""
    upgrade_tables(archive.database, revision)


def upgrade_tables(database: Database, revision: str = "head") -> None:
    """Upgrade the tables of a database to a revision; see :func:`upgrade`."""
    database.create()
    with database.writing() as connection:
        lock_table_setup(connection)
        migrate.upgrade(connection, revision, database.history)


def downgrade(archive: Archive, revision: str) -> None:
    """Downgrade the tables to a revision."""
    with archive.database.writing() as connection:
        lock_table_setup(connection)
        migrate.downgrade(connection, revision, archive.database.history)
    archive.forget()


def build_facts(archive: Archive, served: ServedArchive) -> ArchiveFacts:
    """Return the facts that an Archive publishes about itself in each answer to a resolver.

    URL lists contain oai_dc and the XML formats that the host has added. They contain another
    format only if the resolver asks for it.
    """
    config, formats = archive.config, archive.formats
    software = config.platform_software_ibi
    return ArchiveFacts(
        address=config.archive_address,
        service=list_ibi_words(served.rep, served.ibip),
        addresses=archive.addresses,
        platform_software=(() if software is None else (name_form(software), software.text)),
        relations=config.relations,
        filter_url_list=config.filter_url_list,
        follow_editions=config.follow_editions,
        lands_on_page=config.lands_on == "page",
        own_formats={**DUBLIN_CORE, **dict.fromkeys(formats.list_added_xml())},
        written_formats=frozenset(format.name for format in formats),
    )
