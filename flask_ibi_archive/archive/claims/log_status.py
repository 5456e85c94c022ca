"""What an administrator may want to know about the claims, and must do about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy import Connection, func, select

from flask_ibi_archive.archive.claims.log_tables import PAUSED, ClaimNote, Log
from flask_ibi_archive.archive.claims.sequencer import SHARE_FOLDER, Sequencer, find_break
from flask_ibi_archive.archive.items.tables import Registration


@dataclass(frozen=True, slots=True)
class ClaimsStatus:
    """What an administrator may want to know about the claims.

    :param number: the number of the log, from 1. A log that had to begin anew has the next number.
    :param origin: the name of the log.
    :param begun_at: the time when the log began; None if there is no log.
    :param key: the public key in one line; None if there is no key.
    :param size: the number of entries.
    :param pending: the number of noted changes that are not in the log yet.
    :param signed_at: the time of the last checkpoint; None if there is none.
    :param folder: the folder of the private key.
    :param disabled: why no claims are to be published; None if they are.
    :param warning: what is wrong and what the administrator must do; None if nothing.
    """

    number: int
    origin: str
    begun_at: datetime | None
    key: str | None
    size: int
    pending: int
    signed_at: datetime | None
    folder: Path
    disabled: str | None
    warning: str | None


def find_status(connection: Connection, sequencer: Sequencer, disabled: str | None) -> ClaimsStatus:
    """Return the state of a log. Nothing is written.

    :param disabled: why no claims are to be published; None if they are.
    """
    folder, log = sequencer.folder, sequencer.find_log(connection)
    number = log.number if log else 1
    key = folder.read_key(number)
    stored = None if key is None else folder.open_checkpoint(key)
    noted = select(func.count()).where(ClaimNote.archive_id == sequencer.archive_id)
    if disabled is not None:
        is_noting = log is not None and log.covered != PAUSED
        warning = "changes are noted, but not claimed; run: flask ibi init" if is_noting else None
    elif log is None or key is None:
        warning = "no claims are published; run: flask ibi init"
    else:
        warning = _find_warning(connection, sequencer, log)
    return ClaimsStatus(
        log.number if log else 0,
        folder.name_origin(number),
        log.begun_at if log else None,
        None if key is None else key.verifier.format(),
        log.size if log else 0,
        connection.scalar(noted) or 0,
        None if stored is None else datetime.fromtimestamp(stored.seconds, timezone.utc),
        folder.folder,
        disabled,
        warning,
    )


def _find_warning(connection: Connection, sequencer: Sequencer, log: Log) -> str | None:
    """Return what is wrong with a log that is published; None if nothing."""
    signed = sequencer.folder.read_tree()
    reason = find_break(connection, log, signed)
    if signed is not None and signed.number < log.number:
        return f"{reason}; {SHARE_FOLDER}"
    if reason is not None:
        return (
            f"{reason}; at the next request for the claims, a new log begins. Then "
            "register the Archive again: flask ibi register-archive"
        )
    # the resolver reads the key when it confirms the inclusion
    confirmed_at = connection.scalar(
        select(Registration.confirmed_at).where(Registration.archive_id == log.archive_id)
    )
    if confirmed_at is not None and confirmed_at < log.key_at:
        return (
            "the resolver does not know the present key of the claims; register the Archive "
            "again: flask ibi register-archive"
        )
    return None
