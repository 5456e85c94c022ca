"""The check and the cancellation of actors: many actors, and changes at the same time."""

from __future__ import annotations

import tracemalloc

import pytest
from sqlalchemy import insert
from support.registries import NOON, a_config

from flask_ibi_archive.resolver.registry_2008.actor_check import PERIOD, ActorChecker
from flask_ibi_archive.resolver.registry_2008.tables import Actor, Document, Registration
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.http.link_requests import LinkClient, LinkStatus

pytestmark = [pytest.mark.no_tables, pytest.mark.slow]

MIB = 2**20


@pytest.mark.one_database
@pytest.mark.parametrize("all_fail", [False, True])
def test_the_check_of_3000_actors_needs_little_memory(
    database: Database, monkeypatch: pytest.MonkeyPatch, all_fail: bool
) -> None:
    """The actors have 30,000 URLs. If all URLs fail, all results are in memory at the end."""
    actors, documents = 3_000, 10
    _fill(database, actors, documents)

    def check(client: LinkClient, url: str) -> LinkStatus:
        is_broken = all_fail or int(url.rpartition("/")[2]) % documents < documents - 1
        return LinkStatus("can't be reached (Connection refused)" if is_broken else None)

    monkeypatch.setattr(LinkClient, "check", check)
    checker = ActorChecker(database, a_config(), now=lambda: NOON + PERIOD)
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
