"""What is left of a removed item, and identifiers that are held for drafts."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.storage.models.base import Base
from flask_ibi_archive.storage.types import Key, UTCDateTime


class TombstoneRow(Base):
    """Why an item was removed and what to read instead; its date is the item's timestamp.

    Only an item that is Deleted has one: the foreign key holds its state too.
    """

    __tablename__ = "ibi_tombstone"
    __table_args__ = (
        ForeignKeyConstraint(
            ["item_id", "archive_id", "state"],
            ["ibi_item.id", "ibi_item.archive_id", "ibi_item.state"],
            name="fk_ibi_tombstone_item",
            ondelete="CASCADE",
        ),
        CheckConstraint("state = 'Deleted'", name="ck_ibi_tombstone_state"),
    )

    item_id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    archive_id: Mapped[int] = mapped_column(Key)
    state: Mapped[str] = mapped_column(String(9), server_default="Deleted")
    reason: Mapped[str] = mapped_column(Text)
    #: How the item was cited, as text.
    citation: Mapped[str | None] = mapped_column(Text)
    #: The IBI of the item that takes its place, wherever that is.
    successor: Mapped[str | None] = mapped_column(String(255))
    #: The service IBI of the Archive that kept the Original, where it was not this one.
    original_archive: Mapped[str | None] = mapped_column(String(255))


class Reservation(Base):
    """An identifier, in both forms, that is held for a draft; used or released, it stays known."""

    __tablename__ = "ibi_reservation"
    __table_args__ = (
        UniqueConstraint("ibip", name="uq_ibi_reservation_ibip"),
        CheckConstraint("status IN ('held', 'used', 'released')", name="ck_ibi_reservation_status"),
        Index("ix_ibi_reservation_archive", "archive_id", "status", "reserved_at"),
    )

    rep: Mapped[str] = mapped_column(String(255), primary_key=True)
    ibip: Mapped[str] = mapped_column(String(255))
    archive_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_archive.id", name="fk_ibi_reservation_archive")
    )
    status: Mapped[str] = mapped_column(String(8), server_default="held")
    note: Mapped[str | None] = mapped_column(Text)
    reserved_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: When it was used or released.
    settled_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
