"""Passwords of actors: the rate limit, and that nobody learns which actors exist."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, func, insert, select, update
from support.cases import for_each
from support.document_registries import a_document_registry, a_location, refusal
from support.registries import CHEAP, NOON, resolver_database
from support.resolving import statements_of

from flask_ibi_archive.core.protocol.registry_2008.model import (
    ChangeActor,
    ChangeEMailAddress,
    ChangePassword,
    Credentials,
    DeleteDocumentRegistration,
    DisplayIDRegistration,
    RegisterDocument,
)
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver import archives
from flask_ibi_archive.resolver.archives import COST, MAX_OF_SENDER, WINDOW, hash_secret
from flask_ibi_archive.resolver.archives import MAX_OF_TARGET as MAX_OF_ACTOR
from flask_ibi_archive.resolver.registry_2008.passwords import (
    Denied,
    authenticate,
    count_registration,
    limit_passwords,
)
from flask_ibi_archive.resolver.registry_2008.tables import Actor, PasswordAttempt
from flask_ibi_archive.server.database.database import Database

#: For tests that do not depend on the kind of database.
memory = pytest.mark.parametrize("uri", ["sqlite://"])
PASSWORD, WRONG = "right", "wrong"
KNOWN, OTHER = "a.br/known/2008/01.01.00.00", "a.br/other/2008/01.01.00.00"
UNKNOWN, CANCELLED = "a.br/nobody/2008/01.01.00.00", "a.br/cancelled/2008/01.01.00.00"
#: The registered IP address of all actors, and the addresses of other senders.
ITS_OWN = "150.163.2.166"
SENDERS = [f"8.8.4.{number}" for number in range(50)]

#: What happens to an attempt, as texts.
RIGHT, DENIED, LIMITED = "right", "denied", "too-many-attempts"


class Gate:
    """The check of passwords on a database, with a fixed clock."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.time: datetime = NOON
        for actor_id in (KNOWN, OTHER, CANCELLED):
            self.add(actor_id)
        with database.writing() as connection:
            connection.execute(
                update(Actor)
                .where(Actor.actor_id == CANCELLED)
                .values(cancelled_at=NOON, password_hash=None)
            )

    def add(self, actor_id: str, cost: int = CHEAP) -> None:
        """Insert an actor."""
        values = {
            "actor_id": actor_id,
            "computer_name": "hermes",
            "domain_name": "dpi.inpe.br",
            "ip": ITS_OWN,
            "port": 80,
            "email": "a@b.br",
            "password_hash": hash_secret(PASSWORD, cost),
            "registered_at": NOON,
        }
        with self.database.writing() as connection:
            connection.execute(insert(Actor).values(values))

    def check(
        self,
        actor_id: str = KNOWN,
        sender: str = SENDERS[0],
        password: str = WRONG,
        cost: int = CHEAP,
    ) -> tuple[str, str, int | None]:
        """Send a password, and return what happens, with the message and the seconds to wait."""
        try:
            credentials = Credentials(actor_id, password)
            authenticate(self.database, credentials, sender, self.time, cost)
        except Denied as error:
            return DENIED, str(error), None
        except DocumentRegistryError as error:
            return error.code, str(error), error.retry_after
        return RIGHT, "", None

    def send(self, *words: str) -> str:
        """Send a password, and return what happens."""
        return self.check(*words)[0]

    def register(self, sender: str = SENDERS[0]) -> str:
        """Count a request to register an actor, and return what happens."""
        try:
            count_registration(self.database, sender, self.time)
        except DocumentRegistryError as error:
            return error.code
        return RIGHT

    def count(self) -> int:
        """Return how many attempts are stored."""
        with self.database.reading() as connection:
            return connection.scalar(select(func.count()).select_from(PasswordAttempt)) or 0

    def forget(self) -> None:
        """Delete all attempts."""
        with self.database.writing() as connection:
            connection.execute(delete(PasswordAttempt))


