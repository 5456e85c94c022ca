"""Registered actors of the document registry: lists, locks and cancellation ([P] 4.1).

``document_registry.py`` registers actors. The check of actors (``actor_check.py``) cancels an actor
if none of its URLs has worked for two years. The operator of the resolver can cancel an actor at
any time.

Source: [P] 4.1, note 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, func, select, update

from flask_ibi_archive.resolver.registry_2008.tables import ADDRESS, Actor, Document, Registration
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import read_pages


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
    for row in read_pages(database.read_rows, _select_actors(), Actor.id):
        yield ListedActor(*row)


def find_actor(database: Database, actor_id: str) -> ListedActor | None:
    """Return the actor with an IBI, or None.

    :param actor_id: the IBI in canonical case.
    """
    statement = _select_actors(Actor.actor_id == actor_id)
    row = database.read(lambda connection: connection.execute(statement).one_or_none())
    return None if row is None else ListedActor(*row)


def count_actors(connection: Connection) -> tuple[int, int]:
    """Return the number of actors, and the number of actors whose URLs failed in the last check.

    Cancelled actors are in neither number.
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

    Each document of the actor goes to the actor with the oldest copy, but this actor does not get
    the copyright. A document without copies is deleted. The row of the cancelled actor is not
    deleted, so that nobody gets the same IBI again.

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
