"""The operations of the registry protocol of 2008 ([P] 4).

A password is compared and hashed outside of transactions, because a hash takes some hundredths of a
second. All changes of an operation are one transaction, which checks that the password was not
changed in the meantime. All these transactions wait for one lock (``tables.py``).

**Answers.** Each actor with a registration of a document is a source of answers, like an Archive
([R] 6.2). Only the actor that has the document (not a copy) states the next edition. Otherwise,
anyone who registers a copy could redirect the readers of the last edition. The rules of URL lists
(:mod:`~flask_ibi_archive.core.protocol.url_list`) create the answers. A registered document has no
files, so an answer contains neither a requested file nor the list of files. The answers have no URL
key, so that actors receive no acknowledgments.

**The check.** An actor is cancelled if none of the actor's URLs has worked for two years ([P] 4.1,
note 2).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Connection, delete, exists, func, insert, select, update

from flask_ibi_archive.core.identifiers.dates import next_suffix_dates
from flask_ibi_archive.core.identifiers.grammar import (
    Form,
    Identifier,
    build_repository_name,
)
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import CatalogueItem, OwnMetadata, Scope
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import ArchiveFacts, ArchiveUrls, answer_url_request
from flask_ibi_archive.core.registry_2008 import (
    DocumentLocation,
    DocumentRegistration,
    DocumentRegistryError,
    MetadataLocation,
    RegistryAnswer,
)
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.core.resolution.persistent_url import find_cited_identifier
from flask_ibi_archive.resolver.archives import COST, hash_secret, matches_hash
from flask_ibi_archive.resolver.config import MINT_GRANULARITY, MINT_PORT, ResolverConfig
from flask_ibi_archive.resolver.registry_2008.tables import (
    LOCK,
    Actor,
    Registration,
    UsedIdentifier,
    find_registrations,
    format_location,
    parse_location,
)
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update, read_pages
from flask_ibi_archive.server.http.guarded_http import look_up, run_within
from flask_ibi_archive.server.http.transport import find_link_error
from flask_ibi_archive.server.web.requests import find_address

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: The maximum number of seconds for a look-up in the DNS.
LOOK_UP_TIMEOUT = 5.0


def look_up_host(host: str) -> tuple[str, ...]:
    """Return the IP addresses of a host name; () if the DNS does not answer with one in time."""

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
        self, questions: Sequence[Question], client_addresses: tuple[str, ...]
    ) -> Sequence[Answer]:
        """Return the answers of the registered documents to the questions of a resolution."""
        return self.database.read(
            lambda connection: list_answers(connection, questions, client_addresses)
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
        If the old actor had the document (not a copy), the new actor now has the document, and the
        copyright.
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
        """Return the identifier of a new registration: ``ibi``, or a new one if ``ibi`` is None.

        :param is_actor: whether the identifier is for an actor; otherwise it is for a document.
        :raises DocumentRegistryError: if an included Archive claims ``ibi``, or if ``ibi`` belongs
            to an actor. For an actor, also if ``ibi`` belongs to a document.
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
        """Mint a new identifier, and wait until the date in the identifier is reached."""
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
    """Return the error for a wrong password and for an unknown ID; it does not tell which."""
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


# --- answers --------------------------------------------------------------------------------------

#: The maximum number of registrations of a document that a resolution uses. Anyone can register
#: copies.
MAX_REGISTRATIONS = 32


def list_answers(
    connection: Connection, questions: Sequence[Question], client_addresses: tuple[str, ...]
) -> list[Answer]:
    """Return the answers of the registry: one for each question and actor that has the document.

    :param client_addresses: the IP address of the reader, then the IP addresses of the proxies.
    """
    answers = []
    for question in questions:
        record = find_registrations(connection, question.ibi.text, MAX_REGISTRATIONS)
        for registration in record:
            catalogue = _RecordCatalogue(question.ibi, record, registration)
            answers.append(_create_answer(question, client_addresses, catalogue))
    return answers


@dataclass(frozen=True, slots=True)
class _RecordCatalogue:
    """A catalogue with one document, as one actor has registered it."""

    ibi: Identifier
    record: Sequence[DocumentRegistration]
    registration: DocumentRegistration

    def find(self, ibi: str, scope: Scope) -> CatalogueItem:
        """Return the document as an item."""
        location, following = self.registration.location, None
        next_url = self.record[0].location.next_edition_url
        if next_url is not None:
            cited = find_cited_identifier(next_url)
            following = _create_item(cited, next_url, scope, None if cited else State.COPY.value)
        return _create_item(
            self.ibi,
            location.url,
            scope,
            (State.ORIGINAL if self.registration.is_original else State.COPY).value,
            timestamp=location.updated_at,
            # without a URL of the document at any actor, the metadata replace it
            shows_metadata=all(one.location.url is None for one in self.record),
            described_by=_create_metadata(location.metadata),
            following=following,
        )


def _create_item(
    ibi: Identifier | None, url: str | None, scope: Scope, state: str | None, **values: Any
) -> CatalogueItem:
    """Return an item with one file, which is at the URL. Nobody may read an item without a URL.

    :param state: None for an item of which only the IBI is known.
    """
    is_rep = ibi is not None and ibi.form is Form.REP
    text = None if ibi is None else ibi.text
    return CatalogueItem(
        0,
        state,
        text if is_rep else None,
        None if is_rep else text,
        networks=() if url is None else None,
        files={} if url is None else {"": url},
        target_path=None if url is None else "",
        scope=scope,
        **values,
    )


