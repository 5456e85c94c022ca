"""Actors of the document registry, written directly into the tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update

from flask_ibi_archive.resolver.registry_2008.tables import (
    Actor,
    Document,
    RegisteredMetadata,
    Registration,
)
from flask_ibi_archive.server.database.database import Database
from support.registries import NOON


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
        connection.execute(delete(Registration).where(Registration.actor_id == _id(name)))
        connection.execute(delete(Document).where(Document.holder_id == _id(name)))


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
