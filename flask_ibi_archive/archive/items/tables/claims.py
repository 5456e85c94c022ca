"""Defines the tables of claims: noted changes of items, and the log that an Archive publishes.

Source: federation CL-1 to CL-6.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    false,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.archive.items.tables.items import Base
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime


class ClaimLogRow(Base):
    """The log of an Archive. Triggers note changes of items only if there is one, not paused."""

    __tablename__ = "ibi_claim_log"
    __table_args__ = (CheckConstraint("number > 0 AND size >= 0", name="ck_ibi_claim_log_size"),)

    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_archive.id", name="fk_ibi_claim_log_archive"),
        primary_key=True,
        autoincrement=False,
    )
    #: 1, and one more each time that the log had to begin anew.
    number: Mapped[int] = mapped_column(Integer)
    #: The number of claims in the log.
    size: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The hashes of the full subtrees (:class:`.merkle.Frontier`), in hexadecimal digits.
    frontier: Mapped[str] = mapped_column(Text)
    begun_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: The time when the Archive got its present key.
    key_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: All items up to this row ID were claimed since the log began. None: all items. -1: the
    #: transactions that may not have seen this row, and noted nothing, may not have ended yet. -2:
    #: the log is paused, and triggers note nothing, because no claims are to be published.
    covered: Mapped[int | None] = mapped_column(Key)
    #: How far the changes of a host's own catalogue were read (:mod:`.claims.host_changes`).
    changes: Mapped[str | None] = mapped_column(Text)
    #: On SQLite, the number of the present operation, which its notes have.
    change_no: Mapped[int] = mapped_column(BigInteger, server_default="0")


class ClaimNote(Base):
    """A change of an item that is not in the log yet, with what is claimed after the change.

    Triggers add the rows in the transaction of the change.
    """

    __tablename__ = "ibi_claim_note"
    __table_args__ = (
        Index("ix_ibi_claim_note_archive", "archive_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(Key)
    item_id: Mapped[int] = mapped_column(Key)
    #: Notes of one item with the same number belong to one change: on PostgreSQL to a transaction,
    #: on SQLite to an operation. Only the last of them is true for others than the transaction.
    change_no: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(9))
    rep: Mapped[str | None] = mapped_column(String(255))
    ibip: Mapped[str | None] = mapped_column(String(255))
    timestamp: Mapped[datetime] = mapped_column(UTCDateTime)
    original_archive: Mapped[str | None] = mapped_column(String(255))
    #: A JSON list, in any order; None: no aliases.
    aliases: Mapped[str | None] = mapped_column(Text)
    #: The SHA-256 of the target file in hexadecimal digits.
    sha256: Mapped[str | None] = mapped_column(String(64))
    #: Whether the description is hidden from the public.
    is_hidden: Mapped[bool] = mapped_column(server_default=false())


class ClaimRow(Base):
    """A claim of a log. Rows are never changed, and stay when the log begins anew."""

    __tablename__ = "ibi_claim"
    __table_args__ = (Index("ix_ibi_claim_ibi", "ibi", "archive_id", "log_number", "position"),)

    archive_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_archive.id", name="fk_ibi_claim_archive"), primary_key=True
    )
    log_number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    #: The position in the log, from 0.
    position: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    #: The ibip of the item, or its rep if it has no ibip.
    ibi: Mapped[str] = mapped_column(String(255))
    #: The claim itself (:mod:`.core.claims.claim`).
    entry: Mapped[str] = mapped_column(Text)


class ClaimTile(Base):
    """The root of a full tile of a log, which is a hash of the tile at the next level."""

    __tablename__ = "ibi_claim_tile"

    archive_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_archive.id", name="fk_ibi_claim_tile_archive"), primary_key=True
    )
    log_number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    level: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    #: The hash in hexadecimal digits.
    root: Mapped[str] = mapped_column(String(64))
