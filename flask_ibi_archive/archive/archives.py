"""The Archives of a database: which one an app serves, and how one begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.orm import aliased

from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.records.record import ItemRecord
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.models import Archive, Item, ItemIdentifier

SERVICE_KEY = "IBI_ARCHIVE_SERVICE_IBI"


@dataclass(frozen=True, slots=True)
class ServedArchive:
    """An Archive of the database, by its row and the forms of its service's IBI."""

    id: int
    rep: str | None
    ibip: str | None

    @property
    def service_ibi(self) -> str:
        """The IBI of its service, as rep where there is one."""
        return self.rep or self.ibip or ""


@dataclass(frozen=True, slots=True)
class ArchiveRecord:
    """What an Archive says of itself ([R] 3.2, Figure 3.3)."""

    address: str
    ip: str | None
    platform_version: str
    admin_email: str | None


def find_archives(connection: Connection, service_ibi: str | None = None) -> list[ServedArchive]:
    """Return the Archives of the database, or the one whose service bears an IBI."""
    statement = (
        select(Archive.id, Item.rep, Item.ibip)
        .join(Item, Item.id == Archive.service_item_id)
        .order_by(Archive.id)
    )
    if service_ibi is not None:
        name = aliased(ItemIdentifier)
        statement = statement.join(name, name.item_id == Item.id).where(name.text == service_ibi)
    return [ServedArchive(*row) for row in connection.execute(statement)]


def find_served(connection: Connection, service_ibi: str | None) -> ServedArchive:
    """Return the Archive that an app serves.

    :param service_ibi: the IBI that its configuration names (canonical), None: the only Archive
        there is.
    :raises NotReady: if there is none.
    :raises ConfigError: if there are several and the configuration names none.
    """
    found = find_archives(connection, service_ibi)
    if not found:
        name = f"the Archive {service_ibi}" if service_ibi else "an Archive"
        raise NotReady(f"the database does not hold {name} yet", "run: flask ibi init")
    if len(found) > 1:
        names = ", ".join(archive.service_ibi for archive in found[:5])
        raise ConfigError(
            SERVICE_KEY, None, f"the service IBI of one of the {len(found)} Archives here: {names}"
        )
    return found[0]


def create_archive(
    connection: Connection, facts: ArchiveRecord, rep: str | None, ibip: str | None
) -> ServedArchive:
    """Write an Archive and its service item, which bears the IBI in one form or both."""
    now = datetime.now(timezone.utc).replace(microsecond=0)
    # the Archive names its service item and the item its Archive: the key is checked at the end
    archive_id = connection.execute(
        insert(Archive).values(service_item_id=0, **_columns(facts)).returning(Archive.id)
    ).scalar_one()
    record = ItemRecord(rep=rep, ibip=ibip, timestamp=now, transferable=False)
    store = ItemStore(connection, archive_id)
    [item_id] = store.insert_items([record], [{}], now, is_service=True)
    connection.execute(
        update(Archive).where(Archive.id == archive_id).values(service_item_id=item_id)
    )
    return ServedArchive(archive_id, rep, ibip)


def refresh_archive(connection: Connection, archive_id: int, facts: ArchiveRecord) -> None:
    """Write down what an Archive says of itself now."""
    connection.execute(update(Archive).where(Archive.id == archive_id).values(**_columns(facts)))


def _columns(facts: ArchiveRecord) -> dict[str, str | None]:
    return {
        "address": facts.address,
        "ip": facts.ip,
        "platform_version": facts.platform_version,
        "admin_email": facts.admin_email,
    }
