"""The tables about the claims of Archives, as SQLAlchemy models.

The *index* answers which Archives claim an identifier. Its recent part is the table of bindings;
the rest is in files (index.py), whose names are in the table of runs. Therefore one transaction
stores new bindings together with the position up to which the log of the Archive was read.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Date,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.core.claims.checkpoint import get_service_rep
from flask_ibi_archive.resolver.tables import PrefixHolder as PrefixHolder
from flask_ibi_archive.resolver.tables import ResolverBase
from flask_ibi_archive.resolver.tables import ResolverState as ResolverState
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime

#: The states of a log. NEW: the key is pinned, and nothing was read yet. CURRENT: the last read
#: succeeded. SILENT: the Archive did not answer the last read at all, so that asking it would not
#: help; its last claims count. STALE: the Archive answers, but its checkpoint is too old or can't
#: be read, or what was read can't be stored. FORKED: two signed trees contradict each other.
#: CONTRADICTED: three answers contradicted the claims. FULL: the log is longer than
#: the limit allows, and the rest is not read. An Archive is always asked unless
#: its log is CURRENT or SILENT.
NEW, CURRENT, SILENT = "new", "current", "silent"
STALE, FORKED, CONTRADICTED, FULL = "stale", "forked", "contradicted", "full"
LOG_STATES = (NEW, CURRENT, SILENT, STALE, FORKED, CONTRADICTED, FULL)


def _refer_to_archive(table: str) -> ForeignKey:
    return ForeignKey(
        "ibi_resolver_archive.id", name=f"fk_ibi_resolver_{table}_archive", ondelete="CASCADE"
    )


def _find_service_rep(context: Any) -> str:
    """Return the value of the column ``service_rep`` of a new row."""
    return get_service_rep(context.get_current_parameters()["origin"])


class FollowedLog(ResolverBase):
    """The log of an Archive whose key was pinned, and how far it was read and verified."""

    __tablename__ = "ibi_resolver_log"
    __table_args__ = (
        CheckConstraint(
            f"state IN ({', '.join(repr(state) for state in LOG_STATES)})",
            name="ck_ibi_resolver_log_state",
        ),
        CheckConstraint(
            "size >= 0 AND length >= 0 AND contradictions >= 0", name="ck_ibi_resolver_log_counts"
        ),
        CheckConstraint("size = 0 OR checkpoint IS NOT NULL", name="ck_ibi_resolver_log_read"),
        UniqueConstraint("service_rep", name="uq_ibi_resolver_log_service_rep"),
        Index("ix_ibi_resolver_log_due", "due_at"),
    )

    archive_id: Mapped[int] = mapped_column(Key, _refer_to_archive("log"), primary_key=True)
    #: The first line of the checkpoints, and the name of the key.
    origin: Mapped[str] = mapped_column(String(300))
    #: The rep of the service, which is the origin without "#2" and so on. One Archive has it.
    service_rep: Mapped[str] = mapped_column(String(300), default=_find_service_rep)
    #: The pinned public key in the form of a verifier key (signed-note).
    key: Mapped[str] = mapped_column(String(500))
    pinned_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: The number of the log among those of the Archive, from 1. A log that continues with another
    #: key keeps its number.
    number: Mapped[int] = mapped_column(Integer, server_default="1")
    state: Mapped[str] = mapped_column(String(12), server_default=NEW)
    #: Why the state is stale, silent, forked or contradicted, in one line for the operator.
    reason: Mapped[str | None] = mapped_column(Text)
    #: The number of entries that were read and verified.
    size: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The length of these entries in bytes.
    length: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The hashes of the full subtrees of these entries, from left to right (core/claims/merkle.py).
    frontier: Mapped[bytes] = mapped_column(LargeBinary)
    #: The last verified checkpoint with its signatures. None: none was read yet.
    checkpoint: Mapped[str | None] = mapped_column(Text)
    #: The ETag of that checkpoint.
    etag: Mapped[str | None] = mapped_column(String(255))
    #: The time in the timestamped signature of that checkpoint.
    signed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: When the log was last asked for, with or without success.
    read_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: When to read the log before its turn, such as after a registration. None: at its turn.
    due_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The number of answers that contradicted the claims since the key was pinned.
    contradictions: Mapped[int] = mapped_column(Integer, server_default="0")


class PinnedKey(ResolverBase):
    """A key that was pinned for an Archive, now or earlier. The list of the keys is public."""

    __tablename__ = "ibi_resolver_pinned_key"

    archive_id: Mapped[int] = mapped_column(Key, _refer_to_archive("pinned_key"), primary_key=True)
    pinned_at: Mapped[datetime] = mapped_column(UTCDateTime, primary_key=True)
    key: Mapped[str] = mapped_column(String(500))


class RejectedEntry(ResolverBase):
    """An entry of a log that was kept out of the index, for the report to the operator."""

    __tablename__ = "ibi_resolver_rejected_entry"

    archive_id: Mapped[int] = mapped_column(
        Key, _refer_to_archive("rejected_entry"), primary_key=True
    )
    #: The position of the entry in the log, from 0.
    position: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    reason: Mapped[str] = mapped_column(Text)
    rejected_at: Mapped[datetime] = mapped_column(UTCDateTime)


class Binding(ResolverBase):
    """A recent entry of the index: an Archive claims an identifier or an alias."""

    __tablename__ = "ibi_resolver_binding"
    __table_args__ = ({"sqlite_with_rowid": False},)

    #: The key of the name (core/claims/claim.py): 16 bytes.
    key: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    #: No foreign key: the index ignores Archives that are not included.
    archive_id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    #: The number of the state (core/claims/claim.py).
    state: Mapped[int] = mapped_column(SmallInteger)


class IndexRun(ResolverBase):
    """A file of the index with sorted bindings. A newer run has a higher id."""

    __tablename__ = "ibi_resolver_index_run"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: The name of the file in the folder of the index. Another run never has the same name.
    name: Mapped[str] = mapped_column(String(40))
    records: Mapped[int] = mapped_column(BigInteger)


class Conflict(ResolverBase):
    """Two Archives claim the Original of one identifier."""

    __tablename__ = "ibi_resolver_conflict"
    __table_args__ = (
        CheckConstraint(
            "first_archive_id < second_archive_id", name="ck_ibi_resolver_conflict_order"
        ),
        Index(
            "uq_ibi_resolver_conflict_open",
            "ibi",
            "first_archive_id",
            "second_archive_id",
            unique=True,
            sqlite_where=text("ended_at IS NULL"),
            postgresql_where=text("ended_at IS NULL"),
        ),
        Index("ix_ibi_resolver_conflict_other_ibi", "other_ibi"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: The identifier in canonical case, as the claim that was read last names it.
    ibi: Mapped[str] = mapped_column(String(255))
    #: The other identifier of the item, if this claim names two.
    other_ibi: Mapped[str | None] = mapped_column(String(255))
    #: The Archive with the lower id, whichever claimed first.
    first_archive_id: Mapped[int] = mapped_column(Key, _refer_to_archive("conflict_first"))
    second_archive_id: Mapped[int] = mapped_column(Key, _refer_to_archive("conflict_second"))
    found_at: Mapped[datetime] = mapped_column(UTCDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: When the signal was sent and the line was logged. None: not yet.
    announced_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: When the e-mail to both administrators was last tried. None: not yet.
    tried_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: When the mail server accepted the e-mail. None: not yet.
    told_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class FailedUrl(ResolverBase):
    """The number of readers for whom a persistent URL failed on a day. Contains no addresses."""

    __tablename__ = "ibi_resolver_failed_url"
    __table_args__ = (CheckConstraint("count > 0", name="ck_ibi_resolver_failed_url_count"),)

    day: Mapped[date] = mapped_column(Date, primary_key=True)
    #: The identifier, of this system or of others, or the former address, in canonical spelling;
    #: what was requested in its place if it is malformed.
    ibi: Mapped[str] = mapped_column(String(255), primary_key=True)
    #: The kind of the alert, such as "unknown".
    reason: Mapped[str] = mapped_column(String(20), primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger)
