"""The check of actors: an actor none of whose URLs has worked for two years is cancelled.

Source: [P] 4.1, note 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Connection, delete, exists, func, select, update

from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.registry_2008.tables import (
    LOCK,
    Actor,
    Registration,
    parse_location,
)
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import read_pages
from flask_ibi_archive.server.http.transport import find_link_error

#: An actor is cancelled if its URLs have not worked for this time.
PERIOD = timedelta(days=730)
#: The number of actors that are checked at the same time.
THREADS = 8


class ActorChange(NamedTuple):
    """A change of an actor.

    :param state: "failing" (the first time that no URL works), "works again" or "cancelled".
    :param error: the reason why the last URL does not work, or None.
    """

    actor_id: str
    email: str
    state: str
    error: str | None


def check_actors(
    database: Database,
    config: ResolverConfig,
    dry_run: bool = False,
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
) -> Iterator[ActorChange]:
    """Check all actors that have registrations, and yield each change after it was stored.

    No transaction is open while URLs are requested. If no URL of several actors works, the network
    of the resolver is probably down, and nothing is stored.

    :param dry_run: True changes nothing in the database.
    :raises ConnectionError: if no URL of several actors works.
    """
    columns = (Actor.id, Actor.actor_id, Actor.email, Actor.failing_since)
    registered = exists().where(Registration.actor_id == Actor.id)
    actors = database.read_rows(select(*columns).where(registered).order_by(Actor.id))
    checked_at = now()
    with ThreadPoolExecutor(THREADS) as pool:
        errors = list(pool.map(lambda actor: _find_error(database, config, actor.id), actors))
    if len(actors) > 1 and None not in errors:
        raise ConnectionError(f"no URL of {len(actors)} actors works")
    for actor, error in zip(actors, errors, strict=True):
        since = actor.failing_since
        if error is None:
            state = "works again" if since else ""
        elif since is None:
            state = "failing"
        else:
            state = "cancelled" if checked_at - since >= PERIOD else ""
        if state and (dry_run or _store(database, actor.id, since, state, checked_at)):
            yield ActorChange(actor.actor_id, actor.email, state, error)


def _find_error(database: Database, config: ResolverConfig, actor: int) -> str | None:
    """Return why the last URL of an actor does not work; None if one of its URLs works."""
    own = select(Registration.id, Registration.location).where(Registration.actor_id == actor)
    base_url = config.service_url or config.service_ibi
    error, unreachable = None, set()
    for row in read_pages(database.read_rows, own, Registration.id):
        location = parse_location(row.location)
        for url in filter(None, [location.url, *[one.url for one in location.metadata]]):
            host = urlsplit(url).netloc
            if host in unreachable:
                continue  # requests for all URLs of a host that is down could take days
            found = find_link_error(url, base_url, config.inner_hosts)
            if found is None:
                return None
            error = found.reason
            if found.is_of_host:
                unreachable.add(host)
    return error


def _store(
    database: Database, actor: int, since: datetime | None, state: str, checked_at: datetime
) -> bool:
    """Store a change; return False if the actor has registered URLs since the check."""
    with database.writing(table_lock=LOCK) as connection:
        unchanged = Actor.failing_since.is_not_distinct_from(since)
        changed = connection.execute(
            update(Actor)
            .where(Actor.id == actor, unchanged)
            .values(failing_since=checked_at if state == "failing" else None)
        ).rowcount
        if changed and state == "cancelled":
            _cancel(connection, actor)
    return bool(changed)


def _cancel(connection: Connection, actor: int) -> None:
    """Cancel the registration of an actor, and delete its registrations of documents.

    Each document of the actor goes to the actor with the oldest copy, but this actor does not get
    the copyright. The row of the actor remains, so that nobody gets the same IBI again.
    """
    connection.execute(delete(Registration).where(Registration.actor_id == actor))
    without_holder = (
        select(func.min(Registration.id))
        .group_by(Registration.document_id)
        .having(func.count().filter(~Registration.is_copy) == 0)
    )
    oldest = Registration.id.in_(without_holder)
    connection.execute(update(Registration).where(oldest).values(is_copy=False))
    connection.execute(update(Actor).where(Actor.id == actor).values(password_hash=None))
