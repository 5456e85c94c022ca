"""Accesses: each as it was acknowledged, for a while, and their counts by the day, for good."""

from __future__ import annotations

import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Date,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.storage.models.base import Base
from flask_ibi_archive.storage.types import Key


class Access(Base):
    """One access, as a resolver acknowledged it ([R] Table 6.11)."""

    __tablename__ = "ibi_access"
    __table_args__ = (
        # a URL key works once, whoever uses it at the same moment
        UniqueConstraint("url_key", name="uq_ibi_access_url_key"),
        ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_access_item",
        ),
        ForeignKeyConstraint(
            ["delivered_item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_access_delivered",
        ),
        CheckConstraint("content_type IN ('Data', 'Metadata')", name="ck_ibi_access_content_type"),
        CheckConstraint("state IN ('Original', 'Copy')", name="ck_ibi_access_state"),
        CheckConstraint("delivered_item_id <> item_id", name="ck_ibi_access_delivered"),
        Index("ix_ibi_access_archive", "archive_id", "second"),
        # what a visitor did before and after an access to the same item
        Index("ix_ibi_access_item", "item_id", "visitor", "second"),
        Index("ix_ibi_access_delivered", "delivered_item_id", "visitor", "second"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(Key)
    #: What is left of the key: its second and its chance, so that it can't be used again.
    url_key: Mapped[str] = mapped_column(String(64))
    #: The item asked for.
    item_id: Mapped[int] = mapped_column(Key)
    #: The item that it led to, where that is another one.
    delivered_item_id: Mapped[int | None] = mapped_column(Key)
    #: When it was acknowledged, in POSIX seconds.
    second: Mapped[int] = mapped_column(BigInteger)
    #: Tells users apart on one day, without telling who they are.
    visitor: Mapped[str] = mapped_column(String(16))
    #: The user's address, anonymised unless the Archive is told not to.
    address: Mapped[str] = mapped_column(String(45))
    #: Whether a robot or another program read it.
    robot: Mapped[bool] = mapped_column(server_default=false())
    content_type: Mapped[str] = mapped_column(String(8))
    state: Mapped[str | None] = mapped_column(String(8))
    #: The relation that led from the item asked for to the one delivered.
    relation: Mapped[str | None] = mapped_column(String(255))
    persistent_url: Mapped[str] = mapped_column(Text)
    #: Empty where it is none that this Archive gives for the item.
    url: Mapped[str] = mapped_column(Text)


class AccessCount(Base):
    """Accesses of an item on a day: those up to :class:`CountedAccesses`, purged or not."""

    __tablename__ = "ibi_access_count"
    __table_args__ = (
        ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_access_count_item",
        ),
        CheckConstraint("role IN ('asked', 'delivered')", name="ck_ibi_access_count_role"),
        CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_access_count_content_type"
        ),
        Index("ix_ibi_access_count_archive", "archive_id", "day"),
    )

    item_id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    #: Whether it was asked for, or delivered when another one was asked for.
    role: Mapped[str] = mapped_column(String(9), primary_key=True)
    day: Mapped[datetime.date] = mapped_column(Date, primary_key=True)
    #: Metadata: views; Data: downloads.
    content_type: Mapped[str] = mapped_column(String(8), primary_key=True)
    archive_id: Mapped[int] = mapped_column(Key)
    #: Those that count, then those that don't: second clicks and robots.
    accesses: Mapped[int] = mapped_column(BigInteger)
    double_clicks: Mapped[int] = mapped_column(BigInteger, server_default="0")
    robots: Mapped[int] = mapped_column(BigInteger, server_default="0")


class ArchiveAccessCount(Base):
    """Accesses of all items of an Archive on a day: the sums of those that asked for an item."""

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


class CountedAccesses(Base):
    """How far accesses are included in the counts: one row, or none before the first are counted."""

    __tablename__ = "ibi_counted_accesses"
    __table_args__ = (CheckConstraint("row_no = 1", name="ck_ibi_counted_accesses_row"),)

    row_no: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    #: The id of the newest access that the counts include; all older ones are included too.
    newest: Mapped[int] = mapped_column(Key)


class VisitorSalt(Base):
    """What tells the users of one day apart; it is thrown away afterwards."""

    __tablename__ = "ibi_visitor_salt"

    day: Mapped[datetime.date] = mapped_column(Date, primary_key=True)
    #: 32 bytes, in hexadecimal.
    salt: Mapped[str] = mapped_column(String(64))
