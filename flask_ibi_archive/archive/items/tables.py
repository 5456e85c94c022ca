"""Defines the tables of Archives and items, with identifiers, files, tombstones and counts.

Source: [R] 3.2, Figures 3.3 and 3.4.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedColumn, mapped_column

from flask_ibi_archive.server.database.dialects import Key, UTCDateTime

# --- items -------------------------------------------------------------------------------------


#: The tables of this package. The tables of the host are in another MetaData object.
metadata: sa.MetaData = sa.MetaData()

#: The column type of a host's keys. Keys are sorted by their bytes, so that the keys that begin
#: with the name of a table are a range.
HostKey: sa.String = sa.String(1024).with_variant(sa.String(1024, collation="C"), "postgresql")


class Base(DeclarativeBase):
    """The base class of the models."""

    metadata = metadata


def _belongs_to_archive(table: str, **options: Any) -> MappedColumn[int]:
    """Return the column with the row ID of the Archive to which a row belongs.

    :param table: the name of the table without ``ibi_``.
    """
    key = sa.ForeignKey("ibi_archive.id", name=f"fk_ibi_{table}_archive")
    return mapped_column(Key, key, autoincrement=False, **options)


def _belongs_to_item(name: str, *further: str, **options: Any) -> sa.ForeignKeyConstraint:
    """Return a foreign key to the item of a row; the row is deleted together with the item.

    :param further: columns that are always equal to those of the item.
    """
    here, there = ("item_id", "archive_id", *further), ("id", "archive_id", *further)
    columns = [f"ibi_item.{column}" for column in there]
    return sa.ForeignKeyConstraint(here, columns, name=name, ondelete="CASCADE", **options)


def _refers_to(name: str, **columns: str) -> sa.ForeignKeyConstraint:
    """Return a foreign key that is checked at the commit.

    It is for rows of two tables that refer to each other.
    """
    return sa.ForeignKeyConstraint(
        [*columns],
        [*columns.values()],
        name=name,
        deferrable=True,
        initially="DEFERRED",
        use_alter=True,
    )


def _unique_where(condition: str, name: str, *columns: str) -> sa.Index:
    """Return a unique index that contains only the rows that satisfy a condition."""
    where = sa.text(condition)
    return sa.Index(name, *columns, unique=True, sqlite_where=where, postgresql_where=where)


class ArchiveRow(Base):
    """An Archive, with its address and the e-mail address of its administrator ([R] Figure 3.3)."""

    __tablename__ = "ibi_archive"
    __table_args__: Any = (
        # the constraint is deferred, because the Archive and its service refer to each other
        _refers_to(
            "fk_ibi_archive_service", service_item_id="ibi_item.id", id="ibi_item.archive_id"
        ),
        sa.CheckConstraint("protocol = 'HTTP'", name="ck_ibi_archive_protocol"),
        # This option has no effect here: SQLAlchemy omits AUTOINCREMENT if the key is also part of
        # a foreign key. The migrations write AUTOINCREMENT themselves.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    service_item_id: Mapped[int] = mapped_column(Key)
    address: Mapped[str] = mapped_column(sa.String(255))
    ip: Mapped[str | None] = mapped_column(sa.String(45))
    protocol: Mapped[str] = mapped_column(sa.String(4), server_default="HTTP")
    platform_version: Mapped[str] = mapped_column(sa.String(255))
    admin_email: Mapped[str | None] = mapped_column(sa.String(255))
    #: A random word, the same for all Archives of the database.
    database: Mapped[str] = mapped_column(sa.String(32))


class Item(Base):
    """An item of an Archive.

    The columns for other items contain identifiers as text, because those items may be in another
    Archive. For an item of this Archive, the text is the primary form: the rep, or the ibip of an
    item without a rep.
    """

    __tablename__ = "ibi_item"
    __table_args__: Any = (
        sa.UniqueConstraint("id", "archive_id", "state", name="uq_ibi_item_state"),
        sa.UniqueConstraint("id", "archive_id", name="uq_ibi_item_archive"),
        sa.UniqueConstraint("archive_id", "next_edition", name="uq_ibi_item_edition"),
        # The next constraints are deferred: an item refers to its identifiers and its target file,
        # and these rows refer to the item.
        _refers_to("fk_ibi_item_rep", id="ibi_identifier.item_id", rep="ibi_identifier.text"),
        _refers_to("fk_ibi_item_ibip", id="ibi_identifier.item_id", ibip="ibi_identifier.text"),
        _refers_to("fk_ibi_item_target", id="ibi_file.item_id", target_path="ibi_file.path"),
        sa.CheckConstraint("state IN ('Original', 'Copy', 'Deleted')", name="ck_ibi_item_state"),
        sa.CheckConstraint("rep IS NOT NULL OR ibip IS NOT NULL", name="ck_ibi_item_forms"),
        sa.CheckConstraint(
            "(state = 'Copy') = (original_archive IS NOT NULL)",
            name="ck_ibi_item_original_archive",
        ),
        sa.CheckConstraint(
            "NOT is_service OR (state = 'Original' AND NOT transferable AND next_edition IS NULL)",
            name="ck_ibi_item_service",
        ),
        sa.CheckConstraint("content_type IN ('Data', 'Metadata')", name="ck_ibi_item_content_type"),
        sa.CheckConstraint(
            "(CASE WHEN metadata_ibi IS NULL THEN 0 ELSE 1 END)"
            " + (CASE WHEN metadata_url IS NULL THEN 0 ELSE 1 END)"
            " + (CASE WHEN dublin_core IS NULL THEN 0 ELSE 1 END) <= 1",
            name="ck_ibi_item_metadata",
        ),
        sa.CheckConstraint("work IS NULL OR dublin_core IS NOT NULL", name="ck_ibi_item_work"),
        sa.CheckConstraint(
            "(access_networks IS NULL) = (access_others IS NULL)"
            " AND (access_others IS NULL OR access_others IN ('metadata', 'none'))",
            name="ck_ibi_item_access",
        ),
        sa.CheckConstraint("embargo IS NULL OR NOT is_service", name="ck_ibi_item_embargo"),
        sa.CheckConstraint(
            "host_key IS NULL OR (host_key <> '' AND NOT is_service)", name="ck_ibi_item_key"
        ),
        sa.Index("ix_ibi_item_archive", "archive_id", "id"),
        sa.Index("ix_ibi_item_metadata", "archive_id", "metadata_ibi"),
        sa.Index("ix_ibi_item_timestamp", "archive_id", "timestamp", "id"),
        sa.Index("ix_ibi_item_year", "archive_id", "issued_year", "id"),
        _unique_where("is_service", "uq_ibi_item_service", "archive_id"),
        _unique_where("host_key IS NOT NULL", "uq_ibi_item_key", "archive_id", "host_key"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = _belongs_to_archive("item")
    state: Mapped[str] = mapped_column(sa.String(9))
    rep: Mapped[str | None] = mapped_column(sa.String(255))
    ibip: Mapped[str | None] = mapped_column(sa.String(255))
    timestamp: Mapped[datetime] = mapped_column(UTCDateTime)
    content_type: Mapped[str] = mapped_column(sa.String(8), server_default="Data")
    language: Mapped[str | None] = mapped_column(sa.String(5))
    transferable: Mapped[bool] = mapped_column(server_default=sa.true())
    is_service: Mapped[bool] = mapped_column(server_default=sa.false())
    #: The service IBI of the Archive that has the Original of this Copy (rule 4).
    original_archive: Mapped[str | None] = mapped_column(sa.String(255))
    #: The next edition (rule 7), an identifier.
    next_edition: Mapped[str | None] = mapped_column(sa.String(255))
    #: The item that contains the metadata of this item, an identifier.
    metadata_ibi: Mapped[str | None] = mapped_column(sa.String(255))
    metadata_url: Mapped[str | None] = mapped_column(sa.Text)
    metadata_formats: Mapped[dict[str, str] | None] = mapped_column(sa.JSON(none_as_null=True))
    metadata_timestamp: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: For an item of content type Metadata: the URLs of the same metadata in other formats.
    formats: Mapped[dict[str, str] | None] = mapped_column(sa.JSON(none_as_null=True))
    target_path: Mapped[str | None] = mapped_column(sa.Text)
    list_files: Mapped[bool] = mapped_column(server_default=sa.true())
    #: The networks that have access, in CIDR form, separated by spaces; None: all networks.
    access_networks: Mapped[str | None] = mapped_column(sa.Text)
    access_others: Mapped[str | None] = mapped_column(sa.String(8))
    #: One of the last columns, because the value is long, and a urlRequest does not read it.
    dublin_core: Mapped[dict[str, list[Any]] | None] = mapped_column(sa.JSON(none_as_null=True))
    #: The description from which the Dublin Core was made; None: there is Dublin Core only.
    work: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    #: The first day (UTC) on which readers may read the files; None: there is no embargo.
    embargo: Mapped[date | None] = mapped_column(sa.Date)
    #: Where the item comes from, such as ``thesis:7``: the key that the host gave, or the table and
    #: the primary key of its row.
    host_key: Mapped[str | None] = mapped_column(HostKey)
    #: The year of publication in the own description of the item, for the list by year.
    issued_year: Mapped[int | None] = mapped_column(sa.Integer)


#: The Archive whose rows a constant statement reads. Statements are constant, because SQLAlchemy
#: needs more time to make them than to run them.
ARCHIVE: Any = sa.bindparam("archive_id", type_=Key)


def primary_form(item: Any = Item) -> sa.ColumnElement[str]:
    """Return the SQL expression of the primary form: the rep if there is one, otherwise the ibip.

    :param item: the table of items, or an alias of the table.
    """
    form: sa.ColumnElement[str] = sa.func.coalesce(item.rep, item.ibip)
    return form


class Translation(Base):
    """A member of a group of items with the same content in different languages."""

    __tablename__ = "ibi_translation"
    __table_args__: Any = (
        sa.UniqueConstraint("archive_id", "head", "language", name="uq_ibi_translation_language"),
    )

    archive_id: Mapped[int] = _belongs_to_archive("translation", primary_key=True)
    #: The member, which may be in another Archive.
    ibi: Mapped[str] = mapped_column(sa.String(255), primary_key=True)
    #: The group: the member, here, whose record lists the other members.
    head: Mapped[str] = mapped_column(sa.String(255))
    #: The language of the member; None: the head states no language.
    language: Mapped[str | None] = mapped_column(sa.String(5))


class ItemIdentifier(Base):
    """An identifier of an item: a form of its IBI or an alias.

    A foreign key guarantees that the column ``state`` always contains the state of the item.
    Therefore an index can enforce that an identifier has only one Original (rule 3).
    """

    __tablename__ = "ibi_identifier"
    __table_args__: Any = (
        sa.UniqueConstraint("item_id", "text", name="uq_ibi_identifier_item"),
        _belongs_to_item("fk_ibi_identifier_item", "state", onupdate="CASCADE"),
        _unique_where("state = 'Original'", "uq_ibi_identifier_original", "text"),
    )

    text: Mapped[str] = mapped_column(sa.String(255), primary_key=True)
    archive_id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    item_id: Mapped[int] = mapped_column(Key)
    state: Mapped[str] = mapped_column(sa.String(9))
    #: "rep", "ibip" or "legacy".
    form: Mapped[str] = mapped_column(sa.String(6))
    #: The position in the list of aliases, from 1; 0 for a form of the IBI.
    alias_no: Mapped[int] = mapped_column(sa.Integer, server_default="0")


class File(Base):
    """A file of an item: stored in the Archive, or at a URL, or with nothing known but its name."""

    __tablename__ = "ibi_file"
    __table_args__: Any = (
        sa.CheckConstraint("size IS NULL OR sha256 IS NOT NULL", name="ck_ibi_file_stored"),
    )

    item_id: Mapped[int] = mapped_column(
        Key,
        sa.ForeignKey("ibi_item.id", name="fk_ibi_file_item", ondelete="CASCADE"),
        primary_key=True,
    )
    path: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    position: Mapped[int] = mapped_column(sa.Integer)
    url: Mapped[str | None] = mapped_column(sa.Text)
    sha256: Mapped[str | None] = mapped_column(sa.String(64))
    #: The size in bytes; None: the file is not stored in the Archive.
    size: Mapped[int | None] = mapped_column(Key)
    #: The path of the host's file from which the file was copied, percent-encoded.
    source: Mapped[str | None] = mapped_column(sa.Text)
    #: The modification time of that file, in nanoseconds since 1970. A file whose path, size and
    #: time are equal is not read again.
    source_modified: Mapped[int | None] = mapped_column(Key)


class SameAs(Base):
    """An alias of an item: an identifier of another system, or a former address.

    The digest is computed from the form in which aliases are compared. An index of the digests is
    small, whatever the length of an address.
    """

    __tablename__ = "ibi_same_as"
    __table_args__: Any = (
        _belongs_to_item("fk_ibi_same_as_item"),
        sa.Index("ix_ibi_same_as_item", "item_id"),
    )

    #: The SHA-256 of the form for comparison, in hexadecimal digits.
    digest: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    archive_id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    item_id: Mapped[int] = mapped_column(Key)
    position: Mapped[int] = mapped_column(sa.Integer)
    #: The canonical spelling, which is shown.
    text: Mapped[str] = mapped_column(sa.Text)


class Prefix(Base):
    """The last date that the temporal distributor issued under a prefix.

    Source: [G] 6, Algorithm 4.
    """

    __tablename__ = "ibi_prefix"

    prefix: Mapped[str] = mapped_column(sa.String(255), primary_key=True)
    #: The date in POSIX seconds, as a decimal number that is not rounded.
    last_date: Mapped[str] = mapped_column(sa.String(255))


class TombstoneRow(Base):
    """The tombstone of a Deleted item: the reason, and the item that replaces the deleted item.

    The date of the deletion is the timestamp of the item.
    """

    __tablename__ = "ibi_tombstone"
    __table_args__: Any = (
        _belongs_to_item("fk_ibi_tombstone_item", "state"),
        sa.CheckConstraint("state = 'Deleted'", name="ck_ibi_tombstone_state"),
    )

    item_id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    archive_id: Mapped[int] = mapped_column(Key)
    state: Mapped[str] = mapped_column(sa.String(9), server_default="Deleted")
    reason: Mapped[str] = mapped_column(sa.Text)
    #: The text with which the deleted item should be cited.
    citation: Mapped[str | None] = mapped_column(sa.Text)
    #: The IBI of the item that replaces the deleted item. This item may be in another Archive.
    successor: Mapped[str | None] = mapped_column(sa.String(255))
    #: The service IBI of the Archive to which the item was transferred.
    original_archive: Mapped[str | None] = mapped_column(sa.String(255))


class ReservationRow(Base):
    """A reservation of an identifier, with both forms of the identifier, for a draft."""

    __tablename__ = "ibi_reservation"
    __table_args__: Any = (
        sa.UniqueConstraint("ibip", name="uq_ibi_reservation_ibip"),
        sa.CheckConstraint(
            "status IN ('held', 'used', 'released')", name="ck_ibi_reservation_status"
        ),
        sa.CheckConstraint(
            "host_key IS NULL OR (host_key <> '' AND status = 'held')",
            name="ck_ibi_reservation_key",
        ),
        sa.Index("ix_ibi_reservation_archive", "archive_id", "status", "reserved_at"),
        _unique_where("host_key IS NOT NULL", "uq_ibi_reservation_key", "archive_id", "host_key"),
    )

    rep: Mapped[str] = mapped_column(sa.String(255), primary_key=True)
    ibip: Mapped[str] = mapped_column(sa.String(255))
    archive_id: Mapped[int] = _belongs_to_archive("reservation")
    status: Mapped[str] = mapped_column(sa.String(8), server_default="held")
    note: Mapped[str | None] = mapped_column(sa.Text)
    reserved_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: The time when the identifier was used or released; None: the status is held.
    settled_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The table and the primary key of the row that is not public yet.
    host_key: Mapped[str | None] = mapped_column(HostKey)


class AccessCount(Base):
    """The number of accesses to a requested item on one day, to one content type.

    The transaction that stores an access also counts the access. When accesses are deleted, the
    number does not change.
    """

    __tablename__ = "ibi_access_count"
    __table_args__: Any = (
        sa.CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_access_count_content_type"
        ),
        sa.Index("ix_ibi_access_count_archive", "archive_id", "day"),
    )

    archive_id: Mapped[int] = _belongs_to_archive("access_count", primary_key=True)
    #: The identifier that the item had at the time of the accesses. The counts of an item are those
    #: of all its identifiers. The item may be in the tables of a host.
    ibi: Mapped[str] = mapped_column(sa.String(255), primary_key=True)
    day: Mapped[date] = mapped_column(sa.Date, primary_key=True)
    #: "Metadata": the accesses are views. "Data": the accesses are downloads.
    content_type: Mapped[str] = mapped_column(sa.String(8), primary_key=True)
    #: The number of accesses without double clicks and without accesses of robots.
    accesses: Mapped[int] = mapped_column(sa.BigInteger)
    double_clicks: Mapped[int] = mapped_column(sa.BigInteger, server_default="0")
    robots: Mapped[int] = mapped_column(sa.BigInteger, server_default="0")


class ArchiveAccessCount(Base):
    """The number of accesses to all requested items of an Archive on one day."""

    __tablename__ = "ibi_archive_access_count"
    __table_args__: Any = (
        sa.CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_archive_access_count_content_type"
        ),
    )

    archive_id: Mapped[int] = _belongs_to_archive("archive_access_count", primary_key=True)
    day: Mapped[date] = mapped_column(sa.Date, primary_key=True)
    content_type: Mapped[str] = mapped_column(sa.String(8), primary_key=True)
    accesses: Mapped[int] = mapped_column(sa.BigInteger)
    double_clicks: Mapped[int] = mapped_column(sa.BigInteger, server_default="0")
    robots: Mapped[int] = mapped_column(sa.BigInteger, server_default="0")


class Registration(Base):
    """The results of the last inclusion and exclusion requests of an Archive ([R] 5.2)."""

    __tablename__ = "ibi_registration"
    __table_args__: Any = (
        sa.CheckConstraint(
            "confirmed_at IS NULL OR included_at IS NOT NULL", name="ck_ibi_registration_confirmed"
        ),
        sa.CheckConstraint(
            "included_at IS NULL OR (registered_at IS NOT NULL AND address IS NOT NULL)",
            name="ck_ibi_registration_included",
        ),
        sa.CheckConstraint(
            "(error IS NULL) = (error_at IS NULL)", name="ck_ibi_registration_error"
        ),
    )

    archive_id: Mapped[int] = _belongs_to_archive("registration", primary_key=True)
    resolver_url: Mapped[str] = mapped_column(sa.Text)
    #: The address of the Archive in the last request. If the address or the IP of the Archive has
    #: changed, the database may be a copy.
    address: Mapped[str | None] = mapped_column(sa.String(255))
    ip: Mapped[str | None] = mapped_column(sa.String(45))
    #: The time when the resolver first accepted the registration key.
    registered_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The time when the resolver included the Archive; None: the Archive is not included.
    included_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The time when the resolver sent a request to confirm the inclusion; None: not confirmed.
    confirmed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    excluded_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The error of the last request; None: the request succeeded.
    error: Mapped[str | None] = mapped_column(sa.Text)
    error_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class ArchiveElsewhere(Base):
    """The address of an Archive on another server, to which Originals have moved from here."""

    __tablename__ = "ibi_archive_elsewhere"

    archive_id: Mapped[int] = _belongs_to_archive("archive_elsewhere", primary_key=True)
    service_ibi: Mapped[str] = mapped_column(sa.String(255), primary_key=True)
    address: Mapped[str] = mapped_column(sa.String(255))
