"""The list of actors, for the operator of the resolver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

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
