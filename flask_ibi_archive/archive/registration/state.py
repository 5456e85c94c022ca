"""How an Archive stands with its resolver, in words: for check, list and the guard against clones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.transport import without_password
from flask_ibi_archive.config import ArchiveConfig
from flask_ibi_archive.errors import ArchiveMoved
from flask_ibi_archive.storage.registration import RegistrationRecord, find_registration

NEVER = "not registered"
INCLUDED = "included"
NOT_CONFIRMED = "included, not confirmed"
EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether an Archive stands well with its resolver, and a line about it."""

    ok: bool
    text: str


def find_standing(archive: ArchiveService) -> Standing:
    """Tell how the Archive that an app serves stands with its resolver.

    :raises NotReady: if the database does not answer, or the Archive isn't there yet.
    """
    served = archive.served()
    record = archive.database.read(lambda connection: find_registration(connection, served.id))
    return describe(record, archive.config)


def state_of(record: RegistrationRecord | None) -> tuple[str, datetime | None]:
    """Return how an Archive stands, and since when."""
    if record is None or record.registered_at is None:
        return NEVER, None
    if record.included_at is None:
        return EXCLUDED, record.excluded_at
    return INCLUDED if record.confirmed_at else NOT_CONFIRMED, record.included_at


def describe(record: RegistrationRecord | None, config: ArchiveConfig) -> Standing:
    """Tell how an Archive stands, and what to do next.

    One that was never registered, or is excluded, stands well: its administrator may want it so.
    """
    state, since = state_of(record)
    moved = None if record is None else find_move(record, config)
    text = state if since is None else f"{state} since {timestamp(since)}"
    if record is not None and record.error_at is not None:
        return Standing(
            False,
            f"{text}; the last request failed at {timestamp(record.error_at)}: {record.error}",
        )
    if moved is not None:
        return Standing(False, f"{text}; {moved}")
    if record is not None and state != NEVER and record.resolver_url != shown_url(config):
        return Standing(
            state == EXCLUDED,
            f"{text} by {record.resolver_url}, but IBI_RESOLVER_URL is {shown_url(config)}; "
            "run: flask ibi register-archive",
        )
    return Standing(state != NOT_CONFIRMED, f"{text}{_next_step(state, config)}")


def _next_step(state: str, config: ArchiveConfig) -> str:
    if state == INCLUDED:
        return ", and confirmed"
    if state == EXCLUDED:
        return "; to include it again run: flask ibi register-archive"
    if state == NOT_CONFIRMED:
        return not_confirmed(config)
    if config.registration_key is None:
        return " yet; for a registration key run: flask ibi generate-key"
    return (
        " yet; send the e-mail of: flask ibi registration-email, and once its receipt is confirmed "
        "run: flask ibi register-archive"
    )


def not_confirmed(config: ArchiveConfig) -> str:
    """Tell what to do where the resolver could not call the Archive back."""
    return (
        f"; the resolver got no confirmation from {config.archive_address}: see that the server runs "
        "and can be reached there from outside, then run: flask ibi register-archive"
    )


def find_move(record: RegistrationRecord, config: ArchiveConfig) -> ArchiveMoved | None:
    """Return the error that the Archive is not where the resolver was told, None where it is."""
    address, ip = config.archive_address, config.archive_ip
    if record.address is not None and record.address.lower() != address.lower():
        return ArchiveMoved("IBI_ARCHIVE_ADDRESS", address, record.address)
    if record.ip is not None and ip is not None and record.ip != ip:
        return ArchiveMoved("IBI_ARCHIVE_IP", ip, record.ip)
    return None


def shown_url(config: ArchiveConfig) -> str:
    """Return the resolver's URL without a password in it."""
    return without_password(config.resolver_url)


def timestamp(moment: datetime) -> str:
    """Return a moment (UTC) as messages write it, without a fraction."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
