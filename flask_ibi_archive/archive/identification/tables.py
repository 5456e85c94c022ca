"""Defines the tables of the identification server: keys of programs, and what they requested."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    ForeignKey,
    Index,
    String,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.archive.items.tables import Base
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime


class ApiKey(Base):
    """The key of a program. The key itself is not stored, only its hash."""

    __tablename__ = "ibi_api_key"
    __table_args__ = (
        UniqueConstraint("archive_id", "name", name="uq_ibi_api_key_name"),
        UniqueConstraint("key_hash", name="uq_ibi_api_key_hash"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_archive.id", name="fk_ibi_api_key_archive")
    )
    name: Mapped[str] = mapped_column(String(100))
    #: The SHA-256 of the key in hexadecimal digits.
    key_hash: Mapped[str] = mapped_column(String(64))
    #: What the program may do: names of scopes, separated by spaces.
    scopes: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class ApiRequest(Base):
    """A request with an ``Idempotency-Key`` that was answered, and can be answered again."""

    __tablename__ = "ibi_api_request"
    __table_args__ = (
        # of two equal requests at the same time, only one is carried out
        UniqueConstraint("key_id", "idempotency_key", name="uq_ibi_api_request_key"),
        Index("ix_ibi_api_request_time", "key_id", "requested_at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    key_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_api_key.id", name="fk_ibi_api_request_key")
    )
    idempotency_key: Mapped[str] = mapped_column(String(255))
    #: The SHA-256 of the content of the request in hexadecimal digits.
    content_hash: Mapped[str] = mapped_column(String(64))
    requested_at: Mapped[datetime] = mapped_column(UTCDateTime)


class IssuedIdentifier(Base):
    """An identifier that a program requested, in both forms."""

    __tablename__ = "ibi_issued_identifier"
    __table_args__ = (
        UniqueConstraint("rep", name="uq_ibi_issued_identifier_rep"),
        UniqueConstraint("ibip", name="uq_ibi_issued_identifier_ibip"),
        Index("ix_ibi_issued_identifier_key", "key_id", "id"),
        Index(
            "ix_ibi_issued_identifier_request",
            "request_id",
            "id",
            sqlite_where=text("request_id IS NOT NULL"),
            postgresql_where=text("request_id IS NOT NULL"),
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    key_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_api_key.id", name="fk_ibi_issued_identifier_key")
    )
    #: The request with an ``Idempotency-Key``; None if there is none any more.
    request_id: Mapped[int | None] = mapped_column(
        Key,
        ForeignKey(
            "ibi_api_request.id", name="fk_ibi_issued_identifier_request", ondelete="SET NULL"
        ),
    )
    rep: Mapped[str] = mapped_column(String(255))
    ibip: Mapped[str] = mapped_column(String(255))
    issued_at: Mapped[datetime] = mapped_column(UTCDateTime)