def _create_metadata(metadata: Sequence[MetadataLocation]) -> OwnMetadata | None:
    """Return the metadata of a document. The first metadata without a format are in free form."""
    if not metadata:
        return None
    free = next((one for one in metadata if one.format is None), metadata[0])
    # reversed: of several metadata with the same format, the first ones count
    formats = {one.format: one.url for one in reversed(metadata) if one.format is not None}
    return OwnMetadata(free.url, formats, free.updated_at)


def _create_answer(
    question: Question, client_addresses: tuple[str, ...], catalogue: _RecordCatalogue
) -> Answer:
    """Return the answer of an actor to a question."""
    address = catalogue.registration.address
    pairs = answer_url_request(
        catalogue,
        question.create_request(client_addresses),
        ArchiveFacts(address, (), ArchiveUrls(f"http://{address}"), filter_url_list=False),
        lambda item: "",  # without a URL key, actors receive no acknowledgments
        requested_only=True,
    )
    # pairs without a value are left out, such as the URL key; an actor has no list of files, so
    # that a request for the list gets no URL
    found = {
        name: (value,) if isinstance(value, str) else value
        for name, value in pairs
        if value and not (question.verbs.file_list and name.startswith("url"))
    }
    source = ArchiveSource(catalogue.registration.actor_id, address, is_actor=True)
    return Answer(source, question, found)


# --- the check of two years -----------------------------------------------------------------------

#: An actor is cancelled if its URLs have not worked for this time.
PERIOD = timedelta(days=730)
#: The number of actors that are checked at the same time.
THREADS = 8


class ActorChange(NamedTuple):
    """A change of an actor.

    :param state: "failing" (the first time that no URL works), "works again" or "cancelled".
    :param error: the reason why the last URL does not work, or None.
    """

    actor_id: str
    email: str
    state: str
    error: str | None


def check_actors(
    database: Database,
    config: ResolverConfig,
    dry_run: bool = False,
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
) -> Iterator[ActorChange]:
    """Check all actors that have registrations, and yield each change after it was stored.

    No transaction is open while URLs are requested. If no URL of several actors works, the network
    of the resolver is probably down, and nothing is stored.

    :param dry_run: True changes nothing in the database.
    :raises ConnectionError: if no URL of several actors works.
    """
    columns = (Actor.id, Actor.actor_id, Actor.email, Actor.failing_since)
    registered = exists().where(Registration.actor_id == Actor.id)
    actors = database.read_rows(select(*columns).where(registered).order_by(Actor.id))
    checked_at = now()
    with ThreadPoolExecutor(THREADS) as pool:
        errors = list(pool.map(lambda actor: _find_error(database, config, actor.id), actors))
    if len(actors) > 1 and None not in errors:
        raise ConnectionError(f"no URL of {len(actors)} actors works")
    for actor, error in zip(actors, errors, strict=True):
        since = actor.failing_since
        if error is None:
            state = "works again" if since else ""
        elif since is None:
            state = "failing"
        else:
            state = "cancelled" if checked_at - since >= PERIOD else ""
        if state and (dry_run or _store_change(database, actor.id, since, state, checked_at)):
            yield ActorChange(actor.actor_id, actor.email, state, error)


def _find_error(database: Database, config: ResolverConfig, actor: int) -> str | None:
    """Return why the last URL of an actor does not work; None if one of its URLs works."""
    own = select(Registration.id, Registration.location).where(Registration.actor_id == actor)
    base_url = config.service_url or config.service_ibi
    error, unreachable = None, set()
    for row in read_pages(database.read_rows, own, Registration.id):
        location = parse_location(row.location)
        for url in filter(None, [location.url, *[one.url for one in location.metadata]]):
            host = urlsplit(url).netloc
            if host in unreachable:
                continue  # requests for all URLs of a host that is down could take days
            found = find_link_error(url, base_url, config.inner_hosts)
            if found is None:
                return None
            error = found.reason
            if found.is_of_host:
                unreachable.add(host)
    return error


def _store_change(
    database: Database, actor: int, since: datetime | None, state: str, checked_at: datetime
) -> bool:
    """Store a change; return False if the actor has registered URLs since the check."""
    with database.writing(table_lock=LOCK) as connection:
        unchanged = Actor.failing_since.is_not_distinct_from(since)
        changed = connection.execute(
            update(Actor)
            .where(Actor.id == actor, unchanged)
            .values(failing_since=checked_at if state == "failing" else None)
        ).rowcount
        if changed and state == "cancelled":
            _cancel(connection, actor)
    return bool(changed)


def _cancel(connection: Connection, actor: int) -> None:
    """Cancel the registration of an actor, and delete its registrations of documents.

    Each document of the actor goes to the actor with the oldest copy, but this actor does not get
    the copyright. The row of the actor remains, so that nobody gets the same IBI again.
    """
    connection.execute(delete(Registration).where(Registration.actor_id == actor))
    without_holder = (
        select(func.min(Registration.id))
        .group_by(Registration.document_id)
        .having(func.count().filter(~Registration.is_copy) == 0)
    )
    oldest = Registration.id.in_(without_holder)
    connection.execute(update(Registration).where(oldest).values(is_copy=False))
    connection.execute(update(Actor).where(Actor.id == actor).values(password_hash=None))
