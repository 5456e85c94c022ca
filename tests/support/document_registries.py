"""Document registries with actors and documents, which are called or written into the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

from sqlalchemy import delete as delete_rows
from sqlalchemy import insert, select, update

from flask_ibi_archive.core.protocol.registry_2008 import (
    ChangeActor,
    Credentials,
    DeleteDocumentRegistration,
    DocumentLocation,
    MetadataLocation,
    RegisterActor,
    RegisterDocument,
)
from flask_ibi_archive.core.resolution.persistent_url import find_cited_identifier
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.registry_2008.registry import DocumentRegistry
from flask_ibi_archive.resolver.registry_2008.sources import list_answers
from flask_ibi_archive.resolver.registry_2008.tables import (
    Actor,
    Document,
    RegisteredMetadata,
    Registration,
)
from flask_ibi_archive.resolver.resolution_context import ReadDocuments
from flask_ibi_archive.server.database.database import Database
from support.clocks import Clock
from support.registries import CHEAP, NOON, a_config

PASSWORD = "12xY3z"
#: The IP address of all actors. The examples of [P] 4.1 contain this address.
IP = "150.163.2.14"
MINT_HOST = "registry.urlib.net"
#: The prefix of minted identifiers.
PREFIX = "urlib.net/registry.2008"

_numbers = count()


def a_document_registry(database: Database, **options: Any) -> DocumentRegistry:
    """Return a document registry in whose DNS each host has the address :data:`IP`.

    By default, all Archives answer that they do not know an identifier.
    """
    clock = options.pop("clock", None) or Clock(NOON)
    options = {
        "ask": lambda archives, ibi, applicant: {archive.id: False for archive in archives},
        "look_up": lambda host: [IP],
        "now": clock,
        "wait": clock.wait,
        **options,
    }
    config = a_config(IBI_RESOLVER_REGISTRY=True, IBI_RESOLVER_REGISTRY_MINT_HOST=MINT_HOST)
    return DocumentRegistry(database, config, cost=CHEAP, **options)


def a_sender() -> str:
    """Return an IP address that no other request comes from, so that no rate limit applies."""
    number = next(_numbers)
    return f"8.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def an_ibi(name: str) -> str:
    """Return the IBI of an actor or of a document."""
    return f"inpe.br/{name}/2001/01.11.16.21"


def actor_request(actor_id: str | None = None, **values: Any) -> RegisterActor:
    """Return a request to register an actor, as in the example of [P] 4.1."""
    facts = {
        "computer_name": "hermes",
        "ip": IP,
        "domain_name": "dpi.inpe.br",
        "port": 80,
        "email": "banon@dpi.inpe.br",
        "password": PASSWORD,
    }
    return RegisterActor(actor_id=actor_id, **{**facts, **values})


def an_actor(registry: DocumentRegistry, name: str) -> Credentials:
    """Register an actor, and return its credentials."""
    return Credentials(registry.register_actor(actor_request(an_ibi(name)), a_sender()), PASSWORD)


def a_location(name: str = "a", *formats: str, **values: Any) -> DocumentLocation:
    """Return URLs of a document.

    :param name: a part of the URLs.
    :param formats: the formats of the metadata.
    """
    metadata = tuple(
        MetadataLocation(f"http://hermes.dpi.inpe.br/{name}/{number}", NOON, one, "pt-BR")
        for number, one in enumerate(formats)
    )
    facts = {"url": f"http://hermes.dpi.inpe.br/{name}", "updated_at": NOON, "metadata": metadata}
    return DocumentLocation(**{**facts, **values})


def register(
    registry: DocumentRegistry,
    actor: Credentials,
    document_id: str | None = None,
    location: DocumentLocation | None = None,
    original: bool = False,
) -> str:
    """Register a document, and return its IBI."""
    request = RegisterDocument(actor, location or a_location(), document_id, original)
    return registry.register_document(request, a_sender())


def hand_over(
    registry: DocumentRegistry, old: Credentials, document_id: str, new_actor_id: str
) -> None:
    """Hand a document over to another actor."""
    registry.change_actor(ChangeActor(old, document_id, new_actor_id), a_sender())


def delete(registry: DocumentRegistry, actor: Credentials, document_id: str) -> None:
    """Delete the registration of a document."""
    registry.delete_registration(DeleteDocumentRegistration(actor, document_id), a_sender())


def describe(registry: DocumentRegistry, document_id: str) -> list[str]:
    """Return a short text for each registration of a document, in the order of the record."""
    record = registry.find_record(document_id)
    return [] if record is None else list(_describe(record.registrations))


def _describe(registrations: Any) -> Iterator[str]:
    for one in registrations:
        kind = "copy" if one.is_copy else "original" if one.is_original else "document"
        yield f"{one.actor_id.split('/')[1]} {kind}"


def refusal(call: Any, *arguments: Any) -> tuple[str, str]:
    """Return the code and the message of the error that a call raises; two "" without an error."""
    try:
        call(*arguments)
    except DocumentRegistryError as error:
        return error.code, str(error)
    return "", ""


#: The date of the first registration. Each further date is a minute later.
EPOCH = datetime(2008, 7, 17, 20, 22, 6, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Place:
    """The registration of a document by an actor.

    :param actor: the number of the actor.
    :param metadata: the URL, the format and the language of each metadata.
    """

    actor: int
    url: str | None = None
    metadata: Sequence[tuple[str, str | None, str | None]] = ()
    previous: str | None = None
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A registered document. The first place belongs to the holder; the others are copies."""

    places: Sequence[Place]
    is_original: bool = True


