"""The Archives of a resolver: registration, inclusion, exclusion, keys, and their rows."""

from __future__ import annotations

import logging
import re
import traceback
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Event
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import insert, select, update
from support.claiming import store_claims
from support.registries import (
    CHEAP,
    KEY,
    NOON,
    SERVICE,
    Calls,
    a_registry,
    a_request,
    confirms,
    included,
)

from flask_ibi_archive.core.claim import format_key
from flask_ibi_archive.core.protocol.inclusion import (
    EXCLUSION_REQUEST,
    RegistrationStatus,
    format_registration_status,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import RegistrationError, TransportError
from flask_ibi_archive.resolver import archives
from flask_ibi_archive.resolver.archives import (
    EXCLUDED,
    INCLUDED,
    MAX_OF_ARCHIVE,
    MAX_OF_SENDER,
    NOT_CONFIRMED,
    REGISTERED,
    WINDOW,
    Archive,
    KeyAttempts,
    RegistrationRefused,
    Registry,
    hash_secret,
    matches_hash,
)
from flask_ibi_archive.resolver.tables import ClaimedName, Conflict, FollowedArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.http.transport import HttpResponse

OTHER_KEY = "9876543210"
OTHER = "a.br/other/2001/01.01.00.00"
UNKNOWN = "a.br/unknown/2001/01.01.00.00"
#: For tests that do not depend on the kind of database.
memory = pytest.mark.parametrize("uri", ["sqlite://"])


@pytest.fixture
def registry(database: Database) -> Registry:
    """A registry with one Archive, which confirms its inclusion."""
    registry = a_registry(database)
    registry.register(SERVICE, KEY)
    return registry


def only(registry: Registry) -> Archive:
    [record] = registry.list()
    return record


def include(registry: Registry, **values: Any) -> RegistrationStatus:
    return registry.process(a_request(**values))


def exclude(registry: Registry, **values: Any) -> RegistrationStatus:
    return registry.process(a_request(EXCLUSION_REQUEST, **values))


# --- keys ----------------------------------------------------------------------------------------


def test_a_key_is_stored_as_a_salted_hash() -> None:
    key_hash = hash_secret(KEY, CHEAP)
    assert key_hash != hash_secret(KEY, CHEAP)
    assert key_hash.startswith(f"scrypt:{CHEAP}:8:1$")
    assert hash_secret(KEY).startswith("scrypt:16384:8:1$")
    assert len(hash_secret(KEY)) <= 255
    assert KEY not in key_hash
    assert matches_hash(KEY, key_hash)
    assert matches_hash(KEY, hash_secret(KEY, 2 * CHEAP))
    assert not matches_hash(f"{KEY}0", key_hash)


@memory
def test_keys_do_not_appear_in_messages_or_logs(
    database: Database, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    include(registry)
    wrong, none = OTHER_KEY, "hush-hush"
    told = [repr(registry.list()), repr(a_request())]
    for refused in (
        lambda: include(registry, key=wrong),
        lambda: include(registry, service_ibi=UNKNOWN),
        lambda: registry.register(SERVICE, wrong),
        lambda: registry.register(SERVICE, none),
    ):
        with pytest.raises((RegistrationError, ValueError)) as refusal:
            refused()
        told += [*traceback.format_exception(refusal.value), repr(vars(refusal.value))]
    told.append(str(registry.find(SERVICE)))
    told += caplog.messages
    for line in told:
        assert not any(key in line for key in (KEY, wrong, none))


# --- registration --------------------------------------------------------------------------------


def test_registering_an_archive_twice_has_no_effect(database: Database) -> None:
    registry = a_registry(database)
    assert registry.register(SERVICE.upper(), KEY, "banon@dpi.inpe.br")
    first = only(registry)
    assert (first.service_ibi, first.email) == (SERVICE, "banon@dpi.inpe.br")
    assert first.state == (REGISTERED, NOON)
    assert not registry.register(SERVICE, KEY)
    assert only(registry) == first
    assert registry.find(SERVICE) == first
    assert not registry.register(SERVICE, KEY, "other@dpi.inpe.br")
    assert only(registry) == replace(first, email="other@dpi.inpe.br")


def test_another_key_replaces_the_first_only_with_replace(registry: Registry) -> None:
    include(registry)
    before = only(registry)
    with pytest.raises(RegistrationError, match=r"with another key; .* use --replace"):
        registry.register(SERVICE, OTHER_KEY, "other@dpi.inpe.br")
    assert only(registry) == before
    include(registry)
    assert not registry.register(SERVICE, OTHER_KEY, replace=True)
    assert only(registry).state == before.state
    with pytest.raises(RegistrationRefused):
        exclude(registry)
    assert exclude(registry, key=OTHER_KEY).archive == "excluded"


# --- inclusion and exclusion ---------------------------------------------------------------------


@pytest.mark.rule("R5-09", "R5-12")
@memory
def test_an_archive_is_called_for_confirmation_before_inclusion(database: Database) -> None:
    ours = a_registry(database)

    def answer() -> HttpResponse:
        # no transaction is open: others can write, and the Archive is not included yet
        ours.register(OTHER, KEY)
        assert ours.list()[0].included_at is None
        return confirms()

    ours.fetch = calls = Calls(answer)
    ours.register(SERVICE, KEY)
    status = include(ours)
    assert format_registration_status(status) == (
        "status.archive included status.confirmation successful"
    )
    assert calls.made == [
        (
            "http://banon-pc2.dpi.inpe.br/dpi.inpe.br/banon/1999/01.09.22.14",
            "servicesubject=inclusionConfirmationRequest",
            5,
            65536,
        )
    ]
    record = ours.list()[0]
    assert record.state[0] == INCLUDED
    assert (record.address, record.ip) == ("banon-pc2.dpi.inpe.br", "150.163.2.166")
    assert record.platform_version == "2014:11.09.02.16.15"
    assert record.admin_email == "banon@dpi.inpe.br"


NO_CONFIRMATION: list[HttpResponse | TransportError] = [
    confirms(status=500),
    confirms(status=302, location="http://elsewhere/"),
    confirms(content_type="text/html"),
    confirms("confirmation no"),
    confirms("confirmation {yes yes}"),
    confirms("confirmation yes confirmation no"),
    confirms("alert {confirmation yes}"),
    confirms("confirmation {yes"),
    confirms(""),
    replace(confirms(), complete=False),
    TransportError("http://x", "timeout", "took too long", True),
]


@pytest.mark.rule("R5-11")
def test_an_archive_is_included_even_if_it_does_not_confirm(registry: Registry) -> None:
    assert include(registry).confirmed
    for answer in NO_CONFIRMATION:
        registry.fetch = Calls(answer)
        status = include(registry)
        assert (status.archive, status.confirmation) == ("included", "unsuccessful"), answer
        assert only(registry).state[0] == NOT_CONFIRMED
    registry.fetch = Calls(confirms(" confirmation\tyes\n more {}", content_type="Text/Plain; x=y"))
    assert include(registry).confirmed


@pytest.mark.rule("R5-13", "R5-14")
def test_an_excluded_archive_stays_registered_and_can_return(registry: Registry) -> None:
    include(registry)
    assert format_registration_status(exclude(registry)) == "status.archive excluded"
    excluded = only(registry)
    assert excluded.state[0] == EXCLUDED
    assert (excluded.included_at, excluded.confirmed_at) == (None, None)
    registry.fetch = calls = Calls(confirms())
    status = include(
        registry,
        address="new.dpi.inpe.br:8080",
        ip="2001:db8::1",
        platform_version="2",
        admin_email="new@dpi.inpe.br",
    )
    assert status.confirmed
    assert calls.made[0][0] == f"http://new.dpi.inpe.br:8080/{SERVICE}"
    record = only(registry)
    assert record.state[0] == INCLUDED
    assert record.excluded_at is None
    assert (record.address, record.ip) == ("new.dpi.inpe.br:8080", "2001:db8::1")
    assert (record.platform_version, record.admin_email) == ("2", "new@dpi.inpe.br")
    assert record.registered_at == excluded.registered_at


@pytest.mark.rule("R5-11")
@memory
@pytest.mark.parametrize("ask", [include, exclude])
def test_a_wrong_key_and_an_unknown_archive_change_nothing(
    registry: Registry, ask: Callable[..., RegistrationStatus]
) -> None:
    registry.register(OTHER, OTHER_KEY)
    (exclude if ask is include else include)(registry)
    before = registry.list()
    registry.fetch = calls = Calls(confirms())
    told = set()
    for values in (
        {"key": OTHER_KEY},
        {"key": f"{KEY}-{KEY}"},
        {"key": f"{KEY}0"},
        {"service_ibi": UNKNOWN},
        {"service_ibi": OTHER},
    ):
        with pytest.raises(RegistrationRefused) as refusal:
            ask(registry, **values)
        assert refusal.value.status == 403
        told.add(re.sub(r"service \S+", "service SERVICE", str(refusal.value)))
    assert told == {"no Archive with the service SERVICE is registered with this key"}
    assert calls.made == []
    assert registry.list() == before


# --- at once -------------------------------------------------------------------------------------


class Slow:
    """An Archive that answers the confirmation call when the test allows it."""

    def __init__(self) -> None:
        self.called = Event()
        self.go = Event()

    def __call__(self, url: str, query: str, **options: object) -> HttpResponse:
        self.called.set()
        assert self.go.wait(60)
        return confirms()


def slowly(
    registry: Registry, meanwhile: Callable[[], object], **values: Any
) -> RegistrationStatus | RegistrationRefused:
    """Include an Archive, and call a function during the confirmation call."""
    quick, slow = registry.fetch, Slow()
    registry.fetch = slow
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(include, registry, **values)
        assert slow.called.wait(60)
        registry.fetch = quick
        try:
            meanwhile()
        finally:
            slow.go.set()
        error = waiting.exception()
        if error is None:
            return waiting.result()
        assert isinstance(error, RegistrationRefused)
        return error


def test_the_later_of_two_concurrent_requests_counts(registry: Registry) -> None:
    came = slowly(registry, lambda: exclude(registry))
    assert isinstance(came, RegistrationRefused)
    assert came.status == 409
    assert str(came).endswith("is the right one, send this request again")
    assert only(registry).state[0] == EXCLUDED
    came = slowly(registry, lambda: include(registry, address="new.dpi.inpe.br"))
    assert isinstance(came, RegistrationRefused)
    assert only(registry).address == "new.dpi.inpe.br"


@pytest.mark.postgresql
def test_concurrent_inclusions_get_the_stored_status(registry: Registry) -> None:
    came = slowly(registry, lambda: include(registry))
    assert came == RegistrationStatus("included", "successful")
    registry.fetch = Calls(confirms(status=500))
    came = slowly(registry, lambda: include(registry))
    assert came == RegistrationStatus("included", "unsuccessful")
    assert only(registry).state[0] == NOT_CONFIRMED
    # the later request has excluded and included it: its status is returned
    came = slowly(registry, lambda: (exclude(registry), include(registry)))
    assert came == RegistrationStatus("included", "unsuccessful")


def test_a_key_replaced_during_the_call_does_not_include(registry: Registry) -> None:
    other = registry.register
    came = slowly(registry, lambda: other(SERVICE, OTHER_KEY, replace=True))
    assert type(came) is RegistrationRefused
    assert only(registry).included_at is None
    came = slowly(registry, lambda: registry.remove(SERVICE), key=OTHER_KEY)
    assert type(came) is RegistrationRefused
    registry.register(SERVICE, KEY)

    def anew() -> None:
        registry.remove(SERVICE)
        registry.register(SERVICE, KEY)

    assert type(slowly(registry, anew)) is RegistrationRefused
    assert only(registry).included_at is None


# --- the rate limit of wrong keys ----------------------------------------------------------------

#: The Archive's own IP address, and the addresses of other senders.
ITS_OWN = "150.163.2.166"
SENDERS = [f"8.8.4.{number}" for number in range(50)]


class Desk:
    """A registry with a fixed clock."""

    def __init__(self, database: Database) -> None:
        self.time = 0.0
        self.registry = a_registry(database, attempts=KeyAttempts(lambda: self.time))
        for service in (SERVICE, OTHER):
            self.registry.register(service, KEY)

    def send(self, key: str = OTHER_KEY, sender: str = SENDERS[0], service: str = SERVICE) -> int:
        """Return the status of the answer."""
        request = a_request(EXCLUSION_REQUEST, service_ibi=service, key=key)
        try:
            self.registry.process(request, sender)
        except RegistrationRefused as error:
            return error.status
        return 200


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that were hashed."""
    found: list[str] = []

    def count(key: str, kept: str) -> bool:
        found.append(key)
        return matches_hash(key, kept)

    monkeypatch.setattr(archives, "matches_hash", count)
    return found


def test_wrong_keys_of_a_sender_are_limited_for_all_archives(desk: Desk, hashed: list[str]) -> None:
    for number in range(MAX_OF_SENDER):
        assert desk.send(service=UNKNOWN) == 403
        assert desk.send(service=(SERVICE, OTHER)[number % 2]) == 403
        desk.time += 1
    for service in (SERVICE, OTHER):
        assert desk.send(service=service) == 429
        # the right key is not compared either: the sender could continue to guess
        assert desk.send(KEY, service=service) == 429
    # keys of an unknown Archive are neither hashed nor counted
    assert len(hashed) == MAX_OF_SENDER
    # other senders are not affected
    assert desk.send(sender=SENDERS[1]) == 403
    assert desk.send(KEY, sender=SENDERS[1]) == 200
    # the limit does not reveal which Archives exist
    assert desk.send(service=UNKNOWN) == 403
    with pytest.raises(RegistrationRefused) as refusal:
        desk.registry.authenticate(a_request(key=OTHER_KEY), SENDERS[0])
    wait = refusal.value.retry_after
    assert 0 < wait <= WINDOW
    desk.time += wait
    assert desk.send() == 403
    assert desk.send() == 429
    desk.time += WINDOW
    assert desk.send(KEY) == 200


def test_many_wrong_keys_do_not_lock_out_the_archives_own_address(
    desk: Desk, hashed: list[str]
) -> None:
    desk.registry.process(a_request(ip=ITS_OWN), ITS_OWN)
    hashed.clear()
    came = [desk.send(sender=sender) for sender in SENDERS]
    assert came == [403] * MAX_OF_ARCHIVE + [429] * (len(SENDERS) - MAX_OF_ARCHIVE)
    assert len(hashed) == MAX_OF_ARCHIVE
    assert desk.send(KEY, sender=SENDERS[-1]) == 429
    assert desk.send(KEY, sender=ITS_OWN) == 200
    # the limit of a sender applies to this address too
    assert [desk.send(sender=ITS_OWN) for _ in range(MAX_OF_SENDER + 1)][-2:] == [403, 429]
    # other Archives are not affected
    assert desk.send(KEY, sender=SENDERS[-1], service=OTHER) == 200
    desk.time += WINDOW
    assert desk.send(KEY, sender=SENDERS[-1]) == 200


def test_concurrent_keys_are_limited(desk: Desk, hashed: list[str]) -> None:
    start = Barrier(8)

    def send(number: int) -> list[int]:
        start.wait()
        return [desk.send() for _ in range(3)]

    with ThreadPoolExecutor(8) as pool:
        statuses = [status for found in pool.map(send, range(8)) for status in found]
    assert statuses.count(403) == len(hashed) == MAX_OF_SENDER
    assert statuses.count(429) == len(statuses) - MAX_OF_SENDER


# --- the keys of claims --------------------------------------------------------------------------

FIRST, SECOND = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)).public_key() for n in (1, 2))
FIRST_TEXT, SECOND_TEXT = (b64encode(key.public_bytes_raw()).decode() for key in (FIRST, SECOND))


@pytest.fixture
def calls(registry: Registry) -> Calls:
    """What the Archive answers."""
    assert isinstance(registry.fetch, Calls)
    return registry.fetch


def pinned(database: Database) -> list[str]:
    return [row.key for row in database.read_rows(select(FollowedArchive.key))]


def publish(text: str | bytes) -> HttpResponse:
    return HttpResponse(200, {}, text.encode() if isinstance(text, str) else text)


@pytest.mark.postgresql
def test_the_key_is_pinned_with_the_inclusion_and_another_key_lets_the_list_be_read_again(
    database: Database, registry: Registry, calls: Calls
) -> None:
    columns = select(FollowedArchive.key, FollowedArchive.position, FollowedArchive.read_at)
    for key, expected in (
        (FIRST, (FIRST_TEXT, "", None)),
        (FIRST, (FIRST_TEXT, "1-a-e", NOON)),
        (SECOND, (SECOND_TEXT, "", None)),
    ):
        calls.key = publish(format_key(SERVICE, key))
        assert registry.process(a_request()).confirmed
        assert [tuple(row) for row in database.read_rows(columns)] == [expected]
        with database.writing() as connection:
            values = {"epoch": "e", "position": "1-a-e", "read_at": NOON}
            connection.execute(update(FollowedArchive).values(**values))
    registry.process(a_request(EXCLUSION_REQUEST))
    assert pinned(database) == [SECOND_TEXT]


@pytest.mark.parametrize(
    "answer",
    [
        HttpResponse(500, {}, b"x"),
        publish("confirmation yes"),
        publish("key é"),
        HttpResponse(200, {}, format_key(SERVICE, SECOND).encode(), complete=False),
        publish(format_key(OTHER, SECOND)),
    ],
)
def test_what_is_no_key_of_the_archive_changes_nothing(
    database: Database, registry: Registry, calls: Calls, answer: HttpResponse
) -> None:
    calls.key = publish(format_key(SERVICE, FIRST))
    registry.process(a_request())
    calls.key = answer
    assert registry.process(a_request()).confirmed
    assert pinned(database) == [FIRST_TEXT]


def test_the_claims_of_an_archive_that_publishes_none_any_more_are_forgotten(
    database: Database,
) -> None:
    registry = a_registry(database)
    included(registry, 2)
    store_claims(database, {number: {OTHER: State.ORIGINAL} for number in (1, 2)})
    with database.writing() as connection:
        pair = {"first_archive_id": 1, "second_archive_id": 2}
        connection.execute(insert(Conflict).values(name=OTHER, **pair, found_at=NOON))
    registry.process(a_request())
    assert [one.archive_id for one in database.read_rows(select(ClaimedName.archive_id))] == [2]
    [(ended_at,)] = database.read_rows(select(Conflict.ended_at))
    assert ended_at is not None
