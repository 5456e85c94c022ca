"""The key of an Archive's claims: read and pinned at an inclusion request (federation CL-5)."""

from __future__ import annotations

from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import insert, select, update
from support.archive_servers import Servers, http
from support.registries import (
    KEY,
    NOON,
    SERVICE,
    Calls,
    a_config,
    a_registry,
    a_request,
    confirms,
    included,
)
from support.stored_claims import store_claims

from flask_ibi_archive.core.claim import format_key
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.archives import Registry
from flask_ibi_archive.resolver.tables import ClaimedName, Conflict, FollowedArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.http.transport import HttpResponse, fetch

OTHER = "b.br/service/2001/01.01.00.00"
FIRST, SECOND = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)).public_key() for n in (1, 2))
FIRST_TEXT, SECOND_TEXT = (b64encode(key.public_bytes_raw()).decode() for key in (FIRST, SECOND))


@pytest.fixture
def calls() -> Calls:
    return Calls(confirms())


@pytest.fixture
def registry(database: Database, calls: Calls) -> Registry:
    """A resolver with a registered Archive."""
    registry = a_registry(database, calls)
    registry.register(SERVICE, KEY)
    return registry


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


def test_an_archive_that_did_not_confirm_gets_no_key_pinned(
    database: Database, registry: Registry, calls: Calls
) -> None:
    calls.answer = confirms("confirmation no")
    calls.key = publish(format_key(SERVICE, FIRST))
    assert not registry.process(a_request()).confirmed
    assert pinned(database) == []


def test_the_claims_of_an_archive_that_publishes_none_any_more_are_forgotten(
    database: Database, calls: Calls
) -> None:
    registry = a_registry(database, calls)
    included(registry, 2)
    store_claims(database, {number: {OTHER: State.ORIGINAL} for number in (1, 2)})
    with database.writing() as connection:
        pair = {"first_archive_id": 1, "second_archive_id": 2}
        connection.execute(insert(Conflict).values(name=OTHER, **pair, found_at=NOON))
    registry.process(a_request())
    assert [one.archive_id for one in database.read_rows(select(ClaimedName.archive_id))] == [2]
    [(ended_at,)] = database.read_rows(select(Conflict.ended_at))
    assert ended_at is not None


def test_the_key_is_read_from_a_real_server(database: Database, hosts: Servers) -> None:
    def answer(target: str, head: str) -> bytes | None:
        if target.startswith("/ibi/claims/key"):
            return http(format_key(SERVICE, FIRST))
        return http("confirmation yes")

    config = a_config(IBI_RESOLVER_INNER_HOSTS="127.0.0.0/8")
    registry = a_registry(database, fetch, config=config)
    registry.register(SERVICE, KEY)
    assert registry.process(a_request(address=hosts.add(answer).address)).confirmed
    assert pinned(database) == [FIRST_TEXT]
