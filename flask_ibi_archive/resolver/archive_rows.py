"""SQL statements for the table of registered Archives: keys, inclusion, exclusion and metrics.

The resolver sends questions only to included Archives. An Archive requests its own inclusion or
exclusion. An inclusion request may take longer than a later request of the same Archive. Therefore,
each request gets a number when the request arrives. The result of a request is only stored if no
result of a later request is stored. A later request has a higher number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Text,
    Update,
    and_,
    bindparam,
    delete,
    func,
    literal,
    select,
    update,
)

from flask_ibi_archive.core.identifiers import (
    Decoded,
    Identifier,
    decode_identifier,
    parse_identifier,
)
from flask_ibi_archive.core.protocol.hosts import extract_host, extract_port
from flask_ibi_archive.core.protocol.inclusion import RegistrationRequest
from flask_ibi_archive.core.resolution.answer import ArchiveSource
from flask_ibi_archive.errors import IdentifierError
from flask_ibi_archive.resolver.claims.versions import bump_version
from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive
from flask_ibi_archive.server.database.dialects import UTCDateTime, insert_or_update

#: Maximum number of characters that are stored of the description of a failure.
MAX_FAILURE = 300
#: The ports that identifiers do not contain: of repository names, and of IBIps.
DEFAULT_PORTS = (80, 800)


@dataclass(frozen=True, slots=True)
class RegisteredKey:
    """The id of a registered Archive and the hash of its registration key."""

    id: int
    key_hash: str


@dataclass(frozen=True, slots=True)
class RegisteredRecord:
    """A row of the table of registered Archives. Each field is the column with the same name."""

    id: int
    service_ibi: str
    email: str | None
    registered_at: datetime
    address: str | None
    ip: str | None
    platform_version: str | None
    admin_email: str | None
    mints: str | None
    database: str | None
    included_at: datetime | None
    confirmed_at: datetime | None
    excluded_at: datetime | None
    answers: int
    failures: int
    milliseconds: int
    last_answer_at: datetime | None
    last_failure: str | None
    last_failure_at: datetime | None


class IncludedArchive(NamedTuple):
    """An included Archive.

    :param id: the id of the Archive in the table.
    :param service_ibi: the IBI of the Archive's service.
    :param address: the host and port of the Archive.
    :param ip: the IP address of the Archive. None if unknown.
    :param log_state: the state of its log of claims (claims/tables.py). None if it has no log.
    """

    id: int
    service_ibi: str
    address: str
    ip: str | None = None
    log_state: str | None = None

    @property
    def service_url(self) -> str:
        """The URL of the Archive's service ([R] 4.1)."""
        return f"http://{self.address}/{self.service_ibi}"

    @property
    def source(self) -> ArchiveSource:
        """The service and the address of the Archive, as the source of its answers."""
        return ArchiveSource(self.service_ibi, self.address)

    def may_mint(self, ibi: Identifier) -> bool:
        """Return whether an identifier contains the host or the IP address of this Archive.

        The port must be a default port, the port of the Archive's address, or the port in the IBI
        of its service.
        """
        service = parse_identifier(self.service_ibi)
        own = _decode(service)
        if _decode(ibi).port not in (*DEFAULT_PORTS, own.port, extract_port(self.address)):
            return False
        return is_minted_at(ibi, extract_host(self.address), self.ip) or is_minted_at(
            ibi, own.host, own.ip
        )


def is_minted_at(ibi: Identifier, host: str | None, ip: str | None) -> bool:
    """Return whether an identifier contains a host or an IP address."""
    decoded = _decode(ibi)
    if decoded.host is not None and host is not None:
        return decoded.host == host.lower()
    return decoded.ip is not None and decoded.ip == ip


def _decode(ibi: Identifier) -> Decoded:
    """Return the content of an identifier; the form alone if it contains no address and date."""
    try:
        return decode_identifier(ibi)
    except IdentifierError:
        return Decoded(ibi.form)