@pytest.fixture
def gate(uri: str) -> Iterator[Gate]:
    with resolver_database(uri) as database:
        yield Gate(database)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The parameters of each computation of scrypt: N, r, p, and the length of the salt."""
    found: list[tuple[Any, ...]] = []
    scrypt = hashlib.scrypt

    def compute(password: bytes, *, salt: bytes, n: int, r: int, p: int, **more: Any) -> bytes:
        found.append((n, r, p, len(salt)))
        return scrypt(password, salt=salt, n=n, r=r, p=p, **more)

    monkeypatch.setattr(hashlib, "scrypt", compute)
    return found


# --- nobody learns which actors exist ------------------------------------------------------------


@pytest.mark.rule("P4-18")
def test_wrong_passwords_unknown_and_cancelled_actors_cannot_be_distinguished(
    gate: Gate, computed: list[tuple[Any, ...]]
) -> None:
    def observe(actor_id: str, password: str, sender: str) -> tuple[object, ...]:
        computed.clear()
        with statements_of(gate.database) as sent:
            outcome = gate.check(actor_id, sender, password)
        return outcome, tuple(sent), tuple(computed)

    histories: dict[str, list[tuple[object, ...]]] = {}
    for actor_id, password in [(KNOWN, WRONG), (UNKNOWN, WRONG), (CANCELLED, PASSWORD)]:
        gate.forget()
        gate.time = NOON
        observed = histories.setdefault(actor_id, [])
        for number in range(MAX_OF_ACTOR + MAX_OF_SENDER):  # both limits are reached
            observed.append(observe(actor_id, password, SENDERS[number // (MAX_OF_SENDER + 1)]))
            gate.time += timedelta(milliseconds=700)
    assert histories[UNKNOWN] == histories[KNOWN] == histories[CANCELLED]
    outcomes = Counter(outcome[0] for outcome, *_ in histories[KNOWN])  # type: ignore[index]
    assert outcomes == {DENIED: MAX_OF_ACTOR, LIMITED: MAX_OF_SENDER}
    for outcome, sent, scrypts in histories[KNOWN]:
        if outcome[0] == LIMITED:  # type: ignore[index]
            assert (len(sent), scrypts) == (1, ())  # type: ignore[arg-type]
        else:
            assert scrypts == ((CHEAP, 8, 1, 16),)


def test_each_verb_refuses_them_with_the_same_error_statements_and_computations(
    gate: Gate, computed: list[tuple[Any, ...]]
) -> None:
    registry = a_document_registry(gate.database)
    requests: list[tuple[Callable[..., object], Callable[[Credentials], object]]] = [
        (registry.change_password, lambda one: ChangePassword(one, "new")),
        (registry.change_email, lambda one: ChangeEMailAddress(one, "a@b.br")),
        (registry.register_document, lambda one: RegisterDocument(one, a_location())),
        (registry.register_document, lambda one: RegisterDocument(one, a_location(), KNOWN)),
        (registry.change_actor, lambda one: ChangeActor(one, KNOWN, OTHER)),
        (registry.delete_registration, lambda one: DeleteDocumentRegistration(one, KNOWN)),
        (registry.display, lambda one: DisplayIDRegistration(one, KNOWN)),
    ]
    for call, build_request in requests:
        observed = []
        for actor_id, password in [(KNOWN, WRONG), (UNKNOWN, WRONG), (CANCELLED, PASSWORD)]:
            request = build_request(Credentials(actor_id, password))
            gate.forget()
            computed.clear()
            with statements_of(gate.database) as sent:
                error = refusal(call, request, SENDERS[0])
            observed.append((error, sent, list(computed)))
        assert observed[0] == observed[1] == observed[2]
        assert observed[0][0][0] == DENIED
        assert len(computed) == 1


@memory
def test_an_unknown_actor_costs_as_much_as_an_actor_with_a_hash_of_today(
    gate: Gate, computed: list[tuple[Any, ...]]
) -> None:
    gate.add("a.br/today/2008/01.01.00.00", COST)
    computed.clear()
    for actor_id in ("a.br/today/2008/01.01.00.00", UNKNOWN, CANCELLED):
        gate.check(actor_id, cost=COST)
    assert computed == [(COST, 8, 1, 16)] * 3


# --- the limits ----------------------------------------------------------------------------------


@pytest.mark.rule("P4-18")
@for_each(
    ("name", "attempts", "last", "expected"),
    [
        # the name, (count, actorID, senders) of wrong passwords, the last attempt, what happens
        ("no attempt", [], (KNOWN, SENDERS[0], PASSWORD), RIGHT),
        ("nine wrong", [(9, KNOWN, SENDERS[:1])], (KNOWN, SENDERS[0], PASSWORD), RIGHT),
        ("ten wrong", [(10, KNOWN, SENDERS[:1])], (KNOWN, SENDERS[0], PASSWORD), LIMITED),
        ("ten, other sender", [(10, KNOWN, SENDERS[:1])], (KNOWN, SENDERS[1], PASSWORD), RIGHT),
        ("ten, other actor", [(10, KNOWN, SENDERS[:1])], (OTHER, SENDERS[0], PASSWORD), LIMITED),
        ("ten for nobody", [(10, UNKNOWN, SENDERS[:1])], (KNOWN, SENDERS[0], PASSWORD), LIMITED),
        ("10 in total", [(5, KNOWN, SENDERS[:1]), (5, UNKNOWN, SENDERS[:1])], (OTHER,), LIMITED),
        ("29 for the actor", [(29, KNOWN, SENDERS)], (KNOWN, SENDERS[49], PASSWORD), RIGHT),
        ("30 for the actor", [(30, KNOWN, SENDERS)], (KNOWN, SENDERS[49], PASSWORD), LIMITED),
        ("30, own address", [(30, KNOWN, SENDERS)], (KNOWN, ITS_OWN, PASSWORD), RIGHT),
        ("30, other actor", [(30, KNOWN, SENDERS)], (OTHER, SENDERS[49], PASSWORD), RIGHT),
        ("10 from own address", [(10, KNOWN, [ITS_OWN])], (KNOWN, ITS_OWN, PASSWORD), LIMITED),
        ("30 for nobody", [(30, UNKNOWN, SENDERS)], (UNKNOWN, SENDERS[49], PASSWORD), LIMITED),
        ("29 for nobody", [(29, UNKNOWN, SENDERS)], (UNKNOWN, SENDERS[49], PASSWORD), DENIED),
        ("one /64", [(10, KNOWN, [f"2001:4860::{n}" for n in "0123456789"])],
         (KNOWN, "2001:4860::ffff", PASSWORD), LIMITED),
        ("another /64", [(10, KNOWN, ["2001:4860::1"])], (KNOWN, "2001:4860:0:1::1", PASSWORD),
         RIGHT),
    ],
)  # fmt: skip
@memory
def test_limits(
    name: str, attempts: list[Any], last: tuple[str, ...], expected: str, gate: Gate
) -> None:
    gate.forget()
    with gate.database.writing() as connection:  # as the check of a wrong password does
        for count, actor_id, senders in attempts:
            for number in range(count):
                sender = senders[number % len(senders)]
                limit = limit_passwords(gate.database, sender, gate.time, actor_id)
                limit.store_attempt(connection)
    assert gate.send(*last) == expected


def test_the_wait_ends_when_the_seconds_have_passed(gate: Gate) -> None:
    for _ in range(MAX_OF_SENDER):
        assert gate.send() == DENIED
        gate.time += timedelta(seconds=1.5)
    outcome, message, wait = gate.check()
    assert outcome == LIMITED
    assert message.endswith(f"; try again in {wait} s")
    assert wait is not None
    assert 0 < wait <= WINDOW.total_seconds()
    gate.time += timedelta(seconds=wait)
    assert [gate.send() for _ in range(2)] == [DENIED, LIMITED]


@memory
def test_a_right_password_clears_the_attempts_of_its_sender_for_its_actor(gate: Gate) -> None:
    for _ in range(MAX_OF_SENDER + 1):
        assert gate.send(KNOWN, SENDERS[0], PASSWORD) == RIGHT
    assert gate.count() == 0
    for actor_id, sender in [(KNOWN, SENDERS[0]), (OTHER, SENDERS[0]), (KNOWN, SENDERS[1])]:
        assert [gate.send(actor_id, sender) for _ in range(3)] == [DENIED] * 3
    assert gate.send(KNOWN, SENDERS[0], PASSWORD) == RIGHT
    # nobody can use an own actor to clear the attempts for another actor
    assert gate.count() == 6
    assert [gate.send(OTHER) for _ in range(MAX_OF_SENDER - 2)][-2:] == [DENIED, LIMITED]


@memory
def test_requests_to_register_an_actor_are_limited_for_each_sender(gate: Gate) -> None:
    maximum = MAX_OF_SENDER
    for sender in SENDERS[:4]:  # together they exceed the limit of an actor
        results = [gate.register(sender) for _ in range(maximum + 1)]
        assert results == [RIGHT] * maximum + [LIMITED]
    # passwords are counted separately
    assert gate.send() == DENIED
    gate.time += WINDOW
    assert gate.register() == RIGHT
    assert gate.count() == 1


@memory
def test_setting_the_clock_back_locks_out_nobody(gate: Gate) -> None:
    gate.time += timedelta(days=900)
    assert [gate.send() for _ in range(MAX_OF_SENDER + 1)][-2:] == [DENIED, LIMITED]
    gate.time = NOON
    assert gate.send() == DENIED
    # a small difference, as between the clocks of two servers, does not affect the limit
    assert [gate.send() for _ in range(MAX_OF_SENDER)][-2:] == [DENIED, LIMITED]
    gate.time -= WINDOW / 2
    assert gate.send() == LIMITED


@memory
def test_old_attempts_for_all_actors_are_deleted(gate: Gate) -> None:
    for number, sender in enumerate(SENDERS):
        assert gate.send(f"a.br/{number}/2008/01.01.00.00", sender) == DENIED
    assert gate.count() == len(SENDERS)
    gate.time += WINDOW
    assert gate.send() == DENIED
    assert gate.count() == 1


@memory
def test_no_statement_reads_the_whole_table_of_attempts(gate: Gate) -> None:
    with statements_of(gate.database) as sent:
        gate.register()
        gate.send(KNOWN, SENDERS[0], PASSWORD)
    statements = [one for one in sent if PasswordAttempt.__tablename__ in one]
    assert len(statements) == 9  # two SELECT, DELETE and INSERT each, and the last DELETE
    with gate.database.reading() as connection:
        for statement in statements:
            values = (NOON.isoformat(),) * statement.count("?")
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            assert not [step for *_, step in plan if step.startswith("SCAN ibi")], statement


def test_concurrent_passwords_are_limited(gate: Gate, computed: list[tuple[Any, ...]]) -> None:
    start = Barrier(8)

    def send(number: int) -> list[str]:
        start.wait()
        return [gate.send(actor_id) for actor_id in (KNOWN, UNKNOWN, OTHER)]

    with ThreadPoolExecutor(8) as pool:
        outcomes = Counter(one for found in pool.map(send, range(8)) for one in found)
    assert outcomes == {DENIED: MAX_OF_SENDER, LIMITED: 24 - MAX_OF_SENDER}
    assert len(computed) == MAX_OF_SENDER


#: An attempt: seconds since the last attempt, the sender, the actorID and the password.
ATTEMPTS = st.tuples(
    st.sampled_from([0, 0, 0, 5, 31]),
    st.sampled_from([SENDERS[0], SENDERS[0], SENDERS[1], ITS_OWN]),
    st.sampled_from([KNOWN, KNOWN, OTHER, UNKNOWN, CANCELLED]),
    st.sampled_from([WRONG, WRONG, WRONG, PASSWORD]),
)


@memory
@given(attempts=st.lists(ATTEMPTS, min_size=6, max_size=14))
def test_random_attempts_are_limited_as_a_model_says(
    gate: Gate, low_limits: tuple[int, int], attempts: list[tuple[int, str, str, str]]
) -> None:
    max_of_sender, max_of_actor = low_limits
    gate.forget()
    counted: list[tuple[datetime, str, str]] = []
    for seconds, sender, actor_id, password in attempts:
        gate.time += timedelta(seconds=seconds)
        recent = [one for one in counted if one[0] > gate.time - WINDOW]
        of_sender = sum(one[1] == sender for one in recent)
        of_actor = sum(one[2] == actor_id for one in recent)
        is_own = sender == ITS_OWN and actor_id != UNKNOWN
        if of_sender >= max_of_sender or (of_actor >= max_of_actor and not is_own):
            expected = LIMITED
        elif password == PASSWORD and actor_id in (KNOWN, OTHER):
            expected = RIGHT
            counted = [one for one in counted if one[1:] != (sender, actor_id)]
        else:
            expected = DENIED
            counted.append((gate.time, sender, actor_id))
        assert gate.send(actor_id, sender, password) == expected


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Set lower limits for a sender and an actor, which random attempts reach."""
    monkeypatch.setattr(archives, "MAX_OF_SENDER", 2)
    monkeypatch.setattr(archives, "MAX_OF_TARGET", 3)
    return 2, 3
