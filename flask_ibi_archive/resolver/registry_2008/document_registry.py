"""The document registry: the operations of the registry protocol of 2008 ([P] 4).

Each operation checks the password first. The password is checked and hashed outside of
transactions, because a hash takes some hundredths of a second. All changes of an operation are one
transaction, which checks that the password was not changed in the meantime.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeAlias

from sqlalchemy import Connection

from flask_ibi_archive.core.protocol.registry_2008 import model
from flask_ibi_archive.core.resolution.answer import Answer, Question, find_usable_url
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.archives import COST, hash_secret
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.registry_2008 import rows
from flask_ibi_archive.resolver.registry_2008.actor_address import (
    LookUp,
    check_actor_address,
    look_up_host,
)
from flask_ibi_archive.resolver.registry_2008.new_identifiers import (
    Applicant,
    AskArchives,
    check_archives,
    mint,
)
from flask_ibi_archive.resolver.registry_2008.passwords import (
    AuthenticatedActor,
    Denied,
    authenticate,
    count_registration,
)
from flask_ibi_archive.resolver.registry_2008.sources import list_answers
from flask_ibi_archive.resolver.resolution_context import OwnArchive
from flask_ibi_archive.server.database.database import Database

AuthenticatedRequest: TypeAlias = (
    model.ChangePassword
    | model.ChangeEMailAddress
    | model.RegisterDocument
    | model.ChangeActor
    | model.DeleteDocumentRegistration
    | model.DisplayIDRegistration
)

#: The messages of the error "denied". Only the verb determines the message, so that the message
#: does not reveal which IDs exist.
DENIED = {
    model.ChangePassword: "the actorID or the password is not right",
    model.ChangeEMailAddress: "the actorID or the password is not right",
    model.RegisterDocument: "the actorID or the password is not right",
    model.ChangeActor: "the actorID, the password, the documentID or the newActorID is not right",
    model.DeleteDocumentRegistration: "the actorID, the password or the documentID is not right",
    model.DisplayIDRegistration: "the actorID, the password or the documentID is not right",
}


@dataclass
class DocumentRegistry:
    """Registers actors and their documents.

    Each method with the parameter ``sender`` may raise these errors:

    - :class:`DocumentRegistryError` "denied", if the password is wrong or an ID is unknown.
    - :class:`DocumentRegistryError` "too-many-attempts", if the rate limit is reached.
    - :class:`NotReady`, if the database is not available.

    After an error, nothing has changed.

    :param ask: asks Archives about an identifier.
    :param now: returns the current date.
    :param look_up: queries the DNS.
    :param cost: the cost of the hash of a password. See ``hash_secret`` (archives.py).
    :param wait: waits for a number of seconds.
    """

    database: Database
    config: ResolverConfig
    ask: AskArchives
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    look_up: LookUp = look_up_host
    cost: int = COST
    wait: Callable[[float], None] = time.sleep

    def list_answers(
        self, questions: Sequence[Question], client_addresses: tuple[str, ...], silent: Set[int]
    ) -> Sequence[Answer]:
        """Return the answers of the registered documents to the questions of a resolution.

        :param silent: the ids of the Archives that did not answer.
        """
        return self.database.read(
            lambda connection: list_answers(connection, questions, client_addresses, silent)
        )

    def find_record(self, document_id: str) -> model.DocumentRecord | None:
        """Return the record of a document, or None if the document is not registered.

        :param document_id: the IBI of the document in canonical case.
        """
        return self.database.read(lambda connection: rows.find_record(connection, document_id))

    def register_actor(
        self, request: model.RegisterActor, sender: str, own: OwnArchive | None = None
    ) -> str:
        """Register an actor and return its IBI ([P] 4.1).

        An actorID in use is refused. This refusal reveals no secret, because the records of
        documents contain the IBIs of their actors.

        :param sender: the IP address of the sender.
        :param own: the Archive in this process. None if this process has no Archive.
        :raises DocumentRegistryError: "wrong-address" if the ip is not an address of the host,
            "conflict" if the actorID is in use, or "unavailable" if the DNS or an Archive does not
            answer or no identifier can be minted.
        """
        now = self.now()
        count_registration(self.database, sender, now)
        check_actor_address(request, self.look_up, self.config.inner_hosts)
        if request.actor_id is not None:
            applicant = Applicant(request.host, request.ip, sender, own)
            self._check_identifier(request.actor_id, applicant)
        password_hash = hash_secret(request.password, self.cost)
        while True:
            actor_id = request.actor_id or self._mint()
            with suppress(rows.IdentifierUsed), self.database.writing() as connection:
                rows.store_actor(connection, request, actor_id, password_hash, now)
                return actor_id
            if request.actor_id is not None:
                raise _in_use("actorID", actor_id)

    def change_password(self, request: model.ChangePassword, sender: str) -> None:
        """Replace the password of an actor ([P] 4.2)."""
        with self._authenticated(request, sender) as actor:
            password_hash = hash_secret(request.new_password, self.cost)
            self._update(actor, password_hash=password_hash)

    def change_email(self, request: model.ChangeEMailAddress, sender: str) -> None:
        """Replace the e-mail address of an actor ([P] 4.3)."""
        with self._authenticated(request, sender) as actor:
            self._update(actor, email=request.new_email)

    def register_document(
        self, request: model.RegisterDocument, sender: str, own: OwnArchive | None = None
    ) -> str:
        """Register a document or a copy of a document, and return the IBI of the document.

        The actor that registers a document first has the document. All later actors have copies. A
        later registration by the same actor replaces the former one completely.

        :param own: the Archive in this process. None if this process has no Archive.
        :raises DocumentRegistryError: "malformed" if a URL has an internal host, "conflict" if a
            copy would be the original or if the documentID belongs to something else, or
            "unavailable" if an Archive does not answer or no identifier can be minted.
        Source: [P] 4.4.
        """
        with self._authenticated(request, sender) as actor:
            self._check_hosts(request.location)
            if request.document_id is not None:
                self._check_document_id(request.document_id, actor, sender, own)
            while True:
                document_id = request.document_id or self._mint()
                with suppress(rows.IdentifierUsed), self._locked(request, actor) as (connection, _):
                    if request.document_id is None:
                        document = rows.create_document(connection, document_id, actor.id)
                    else:
                        document = rows.lock_or_create_document(connection, document_id, actor.id)
                    if document is not None:
                        self._store(connection, document, document_id, actor, request)
                        return document_id
                if request.document_id is not None:
                    raise _in_use("documentID", document_id)

    def _check_document_id(
        self, document_id: str, actor: AuthenticatedActor, sender: str, own: OwnArchive | None
    ) -> None:
        """Check an identifier, unless the actor has already registered a document with it."""
        if address := self.database.read(
            lambda connection: rows.find_new_applicant(connection, actor.id, document_id)
        ):
            self._check_identifier(document_id, Applicant(*address, sender, own))

    def _check_identifier(self, ibi: str, applicant: Applicant) -> None:
        """Check that neither the service of this resolver nor an Archive has an identifier."""
        if ibi == self.config.service_ibi:
            raise DocumentRegistryError(
                "conflict",
                f"{ibi} is the service of this resolver; send another identifier, or none",
            )
        check_archives(self.database, self.ask, ibi, applicant, self.now())

    def _check_hosts(self, location: model.DocumentLocation) -> None:
        """Check that the resolver may redirect readers to all URLs of a location.

        :raises DocumentRegistryError: "malformed" if a URL has an internal host.
        """
        urls = (location.url, location.previous_edition_url, location.next_edition_url)
        for url in filter(None, (*urls, *[metadata.url for metadata in location.metadata])):
            if find_usable_url([url], "", self.config.inner_hosts) is None:
                raise DocumentRegistryError(
                    "malformed",
                    f"{url!a} has an internal host, to which readers are not redirected; send a "
                    "URL with a public host",
                )

    def _store(
        self,
        connection: Connection,
        document: rows.LockedDocument,
        document_id: str,
        actor: AuthenticatedActor,
        request: model.RegisterDocument,
    ) -> None:
        """Store the registration of a document or of a copy."""
        if document.holder_id == actor.id:
            rows.update_document(connection, document.id, is_original=request.is_original)
        elif request.is_original:
            holder = rows.find_registrations(connection, document_id)[0].content
            raise DocumentRegistryError(
                "conflict",
                f"the actor {holder.actor_id} has the document {document_id}, so other actors have "
                "copies; a copy needs originalDocument=no",
            )
        rows.store_location(connection, document.id, actor.id, request.location)

    def change_actor(self, request: model.ChangeActor, sender: str) -> None:
        """Hand a document or a copy over to another actor ([P] 4.5).

        The registration of the old actor remains, as a copy, until the old actor deletes it. If the
        new actor has no registration of the document, it gets one with the URLs of the old actor.
        If the old actor had the document, the new actor then has the document, with the copyright.

        :raises DocumentRegistryError: "malformed" if the new actor is the old actor.
        """
        with self._authenticated(request, sender) as actor:
            if request.new_actor_id == request.credentials.actor_id:
                raise DocumentRegistryError(
                    "malformed", "newActorID is the actorID; send the actorID of another actor"
                )
            with self._locked(request, actor, request.new_actor_id) as (connection, actors):
                new = actors.get(request.new_actor_id)
                if new is None:
                    raise Denied
                document, own, others = _lock_registrations(connection, request.document_id, actor)
                if all(other.actor_row_id != new.id for other in others):
                    rows.store_location(connection, document.id, new.id, own.content.location)
                if not own.content.is_copy:
                    rows.update_document(connection, document.id, holder_id=new.id)

    def delete_registration(self, request: model.DeleteDocumentRegistration, sender: str) -> None:
        """Delete the registration of a document or of a copy ([P] 4.6).

        :raises DocumentRegistryError: "conflict" if the actor has the document, and other actors
            have copies. The message names these actors.
        """
        with (
            self._authenticated(request, sender) as actor,
            self._locked(request, actor) as (connection, _),
        ):
            document, own, others = _lock_registrations(connection, request.document_id, actor)
            if others and not own.content.is_copy:
                copies = ", ".join(other.content.actor_id for other in others)
                raise DocumentRegistryError(
                    "conflict",
                    f"the copies of the document {request.document_id} must be deleted first; "
                    f"these actors have copies: {copies}",
                )
            rows.delete_registration(connection, own.id)
            if not own.content.is_copy:
                rows.delete_document(connection, document.id)

    def display(self, request: model.DisplayIDRegistration, sender: str) -> model.DocumentRecord:
        """Return the record of a document ([P] 4.7).

        Each actor can read the records of all documents.
        """
        with self._authenticated(request, sender):
            record = self.find_record(request.document_id)
            if record is None:
                raise Denied
            return record

    @contextmanager
    def _authenticated(
        self, request: AuthenticatedRequest, sender: str
    ) -> Iterator[AuthenticatedActor]:
        """Check the password of a request and yield the actor.

        :class:`Denied` becomes an error with the message of the verb.
        """
        try:
            yield authenticate(self.database, request.credentials, sender, self.now(), self.cost)
        except Denied:
            raise DocumentRegistryError("denied", DENIED[type(request)]) from None

    @contextmanager
    def _locked(
        self, request: AuthenticatedRequest, actor: AuthenticatedActor, *others: str
    ) -> Iterator[tuple[Connection, Mapping[str, AuthenticatedActor]]]:
        """Begin a transaction, lock the actor and other actors, and yield them by IBI.

        :param others: the IBIs of the other actors. Unknown actors are left out of the result.
        :raises Denied: if the password was changed or the actor was cancelled in the meantime.
        """
        with self.database.writing() as connection:
            actors = rows.lock_actors(connection, [request.credentials.actor_id, *others])
            if actors.get(request.credentials.actor_id) != actor:
                raise Denied
            yield connection, actors

    def _update(self, actor: AuthenticatedActor, **values: str) -> None:
        with self.database.writing() as connection:
            if not rows.update_actor(connection, actor, **values):
                raise Denied

    def _mint(self) -> str:
        host = str(self.config.registry_mint_host)  # a text if the resolver has a registry
        port = self.config.registry_mint_port
        return mint(self.database, host, port, self.now, self.wait)


def _in_use(name: str, ibi: str) -> DocumentRegistryError:
    return DocumentRegistryError(
        "conflict", f"{name} {ibi} is already in use; send another one, or none"
    )


def _lock_registrations(
    connection: Connection, document_id: str, actor: AuthenticatedActor
) -> tuple[rows.LockedDocument, rows.StoredRegistration, Sequence[rows.StoredRegistration]]:
    """Lock a document, and return it with the actor's registration and the other registrations.

    :raises Denied: if the actor has no registration of the document.
    """
    document = rows.lock_document(connection, document_id)
    registrations = rows.find_registrations(connection, document_id)
    own = [registration for registration in registrations if registration.actor_row_id == actor.id]
    if document is None or not own:
        raise Denied
    others = [registration for registration in registrations if registration is not own[0]]
    return document, own[0], others
