"""The operations of the document registry, one after another ([P] 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update
from support.cases import for_each
from support.document_registries import (
    PASSWORD,
    PREFIX,
    a_document_registry,
    a_location,
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

from flask_ibi_archive.core.protocol.registry_2008.model import (
    ChangeActor,
    ChangeEMailAddress,
    ChangePassword,
    Credentials,
    DeleteDocumentRegistration,
    DisplayIDRegistration,
    DocumentLocation,
    MetadataLocation,
    RegisterDocument,
)
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.registry_2008 import rows
from flask_ibi_archive.resolver.registry_2008.document_registry import DocumentRegistry
from flask_ibi_archive.resolver.registry_2008.tables import Actor, Registration

DOCUMENT = an_ibi("document")
UNKNOWN = an_ibi("unknown")


@pytest.fixture
def registry() -> Iterator[DocumentRegistry]:
    with resolver_database("sqlite://") as database:
        yield a_document_registry(database)


@pytest.fixture
def actors(registry: DocumentRegistry) -> dict[str, Credentials]:
    """The actors a, b, c and d."""
    return {name: an_actor(registry, name) for name in "abcd"}


@for_each(
    "location",
    [
        DocumentLocation("http://localhost/a", NOON),
        DocumentLocation(metadata=(MetadataLocation("http://10.0.0.1/a", NOON),)),
        a_location(previous_edition_url="http://[::1]/a"),
        a_location(next_edition_url="http://intranet/a"),
    ],
)
def test_a_url_with_an_internal_host_is_refused(
    registry: DocumentRegistry, actors: dict[str, Credentials], location: DocumentLocation
) -> None:
    """Readers would not be redirected to the URL."""
    request = RegisterDocument(actors["a"], location, DOCUMENT)
    code, message = refusal(registry.register_document, request, a_sender())
    assert code == "malformed"
    assert "has an internal host" in message
    assert registry.find_record(DOCUMENT) is None


def column(registry: DocumentRegistry, actor: Credentials, name: str) -> Any:
    """Return a value of an actor's row."""
    statement = select(getattr(Actor, name)).where(Actor.actor_id == actor.actor_id)
    return registry.database.read(lambda connection: connection.scalar(statement))


def cancel(registry: DocumentRegistry, actor: Credentials) -> None:
    """Cancel an actor without registrations."""
    with registry.database.writing() as connection:
        connection.execute(
            update(Actor)
            .where(Actor.actor_id == actor.actor_id)
            .values(cancelled_at=NOON, password_hash=None)
        )


# --- actors --------------------------------------------------------------------------------------


@pytest.mark.rule("P4-02")
def test_an_actor_gets_the_identifier_that_it_sends_or_a_minted_one(
    registry: DocumentRegistry,
) -> None:
    assert registry.register_actor(actor_request(an_ibi("a")), a_sender()) == an_ibi("a")
    minted = registry.register_actor(actor_request(), a_sender())
    assert minted == f"{PREFIX}/2026/03.01.12.00"
    actor = Credentials(minted, PASSWORD)
    assert column(registry, actor, "email") == "banon@dpi.inpe.br"
    assert column(registry, actor, "password_hash").startswith("scrypt:")
    assert register(registry, actor, DOCUMENT) == DOCUMENT


@pytest.mark.rule("P4-02")
def test_an_actor_id_in_use_is_refused_even_if_its_actor_was_cancelled(
    registry: DocumentRegistry,
) -> None:
    actor = an_actor(registry, "a")
    for _ in range(2):
        assert refusal(registry.register_actor, actor_request(an_ibi("a")), a_sender()) == (
            "conflict",
            f"actorID {an_ibi('a')} is already in use; send another one, or none",
        )
        cancel(registry, actor)


