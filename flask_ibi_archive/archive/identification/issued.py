"""Stores which program requested which identifiers, and which requests were answered.

The rows are stored in the transaction of the operation itself: an identifier that a program got is
never lost, and the answer to a repeated request consists of the identifiers of the first one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from sqlalchemy import Connection, and_, delete, insert, or_, select

from flask_ibi_archive.archive.identification.tables import ApiRequest, IssuedIdentifier
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.server.database.dialects import insert_or_update

#: For this time, a repeated request gets the first answer.
REPEATABLE = timedelta(days=1)
#: The largest number of older requests that a request deletes, so that none takes long.
DELETED = 100


class KeyReused(Exception):
    """An ``Idempotency-Key`` was used for another request before."""


class AlreadyAnswered(Exception):
    """Another process has answered the same request in the meantime."""


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A request that the program may repeat.

    :param key: the value of the header ``Idempotency-Key``.
    :param content_hash: the SHA-256 of the content, by which another request is recognised.
    """

    key: str
    content_hash: str

    @classmethod
    def from_content(cls, key: str, content: object) -> Repeatable:
        """Return the request with a JSON value as its content."""
        return cls(key, sha256(json.dumps(content, sort_keys=True).encode()).hexdigest())


def find_answer(
    connection: Connection, key_id: int, repeatable: Repeatable | None, now: datetime
) -> list[Minted] | None:
    """Return the identifiers that a request got before; None if it is the first one.

    :raises KeyReused: if another request had the same ``Idempotency-Key``.
    """
    if repeatable is None:
        return None
    first = connection.execute(
        select(ApiRequest.id, ApiRequest.content_hash).where(
            ApiRequest.key_id == key_id,
            ApiRequest.idempotency_key == repeatable.key,
            ApiRequest.requested_at > now - REPEATABLE,
        )
    ).first()
    if first is None:
        return None
    if first.content_hash != repeatable.content_hash:
        raise KeyReused
    rows = connection.execute(
        select(IssuedIdentifier.rep, IssuedIdentifier.ibip)
        .where(IssuedIdentifier.request_id == first.id)
        .order_by(IssuedIdentifier.id)
    )
    return [Minted(rep, ibip) for rep, ibip in rows]


def store_issued(
    connection: Connection,
    key_id: int,
    repeatable: Repeatable | None,
    minted: Sequence[Minted],
    now: datetime,
) -> None:
    """Store which key requested identifiers, and the request if it may be repeated.

    :raises AlreadyAnswered: if another process has answered the same request.
    """
    request_id = None
    if repeatable is not None:
        is_old = ApiRequest.requested_at <= now - REPEATABLE
        oldest = (
            select(ApiRequest.id)
            .where(ApiRequest.key_id == key_id, is_old)
            .order_by(ApiRequest.requested_at)
            .limit(DELETED)
        )
        is_same = and_(ApiRequest.idempotency_key == repeatable.key, is_old)
        connection.execute(
            delete(ApiRequest).where(
                ApiRequest.key_id == key_id, or_(ApiRequest.id.in_(oldest), is_same)
            )
        )
        request_id = connection.scalar(
            insert_or_update(connection, ApiRequest)
            .values(
                key_id=key_id,
                idempotency_key=repeatable.key,
                content_hash=repeatable.content_hash,
                requested_at=now,
            )
            .on_conflict_do_nothing()
            .returning(ApiRequest.id)
        )
        if request_id is None:
            raise AlreadyAnswered
    shared = {"key_id": key_id, "request_id": request_id, "issued_at": now}
    rows = [{**shared, "rep": new.rep, "ibip": new.ibip} for new in minted]
    if rows:
        connection.execute(insert(IssuedIdentifier), rows)
