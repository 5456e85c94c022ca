"""The tables of the document registry, as SQLAlchemy models, and the SELECT of registrations.

The tables contain the rules of the registry ([P] 4.4): one actor has a document, and all others
have copies; a copy is never the original; a registration has the URL of the document or the URL of
metadata. All transactions that write begin with :data:`LOCK`, so that each rule that needs several
rows is checked while nobody else changes them.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from sqlalchemy import (
    CheckConstraint,
    Connection,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
    cast,
    func,
    select,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.core.registry_2008 import (
    DocumentLocation,
    DocumentRegistration,
    MetadataLocation,
)
from flask_ibi_archive.resolver.tables import ResolverBase
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime

#: The lock of all transactions that change the registry, on PostgreSQL.
LOCK = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'ibi_2008', 'big')})"


class Actor(ResolverBase):
    """A data provider, with its address and the hash of its password ([P] 4.1)."""

    __tablename__ = "ibi_registry_actor"
    __table_args__ = (UniqueConstraint("actor_id", name="uq_ibi_registry_actor_actor_id"),)

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: The IBI of the actor in canonical case. The IBI of a cancelled actor is never used again.
    actor_id: Mapped[str] = mapped_column(String(255))
    computer_name: Mapped[str] = mapped_column(String(255))
    domain_name: Mapped[str] = mapped_column(String(255))
    ip: Mapped[str] = mapped_column(String(45))
    port: Mapped[int] = mapped_column(Integer)
    email: Mapped[str] = mapped_column(String(255))
    #: A salted hash of the password. None if the actor is cancelled.
    password_hash: Mapped[str | None] = mapped_column(String(255))
    #: The date of the first check in which no URL of the actor worked. None if a URL worked in the
    #: last check, or if there was no check since the last registration.
    failing_since: Mapped[datetime | None] = mapped_column(UTCDateTime)


class Registration(ResolverBase):
    """The registration of a document or of a copy by one actor ([P] 4.4)."""

    __tablename__ = "ibi_registry_registration"
    __table_args__ = (
        UniqueConstraint("document_id", "actor_id", name="uq_ibi_registry_registration_actor"),
        CheckConstraint("NOT (is_copy AND is_original)", name="ck_ibi_registry_original"),
        CheckConstraint("(url IS NULL) = (updated_at IS NULL)", name="ck_ibi_registry_updated"),
        CheckConstraint("url IS NOT NULL OR described_by IS NOT NULL", name="ck_ibi_registry_urls"),
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
    url: Mapped[str | None] = mapped_column(Text)
    updated_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The metadata as JSON. None without metadata.
    described_by: Mapped[str | None] = mapped_column(Text)
    previous_edition_url: Mapped[str | None] = mapped_column(Text)
    next_edition_url: Mapped[str | None] = mapped_column(Text)


class UsedIdentifier(ResolverBase):
    """An identifier that an actor or a document has or had. None is minted again."""

    __tablename__ = "ibi_registry_identifier"

    #: The IBI in canonical case.
    identifier: Mapped[str] = mapped_column(String(255), primary_key=True)


#: The host name and port of an actor, as a column of a statement.
ADDRESS = func.lower(Actor.computer_name + "." + Actor.domain_name) + ":" + cast(Actor.port, String)
_REGISTRATIONS = (
    select(
        Actor.actor_id,
        ADDRESS.label("address"),
        Registration.is_copy,
        Registration.is_original,
        Registration.url,
        Registration.updated_at,
        Registration.described_by,
        Registration.previous_edition_url,
        Registration.next_edition_url,
    )
    .join(Actor, Actor.id == Registration.actor_id)
    .order_by(Registration.is_copy, Registration.id)
)


def find_registrations(
    connection: Connection, document_id: str, limit: int | None = None
) -> list[DocumentRegistration]:
    """Return the registration of a document, then the copies in the order of their registration.

    :param document_id: the IBI of the document in canonical case.
    :param limit: the maximum number of registrations.
    """
    statement = _REGISTRATIONS.where(Registration.document_id == document_id).limit(limit)
    return [
        DocumentRegistration(
            row.actor_id,
            row.address,
            row.is_copy,
            row.is_original,
            DocumentLocation(
                row.url,
                row.updated_at,
                parse_metadata(row.described_by),
                row.previous_edition_url,
                row.next_edition_url,
            ),
        )
        for row in connection.execute(statement)
    ]


def parse_metadata(described_by: str | None) -> tuple[MetadataLocation, ...]:
    """Return the metadata in a column."""
    return msgspec.json.decode(described_by or "[]", type=tuple[MetadataLocation, ...])


def format_metadata(metadata: tuple[MetadataLocation, ...]) -> str | None:
    """Return metadata as they are stored."""
    return msgspec.json.encode(metadata).decode() if metadata else None
