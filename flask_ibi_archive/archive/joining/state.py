"""Describe the registration state of an Archive: not registered, included or excluded.

An included Archive is *confirmed* if the Archive answered the call of the resolver. This module
also detects copies of a database. A copy with another address or IP must not be included instead
of the real Archive.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from flask_ibi_archive.archive.joining.registration_rows import (
    RegistrationRecord,
    find_registration,
)
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.errors import ArchiveMoved
from flask_ibi_archive.server.config import ArchiveConfig
from flask_ibi_archive.server.http.transport import without_password

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

NEVER = "not registered"
INCLUDED = "included"
NOT_CONFIRMED = "included, not confirmed"
EXCLUDED = "excluded"

INCLUDE = "run: flask ibi register-archive"


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


def find_move(record: RegistrationRecord, config: ArchiveConfig) -> ArchiveMoved | None:
    """Return an error if address or IP differ from the registered address or IP, else None."""
    address, ip = config.archive_address, config.archive_ip
    if record.address is not None and record.address.lower() != address.lower():
        return ArchiveMoved("IBI_ARCHIVE_ADDRESS", address, record.address)
    if record.ip is not None and ip is not None and record.ip != ip:
        return ArchiveMoved("IBI_ARCHIVE_IP", ip, record.ip)
    return None


def shown_url(config: ArchiveConfig) -> str:
    """Return the resolver's URL without user and password, for messages."""
    return without_password(config.resolver_url)