def actor_of(number: int) -> str:
    """Return the IBI of an actor."""
    return f"actors.br/registry@2008/2008/07.17.17.{number:02}"


def address_of(number: int) -> str:
    """Return the address of an actor."""
    return f"host{number}.actors.br:80"


def store(database: Database, entries: Mapping[str, Entry]) -> None:
    """Replace all documents of a registry."""
    actors = {place.actor for entry in entries.values() for place in entry.places}
    documents, registrations, metadata = [], [], []
    for number, (ibi, entry) in enumerate(entries.items(), 1):
        documents.append(
            {
                "id": number,
                "document_id": ibi,
                "holder_id": entry.places[0].actor,
                "is_original": entry.is_original,
            }
        )
        for place in entry.places:
            key = len(registrations) + 1
            registrations.append(
                {
                    "id": key,
                    "document_id": number,
                    "actor_id": place.actor,
                    "url": place.url,
                    "updated_at": _date(key) if place.url else None,
                    "previous_edition_url": place.previous,
                    "previous_edition_ibi": _find_ibi(place.previous),
                    "next_edition_url": place.next,
                    "next_edition_ibi": _find_ibi(place.next),
                    "first_metadata": 1 if place.metadata else None,
                }
            )
            metadata += [
                {
                    "registration_id": key,
                    "number": position,
                    "url": url,
                    "updated_at": _date(key),
                    "format": format,
                    "language": language,
                }
                for position, (url, format, language) in enumerate(place.metadata, 1)
            ]
    with database.writing() as connection:
        for table in (RegisteredMetadata, Registration, Document, Actor):
            connection.execute(delete_rows(table))
        for table, rows in (
            (Actor, [_create_actor(number) for number in sorted(actors)]),
            (Document, documents),
            (Registration, registrations),
            (RegisteredMetadata, metadata),
        ):
            if rows:
                connection.execute(insert(table), rows)


def _date(number: int) -> datetime:
    return EPOCH + timedelta(minutes=number)


def _find_ibi(url: str | None) -> str | None:
    found = url and find_cited_identifier(url)
    return found.text if found else None


def _create_actor(number: int) -> dict[str, object]:
    return {
        "id": number,
        "actor_id": actor_of(number),
        "computer_name": f"host{number}",
        "domain_name": "actors.br",
        "ip": "150.163.2.1",
        "port": 80,
        "email": "a@actors.br",
        "password_hash": "hash",
        "registered_at": EPOCH,
    }


def documents_of(database: Database) -> ReadDocuments:
    """Return the function that reads the document registry in a database."""
    return lambda questions, addresses, silent: database.read(
        lambda connection: list_answers(connection, questions, addresses, silent)
    )


def actor_ibi(name: str) -> str:
    """Return the IBI of the actor with a short name, such as A."""
    return f"a.br/{name.lower()}/2001/01.01.00.00"


