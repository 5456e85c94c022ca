"""The list of included Archives in memory, and what the resolver knows about identifiers.

Each resolution executes one SELECT, and each further round one more. The SELECT returns the version
of the list of Archives, and everything that depends on the identifiers: claims, Archives with the
same prefix, and the hint. It also returns the rows of all Archives that have changed since the
version that this process knows. Therefore list and claims are always of the same moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from itertools import zip_longest
from typing import Any, TypeAlias

import sqlalchemy as sa

from flask_ibi_archive.core.claims.claim import STATE_NUMBERS, identifier_key
from flask_ibi_archive.core.identifiers import Identifier
from flask_ibi_archive.core.resolution.asking import Claims
from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.resolver.archive_rows import IncludedArchive
from flask_ibi_archive.resolver.claims.index import Holding
from flask_ibi_archive.resolver.claims.tables import CURRENT, SILENT

_logger = logging.getLogger(__name__)

#: The maximum number of Archives with the same prefix that are asked.
MAX_HOLDERS = 4
#: The maximum number of identifiers in a SELECT.
PLACES = 4
STATES = {number: state for state, number in STATE_NUMBERS.items()}

#: The kinds of the rows of the SELECT.
_KINDS = 6
_STATE, _BINDING, _NUMBER, _HOLDER, _HINT, _CHANGED = range(_KINDS)
#: The SELECT has few columns, because the drivers need time for each column. If the version is new,
#: it also reads the number of Archives, which tells of removed ones, and those that have changed.
#: In a CROSS JOIN, SQLite does not read the table of Archives otherwise. PostgreSQL takes the type
#: of a column from the first two parts.
_SELECT = f"""SELECT {_STATE} AS kind, version AS id,
 (SELECT max(id) FROM ibi_resolver_index_run) AS number, NULL AS key,
 CAST(followed_at AS TEXT) AS text
FROM ibi_resolver_state
UNION ALL
SELECT {_BINDING}, archive_id, state, key, NULL FROM ibi_resolver_binding WHERE key IN (%(keys)s)
UNION ALL
SELECT {_NUMBER}, (SELECT count(*) FROM ibi_resolver_archive WHERE included_at IS NOT NULL),
 NULL, NULL, NULL
FROM ibi_resolver_state WHERE version != :version
UNION ALL
SELECT {_HOLDER}, archive_id, NULL, NULL, prefix FROM ibi_resolver_prefix
WHERE prefix IN (%(prefixes)s)
UNION ALL
SELECT {_HINT}, archive_id, NULL, NULL, NULL FROM ibi_resolver_hint WHERE ibi = :hinted
UNION ALL
SELECT {_CHANGED}, archive.id, NULL, NULL, CASE WHEN included_at IS NOT NULL
 THEN service_ibi || ' ' || address || ' ' || ip || ' ' || coalesce(log.state, '') END
FROM ibi_resolver_state AS state CROSS JOIN ibi_resolver_archive AS archive
LEFT JOIN ibi_resolver_log AS log ON log.archive_id = archive.id
WHERE state.version != :version AND archive.changed_in > :version
"""


#: The rows of the SELECT, by their kinds. There is always one row of the first kind.
Rows: TypeAlias = "tuple[list[Any], ...]"
#: Finds claims in the files of the index, as :meth:`.index.ClaimIndex.find_in_files`.
FindInFiles: TypeAlias = Callable[[bytes, Iterable[Any], "int | None"], "Iterable[Holding]"]


@dataclass(frozen=True, slots=True)
class ArchiveList:
    """The included Archives at one moment. The object never changes.

    :param version: the version of the list in the database. -1: nothing was read.
    :param archives: the Archives by their ids, in the order of their ids.
    :ivar always: the Archives whose claims don't count, so that they are always asked.
    :ivar silent: the ids of the Archives whose claims count, but which do not answer.
    """

    version: int = -1
    archives: Mapping[int, IncludedArchive] = field(default_factory=dict)
    always: Mapping[int, IncludedArchive] = field(init=False)
    silent: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        archives = self.archives.items()
        always = {key: one for key, one in archives if one.log_state not in (CURRENT, SILENT)}
        silent = frozenset([key for key, one in archives if one.log_state == SILENT])
        object.__setattr__(self, "always", always)
        object.__setattr__(self, "silent", silent)

    @property
    def has_claims(self) -> bool:
        """Whether the claims of an Archive count."""
        return len(self.always) < len(self.archives)

    def without_claims(self) -> ArchiveList:
        """Return the list for a time in which no claims count, because nobody reads them."""
        archives = {key: one._replace(log_state=None) for key, one in self.archives.items()}
        return ArchiveList(self.version, archives)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the resolver knows before it asks.

    :param archives: the included Archives.
    :param claims: what is known about each identifier.
    :param hinted: the id of the included Archive where the first identifier was last found, or
        None.
    """

    archives: ArchiveList
    claims: Mapping[Identifier, Claims]
    hinted: int | None = None


