"""Defines the tables of activities: accesses, counts, checks, registrations."""

from __future__ import annotations

import datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Date,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    Text,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.archive.items.tables.items import Base
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime


class Access(Base):
    """An access that a resolver acknowledged ([R] Table 6.11)."""

    __tablename__ = "ibi_access"
    __table_args__ = (
        # a URL key can be used only once, even by two requests at the same time
        UniqueConstraint("url_key", name="uq_ibi_access_url_key"),
        ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_access_item",
        ),
        CheckConstraint("content_type IN ('Data', 'Metadata')", name="ck_ibi_access_content_type"),
        CheckConstraint("state IN ('Original', 'Copy')", name="ck_ibi_access_state"),
        Index("ix_ibi_access_archive", "archive_id", "second"),
        # this index finds the other accesses of a visitor to the same item
        Index("ix_ibi_access_item", "item_id", "visitor", "second"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(Key)
    #: The time and the random part of the URL key. Because of this column, nobody can use the URL
    #: key again.
    url_key: Mapped[str] = mapped_column(String(64))
    #: The requested item.
    item_id: Mapped[int] = mapped_column(Key)
    #: The time of the acknowledgment, in POSIX seconds.
    second: Mapped[int] = mapped_column(BigInteger)
    #: A value that distinguishes the users of one day without identifying them.
    visitor: Mapped[str] = mapped_column(String(16))
    #: The IP address of the user. The address is anonymised, unless a setting requires full
    #: addresses.
    address: Mapped[str] = mapped_column(String(45))
    #: True: the user is a robot or another program.
    robot: Mapped[bool] = mapped_column(server_default=false())
    content_type: Mapped[str] = mapped_column(String(8))
    state: Mapped[str | None] = mapped_column(String(8))
    #: The relation from the requested item to the delivered one.
    relation: Mapped[str | None] = mapped_column(String(255))
    persistent_url: Mapped[str] = mapped_column(Text)
    #: The delivered URL; empty if the Archive does not return this URL for the item.
    url: Mapped[str] = mapped_column(Text)


class AccessCount(Base):
    """The number of accesses to a requested item on one day, to one content type.

    The transaction that stores an access also counts the access. When accesses are deleted, the
    number does not change.
    """

    __tablename__ = "ibi_access_count"
    __table_args__ = (
        ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_access_count_item",
        ),
        CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_access_count_content_type"
        ),
        Index("ix_ibi_access_count_archive", "archive_id", "day"),
    )

    item_id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    day: Mapped[datetime.date] = mapped_column(Date, primary_key=True)
    #: "Metadata": the accesses are views. "Data": the accesses are downloads.
    content_type: Mapped[str] = mapped_column(String(8), primary_key=True)
    archive_id: Mapped[int] = mapped_column(Key)
    #: The number of accesses without double clicks and without accesses of robots.
    accesses: Mapped[int] = mapped_column(BigInteger)
    double_clicks: Mapped[int] = mapped_column(BigInteger, server_default="0")
    robots: Mapped[int] = mapped_column(BigInteger, server_default="0")


class ArchiveAccessCount(Base):
    """The number of accesses to all requested items of an Archive on one day."""

    __tablename__ = "ibi_archive_access_count"
    __table_args__ = (
        CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_archive_access_count_content_type"
        ),
    )

    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_archive.id", name="fk_ibi_archive_access_count_archive"),
        primary_key=True,
        autoincrement=False,
    )
    day: Mapped[datetime.date] = mapped_column(Date, primary_key=True)
    content_type: Mapped[str] = mapped_column(String(8), primary_key=True)
    accesses: Mapped[int] = mapped_column(BigInteger)
    double_clicks: Mapped[int] = mapped_column(BigInteger, server_default="0")
    robots: Mapped[int] = mapped_column(BigInteger, server_default="0")


class VisitorSalt(Base):
    """A random value, from which the pseudonyms of the users of one day are computed.

    The value is deleted at the end of the next day. Then nobody can compute the pseudonyms again.
    """

    __tablename__ = "ibi_visitor_salt"

    day: Mapped[datetime.date] = mapped_column(Date, primary_key=True)
    #: 32 bytes, in hexadecimal.
    salt: Mapped[str] = mapped_column(String(64))


class FileCheck(Base):
    """The result of the last check of all stored files of an Archive (``flask ibi verify``)."""

    __tablename__ = "ibi_file_check"

    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_archive.id", name="fk_ibi_file_check_archive"),
        primary_key=True,
        autoincrement=False,
    )
    checked_at: Mapped[datetime.datetime] = mapped_column(UTCDateTime)
    #: For each file that is missing or damaged: which of both, the IBI of the item, and the path.
    faults: Mapped[list[dict[str, str]]] = mapped_column(JSON)


class Registration(Base):
    """The results of the last inclusion and exclusion requests of an Archive ([R] 5.2)."""

    __tablename__ = "ibi_registration"
    __table_args__ = (
        CheckConstraint(
            "confirmed_at IS NULL OR included_at IS NOT NULL", name="ck_ibi_registration_confirmed"
        ),
        CheckConstraint(
            "included_at IS NULL OR (registered_at IS NOT NULL AND address IS NOT NULL)",
            name="ck_ibi_registration_included",
        ),
        CheckConstraint("(error IS NULL) = (error_at IS NULL)", name="ck_ibi_registration_error"),
    )

    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_archive.id", name="fk_ibi_registration_archive"),
        primary_key=True,
        autoincrement=False,
    )
    resolver_url: Mapped[str] = mapped_column(Text)
    #: The address of the Archive in the last request. If the address or the IP of the Archive has
    #: changed, the database may be a copy.
    address: Mapped[str | None] = mapped_column(String(255))
    ip: Mapped[str | None] = mapped_column(String(45))
    #: The time when the resolver first accepted the registration key.
    registered_at: Mapped[datetime.datetime | None] = mapped_column(UTCDateTime)
    #: The time when the resolver included the Archive; None: the Archive is not included.
    included_at: Mapped[datetime.datetime | None] = mapped_column(UTCDateTime)
    #: The time when the resolver sent a request to confirm the inclusion; None: not confirmed.
    confirmed_at: Mapped[datetime.datetime | None] = mapped_column(UTCDateTime)
    excluded_at: Mapped[datetime.datetime | None] = mapped_column(UTCDateTime)
    #: The error of the last request; None: the request succeeded.
    error: Mapped[str | None] = mapped_column(Text)
    error_at: Mapped[datetime.datetime | None] = mapped_column(UTCDateTime)
