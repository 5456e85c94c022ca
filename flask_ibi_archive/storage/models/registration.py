"""How an Archive stands with its resolver."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.storage.models.base import Base
from flask_ibi_archive.storage.types import Key, UTCDateTime


class Registration(Base):
    """What came of the inclusion and exclusion requests of an Archive ([R] 5.2)."""

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
    #: The address and the IP that the resolver was told last; another one is perhaps that of a
    #: clone.
    address: Mapped[str | None] = mapped_column(String(255))
    ip: Mapped[str | None] = mapped_column(String(45))
    #: When the resolver first took the key: it knows the Archive since then at least.
    registered_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: Since when the Archive is included; None: it isn't.
    included_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: When the resolver confirmed the inclusion by calling back; None: it didn't.
    confirmed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    excluded_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: What went wrong with the last request; None: nothing.
    error: Mapped[str | None] = mapped_column(Text)
    error_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