@dataclass(slots=True)
class ArchiveMetrics:
    """The numbers of answers and failures of an Archive.

    :param milliseconds: the sum of the response times of all answers.
    :param last_failure: the reason of the latest failure, such as "took too long". In messages, the
        reason follows the address of the Archive.
    """

    answers: int = 0
    failures: int = 0
    milliseconds: float = 0.0
    last_failure: str | None = None

    def add(self, earlier: ArchiveMetrics) -> None:
        """Add the metrics of an earlier period to these metrics."""
        self.answers += earlier.answers
        self.failures += earlier.failures
        self.milliseconds += earlier.milliseconds
        self.last_failure = self.last_failure or earlier.last_failure


_COLUMNS = tuple(getattr(RegisteredArchive, field.name) for field in fields(RegisteredRecord))
_INCLUDED = (
    select(
        RegisteredArchive.id,
        RegisteredArchive.service_ibi,
        RegisteredArchive.address,
        RegisteredArchive.ip,
        Hint.archive_id,
    )
    .outerjoin(Hint, and_(Hint.archive_id == RegisteredArchive.id, Hint.ibi == bindparam("ibi")))
    .where(RegisteredArchive.included_at.is_not(None))
    .order_by(RegisteredArchive.id)
)


def find_key(connection: Connection, service_ibi: str) -> RegisteredKey | None:
    """Return the id and key hash of an Archive, or None if the Archive is not registered."""
    row = connection.execute(
        select(RegisteredArchive.id, RegisteredArchive.key_hash).where(
            RegisteredArchive.service_ibi == service_ibi
        )
    ).one_or_none()
    return None if row is None else RegisteredKey(*row)


def list_registered(
    connection: Connection, *conditions: ColumnElement[bool]
) -> list[RegisteredRecord]:
    """Return the registered Archives that meet some conditions, in the order of registration."""
    statement = select(*_COLUMNS).where(*conditions).order_by(RegisteredArchive.id)
    return [RegisteredRecord(*row) for row in connection.execute(statement)]


def list_included(
    connection: Connection, ibi: str | None
) -> tuple[list[IncludedArchive], int | None]:
    """Return the included Archives, and the id of the Archive where an IBI was last found.

    The result also contains Archives whose inclusion is not confirmed.

    :param ibi: the IBI in canonical case, or None if no hint is needed.
    :returns: the Archives in the order of their ids, and the id of the Archive in the hint. The
        second value is None if there is no hint.
    Source: [R] 6.2.
    """
    archives, hinted_id = [], None
    rows: Sequence[Any] = connection.execute(_INCLUDED, {"ibi": ibi}).all()
    for *values, hint in rows:
        archives.append(IncludedArchive(*values))
        if hint is not None:
            hinted_id = archives[-1].id
    return archives, hinted_id


def store_registration(
    connection: Connection, service_ibi: str, key_hash: str, email: str | None, now: datetime
) -> bool:
    """Store the registration of an Archive; return False if the Archive is already registered."""
    statement = insert_or_update(connection, RegisteredArchive).values(
        service_ibi=service_ibi, key_hash=key_hash, email=email, registered_at=now
    )
    done = connection.execute(statement.on_conflict_do_nothing().returning(RegisteredArchive.id))
    return done.one_or_none() is not None


def remove_registration(connection: Connection, service_ibi: str) -> bool:
    """Delete an Archive with all its hints and metrics.

    :returns: whether the Archive was registered.
    """
    statement = delete(RegisteredArchive).where(RegisteredArchive.service_ibi == service_ibi)
    is_removed = bool(connection.execute(statement).rowcount)
    if is_removed:
        bump_version(connection, ())
    return is_removed


def begin_request(connection: Connection, known_key: RegisteredKey) -> int | None:
    """Count a new request of an Archive and return the number of the request.

    :returns: the number, or None if the key is no longer valid.
    """
    number: int | None = connection.scalar(
        _update_with_key(known_key)
        .values(requests=RegisteredArchive.requests + 1)
        .returning(RegisteredArchive.requests)
    )
    return number


def store_inclusion(
    connection: Connection,
    known_key: RegisteredKey,
    number: int,
    request: RegistrationRequest,
    confirmed: bool,
    now: datetime,
) -> bool:
    """Store that an Archive is included.

    If the Archive is already included, the date of inclusion does not change.

    :param number: the number of the request. :func:`begin_request` returns this number.
    :returns: False if the result of a later request was stored, or if the key is no longer valid.
    Source: [R] 5.2.
    """
    return _update_list(
        connection,
        known_key,
        number,
        address=request.address,
        ip=request.ip,
        platform_version=request.platform_version,
        admin_email=request.admin_email,
        mints=request.mints or None,
        database=request.database or None,
        included_at=func.coalesce(RegisteredArchive.included_at, literal(now, UTCDateTime())),
        confirmed_at=now if confirmed else None,
        excluded_at=None,
    )


