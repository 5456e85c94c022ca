"""The tables of the document registry, as SQLAlchemy models, and the SELECT of registrations.

All transactions that write begin with :data:`LOCK`, so that the rules about the registrations of a
document are checked while nobody else changes them ([P] 4.4).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    CheckConstraint,
    Connection,
    ForeignKey,
    Index,
    String,
    Text,
    UniqueConstraint,
    select,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.core.registry_2008 import DocumentLocation, DocumentRegistration
from flask_ibi_archive.resolver.tables import ResolverBase
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime

#: The lock of all transactions that change the registry, on PostgreSQL.
LOCK = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'ibi_2008', 'big')})"


class Actor(ResolverBase):
    """A data provider, with its address and the hash of its password ([P] 4.1)."""

    __tablename__ = "ibi_registry_actor"
    __table_args__: Any = (UniqueConstraint("actor_id", name="uq_ibi_registry_actor_actor_id"),)

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: The IBI of the actor in canonical case. The IBI of a cancelled actor is never used again.
    actor_id: Mapped[str] = mapped_column(String(255))
    #: The host name and the port.
    address: Mapped[str] = mapped_column(Text)
    email: Mapped[str] = mapped_column(String(255))
    #: A salted hash of the password. None if the actor is cancelled.
    password_hash: Mapped[str | None] = mapped_column(String(255))
    #: The date of the first check in which no URL of the actor worked. None if a URL worked in the
    #: last check, or if there was no check since the last registration.
    failing_since: Mapped[datetime | None] = mapped_column(UTCDateTime)


class Registration(ResolverBase):
    """The registration of a document or of a copy by one actor ([P] 4.4)."""

    __tablename__ = "ibi_registry_registration"
    __table_args__: Any = (
        UniqueConstraint("document_id", "actor_id", name="uq_ibi_registry_registration_actor"),
        CheckConstraint("NOT (is_copy AND is_original)", name="ck_ibi_registry_original"),
        Index("ix_ibi_registry_registration_actor", "actor_id"),
        Index(
            "uq_ibi_registry_registration_document",
            "document_id",
            unique=True,
            sqlite_where=text("NOT is_copy"),
            postgresql_where=text("NOT is_copy"),
        ),
    )

    #: Earlier registrations have lower ids.
    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: The IBI of the document in canonical case.
    document_id: Mapped[str] = mapped_column(String(255))
    actor_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_registry_actor.id", name="fk_ibi_registry_registration_actor")
    )
    is_copy: Mapped[bool]
    is_original: Mapped[bool]
    #: The URLs of the document, its metadata and its other editions, as JSON.
    location: Mapped[str] = mapped_column(Text)


class UsedIdentifier(ResolverBase):
    """An identifier that an actor or a document has or had. It is never minted again."""

    __tablename__ = "ibi_registry_identifier"

    #: The IBI in canonical case.
    identifier: Mapped[str] = mapped_column(String(255), primary_key=True)


def find_registrations(
    connection: Connection, document_id: str, limit: int | None = None
) -> list[DocumentRegistration]:
    """Return the registration of a document, then the copies in the order of their registration.

    :param document_id: the IBI of the document in canonical case.
    :param limit: the maximum number of registrations.
    """
    columns = (Registration.is_copy, Registration.is_original, Registration.location)
    statement = (
        select(Actor.actor_id, Actor.address, *columns)
        .join(Actor, Actor.id == Registration.actor_id)
        .where(Registration.document_id == document_id)
        .order_by(Registration.is_copy, Registration.id)
        .limit(limit)
    )
    return [
        DocumentRegistration(
            row.actor_id, row.address, row.is_copy, row.is_original, parse_location(row.location)
        )
        for row in connection.execute(statement)
    ]


def parse_location(location: str) -> DocumentLocation:
    """Parse the JSON of a stored location."""
    return msgspec.json.decode(location, type=DocumentLocation)


def format_location(location: DocumentLocation) -> str:
    """Return the JSON of a location, as it is stored."""
    return msgspec.json.encode(location).decode()
