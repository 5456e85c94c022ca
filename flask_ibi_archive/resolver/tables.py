"""The tables of a resolver, as SQLAlchemy models.

The tables have their own MetaData object and their own migrations (``migrations/resolver``).
Therefore the tables of a resolver and the tables of an Archive can be in the same database or in
different databases.
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

from flask_ibi_archive.server.database.dialects import Key, UTCDateTime

resolver_metadata = MetaData()


class ResolverBase(DeclarativeBase):
    """The base class of all models of a resolver."""

    metadata = resolver_metadata


class RegisteredArchive(ResolverBase):
    """A registered Archive with its registration key, state and metrics ([R] 5)."""

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
        # an id is never used again, because metrics may be written after an Archive was removed
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: The IBI of the Archive's service in canonical case.
    service_ibi: Mapped[str] = mapped_column(String(255))
    #: A salted hash of the registration key.
    key_hash: Mapped[str] = mapped_column(String(255))
    #: The address for the e-mail that confirms the registration.
    email: Mapped[str | None] = mapped_column(String(255))
    registered_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: The next four values come from the Archive's last inclusion request ([R] Table 5.2).
    address: Mapped[str | None] = mapped_column(String(255))
    ip: Mapped[str | None] = mapped_column(String(45))
    platform_version: Mapped[str | None] = mapped_column(String(255))
    admin_email: Mapped[str | None] = mapped_column(String(255))
    #: The prefixes of the Archive's new identifiers, separated by a space, and a word that only the
    #: Archives of its database have. None if its last inclusion request does not contain them.
    mints: Mapped[str | None] = mapped_column(Text)
    database: Mapped[str | None] = mapped_column(Text)
    #: The date of the Archive's inclusion. None if the Archive is not included.
    included_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The date when the Archive confirmed the inclusion at the present address. None if the Archive
    #: has not confirmed the inclusion.
    confirmed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The date of the Archive's exclusion. None if the Archive is not excluded.
    excluded_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The number of inclusion and exclusion requests of the Archive.
    requests: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The number of the last request whose result was stored. Requests are numbered from 1.
    written: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The number of questions that the Archive answered.
    answers: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The number of questions that the Archive did not answer correctly.
    failures: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The sum of the response times of the answers.
    milliseconds: Mapped[int] = mapped_column(BigInteger, server_default="0")
    last_answer_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The reason of the Archive's last failure, such as "took too long". In messages, the reason
    #: follows the address of the Archive.
    last_failure: Mapped[str | None] = mapped_column(Text)
    last_failure_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class Hint(ResolverBase):
    """A hint: the Archive where an IBI was last found ([R] 3.1). This Archive is asked first."""

    __tablename__ = "ibi_resolver_hint"
    __table_args__ = (
        Index("ix_ibi_resolver_hint_archive", "archive_id"),
        Index("ix_ibi_resolver_hint_found", "found_at"),
    )

    #: The IBI in canonical case.
    ibi: Mapped[str] = mapped_column(String(255), primary_key=True)
    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey(
            "ibi_resolver_archive.id", name="fk_ibi_resolver_hint_archive", ondelete="CASCADE"
        ),
    )
    found_at: Mapped[datetime] = mapped_column(UTCDateTime)


class KeyAttempt(ResolverBase):
    """A wrong registration key that was sent for an Archive. The rate limit counts these rows.

    The row is inserted before the key is compared. If the key is right, the row is deleted.
    """

    __tablename__ = "ibi_resolver_key_attempt"
    __table_args__ = (
        Index("ix_ibi_resolver_key_attempt_archive", "archive_id", "attempted_at"),
        Index("ix_ibi_resolver_key_attempt_sender", "sender", "attempted_at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: No foreign key: attempts are deleted after a minute.
    archive_id: Mapped[int] = mapped_column(Key)
    #: The IPv4 address or the IPv6 network of the sender.
    sender: Mapped[str] = mapped_column(String(45))
    attempted_at: Mapped[datetime] = mapped_column(UTCDateTime)
