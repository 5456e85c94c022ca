"""What is written down of the Archives that are registered with a resolver.

Of two requests of one Archive the one that came later counts, however long an earlier one takes:
each gets a number when it comes, and is written down only where none with a higher number was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive
from flask_ibi_archive.storage.types import UTCDateTime


@dataclass(frozen=True, slots=True)
class RegisteredKey:
    """What is kept of the key of an Archive."""

    id: int
    key_hash: str


@dataclass(frozen=True, slots=True)
class RegisteredRecord:
    """An Archive that is registered; the columns are those of the table."""

    id: int
    service_ibi: str
    email: str | None
    registered_at: datetime
    address: str | None
    ip: str | None
    platform_version: str | None
    admin_email: str | None
    included_at: datetime | None
    confirmed_at: datetime | None
    excluded_at: datetime | None
    answers: int
    failures: int
    milliseconds: int
    last_answer_at: datetime | None
    last_failure: str | None
    last_failure_at: datetime | None


_COLUMNS = tuple(getattr(RegisteredArchive, field.name) for field in fields(RegisteredRecord))


def find_key(connection: Connection, service_ibi: str) -> RegisteredKey | None:
    """Return what is kept of the key of an Archive, None where it is not registered."""
    row = connection.execute(
        select(RegisteredArchive.id, RegisteredArchive.key_hash).where(
            RegisteredArchive.service_ibi == service_ibi
        )
    ).one_or_none()
    return None if row is None else RegisteredKey(*row)


def find_registered(connection: Connection, archive_id: int) -> RegisteredRecord | None:
    """Return an Archive, None where it is not registered any more."""
    row = connection.execute(
        select(*_COLUMNS).where(RegisteredArchive.id == archive_id)
    ).one_or_none()
    return None if row is None else RegisteredRecord(*row)


def list_registered(connection: Connection) -> list[RegisteredRecord]:
    """Return the Archives that are registered, in the order they came."""
    rows = connection.execute(select(*_COLUMNS).order_by(RegisteredArchive.id))
    return [RegisteredRecord(*row) for row in rows]


def store_registration(
    connection: Connection, service_ibi: str, key_hash: str, email: str | None, now: datetime
) -> bool:
    """Register an Archive; give whether that was done: not where it is registered already."""
    made = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = made.insert(RegisteredArchive).values(
        service_ibi=service_ibi, key_hash=key_hash, email=email, registered_at=now
    )
    done = connection.execute(statement.on_conflict_do_nothing().returning(RegisteredArchive.id))
    return done.one_or_none() is not None


def replace_key(
    connection: Connection, known: RegisteredKey, key_hash: str, email: str | None
) -> bool:
    """Return an Archive another key, and another receiver where there is one; all else of it stays.

    :returns: whether that was done: not where it is not registered any more, or by another key than
        known.
    """
    values: dict[str, Any] = {"key_hash": key_hash}
    if email is not None:
        values["email"] = email
    return _change(connection, known, **values)


def remove_registration(connection: Connection, service_ibi: str) -> bool:
    """Take an Archive out, with all that is known of it; give whether it was there."""
    statement = delete(RegisteredArchive).where(RegisteredArchive.service_ibi == service_ibi)
    return bool(connection.execute(statement).rowcount)


def begin_request(connection: Connection, known: RegisteredKey) -> int | None:
    """Return the number of a request that comes now, None where its key does not hold any more."""
    number: int | None = connection.execute(
        update(RegisteredArchive)
        .where(RegisteredArchive.id == known.id, RegisteredArchive.key_hash == known.key_hash)
        .values(requests=RegisteredArchive.requests + 1)
        .returning(RegisteredArchive.requests)
    ).scalar_one_or_none()
    return number


def store_inclusion(
    connection: Connection,
    known: RegisteredKey,
    number: int,
    address: str,
    ip: str,
    platform_version: str,
    admin_email: str,
    confirmed: bool,
    now: datetime,
) -> bool:
    """Include an Archive, since it was first where it is already.

    :param number: that of the request.
    :returns: whether that was done: not where a later request was written down, or the key does not
        hold any more.
    Source: [R] 5.2.
    """
    return _change(
        connection,
        known,
        number,
        address=address,
        ip=ip,
        platform_version=platform_version,
        admin_email=admin_email,
        included_at=func.coalesce(RegisteredArchive.included_at, literal(now, UTCDateTime())),
        confirmed_at=now if confirmed else None,
        excluded_at=None,
    )


def store_exclusion(
    connection: Connection, known: RegisteredKey, number: int, now: datetime
) -> bool:
    """Exclude an Archive, since it was first where it is already; it stays registered.

    :returns: as :func:`store_inclusion`.
    Source: [R] 5.2.
    """
    return _change(
        connection,
        known,
        number,
        included_at=None,
        confirmed_at=None,
        excluded_at=func.coalesce(RegisteredArchive.excluded_at, literal(now, UTCDateTime())),
    )


def _change(
    connection: Connection, known: RegisteredKey, number: int | None = None, **values: Any
) -> bool:
    table = RegisteredArchive
    statement = update(table).where(table.id == known.id, table.key_hash == known.key_hash)
    if number is not None:
        statement = statement.where(table.written < number)
        values["written"] = number
    return bool(connection.execute(statement.values(**values)).rowcount)


@dataclass(frozen=True, slots=True)
class IncludedArchive:
    """An Archive that is asked: its number here, the IBI of its service, and its address."""

    id: int
    service_ibi: str
    address: str


_ARCHIVES = (
    select(
        RegisteredArchive.id,
        RegisteredArchive.service_ibi,
        RegisteredArchive.address,
        Hint.archive_id,
    )
    .outerjoin(Hint, and_(Hint.archive_id == RegisteredArchive.id, Hint.ibi == bindparam("ibi")))
    .where(RegisteredArchive.included_at.is_not(None))
    .order_by(RegisteredArchive.id)
)


def read_directory(
    connection: Connection, ibi: str | None
) -> tuple[list[IncludedArchive], int | None]:
    """Return the Archives that are included, confirmed or not, and the one where an IBI was last
    found.

    :param ibi: in canonical case; None: no hint is wanted.
    :returns: the Archives by their numbers, and the number of the one hinted at, which is among
        them; None where there is none.
    Source: [R] 6.2.
    """
    archives, hinted = [], None
    rows: Iterable[Any] = connection.execute(_ARCHIVES, {"ibi": ibi}).all()
    for archive_id, service_ibi, address, hint in rows:
        archives.append(IncludedArchive(archive_id, service_ibi, address))
        if hint is not None:
            hinted = archive_id
    return archives, hinted


#: Characters of a failure that are kept.
LONGEST_FAILURE = 300


@dataclass(frozen=True, slots=True)
class ArchiveCounts:
    """What came of questions to an Archive.

    :param answers: how many it answered.
    :param failures: how many it did not, or not as it should.
    :param milliseconds: how long those answered took in all.
    :param last_failure: what was wrong the last time, to be read behind the Archive's address.
    """

    answers: int = 0
    failures: int = 0
    milliseconds: int = 0
    last_failure: str | None = None


def add_metrics(connection: Connection, counts: Mapping[int, ArchiveCounts], now: datetime) -> None:
    """Add what came of questions to what is written down of their Archives.

    :param counts: by the number of the Archive. One that is not registered any more is passed over.
    :param now: the moment of the last answer and of the last failure, where there is one.
    """
    table = RegisteredArchive
    for archive_id, more in sorted(counts.items()):  # in one order, as all that write do
        values = {
            table.answers: table.answers + more.answers,
            table.failures: table.failures + more.failures,
            table.milliseconds: table.milliseconds + more.milliseconds,
        }
        changed = update(table).where(table.id == archive_id).values(values)
        if more.answers:
            changed = changed.values(last_answer_at=now)
        if more.last_failure is not None:
            changed = changed.values(last_failure=_plain(more.last_failure), last_failure_at=now)
        connection.execute(changed)


def _plain(text: str) -> str:
    """Return a line as any database takes it: what a server says may stand in it."""
    return "".join(sign if sign.isprintable() else " " for sign in text)[:LONGEST_FAILURE]
