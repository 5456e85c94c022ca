"""Defines the tables of moves: offers to Archives on other servers, and accepted offers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.archive.items.tables import Base
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime


class Offer(Base):
    """An offer of items to an Archive on another server. Its secret is not stored, only a hash."""

    __tablename__ = "ibi_offer"
    __table_args__ = (
        UniqueConstraint("public_id", name="uq_ibi_offer_public_id"),
        CheckConstraint("kind IN ('move', 'copy')", name="ck_ibi_offer_kind"),
        CheckConstraint("leaves IN ('Copy', 'Deleted')", name="ck_ibi_offer_leaves"),
        CheckConstraint("(kind = 'move') = (leaves IS NOT NULL)", name="ck_ibi_offer_move"),
        CheckConstraint("items > 0 AND bytes >= 0", name="ck_ibi_offer_size"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_archive.id", name="fk_ibi_offer_archive")
    )
    #: The last part of the address: 16 hexadecimal digits.
    public_id: Mapped[str] = mapped_column(String(16))
    #: The SHA-256 of the secret in hexadecimal digits.
    secret_hash: Mapped[str] = mapped_column(String(64))
    #: The service IBI of the Archive that may take the items.
    taker: Mapped[str] = mapped_column(String(255))
    kind: Mapped[str] = mapped_column(String(4))
    #: The state of what remains here after a move; None for copies.
    leaves: Mapped[str | None] = mapped_column(String(7))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    expires_at: Mapped[datetime] = mapped_column(UTCDateTime)
    withdrawn_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The number of items, and the size of their stored files in bytes when they were offered.
    items: Mapped[int] = mapped_column(BigInteger)
    bytes: Mapped[int] = mapped_column(BigInteger)


class OfferedItem(Base):
    """An item of an offer. An item is in at most one offer of moves that is open."""

    __tablename__ = "ibi_offered_item"
    __table_args__ = (
        UniqueConstraint("offer_id", "item_id", name="uq_ibi_offered_item_item"),
        CheckConstraint(
            "status IN ('offered', 'taken', 'switched')", name="ck_ibi_offered_item_status"
        ),
        CheckConstraint(
            "(status = 'offered') = (version IS NULL) AND (version IS NULL) = (settled_at IS NULL)",
            name="ck_ibi_offered_item_settled",
        ),
        CheckConstraint(
            "(status = 'switched') = (confirmation IS NOT NULL)",
            name="ck_ibi_offered_item_confirmation",
        ),
        CheckConstraint("NOT open OR status = 'offered'", name="ck_ibi_offered_item_open"),
        Index("ix_ibi_offered_item_item", "item_id"),
        Index(
            "uq_ibi_offered_item_open",
            "item_id",
            unique=True,
            sqlite_where=text("open"),
            postgresql_where=text("open"),
        ),
    )

    offer_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_offer.id", name="fk_ibi_offered_item_offer"), primary_key=True
    )
    #: The position in the offer, from 1.
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    item_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_item.id", name="fk_ibi_offered_item_item")
    )
    #: "taken": a copy was taken. "switched": the other Archive has the Original now.
    status: Mapped[str] = mapped_column(String(8), server_default="offered")
    #: True while the item can be moved with the offer.
    open: Mapped[bool] = mapped_column(server_default=false())
    #: The version that was taken or switched (SHA-256 in hexadecimal digits).
    version: Mapped[str | None] = mapped_column(String(64))
    settled_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: What the answer to a switch contained: the daily counts, which are no longer here.
    confirmation: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))


class Acceptance(Base):
    """An offer of another Archive that this Archive accepts."""

    __tablename__ = "ibi_acceptance"
    __table_args__ = (
        UniqueConstraint("archive_id", "source", name="uq_ibi_acceptance_source"),
        CheckConstraint("kind IN ('move', 'copy')", name="ck_ibi_acceptance_kind"),
        CheckConstraint("items > 0 AND bytes >= 0", name="ck_ibi_acceptance_size"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_archive.id", name="fk_ibi_acceptance_archive")
    )
    #: The address of the offer without its secret.
    source: Mapped[str] = mapped_column(String(1024))
    #: The service IBI of the Archive that made the offer.
    giver: Mapped[str] = mapped_column(String(255))
    kind: Mapped[str] = mapped_column(String(4))
    items: Mapped[int] = mapped_column(BigInteger)
    bytes: Mapped[int] = mapped_column(BigInteger)
    started_at: Mapped[datetime] = mapped_column(UTCDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class AcceptedItem(Base):
    """An item of an accepted offer that was stored or refused."""

    __tablename__ = "ibi_accepted_item"
    __table_args__ = (
        CheckConstraint(
            "status IN ('stored', 'done', 'refused')", name="ck_ibi_accepted_item_status"
        ),
        CheckConstraint(
            "(status = 'refused') = (reason IS NOT NULL)", name="ck_ibi_accepted_item_reason"
        ),
    )

    acceptance_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_acceptance.id", name="fk_ibi_accepted_item_acceptance"),
        primary_key=True,
    )
    #: The position in the offer, from 1.
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    #: An identifier of the item.
    ibi: Mapped[str] = mapped_column(String(255))
    #: The version that was stored (SHA-256 in hexadecimal digits).
    version: Mapped[str] = mapped_column(String(64))
    #: "stored": as a Copy of an item that moves. "done": the item is here as the offer says.
    status: Mapped[str] = mapped_column(String(7))
    #: Why the item was refused.
    reason: Mapped[str | None] = mapped_column(Text)
