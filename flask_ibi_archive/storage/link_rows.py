"""Links: the URLs outside the Archive that items use, and the results of the last checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import sha256
from threading import Lock
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, or_, select, tuple_, update

from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.dialects import UTCDateTime, insert_or_update
from flask_ibi_archive.storage.models import File, Item, Link
from flask_ibi_archive.storage.states import ELSEWHERE, State

#: The number of rows of one statement.
BATCH = 500
#: The number of characters of a host that are stored; a valid host has at most 253.
MAX_HOST = 255
#: The states of items whose links are not shown to readers.
WITHOUT_LINKS = (State.DELETED.value, ELSEWHERE)


@dataclass(frozen=True, slots=True)
class LinkUse:
    """A use of a link by an item, either for a file or for a relation.

    :param ibi: the identifier of the item.
    :param path: the path of the file at the URL, or None.
    :param relation: the relation that leads to the URL, such as ``.metadata(oai_dc)``, or None.
    """

    ibi: str
    path: str | None = None
    relation: str | None = None


@dataclass(frozen=True, slots=True)
class DueLink:
    """A link to check.

    :param checked_at: the time of the last check; None: the link was never checked.
    """

    checked_at: datetime | None
    digest: str
    url: str


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A link whose last checks failed.

    :param failures: the number of consecutive failed checks.
    :param failing_since: the time of the first of these checks.
    :param error: the reason why the last check failed.
    :param noticed_at: the time of the first report of the link; None: it was not reported yet.
    """

    digest: str
    url: str
    checked_at: datetime
    failures: int
    failing_since: datetime
    error: str
    noticed_at: datetime | None


def digest_of(url: str) -> str:
    """Return the SHA-256 of a URL in hexadecimal; it identifies the row of a link."""
    return sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


def read_uses(database: Database, archive_id: int) -> Iterator[tuple[str, LinkUse]]:
    """Yield each use of a URL outside the Archive by one of its items."""
    ibi = func.coalesce(Item.rep, Item.ibip)
    used = (Item.archive_id == archive_id, Item.state.not_in(WITHOUT_LINKS))

    def read(statement: Any) -> Sequence[Any]:
        return database.read(lambda connection: connection.execute(statement).all())

    files = (
        select(File.item_id, File.path, ibi, File.url)
        .join(Item, Item.id == File.item_id)
        .where(*used, File.url.is_not(None))
    )
    # a condition on Item.id helps the database if it reads the table of items first
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
    """The rows of ``ibi_link`` of one Archive; several threads may share an object.

    :param archive_id: the id of the Archive.
    :param host: only the links to this host are used; None: all links.
    """

    def __init__(self, database: Database, archive_id: int, host: str | None = None) -> None:
        self.database = database
        self.archive_id = archive_id
        self._scope = [Link.archive_id == archive_id]
        if host is not None:
            self._scope.append(Link.host == host)
        # an SQLite database in memory has only one connection for all threads
        self._lock = Lock()

    def store_found(self, links: Iterable[tuple[str, str]], now: datetime) -> None:
        """Store that items use some links.

        :param links: pairs of the URL and the host.
        """
        rows = [
            {
                "archive_id": self.archive_id,
                "digest": digest_of(url),
                "url": url,
                "host": host[:MAX_HOST],
                "found_at": now,
            }
            for url, host in links
        ]
        if not rows:
            return
        # sorted, because two runs at the same time with different orders could cause a deadlock
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
        """Delete the links that were last found before a time."""
        unused = select(Link.digest).where(*self._scope, Link.found_at < now).limit(BATCH)
        while digests := [digest for (digest,) in self._read(unused)]:
            with self._lock, self.database.writing() as connection:
                connection.execute(delete(Link).where(*self._rows(digests), Link.found_at < now))

    def count_due(self, before: datetime) -> int:
        """Return the number of due links: last checked before a time, or never."""
        [(count,)] = self._read(select(func.count()).where(*self._scope, _is_due(before)))
        return int(count)

    def due_hosts(self, before: datetime) -> Iterator[str]:
        """Yield each host of due links once: last checked before a time, or never."""
        hosts = select(func.min(Link.host)).where(*self._scope, _is_due(before))
        [(host,)] = self._read(hosts)
        while host is not None:
            yield host
            [(host,)] = self._read(hosts.where(Link.host > host))

    def due_links(self, host: str, before: datetime) -> Iterator[DueLink]:
        """Yield the due links to a host: first those never checked, then the oldest checks."""
        links = select(Link.checked_at, Link.digest, Link.url).where(
            Link.archive_id == self.archive_id, Link.host == host
        )
        new = links.where(Link.checked_at.is_(None))
        # two statements, because no comparison with NULL is true
        for row in read_pages(self._read, new, Link.digest):
            yield DueLink(*row)
        old = links.where(Link.checked_at < before)
        for row in read_pages(self._read, old, Link.checked_at, Link.digest):
            yield DueLink(*row)

    def store_check(self, link: DueLink, now: datetime, error: str | None) -> None:
        """Store the result of a check, unless another run has checked the link in the meantime.

        :param error: why the check failed; None: the check succeeded.
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

    def broken(self, failures: int) -> Iterator[BrokenLink]:
        """Yield the links with at least a certain number of consecutive failed checks."""
        columns = [getattr(Link, field.name) for field in fields(BrokenLink)]
        statement = select(*columns).where(*self._scope, Link.failures >= max(failures, 1))
        for row in read_pages(self._read, statement, Link.digest):
            yield BrokenLink(*row)

    def store_noticed(self, digests: Sequence[str], now: datetime) -> None:
        """Store that broken links were reported now, unless an earlier report is stored."""
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
            return self.database.read(lambda connection: connection.execute(statement).all())


def _is_due(before: datetime) -> ColumnElement[bool]:
    return or_(Link.checked_at.is_(None), Link.checked_at < before)


def read_pages(
    read: Callable[[Any], Sequence[Any]], statement: Any, *key: Any, start: Any = None
) -> Iterator[Any]:
    """Yield the rows of a statement in the order of a key, and read them in pages.

    :param read: executes a statement and returns its rows.
    :param key: the columns that identify a row; the statement selects them.
    :param start: a column that is equal to the first column of the key, for an extra condition.
    """
    page = statement.order_by(*key).limit(BATCH)
    while rows := read(page):
        yield from rows
        last = tuple(getattr(rows[-1], column.key) for column in key)
        page = statement.where(tuple_(*key) > last).order_by(*key).limit(BATCH)
        if start is not None:
            page = page.where(start >= last[0])
