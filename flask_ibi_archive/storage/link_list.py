"""The addresses that one run looks at: on the disk, however many there are, and gone when it ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from flask_ibi_archive.storage.link_rows import Use, digest_of

#: Addresses that are read at a time.
BATCH = 100
TABLES = """
CREATE TABLE link (digest TEXT PRIMARY KEY, host TEXT, url TEXT, checked_at TEXT, due INTEGER) WITHOUT ROWID;
CREATE TABLE use (digest TEXT, ibi TEXT, path TEXT, relation TEXT);
"""
INDEXES = """
CREATE INDEX link_due ON link (due, host, checked_at, digest);
CREATE INDEX use_digest ON use (digest);
"""


@dataclass(frozen=True, slots=True)
class Listed:
    """An address to look at.

    :param checked_at: when it was looked at before, in ISO 8601; "" never.
    """

    digest: str
    url: str
    checked_at: str


class LinkList:
    """The addresses of an Archive's items, each once, by their hosts, with the places where they
    stand.

    It lies in a temporary file that has no name and goes when the list is closed. Threads may share
    it.
    """

    def __init__(self) -> None:
        # without a name: SQLite's own temporary database
        self._connection = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._lock = Lock()
        self._connection.executescript(f"PRAGMA synchronous = OFF; {TABLES} BEGIN;")

    def close(self) -> None:
        """Throw it away."""
        self._connection.close()

    def add(self, url: str, host: str, use: Use) -> None:
        """Take a place where an address stands."""
        digest = digest_of(url)
        with self._lock:
            self._connection.execute(
                "INSERT OR IGNORE INTO link VALUES (?, ?, ?, '', 1)", (digest, host, url)
            )
            self._connection.execute(
                "INSERT INTO use VALUES (?, ?, ?, ?)", (digest, use.ibi, use.path, use.relation)
            )

    def complete(self) -> None:
        """Get ready to be read: everything was added."""
        with self._lock:
            self._connection.execute("COMMIT")
            self._connection.executescript(INDEXES)

    def set_checked(self, digest: str, checked_at: str, *, due: bool) -> bool:
        """Note when an address was looked at before and whether it is to be looked at again.

        :returns: whether it is here.
        """
        with self._lock:
            cursor = self._connection.execute(
                "UPDATE link SET checked_at = ?, due = ? WHERE digest = ?",
                (checked_at, due, digest),
            )
            return cursor.rowcount == 1

    def keep_host(self, host: str) -> None:
        """Leave only the addresses of one host to be looked at."""
        with self._lock:
            self._connection.execute("UPDATE link SET due = 0 WHERE host <> ?", (host,))

    def host_of(self, digest: str) -> str | None:
        """Return the host of an address; None: it is not here."""
        row = self._one("SELECT host FROM link WHERE digest = ?", digest)
        return None if row is None else str(row[0])

    def count_due(self) -> int:
        """Return how many addresses are to be looked at."""
        row = self._one("SELECT count(*) FROM link WHERE due")
        return 0 if row is None else int(row[0])

    def hosts(self) -> Iterator[str]:
        """Return the hosts that have addresses to be looked at."""
        last = ""
        while row := self._one(
            "SELECT host FROM link WHERE due = 1 AND host > ? ORDER BY host LIMIT 1", last
        ):
            last = row[0]
            yield last

    def due(self, host: str) -> Iterator[Listed]:
        """Return the addresses of a host that are to be looked at: those first that wait longest."""
        checked_at, digest = "", ""
        while rows := self._all(
            "SELECT digest, url, checked_at FROM link WHERE due = 1 AND host = ?"
            " AND (checked_at, digest) > (?, ?) ORDER BY checked_at, digest LIMIT ?",
            host,
            checked_at,
            digest,
            BATCH,
        ):
            for row in rows:
                yield Listed(*row)
            digest, _, checked_at = rows[-1]

    def uses(self, digest: str, limit: int) -> tuple[int, tuple[Use, ...]]:
        """Return in how many places an address stands, and the first of them."""
        row = self._one("SELECT count(*) FROM use WHERE digest = ?", digest)
        rows = self._all(
            "SELECT ibi, path, relation FROM use WHERE digest = ? ORDER BY rowid LIMIT ?",
            digest,
            limit,
        )
        return (0 if row is None else int(row[0])), tuple(Use(*use) for use in rows)

    def _one(self, statement: str, *values: object) -> tuple[str, ...] | None:
        with self._lock:
            row: tuple[str, ...] | None = self._connection.execute(statement, values).fetchone()
            return row

    def _all(self, statement: str, *values: object) -> list[tuple[str, str, str]]:
        with self._lock:
            return self._connection.execute(statement, values).fetchall()
