"""The operations of the registry protocol of 2008 ([P] 4).

A password is compared and hashed outside of transactions, because a hash takes some hundredths of a
second. All changes of an operation are one transaction, which checks that the password was not
changed in the meantime. All these transactions wait for one lock (``tables.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from ipaddress import ip_address
from typing import Any

from sqlalchemy import Connection, delete, exists, insert, select, update

from flask_ibi_archive.core.identifiers.dates import next_suffix_dates
from flask_ibi_archive.core.identifiers.grammar import Identifier, build_repository_name
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.registry_2008 import DocumentLocation, RegistryAnswer
from flask_ibi_archive.core.resolution.answer import Answer, Question
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.archives import COST, hash_secret, matches_hash
from flask_ibi_archive.resolver.config import MINT_GRANULARITY, MINT_PORT, ResolverConfig
from flask_ibi_archive.resolver.registry_2008.answers import list_answers
from flask_ibi_archive.resolver.registry_2008.tables import (
    LOCK,
    Actor,
    Registration,
    UsedIdentifier,
    find_registrations,
    format_location,
)
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update
from flask_ibi_archive.server.http.guarded_http import look_up, run_within
from flask_ibi_archive.server.web.requests import find_address

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: The maximum number of seconds for a look-up in the DNS.
LOOK_UP_TIMEOUT = 5.0


def look_up_host(host: str) -> tuple[str, ...]:
    """Return the IP addresses of a host name, or none if the DNS does not know them in time."""

    def work() -> tuple[str, ...]:
        try:
            return look_up(host, None)
        except (OSError, ValueError):
            return ()

    return run_within(LOOK_UP_TIMEOUT, work) or ()


@dataclass
class DocumentRegistry:
    """Registers actors and their documents.

    The parameters of the operations have the names in ``core/registry_2008.py``. An operation
    raises :class:`DocumentRegistryError` if the request is refused, and :class:`NotReady` if the
    database is not available. After an error, nothing has changed.

    :param find_claimant: returns the service IBI of the included Archive that claims an identifier,
        or None.
    :param now: returns the current date.
    :param look_up: returns the IP addresses of a host name.
    :param cost: the cost of the hash of a password. See ``hash_secret`` (archives.py).
    """

    database: Database
    config: ResolverConfig
    find_claimant: Callable[[Connection, Identifier], str | None]
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    look_up: Callable[[str], tuple[str, ...]] = look_up_host
    cost: int = COST

    def run(self, verb: str, values: dict[str, Any]) -> RegistryAnswer:
        """Execute a request, and return the answer."""
        operations: dict[str, Callable[..., RegistryAnswer]] = {
            "RegisterActor": self.register_actor,
            "ChangePassword": self.change_password,
            "ChangeEMailAddress": self.change_email,
            "RegisterDocument": self.register_document,
            "ChangeActor": self.change_actor,
            "DeleteDocumentRegistration": self.delete_registration,
            "DisplayIDRegistration": self.display,
        }
        return operations[verb](**values)

    def list_answers(
        self, questions: Sequence[Question], client_addresses: tuple[str, ...], silent: Set[int]
    ) -> Sequence[Answer]:
        """Return the answers of the registered documents to the questions of a resolution."""
        return self.database.read(
            lambda connection: list_answers(connection, questions, client_addresses, silent)
        )

    # --- actors ----------------------------------------------------------------------------------

    def register_actor(
        self,
        computer_name: str,
        ip: str,
        domain_name: str,
        port: int,
        email: str,
        password: str,
        actor_id: str | None = None,
    ) -> RegistryAnswer:
        """Register an actor ([P] 4.1)."""
        host = f"{computer_name}.{domain_name}".lower()
        # internal addresses are refused too: a request must not explore the resolver's network
        is_allowed = self.config.inner_hosts.allow(host, ip_address(ip))
        if not is_allowed or ip_address(ip) not in map(find_address, self.look_up(host)):
            raise DocumentRegistryError(
                f"ip {ip} is not a public IP address of {host} in the DNS", 403
            )
        password_hash = hash_secret(password, self.cost)
        with self.database.writing(table_lock=LOCK) as connection:
            actor_id = self._choose_identifier(connection, actor_id, is_actor=True)
            row = {"actor_id": actor_id, "address": f"{host}:{port}", "email": email}
            connection.execute(insert(Actor).values(**row, password_hash=password_hash))
        return RegistryAnswer("actorID", actor_id)

    def change_password(self, actor_id: str, password: str, new_password: str) -> RegistryAnswer:
        """Replace the password of an actor ([P] 4.2)."""
        with self._authenticated(actor_id, password) as (connection, actor):
            password_hash = hash_secret(new_password, self.cost)
            _update_actor(connection, actor, password_hash=password_hash)
        return RegistryAnswer("confirmation", "the password was changed")

    def change_email(self, actor_id: str, password: str, new_email: str) -> RegistryAnswer:
        """Replace the e-mail address of an actor ([P] 4.3)."""
        with self._authenticated(actor_id, password) as (connection, actor):
            _update_actor(connection, actor, email=new_email)
        return RegistryAnswer("confirmation", "the e-mail address was changed")

    # --- documents -------------------------------------------------------------------------------

    def register_document(
        self,
        actor_id: str,
        password: str,
        location: DocumentLocation,
        document_id: str | None = None,
        is_original: bool = False,
    ) -> RegistryAnswer:
        """Register a document or a copy of a document ([P] 4.4).

        The actor that registers a document first has the document. All later actors have copies. A
        later registration by the same actor replaces the former one completely.
        """
        with self._authenticated(actor_id, password) as (connection, actor):
            record = [] if document_id is None else find_registrations(connection, document_id)
            if document_id is None or all(one.actor_id != actor_id for one in record):
                document_id = self._choose_identifier(connection, document_id)
            is_copy = bool(record) and record[0].actor_id != actor_id
            if is_copy and is_original:
                raise DocumentRegistryError(
                    f"the actor {record[0].actor_id} has the document {document_id}, so other "
                    "actors have copies; a copy needs originalDocument=no",
                    409,
                )
            values = {
                "document_id": document_id,
                "actor_id": actor,
                "is_copy": is_copy,
                "is_original": is_original,
                "location": format_location(location),
            }
            statement = insert_or_update(connection, Registration).values(values)
            key = ["document_id", "actor_id"]
            connection.execute(statement.on_conflict_do_update(index_elements=key, set_=values))
            # the actor has new URLs, so that its time without a working URL ends
            _update_actor(connection, actor, failing_since=None)
        return RegistryAnswer("documentID", document_id)

    def change_actor(
        self, actor_id: str, password: str, document_id: str, new_actor_id: str
    ) -> RegistryAnswer:
        """Hand a document or a copy over to another actor ([P] 4.5).

        The registration of the old actor remains, as a copy, until the old actor deletes it. If the
        new actor has no registration of the document, it gets one with the URLs of the old actor.
        If the old actor had the document, the new actor then has the document, with the copyright.
        """
        with self._authenticated(actor_id, password) as (connection, actor):
            new = connection.execute(_select_actor(new_actor_id)).one_or_none()
            columns = (Registration.is_copy, Registration.is_original, Registration.location)
            owned = select(*columns).where(*_is_own(document_id, actor))
            own = connection.execute(owned).one_or_none()
            if new is None or own is None:
                raise _denied()
            copy = {"is_copy": True, "is_original": False}
            values = {**copy, "document_id": document_id, "actor_id": new.id}
            statement = insert_or_update(connection, Registration).values(values)
            connection.execute(statement.values(location=own.location).on_conflict_do_nothing())
            if not own.is_copy:
                moved = {"is_copy": False, "is_original": own.is_original}
                for row_id, state in ((actor, copy), (new.id, moved)):
                    changed = update(Registration).where(*_is_own(document_id, row_id))
                    connection.execute(changed.values(state))
            _update_actor(connection, new.id, failing_since=None)
        return RegistryAnswer(
            "confirmation", f"the document {document_id} is now registered by {new_actor_id}"
        )

    def delete_registration(self, actor_id: str, password: str, document_id: str) -> RegistryAnswer:
        """Delete the registration of a document or of a copy ([P] 4.6).

        The registration of a document remains as long as other actors have copies.
        """
        with self._authenticated(actor_id, password) as (connection, actor):
            record = find_registrations(connection, document_id)
            if len(record) > 1 and record[0].actor_id == actor_id:
                copies = ", ".join([copy.actor_id for copy in record[1:]])
                raise DocumentRegistryError(
                    f"the copies of the document {document_id} must be deleted first; these actors "
                    f"have copies: {copies}",
                    409,
                )
            own = delete(Registration).where(*_is_own(document_id, actor))
            if connection.execute(own).rowcount == 0:
                raise _denied()
        return RegistryAnswer("confirmation", f"the registration of {document_id} was deleted")

    def display(self, actor_id: str, password: str, document_id: str) -> RegistryAnswer:
        """Return the full record of a document, which each actor can read ([P] 4.7)."""
        with self._authenticated(actor_id, password) as (connection, _):
            record = find_registrations(connection, document_id)
        if not record:
            raise _denied()
        return RegistryAnswer("documentID", document_id, record)

    # --- passwords and identifiers ---------------------------------------------------------------

    @contextmanager
    def _authenticated(self, actor_id: str, password: str) -> Iterator[tuple[Connection, int]]:
        """Check a password, and yield a transaction and the id of the actor's row.

        A wrong password and an unknown or cancelled actor take the same time.
        """
        statement = _select_actor(actor_id)
        found = self.database.read(lambda connection: connection.execute(statement).one_or_none())
        dummy = f"scrypt:{self.cost}:8:1${'0' * 16}${'0' * 128}"
        if not matches_hash(password, found.password_hash if found else dummy) or found is None:
            raise _denied()
        with self.database.writing(table_lock=LOCK) as connection:
            # the password may have been changed in the meantime
            if connection.execute(statement).one_or_none() != found:
                raise _denied()
            yield connection, found.id

    def _choose_identifier(
        self, connection: Connection, ibi: str | None, is_actor: bool = False
    ) -> str:
        """Return the identifier of a new registration: the given one, or a new one.

        :raises DocumentRegistryError: if an included Archive claims the given identifier, or if it
            is that of another actor or, for an actor, of a document.
        """
        if ibi is None:
            return self._mint(connection)
        is_new, is_allowed = _use(connection, ibi), ibi in self.config.registry_allowed
        claimant = None if is_allowed else self.find_claimant(connection, parse_identifier(ibi))
        if claimant is not None:
            raise DocumentRegistryError(f"the Archive {claimant} has {ibi}; send another ID", 409)
        of_actor = connection.scalar(select(exists().where(Actor.actor_id == ibi)))
        if is_actor:
            # two actors never have one identifier, whatever the operator allows
            is_refused = of_actor or not (is_new or is_allowed)
        else:
            is_refused = of_actor and not is_allowed
        if is_refused:
            raise DocumentRegistryError(f"{ibi} is already in use; send another ID, or none", 409)
        return ibi

    def _mint(self, connection: Connection) -> str:
        """Return an identifier that nobody has used, and wait until its date is reached."""
        host = str(self.config.mint_host)  # a text if the resolver has a registry
        now = Fraction((self.now() - EPOCH) // timedelta(microseconds=1), 10**6)
        last = None
        while True:
            [last], delay = next_suffix_dates(now, last, MINT_GRANULARITY, 1)
            ibi = build_repository_name(host, MINT_PORT, last).text
            if _use(connection, ibi):
                time.sleep(float(delay))
                return ibi


def _denied() -> DocumentRegistryError:
    """Return the error for a wrong password or an unknown ID, which does not tell which."""
    return DocumentRegistryError("the password is wrong, or an ID is unknown", 403)


def _select_actor(actor_id: str) -> Any:
    is_active = Actor.password_hash.is_not(None)
    return select(Actor.id, Actor.password_hash).where(Actor.actor_id == actor_id, is_active)


def _update_actor(connection: Connection, actor: int, **values: Any) -> None:
    connection.execute(update(Actor).where(Actor.id == actor).values(values))


def _is_own(document_id: str, actor: int) -> tuple[Any, Any]:
    return Registration.document_id == document_id, Registration.actor_id == actor


def _use(connection: Connection, ibi: str) -> bool:
    """Store that an identifier is in use; return False if it already was."""
    statement = insert_or_update(connection, UsedIdentifier).values(identifier=ibi)
    done = statement.on_conflict_do_nothing().returning(UsedIdentifier.identifier)
    return connection.scalar(done) is not None
