"""Documents in the registry of a resolver, and resolutions with them.

The rows are inserted directly, because these tests read thousands of registries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from sqlalchemy import delete, insert

from flask_ibi_archive.core.resolution.persistent_url import find_cited_identifier
from flask_ibi_archive.resolver.registry_2008.sources import list_answers
from flask_ibi_archive.resolver.registry_2008.tables import (
    Actor,
    Document,
    RegisteredMetadata,
    Registration,
)
from flask_ibi_archive.resolver.resolution_context import ReadDocuments
from flask_ibi_archive.server.database.database import Database

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
            connection.execute(delete(table))
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
