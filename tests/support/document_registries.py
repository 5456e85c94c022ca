"""Document registries with actors and documents, which are called or written into the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import delete as delete_rows
from sqlalchemy import insert

from flask_ibi_archive.core.registry_2008 import (
    DocumentLocation,
    DocumentRegistryError,
    MetadataLocation,
)
from flask_ibi_archive.resolver.registry_2008.operations import DocumentRegistry
from flask_ibi_archive.resolver.registry_2008.tables import (
    Actor,
    Registration,
    find_registrations,
    format_location,
)
from flask_ibi_archive.server.database.database import Database
from support.registries import CHEAP, NOON, a_config

PASSWORD = "12xY3z"
#: The IP address of all actors. The examples of [P] 4.1 contain this address.
IP = "150.163.2.14"
#: The values of an actor, as in the example of [P] 4.1.
ACTOR: dict[str, Any] = {
    "computer_name": "hermes",
    "ip": IP,
    "domain_name": "dpi.inpe.br",
    "port": 80,
    "email": "banon@dpi.inpe.br",
    "password": PASSWORD,
}


def a_document_registry(
    database: Database, claims: Mapping[str, str] | None = None, **config: Any
) -> DocumentRegistry:
    """Return a document registry in whose DNS each host has the address :data:`IP`.

    :param claims: the services of the Archives that claim identifiers, by the identifiers.
    """
    settings = {"IBI_RESOLVER_REGISTRY": True, "SERVER_NAME": "registry.urlib.net", **config}
    return DocumentRegistry(
        database,
        a_config(**settings),
        lambda connection, ibi: (claims or {}).get(ibi.text),
        now=lambda: NOON,
        look_up=lambda host: (IP,),
        cost=CHEAP,
    )


def an_ibi(name: str) -> str:
    """Return the IBI of an actor or of a document."""
    return f"inpe.br/{name}/2001/01.11.16.21"


def an_actor(registry: DocumentRegistry, name: str) -> str:
    """Register an actor, and return its IBI."""
    return registry.register_actor(**ACTOR, actor_id=an_ibi(name)).text


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
    actor: str,
    document_id: str | None = None,
    location: DocumentLocation | None = None,
    original: bool = False,
) -> str:
    """Register a document, and return its IBI."""
    place = location or a_location()
    return registry.register_document(actor, PASSWORD, place, document_id, original).text


def describe(registry: DocumentRegistry, document_id: str) -> list[str]:
    """Return a short text for each registration of a document, in the order of the record."""
    found = registry.database.read(lambda connection: find_registrations(connection, document_id))
    return [
        f"{one.actor_id.split('/')[1]} "
        + ("copy" if one.is_copy else "original" if one.is_original else "document")
        for one in found
    ]


def refusal(call: Any, *arguments: Any, **values: Any) -> tuple[int, str]:
    """Return the status and the message of the error that a call raises; 200 without an error."""
    try:
        call(*arguments, **values)
    except DocumentRegistryError as error:
        return error.status, str(error)
    return 200, ""


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


def store(database: Database, entries: Mapping[str, Entry], **values: Any) -> None:
    """Replace all actors and documents of a registry.

    :param values: the values of columns of all actors.
    """
    places = [(ibi, entry, place) for ibi, entry in entries.items() for place in entry.places]
    with database.writing() as connection:
        for table in (Registration, Actor):
            connection.execute(delete_rows(table))
        for number in sorted({place.actor for *_, place in places}):
            actor = {"id": number, "actor_id": actor_of(number), "address": address_of(number)}
            actor |= {"email": ACTOR["email"], "password_hash": "hash", **values}
            connection.execute(insert(Actor).values(actor))
        for number, (ibi, entry, place) in enumerate(places, 1):
            date = EPOCH + timedelta(minutes=number)
            is_copy = place is not entry.places[0]
            metadata = tuple(MetadataLocation(url, date, *rest) for url, *rest in place.metadata)
            updated_at = date if place.url else None
            location = DocumentLocation(place.url, updated_at, metadata, place.previous, place.next)
            registration = {
                "document_id": ibi,
                "actor_id": place.actor,
                "is_copy": is_copy,
                "is_original": entry.is_original and not is_copy,
                "location": format_location(location),
            }
            connection.execute(insert(Registration).values(registration))
