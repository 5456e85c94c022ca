"""Stores links, which are URLs outside the Archive that items use, and results of checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import sha256
from threading import Lock
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, or_, select, update

from flask_ibi_archive.archive.items.tables import File, Item, Link
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import UTCDateTime, insert_or_update, read_pages

#: The largest number of rows that one statement reads or deletes.
BATCH = 500
#: The largest number of characters of a host that are stored. A valid host has at most 253
#: characters.
MAX_HOST = 255
#: Items with these states do not show links to readers.
WITHOUT_LINKS = (State.DELETED.value, ELSEWHERE)


@dataclass(frozen=True, slots=True)
class LinkUse:
    """An item that uses a link, either for a file or for a relation.

    :param ibi: the identifier of the item.
    :param path: the path of the file that is at the URL; None if the URL belongs to a relation.
    :param relation: the relation whose URL is the link, such as ``.metadata(oai_dc)``; None if the
        URL belongs to a file.
    """

    ibi: str
    path: str | None = None
    relation: str | None = None


@dataclass(frozen=True, slots=True)
class DueLink:
    """A link that must be checked now.

    :param checked_at: the time of the last check; None if the link was never checked.
    :param digest: the digest of the URL; see :func:`compute_digest`.
    """

    checked_at: datetime | None
    digest: str
    url: str


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A link whose last check failed.

    :param failures: the number of checks that failed since the last successful check.
    :param failing_since: the time of the first of these failed checks.
    :param error: the reason why the last check failed.
    :param noticed_at: the time of the first report of this failure; None: not reported yet.
    """

    digest: str
    url: str
    checked_at: datetime
    failures: int
    failing_since: datetime
    error: str
    noticed_at: datetime | None


def compute_digest(url: str) -> str:
    """Return the SHA-256 of a URL in hexadecimal, which identifies the row of the link."""
    return sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


def read_uses(database: Database, archive_id: int) -> Iterator[tuple[str, LinkUse]]:
    """Yield each URL outside the Archive with an item that uses the URL."""
    ibi = func.coalesce(Item.rep, Item.ibip)
    used = (Item.archive_id == archive_id, Item.state.not_in(WITHOUT_LINKS))
    read = database.read_rows
    files = (
        select(File.item_id, File.path, ibi, File.url)
        .join(Item, Item.id == File.item_id)
        .where(*used, File.url.is_not(None))
    )
    # the condition on Item.id is not necessary, but the database may need less time with it
    for _, path, item, url in read_pages(read, files, File.item_id, File.path, start=Item.id):
        yield url, LinkUse(item, path=path)
    metadata = select(Item.id, ibi, Item.metadata_url, Item.metadata_formats, Item.formats).where(
        *used, or_(Item.metadata_url.is_not(None), Item.formats.is_not(None))
    )
    for _, item, url, formats, own_formats in read_pages(read, metadata, Item.id):
        if url is not None:
            yield url, LinkUse(item, relation=".metadata")
        for name, format_url in {**(formats or {}), **(own_formats or {})}.items():
            yield format_url, LinkUse(item, relation=f".metadata({name})")


