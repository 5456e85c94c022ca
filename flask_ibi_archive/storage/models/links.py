"""Links of items to URLs outside the Archive, and whether they still work."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.storage.models.base import Base
from flask_ibi_archive.storage.types import Key, UTCDateTime


class Link(Base):
    """A URL outside the Archive that items use, with the result of its last check."""

    __tablename__ = "ibi_link"
    __table_args__ = (
        CheckConstraint("failures >= 0", name="ck_ibi_link_failures"),
        CheckConstraint(
            "(failures = 0) = (failing_since IS NULL) AND (failures = 0) = (error IS NULL)",
            name="ck_ibi_link_error",
        ),
        Index("ix_ibi_link_host", "archive_id", "host", "checked_at", "digest"),
    )

    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_archive.id", name="fk_ibi_link_archive"),
        primary_key=True,
        autoincrement=False,
    )
    #: SHA-256 of the URL in hexadecimal: a URL may be too long for an index.
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    url: Mapped[str] = mapped_column(Text)
    #: The host of the URL in lower case, without port, at most 255 characters of it.
    host: Mapped[str] = mapped_column(String(255))
    #: When the check last found that an item uses the link.
    found_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: The time of the last check; None: not checked yet.
    checked_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The number of consecutive failed checks.
    failures: Mapped[int] = mapped_column(Integer, server_default="0")
    failing_since: Mapped[datetime | None] = mapped_column(UTCDateTime)
    error: Mapped[str | None] = mapped_column(Text)
    #: When the failure was first reported; None: not yet.
    noticed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