def add_actors(database: Database, names: Iterable[str], **values: Any) -> None:
    """Register actors. The id of the actor A is 1, the id of the actor B is 2, and so on."""
    rows = [
        {
            "id": _id(name),
            "actor_id": actor_ibi(name),
            "computer_name": name,
            "domain_name": "a.br",
            "ip": "150.163.2.14",
            "port": 80,
            "email": f"{name.lower()}@a.br",
            "password_hash": "hash",
            "registered_at": NOON,
            **values,
        }
        for name in names
    ]
    with database.writing() as connection:
        connection.execute(insert(Actor), rows)


def add_documents(database: Database, documents: Mapping[str, str]) -> None:
    """Register documents.

    :param documents: the short names of the actors by IBI of the document. The first actor holds
        the original, and the others have copies, in this order.
    """
    with database.writing() as connection:
        for ibi, names in documents.items():
            document = {"document_id": ibi, "holder_id": _id(names[0]), "is_original": True}
            row = connection.scalar(insert(Document).values(document).returning(Document.id))
            urls = [
                {
                    "document_id": row,
                    "actor_id": _id(name),
                    "url": f"http://{name}.a.br/",
                    "updated_at": NOON,
                }
                for name in names
            ]
            for url in urls:
                connection.execute(insert(Registration).values(url))


def add_urls(database: Database, name: str, *urls: str | None, metadata: Iterable[str] = ()) -> int:
    """Register a document of an actor for each URL. The last document also has metadata.

    :returns: the id of the last registration.
    """
    with database.writing() as connection:
        for number, url in enumerate(urls):
            is_last = number == len(urls) - 1
            has_metadata = 1 if is_last and metadata else None
            used = connection.scalar(select(Document.id).order_by(Document.id.desc()).limit(1))
            document = connection.scalar(
                insert(Document)
                .values(
                    document_id=f"a.br/d/2001/01.01.{used or 0:07}",
                    holder_id=_id(name),
                    is_original=False,
                )
                .returning(Document.id)
            )
            registration = connection.scalar(
                insert(Registration)
                .values(
                    document_id=document,
                    actor_id=_id(name),
                    url=url,
                    updated_at=url and NOON,
                    first_metadata=has_metadata,
                )
                .returning(Registration.id)
            )
        for number, url in enumerate(metadata, 1):
            connection.execute(
                insert(RegisteredMetadata).values(
                    registration_id=registration, number=number, url=url, updated_at=NOON
                )
            )
    assert registration is not None
    return registration


def replace_url(
    database: Database, name: str, url: str, failing_since: datetime | None = None
) -> None:
    """Register the documents of an actor again, with another URL."""
    with database.writing() as connection:
        connection.execute(
            update(Actor).where(Actor.id == _id(name)).values(failing_since=failing_since)
        )
        connection.execute(
            update(Registration).where(Registration.actor_id == _id(name)).values(url=url)
        )


def delete_documents(database: Database, name: str) -> None:
    """Delete the documents of an actor that nobody has a copy of."""
    with database.writing() as connection:
        connection.execute(delete_rows(Registration).where(Registration.actor_id == _id(name)))
        connection.execute(delete_rows(Document).where(Document.holder_id == _id(name)))


def read_documents(database: Database) -> dict[str, str]:
    """Return the short names of the actors by IBI of the document, as in add_documents().

    The name of a holder that has no original is in lower case.
    """
    found: dict[str, str] = {}
    with database.reading() as connection:
        rows = connection.execute(
            select(Document.document_id, Document.is_original, Actor.computer_name)
            .join(Registration, Registration.document_id == Document.id)
            .join(Actor, Actor.id == Registration.actor_id)
            .order_by(Registration.actor_id != Document.holder_id, Registration.id)
        )
        for ibi, is_original, name in rows:
            shown = name if is_original or ibi in found else name.lower()
            found[ibi] = found.get(ibi, "") + shown
    return found


def read_actors(database: Database) -> dict[str, tuple[datetime | None, datetime | None]]:
    """Return failing_since and cancelled_at of each actor by its short name."""
    with database.reading() as connection:
        rows = connection.execute(
            select(Actor.computer_name, Actor.failing_since, Actor.cancelled_at)
        )
        return {name: (since, cancelled) for name, since, cancelled in rows}


def _id(name: str) -> int:
    return ord(name) - ord("A") + 1
