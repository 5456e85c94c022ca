"""Operations of a document registry at the same time, as in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random
from threading import Barrier

import pytest
from sqlalchemy import select
from support.document_registries import (
    a_document_registry,
    a_sender,
    actor_request,
    an_actor,
    an_ibi,
    delete,
    describe,
    hand_over,
    refusal,
    register,
)
from support.registries import NOON, resolver_database

from flask_ibi_archive.core.protocol.registry_2008.model import Credentials
from flask_ibi_archive.resolver.registry_2008.actors import cancel_actor
from flask_ibi_archive.resolver.registry_2008.document_registry import DocumentRegistry
from flask_ibi_archive.resolver.registry_2008.tables import Actor
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER

pytestmark = pytest.mark.postgresql

DOCUMENT = an_ibi("document")
#: The number of operations at the same time.
WIDTH = 4
#: The number of times that each race is run. The order of the operations differs.
REPEATS = 2

Operation = Callable[[DocumentRegistry], object]


class Desks:
    """Registries with connections of their own, on one database."""

    def __init__(self, databases: Sequence[Database]) -> None:
        self.registries = [a_document_registry(one) for one in databases]
        self.actors = [an_actor(self.registries[0], name) for name in "abcd"]

    def run(self, *operations: Operation) -> list[tuple[str, str]]:
        """Run operations at the same time, and return their refusals; ("", "") if accepted."""
        start = Barrier(len(operations))

        def work(place: int) -> tuple[str, str]:
            start.wait()
            return refusal(operations[place], self.registries[place])

        with ThreadPoolExecutor(len(operations)) as pool:
            return list(pool.map(work, range(len(operations))))

    def describe(self) -> list[str]:
        """Return the registrations of the document."""
        return describe(self.registries[0], DOCUMENT)

    def clear(self) -> None:
        """Delete the document and its copies."""
        for one in reversed(self.describe()):
            delete(self.registries[0], self.actors["abcd".index(one[0])], DOCUMENT)


@pytest.fixture
def desks(uri: str) -> Iterator[Desks]:
    with ExitStack() as stack:
        databases = [stack.enter_context(resolver_database(uri))]
        for _ in range(WIDTH - 1):
            databases.append(Database.at(uri, RESOLVER))
            stack.callback(databases[-1].close)
        yield Desks(databases)


def registers(actor: Credentials, *, original: bool = False) -> Operation:
    return lambda registry: register(registry, actor, DOCUMENT, original=original)


@pytest.mark.rule("P4-12")
def test_one_of_several_first_registrations_has_the_document(desks: Desks) -> None:
    for _ in range(REPEATS):
        assert desks.run(*map(registers, desks.actors)) == [("", "")] * WIDTH
        found = desks.describe()
        assert sorted(one[0] for one in found) == list("abcd")
        assert [one[2:] for one in found] == ["document", "copy", "copy", "copy"]
        desks.clear()


@pytest.mark.rule("P4-12")
def test_one_of_several_originals_is_accepted(desks: Desks) -> None:
    for _ in range(REPEATS):
        refused = desks.run(*(registers(one, original=True) for one in desks.actors))
        [found] = desks.describe()
        assert found[2:] == "original"
        holder = desks.actors["abcd".index(found[0])].actor_id
        for (code, message), actor in zip(refused, desks.actors, strict=True):
            assert code == ("" if actor.actor_id == holder else "conflict")
            assert message == "" or message.startswith(f"the actor {holder} has the document")
        desks.clear()


def test_one_of_several_actors_gets_an_actor_id(desks: Desks) -> None:
    for number in range(REPEATS):
        request = actor_request(an_ibi(f"new{number}"))
        refused = desks.run(
            *[lambda registry: registry.register_actor(request, a_sender())] * WIDTH  # noqa: B023
        )
        assert sorted(code for code, _ in refused) == [""] + ["conflict"] * (WIDTH - 1)


@pytest.mark.rule("P4-15")
def test_changes_of_actor_at_the_same_time_leave_one_document(desks: Desks) -> None:
    a, b, c, d = desks.actors
    for _ in range(REPEATS):
        for actor in (a, b, d):
            register(desks.registries[0], actor, DOCUMENT, original=actor is a)
        refused = desks.run(
            *(
                lambda registry, old=old, new=new: hand_over(  # type: ignore[misc]
                    registry, old, DOCUMENT, new.actor_id
                )
                for old, new in ((a, b), (b, a), (a, c), (d, a))
            )
        )
        assert refused == [("", "")] * WIDTH
        found = desks.describe()
        assert sorted(one[0] for one in found) == list("abcd")
        assert [one[2:] for one in found] == ["original", "copy", "copy", "copy"]
        desks.clear()


@pytest.mark.rule("P4-16")
def test_a_document_is_deleted_or_gets_a_copy(desks: Desks) -> None:
    a, b, *_ = desks.actors
    for _ in range(2 * REPEATS):
        register(desks.registries[0], a, DOCUMENT)
        deletion, copy = desks.run(lambda registry: delete(registry, a, DOCUMENT), registers(b))
        assert copy == ("", "")
        if deletion == ("", ""):
            assert desks.describe() == ["b document"]
        else:
            assert deletion[0] == "conflict"
            assert deletion[1].endswith(f"copies: {b.actor_id}")
            assert desks.describe() == ["a document", "b copy"]
        desks.clear()


def cancel(registry: DocumentRegistry, actor_id: str) -> None:
    """Cancel an actor."""
    with registry.database.writing() as connection:
        row_id = connection.scalar(select(Actor.id).where(Actor.actor_id == actor_id))
        if row_id is not None:
            cancel_actor(connection, row_id, NOON)


def test_an_actor_that_is_cancelled_gets_no_registration(desks: Desks) -> None:
    a = desks.actors[0]
    for number in range(2 * REPEATS):
        gone = an_actor(desks.registries[0], f"gone{number}")
        register(desks.registries[0], a, DOCUMENT)
        work: list[Operation] = [
            lambda registry: cancel(registry, gone.actor_id),  # noqa: B023
            lambda registry: hand_over(registry, a, DOCUMENT, gone.actor_id),  # noqa: B023
            registers(gone),
        ]
        refused = desks.run(*work)
        assert refused[0] == ("", "")
        assert {code for code, _ in refused} <= {"", "denied"}
        assert desks.describe() == ["a document"]
        desks.clear()


def random_operations(desks: Desks, seed: int, count: int) -> Operation:
    """Return some operations, one after another; errors other than refusals are raised."""
    random = Random(seed)
    actors = [one.actor_id for one in desks.actors]

    def work(registry: DocumentRegistry) -> None:
        for number in range(count):
            actor = random.choice(desks.actors)
            document = an_ibi(random.choice(["one", "two"]))
            match random.randrange(8):
                case 0 | 1 | 2:
                    original = random.random() < 0.3
                    refused = refusal(register, registry, actor, document, None, original)
                case 3:
                    refused = refusal(register, registry, actor)
                case 4 | 5:
                    refused = refusal(hand_over, registry, actor, document, random.choice(actors))
                case 6:
                    refused = refusal(delete, registry, actor, document)
                case _:
                    # this actor gets some documents and is then cancelled
                    other = an_actor(registry, f"temporary{seed}.{number}")
                    refusal(register, registry, other, document)
                    refusal(hand_over, registry, actor, document, other.actor_id)
                    refused = refusal(cancel, registry, other.actor_id)
            assert refused[0] in ("", "denied", "conflict", "malformed"), refused

    return work


def run_random_operations(desks: Desks, seed: int, count: int) -> None:
    work = [random_operations(desks, seed + place, count) for place in range(WIDTH)]
    assert desks.run(*work) == [("", "")] * WIDTH
    for document in (an_ibi("one"), an_ibi("two")):
        found = describe(desks.registries[0], document)
        assert [one.endswith("copy") for one in found] == [place > 0 for place in range(len(found))]


def test_random_operations_at_the_same_time_are_accepted_or_refused(desks: Desks) -> None:
    run_random_operations(desks, 1, 6)


@pytest.mark.slow
def test_many_random_operations_at_the_same_time_are_accepted_or_refused(desks: Desks) -> None:
    for seed in range(10, 50, WIDTH):
        run_random_operations(desks, seed, 60)
