"""Passwords of actors: the check of a password, and the rate limit of wrong passwords.

The check does not reveal which actors exist. A wrong password, an unknown actor and a cancelled
actor cause the same statements, one computation of scrypt and the same exception. They are also
counted in the same way, because the rate limit applies to the actorID that was sent.

Source: [P] 4.1 to 4.7.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from sqlalchemy import Connection, and_, select, true

from flask_ibi_archive.core.protocol.hosts import group_sender
from flask_ibi_archive.core.protocol.registry_2008.model import Credentials
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.archives import COST, RateLimit, matches_hash
from flask_ibi_archive.resolver.registry_2008.tables import Actor, PasswordAttempt
from flask_ibi_archive.server.database.database import Database

WRONG_PASSWORDS = "too many wrong passwords came from this address or for this actorID"
REGISTRATIONS = "too many requests to register an actor came from this address"


class Denied(Exception):
    """A password is wrong, or an ID is unknown.

    The registry turns this exception into the error "denied" with the message of the verb. The
    exception has no message, because the cause must not be revealed.
    """


@dataclass(frozen=True, slots=True)
class AuthenticatedActor:
    """An actor whose password was right.

    The caller must check in its own transaction that the row still has this hash. Otherwise the
    password was changed or the actor was cancelled in the meantime, and the caller must raise
    :class:`Denied`.

    :param id: the id of the actor's row.
    :param password_hash: the hash of the password.
    """

    id: int
    password_hash: str = field(repr=False)


def authenticate(
    database: Database, credentials: Credentials, sender: str, now: datetime, cost: int = COST
) -> AuthenticatedActor:
    """Check the password of an actor, and return the actor.

    No transaction may be open, because the attempt is committed before the password is compared.

    :param sender: the IP address of the sender.
    :param cost: the cost of the hashes of passwords. See ``hash_secret`` (archives.py).
    :raises Denied: if the actor is unknown or cancelled, or if the password is wrong.
    :raises DocumentRegistryError: "too-many-attempts" if the rate limit is reached. Then the
        password is not compared.
    :raises NotReady: if the database is not available.
    """
    limit = limit_passwords(database, sender, now, credentials.actor_id)
    _count_attempt(limit, WRONG_PASSWORDS)
    found = database.read(lambda connection: _find_actor(connection, credentials.actor_id))
    password_hash = _dummy_hash(cost) if found is None else found.password_hash
    if not matches_hash(credentials.password, password_hash) or found is None:
        raise Denied
    limit.clear_attempts()
    return found


def count_registration(database: Database, sender: str, now: datetime) -> None:
    """Count a request to register an actor.

    Call this function before anything else is done for the request.

    :param sender: the IP address of the sender.
    :raises DocumentRegistryError: "too-many-attempts" if the rate limit of the sender is reached.
    :raises NotReady: if the database is not available.
    """
    _count_attempt(limit_passwords(database, sender, now), REGISTRATIONS)


def limit_passwords(
    database: Database, ip: str, now: datetime, actor_id: str | None = None
) -> RateLimit:
    """Return the rate limit of passwords, or of requests to register an actor.

    :param ip: the IP address of the sender.
    :param actor_id: the actorID that was sent. The actor may be unknown. None for a request to
        register an actor, for which only the sender is limited.
    """
    sender = group_sender(ip)
    of_kind = PasswordAttempt.actor_hash.is_not(None)
    actor_hash = own_ip = None
    if actor_id is None:
        of_kind = PasswordAttempt.actor_hash.is_(None)
    else:
        # the hash has a fixed length and can be stored in any case
        actor_hash = sha256(actor_id.encode()).hexdigest()
        own_ip = select(Actor.ip).where(Actor.actor_id == actor_id).scalar_subquery()
    of_sender = and_(PasswordAttempt.sender == sender, of_kind)
    return RateLimit(
        database,
        sender,
        now,
        PasswordAttempt,
        {"actor_hash": actor_hash},
        lock=f"SELECT pg_advisory_xact_lock({int.from_bytes(b'ibi_pass', 'big')})",
        of_sender=of_sender,
        of_target=of_sender if actor_id is None else PasswordAttempt.actor_hash == actor_hash,
        deletable=true(),
        own_ip=own_ip,
    )


def _count_attempt(limit: RateLimit, reason: str) -> None:
    """Count an attempt, or raise the error "too-many-attempts"."""
    wait = limit.count_attempt()
    if wait is not None:
        raise DocumentRegistryError("too-many-attempts", f"{reason}; try again in {wait} s", wait)


def _find_actor(connection: Connection, actor_id: str) -> AuthenticatedActor | None:
    """Return an actor, or None if the actor is unknown or cancelled."""
    statement = select(Actor.id, Actor.password_hash).where(Actor.actor_id == actor_id)
    row_id, password_hash = connection.execute(statement).one_or_none() or (0, None)
    return None if password_hash is None else AuthenticatedActor(row_id, password_hash)


def _dummy_hash(cost: int) -> str:
    """Return a hash that no password has. Its comparison takes as long as that of a real hash."""
    return f"scrypt:{cost}:8:1${'0' * 16}${'0' * 128}"
