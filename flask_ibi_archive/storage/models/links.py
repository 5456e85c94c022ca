"""Addresses elsewhere that items lead to, and whether they still answer."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.storage.models.base import Base
from flask_ibi_archive.storage.types import Key, UTCDateTime


class Link(Base):
    """An address elsewhere, as it was found when it was last looked at."""

    __tablename__ = "ibi_link"
    __table_args__ = (
        CheckConstraint("failures >= 0", name="ck_ibi_link_failures"),
        CheckConstraint(
            "(failures = 0) = (failing_since IS NULL) AND (failures = 0) = (error IS NULL)",
            name="ck_ibi_link_error",
        ),
    )

    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_archive.id", name="fk_ibi_link_archive"),
        primary_key=True,
        autoincrement=False,
    )
    #: SHA-256 of the address, in hexadecimal: an address may be longer than what an index holds.
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    url: Mapped[str] = mapped_column(Text)
    checked_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: Looks that failed, one after the other.
    failures: Mapped[int] = mapped_column(Integer, server_default="0")
    failing_since: Mapped[datetime | None] = mapped_column(UTCDateTime)
    error: Mapped[str | None] = mapped_column(Text)
    #: When the failure was told; None: not yet.
    noticed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