class LinkRows:
    """The rows of one Archive in the table ``ibi_link``.

    Several threads may use the same object.

    :param host: the object contains only links to this host; None: links to all hosts.
    """

    def __init__(self, database: Database, archive_id: int, host: str | None = None) -> None:
        self.database = database
        self.archive_id = archive_id
        self._scope = [Link.archive_id == archive_id]
        if host is not None:
            self._scope.append(Link.host == host)
        # an SQLite database in memory has only one connection for all threads
        self._lock = Lock()

    def store_links(self, links: Iterable[tuple[str, str]], now: datetime) -> None:
        """Store links that items use now.

        :param links: pairs; each pair contains a URL and the host of the URL.
        :param now: the current time. A link that is already stored also gets this time.
        """
        rows = [
            {
                "archive_id": self.archive_id,
                "digest": compute_digest(url),
                "url": url,
                "host": host[:MAX_HOST],
                "found_at": now,
            }
            for url, host in links
        ]
        if not rows:
            return
        # the rows are sorted, because two runs with different orders could cause a deadlock
        rows.sort(key=lambda row: str(row["digest"]))
        with self._lock, self.database.writing() as connection:
            statement = insert_or_update(connection, Link)
            found_at = statement.excluded.found_at
            statement = statement.on_conflict_do_update(
                index_elements=[Link.archive_id, Link.digest],
                set_={"found_at": found_at},
                where=Link.found_at < found_at,
            )
            connection.execute(statement, rows)

    def delete_unused(self, now: datetime) -> None:
        """Delete the links that no item uses.

        :param now: a link is deleted if :meth:`store_links` last stored the link before this time.
        """
        unused = select(Link.digest).where(*self._scope, Link.found_at < now).limit(BATCH)
        while digests := [digest for (digest,) in self._read(unused)]:
            with self._lock, self.database.writing() as connection:
                connection.execute(delete(Link).where(*self._rows(digests), Link.found_at < now))

    def count_due(self, before: datetime) -> int:
        """Return the number of due links.

        A link is due if it was never checked, or if the last check was before the time ``before``.
        """
        [(count,)] = self._read(select(func.count()).where(*self._scope, _is_due(before)))
        return int(count)

    def read_due_hosts(self, before: datetime) -> Iterator[str]:
        """Yield each host that has due links (see :meth:`count_due`) once."""
        hosts = select(func.min(Link.host)).where(*self._scope, _is_due(before))
        [(host,)] = self._read(hosts)
        while host is not None:
            yield host
            [(host,)] = self._read(hosts.where(Link.host > host))

    def read_due_links(self, host: str, before: datetime) -> Iterator[DueLink]:
        """Yield the due links (see :meth:`count_due`) to a host.

        The links that were never checked come first. The other links are sorted by the time of the
        last check.
        """
        links = select(Link.checked_at, Link.digest, Link.url).where(
            Link.archive_id == self.archive_id, Link.host == host
        )
        new = links.where(Link.checked_at.is_(None))
        # two statements are needed, because comparisons with NULL are never true
        for row in read_pages(self._read, new, Link.digest):
            yield DueLink(*row)
        old = links.where(Link.checked_at < before)
        for row in read_pages(self._read, old, Link.checked_at, Link.digest):
            yield DueLink(*row)

    def store_check(self, link: DueLink, now: datetime, error: str | None) -> None:
        """Store the result of a check of a link.

        Nothing is stored if another run has checked the link in the meantime.

        :param error: the reason why the check failed; None if the check succeeded.
        """
        result: dict[str, Any] = {"checked_at": now, "error": error}
        if error is None:
            result |= {"failures": 0, "failing_since": None, "noticed_at": None}
        else:
            failing_since = func.coalesce(Link.failing_since, bindparam("now", now, UTCDateTime))
            result |= {"failures": Link.failures + 1, "failing_since": failing_since}
        unchanged = Link.checked_at.is_not_distinct_from(link.checked_at)
        with self._lock, self.database.writing() as connection:
            connection.execute(
                update(Link).where(*self._rows([link.digest]), unchanged).values(**result)
            )

    def read_broken(self, failures: int) -> Iterator[BrokenLink]:
        """Yield the links whose last ``failures`` checks all failed."""
        columns = [getattr(Link, field.name) for field in fields(BrokenLink)]
        statement = select(*columns).where(*self._scope, Link.failures >= max(failures, 1))
        for row in read_pages(self._read, statement, Link.digest):
            yield BrokenLink(*row)

    def store_report_time(self, digests: Sequence[str], now: datetime) -> None:
        """Store the time when broken links were reported.

        If a link was reported earlier, the time of the earlier report does not change.
        """
        with self._lock, self.database.writing() as connection:
            connection.execute(
                update(Link)
                .where(*self._rows(digests), Link.failures > 0, Link.noticed_at.is_(None))
                .values(noticed_at=now)
            )

    def _rows(self, digests: Sequence[str]) -> list[ColumnElement[bool]]:
        return [Link.archive_id == self.archive_id, Link.digest.in_(digests)]

    def _read(self, statement: Any) -> Sequence[Any]:
        with self._lock:
            return self.database.read_rows(statement)


def _is_due(before: datetime) -> ColumnElement[bool]:
    return or_(Link.checked_at.is_(None), Link.checked_at < before)
