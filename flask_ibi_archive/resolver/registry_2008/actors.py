"""The actors of the document registry: list, address, lock and cancellation ([P] 4.1).

The check of actors (``actor_check.py``) cancels an actor if none of its URLs has worked for two
years. The operator of the resolver can cancel an actor at any time.

Source: [P] 4.1, note 2.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, Select, delete, func, select, update

from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.core.protocol.registry_2008.model import RegisterActor
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.registry_2008.tables import ADDRESS, Actor, Document, Registration
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import read_pages
from flask_ibi_archive.server.http.guarded_http import look_up, run_within
from flask_ibi_archive.server.pages.requests import find_address

#: The maximum time for a look-up, and the time after which an actor should try again, in seconds.
LOOK_UP_TIMEOUT, RETRY_AFTER = 5.0, 60
#: The maximum number of IP addresses in an error message.
MAX_NAMED = 5

#: A function that returns the IP addresses of a host name: none if the host name is unknown, and
#: None if the DNS does not answer in time.
LookUp: TypeAlias = Callable[[str], Sequence[str] | None]

#: The errors of getaddrinfo for a host name that does not exist, or that has no IP address.
_UNKNOWN = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


def look_up_host(host: str, seconds: float = LOOK_UP_TIMEOUT) -> Sequence[str] | None:
    """Return the IP addresses of a host name, as described at :data:`LookUp`.

    :param seconds: the maximum time.
    """
    return run_within(seconds, lambda: _look_up(host))


def check_actor_address(request: RegisterActor, look_up: LookUp, inner_hosts: InnerHosts) -> None:
    """Check that the ip of an actor is public, and that it is an address of the actor's host.

    The error messages do not contain internal addresses. Otherwise strangers could explore the
    internal network of the resolver.

    :param look_up: queries the DNS, such as :func:`look_up_host`.
    :param inner_hosts: the internal hosts that are allowed.
    :raises DocumentRegistryError: "wrong-address" if the check fails, or "unavailable" if the DNS
        does not answer.
    """
    ip, host = find_address(request.ip), request.host
    if ip is None or not inner_hosts.allow(host, ip):
        raise DocumentRegistryError(
            "wrong-address", f"ip {request.ip} is not a public IP address; send that of {host}"
        )
    found = look_up(host)
    if found is None:
        raise DocumentRegistryError(
            "unavailable",
            f"the DNS does not answer for {host} (computerName.domainName); try again in "
            f"{RETRY_AFTER} s",
            RETRY_AFTER,
        )
    parsed = dict.fromkeys(map(find_address, found))
    addresses = [address for address in parsed if address and inner_hosts.allow(host, address)]
    if ip in addresses:
        return
    if addresses:
        named = ", ".join(str(address) for address in addresses[:MAX_NAMED])
        more = f" and {len(addresses) - MAX_NAMED} more" * (len(addresses) > MAX_NAMED)
        in_dns = f"has {named}{more}"
    else:
        in_dns = "has no public IP address"
    raise DocumentRegistryError(
        "wrong-address",
        f"ip {request.ip} is not an IP address of {host} (computerName.domainName), which "
        f"{in_dns} in the DNS",
    )


def _look_up(host: str) -> Sequence[str] | None:
    try:
        return look_up(host, None)
    except ValueError:  # InternalAddress, or UnicodeError if a label is too long
        return ()
    except OSError as error:
        return () if error.errno in _UNKNOWN else None


@dataclass(frozen=True, slots=True)
class ListedActor:
    """An actor with the numbers of its documents and copies.

    :param id: the id of the actor in the table.
    :param address: the host name and port of the actor.
    :param failing_since: the date of the first check in which no URL worked, or None.
    :param cancelled_at: the date of the cancellation, or None.
    """

    id: int
    actor_id: str
    address: str
    email: str
    documents: int
    copies: int
    failing_since: datetime | None
    cancelled_at: datetime | None


def list_actors(database: Database) -> Iterator[ListedActor]:
    """Yield all actors in the order of their registration. The rows are read in pages."""

    def read(statement: Any) -> Any:
        return database.read(lambda connection: connection.execute(statement).all())

    for row in read_pages(read, _select_actors(), Actor.id):
        yield ListedActor(*row)


def find_actor(database: Database, actor_id: str) -> ListedActor | None:
    """Return the actor with an IBI, or None.

    :param actor_id: the IBI in canonical case.
    """
    statement = _select_actors(Actor.actor_id == actor_id)
    row = database.read(lambda connection: connection.execute(statement).one_or_none())
    return None if row is None else ListedActor(*row)


def count_actors(connection: Connection) -> tuple[int, int]:
    """Return the number of actors, and the number of these whose URLs failed in the last check.

    Cancelled actors are not counted.
    """
    counts = select(func.count(), func.count(Actor.failing_since))
    actors, failing = connection.execute(counts.where(Actor.cancelled_at.is_(None))).one()
    return int(actors), int(failing)


def _select_actors(*conditions: ColumnElement[bool]) -> Select[Any]:
    documents = (
        select(func.count())
        .where(Document.holder_id == Actor.id)
        .correlate(Actor)
        .scalar_subquery()
    )
    registrations = (
        select(func.count())
        .where(Registration.actor_id == Actor.id)
        .correlate(Actor)
        .scalar_subquery()
    )
    return select(
        Actor.id,
        Actor.actor_id,
        ADDRESS,
        Actor.email,
        documents,
        registrations - documents,
        Actor.failing_since,
        Actor.cancelled_at,
    ).where(*conditions)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What happened to the registrations of a cancelled actor.

    :param handed_over: the number of documents that another actor now has.
    :param deleted: the number of documents of which there was no copy. They are not registered any
        more.
    :param copies: the number of the actor's copies. They are not registered any more.
    """

    handed_over: int
    deleted: int
    copies: int


