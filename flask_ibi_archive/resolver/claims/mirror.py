"""A mirror: takes over the list of Archives of another resolver, the *first* (federation RS-1).

The mirror follows the claims of these Archives itself: the same list and the same claims lead to
the same answers. It accepts a list only if the pinned key of the first has signed it, and if it is
not older than the list before. Archives that registered with the mirror itself are not changed.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert, select, update

from flask_ibi_archive.core.claims.archive_list import (
    MAX_LIST,
    ArchiveList,
    ListedArchive,
    open_list,
)
from flask_ibi_archive.core.claims.checkpoint import get_service_rep
from flask_ibi_archive.core.claims.keys import VerifierKey, parse_key
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.errors import (
    ClaimError,
    LogOfAnotherArchive,
    MirrorError,
    StorageError,
    TransportError,
)
from flask_ibi_archive.resolver.claims.pinning import pin_key
from flask_ibi_archive.resolver.claims.resolver_key import read_key
from flask_ibi_archive.resolver.claims.tables import (
    FollowedLog,
    Mirrored,
    PinnedKey,
)
from flask_ibi_archive.resolver.claims.versions import bump_version
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.dialects import insert_or_update, is_one_of
from flask_ibi_archive.server.http.transport import request

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.config import ResolverConfig
    from flask_ibi_archive.resolver.service import ResolverService

LIST_PATH, KEY_PATH = "/ibi/archives", "/ibi/claims/witness/key"
#: In place of the hash of a registration key. It is the hash of no key.
MIRRORED = "mirrored"
#: The timeout in seconds for a list, and for the key of the first resolver.
TIMEOUT = 30.0
MAX_KEY = 1000

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class First:
    """The first resolver, as the table stores it."""

    url: str
    key: VerifierKey
    list_time: datetime | None
    etag: str | None
    checked_at: datetime | None


@dataclass(frozen=True, slots=True)
class Takeover:
    """The result of taking over a list.

    :param archives: the number of listed Archives.
    :param changed: the number of Archives that were included, changed or excluded.
    """

    archives: int
    changed: int


def find_first(connection: Connection) -> First | None:
    """Return the first resolver; None if this resolver is no mirror."""
    row = connection.execute(
        select(Mirrored.url, Mirrored.key, Mirrored.list_time, Mirrored.etag, Mirrored.checked_at)
    ).one_or_none()
    return None if row is None else First(row.url, parse_key(row.key), *row[2:])


def fetch_key(url: str, config: ResolverConfig) -> VerifierKey:
    """Return the key that a resolver publishes.

    :param url: the URL of the resolver, without a slash at its end.
    :raises MirrorError: if the resolver does not answer, or has no key.
    """
    text, _ = _fetch(f"{url}{KEY_PATH}", config, MAX_KEY)
    try:
        return parse_key((text or "").removesuffix("\n"))
    except ClaimError as error:
        raise MirrorError(f"{url}{KEY_PATH}: {error}") from error


def start_mirror(service: ResolverService, url: str, key: VerifierKey) -> Takeover:
    """Take over the list of a resolver, and remember the resolver.

    :param url: the URL of the first resolver, without a slash at its end.
    :param key: its key.
    :raises MirrorError: if the list cannot be taken over, or if it is that of this resolver itself.
    :raises NotReady: if the database does not answer.
    :raises StorageError: if the file with the key of this resolver can't be read.
    """
    own = read_key(service.config)
    if own is not None and own.verifier == key:
        raise MirrorError(f"{url} is this resolver itself; name the resolver that has the Archives")
    takeover = _take_over(service, First(url, key, None, None, None), is_start=True)
    assert takeover is not None  # without an ETag, a list is sent
    return takeover


def stop_mirror(service: ResolverService) -> None:
    """Take over no more lists. The Archives that were taken over remain included."""
    with service.database.writing() as connection:
        connection.execute(delete(Mirrored))


def refresh_mirror(service: ResolverService) -> Takeover | None:
    """Take over the list of the first resolver again. Errors are logged.

    :returns: None if this resolver is no mirror, if the list has not changed, or if it cannot be
        taken over. Then the Archives remain as they are.
    """
    try:
        first = service.database.read(find_first)
        return None if first is None else _take_over(service, first)
    except (MirrorError, StorageError) as error:
        _logger.warning("the list of Archives can't be taken over: %s", error)
        return None


def _take_over(service: ResolverService, first: First, is_start: bool = False) -> Takeover | None:
    """Take over a list if it has changed.

    :param is_start: whether to store the first resolver, too.
    """
    url = f"{first.url}{LIST_PATH}"
    text, etag = _fetch(url, service.config, MAX_LIST, first.etag)
    now = datetime.now(timezone.utc)
    if text is None:
        with service.database.writing() as connection:
            connection.execute(update(Mirrored).values(checked_at=now))
        return None
    try:
        listed = open_list(text, first.key)
    except ClaimError as error:
        raise MirrorError(f"{url}: {error}") from error
    with service.database.writing() as connection:
        connection.execute(select(Mirrored.id).with_for_update())
        earlier = find_first(connection)
        if earlier is not None and (earlier.url, earlier.key) != (first.url, first.key):
            earlier = None
        if earlier is None and not is_start:
            return None  # meanwhile, the mirror was stopped, or has another first resolver
        before = None if earlier is None else earlier.list_time
        if before is not None and listed.time < before:
            raise MirrorError(
                f"{url}: the list of {format_timestamp(listed.time)} is older than that of "
                f"{format_timestamp(before)}, which was taken over before"
            )
        values = {
            "url": first.url,
            "key": first.key.format(),
            "list_time": listed.time,
            "etag": etag,
            "checked_at": now,
        }
        statement = insert_or_update(connection, Mirrored).values(id=1, **values)
        connection.execute(
            statement.on_conflict_do_update(index_elements=[Mirrored.id], set_=values)
        )
        changed = store_list(connection, listed, now)
        if changed:
            bump_version(connection, changed)
    return Takeover(len(listed.archives), len(changed))


def _fetch(
    url: str, config: ResolverConfig, limit: int, etag: str | None = None
) -> tuple[str | None, str | None]:
    """Return the text at a URL and its ETag. The text is None if the ETag is still the same."""
    headers = {} if etag is None else {"If-None-Match": etag}
    try:
        response = request(
            url, headers=headers, seconds=TIMEOUT, limit=limit, inner_hosts=config.inner_hosts
        )
    except TransportError as error:
        raise MirrorError(str(error)) from error
    if response.status == 304 and etag is not None:
        return None, etag
    if response.status != 200 or not response.complete:
        raise MirrorError(f"{url} answers with status {response.status}, not with a list or key")
    try:
        return response.body.decode(), response.headers.get("etag")
    except UnicodeDecodeError as error:
        raise MirrorError(f"{url} answers with a text that is not UTF-8") from error


# --- the table of Archives -----------------------------------------------------------------------


def store_list(connection: Connection, listed: ArchiveList, now: datetime) -> set[int]:
    """Store the Archives of a list, and return the ids of those that have changed.

    An Archive that is no longer listed is excluded, unless it registered with this resolver.
    """
    table = RegisteredArchive
    rows = connection.execute(select(table).order_by(table.id).with_for_update(key_share=True))
    known = {row.service_ibi: row for row in rows}
    mirrored = [
        archive
        for archive in listed.archives
        if archive.service_ibi not in known or known[archive.service_ibi].key_hash == MIRRORED
    ]
    # statements with many rows, because a transaction must not last for minutes
    new = [
        {**_make_values(archive), "key_hash": MIRRORED, "registered_at": now}
        for archive in mirrored
        if archive.service_ibi not in known
    ]
    changed: set[int] = set()
    if new:
        changed.update(connection.scalars(insert(table).returning(table.id), new))
    for archive in mirrored:
        row = known.get(archive.service_ibi)
        values = _make_values(archive)
        if row and any(row._mapping[name] != value for name, value in values.items()):
            connection.execute(update(table).where(table.id == row.id).values(values))
            changed.add(row.id)
    services = {archive.service_ibi for archive in mirrored}
    gone = [
        row.id
        for row in known.values()
        if row.key_hash == MIRRORED
        and row.included_at is not None
        and row.service_ibi not in services
    ]
    if gone:
        values = {"included_at": None, "confirmed_at": None, "excluded_at": now}
        is_gone = is_one_of(connection, table.id, gone)
        connection.execute(update(table).where(is_gone).values(values))
    return changed | set(gone) | _store_keys(connection, mirrored)


def _make_values(archive: ListedArchive) -> dict[str, object]:
    return {
        "service_ibi": archive.service_ibi,
        "address": archive.address,
        "ip": archive.ip,
        "platform_version": archive.platform_version,
        "admin_email": "",  # it is not public, and the first resolver writes to it
        "included_at": archive.included_at,
        "confirmed_at": archive.confirmed_at,
        "excluded_at": None,
    }


def _store_keys(connection: Connection, archives: Sequence[ListedArchive]) -> set[int]:
    """Store the keys of Archives, and return the ids of those whose keys have changed."""
    table = RegisteredArchive
    ids = {
        row.service_ibi: row.id for row in connection.execute(select(table.service_ibi, table.id))
    }
    stored: dict[int, dict[datetime, str]] = defaultdict(dict)
    pinned = select(PinnedKey.archive_id, PinnedKey.pinned_at, PinnedKey.key)
    for archive_id, pinned_at, key in connection.execute(pinned):
        stored[archive_id][pinned_at] = key
    logs = {
        row.archive_id: row
        for row in connection.execute(
            select(FollowedLog.archive_id, FollowedLog.key, FollowedLog.service_rep)
        )
    }
    services = {row.service_rep for row in logs.values()}
    changed, keys, new_logs = set(), [], []
    others: list[tuple[int, VerifierKey, datetime]] = []
    for archive in archives:
        archive_id = ids[archive.service_ibi]
        wanted = {pinned_at: key.format() for pinned_at, key in archive.keys}
        if wanted == stored.get(archive_id, {}):
            continue
        changed.add(archive_id)
        keys += [
            {"archive_id": archive_id, "pinned_at": pinned_at, "key": key}
            for pinned_at, key in wanted.items()
        ]
        if not archive.keys:
            connection.execute(delete(FollowedLog).where(FollowedLog.archive_id == archive_id))
            continue
        pinned_at, present = archive.keys[-1]
        log = logs.get(archive_id)
        service_rep = get_service_rep(present.name)
        if log is None and archive_id not in stored and service_rep not in services:
            services.add(service_rep)
            values = {"archive_id": archive_id, "origin": present.name, "key": present.format()}
            new_logs.append({**values, "pinned_at": pinned_at, "frontier": b""})
        elif log is None or log.key != present.format():
            others.append((archive_id, present, pinned_at))
    if new_logs:
        connection.execute(insert(FollowedLog), new_logs)
    for archive_id, present, pinned_at in others:  # the name of a new log may be theirs
        try:
            pin_key(connection, archive_id, present, pinned_at)
        except LogOfAnotherArchive as error:
            _logger.warning("%s", error)
    # the history is that of the first resolver
    if changed:
        is_changed = is_one_of(connection, PinnedKey.archive_id, sorted(changed))
        connection.execute(delete(PinnedKey).where(is_changed))
    if keys:
        connection.execute(insert(PinnedKey), keys)
    return changed
