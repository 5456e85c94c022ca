"""Defines the tables of the harvest log: which items changed, in which order, for OAI-PMH.

The timestamps of items are not sufficient for harvesters. An imported item keeps its old timestamp,
an item also changes with the item that contains its metadata, and a transaction may be committed
long after the time that it wrote. A harvester that asks for the changes since its last visit would
miss these changes.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    String,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.archive.items.tables.items import Base
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime


class ChangedItem(Base):
    """An item that has changed since it was last written to the harvest log.

    A trigger of the table of items adds the rows. An item can have several rows, so that writers
    never wait for each other.
    """

    __tablename__ = "ibi_changed_item"
    __table_args__ = (
        Index("ix_ibi_changed_item_archive", "archive_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(Key)
    item_id: Mapped[int] = mapped_column(Key)


class Harvest(Base):
    """The last change of an item, as harvesters see it."""

    __tablename__ = "ibi_harvest"
    __table_args__ = (
        ForeignKeyConstraint(
            ["item_id", "archive_id"],
            ["ibi_item.id", "ibi_item.archive_id"],
            name="fk_ibi_harvest_item",
            ondelete="CASCADE",
        ),
        CheckConstraint(
            "(change_no IS NULL) = (datestamp IS NULL)", name="ck_ibi_harvest_datestamp"
        ),
        UniqueConstraint("archive_id", "datestamp", "change_no", name="uq_ibi_harvest_change"),
    )

    item_id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    archive_id: Mapped[int] = mapped_column(Key)
    #: The position of the change: later changes have higher numbers. None: harvesters must not see
    #: the item, and have never seen it.
    change_no: Mapped[int | None] = mapped_column(BigInteger)
    #: The time (whole seconds) at which the change became visible for harvesters. A change with a
    #: higher number never has an earlier time.
    datestamp: Mapped[datetime | None] = mapped_column(UTCDateTime)
    is_deleted: Mapped[bool] = mapped_column(server_default=false())


class HarvestEnd(Base):
    """The end of the harvest log of an Archive.

    Changes that are added later get this datestamp or a later one.
    """

    __tablename__ = "ibi_harvest_end"

    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_archive.id", name="fk_ibi_harvest_end_archive", ondelete="CASCADE"),
        primary_key=True,
    )
    datestamp: Mapped[datetime] = mapped_column(UTCDateTime)


class HarvestSet(Base):
    """The membership of an item in a set. A deleted item stays in its sets."""

    __tablename__ = "ibi_harvest_set"
    __table_args__ = (
        Index("ix_ibi_harvest_set_change", "archive_id", "set_spec", "datestamp", "change_no"),
    )

    item_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_harvest.item_id", name="fk_ibi_harvest_set_item", ondelete="CASCADE"),
        primary_key=True,
    )
    set_spec: Mapped[str] = mapped_column(String(255), primary_key=True)
    archive_id: Mapped[int] = mapped_column(Key)
    change_no: Mapped[int] = mapped_column(BigInteger)
    datestamp: Mapped[datetime] = mapped_column(UTCDateTime)
