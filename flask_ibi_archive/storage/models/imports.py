"""Imports that are under way: how far each has come, and what of it is still to be done."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.storage.models.base import Base
from flask_ibi_archive.storage.types import Key, UTCDateTime


class Import(Base):
    """A file that is being taken in, or (phase done) the last that was, where it could be resumed."""

    __tablename__ = "ibi_import"
    __table_args__ = (
        CheckConstraint(
            "on_conflict IN ('error', 'skip', 'update')", name="ck_ibi_import_on_conflict"
        ),
        CheckConstraint(
            "phase IN ('items', 'languages', 'ties', 'done')", name="ck_ibi_import_phase"
        ),
        # one at a time in an Archive: who resumes must know which
        Index(
            "uq_ibi_import_archive",
            "archive_id",
            unique=True,
            sqlite_where=text("resumable"),
            postgresql_where=text("resumable"),
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_archive.id", name="fk_ibi_import_archive")
    )
    resumable: Mapped[bool] = mapped_column()
    #: What the file was called.
    source: Mapped[str] = mapped_column(Text)
    on_conflict: Mapped[str] = mapped_column(String(6))
    started_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: The item that was the newest of the database when it began.
    newest_item: Mapped[int] = mapped_column(Key)
    phase: Mapped[str] = mapped_column(String(9), server_default="items")
    #: Bytes, and lines, of the file that are done in the phase.
    position: Mapped[int] = mapped_column(BigInteger, server_default="0")
    line: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: Lines of the file whose items are here, known when all of them are.
    lines: Mapped[int | None] = mapped_column(BigInteger)
    #: SHA-256 (hexadecimal) of the bytes that are done, so that another file is not taken for this
    #: one.
    digest: Mapped[str] = mapped_column(String(64))
    added: Mapped[int] = mapped_column(BigInteger, server_default="0")
    updated: Mapped[int] = mapped_column(BigInteger, server_default="0")
    skipped: Mapped[int] = mapped_column(BigInteger, server_default="0")


class ImportLine(Base):
    """A line of such a file that isn't done with, by the row of its item."""

    __tablename__ = "ibi_import_line"
    __table_args__ = (Index("ix_ibi_import_line_item", "import_id", "item_id"),)

    import_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_import.id", name="fk_ibi_import_line_import", ondelete="CASCADE"),
        primary_key=True,
    )
    line: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    item_id: Mapped[int] = mapped_column(Key)
    #: Whether the line was written over an item, or the mention of one, that was there.
    written: Mapped[bool] = mapped_column()
    #: Whether its record speaks of other items.
    tied: Mapped[bool] = mapped_column()
    #: The group of translations that the item had left, and its language there; JSON, None: none.
    told: Mapped[str | None] = mapped_column(Text)
