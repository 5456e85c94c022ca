"""The keys of programs that use the identification server.

A key is a random text of 256 bits. It is shown once, when it is created; the database contains its
SHA-256. A hash that is slow to compute, as for passwords, is not needed: nobody can guess 256 bits.
A request with a key needs the same statement whether the key exists or not, and a key contains no
name. Therefore neither the answer nor its time tells which keys exist.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import insert, or_, select, update

from flask_ibi_archive.archive.identification.tables import ApiKey
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.database import Database

#: The path of the identification server.
PATH = "/ibi/identifiers"
#: What a program may do: mint and reserve identifiers; deposit, update and withdraw items; see and
#: change what other programs made.
SCOPES = ("mint", "deposit", "all")
#: The beginning of each key, by which programs that look for secrets in source code find keys.
PREFIX = "ibi_"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key as its administrator sees it."""

    id: int
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)

    def may(self, scope: str) -> bool:
        """Return whether a program with the key may do something."""
        return scope in self.scopes


_COLUMNS = (
    ApiKey.id,
    ApiKey.name,
    ApiKey.scopes,
    ApiKey.created_at,
    ApiKey.expires_at,
    ApiKey.revoked_at,
)


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
        is_taken = select(ApiKey.id).where(ApiKey.archive_id == archive_id, ApiKey.name == name)
        if connection.scalar(is_taken) is not None:
            raise StorageError(f"a key has the name {name} already; choose another name")
        connection.execute(insert(ApiKey).values(row))
    return key


def list_keys(database: Database, archive_id: int) -> list[KnownKey]:
    """Return the keys of an Archive, the oldest first."""
    statement = select(*_COLUMNS).where(ApiKey.archive_id == archive_id).order_by(ApiKey.id)
    return database.read(lambda connection: list(map(_read, connection.execute(statement))))


def revoke_key(database: Database, archive_id: int, name: str, now: datetime) -> None:
    """Revoke a key. What its program has made remains.

    :raises StorageError: if there is no such key, or if it was revoked before.
    """
    is_named = (ApiKey.archive_id == archive_id, ApiKey.name == name)
    with database.writing() as connection:
        changed = connection.execute(
            update(ApiKey).where(*is_named, ApiKey.revoked_at.is_(None)).values(revoked_at=now)
        )
        if changed.rowcount == 0:
            known = connection.scalar(select(ApiKey.id).where(*is_named))
            reason = "does not exist" if known is None else "was revoked before"
            raise StorageError(f"the key {name} {reason}; flask ibi api-key list shows the keys")


def find_key(database: Database, archive_id: int, key: str, now: datetime) -> KnownKey | None:
    """Return the key with a text; None if it is unknown, revoked or expired."""
    statement = select(*_COLUMNS).where(
        ApiKey.key_hash == _hash(key),
        ApiKey.archive_id == archive_id,
        ApiKey.revoked_at.is_(None),
        or_(ApiKey.expires_at.is_(None), ApiKey.expires_at > now),
    )
    row = database.read(lambda connection: connection.execute(statement).first())
    return None if row is None else _read(row)


def _hash(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def _read(row: Any) -> KnownKey:
    return KnownKey(**{**row._mapping, "scopes": tuple(row.scopes.split())})
