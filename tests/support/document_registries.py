"""Document registries with actors and documents, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from flask_ibi_archive.core.protocol.registry_2008 import (
    ChangeActor,
    Credentials,
    DeleteDocumentRegistration,
    DocumentLocation,
    MetadataLocation,
    RegisterActor,
    RegisterDocument,
)
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.registry_2008.registry import DocumentRegistry
from flask_ibi_archive.server.database.database import Database
from support.registries import CHEAP, NOON, a_config

PASSWORD = "12xY3z"
#: The IP address of all actors. The examples of [P] 4.1 contain this address.
IP = "150.163.2.14"
MINT_HOST = "registry.urlib.net"
#: The prefix of minted identifiers.
PREFIX = "urlib.net/registry.2008"

_numbers = count()


class ManualClock:
    """A clock that only advances if a test or a wait advances it."""

    def __init__(self, time: datetime = NOON) -> None:
        self.time = time

    def __call__(self) -> datetime:
        """Return the time."""
        return self.time

    def wait(self, seconds: float) -> None:
        """Advance the clock."""
        self.time += timedelta(seconds=seconds)


def a_document_registry(database: Database, **options: Any) -> DocumentRegistry:
    """Return a document registry in whose DNS each host has the address :data:`IP`.

    By default, all Archives answer that they do not know an identifier.
    """
    clock = options.pop("clock", None) or ManualClock()
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
