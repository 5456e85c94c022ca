"""The keys of programs that use the identification server.

A key is a random text of 256 bits. It is shown once, when it is created; the database contains its
SHA-256. A hash that is slow to compute, as for passwords, is not needed: nobody can guess 256 bits.
A request with a key needs the same statement whether the key exists or not, and a key contains no
name. Therefore neither the answer nor its time tells which keys exist.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.archive.items.tables import Base
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime

#: The path of the identification server.
PATH = "/ibi/identifiers"
#: What a program may do: mint and reserve identifiers; deposit, update and withdraw items; see and
#: change what other programs made.
SCOPES = ("mint", "deposit", "all")
#: The beginning of each key, by which programs that look for secrets in source code find keys.
PREFIX = "ibi_"


class ApiKey(Base):
    """The key of a program. The key itself is not stored, only its hash."""

    __tablename__ = "ibi_api_key"
    __table_args__: Any = (
        sa.UniqueConstraint("archive_id", "name", name="uq_ibi_api_key_name"),
        sa.UniqueConstraint("key_hash", name="uq_ibi_api_key_hash"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(
        Key, sa.ForeignKey("ibi_archive.id", name="fk_ibi_api_key_archive")
    )
    name: Mapped[str] = mapped_column(sa.String(100))
    #: The SHA-256 of the key in hexadecimal digits.
    key_hash: Mapped[str] = mapped_column(sa.String(64))
    #: What the program may do: names of scopes, separated by spaces.
    scopes: Mapped[str] = mapped_column(sa.String(100))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


def create_key(
    database: Database,
    archive_id: int,
    name: str,
    scopes: Collection[str],
    now: datetime,
    expires_at: datetime | None = None,
) -> str:
    """Create a key and return it. The key cannot be shown again.

    :raises StorageError: if another key, also a revoked one, has the name.
    """
    key = PREFIX + secrets.token_urlsafe(32)
    row = {
        "archive_id": archive_id,
        "name": name,
        "key_hash": _hash(key),
        "scopes": " ".join(scope for scope in SCOPES if scope in scopes),
        "created_at": now,
        "expires_at": expires_at,
    }
    with database.writing() as connection:
        is_taken = sa.select(ApiKey.id).where(ApiKey.archive_id == archive_id, ApiKey.name == name)
        if connection.scalar(is_taken) is not None:
            raise StorageError(f"a key has the name {name} already; choose another name")
        connection.execute(sa.insert(ApiKey).values(row))
    return key


def list_keys(database: Database, archive_id: int) -> Sequence[sa.Row[Any]]:
    """Return the rows of the keys of an Archive, the oldest first."""
    keys = sa.select(ApiKey.__table__).where(ApiKey.archive_id == archive_id)
    return database.read_rows(keys.order_by(ApiKey.id))


def revoke_key(database: Database, archive_id: int, name: str, now: datetime) -> None:
    """Revoke a key. What its program has made remains.

    :raises StorageError: if there is no such key, or if it was revoked before.
    """
    is_named = (ApiKey.archive_id == archive_id, ApiKey.name == name)
    with database.writing() as connection:
        valid = sa.update(ApiKey).where(*is_named, ApiKey.revoked_at.is_(None))
        if connection.execute(valid.values(revoked_at=now)).rowcount == 0:
            revoked = connection.scalar(sa.select(ApiKey.id).where(*is_named))
            reason = "does not exist" if revoked is None else "was revoked before"
            raise StorageError(f"the key {name} {reason}; flask ibi api-key list shows the keys")


def find_key(database: Database, archive_id: int, key: str, now: datetime) -> sa.Row[Any] | None:
    """Return the row of the key that a program has sent; None if the key is not valid."""
    rows = database.read_rows(
        sa.select(ApiKey.__table__).where(
            ApiKey.key_hash == _hash(key),
            ApiKey.archive_id == archive_id,
            ApiKey.revoked_at.is_(None),
            sa.or_(ApiKey.expires_at.is_(None), ApiKey.expires_at > now),
        )
    )
    return rows[0] if rows else None


def find_status(key: sa.Row[Any], now: datetime) -> str:
    """Return the status of a key: "valid", "revoked" or "expired"."""
    if key.revoked_at is not None:
        return "revoked"
    return "valid" if key.expires_at is None or key.expires_at > now else "expired"


def _hash(key: str) -> str:
    return sha256(key.encode()).hexdigest()