def store_exclusion(
    connection: Connection, known_key: RegisteredKey, number: int, now: datetime
) -> bool:
    """Store that an Archive is excluded.

    The Archive stays registered. If the Archive is already excluded, the date of exclusion does not
    change.

    :param number: the number of the request. :func:`begin_request` returns this number.
    :returns: False if the result of a later request was stored, or if the key is no longer valid.
    Source: [R] 5.2.
    """
    return _update_list(
        connection,
        known_key,
        number,
        included_at=None,
        confirmed_at=None,
        excluded_at=func.coalesce(RegisteredArchive.excluded_at, literal(now, UTCDateTime())),
    )


def _update_list(
    connection: Connection, known_key: RegisteredKey, number: int, **values: Any
) -> bool:
    """Update an Archive as the result of a request that changes the list of included Archives."""
    is_updated = update_archive(connection, known_key, number, **values)
    if is_updated:
        bump_version(connection, [known_key.id])
    return is_updated


def _update_with_key(known_key: RegisteredKey) -> Update:
    """Return the UPDATE of an Archive, which changes nothing if the key was replaced."""
    table = RegisteredArchive
    return update(table).where(table.id == known_key.id, table.key_hash == known_key.key_hash)


def update_archive(
    connection: Connection, known_key: RegisteredKey, number: int | None = None, **values: Any
) -> bool:
    """Update columns of an Archive, unless its key was replaced or a later request was stored.

    :param number: the number of the request. None if the update is not the result of a request.
    :returns: whether the Archive was updated.
    """
    statement = _update_with_key(known_key)
    if number is not None:
        statement = statement.where(RegisteredArchive.written < number)
        values["written"] = number
    return bool(connection.execute(statement.values(**values)).rowcount)


def add_metrics(
    connection: Connection, metrics: Mapping[int, ArchiveMetrics], now: datetime
) -> None:
    """Add new metrics to the stored metrics of the Archives.

    :param metrics: the new metrics, by the id of the Archive. Archives that are no longer
        registered are ignored.
    :param now: the current time. It is stored as the date of the last answer if there are new
        answers, and as the date of the last failure if there are new failures.
    """
    rows = [
        {
            "archive": archive_id,
            "more_answers": more.answers,
            "more_failures": more.failures,
            "more_milliseconds": round(more.milliseconds),
            "answered_at": now if more.answers else None,
            "failure": None if more.last_failure is None else _shorten(more.last_failure),
            "failed_at": None if more.last_failure is None else now,
        }
        for archive_id, more in sorted(metrics.items())  # the same order avoids deadlocks
    ]
    if rows:
        connection.execute(_ADD_METRICS, rows)


_TABLE = RegisteredArchive
#: Many Archives answer between two writes, so one statement serves them all.
_ADD_METRICS = (
    update(_TABLE)
    .where(_TABLE.id == bindparam("archive"))
    .values(
        {
            _TABLE.answers: _TABLE.answers + bindparam("more_answers"),
            _TABLE.failures: _TABLE.failures + bindparam("more_failures"),
            _TABLE.milliseconds: _TABLE.milliseconds + bindparam("more_milliseconds"),
            _TABLE.last_answer_at: func.coalesce(
                bindparam("answered_at", type_=UTCDateTime()), _TABLE.last_answer_at
            ),
            _TABLE.last_failure: func.coalesce(
                bindparam("failure", type_=Text()), _TABLE.last_failure
            ),
            _TABLE.last_failure_at: func.coalesce(
                bindparam("failed_at", type_=UTCDateTime()), _TABLE.last_failure_at
            ),
        }
    )
)


def _shorten(failure: str) -> str:
    return _replace_unprintable(failure)[:MAX_FAILURE]


def _replace_unprintable(text: str) -> str:
    """Return a text with spaces instead of unprintable characters, which a server may have sent."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
