"""The tables of the document registry, as SQLAlchemy models ([P] 4).

The tables contain the rules of the registry:

- A document has exactly one actor that does not have a copy: ``holder_id``. All other actors with a
  registration of the document have copies. Therefore an actor never has both.
- Only the holder can have the original, because ``is_original`` belongs to the document.
- The holder's registration cannot be deleted without the document, and the document cannot be
  deleted while copies are registered: the foreign keys do not allow it.
- A registration has the URL of the document or the URL of metadata: ``ck_ibi_registry_urls``.
- A cancelled actor has no registration: the foreign key refers to ``active_id``.
- An identifier belongs to one actor or to one document: ``UsedIdentifier``.

Two other tables contain the last dates of minted identifiers, and the attempts that the rate limit
of passwords counts.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    Computed,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
    cast,
    func,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.core.protocol.registry_2008.model import MAX_URL
from flask_ibi_archive.resolver.tables import ResolverBase
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime


class Actor(ResolverBase):
    """A data provider, with its address and the hash of its password ([P] 4.1)."""

    __tablename__ = "ibi_registry_actor"
    __table_args__ = (
        UniqueConstraint("actor_id", name="uq_ibi_registry_actor_actor_id"),
        UniqueConstraint("active_id", name="uq_ibi_registry_actor_active"),
        CheckConstraint("port BETWEEN 1 AND 65535", name="ck_ibi_registry_actor_port"),
        CheckConstraint(
            "(cancelled_at IS NULL) = (password_hash IS NOT NULL)",
            name="ck_ibi_registry_actor_cancelled",
        ),
        {"sqlite_autoincrement": True},
    )

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
    registered_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: The date of the first check in which no URL of the actor worked. None if a URL worked in the
    #: last check, or if there was no check since the last registration.
    failing_since: Mapped[datetime | None] = mapped_column(UTCDateTime)
    cancelled_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The id of the row, or None if the actor is cancelled. Registrations refer to this column.
    active_id: Mapped[int | None] = mapped_column(
        Key, Computed("CASE WHEN cancelled_at IS NULL THEN id END", persisted=True)
    )


#: The host name and port of an actor, as a column of a statement.
ADDRESS = (
    func.lower(Actor.computer_name + "." + Actor.domain_name) + ":" + cast(Actor.port, String)
).label("address")


class Document(ResolverBase):
    """A registered document. The actors that have it are in the table of registrations."""

    __tablename__ = "ibi_registry_document"
    __table_args__ = (
        UniqueConstraint("document_id", name="uq_ibi_registry_document_document_id"),
        # the constraint is deferred, because a document and its registration refer to each other
        ForeignKeyConstraint(
            ["id", "holder_id"],
            ["ibi_registry_registration.document_id", "ibi_registry_registration.actor_id"],
            name="fk_ibi_registry_document_holder",
            deferrable=True,
            initially="DEFERRED",
            use_alter=True,
        ),
        Index("ix_ibi_registry_document_holder", "holder_id"),
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: The IBI of the document in canonical case.
    document_id: Mapped[str] = mapped_column(String(255))
    #: The actor that has the document. All other actors have copies.
    holder_id: Mapped[int] = mapped_column(Key)
    #: True if the holder also holds the copyright.
    is_original: Mapped[bool]


class Registration(ResolverBase):
    """The registration of a document or of a copy by one actor ([P] 4.4)."""

    __tablename__ = "ibi_registry_registration"
    __table_args__ = (
        UniqueConstraint("document_id", "actor_id", name="uq_ibi_registry_registration_actor"),
        CheckConstraint(
            "(url IS NULL) = (updated_at IS NULL)", name="ck_ibi_registry_registration_updated"
        ),
        CheckConstraint(
            "url IS NOT NULL OR first_metadata IS NOT NULL", name="ck_ibi_registry_urls"
        ),
        CheckConstraint("first_metadata = 1", name="ck_ibi_registry_registration_metadata"),
        CheckConstraint(
            "previous_edition_ibi IS NULL OR previous_edition_url IS NOT NULL",
            name="ck_ibi_registry_registration_previous",
        ),
        CheckConstraint(
            "next_edition_ibi IS NULL OR next_edition_url IS NOT NULL",
            name="ck_ibi_registry_registration_next",
        ),
        ForeignKeyConstraint(
            ["id", "first_metadata"],
            ["ibi_registry_metadata.registration_id", "ibi_registry_metadata.number"],
            name="fk_ibi_registry_registration_metadata",
            deferrable=True,
            initially="DEFERRED",
            use_alter=True,
        ),
        Index("ix_ibi_registry_registration_actor", "actor_id"),
        Index("ix_ibi_registry_registration_url", "url"),
        Index("ix_ibi_registry_registration_previous_url", "previous_edition_url"),
        Index("ix_ibi_registry_registration_previous_ibi", "previous_edition_ibi"),
    )

    #: Earlier registrations have lower ids. A new registration that replaces the actor's former
    #: registration of the document keeps its id.
    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    document_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_registry_document.id", name="fk_ibi_registry_registration_document")
    )
    actor_id: Mapped[int] = mapped_column(
        Key,
        # the constraint is deferred, because a cancellation changes the actor first
        ForeignKey(
            "ibi_registry_actor.active_id",
            name="fk_ibi_registry_registration_actor",
            deferrable=True,
            initially="DEFERRED",
        ),
    )
    url: Mapped[str | None] = mapped_column(String(MAX_URL))
    updated_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    previous_edition_url: Mapped[str | None] = mapped_column(String(MAX_URL))
    #: The IBI in the URL of the previous edition, if this URL is a persistent URL.
    previous_edition_ibi: Mapped[str | None] = mapped_column(String(255))
    next_edition_url: Mapped[str | None] = mapped_column(String(MAX_URL))
    #: The IBI in the URL of the next edition, if this URL is a persistent URL.
    next_edition_ibi: Mapped[str | None] = mapped_column(String(255))
    #: The number 1 if the registration has metadata, otherwise None.
    first_metadata: Mapped[int | None] = mapped_column(Integer)


class RegisteredMetadata(ResolverBase):
    """One URL of metadata of a registration ([P] 4.4, note 5)."""

    __tablename__ = "ibi_registry_metadata"
    __table_args__ = (CheckConstraint("number >= 1", name="ck_ibi_registry_metadata_number"),)

    registration_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey(
            "ibi_registry_registration.id",
            name="fk_ibi_registry_metadata_registration",
            ondelete="CASCADE",
        ),
        primary_key=True,
    )
    #: The position in the request, from 1.
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    url: Mapped[str] = mapped_column(String(MAX_URL))
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)
    format: Mapped[str | None] = mapped_column(Text)
    language: Mapped[str | None] = mapped_column(String(5))


class UsedIdentifier(ResolverBase):
    """The actor or the document to which an identifier belongs.

    The row of a document is deleted with the document. Actors are never deleted.
    """

    __tablename__ = "ibi_registry_identifier"
    __table_args__ = (
        UniqueConstraint("actor_id", name="uq_ibi_registry_identifier_actor"),
        UniqueConstraint("document_id", name="uq_ibi_registry_identifier_document"),
        CheckConstraint(
            "(actor_id IS NULL) <> (document_id IS NULL)", name="ck_ibi_registry_identifier_owner"
        ),
    )

    #: The IBI in canonical case.
    identifier: Mapped[str] = mapped_column(String(255), primary_key=True)
    actor_id: Mapped[int | None] = mapped_column(
        Key, ForeignKey("ibi_registry_actor.id", name="fk_ibi_registry_identifier_actor")
    )
    document_id: Mapped[int | None] = mapped_column(
        Key,
        ForeignKey(
            "ibi_registry_document.id",
            name="fk_ibi_registry_identifier_document",
            ondelete="CASCADE",
        ),
    )


class MintedPrefix(ResolverBase):
    """The last date that was issued for the identifiers that the resolver mints.

    Source: [G] 6, Algorithm 4.
    """

    __tablename__ = "ibi_registry_prefix"

    prefix: Mapped[str] = mapped_column(String(255), primary_key=True)
    #: The date in POSIX seconds, as a decimal number that is not rounded.
    last_date: Mapped[str] = mapped_column(String(255))


class PasswordAttempt(ResolverBase):
    """A wrong password, or a request for the registration of an actor. The rate limit counts these.

    The row is inserted before the password is compared. If the password is right, the row is
    deleted.
    """

    __tablename__ = "ibi_registry_attempt"
    __table_args__ = (
        Index("ix_ibi_registry_attempt_actor", "actor_hash", "attempted_at"),
        Index("ix_ibi_registry_attempt_sender", "sender", "attempted_at"),
        Index("ix_ibi_registry_attempt_date", "attempted_at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: The SHA-256 hash of the actorID in the request, in hexadecimal digits. The actor may be
    #: unknown. None for a request for the registration of an actor.
    actor_hash: Mapped[str | None] = mapped_column(String(64))
    #: The IPv4 address or the IPv6 network of the sender.
    sender: Mapped[str] = mapped_column(String(45))
    attempted_at: Mapped[datetime] = mapped_column(UTCDateTime)
