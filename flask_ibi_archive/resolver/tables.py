"""A resolver's tables, as typed models.

They have a MetaData and a history of their own (``migrations/resolver``), so that they may lie in a
database with an Archive's tables or without them.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_ibi_archive.storage.types import Key, UTCDateTime

resolver_metadata = MetaData()


class ResolverBase(DeclarativeBase):
    """The base of these models."""

    metadata = resolver_metadata


class RegisteredArchive(ResolverBase):
    """An Archive that the resolver's administrator registered, and how it stands and answers ([R]
    5).
    """

    __tablename__ = "ibi_resolver_archive"
    __table_args__ = (
        UniqueConstraint("service_ibi", name="uq_ibi_resolver_archive_service_ibi"),
        CheckConstraint(
            "included_at IS NULL OR (address IS NOT NULL AND ip IS NOT NULL"
            " AND platform_version IS NOT NULL AND admin_email IS NOT NULL)",
            name="ck_ibi_resolver_archive_included",
        ),
        CheckConstraint(
            "confirmed_at IS NULL OR included_at IS NOT NULL",
            name="ck_ibi_resolver_archive_confirmed",
        ),
        CheckConstraint(
            "excluded_at IS NULL OR included_at IS NULL", name="ck_ibi_resolver_archive_excluded"
        ),
        CheckConstraint(
            "written >= 0 AND written <= requests", name="ck_ibi_resolver_archive_requests"
        ),
        CheckConstraint(
            "answers >= 0 AND failures >= 0 AND milliseconds >= 0",
            name="ck_ibi_resolver_archive_counts",
        ),
        CheckConstraint(
            "(last_failure IS NULL) = (last_failure_at IS NULL)",
            name="ck_ibi_resolver_archive_failure",
        ),
        # a number stands for one Archive for ever: what is counted in memory may come late
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: In canonical case.
    service_ibi: Mapped[str] = mapped_column(String(255))
    #: What is kept of the registration key.
    key_hash: Mapped[str] = mapped_column(String(255))
    #: Who gets the confirmation of the registration.
    email: Mapped[str | None] = mapped_column(String(255))
    registered_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: What the Archive told of itself when it was included last ([R] Table 5.2).
    address: Mapped[str | None] = mapped_column(String(255))
    ip: Mapped[str | None] = mapped_column(String(45))
    platform_version: Mapped[str | None] = mapped_column(String(255))
    admin_email: Mapped[str | None] = mapped_column(String(255))
    #: Since when it is included; None: it isn't.
    included_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: When it last confirmed that, at its present address; None: it didn't.
    confirmed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: Since when it is excluded; None: it isn't, or never was included.
    excluded_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: How many requests of it were taken, and the number of the last one that is written down here.
    requests: Mapped[int] = mapped_column(BigInteger, server_default="0")
    written: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: Questions that it answered, that it did not, and how long those answered took in all.
    answers: Mapped[int] = mapped_column(BigInteger, server_default="0")
    failures: Mapped[int] = mapped_column(BigInteger, server_default="0")
    milliseconds: Mapped[int] = mapped_column(BigInteger, server_default="0")
    last_answer_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: What was wrong when it last did not answer, to be read behind its address.
    last_failure: Mapped[str | None] = mapped_column(Text)
    last_failure_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class Hint(ResolverBase):
    """Where an IBI was last found: whom to ask first, never an answer ([R] 3.1)."""

    __tablename__ = "ibi_resolver_hint"
    __table_args__ = (
        Index("ix_ibi_resolver_hint_archive", "archive_id"),
        Index("ix_ibi_resolver_hint_found", "found_at"),
    )

    #: In canonical case.
    ibi: Mapped[str] = mapped_column(String(255), primary_key=True)
    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey(
            "ibi_resolver_archive.id", name="fk_ibi_resolver_hint_archive", ondelete="CASCADE"
        ),
    )
    found_at: Mapped[datetime] = mapped_column(UTCDateTime)


class KeyAttempt(ResolverBase):
    """A registration key that was sent for an Archive and was not right: what the rate limit
    counts.

    The row is written before the key is compared, and deleted if the key is right.
    """

    __tablename__ = "ibi_resolver_key_attempt"
    __table_args__ = (
        Index("ix_ibi_resolver_key_attempt_archive", "archive_id", "attempted_at"),
        Index("ix_ibi_resolver_key_attempt_sender", "sender", "attempted_at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey(
            "ibi_resolver_archive.id",
            name="fk_ibi_resolver_key_attempt_archive",
            ondelete="CASCADE",
        ),
    )
    #: An IPv4 address or a network of IPv6; "": it is not known.
    sender: Mapped[str] = mapped_column(String(45))
    attempted_at: Mapped[datetime] = mapped_column(UTCDateTime)
