"""Pins the key with which an Archive signs its claims (federation CL-5).

At an inclusion request, which the registration key authenticates, the resolver reads the key from
the Archive. Only another inclusion request can replace the key. All keys are listed publicly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, select, update

from flask_ibi_archive.core.claims.checkpoint import get_service_rep
from flask_ibi_archive.core.claims.keys import VerifierKey, parse_key
from flask_ibi_archive.core.identifiers import Form, parse_identifier
from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.errors import ClaimError, RegistrationRefused, TransportError
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.old_claims.tables import (
    CONTRADICTED,
    NEW,
    STALE,
    FollowedLog,
    PinnedKey,
    RejectedEntry,
)
from flask_ibi_archive.resolver.old_claims.versions import bump_version, lock_rows
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.http.transport import HttpResponse

#: The time limit in seconds for the key, so that an inclusion is not delayed.
TIMEOUT = 2.0
#: The maximum length of the answer with the key in bytes, and of the name of a key.
MAX_KEY, MAX_ORIGIN = 500, 300

_logger = logging.getLogger(__name__)


def read_key(
    fetch: Callable[..., HttpResponse], address: str, service_ibi: str, config: ResolverConfig
) -> VerifierKey | None:
    """Return the key with which an Archive signs its claims. None if it publishes no claims.

    None is also returned if the key can't be read: claims are never needed for an inclusion.

    :param address: the host and port of the Archive.
    :param service_ibi: the IBI of its service, which must be the name of the key.
    """
    try:
        answer = fetch(
            f"http://{address}/ibi/claims/key",
            "",
            seconds=min(config.archive_timeout, TIMEOUT),
            limit=MAX_KEY,
            inner_hosts=config.inner_hosts,
        )
        if answer.status != 200 or not answer.complete:
            return None
        key = parse_key(answer.body.decode("ascii").removesuffix("\n"))
    except (TransportError, UnicodeDecodeError, ClaimError):
        return None
    if len(key.name) > MAX_ORIGIN or not _is_origin(key.name, service_ibi):
        _logger.warning(
            "the key for the claims of %s has the name of another service: %.80r",
            service_ibi, key.name,
        )  # fmt: skip
        return None
    return key


def _is_origin(name: str, service_ibi: str) -> bool:
    """Return whether a log with this name can be the log of a service.

    The name is the service's rep, and "#" and a number if the log had to begin anew. If the service
    has registered with its IBIp, its rep is unknown.
    """
    service, mark, number = name.partition("#")
    if mark and not (number.isdecimal() and number.isascii()):
        return False
    if parse_identifier(service_ibi).form is Form.REP:
        return service == service_ibi
    rep = match_identifier(service)
    return rep is not None and rep.form is Form.REP and rep.text == service


def lock_holders(connection: Connection, archive_id: int, key: VerifierKey) -> None:
    """Lock the rows of an Archive and of the one whose log has the name of a key.

    The transaction that stores an inclusion begins with this: :func:`pin_key` may change both, and
    the row of the version, which it also locks, comes after them. Two inclusions wait for each
    other at that row, so the second one sees the name that the first one got.
    """
    is_holder = FollowedLog.service_rep == get_service_rep(key.name)
    holders = connection.scalars(select(FollowedLog.archive_id).where(is_holder))
    lock_rows(connection, (archive_id, *holders))


def pin_key(connection: Connection, archive_id: int, key: VerifierKey, now: datetime) -> None:
    """Store the key of an Archive, in the transaction that stores its inclusion.

    If the key has changed, the log continues if its name is the same; with another name it is a new
    log. The log of an Archive whose answers contradicted its claims counts again when it is read
    the next time, because its operator has registered it again.

    :raises RegistrationRefused: if the name of the log belongs to another Archive.
    """
    text = key.format()
    _claim_name(connection, archive_id, key.name)
    log = connection.execute(
        select(FollowedLog.key, FollowedLog.origin, FollowedLog.number)
        .where(FollowedLog.archive_id == archive_id)
        .with_for_update()
    ).one_or_none()
    if log is None:
        # the Archive may have lost an earlier log with its name; claims of it may still be bound
        earlier = select(func.count()).where(PinnedKey.archive_id == archive_id)
        number = 1 + (connection.scalar(earlier) or 0)
        connection.execute(
            insert(FollowedLog).values(archive_id=archive_id, **_begin_log(key, number, now))
        )
    else:
        values: dict[str, Any] = {"due_at": now, "contradictions": 0}
        if log.origin != key.name:
            values |= _begin_log(key, log.number + 1, now)
            connection.execute(delete(RejectedEntry).where(RejectedEntry.archive_id == archive_id))
        else:
            was_contradicted = FollowedLog.state == CONTRADICTED
            values |= {
                "key": text,
                "etag": None,  # the checkpoint must be read with its new signature
                "state": case((was_contradicted, STALE), else_=FollowedLog.state),
                "reason": case((was_contradicted, "registered again"), else_=FollowedLog.reason),
            }
            if log.key != text:
                values["pinned_at"] = now
        connection.execute(
            update(FollowedLog).where(FollowedLog.archive_id == archive_id).values(values)
        )
        if log.key == text:
            return
    connection.execute(insert(PinnedKey).values(archive_id=archive_id, pinned_at=now, key=text))


def _claim_name(connection: Connection, archive_id: int, origin: str) -> None:
    """Check that the name of a log belongs to no other Archive.

    Whoever registered with the rep of the service has the name. Another Archive that registered
    with its IBIp loses it, and is asked about each item again. Among Archives with unknown reps,
    the first has it.

    :raises RegistrationRefused: if the name belongs to another Archive.
    """
    service_rep = get_service_rep(origin)
    service_ibi = connection.scalars(
        select(RegisteredArchive.service_ibi).where(RegisteredArchive.id == archive_id)
    ).one()
    if service_ibi != service_rep and connection.scalar(
        select(RegisteredArchive.id).where(RegisteredArchive.service_ibi == service_rep)
    ):
        raise _refuse_log(service_ibi, origin)
    is_other = (FollowedLog.service_rep == service_rep) & (FollowedLog.archive_id != archive_id)
    other = connection.scalar(select(FollowedLog.archive_id).where(is_other).with_for_update())
    if other is None:
        return
    if service_ibi != service_rep:
        raise _refuse_log(service_ibi, origin)
    _logger.warning("another Archive had a log with the name of %s, which was removed", service_ibi)
    connection.execute(delete(FollowedLog).where(is_other))
    bump_version(connection, [other])


def _begin_log(key: VerifierKey, number: int, now: datetime) -> dict[str, Any]:
    """Return the values of a log of which nothing was read."""
    return {
        "origin": key.name,
        "service_rep": get_service_rep(key.name),
        "key": key.format(),
        "pinned_at": now,
        "number": number,
        "state": NEW,
        "reason": None,
        "size": 0,
        "length": 0,
        "frontier": b"",
        "checkpoint": None,
        "etag": None,
        "signed_at": None,
        "read_at": None,
    }


def _refuse_log(service_ibi: str, origin: str) -> RegistrationRefused:
    """Return the error for claims with the name of another Archive's service."""
    return RegistrationRefused(
        f"the claims of {service_ibi} are signed with the name {origin[:80]!a}, which belongs to "
        "another Archive of this resolver; if it is yours, ask the resolver's administrator",
        status=409,
    )