@pytest.mark.rule("P4-03")
def test_an_actor_whose_address_is_not_in_the_dns_is_refused(registry: DocumentRegistry) -> None:
    request = actor_request(an_ibi("a"), ip="150.163.2.15")
    assert refusal(registry.register_actor, request, a_sender())[0] == "wrong-address"
    an_actor(registry, "a")  # nothing was stored
    registry.look_up = lambda host: None
    assert refusal(registry.register_actor, actor_request(), a_sender())[0] == "unavailable"


def test_registrations_of_actors_are_limited_by_sender(registry: DocumentRegistry) -> None:
    sender = a_sender()
    codes = [refusal(registry.register_actor, actor_request(), sender)[0] for _ in range(11)]
    assert codes == [""] * 10 + ["too-many-attempts"]


@pytest.mark.rule("P4-06")
def test_a_password_and_an_email_address_are_changed(registry: DocumentRegistry) -> None:
    actor = an_actor(registry, "a")
    registry.change_email(ChangeEMailAddress(actor, "banon@iconet.com.br"), a_sender())
    assert column(registry, actor, "email") == "banon@iconet.com.br"
    registry.change_password(ChangePassword(actor, "a2xY3z"), a_sender())
    with pytest.raises(DocumentRegistryError, match="not right"):
        register(registry, actor, DOCUMENT)
    register(registry, replace(actor, password="a2xY3z"), DOCUMENT)


# --- documents -----------------------------------------------------------------------------------


@pytest.mark.rule("P4-11", "P4-12")
def test_the_first_actor_has_the_document_and_later_actors_have_copies(
    registry: DocumentRegistry, actors: dict[str, Credentials]
) -> None:
    for name in "cabac":
        register(registry, actors[name], DOCUMENT)
    assert describe(registry, DOCUMENT) == ["c document", "a copy", "b copy"]
    assert refusal(register, registry, actors["a"], DOCUMENT, None, True) == (
        "conflict",
        f"the actor {an_ibi('c')} has the document {DOCUMENT}, so other actors have copies; a "
        "copy needs originalDocument=no",
    )
    register(registry, actors["c"], DOCUMENT, original=True)
    assert describe(registry, DOCUMENT) == ["c original", "a copy", "b copy"]
    register(registry, actors["c"], DOCUMENT)
    assert describe(registry, DOCUMENT) == ["c document", "a copy", "b copy"]


@pytest.mark.rule("P4-14")
def test_a_new_registration_replaces_the_former_one_completely(registry: DocumentRegistry) -> None:
    actor = an_actor(registry, "a")
    later = NOON + timedelta(microseconds=1)
    for location in (
        a_location("one", "oai_dc", "mtd2-br", previous_edition_url="http://a.br/p"),
        a_location("two", next_edition_url=f"http://urlib.net/{an_ibi('next')}", updated_at=later),
        DocumentLocation(metadata=a_location("three", "x", "y", "z").metadata),
        a_location("four", "oai_dc"),
    ):
        register(registry, actor, DOCUMENT, location)
        record = registry.find_record(DOCUMENT)
        assert record is not None
        assert [one.location for one in record.registrations] == [location]
        assert registry.display(DisplayIDRegistration(actor, DOCUMENT), a_sender()) == record


@for_each(
    ("url", "ibi"),
    [
        (None, None),
        (f"http://urlib.net/{an_ibi('next')}", an_ibi("next")),
        (f"https://any.example:8080/{an_ibi('next')}", an_ibi("next")),
        ("http://urlib.net/8jmkd3mgp8w/35mmll8", "8JMKD3MGP8W/35MMLL8"),
        (f"http://urlib.net/{an_ibi('next')}!", None),
        (f"http://urlib.net/{an_ibi('next')}?a=b", None),
        (f"http://urlib.net/{an_ibi('next')}/index.html", None),
        ("http://hermes.dpi.inpe.br/next.html", None),
    ],
)
def test_the_url_of_an_edition_may_be_a_persistent_url(
    registry: DocumentRegistry, actors: dict[str, Credentials], url: str | None, ibi: str | None
) -> None:
    location = a_location(next_edition_url=url, previous_edition_url=url)
    register(registry, actors["a"], DOCUMENT, location)
    columns = select(Registration.next_edition_ibi, Registration.previous_edition_ibi)
    [found] = registry.database.read(lambda connection: connection.execute(columns).all())
    assert tuple(found) == (ibi, ibi)


