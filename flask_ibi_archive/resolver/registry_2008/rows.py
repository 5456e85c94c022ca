"""SQL statements of the document registry: actors, documents and their registrations.

Each transaction that changes registrations locks rows in the same order: first the actors in the
order of their ids, then the documents in the order of their ids. Therefore no deadlock is possible
on PostgreSQL. SQLite has only one writer at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from flask_ibi_archive.core.protocol.registry_2008.model import (
    DocumentLocation,
    DocumentRecord,
    DocumentRegistration,
    MetadataLocation,
    RegisterActor,
)
from flask_ibi_archive.core.resolution.persistent_url import find_cited_identifier
from flask_ibi_archive.resolver.registry_2008.passwords import AuthenticatedActor
from flask_ibi_archive.resolver.registry_2008.tables import (
    Actor,
    Document,
    RegisteredMetadata,
    Registration,
    UsedIdentifier,
)
from flask_ibi_archive.server.database.dialects import insert_or_update

# --- registrations of a document -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredRegistration:
    """The registration of a document by one actor, as it is stored.

    :param id: the id of the registration. Earlier registrations have lower ids.
    :param actor_row_id: the id of the actor in the table of actors.
    :param content: the registration as it is in the record of the document.
    """

    id: int
    actor_row_id: int
    content: DocumentRegistration


#: The columns of one metadata of a registration. All are NULL if there are no metadata.
METADATA_COLUMNS = (
    RegisteredMetadata.url.label("metadata_url"),
    RegisteredMetadata.updated_at.label("metadata_updated_at"),
    RegisteredMetadata.format,
    RegisteredMetadata.language,
)
_IS_COPY = Registration.actor_id != Document.holder_id
_REGISTRATIONS = (
    select(
        Registration.id,
        Registration.actor_id.label("actor_row_id"),
        Actor.actor_id,
        _IS_COPY.label("is_copy"),
        Document.is_original,
        Registration.url,
        Registration.updated_at,
        Registration.previous_edition_url,
        Registration.next_edition_url,
        *METADATA_COLUMNS,
    )
    .join_from(Document, Registration, Registration.document_id == Document.id)
    .join(Actor, Actor.id == Registration.actor_id)
    .outerjoin(RegisteredMetadata, RegisteredMetadata.registration_id == Registration.id)
    .where(Document.document_id == bindparam("document_id"))
    .order_by(_IS_COPY, Registration.id, RegisteredMetadata.number)
)


def find_registrations(connection: Connection, document_id: str) -> Sequence[StoredRegistration]:
    """Return the registration of the holder, then the copies in the order of their registration.

    One statement reads everything. Therefore the result is consistent without a transaction.

    :param document_id: the IBI of the document in canonical case.
    :returns: an empty sequence if the document is not registered.
    """
    rows = connection.execute(_REGISTRATIONS, {"document_id": document_id}).all()
    return [_build_registration(list(group)) for _, group in groupby(rows, attrgetter("id"))]


def _build_registration(rows: Sequence[Any]) -> StoredRegistration:
    """Return the registration in some rows that differ only in the metadata."""
    row = rows[0]
    location = DocumentLocation(
        row.url, row.updated_at, list_metadata(rows), row.previous_edition_url, row.next_edition_url
    )
    is_original = row.is_original and not row.is_copy
    content = DocumentRegistration(row.actor_id, row.is_copy, is_original, location)
    return StoredRegistration(row.id, row.actor_row_id, content)


def list_metadata(rows: Sequence[Any]) -> tuple[MetadataLocation, ...]:
    """Return the metadata in the :data:`METADATA_COLUMNS` of some rows."""
    return tuple(
        [
            MetadataLocation(row.metadata_url, row.metadata_updated_at, row.format, row.language)
            for row in rows
            if row.metadata_url is not None
        ]
    )


def find_record(connection: Connection, document_id: str) -> DocumentRecord | None:
    """Return the record of a document, or None if the document is not registered."""
    registrations = [
        registration.content for registration in find_registrations(connection, document_id)
    ]
    return DocumentRecord(document_id, tuple(registrations)) if registrations else None


def store_location(
    connection: Connection, document_row_id: int, actor_row_id: int, location: DocumentLocation
) -> None:
    """Store the registration of a document by an actor, or replace the former registration.

    The actor gets new URLs, so its time without a working URL ends ([P] 4.1, note 2).
    """
    values = {
        "document_id": document_row_id,
        "actor_id": actor_row_id,
        "url": location.url,
        "updated_at": location.updated_at,
        "previous_edition_url": location.previous_edition_url,
        "previous_edition_ibi": _find_ibi(location.previous_edition_url),
        "next_edition_url": location.next_edition_url,
        "next_edition_ibi": _find_ibi(location.next_edition_url),
        "first_metadata": 1 if location.metadata else None,
    }
    registration_id = connection.execute(
        insert_or_update(connection, Registration)
        .values(values)
        .on_conflict_do_update(index_elements=["document_id", "actor_id"], set_=values)
        .returning(Registration.id)
    ).scalar_one()
    of_registration = RegisteredMetadata.registration_id == registration_id
    connection.execute(delete(RegisteredMetadata).where(of_registration))
    metadata = [
        {
            "registration_id": registration_id,
            "number": number,
            "url": entry.url,
            "updated_at": entry.updated_at,
            "format": entry.format,
            "language": entry.language,
        }
        for number, entry in enumerate(location.metadata, 1)
    ]
    if metadata:
        connection.execute(insert(RegisteredMetadata), metadata)
    actor = update(Actor).where(Actor.id == actor_row_id, Actor.failing_since.is_not(None))
    connection.execute(actor.values(failing_since=None))


def _find_ibi(url: str | None) -> str | None:
    """Return the IBI in the URL of an edition, or None if this URL is not a persistent URL."""
    found = None if url is None else find_cited_identifier(url)
    return None if found is None else found.text


def delete_registration(connection: Connection, registration_id: int) -> None:
    """Delete a registration and its metadata."""
    connection.execute(delete(Registration).where(Registration.id == registration_id))


class IdentifierUsed(Exception):
    """An identifier already belongs to another actor or document."""


def _use_identifier(connection: Connection, identifier: str, **owner: int) -> None:
    """Store to which actor or document an identifier belongs.

    :raises IdentifierUsed: if the identifier already belongs to another actor or document.
    """
    statement = insert_or_update(connection, UsedIdentifier).values(identifier=identifier, **owner)
    done = statement.on_conflict_do_nothing().returning(UsedIdentifier.identifier)
    if connection.scalar(done) is None:
        raise IdentifierUsed


# --- documents -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LockedDocument:
    """A document whose row is locked until the end of the transaction.

    :param id: the id of the row.
    :param holder_id: the id of the row of the actor that has the document. All others have copies.
    """

    id: int
    holder_id: int


def lock_document(connection: Connection, document_id: str) -> LockedDocument | None:
    """Lock a document and return it, or None if the document is not registered.

    The lock prevents other transactions from changing any registration of the document.
    """
    row = connection.execute(
        select(Document.id, Document.holder_id)
        .where(Document.document_id == document_id)
        .with_for_update()
    ).one_or_none()
    return None if row is None else LockedDocument(*row)


def create_document(
    connection: Connection, document_id: str, holder_row_id: int
) -> LockedDocument | None:
    """Store a new document, or return None if the document is already registered.

    The caller must store the registration of the holder in the same transaction.

    :raises IdentifierUsed: if an actor has this IBI.
    """
    row_id = connection.scalar(
        insert_or_update(connection, Document)
        .values(document_id=document_id, holder_id=holder_row_id, is_original=False)
        .on_conflict_do_nothing()
        .returning(Document.id)
    )
    if row_id is None:
        return None
    _use_identifier(connection, document_id, document_id=row_id)
    return LockedDocument(row_id, holder_row_id)


def lock_or_create_document(
    connection: Connection, document_id: str, holder_row_id: int
) -> LockedDocument:
    """Lock a document, or store a new document with this holder."""
    while True:  # another transaction may create or delete the document between the statements
        document = lock_document(connection, document_id) or create_document(
            connection, document_id, holder_row_id
        )
        if document is not None:
            return document


def update_document(connection: Connection, document_row_id: int, **values: Any) -> None:
    """Change columns of a document."""
    connection.execute(update(Document).where(Document.id == document_row_id).values(values))


def delete_document(connection: Connection, document_row_id: int) -> None:
    """Delete a document that has no registration any more."""
    connection.execute(delete(Document).where(Document.id == document_row_id))


# --- actors --------------------------------------------------------------------------------------


def store_actor(
    connection: Connection, request: RegisterActor, actor_id: str, password_hash: str, now: datetime
) -> None:
    """Store a new actor.

    :raises IdentifierUsed: if another actor has or had the same IBI, or if a document has it.
    """
    statement = insert_or_update(connection, Actor).values(
        actor_id=actor_id,
        computer_name=request.computer_name,
        domain_name=request.domain_name,
        ip=request.ip,
        port=request.port,
        email=request.email,
        password_hash=password_hash,
        registered_at=now,
    )
    row_id = connection.scalar(statement.on_conflict_do_nothing().returning(Actor.id))
    if row_id is None:
        raise IdentifierUsed
    _use_identifier(connection, actor_id, actor_id=row_id)


def find_new_applicant(
    connection: Connection, actor_row_id: int, document_id: str
) -> tuple[str, str] | None:
    """Return the host and the IP address of an actor, unless it has registered a document.

    :returns: None if the actor has already registered the document or a copy of the document.
    """
    is_registered = (
        select(Registration.id)
        .join(Document, Document.id == Registration.document_id)
        .where(Document.document_id == document_id, Registration.actor_id == Actor.id)
        .exists()
    )
    address = select(Actor.computer_name + "." + Actor.domain_name, Actor.ip)
    found = connection.execute(address.where(Actor.id == actor_row_id, ~is_registered))
    row = found.one_or_none()
    return None if row is None else (row[0], row[1])


def lock_actors(
    connection: Connection, actor_ids: Collection[str]
) -> Mapping[str, AuthenticatedActor]:
    """Lock actors until the end of the transaction, and return those that are not cancelled.

    The lock prevents other transactions from changing or cancelling the actors.

    :returns: the id and the hash of the password of each actor, by IBI.
    """
    found = connection.execute(
        select(Actor.actor_id, Actor.id, Actor.password_hash)
        .where(Actor.actor_id.in_(actor_ids))
        .order_by(Actor.id)
        .with_for_update(key_share=True)
    )
    return {
        actor_id: AuthenticatedActor(row_id, password_hash)
        for actor_id, row_id, password_hash in found
        if password_hash  # a cancelled actor has no password
    }


def update_actor(connection: Connection, actor: AuthenticatedActor, **values: Any) -> bool:
    """Change columns of an actor.

    :returns: False if the password was changed or the actor was cancelled in the meantime.
    """
    unchanged = (Actor.id == actor.id, Actor.password_hash == actor.password_hash)
    return bool(connection.execute(update(Actor).where(*unchanged).values(values)).rowcount)
