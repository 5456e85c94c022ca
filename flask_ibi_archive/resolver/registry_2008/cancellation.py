"""The cancellation of the registration of an actor.

The check of actors (``actor_check.py``) cancels an actor if none of its URLs has worked for two
years. The operator of the resolver can cancel an actor at any time.

Source: [P] 4.1, note 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from flask_ibi_archive.resolver.registry_2008.tables import ADDRESS, Actor, Document, Registration


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
