"""Addresses elsewhere that an Archive's items lead to, and what was found when they were looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.models import File, Item, Link
from flask_ibi_archive.storage.states import ELSEWHERE, State

#: Rows that are read or forgotten at a time.
BATCH = 500
#: The states of items whose addresses nobody is led to.
NOT_LED_TO = (State.DELETED.value, ELSEWHERE)


def digest_of(url: str) -> str:
    """Return what an address is known by here."""
    return sha256(url.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True)
class Use:
    """Where an address stands.

    :param ibi: the item.
    :param path: the path of its file that is served there; None where it is that of its metadata.
    :param relation: else the relation that leads there, as ``.metadata`` or ``.metadata(oai_dc)``.
    """

    ibi: str
    path: str | None = None
    relation: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What is known of an address.

    :param failures: looks that failed, one after the other.
    :param failing_since: when the first of them was.
    :param error: what was wrong at the last of them.
    :param noticed_at: when the failure was told first.
    """

    digest: str
    url: str
    checked_at: datetime
    failures: int
    failing_since: datetime | None
    error: str | None
    noticed_at: datetime | None


def read_uses(database: Database, archive_id: int) -> Iterator[tuple[str, Use]]:
    """Return the addresses that an Archive's items lead to, each as often as it stands there."""
    yield from _read_files(database, archive_id)
    yield from _read_metadata(database, archive_id)


def _read_files(database: Database, archive_id: int) -> Iterator[tuple[str, Use]]:
    statement = (
        select(File.item_id, func.coalesce(Item.rep, Item.ibip), File.path, File.url)
        .join(Item, Item.id == File.item_id)
        .where(Item.archive_id == archive_id, Item.state.not_in(NOT_LED_TO), File.url.is_not(None))
        .order_by(File.item_id, File.path)
        .limit(BATCH)
    )
    last: tuple[int, str] = (0, "")
    # the item's own bound lets a database begin there, from whichever table it comes
    while rows := _read(
        database,
        statement.where(Item.id >= last[0], tuple_(File.item_id, File.path) > last),
    ):
        for _, ibi, path, url in rows:
            yield url, Use(ibi, path=path)
        last = (rows[-1][0], rows[-1][2])


def _read_metadata(database: Database, archive_id: int) -> Iterator[tuple[str, Use]]:
    statement = (
        select(
            Item.id,
            func.coalesce(Item.rep, Item.ibip),
            Item.metadata_url,
            Item.metadata_formats,
            Item.formats,
        )
        .where(
            Item.archive_id == archive_id,
            Item.state.not_in(NOT_LED_TO),
            or_(Item.metadata_url.is_not(None), Item.formats.is_not(None)),
        )
        .order_by(Item.id)
        .limit(BATCH)
    )
    last = 0
    while rows := _read(database, statement.where(Item.id > last)):
        for _, ibi, url, formats, own_formats in rows:
            if url is not None:
                yield url, Use(ibi, relation=".metadata")
            for format, where in {**(formats or {}), **(own_formats or {})}.items():
                yield where, Use(ibi, relation=f".metadata({format})")
        last = rows[-1][0]


def _read(database: Database, statement: Any) -> Sequence[Any]:
    return database.read(lambda connection: connection.execute(statement).all())


class LinkNotes:
    """What is known of the addresses of one Archive.

    :param archive_id: the Archive's row.
    """

    def __init__(self, database: Database, archive_id: int) -> None:
        self.database = database
        self.archive_id = archive_id

    def read(self, failures: int = 0) -> Iterator[Note]:
        """Return the notes of addresses that failed so often in a row, or more often."""
        statement = (
            select(
                Link.digest,
                Link.url,
                Link.checked_at,
                Link.failures,
                Link.failing_since,
                Link.error,
                Link.noticed_at,
            )
            .where(Link.archive_id == self.archive_id, Link.failures >= failures)
            .order_by(Link.digest)
            .limit(BATCH)
        )
        last = ""
        while rows := _read(self.database, statement.where(Link.digest > last)):
            for row in rows:
                yield Note(*row)
            last = rows[-1].digest

    def write(
        self, url: str, seen: datetime | None, now: datetime, error: str | None
    ) -> Note | None:
        """Note a look at an address.

        :param seen: when it was looked at before, as far as whoever looked knew; None: never.
        :param now: when it was looked at.
        :param error: what was wrong; None: nothing.
        :returns: the note; None where another one has looked meanwhile, whose note stays.
        """
        try:
            return self._write(url, seen, now, error)
        except IntegrityError:  # both looked for the first time
            return None

    def _write(
        self, url: str, seen: datetime | None, now: datetime, error: str | None
    ) -> Note | None:
        key = (Link.archive_id == self.archive_id, Link.digest == digest_of(url))
        with self.database.writing() as connection:
            row = connection.execute(
                select(Link.checked_at, Link.failures, Link.failing_since, Link.noticed_at)
                .where(*key)
                .with_for_update()
            ).one_or_none()
            if (row.checked_at if row else None) != seen:
                return None
            failed = error is not None
            note: Mapping[str, Any] = {
                "checked_at": now,
                "failures": (row.failures if row else 0) + 1 if failed else 0,
                "failing_since": ((row and row.failing_since) or now) if failed else None,
                "error": error,
                "noticed_at": row.noticed_at if row and failed else None,
            }
            if row is None:
                connection.execute(
                    insert(Link).values(
                        archive_id=self.archive_id, digest=digest_of(url), url=url, **note
                    )
                )
            else:
                connection.execute(update(Link).where(*key).values(**note))
        return Note(digest_of(url), url, **note)

    def notice(self, digests: Sequence[str], now: datetime) -> None:
        """Note that failures were told."""
        with self.database.writing() as connection:
            connection.execute(
                update(Link)
                .where(
                    Link.archive_id == self.archive_id,
                    Link.digest.in_(digests),
                    Link.failures > 0,
                    Link.noticed_at.is_(None),
                )
                .values(noticed_at=now)
            )

    def forget(self, digests: Sequence[str]) -> None:
        """Forget addresses that no item has any longer."""
        with self.database.writing() as connection:
            connection.execute(
                delete(Link).where(Link.archive_id == self.archive_id, Link.digest.in_(digests))
            )
