"""The operations of the registry protocol of 2008 ([P] 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update
from support.claiming import store_claims
from support.document_registries import (
    ACTOR,
    IP,
    PASSWORD,
    a_document_registry,
    a_location,
    an_actor,
    an_ibi,
    describe,
    refusal,
    register,
)
from support.registries import a_registry, included
from support.resolving import X, resolver_over

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.registry_2008 import DocumentLocation
from flask_ibi_archive.resolver.registry_2008 import operations
from flask_ibi_archive.resolver.registry_2008.operations import DocumentRegistry, look_up_host
from flask_ibi_archive.resolver.registry_2008.tables import Actor
from flask_ibi_archive.server.database.database import Database

DOCUMENT, UNKNOWN = an_ibi("document"), an_ibi("unknown")
DENIED = (403, "the password is wrong, or an ID is unknown")


def read_columns(registry: DocumentRegistry, name: str) -> dict[str, Any]:
    """Return a column of all actors by their IBIs."""
    rows = registry.database.read_rows(select(Actor.actor_id, getattr(Actor, name)))
    return {actor_id.split("/")[1]: value for actor_id, value in rows}


@pytest.fixture
def registry(database: Database) -> DocumentRegistry:
    """A registry with the actors a, b, c and d."""
    found = a_document_registry(database)
    for name in "abcd":
        an_actor(found, name)
    return found


def cancel(registry: DocumentRegistry, actor: str) -> None:
    with registry.database.writing() as connection:
        found = update(Actor).where(Actor.actor_id == actor)
        connection.execute(found.values(password_hash=None))


# --- actors --------------------------------------------------------------------------------------


@pytest.mark.rule("P4-03")
@pytest.mark.parametrize(
    ("ip", "found", "is_right"),
    [
        (IP, ("8.8.8.8", f"::ffff:{IP}"), True),
        (IP, ("8.8.8.8",), False),
        (IP, (), False),
        ("10.0.0.1", ("10.0.0.1",), False),
        ("fe80::1", ("fe80::1%eth0",), False),
    ],
)
def test_the_ip_address_of_an_actor_must_be_a_public_one_of_its_host(
    registry: DocumentRegistry, ip: str, found: tuple[str, ...], is_right: bool
) -> None:
    asked: list[str] = []
    registry.look_up = lambda host: asked.append(host) or found  # type: ignore[func-returns-value]
    expected = f"ip {ip} is not a public IP address of hermes.dpi.inpe.br in the DNS"
    result = refusal(registry.register_actor, **{**ACTOR, "ip": ip})
    assert result == ((200, "") if is_right else (403, expected))
    assert asked in (["hermes.dpi.inpe.br"], [])


def test_the_dns_is_asked_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look_up_host("localhost") != ()

    def fail(host: str, inner_hosts: object) -> Any:
        raise OSError

    monkeypatch.setattr(operations, "look_up", fail)
    assert look_up_host("localhost") == ()
    monkeypatch.setattr(operations, "run_within", lambda seconds, work: None)
    assert look_up_host("localhost") == ()


@pytest.mark.rule("P4-06", "P4-18")
def test_a_password_and_an_email_address_are_changed(registry: DocumentRegistry) -> None:
    actor = an_ibi("a")
    registry.change_email(actor, PASSWORD, "banon@iconet.com.br")
    assert read_columns(registry, "email")["a"] == "banon@iconet.com.br"
    registry.change_password(actor, PASSWORD, "a2xY3z")
    assert refusal(register, registry, actor, DOCUMENT) == DENIED
    registry.register_document(actor, "a2xY3z", a_location(), DOCUMENT)


# --- identifiers ---------------------------------------------------------------------------------


@pytest.mark.rule("P4-04")
def test_an_identifier_of_an_archive_or_of_another_actor_is_refused(database: Database) -> None:
    claims = {an_ibi("claimed"): "a.br/archive/2001/01.01.00.00"}
    registry = a_document_registry(database, claims)
    a, b = an_actor(registry, "a"), an_actor(registry, "b")
    claimed = (409, "the Archive a.br/archive/2001/01.01.00.00 has inpe.br/claimed")
    for call in (
        lambda: an_actor(registry, "claimed"),
        lambda: register(registry, a, an_ibi("claimed")),
    ):
        status, message = refusal(call)
        assert (status, message[: len(claimed[1])]) == claimed
    register(registry, a, DOCUMENT)
    register(registry, b, DOCUMENT)  # a copy
    for call, ibi in (
        (lambda: an_actor(registry, "a"), a),
        (lambda: an_actor(registry, "document"), DOCUMENT),
        (lambda: register(registry, a, b), b),
    ):
        expected = f"{ibi} is already in use; send another ID, or none"
        assert refusal(call) == (409, expected)
    # an actor may replace its registrations, whatever Archives claim later
    claims[DOCUMENT] = "a.br/archive/2001/01.01.00.00"
    register(registry, b, DOCUMENT)
    # the IBI of a cancelled actor is never used again
    cancel(registry, a)
    assert refusal(lambda: an_actor(registry, "a"))[0] == 409


@pytest.mark.rule("P4-04")
def test_the_operator_can_allow_identifiers(database: Database) -> None:
    names = ("claimed", "a", "b", "document")
    claims = {an_ibi("claimed"): "a.br/archive/2001/01.01.00.00"}
    allowed = " ".join(an_ibi(name).upper() for name in names)
    registry = a_document_registry(database, claims, IBI_RESOLVER_REGISTRY_ALLOWED=allowed)
    a, b = an_actor(registry, "a"), an_actor(registry, "b")
    for ibi in (an_ibi("claimed"), b, DOCUMENT):
        assert register(registry, a, ibi) == ibi
    an_actor(registry, "document")
    # two actors with one IBI would have the documents of each other
    assert refusal(lambda: an_actor(registry, "a"))[0] == 409


@pytest.mark.rule("P4-04")
def test_claims_tell_which_archive_has_an_identifier() -> None:
    with resolver_over([], SERVER_NAME="urlib.net", IBI_RESOLVER_REGISTRY=True) as resolver:
        registry, found = a_registry(resolver.database), resolver.document_registry
        [archive_id] = included(registry)
        assert found is not None
        ibi = parse_identifier(X)
        service = resolver.database.read(lambda reader: found.find_claimant(reader, ibi))
        assert service is None
        store_claims(resolver.database, {archive_id: {X: State.ORIGINAL}})
        service = resolver.database.read(lambda reader: found.find_claimant(reader, ibi))
        assert service == registry.list()[0].service_ibi


# --- documents -----------------------------------------------------------------------------------


@pytest.mark.rule("P4-10", "P4-11", "P4-12")
def test_the_first_actor_has_the_document_and_later_actors_have_copies(
    registry: DocumentRegistry,
) -> None:
    for name in "cabac":
        register(registry, an_ibi(name), DOCUMENT)
    assert describe(registry, DOCUMENT) == ["c document", "a copy", "b copy"]
    assert refusal(register, registry, an_ibi("a"), DOCUMENT, None, True) == (
        409,
        f"the actor {an_ibi('c')} has the document {DOCUMENT}, so other actors have copies; a "
        "copy needs originalDocument=no",
    )
    for original in (True, False):
        register(registry, an_ibi("c"), DOCUMENT, original=original)
        kind = "original" if original else "document"
        assert describe(registry, DOCUMENT) == [f"c {kind}", "a copy", "b copy"]


@pytest.mark.rule("P4-14", "P4-17")
def test_a_new_registration_replaces_the_former_one_completely(registry: DocumentRegistry) -> None:
    actor = an_ibi("a")
    for location in (
        a_location("one", "oai_dc", "mtd2-br", previous_edition_url="http://a.br/p"),
        a_location("two", next_edition_url=f"http://urlib.net/{an_ibi('next')}"),
        DocumentLocation(metadata=a_location("three", "x", "y", "z").metadata),
        a_location("four", "oai_dc"),
    ):
        register(registry, actor, DOCUMENT, location)
        answer = registry.display(an_ibi("b"), PASSWORD, DOCUMENT)
        assert answer[:2] == ("documentID", DOCUMENT)
        assert [one.location for one in answer.record] == [location]


@pytest.mark.rule("P4-15")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # the document: the new actor is unknown to the document, or has a copy
        ("a", "d", ["d original", "a copy", "b copy", "c copy"]),
        ("a", "c", ["c original", "a copy", "b copy"]),
        # a copy: the copyright and the document stay
        ("b", "d", ["a original", "b copy", "c copy", "d copy"]),
        ("b", "c", ["a original", "b copy", "c copy"]),
        ("b", "a", ["a original", "b copy", "c copy"]),
    ],
)
def test_a_change_of_actor(
    registry: DocumentRegistry, old: str, new: str, expected: list[str]
) -> None:
    for name in "abc":
        register(registry, an_ibi(name), DOCUMENT, a_location(name, name), original=name == "a")
    for _ in range(2):  # a client may repeat a request if it did not get the answer
        registry.change_actor(an_ibi(old), PASSWORD, DOCUMENT, an_ibi(new))
        assert describe(registry, DOCUMENT) == expected
        for one in registry.display(an_ibi("a"), PASSWORD, DOCUMENT).record:
            name = one.actor_id.split("/")[1]
            # only an actor without a registration gets the URLs of the old actor
            name = old if name == "d" else name
            assert one.location == a_location(name, name)
    for shown in reversed(expected):
        registry.delete_registration(an_ibi(shown[0]), PASSWORD, DOCUMENT)
    assert describe(registry, DOCUMENT) == []


@pytest.mark.rule("P4-16")
def test_copies_are_deleted_before_the_document(registry: DocumentRegistry) -> None:
    for name in "abc":
        register(registry, an_ibi(name), DOCUMENT)

    def delete(name: str) -> tuple[int, str]:
        return refusal(registry.delete_registration, an_ibi(name), PASSWORD, DOCUMENT)

    assert delete("a") == (
        409,
        f"the copies of the document {DOCUMENT} must be deleted first; these actors have copies: "
        f"{an_ibi('b')}, {an_ibi('c')}",
    )
    assert delete("b") == (200, "")
    assert describe(registry, DOCUMENT) == ["a document", "c copy"]
    assert delete("a")[1].endswith(f"copies: {an_ibi('c')}")
    assert delete("c") == delete("a") == (200, "")
    # now the document is not registered, and another actor can be the first one
    register(registry, an_ibi("c"), DOCUMENT, original=True)
    assert describe(registry, DOCUMENT) == ["c original"]


# --- refusals ------------------------------------------------------------------------------------


def list_calls(registry: DocumentRegistry, actor: str, password: str) -> list[Callable[[], Any]]:
    """Return a call of each operation that needs a password."""
    credentials = (actor, password)
    return [
        lambda: registry.change_password(*credentials, "new"),
        lambda: registry.change_email(*credentials, "a@b.br"),
        lambda: registry.register_document(*credentials, a_location("new"), DOCUMENT),
        lambda: registry.register_document(*credentials, a_location("new")),
        lambda: registry.change_actor(*credentials, DOCUMENT, an_ibi("b")),
        lambda: registry.delete_registration(*credentials, DOCUMENT),
        lambda: registry.display(*credentials, DOCUMENT),
    ]


@pytest.mark.rule("P4-18")
def test_a_refusal_does_not_tell_whether_the_password_or_an_id_is_wrong(
    registry: DocumentRegistry,
) -> None:
    a, b = an_ibi("a"), an_ibi("b")
    register(registry, a, DOCUMENT)
    cancel(registry, an_ibi("d"))
    for credentials in ((a, "wrong"), (UNKNOWN, PASSWORD), (an_ibi("d"), PASSWORD)):
        for call in list_calls(registry, *credentials):
            assert refusal(call) == DENIED
    for call, values in (
        (registry.change_actor, (a, PASSWORD, UNKNOWN, b)),
        (registry.change_actor, (b, PASSWORD, DOCUMENT, a)),
        (registry.change_actor, (a, PASSWORD, DOCUMENT, UNKNOWN)),
        (registry.change_actor, (a, PASSWORD, DOCUMENT, an_ibi("d"))),
        (registry.delete_registration, (b, PASSWORD, DOCUMENT)),
        (registry.delete_registration, (a, PASSWORD, UNKNOWN)),
        (registry.display, (a, PASSWORD, UNKNOWN)),
    ):
        assert refusal(call, *values) == DENIED
    assert describe(registry, DOCUMENT) == ["a document"]


@pytest.mark.rule("P4-06")
def test_a_password_that_changes_during_a_request_is_refused(
    registry: DocumentRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is compared before the transaction begins."""
    register(registry, an_ibi("a"), DOCUMENT)
    matches = operations.matches_hash

    def change_afterwards(password: str, password_hash: str) -> bool:
        with registry.database.writing() as connection:
            connection.execute(update(Actor).values(password_hash=Actor.password_hash + "x"))
        return matches(password, password_hash)

    for call in list_calls(registry, an_ibi("a"), PASSWORD):
        before = read_columns(registry, "password_hash")["a"]
        with monkeypatch.context() as patch:
            patch.setattr(operations, "matches_hash", change_afterwards)
            assert refusal(call) == DENIED
        with registry.database.writing() as connection:
            connection.execute(update(Actor).values(password_hash=before))
    assert read_columns(registry, "email")["a"] == "banon@dpi.inpe.br"
    assert describe(registry, DOCUMENT) == ["a document"]
