"""Operations of a document registry at the same time, as in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier

import pytest
from support.document_registries import (
    PASSWORD,
    a_document_registry,
    an_actor,
    an_ibi,
    describe,
    refusal,
    register,
)
from support.registries import resolver_database

from flask_ibi_archive.resolver.registry_2008.operations import DocumentRegistry
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER

pytestmark = pytest.mark.postgresql

DOCUMENT = an_ibi("document")
ACTORS = [an_ibi(name) for name in "abcd"]

Operation = Callable[[DocumentRegistry], object]
#: Runs operations at the same time, and returns the statuses of their errors.
Race = Callable[..., list[int]]


@pytest.fixture
def registries(uri: str) -> Iterator[list[DocumentRegistry]]:
    """Registries with connections of their own, on one database."""
    with ExitStack() as stack:
        databases = [stack.enter_context(resolver_database(uri))]
        for _ in ACTORS[1:]:
            databases.append(Database(uri, RESOLVER))
            stack.callback(databases[-1].close)
        yield [a_document_registry(one) for one in databases]


@pytest.fixture
def race(registries: list[DocumentRegistry]) -> Race:
    def run(*operations: Operation) -> list[int]:
        start = Barrier(len(operations))

        def work(place: int) -> int:
            start.wait()
            return refusal(operations[place], registries[place])[0]

        with ThreadPoolExecutor(len(operations)) as pool:
            return list(pool.map(work, range(len(operations))))

    for name in "abcd":
        an_actor(registries[0], name)
    return run


def registers(actor: str, original: bool = False) -> Operation:
    return lambda registry: register(registry, actor, DOCUMENT, original=original)


@pytest.mark.rule("P4-12")
def test_one_of_several_originals_is_accepted(
    registries: list[DocumentRegistry], race: Race
) -> None:
    assert sorted(race(*[registers(one, True) for one in ACTORS])) == [200, 409, 409, 409]
    [found] = describe(registries[0], DOCUMENT)
    assert found[2:] == "original"


@pytest.mark.rule("P4-04")
def test_identifiers_are_given_and_minted_once(
    registries: list[DocumentRegistry], race: Race
) -> None:
    new = [lambda registry: an_actor(registry, "new")] * 4
    assert sorted(race(*new)) == [200, 409, 409, 409]
    assert race(*[lambda registry: register(registry, ACTORS[0])] * 4) == [200] * 4


@pytest.mark.rule("P4-15")
def test_changes_of_actor_at_the_same_time_leave_one_document(
    registries: list[DocumentRegistry], race: Race
) -> None:
    a, b, c, d = ACTORS
    for actor in (a, b, d):
        register(registries[0], actor, DOCUMENT, original=actor is a)

    def hand_over(old: str, new: str) -> Operation:
        return lambda registry: registry.change_actor(old, PASSWORD, DOCUMENT, new)

    changes = [hand_over(*pair) for pair in ((a, b), (b, a), (a, c), (d, a))]
    assert race(*changes) == [200] * 4
    found = describe(registries[0], DOCUMENT)
    assert sorted(one[0] for one in found) == list("abcd")
    assert [one[2:] for one in found] == ["original", "copy", "copy", "copy"]