@pytest.mark.rule("P4-04")
def test_missing_document_ids_are_minted(registry: DocumentRegistry) -> None:
    actor = an_actor(registry, "a")
    minted = [register(registry, actor) for _ in range(3)]
    assert minted == [f"{PREFIX}/2026/03.01.12.00{end}" for end in ("", ".00.001", ".00.002")]
    for one in minted:
        assert describe(registry, one) == ["a document"]


@pytest.mark.rule("P4-05")
def test_a_new_registration_ends_the_time_without_a_working_url(registry: DocumentRegistry) -> None:
    actor = an_actor(registry, "a")
    with registry.database.writing() as connection:
        connection.execute(update(Actor).values(failing_since=NOON))
    register(registry, actor, DOCUMENT)
    assert column(registry, actor, "failing_since") is None


@pytest.mark.rule("P4-05")
def test_urls_from_another_actor_end_the_time_without_a_working_url(
    registry: DocumentRegistry, actors: dict[str, Credentials]
) -> None:
    for name in "ab":
        register(registry, actors[name], DOCUMENT)
    with registry.database.writing() as connection:
        connection.execute(update(Actor).values(failing_since=NOON))
    for new in "bc":  # only c gets URLs, because b has its own
        hand_over(registry, actors["a"], DOCUMENT, an_ibi(new))
    since = [column(registry, actors[name], "failing_since") for name in "abc"]
    assert since == [NOON, NOON, None]


# --- changes of actors ---------------------------------------------------------------------------


@pytest.mark.rule("P4-15")
@for_each(
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
    registry: DocumentRegistry,
    actors: dict[str, Credentials],
    old: str,
    new: str,
    expected: list[str],
) -> None:
    for name in "abc":
        register(registry, actors[name], DOCUMENT, a_location(name, name), original=name == "a")
    for _ in range(2):  # a client may repeat a request if it did not get the answer
        hand_over(registry, actors[old], DOCUMENT, an_ibi(new))
        assert describe(registry, DOCUMENT) == expected
        record = registry.find_record(DOCUMENT)
        assert record is not None
        for one in record.registrations:
            name = one.actor_id.split("/")[1]
            # only an actor without a registration gets the URLs of the old actor
            name = old if name == "d" else name
            assert one.location == a_location(name, name)
    for one in reversed(expected):
        delete(registry, actors[one[0]], DOCUMENT)
    assert registry.find_record(DOCUMENT) is None


# --- deletion ------------------------------------------------------------------------------------


