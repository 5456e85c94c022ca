"""The registration state of an Archive: not registered, included or excluded."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Connection,
    select,
)

from flask_ibi_archive.archive.items.tables import ArchiveRow, Item, Registration
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.inclusion import CONFIRMATION, InclusionConfirmationRequest
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.errors import RegistrationError
from flask_ibi_archive.server.config import ArchiveConfig
from flask_ibi_archive.server.database.dialects import insert_or_update
from flask_ibi_archive.server.http.transport import fetch, without_password

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


NEVER = "not registered"
INCLUDED = "included"
NOT_CONFIRMED = "included, not confirmed"
EXCLUDED = "excluded"

INCLUDE = "run: flask ibi register-archive"
#: What to do if another Archive mints with the same prefix.
CHANGE_PORT = f"set IBI_MINT_PORT of one of the two to another port, restart it, and {INCLUDE}"
#: The largest number of bytes of an answer that are read.
MAX_ANSWER = 4096


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
    the Archive uses another resolver. The time of the inclusion also changes if the Archive was
    excluded before.

    :param included: True if the resolver included the Archive; False if it excluded the Archive.
    :param confirmed: True if the resolver confirmed the inclusion.
    """
    before = _lock(connection, archive_id)
    registered_at = included_at = None
    if before is not None and before.resolver_url == resolver_url:
        registered_at, included_at = before.registered_at, before.included_at
    _store(
        connection,
        archive_id,
        resolver_url=resolver_url,
        address=address,
        ip=ip,
        registered_at=registered_at or now,
        included_at=(included_at or now) if included else None,
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
    _store(connection, archive_id, resolver_url=known, error=error, error_at=now)


def _lock(connection: Connection, archive_id: int) -> RegistrationRecord | None:
    """Lock the row of the Archive until the transaction ends and return its registration."""
    connection.execute(select(ArchiveRow.id).where(ArchiveRow.id == archive_id).with_for_update())
    return find_registration(connection, archive_id)


def _store(connection: Connection, archive_id: int, **values: Any) -> None:
    statement = insert_or_update(connection, Registration).values(archive_id=archive_id, **values)
    connection.execute(
        statement.on_conflict_do_update(index_elements=[Registration.archive_id], set_=values)
    )


@dataclass(frozen=True, slots=True)
class Description:
    """A description of the registration state in one line.

    :param ok: False if the administrator must do something.
    """

    ok: bool
    text: str


def describe_served(archive: Archive) -> Description:
    """Describe the registration state of the Archive that the app serves.

    :raises NotReady: if the database does not answer, or the Archive does not exist yet.
    """
    served = archive.served()
    record = archive.database.read(lambda connection: find_registration(connection, served.id))
    return describe(record, archive.config)


def state_of(record: RegistrationRecord | None) -> tuple[str, datetime | None]:
    """Return the registration state, and the time when this state began."""
    if record is None or record.registered_at is None:
        return NEVER, None
    if record.included_at is None:
        return EXCLUDED, record.excluded_at
    return INCLUDED if record.confirmed_at else NOT_CONFIRMED, record.included_at


def describe(record: RegistrationRecord | None, config: ArchiveConfig) -> Description:
    """Describe the registration state and the next step of the administrator.

    ``ok`` is also True for an Archive that was never registered, or that is excluded. The
    administrator may have intended these states.
    """
    state, since = state_of(record)
    text = state if since is None else f"{state} since {format_timestamp(since)}"
    if record is not None:
        if record.error_at is not None:
            failed_at = format_timestamp(record.error_at)
            error = f"the last request failed at {failed_at}: {record.error}"
            return Description(False, f"{text}; {error}")
        moved = find_move(record, config)
        if moved is not None:
            return Description(False, f"{text}; {moved}")
        if state != NEVER and record.resolver_url != shown_url(config):
            return Description(
                state == EXCLUDED,
                f"{text} by {record.resolver_url}, but IBI_RESOLVER_URL is {shown_url(config)}; "
                f"{INCLUDE}",
            )
    return Description(state != NOT_CONFIRMED, f"{text}{_next_step(state, config)}")


def _next_step(state: str, config: ArchiveConfig) -> str:
    if state == INCLUDED:
        return ", and confirmed"
    if state == EXCLUDED:
        return f"; to include the Archive again, {INCLUDE}"
    if state == NOT_CONFIRMED:
        return not_confirmed(config)
    if config.registration_key is None:
        return " yet; to get a registration key, run: flask ibi generate-key"
    return (
        " yet; send the e-mail that flask ibi registration-email writes; after the resolver has "
        f"confirmed the e-mail, {INCLUDE}"
    )


def not_confirmed(config: ArchiveConfig) -> str:
    """Return advice for an Archive that the resolver could not call back."""
    return (
        f"; the resolver got no confirmation from {config.archive_address}; check whether the "
        f"server runs and whether other hosts can reach this address, then {INCLUDE}"
    )


def find_move(record: RegistrationRecord, config: ArchiveConfig) -> RegistrationError | None:
    """Return an error if the Archive has another address or IP than its registration, else None."""
    address, ip = config.archive_address, config.archive_ip
    if record.address is not None and record.address.lower() != address.lower():
        return _refuse_move("IBI_ARCHIVE_ADDRESS", address, record.address)
    if record.ip is not None and ip is not None and record.ip != ip:
        return _refuse_move("IBI_ARCHIVE_IP", ip, record.ip)
    return None


def _refuse_move(key: str, found: str, registered: str) -> RegistrationError:
    """Return the error for another address or IP than the registered one."""
    return RegistrationError(
        f"{key} is {found}, but the Archive is registered at {registered}; if the Archive has "
        "moved, use --moved; if this database is a copy, do not register this Archive"
    )


def shown_url(config: ArchiveConfig) -> str:
    """Return the resolver's URL without user and password, for messages."""
    return without_password(config.resolver_url)


def call_own_address(archive: Archive, seconds: float) -> str:
    """Send a confirmation request to the Archive's own address, and return the URL of the service.

    :param seconds: the timeout for the whole answer.
    :raises TransportError: if no answer arrives in time.
    :raises RegistrationError: if the answer is not the answer of an Archive.
    """
    url = archive.addresses.service(archive.served())
    query = format_request(InclusionConfirmationRequest())
    answer = fetch(url, query, seconds=seconds, limit=MAX_ANSWER, inner_hosts=None)
    if answer.text != CONFIRMATION:
        raise RegistrationError(
            f"{url} answers {answer.status} {answer.text[:60]!a} instead of {CONFIRMATION!r}"
        )
    return url
