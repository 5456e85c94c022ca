"""The tables of a resolver, as SQLAlchemy models.

The tables have their own MetaData object and their own migrations (``migrations/resolver``).
Therefore the tables of a resolver and the tables of an Archive can be in the same database or in
different databases.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime

resolver_metadata: MetaData = MetaData()


class ResolverBase(DeclarativeBase):
    """The base class of all models of a resolver."""

    metadata = resolver_metadata


def _check(name: str, condition: str) -> CheckConstraint:
    return CheckConstraint(condition, name=f"ck_ibi_resolver_{name}")


def _refer_to_archive(table: str) -> ForeignKey:
    return ForeignKey(
        "ibi_resolver_archive.id", name=f"fk_ibi_resolver_{table}_archive", ondelete="CASCADE"
    )


class RegisteredArchive(ResolverBase):
    """A registered Archive with its registration key, state and metrics ([R] 5)."""

    __tablename__ = "ibi_resolver_archive"
    __table_args__: Any = (
        UniqueConstraint("service_ibi", name="uq_ibi_resolver_archive_service_ibi"),
        _check(
            "archive_included",
            "included_at IS NULL OR (address IS NOT NULL AND ip IS NOT NULL"
            " AND platform_version IS NOT NULL AND admin_email IS NOT NULL)",
        ),
        _check("archive_confirmed", "confirmed_at IS NULL OR included_at IS NOT NULL"),
        _check("archive_excluded", "excluded_at IS NULL OR included_at IS NULL"),
        _check("archive_counts", "answers >= 0 AND failures >= 0 AND milliseconds >= 0"),
        _check("archive_failure", "(last_failure IS NULL) = (last_failure_at IS NULL)"),
        # an id is never used again, because metrics may be written after an Archive was removed
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: The IBI of the Archive's service in canonical case.
    service_ibi: Mapped[str] = mapped_column(String(255))
    #: A salted hash of the registration key.
    key_hash: Mapped[str] = mapped_column(String(255))
    #: The address for the e-mail that confirms the registration.
    email: Mapped[str | None] = mapped_column(String(255))
    registered_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: The next four values come from the Archive's last inclusion request ([R] Table 5.2).
    address: Mapped[str | None] = mapped_column(String(255))
    ip: Mapped[str | None] = mapped_column(String(45))
    platform_version: Mapped[str | None] = mapped_column(String(255))
    admin_email: Mapped[str | None] = mapped_column(String(255))
    #: The prefixes of the Archive's new identifiers, separated by a space, and a word that only the
    #: Archives of its database have. None if its last inclusion request does not contain them.
    mints: Mapped[str | None] = mapped_column(Text)
    database: Mapped[str | None] = mapped_column(Text)
    #: The date of the Archive's inclusion. None if the Archive is not included.
    included_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The date when the Archive confirmed the inclusion at the present address. None if the Archive
    #: has not confirmed the inclusion.
    confirmed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The date of the Archive's exclusion. None if the Archive is not excluded.
    excluded_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The number of inclusion and exclusion requests of the Archive.
    requests: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The number of questions that the Archive answered.
    answers: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The number of questions that the Archive did not answer correctly.
    failures: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The sum of the response times of the answers.
    milliseconds: Mapped[int] = mapped_column(BigInteger, server_default="0")
    last_answer_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The reason of the Archive's last failure, such as "took too long". In messages, the reason
    #: follows the address of the Archive.
    last_failure: Mapped[str | None] = mapped_column(Text)
    last_failure_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


# --- claims --------------------------------------------------------------------------------------


#: The numbers that stand for the states of items in claims, in the order in which they are asked.
STATE_NUMBERS = {State.ORIGINAL: 1, State.COPY: 2, State.DELETED: 3}


class ResolverState(ResolverBase):
    """One row: the version of the list of Archives, and what the follower does."""

    __tablename__ = "ibi_resolver_state"
    __table_args__: Any = (_check("state_id", "id = 1"),)

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=False)
    #: Each change of the included Archives, or of whom to ask always, increases the version.
    version: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The follower has worked until this time, and had asked each Archive before. None: never.
    followed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: When the follower began to ask all Archives, which takes some time. None: it has asked them.
    catching_up_since: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The process that follows: a random text. Only this process follows until the time.
    follower: Mapped[str | None] = mapped_column(String(32))
    follows_until: Mapped[datetime | None] = mapped_column(UTCDateTime)


class FollowedArchive(ResolverBase):
    """An Archive that publishes claims: the public key, and the progress of reading (CL-7).

    The claims of the Archive count if they were read to the end lately, no line is refused, and
    fewer than three answers contradicted them. Otherwise the resolver always asks the Archive.
    """

    __tablename__ = "ibi_resolver_followed"
    __table_args__: Any = (
        _check(
            "followed_counts",
            "failures >= 0 AND contradictions >= 0 AND reading >= 0 AND names >= 0",
        ),
        _check("followed_epoch", "epoch IS NOT NULL OR (position = '' AND read_at IS NULL)"),
    )

    archive_id: Mapped[int] = mapped_column(Key, _refer_to_archive("followed"), primary_key=True)
    #: The pinned public key in base64.
    key: Mapped[str] = mapped_column(String(64))
    pinned_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: The epoch of the last page that was stored. None: nothing was read yet.
    epoch: Mapped[str | None] = mapped_column(String(64))
    #: The number of epochs that were begun to be read.
    reading: Mapped[int] = mapped_column(Integer, server_default="0")
    #: The position after which the next page begins; "" at the beginning.
    position: Mapped[str] = mapped_column(String(512), server_default="")
    #: The ETag of the last page, if it was the last one of the list.
    etag: Mapped[str | None] = mapped_column(String(255))
    #: When the list was last read to its end. None while another epoch is being read.
    read_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: When the next page is asked for. None: at once.
    due_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The number of rows of :class:`ClaimedName`.
    names: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The number of failures since the last page that was stored, and the last one in words, which
    #: continue a sentence about the Archive.
    failures: Mapped[int] = mapped_column(BigInteger, server_default="0")
    reason: Mapped[str | None] = mapped_column(Text)
    #: The number of answers that contradicted the claims since the beginning of the list was read.
    contradictions: Mapped[int] = mapped_column(BigInteger, server_default="0")


class ClaimedName(ResolverBase):
    """A claim of an Archive: it has an item with this name, an identifier or alias (CL-7)."""

    __tablename__ = "ibi_resolver_claim"
    __table_args__: Any = (
        _check("claim_state", "state IN (1, 2, 3)"),
        _check("claim_kind", "kind IN (1, 2, 3)"),
        Index("ix_ibi_resolver_claim_item", "archive_id", "reading", "item"),
        {"sqlite_with_rowid": False},
    )

    #: The name in the form for comparison (core/claim.py, fold_name).
    name: Mapped[str] = mapped_column(Text, primary_key=True)
    archive_id: Mapped[int] = mapped_column(
        Key, _refer_to_archive("claim"), primary_key=True, autoincrement=False
    )
    #: The number of the epoch whose page stated the name last (FollowedArchive.reading). 0: the
    #: item has lost the name. At the end of the list, rows with lower numbers are deleted.
    reading: Mapped[int] = mapped_column(Integer)
    #: The item, as the Archive calls it within the epoch.
    item: Mapped[str] = mapped_column(String(255))
    #: 1: the rep, 2: the ibip, 3: an alias.
    kind: Mapped[int] = mapped_column(SmallInteger)
    #: 1: Original, 2: Copy, 3: Deleted.
    state: Mapped[int] = mapped_column(SmallInteger)
    #: The time of the last change of the item, as the Archive states it.
    timestamp: Mapped[str] = mapped_column(String(20))
    #: The service IBI of the Archive that has the Original, if the claim names it.
    original_archive: Mapped[str | None] = mapped_column(String(255))
    #: When the claim of this name in this state was first read (CL-8a).
    since: Mapped[datetime] = mapped_column(UTCDateTime)


class RefusedClaim(ResolverBase):
    """A refused line of an Archive: a malformed claim, or a claim that the Archive may not make."""

    __tablename__ = "ibi_resolver_refused_claim"

    archive_id: Mapped[int] = mapped_column(Key, _refer_to_archive("refused"), primary_key=True)
    #: The item of the line; the beginning of the line if no item can be read.
    item: Mapped[str] = mapped_column(String(255), primary_key=True)
    reason: Mapped[str] = mapped_column(Text)
    refused_at: Mapped[datetime] = mapped_column(UTCDateTime)


class PrefixHolder(ResolverBase):
    """An Archive that lately gave, or that hides, items whose identifiers have a prefix."""

    __tablename__ = "ibi_resolver_prefix"
    __table_args__: Any = (
        _check("prefix_reason", "is_hidden OR seen_at IS NOT NULL"),
        Index("ix_ibi_resolver_prefix_archive", "archive_id"),
    )

    #: The part of an identifier that names the place of minting, in canonical case.
    prefix: Mapped[str] = mapped_column(String(255), primary_key=True)
    archive_id: Mapped[int] = mapped_column(Key, _refer_to_archive("prefix"), primary_key=True)
    #: Whether the Archive says that it hides items with the prefix.
    is_hidden: Mapped[bool] = mapped_column(Boolean, server_default=false())
    #: When the Archive gave an item with the prefix. None: it has not.
    seen_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class Conflict(ResolverBase):
    """Two Archives claim the Original of an item, or an alias for different items (CF-1)."""

    __tablename__ = "ibi_resolver_conflict"
    __table_args__: Any = (
        _check("conflict_order", "first_archive_id < second_archive_id"),
        _check("conflict_preferred", "preferred_id IS NULL OR ended_at IS NOT NULL"),
        Index(
            "uq_ibi_resolver_conflict_open",
            "name",
            "first_archive_id",
            "second_archive_id",
            unique=True,
            sqlite_where=text("ended_at IS NULL"),
            postgresql_where=text("ended_at IS NULL"),
        ),
        Index("ix_ibi_resolver_conflict_name", "name"),
        Index("ix_ibi_resolver_conflict_other_name", "other_name"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    #: The name that both claim, in the form for comparison, as in :class:`ClaimedName`.
    name: Mapped[str] = mapped_column(Text)
    #: The other identifier of the item, if both claim two.
    other_name: Mapped[str | None] = mapped_column(Text)
    #: Whether the name is an alias of different items. False: both claim the Original of the item.
    is_alias: Mapped[bool] = mapped_column(Boolean, server_default=false())
    #: The Archive with the lower id, whichever claimed first.
    first_archive_id: Mapped[int] = mapped_column(Key, _refer_to_archive("conflict_first"))
    second_archive_id: Mapped[int] = mapped_column(Key, _refer_to_archive("conflict_second"))
    found_at: Mapped[datetime] = mapped_column(UTCDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: The Archive that the operator preferred, which ended the conflict: one of the two.
    preferred_id: Mapped[int | None] = mapped_column(Key, _refer_to_archive("conflict_preferred"))
    #: When the signal was sent, or the e-mail was last tried. None: not yet.
    tried_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    #: When the mail server accepted the e-mail to both administrators. None: not yet.
    told_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


# --- failures ------------------------------------------------------------------------------------
