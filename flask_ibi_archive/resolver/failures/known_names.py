"""The names that a resolver knows: from claims, and because they were found lately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Connection,
    LargeBinary,
    String,
    bindparam,
    cast,
    null,
    select,
    union_all,
)

from flask_ibi_archive.core.claims.claim import STATE_NUMBERS, name_key
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.claims.index import VERSION, ClaimIndex, Holding
from flask_ibi_archive.resolver.claims.tables import Binding
from flask_ibi_archive.resolver.failures.spelling import find_nearest
from flask_ibi_archive.resolver.tables import Hint

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.service import ResolverService


_DELETED = STATE_NUMBERS[State.DELETED]
_NO_TEXT, _NO_KEY = cast(null(), String), cast(null(), LargeBinary)
_NO_NUMBER = cast(null(), BigInteger)
#: One statement, because a reader waits for it.
_KNOWN = union_all(
    select(VERSION, _NO_TEXT, _NO_KEY, _NO_NUMBER, _NO_NUMBER),
    select(_NO_NUMBER, Hint.ibi, _NO_KEY, _NO_NUMBER, _NO_NUMBER).where(
        Hint.ibi.in_(bindparam("ibis", expanding=True))
    ),
    select(_NO_NUMBER, _NO_TEXT, Binding.key, Binding.archive_id, Binding.state).where(
        Binding.key.in_(bindparam("keys", expanding=True))
    ),
)


def find_known(connection: Connection, index: ClaimIndex, ibis: Sequence[str]) -> set[str]:
    """Return those of some identifiers that an Archive claims, or that were found lately.

    The identifiers of items that all their Archives removed are not known.

    :param ibis: identifiers, of this system or of others, in canonical spelling.
    """
    keys = {name_key(ibi): ibi for ibi in ibis}
    rows = connection.execute(_KNOWN, {"ibis": list(ibis), "keys": list(keys)})
    version = None
    recent: dict[bytes, list[Holding]] = {key: [] for key in keys}
    known = set()
    for index_version, ibi, key, archive_id, state in rows:
        if ibi is not None:
            known.add(ibi)
        elif key is not None:
            recent[key].append(Holding(archive_id, state))
        else:
            version = index_version
    for key, ibi in keys.items():
        holdings = index.find_in_files(key, recent[key], version)
        if any(holding.state != _DELETED for holding in holdings):
            known.add(ibi)
    return known


def find_claimants(connection: Connection, index: ClaimIndex, name: str) -> set[int]:
    """Return the ids of the Archives that claim to have the item with a name.

    :param name: an identifier of this system or of others, or a former address.
    """
    key = name_key(name)
    holdings = index.find(connection, [key]).get(key, ())
    return {holding.archive_id for holding in holdings if holding.state != _DELETED}


def suggest_known(service: ResolverService, ibi: str) -> str | None:
    """Return the known identifier that a reader of an unknown one probably meant.

    Only the most likely errors are tried, so that the reader does not wait.

    :param ibi: an identifier, of this system or of others, in canonical spelling.
    """

    def find(ibis: Sequence[str]) -> set[str]:
        return service.database.read(
            lambda connection: find_known(connection, service.claim_index, ibis)
        )

    try:
        return find_nearest(ibi, find, thorough=False)
    except StorageError:  # the alert is right without a suggestion
        return None
