"""The check and the cancellation of actors: many actors, and changes at the same time."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from random import Random
from threading import Lock

import pytest
from sqlalchemy import func, insert, select
from support.document_registries import actor_ibi, add_actors
from support.registries import CHEAP, NOON, a_config

from flask_ibi_archive.core.protocol.registry_2008.model import (
    ChangeActor,
    Credentials,
    DeleteDocumentRegistration,
    DocumentLocation,
    RegisterDocument,
)
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.archives import hash_secret
from flask_ibi_archive.resolver.registry_2008 import actor_check
from flask_ibi_archive.resolver.registry_2008.actor_check import PERIOD, ActorChecker
from flask_ibi_archive.resolver.registry_2008.actors import cancel_actor
from flask_ibi_archive.resolver.registry_2008.document_registry import DocumentRegistry
from flask_ibi_archive.resolver.registry_2008.tables import Actor, Document, Registration
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.http.link_check import LinkError

pytestmark = pytest.mark.slow

MIB = 2**20


@pytest.mark.parametrize("all_fail", [False, True])
def test_the_check_of_3000_actors_needs_little_memory(
    database: Database, monkeypatch: pytest.MonkeyPatch, all_fail: bool
) -> None:
    """The actors have 30,000 URLs. If all URLs fail, all results are in memory at the end."""
    actors, documents = 3_000, 10
    _fill(database, actors, documents)

    def check(url: str, *words: object) -> LinkError | None:
        is_broken = all_fail or int(url.rpartition("/")[2]) % documents < documents - 1
        return LinkError("answers 404 (Not Found)") if is_broken else None

    monkeypatch.setattr(actor_check, "find_link_error", check)
    checker = ActorChecker(database, a_config(), delay=0, now=lambda: NOON + PERIOD)
    tracemalloc.start()
    try:
        assert list(checker.run()) == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert checker.results == {"failing" if all_fail else "working": actors}
    assert checker.unconfirmed == (actors if all_fail else 0)
    assert peak < (4 if all_fail else 2) * MIB


def _fill(database: Database, actors: int, documents: int) -> None:
    """Register actors, each with some documents."""
    actor = {
        "computer_name": "x",
        "domain_name": "a.br",
        "ip": "150.163.2.14",
        "port": 80,
        "email": "x@a.br",
        "password_hash": "hash",
        "registered_at": NOON,
    }
    with database.writing() as connection:
        connection.execute(
            insert(Actor), [{"id": n, "actor_id": str(n), **actor} for n in range(1, actors + 1)]
        )
        for first in range(0, actors * documents, 30_000):
            numbers = range(first, first + 30_000)
            holders = {n: n // documents + 1 for n in numbers}
            connection.execute(
                insert(Document),
                [
                    {"id": n + 1, "document_id": str(n), "holder_id": holders[n], "is_original": 0}
                    for n in numbers
                ],
            )
            connection.execute(
                insert(Registration),
                [
                    {
                        "document_id": n + 1,
                        "actor_id": holders[n],
                        "url": f"http://x.a.br/{n}",
                        "updated_at": NOON,
                    }
                    for n in numbers
                ],
            )


@pytest.mark.parametrize("seed", range(3))
def test_cancellations_and_operations_at_the_same_time(database: Database, seed: int) -> None:
    """No operation fails with another error than those of the protocol, and none is lost."""
    config = a_config(IBI_RESOLVER_REGISTRY=True, SERVER_NAME="urlib.net")
    registry = DocumentRegistry(database, config, lambda *asked: {}, cost=CHEAP)
    names = [chr(ord("A") + number) for number in range(26)]
    add_actors(database, names, password_hash=hash_secret("secret", CHEAP))
    documents = [f"a.br/d/2001/01.01.00.{number:02}" for number in range(10)]
    location = DocumentLocation("http://x.a.br/", NOON)
    cancelled = 0
    codes: set[str] = set()
    lock = Lock()

    def work(thread: int) -> None:
        nonlocal cancelled
        random = Random(f"{seed} {thread}")
        for number in range(100):
            credentials = Credentials(actor_ibi(random.choice(names)), "secret")
            document, other = random.choice(documents), actor_ibi(random.choice(names))
            sender = f"8.{thread}.{number}.8"  # the rate limit must not stop the test
            kind = random.randrange(20)
            try:
                if kind < 10:
                    request = RegisterDocument(credentials, location, document, kind < 2)
                    registry.register_document(request, sender)
                elif kind < 14:
                    registry.change_actor(ChangeActor(credentials, document, other), sender)
                elif kind < 19:
                    deletion = DeleteDocumentRegistration(credentials, document)
                    registry.delete_registration(deletion, sender)
                else:
                    with database.writing() as connection:
                        row = random.randrange(1, 27)
                        done = cancel_actor(connection, row, NOON + timedelta(number))
                    with lock:
                        cancelled += done is not None
            except DocumentRegistryError as error:
                codes.add(error.code)

    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(work, range(4)):
            pass
    assert codes <= {"denied", "conflict", "malformed"}
    with database.reading() as connection:
        is_cancelled = Actor.cancelled_at.is_not(None)
        assert connection.scalar(select(func.count()).where(is_cancelled)) == cancelled > 0
        left = select(func.count()).select_from(Registration)
        of_cancelled = left.join(Actor, Actor.id == Registration.actor_id).where(is_cancelled)
        assert connection.scalar(of_cancelled) == 0
        assert connection.scalar(left) != 0