def cancel_actor(connection: Connection, actor_row_id: int, now: datetime) -> Cancellation | None:
    """Cancel the registration of an actor, and delete its registrations of documents.

    Each document of the actor goes to the actor with the oldest copy, which does not hold the
    copyright. A document without copies is deleted. The row of the actor is not deleted, so that
    nobody gets the same IBI again.

    :param actor_row_id: the id of the actor in the table.
    :returns: None if the actor is already cancelled or does not exist.
    Source: [P] 4.1, note 2.
    """
    if lock_actor(connection, actor_row_id) is None:
        return None
    own = Registration.actor_id == actor_row_id
    # without these locks, another process could add or delete copies of the documents now
    documents = select(Document.id).where(
        Document.id.in_(select(Registration.document_id).where(own))
    )
    locked = documents.order_by(Document.id).with_for_update().subquery()
    connection.execute(select(func.count()).select_from(locked))
    oldest_copy = (
        select(Registration.actor_id)
        .where(Registration.document_id == Document.id, ~own)
        .order_by(Registration.id)
        .limit(1)
        .scalar_subquery()
    )
    held = Document.holder_id == actor_row_id
    handed_over = connection.execute(
        update(Document)
        .where(held, oldest_copy.is_not(None))
        .values(holder_id=oldest_copy, is_original=False)
    ).rowcount
    registrations = connection.execute(delete(Registration).where(own)).rowcount
    deleted = connection.execute(delete(Document).where(held)).rowcount
    connection.execute(
        update(Actor).where(Actor.id == actor_row_id).values(cancelled_at=now, password_hash=None)
    )
    return Cancellation(handed_over, deleted, registrations - handed_over - deleted)


def lock_actor(connection: Connection, actor_row_id: int) -> Any:
    """Lock the row of an actor until the end of the transaction.

    The lock stops other processes from adding or changing registrations of the actor.

    :returns: actor_id, address, email and failing_since; None if the actor is cancelled or does not
        exist.
    """
    statement = select(Actor.actor_id, ADDRESS, Actor.email, Actor.failing_since)
    active = statement.where(Actor.id == actor_row_id, Actor.cancelled_at.is_(None))
    return connection.execute(active.with_for_update()).one_or_none()
