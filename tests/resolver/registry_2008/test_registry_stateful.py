"""Random operations of a document registry lead to the same records as a model of [P] 4.

The model is a dictionary. It knows no database, and each rule of [P] 4 is one line of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select
from support.clocks import Clock
from support.document_registries import (
    PREFIX,
    a_document_registry,
    a_location,
    a_sender,
    actor_request,
    an_ibi,
)
from support.registries import NOON, resolver_database

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.registry_2008.model import (
    ChangeActor,
    ChangeEMailAddress,
    ChangePassword,
    Credentials,
    DeleteDocumentRegistration,
    DisplayIDRegistration,
    DocumentLocation,
    DocumentRecord,
    DocumentRegistration,
    RegisterDocument,
)
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.registry_2008.actors import Cancellation, cancel_actor
from flask_ibi_archive.resolver.registry_2008.document_registry import DocumentRegistry
from flask_ibi_archive.resolver.registry_2008.tables import Actor
from flask_ibi_archive.resolver.tables import ResolverBase
from flask_ibi_archive.server.database.database import Database

ACTORS = [an_ibi(name) for name in "abcd"]
DOCUMENTS = [an_ibi(name) for name in ("one", "two", "three")]
UNKNOWN = an_ibi("unknown")
#: The messages of the error "denied".
NOT_RIGHT = {
    2: "the actorID or the password is not right",
    3: "the actorID, the password or the documentID is not right",
    4: "the actorID, the password, the documentID or the newActorID is not right",
}

#: Numbers for lists whose length changes.
NUMBERS = st.integers(0, 7)
LOCATIONS = st.builds(
    lambda name, formats, has_url, edition: a_location(
        name,
        *formats,
        next_edition_url=edition,
        **({} if has_url or not formats else {"url": None, "updated_at": None}),
    ),
    st.sampled_from("xyz"),
    st.lists(st.sampled_from(["oai_dc", "mtd2-br"]), max_size=3),
    st.booleans(),
    st.sampled_from([None, "http://a.br/next", f"http://urlib.net/{DOCUMENTS[0]}"]),
)


@dataclass
class ModelActor:
    """An actor: its password, or None if the actor was cancelled, and its e-mail address."""

    password: str | None
    email: str


@dataclass
class ModelDocument:
    """A document: the holder, and the locations by actor in the order of their registration."""

    holder: str
    is_original: bool = False
    locations: dict[str, DocumentLocation] = field(default_factory=dict)

    @property
    def copies(self) -> list[str]:
        """The actors that have copies."""
        return [actor for actor in self.locations if actor != self.holder]

    def record(self, document_id: str) -> DocumentRecord:
        """Return the record of the document."""
        return DocumentRecord(
            document_id,
            tuple(
                DocumentRegistration(
                    actor,
                    actor != self.holder,
                    actor == self.holder and self.is_original,
                    self.locations[actor],
                )
                for actor in (self.holder, *self.copies)
            ),
        )


class RegistryMachine(RuleBasedStateMachine):
    """Random operations; each one must have the result that the model has."""

    database: ClassVar[Database]
    clock: ClassVar[Clock]
    #: What happened in all walks.
    reached: ClassVar[set[str]]

    @initialize()
    def begin(self) -> None:
        """Begin with an empty database."""
        with self.database.writing() as connection:
            # a document and the registration of its holder can only be deleted together
            for table in reversed(ResolverBase.metadata.sorted_tables):
                connection.execute(table.delete())
        self.registry: DocumentRegistry = a_document_registry(self.database, clock=self.clock)
        self.actors: dict[str, ModelActor] = {}
        self.documents: dict[str, ModelDocument] = {}
        self.minted: set[str] = set()
        self.passwords = 0
        self.latest = self.clock.now
        for number, actor in enumerate(ACTORS[:3]):
            self.register_actor(actor)
            for document in range(number + 1):
                self.register_document(number, document, a_location(), number == document)

    def actor(self, number: int, document_id: str = "") -> str:
        """Return the IBI of an actor; now and then of a cancelled or unknown one.

        :param document_id: the actors that have this document are returned more often.
        """
        active = [ibi for ibi, one in self.actors.items() if one.password is not None]
        cancelled = [ibi for ibi in self.actors if ibi not in active]
        document = self.documents.get(document_id)
        preferred = [] if document is None else list(document.locations)
        known = [*preferred, *active, *cancelled[-1:], UNKNOWN]
        return known[number % len(known)]

    def document(self, number: int) -> str:
        """Return the IBI of a registered document, or of one that is not registered."""
        known = [*DOCUMENTS, *(one for one in self.documents if one not in DOCUMENTS)]
        return known[number % len(known)]

    def credentials(self, actor: str, right: bool = True) -> Credentials:
        """Return the actorID and a password."""
        known = self.actors.get(actor)
        password = None if known is None else known.password
        return Credentials(actor, password if right and password else "wrong")

    def is_right(self, credentials: Credentials) -> bool:
        """Return whether a password is right."""
        known = self.actors.get(credentials.actor_id)
        return known is not None and known.password == credentials.password

    def check(self, name: str, expected: tuple[str, str], call: Any, request: Any) -> Any:
        """Call the registry; it must succeed, or refuse with the expected code and message."""
        self.clock.wait(3)  # otherwise the rate limit of wrong passwords applies
        result, refused = None, ("", "")
        try:
            result = call(request, a_sender())
        except DocumentRegistryError as error:
            refused = error.code, str(error)
        assert refused == expected
        self.reached.add(f"{name} {refused[0]}".strip())
        return result

    def check_minted(self, identifier: str) -> None:
        """Check that an identifier is new."""
        assert parse_identifier(identifier).text == identifier
        assert identifier.startswith(f"{PREFIX}/")
        assert identifier not in self.minted
        self.minted.add(identifier)

    # --- the verbs -------------------------------------------------------------------------------

    @rule(actor=st.sampled_from([None, *ACTORS]))
    def register_actor(self, actor: str | None) -> None:
        """[P] 4.1."""
        self.passwords += 1
        password, email = f"password {self.passwords}", f"{self.passwords}@a.br"
        in_use = f"actorID {actor} is already in use; send another one, or none"
        identifier = self.check(
            "RegisterActor",
            ("conflict", in_use) if actor in self.actors else ("", ""),
            self.registry.register_actor,
            actor_request(actor, password=password, email=email),
        )
        if identifier is None:
            return
        if actor is None:
            self.check_minted(identifier)
        assert identifier == actor or actor is None
        self.actors[identifier] = ModelActor(password, email)

    @rule(number=NUMBERS, right=st.booleans())
    def change_password(self, number: int, right: bool) -> None:
        """[P] 4.2."""
        credentials = self.credentials(self.actor(number), right)
        self.passwords += 1
        new = f"password {self.passwords}"
        is_right = self.is_right(credentials)
        self.check(
            "ChangePassword",
            ("", "") if is_right else ("denied", NOT_RIGHT[2]),
            self.registry.change_password,
            ChangePassword(credentials, new),
        )
        if is_right:
            self.actors[credentials.actor_id].password = new

    @rule(number=NUMBERS, right=st.booleans())
    def change_email(self, number: int, right: bool) -> None:
        """[P] 4.3."""
        credentials = self.credentials(self.actor(number), right)
        is_right = self.is_right(credentials)
        new = f"{number}@b.br"
        self.check(
            "ChangeEMailAddress",
            ("", "") if is_right else ("denied", NOT_RIGHT[2]),
            self.registry.change_email,
            ChangeEMailAddress(credentials, new),
        )
        if is_right:
            self.actors[credentials.actor_id].email = new

    @rule(number=NUMBERS, document=st.none() | NUMBERS, location=LOCATIONS, original=st.booleans())
    def register_document(
        self, number: int, document: int | None, location: DocumentLocation, original: bool
    ) -> None:
        """[P] 4.4."""
        credentials = self.credentials(self.actor(number))
        actor = credentials.actor_id
        document_id = None if document is None else self.document(document)
        known = self.documents.get(document_id or "")
        expected = ("", "")
        if not self.is_right(credentials):
            expected = ("denied", NOT_RIGHT[2])
        elif known is not None and known.holder != actor and original:
            expected = (
                "conflict",
                f"the actor {known.holder} has the document {document_id}, so other actors "
                "have copies; a copy needs originalDocument=no",
            )
        identifier = self.check(
            "RegisterDocument" if known is None else "RegisterDocument again",
            expected,
            self.registry.register_document,
            RegisterDocument(credentials, location, document_id, original),
        )
        if identifier is None:
            return
        if document_id is None:
            self.check_minted(identifier)
        assert identifier == document_id or document_id is None
        known = self.documents.setdefault(identifier, ModelDocument(actor))
        known.locations[actor] = location
        if known.holder == actor:
            known.is_original = original

    @rule(number=NUMBERS, document=NUMBERS, new=NUMBERS)
    def change_actor(self, number: int, document: int, new: int) -> None:
        """[P] 4.5."""
        document_id, new_actor = self.document(document), self.actor(new)
        credentials = self.credentials(self.actor(number, document_id))
        actor = credentials.actor_id
        known = self.documents.get(document_id)
        newcomer = self.actors.get(new_actor)
        expected = ("", "")
        if not self.is_right(credentials):
            expected = ("denied", NOT_RIGHT[4])
        elif new_actor == actor:
            expected = ("malformed", "newActorID is the actorID; send the actorID of another actor")
        elif (
            known is None
            or actor not in known.locations
            or newcomer is None
            or newcomer.password is None
        ):
            expected = ("denied", NOT_RIGHT[4])
        self.check(
            "ChangeActor",
            expected,
            self.registry.change_actor,
            ChangeActor(credentials, document_id, new_actor),
        )
        if expected == ("", "") and known is not None:
            known.locations.setdefault(new_actor, known.locations[actor])
            if known.holder == actor:
                known.holder = new_actor

    @rule(number=NUMBERS, document=NUMBERS)
    def delete_registration(self, number: int, document: int) -> None:
        """[P] 4.6."""
        document_id = self.document(document)
        credentials = self.credentials(self.actor(number, document_id))
        actor = credentials.actor_id
        known = self.documents.get(document_id)
        expected = ("", "")
        if not self.is_right(credentials) or known is None or actor not in known.locations:
            expected = ("denied", NOT_RIGHT[3])
        elif known.holder == actor and known.copies:
            expected = (
                "conflict",
                f"the copies of the document {document_id} must be deleted first; these actors "
                f"have copies: {', '.join(known.copies)}",
            )
        self.check(
            "DeleteDocumentRegistration",
            expected,
            self.registry.delete_registration,
            DeleteDocumentRegistration(credentials, document_id),
        )
        if expected == ("", "") and known is not None:
            del known.locations[actor]
            if not known.locations:
                del self.documents[document_id]

    @rule(number=NUMBERS, document=NUMBERS, right=st.booleans())
    def display(self, number: int, document: int, right: bool) -> None:
        """[P] 4.7."""
        credentials = self.credentials(self.actor(number), right)
        document_id = self.document(document)
        known = self.documents.get(document_id)
        is_right = self.is_right(credentials) and known is not None
        record = self.check(
            "DisplayIDRegistration",
            ("", "") if is_right else ("denied", NOT_RIGHT[3]),
            self.registry.display,
            DisplayIDRegistration(credentials, document_id),
        )
        assert record == (known.record(document_id) if is_right and known is not None else None)

    # --- the cancellation of actors, and the clock -----------------------------------------------

    @precondition(lambda self: len(self.documents) > 1)
    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        """[P] 4.1, note 2."""
        actor = self.actor(number)
        with self.database.writing() as connection:
            row_id = connection.scalar(select(Actor.id).where(Actor.actor_id == actor)) or 0
            found = cancel_actor(connection, row_id, self.clock())
        known = self.actors.get(actor)
        if known is None or known.password is None:
            assert found is None
            return
        known.password = None
        expected = Cancellation(0, 0, 0)
        for document_id, document in list(self.documents.items()):
            if document.locations.pop(actor, None) is None:
                continue
            if document.holder != actor:
                expected = replace(expected, copies=expected.copies + 1)
            elif document.locations:
                document.holder, document.is_original = next(iter(document.locations)), False
                expected = replace(expected, handed_over=expected.handed_over + 1)
            else:
                del self.documents[document_id]
                expected = replace(expected, deleted=expected.deleted + 1)
        assert found == expected
        self.reached.add("cancellation")

    @rule(seconds=st.sampled_from([-5.0, 0.0005, 1.0, 90.0]))
    def pass_time(self, seconds: float) -> None:
        """Let time pass, or set the clock back."""
        self.latest = max(self.latest, self.clock.now)
        self.clock.wait(seconds)
        # the registry refuses to mint if the clock was set back by more than ten seconds
        self.clock.now = max(self.clock.now, self.latest - timedelta(seconds=9))

    # --- what must be true -----------------------------------------------------------------------

    @invariant()
    def the_registry_equals_the_model(self) -> None:
        """All records and all actors are those of the model."""
        if not hasattr(self, "actors"):
            return
        for document_id in {*DOCUMENTS, *self.documents}:
            document = self.documents.get(document_id)
            expected = None if document is None else document.record(document_id)
            assert self.registry.find_record(document_id) == expected
        with self.database.reading() as connection:
            rows = connection.execute(select(Actor.actor_id, Actor.email, Actor.cancelled_at))
            assert {ibi: (email, cancelled is None) for ibi, email, cancelled in rows} == {
                ibi: (one.email, one.password is not None) for ibi, one in self.actors.items()
            }


#: What a random run must reach.
WANTED = {
    "RegisterActor",
    "RegisterActor conflict",
    "ChangePassword",
    "ChangePassword denied",
    "ChangeEMailAddress",
    "ChangeEMailAddress denied",
    "RegisterDocument",
    "RegisterDocument denied",
    "RegisterDocument again",
    "RegisterDocument again conflict",
    "ChangeActor",
    "ChangeActor denied",
    "ChangeActor malformed",
    "DeleteDocumentRegistration",
    "DeleteDocumentRegistration denied",
    "DeleteDocumentRegistration conflict",
    "DisplayIDRegistration",
    "DisplayIDRegistration denied",
    "cancellation",
}


@pytest.fixture
def machine(uri: str) -> Iterator[type[RegistryMachine]]:
    with resolver_database(uri) as database:

        class Machine(RegistryMachine):
            pass

        Machine.database, Machine.clock, Machine.reached = database, Clock(NOON), set()
        yield Machine


def run(machine: type[RegistryMachine], examples: int, steps: int) -> None:
    """Run a machine; the examples are the same in each run."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
        ),
    )


@pytest.mark.rule("P4-06", "P4-10", "P4-11", "P4-12", "P4-14", "P4-15", "P4-16", "P4-17")
@pytest.mark.postgresql
def test_a_few_random_operations_have_the_results_of_the_model(
    machine: type[RegistryMachine],
) -> None:
    run(machine, 4, 30)


@pytest.mark.slow
def test_random_operations_have_the_results_of_the_model(machine: type[RegistryMachine]) -> None:
    run(machine, 40, 60)
    assert machine.reached >= WANTED, WANTED - machine.reached