@pytest.mark.rule("P4-16")
def test_copies_are_deleted_before_the_document(
    registry: DocumentRegistry, actors: dict[str, Credentials]
) -> None:
    for name in "abc":
        register(registry, actors[name], DOCUMENT, a_location("x", "oai_dc"))
    assert refusal(delete, registry, actors["a"], DOCUMENT) == (
        "conflict",
        f"the copies of the document {DOCUMENT} must be deleted first; these actors have copies: "
        f"{an_ibi('b')}, {an_ibi('c')}",
    )
    delete(registry, actors["b"], DOCUMENT)
    assert describe(registry, DOCUMENT) == ["a document", "c copy"]
    assert refusal(delete, registry, actors["a"], DOCUMENT)[1].endswith(f"copies: {an_ibi('c')}")
    delete(registry, actors["c"], DOCUMENT)
    delete(registry, actors["a"], DOCUMENT)
    assert registry.find_record(DOCUMENT) is None
    # now the document is not registered, and another actor can be the first one
    register(registry, actors["c"], DOCUMENT, original=True)
    assert describe(registry, DOCUMENT) == ["c original"]


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.rule("P4-18")
def test_a_refusal_does_not_tell_whether_the_password_or_an_id_is_wrong(
    registry: DocumentRegistry,
) -> None:
    holder, other, gone = (an_actor(registry, name) for name in ("a", "b", "gone"))
    cancel(registry, gone)
    register(registry, holder, DOCUMENT)
    before = registry.find_record(DOCUMENT)
    wrong = [replace(holder, password="wrong"), Credentials(UNKNOWN, PASSWORD), gone]
    cases = [
        (
            "the actorID or the password is not right",
            [
                *((registry.change_password, ChangePassword(one, "new")) for one in wrong),
                *((registry.change_email, ChangeEMailAddress(one, "a@b.br")) for one in wrong),
                *(
                    (registry.register_document, RegisterDocument(one, a_location(), DOCUMENT))
                    for one in wrong
                ),
                *(
                    (registry.register_document, RegisterDocument(one, a_location()))
                    for one in wrong
                ),
            ],
        ),
        (
            "the actorID, the password, the documentID or the newActorID is not right",
            [
                (registry.change_actor, ChangeActor(*values))
                for values in (
                    *((one, DOCUMENT, an_ibi("b")) for one in wrong),
                    *((one, DOCUMENT, one.actor_id) for one in wrong),
                    (holder, UNKNOWN, an_ibi("b")),
                    (other, DOCUMENT, an_ibi("a")),
                    (holder, DOCUMENT, UNKNOWN),
                    (holder, DOCUMENT, an_ibi("gone")),
                )
            ],
        ),
        (
            "the actorID, the password or the documentID is not right",
            [
                *(
                    (registry.delete_registration, DeleteDocumentRegistration(one, DOCUMENT))
                    for one in [*wrong, other]
                ),
                (registry.delete_registration, DeleteDocumentRegistration(holder, UNKNOWN)),
                *((registry.display, DisplayIDRegistration(one, DOCUMENT)) for one in wrong),
                (registry.display, DisplayIDRegistration(holder, UNKNOWN)),
            ],
        ),
    ]
    for message, calls in cases:
        for call, request in calls:
            assert refusal(call, request, a_sender()) == ("denied", message), request
    assert registry.find_record(DOCUMENT) == before


@pytest.mark.rule("P4-06")
def test_a_password_that_changes_during_a_request_is_refused(
    registry: DocumentRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is compared before the transaction begins."""
    actor = an_actor(registry, "a")
    other = an_actor(registry, "b")
    register(registry, actor, DOCUMENT)
    from flask_ibi_archive.resolver.registry_2008 import document_registry as module

    authenticate = module.authenticate
    changes = iter(range(100))

    def change_afterwards(*arguments: Any) -> Any:
        found = authenticate(*arguments)
        with registry.database.writing() as connection:
            rows.update_actor(connection, found, password_hash=f"changed {next(changes)}")
        return found

    before = registry.find_record(DOCUMENT)
    for call, request in (
        (registry.change_password, ChangePassword(actor, "new")),
        (registry.change_email, ChangeEMailAddress(actor, "a@b.br")),
        (registry.register_document, RegisterDocument(actor, a_location("new"), DOCUMENT)),
        (registry.register_document, RegisterDocument(actor, a_location("new"))),
        (registry.change_actor, ChangeActor(actor, DOCUMENT, other.actor_id)),
        (registry.delete_registration, DeleteDocumentRegistration(actor, DOCUMENT)),
    ):
        password_hash = column(registry, actor, "password_hash")
        with monkeypatch.context() as patch:
            patch.setattr(module, "authenticate", change_afterwards)
            assert refusal(call, request, a_sender())[0] == "denied"
        assert column(registry, actor, "password_hash").startswith("changed")
        with registry.database.writing() as connection:
            connection.execute(
                update(Actor)
                .where(Actor.actor_id == actor.actor_id)
                .values(password_hash=password_hash)
            )
    assert column(registry, actor, "email") == "banon@dpi.inpe.br"
    assert registry.find_record(DOCUMENT) == before
