"""Stores the results of requests that register Archives at a resolver ([R] 5.2)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from flask_ibi_archive.archive.items.tables import ArchiveRow, Item, Registration


@dataclass(frozen=True, slots=True)
class RegistrationRecord:
    """The registration of an Archive. The fields are columns of the table ``ibi_registration``."""

    resolver_url: str
    address: str | None = None
    ip: str | None = None
    registered_at: datetime | None = None
    included_at: datetime | None = None
    confirmed_at: datetime | None = None
    excluded_at: datetime | None = None
    error: str | None = None
    error_at: datetime | None = None


_FIELDS = tuple(field.name for field in fields(RegistrationRecord))
_COLUMNS = tuple(getattr(Registration, name) for name in _FIELDS)


@dataclass(frozen=True, slots=True)
class ArchiveLine:
    """An Archive with the IBI of its service, its address and its registration."""

    rep: str | None
    ibip: str | None
    address: str
    ip: str | None
    registration: RegistrationRecord | None


def find_registration(connection: Connection, archive_id: int) -> RegistrationRecord | None:
    """Return the registration of an Archive; None if the Archive has never sent a request."""
    row = connection.execute(
        select(*_COLUMNS).where(Registration.archive_id == archive_id)
    ).one_or_none()
    return None if row is None else RegistrationRecord(*row)


def list_archives(connection: Connection) -> list[ArchiveLine]:
    """Return all Archives of the database. The oldest Archive comes first."""
    rows = connection.execute(
        select(Item.rep, Item.ibip, ArchiveRow.address, ArchiveRow.ip, *_COLUMNS)
        .join(Item, Item.id == ArchiveRow.service_item_id)
        .outerjoin(Registration, Registration.archive_id == ArchiveRow.id)
        .order_by(ArchiveRow.id)
    )
    return [
        ArchiveLine(
            rep, ibip, address, ip, None if known[0] is None else RegistrationRecord(*known)
        )
        for rep, ibip, address, ip, *known in rows
    ]


def store_status(
    connection: Connection,
    archive_id: int,
    resolver_url: str,
    address: str,
    ip: str,
    *,
    included: bool,
    confirmed: bool,
    now: datetime,
) -> None:
    """Store that the resolver has included or excluded an Archive.

    An excluded Archive is still registered ([R] 5.2). The time of the registration changes only if
    the resolver changes. The same is true for the time of the inclusion, until the Archive is
    excluded.

    :param included: True if the resolver included the Archive; False if it excluded the Archive.
    :param confirmed: True if the resolver confirmed the inclusion.
    """
    before = _lock(connection, archive_id)
    same = before if before is not None and before.resolver_url == resolver_url else None
    _store(
        connection,
        archive_id,
        before,
        resolver_url=resolver_url,
        address=address,
        ip=ip,
        registered_at=(same and same.registered_at) or now,
        included_at=((same and same.included_at) or now) if included else None,
        confirmed_at=now if confirmed else None,
        excluded_at=None if included else now,
        error=None,
        error_at=None,
    )


def store_failure(
    connection: Connection, archive_id: int, resolver_url: str, error: str, now: datetime
) -> None:
    """Store the error and the time of a failed request. The other columns do not change."""
    before = _lock(connection, archive_id)
    known = resolver_url if before is None else before.resolver_url
    _store(connection, archive_id, before, resolver_url=known, error=error, error_at=now)


def _lock(connection: Connection, archive_id: int) -> RegistrationRecord | None:
    """Lock the row of the Archive until the transaction ends and return its registration."""
    connection.execute(select(ArchiveRow.id).where(ArchiveRow.id == archive_id).with_for_update())
    return find_registration(connection, archive_id)


def _store(
    connection: Connection, archive_id: int, before: RegistrationRecord | None, **values: Any
) -> None:
    if before is None:
        connection.execute(insert(Registration).values(archive_id=archive_id, **values))
    else:
        connection.execute(
            update(Registration).where(Registration.archive_id == archive_id).values(**values)
        )
