"""The failures of a month: what failed, what was probably meant, and which Archives it concerns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy import Connection, func, select

from flask_ibi_archive.core.identifiers import Identifier, decode_identifier, parse_identifier
from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.protocol.hosts import extract_host
from flask_ibi_archive.core.resolution.outcome import AlertKind
from flask_ibi_archive.errors import IdentifierError
from flask_ibi_archive.resolver.archive_rows import IncludedArchive, list_included
from flask_ibi_archive.resolver.claims.index import ClaimIndex
from flask_ibi_archive.resolver.claims.tables import FailedUrl, PrefixHolder
from flask_ibi_archive.resolver.failures.known_names import find_claimants, find_known
from flask_ibi_archive.resolver.failures.spelling import find_nearest
from flask_ibi_archive.server.database.database import Database

#: The failures for which a typing error is a likely reason.
_MISSPELT = (AlertKind.UNKNOWN, AlertKind.MALFORMED)
#: The maximum number of identifiers of a month that are compared with known ones.
MAX_COMPARED = 1000


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed in a month.

    :param ibi: the identifier in canonical spelling, or the text in its place; "" for all those
        that were too many to be counted one by one.
    :param reason: the kind of the alert, such as "unknown".
    :param count: how often it failed.
    :param nearest: the known identifier that is nearest. None if there is none.
    :param archive_ids: the included Archives that minted the identifier, or the nearest one. If
        this is a foreign identifier or a former address, those that claim it.
    """

    ibi: str
    reason: str
    count: int
    nearest: str | None
    archive_ids: frozenset[int]


def find_month(day: date) -> str:
    """Return the month of a day, such as ``2026-11``."""
    return f"{day:%Y-%m}"


def find_last_month(day: date) -> str:
    """Return the month before that of a day."""
    return find_month(day.replace(day=1) - timedelta(days=1))


def list_failures(
    database: Database, index: ClaimIndex, month: str, service_ibi: str | None = None
) -> list[Failure]:
    """Return the failures of a month: the most frequent first.

    :param index: the index of the claims of Archives.
    :param month: such as ``2026-11``.
    :param service_ibi: returns only the failures of the Archive with this service, in canonical
        case.
    :raises NotReady: if the database does not answer.
    """
    first = date.fromisoformat(f"{month}-01")
    with database.reading() as connection:
        count = func.sum(FailedUrl.count)
        rows = connection.execute(
            select(FailedUrl.ibi, FailedUrl.reason, count)
            .where(FailedUrl.day >= first, FailedUrl.day < _find_next_month(first))
            .group_by(FailedUrl.ibi, FailedUrl.reason)
            .order_by(count.desc(), FailedUrl.ibi, FailedUrl.reason)
        ).all()
        archives, _ = list_included(connection, None)
        included = {archive.id for archive in archives}
        minters = Minters(connection, archives)
        failures = []
        compared = 0
        for ibi, reason, total in rows:
            nearest = None
            ids: frozenset[int] = frozenset()
            if ibi and reason in _MISSPELT and compared < MAX_COMPARED:
                compared += 1
                nearest = find_nearest(ibi, lambda ibis: find_known(connection, index, ibis))
            for name in filter(None, (ibi, nearest)):
                minted = match_identifier(name)
                if minted is not None:
                    ids |= minters.find(minted)
                elif name == nearest:
                    ids |= included & find_claimants(connection, index, name)
            failures.append(Failure(ibi, reason, int(total), nearest, ids))
    if service_ibi is None:
        return failures
    wanted = {archive.id for archive in archives if archive.service_ibi == service_ibi}
    return [failure for failure in failures if failure.archive_ids & wanted]


def _find_next_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1)


class Minters:
    """Finds the included Archives that minted an identifier, by its place of minting.

    An Archive minted it if the identifier contains its address, or if the Archive claims or lately
    gave the Original of another item with the same prefix.
    """

    def __init__(self, connection: Connection, archives: Iterable[IncludedArchive]) -> None:
        self._known: dict[str, frozenset[int]] = {}
        self._holders: dict[str, set[int]] = defaultdict(set)
        # most identifiers name none of the places, so that no Archive need be looked at
        self._by_place: dict[str | None, list[IncludedArchive]] = defaultdict(list)
        ids = set()
        for archive in archives:
            ids.add(archive.id)
            service = _find_place(parse_identifier(archive.service_ibi))
            for place in {extract_host(archive.address).lower(), archive.ip, service}:
                self._by_place[place].append(archive)
        for prefix, archive_id in connection.execute(
            select(PrefixHolder.prefix, PrefixHolder.archive_id)
        ):
            if archive_id in ids:
                self._holders[prefix].add(archive_id)

    def find(self, ibi: Identifier) -> frozenset[int]:
        """Return the ids of the Archives that minted an identifier."""
        found = self._known.get(ibi.prefix)
        if found is None:
            nearby = self._by_place.get(_find_place(ibi), ())
            minters = {archive.id for archive in nearby if archive.may_mint(ibi)}
            found = frozenset(minters | self._holders.get(ibi.prefix, set()))
            self._known[ibi.prefix] = found
        return found


def _find_place(ibi: Identifier) -> str | None:
    """Return the host or the IP address that an identifier contains; None if it has none."""
    try:
        decoded = decode_identifier(ibi)
    except IdentifierError:
        return None
    return decoded.host or decoded.ip