class ArchiveListReader:
    """Reads the list of Archives and the claims of identifiers. Thread-safe and fork-safe.

    There is no lock. If two threads read a new version, one of them may store the older list; the
    next resolution then reads what has changed since that list.

    :param find_in_files: finds the claims in the files of the index.
    :param max_age: if the follower has not read all logs for this number of seconds, no claims
        count.
    :param now: returns the current time.
    """

    def __init__(
        self,
        find_in_files: FindInFiles,
        max_age: float,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._find_in_files = find_in_files
        self._max_age = timedelta(seconds=max_age)
        self._now = now
        self._list = ArchiveList()
        self._unclaimed = ArchiveList()

    def read(
        self, connection: sa.Connection, identifiers: Sequence[Identifier], hints: bool = False
    ) -> Knowledge:
        """Return what is known about some identifiers. The method executes one SELECT.

        After Archives were removed, it executes two.

        :param identifiers: at most :data:`PLACES` identifiers.
        If the claims can't be read, the list says that all Archives are always asked.

        :param hints: whether to read the hint for the first identifier.
        """
        keys = [identifier_key(ibi.text) for ibi in identifiers]
        aliases: Sequence[str] = [ibi.prefix for ibi in identifiers]
        hinted = identifiers[0].text if hints else None
        archives, rows = self._read(connection, keys, aliases, hinted)
        try:
            states = self._read_claims(archives, keys, rows)
        except NotReady as error:
            _logger.error("all Archives are asked: %s", error)
            archives, states = self._ignore_claims(archives), {key: {} for key in keys}
        holders: dict[str, list[int]] = {}
        for row in rows[_HOLDER]:
            if row[1] in archives.archives:
                holders.setdefault(row[4], []).append(row[1])
        hint = next((row[1] for row in rows[_HINT] if row[1] in archives.archives), None)
        claims = {
            ibi: Claims(states[key], holders.get(prefix, ())[:MAX_HOLDERS])
            for ibi, key, prefix in zip(identifiers, keys, aliases, strict=True)
        }
        return Knowledge(archives, claims, hint)

    def find_claimants(
        self, connection: sa.Connection, keys: Sequence[bytes]
    ) -> tuple[ArchiveList, dict[bytes, Claims]]:
        """Return the included Archives, and who claims names, by the keys of the names.

        :param keys: any number of keys. There is one SELECT for :data:`PLACES` keys.
        :raises NotReady: if the claims can't be read.
        """
        found: dict[bytes, Claims] = {}
        archives = self._list
        for start in range(0, len(keys), PLACES):
            part = keys[start : start + PLACES]
            archives, rows = self._read(connection, part, (), None)
            states = self._read_claims(archives, part, rows)
            found |= {key: Claims(state) for key, state in states.items()}
        return archives, found

    def _read(
        self,
        connection: sa.Connection,
        keys: Sequence[bytes],
        prefixes: Sequence[str],
        hinted: str | None,
    ) -> tuple[ArchiveList, Rows]:
        known = self._list
        values: dict[str, Any] = {"hinted": hinted}
        for place, (key, prefix) in enumerate(zip_longest(keys, prefixes)):
            values[f"key{place}"], values[f"prefix{place}"] = key, prefix
        statement = _compile(connection.dialect, len(keys))
        while True:
            values["version"] = known.version
            rows: Rows = tuple([] for _ in range(_KINDS))
            for row in connection.exec_driver_sql(statement, values).all():
                rows[row[0]].append(row)
            newer = _update(known, rows)
            if newer is not None:
                break
            known = ArchiveList()
        if newer is not self._list:
            self._list = newer
        followed_at = rows[_STATE][0][4]
        return (newer if self._is_followed(followed_at) else self._ignore_claims(newer)), rows

    def _read_claims(
        self, archives: ArchiveList, keys: Sequence[bytes], rows: Rows
    ) -> dict[bytes, dict[int, Any]]:
        """Return the states that Archives claim, by the keys of the names.

        :raises NotReady: if the index is damaged, or the database does not answer.
        """
        recent: dict[bytes, list[tuple[int, int]]] = {key: [] for key in keys}
        for _, archive_id, number, key, _ in rows[_BINDING]:
            recent[bytes(key)].append((archive_id, number))
        version = rows[_STATE][0][2]
        try:
            return {
                key: {
                    archive_id: STATES[number]
                    for archive_id, number in self._find_in_files(key, found, version)
                    if archive_id in archives.archives
                }
                for key, found in recent.items()
            }
        except (StorageError, KeyError) as error:
            advice = "run: flask ibi-resolver check"
            raise NotReady("the claims can't be read", advice, str(error)) from error

    def _is_followed(self, followed_at: str | None) -> bool:
        """Return whether the follower has read all logs lately.

        :param followed_at: the time in UTC, as the databases write it.
        """
        if followed_at is None:
            return False
        return followed_at[:19] >= str(self._now() - self._max_age)[:19]

    def _ignore_claims(self, archives: ArchiveList) -> ArchiveList:
        """Return the list without valid claims. Usually, it was made by an earlier resolution."""
        if not archives.has_claims:
            return archives
        unclaimed = self._unclaimed
        if unclaimed.version != archives.version:
            unclaimed = self._unclaimed = archives.without_claims()
        return unclaimed


@lru_cache(maxsize=8 * PLACES)
def _compile(dialect: sa.Dialect, places: int) -> str:
    """Return the SELECT as the driver expects it. SQLAlchemy would look it up in a cache longer.

    :param places: the number of identifiers. SQLite finds one much faster than several.
    """
    names = {
        "keys": ", ".join([f":key{place}" for place in range(places)]),
        "prefixes": ", ".join([f":prefix{place}" for place in range(places)]),
    }
    if dialect.positional:  # the driver accepts names too
        kind: Any = type(dialect)
        dialect = kind(paramstyle="named")
    return str(sa.text(_SELECT % names).compile(dialect=dialect))


def _update(known: ArchiveList, rows: Rows) -> ArchiveList | None:
    """Return the list with the changes that the rows contain.

    :returns: None if the whole list must be read again, because Archives were removed, or the
        database is an older one that was restored.
    """
    if not rows[_NUMBER]:  # the version is the known one
        return known
    archives = dict(known.archives)
    for _, archive_id, *_, text in rows[_CHANGED]:
        if text is None:
            archives.pop(archive_id, None)
        else:
            service_ibi, address, ip, state = text.split(" ")
            archives[archive_id] = IncludedArchive(
                archive_id, service_ibi, address, ip, state or None
            )
    version, number = rows[_STATE][0][1], rows[_NUMBER][0][1]
    if known.archives and (version < known.version or len(archives) != number):
        return None
    return ArchiveList(version, dict(sorted(archives.items())))
