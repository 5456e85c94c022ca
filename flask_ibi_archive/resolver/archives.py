"""The Archives of a resolver: registration, inclusion, exclusion, keys, clashes and the list.

The resolver's administrator registers an Archive and a registration key. The command ``ibi-resolver
register`` (resolver/commands/administration.py) does this, and sends the confirmation e-mail ([R]
5.2). The Archive then sends an inclusion request with this key. The resolver sends a request back
to the Archive and asks whether the Archive wants the inclusion (the confirmation call). An
exclusion request ends the inclusion. The resolver sends questions only to included Archives.
Source: [R] 5.

An inclusion request may take longer than a later request of the same Archive. Therefore each
request gets a number when it arrives. The result of a request is stored only if no later request of
the Archive has arrived.

**Keys.** Each process limits the number of wrong keys per minute: from each sender, and for each
Archive. The reasons are that a registration key may have only ten digits, and that each comparison
of a key takes 16 MiB of memory and some hundredths of a second. An attempt is counted before the
key is compared, so that simultaneous requests cannot exceed the limit. An attacker cannot lock out
the Archive itself: the limit of the Archive does not apply to the IP address in its last inclusion
request.

**The list.** Each process keeps the included Archives in memory. Each round of a resolution
executes one SELECT. This SELECT returns the version of the list in the database, and all that is
known about the requested identifiers: which Archives claim them, and which Archives gave or hide
items with the same prefixes. If the list in memory has another version, the list is read again, and
the SELECT is repeated. Therefore list and claims always belong to the same moment. A transaction
that changes the included Archives, or that changes whether the claims of an Archive count,
increases the version. But claims also stop counting when they become too old, without any
transaction. Therefore the list is read again every :data:`RELOAD` seconds.

**Clashes.** There is a clash if two included Archives mint identifiers with the same prefix, so
that they can give one identifier to two items. Both stay included, but an e-mail tells the
administrators. Archives that share a database do not clash, because the database stores the last
date for both. Source: federation CF-2; [G] 5, function f.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta, timezone
from itertools import combinations
from math import ceil, inf
from operator import attrgetter
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

import sqlalchemy as sa
from werkzeug.security import check_password_hash, generate_password_hash

from flask_ibi_archive import errors
from flask_ibi_archive.core.claim import parse_key
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import inclusion
from flask_ibi_archive.core.protocol.hosts import group_sender
from flask_ibi_archive.core.protocol.inclusion import RegistrationRequest, RegistrationStatus
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.pairs import parse_pairs
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import ArchiveSource
from flask_ibi_archive.resolver import tables
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import UTCDateTime, insert_or_update, is_one_of
from flask_ibi_archive.server.http.transport import INTERNAL, HttpResponse, fetch
from flask_ibi_archive.server.mail import compose_email, send_email
from flask_ibi_archive.signals import NOBODY, Notifier

_logger = logging.getLogger(__name__)

#: The states of a registered Archive. The command ``list`` prints these texts.
REGISTERED = "registered"
INCLUDED = "included"
NOT_CONFIRMED = "included, not confirmed"
EXCLUDED = "excluded"

# --- an Archive ----------------------------------------------------------------------------------


class RegistrationRefused(errors.RegistrationError):
    """A resolver refuses an inclusion or exclusion request.

    :param status: the HTTP status of the answer.
    :param retry_after: the seconds until the resolver can accept a key again, or None.
    """

    def __init__(self, message: str, status: int, retry_after: int | None = None) -> None:
        self.status = status
        self.retry_after = retry_after
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Archive:
    """A registered Archive. The fields are the columns with the same names (tables.py).

    An Archive in the list of a process is up to date only in the fields about the inclusion.

    :param address: the host and port of the Archive; "" before the first inclusion request.
    :param read_at: when the claims of the Archive were last read to the end. None if they do not
        count: the Archive publishes no claims, a claim is refused, or answers have contradicted the
        claims.
    """

    id: int
    service_ibi: str
    address: str = ""
    ip: str | None = None
    read_at: datetime | None = None
    key_hash: str = field(default="", repr=False)
    email: str | None = None
    registered_at: datetime | None = None
    platform_version: str | None = None
    admin_email: str | None = None
    mints: str | None = None
    database: str | None = None
    included_at: datetime | None = None
    confirmed_at: datetime | None = None
    excluded_at: datetime | None = None
    answers: int = 0
    failures: int = 0
    milliseconds: int = 0
    last_answer_at: datetime | None = None
    last_failure: str | None = None
    last_failure_at: datetime | None = None

    @property
    def state(self) -> tuple[str, datetime | None]:
        """``(state, date)``: the state of the Archive, and the date when this state began."""
        if self.included_at is not None:
            return INCLUDED if self.confirmed_at else NOT_CONFIRMED, self.included_at
        if self.excluded_at is not None:
            return EXCLUDED, self.excluded_at
        return REGISTERED, self.registered_at

    @property
    def prefixes(self) -> set[str]:
        """The prefixes of the identifiers that the Archive mints.

        If the Archive did not state them, this is the prefix of the service IBI.
        """
        return {*(self.mints or parse_identifier(self.service_ibi).prefix).split()}

    @property
    def service_url(self) -> str:
        """The URL of the Archive's service ([R] 4.1)."""
        return f"http://{self.address}/{self.service_ibi}"

    @property
    def source(self) -> ArchiveSource:
        """The service and the address of the Archive, as the source of its answers."""
        return ArchiveSource(self.service_ibi, self.address)


#: The number of contradictions after which the claims of an Archive no longer count.
MAX_CONTRADICTIONS = 3
#: The condition that the claims of an Archive that was read to the end count.
_COUNTS = sa.and_(
    tables.FollowedArchive.contradictions < MAX_CONTRADICTIONS,
    ~sa.exists().where(tables.RefusedClaim.archive_id == tables.FollowedArchive.archive_id),
)
_ARCHIVES = (
    sa.select(
        *[
            getattr(tables.RegisteredArchive, one.name)
            for one in fields(Archive)
            if one.name != "read_at"
        ],
        tables.FollowedArchive.read_at,
    )
    .outerjoin(
        tables.FollowedArchive,
        sa.and_(tables.FollowedArchive.archive_id == tables.RegisteredArchive.id, _COUNTS),
    )
    .order_by(tables.RegisteredArchive.id)
)


def list_archives(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Archive]:
    """Return the registered Archives that meet some conditions, in the order of registration."""
    rows = connection.execute(_ARCHIVES.where(*conditions)).mappings()
    return [Archive(**{**row, "address": row["address"] or ""}) for row in rows]


def list_included(connection: sa.Connection) -> list[Archive]:
    """Return the included Archives, confirmed or not, in the order of registration ([R] 6.2)."""
    return list_archives(connection, tables.RegisteredArchive.included_at.is_not(None))


def is_trusted(connection: sa.Connection, archive_id: int) -> bool:
    """Return whether the claims of an Archive count; the age of the claims is not checked."""
    is_read = (
        tables.FollowedArchive.archive_id == archive_id,
        tables.FollowedArchive.read_at.is_not(None),
    )
    return bool(connection.scalar(sa.select(sa.exists().where(*is_read, _COUNTS))))


def update_archive(
    connection: sa.Connection, archive: Archive, number: int | None = None, **values: Any
) -> int | None:
    """Update an Archive, unless the key was replaced or a later request of the Archive has arrived.

    :param number: the number of the request. None if the update is not the result of a request.
    :param values: the new values of the columns.
    :returns: how many requests of the Archive have arrived. None if nothing was updated.
    """
    table = tables.RegisteredArchive
    is_same = (table.id == archive.id) & (table.key_hash == archive.key_hash)
    if number is not None:
        is_same &= table.requests == number
    requests: int | None = connection.scalar(
        sa.update(table).where(is_same).values(**values).returning(table.requests)
    )
    return requests


def bump_version(connection: sa.Connection, archive_ids: Iterable[int]) -> None:
    """Increase the version of the list of Archives.

    The row of the version stays locked until the end of the transaction, so that versions are
    committed in increasing order. Therefore a transaction must call this function last, unless it
    has already locked the rows of all Archives that it changes.

    :param archive_ids: the ids of the Archives that have changed. Removed Archives are ignored.
    """
    # an inclusion locks the row of its Archive before the row of the version: so does this function
    lock_rows(connection, archive_ids)
    connection.execute(
        sa.update(tables.ResolverState).values(version=tables.ResolverState.version + 1)
    )


def lock_rows(connection: sa.Connection, archive_ids: Iterable[int]) -> Sequence[int]:
    """Lock the rows of Archives; all transactions lock rows in the same order, by id.

    :returns: the ids of the Archives that are still registered.
    """
    return connection.scalars(
        sa.select(tables.RegisteredArchive.id)
        .where(is_one_of(tables.RegisteredArchive.id, archive_ids))
        .order_by(tables.RegisteredArchive.id)
        .with_for_update(key_share=True)
    ).all()


# --- keys and passwords --------------------------------------------------------------------------

#: The cost of a hash (N of scrypt). A hash takes 16 MiB and some hundredths of a second.
COST = 2**14
#: The seconds in which attempts are counted.
WINDOW = 60.0
#: The maximum number of attempts in this period from one sender, and for one Archive.
MAX_OF_SENDER, MAX_OF_ARCHIVE = 10, 30


def hash_secret(secret: str, cost: int = COST) -> str:
    """Return a salted hash of a secret in the format of werkzeug.security.

    :param cost: the parameter N of scrypt (RFC 7914), a power of 2.
    """
    return generate_password_hash(secret, f"scrypt:{cost}:8:1")


def matches_hash(secret: str, secret_hash: str) -> bool:
    """Return True if a hash was made from a secret. The duration does not depend on the secret."""
    return check_password_hash(secret_hash, secret)


class KeyAttempts:
    """Counts the wrong keys that came to this process. Thread-safe.

    :param clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        #: The time, the id of the Archive and the sender of each attempt.
        self._attempts: deque[tuple[float, int, str]] = deque()

    def add(self, archive: Archive, sender: str) -> int | None:
        """Count an attempt, unless a limit is reached.

        :param sender: the IP address of the sender.
        :returns: None if the key may be compared; otherwise the number of seconds to wait.
        """
        network, now = group_sender(sender), self._clock()
        with self._lock:
            while self._attempts and self._attempts[0][0] <= now - WINDOW:
                self._attempts.popleft()
            limits = [([one[0] for one in self._attempts if one[2] == network], MAX_OF_SENDER)]
            if archive.ip is None or group_sender(archive.ip) != network:
                of_archive = [one[0] for one in self._attempts if one[1] == archive.id]
                limits.append((of_archive, MAX_OF_ARCHIVE))
            for times, maximum in limits:
                if len(times) >= maximum:
                    return max(ceil(times[-maximum] + WINDOW - now), 1)
            self._attempts.append((now, archive.id, network))
        return None

    def forget(self, archive: Archive, sender: str) -> None:
        """Forget the attempts of a sender who has sent the right key of an Archive."""
        pair = archive.id, group_sender(sender)
        with self._lock:
            self._attempts = deque(one for one in self._attempts if one[1:] != pair)


# --- registration, inclusion and exclusion -------------------------------------------------------

#: The columns with values of the last inclusion request, which has the same names.
_STATED = ("address", "ip", "platform_version", "admin_email", "mints", "database")
#: The time limit in seconds for the key of the claims, so that an inclusion is not delayed, and the
#: maximum length of the answer in bytes.
KEY_TIMEOUT, MAX_KEY = 2.0, 1000
#: The IP address that stands for an unknown sender.
UNKNOWN_SENDER = "0.0.0.0"


@dataclass
class Registry:
    """Registers Archives and processes their inclusion and exclusion requests.

    Each method may raise :class:`NotReady`, if the database is not available or has no tables of
    the resolver.

    :param fetch: the HTTP client for the confirmation call to an Archive.
    :param now: returns the current date.
    :param cost: the cost of the hash of a key. See :func:`hash_secret`.
    :param notifier: sends the signals archive_included and archive_excluded.
    :param attempts: limits the number of wrong keys.
    """

    database: Database
    config: ResolverConfig
    fetch: Callable[..., HttpResponse] = fetch
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    cost: int = COST
    notifier: Notifier = NOBODY
    attempts: KeyAttempts = field(default_factory=KeyAttempts)

    def register(
        self, service_ibi: str, key: str, email: str | None = None, *, replace: bool = False
    ) -> bool:
        """Register an Archive. The Archive can then request the inclusion with the key.

        If the Archive is already registered with the same key, only the e-mail address changes.

        :param service_ibi: the IBI of the Archive's service.
        :param key: the registration key.
        :param email: the address for the confirmation e-mail. None keeps the earlier address.
        :param replace: True allows the key to replace a different key. If the Archive is included,
            the Archive stays included.
        :returns: True if the Archive is new.
        :raises IdentifierError: if ``service_ibi`` is not an IBI.
        :raises ValueError: if the key is malformed. The message does not contain the key.
        :raises RegistrationError: if the Archive has a different key and ``replace`` is False.
        Source: [R] 5.1.
        """
        table, service_ibi = tables.RegisteredArchive, parse_identifier(service_ibi).text
        key_hash = hash_secret(inclusion.parse_key(key), self.cost)
        with self.database.writing() as connection:
            row = {"service_ibi": service_ibi, "key_hash": key_hash, "email": email}
            new = insert_or_update(connection, table).values(**row, registered_at=self.now())
            if connection.scalar(new.on_conflict_do_nothing().returning(table.id)) is not None:
                return True
            [archive] = list_archives(connection, table.service_ibi == service_ibi)
            is_same = matches_hash(key, archive.key_hash)
            if not is_same and not replace:
                raise errors.RegistrationError(
                    f"the Archive {service_ibi} is already registered with another key; to "
                    "replace the key, use --replace"
                )
            values: dict[str, Any] = {"email": archive.email if email is None else email}
            values |= {} if is_same else {"key_hash": key_hash}
            update_archive(connection, archive, **values)
        return False

    def remove(self, service_ibi: str) -> None:
        """Delete the registration, claims and metrics of an Archive.

        The resolver then sends no more requests to this Archive.

        :raises StorageError: if the Archive is not registered.
        """
        service_ibi = parse_identifier(service_ibi).text
        statement = sa.delete(tables.RegisteredArchive).where(
            tables.RegisteredArchive.service_ibi == service_ibi
        )
        with self.database.writing() as connection:
            if not connection.execute(statement).rowcount:
                raise errors.StorageError(
                    f"no Archive with the service {service_ibi} is registered"
                )
            bump_version(connection, ())

    def list(self) -> Sequence[Archive]:
        """Return all registered Archives in the order of their registration."""
        return self.database.read(list_archives)

    def authenticate(self, request: RegistrationRequest, sender: str = UNKNOWN_SENDER) -> Archive:
        """Check the key in a request, and return the Archive.

        An unknown Archive and a wrong key cause the same error. For an unknown Archive, the error
        is raised faster. The faster error reveals no secret, because the IBIs of Archives are
        public.

        :param sender: the IP address of the sender of the request.
        :raises RegistrationRefused: if the Archive is not registered, if the key is wrong, or if
            the rate limit is reached. Then the key is not compared.
        """
        service_ibi = request.service_ibi.text
        archive = self.find(service_ibi)
        if archive is None:
            raise _refuse_key(service_ibi)
        wait = self.attempts.add(archive, sender)
        if wait is not None:
            raise RegistrationRefused(
                "too many wrong registration keys came from this address or for the Archive "
                f"{service_ibi}; try again in {wait} s",
                status=429,
                retry_after=wait,
            )
        if not matches_hash(request.key, archive.key_hash):
            raise _refuse_key(service_ibi)
        self.attempts.forget(archive, sender)
        return archive

    def process(
        self, request: RegistrationRequest, sender: str = UNKNOWN_SENDER
    ) -> RegistrationStatus:
        """Process the inclusion request or exclusion request of an Archive, and return the result.

        An Archive may send the same request several times. If the Archive publishes claims, the
        public key for them is stored together with the inclusion. No transaction is open during the
        calls to the Archive.

        :param sender: the IP address of the sender of the request.
        :raises RegistrationRefused: if the Archive is not registered, if the key is wrong, if the
            rate limit of wrong keys is reached, or if a later request came during the confirmation
            call. Also if the Archive has an internal address that is not allowed; then the state of
            the Archive does not change.
        Source: [R] 5.2.
        """
        archive = self.authenticate(request, sender)
        confirmed, clashes = None, {}
        with self.database.writing() as connection:
            number = update_archive(
                connection, archive, requests=tables.RegisteredArchive.requests + 1
            )
            if number is None:
                raise _refuse_key(archive.service_ibi)
            if request.subject == inclusion.EXCLUSION_REQUEST:
                excluded_at = _keep_or(tables.RegisteredArchive.excluded_at, self.now())
                dates = {"included_at": None, "confirmed_at": None}
                update_archive(connection, archive, **dates, excluded_at=excluded_at)
                bump_version(connection, [archive.id])
        if request.subject == inclusion.INCLUSION_REQUEST:
            before = find_clashes(self.database, archive.service_ibi)
            confirmed = self._include(archive, number, request)
            clashes = find_clashes(self.database, archive.service_ibi)
            for text in clashes.keys() - before:
                recipients, content = sorted(clashes[text]), _CLASH_TEXT.format(clash=text)
                send_to_administrators(self.config, recipients, _CLASH_SUBJECT, content, text)
        self.notifier.send_registration(
            "resolver", confirmed, archive.service_ibi, request.address, self.config.service_url
        )
        return RegistrationStatus(
            inclusion.RESULTS[request.subject],
            None if confirmed is None else inclusion.CONFIRMATIONS[not confirmed],
            "; ".join(clashes),
        )

    def _include(self, archive: Archive, number: int, request: RegistrationRequest) -> bool:
        """Include an Archive, and return whether it confirmed the inclusion."""
        confirmed = self._call_for_confirmation(request)
        key = None
        if confirmed:  # by the Archive at this address, so that the key is its own
            key = self._read_key(request)
        now = self.now()
        with self.database.writing() as connection:
            values = {name: getattr(request, name) or None for name in _STATED}
            values["included_at"] = _keep_or(tables.RegisteredArchive.included_at, now)
            values |= {"confirmed_at": now if confirmed else None, "excluded_at": None}
            if update_archive(connection, archive, number, **values) is not None:
                if key is not None:
                    _pin_key(connection, archive.id, key, now)
                bump_version(connection, [archive.id])
                return confirmed
        # meanwhile a later request came, or the administrator changed the registration
        found = self.find(archive.service_ibi)
        if found is None or found.key_hash != archive.key_hash:
            raise _refuse_key(archive.service_ibi)
        if found.included_at is None or found.address != request.address:
            raise RegistrationRefused(
                f"a later request of the Archive {request.service_ibi} replaces this request; if "
                "this request is the right one, send this request again",
                status=409,
            )
        return found.confirmed_at is not None

    def _call_for_confirmation(self, request: RegistrationRequest) -> bool:
        """Ask an Archive to confirm its inclusion, and return True if the Archive answers "yes".

        :raises RegistrationRefused: if the Archive has an internal address that is not allowed.
        Source: [R] 5.2, Example 5.4.
        """
        try:
            answer = self._ask(
                request,
                request.service_ibi.text,
                format_request(inclusion.InclusionConfirmationRequest()),
                self.config.archive_timeout,
                self.config.max_answer,
            )
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if answer.status != 200 or kind != "text/plain" or not answer.complete:
                return False
            pairs = parse_pairs(answer.body)
        except (errors.TransportError, errors.PeerProtocolError) as error:
            if isinstance(error, errors.TransportError) and error.kind == INTERNAL:
                raise RegistrationRefused(
                    f"archiveaddress: {request.address} has an internal IP address; the setting "
                    "IBI_INNER_HOSTS of this resolver does not allow this address",
                    status=400,
                ) from None
            return False
        return [pair.text for pair in pairs if pair.name == "confirmation"] == ["yes"]

    def _ask(
        self, request: RegistrationRequest, path: str, query: str, seconds: float, limit: int
    ) -> HttpResponse:
        url, inner_hosts = f"http://{request.address}/{path}", self.config.inner_hosts
        return self.fetch(url, query, seconds=seconds, limit=limit, inner_hosts=inner_hosts)

    def _read_key(self, request: RegistrationRequest) -> str | None:
        """Ask an Archive for the public key of its claims, and return the key in base64.

        :returns: "" if the Archive publishes no claims; None if the key cannot be read. In both
            cases the Archive is included nevertheless.
        """
        try:
            seconds = min(self.config.archive_timeout, KEY_TIMEOUT)
            answer = self._ask(request, "ibi/claims/key", "", seconds, MAX_KEY)
            if answer.status != 200 or not answer.complete:
                return "" if answer.status == 404 else None
            key = parse_key(answer.body, request.service_ibi.text)
        except (errors.TransportError, errors.PeerProtocolError) as error:
            _logger.warning(
                "the key of the claims of %s can't be read: %s", request.service_ibi, error
            )
            return None
        return b64encode(key.public_bytes_raw()).decode()

    def find(self, service_ibi: str) -> Archive | None:
        """Return the registered Archive with a service IBI in canonical case, or None."""
        is_wanted = tables.RegisteredArchive.service_ibi == service_ibi
        archives = self.database.read(lambda connection: list_archives(connection, is_wanted))
        return archives[0] if archives else None


def _keep_or(date: Any, now: datetime) -> sa.ColumnElement[datetime]:
    """Return the date in a column, or the current time if the column is empty."""
    return sa.func.coalesce(date, sa.literal(now, UTCDateTime()))


def _pin_key(connection: sa.Connection, archive_id: int, key: str, now: datetime) -> None:
    """Store the public key of an Archive, or store that it publishes no claims (federation CL-5).

    If the key is new, the list of claims is read again from the beginning. Until the end is
    reached, the old claims stay stored, because they contain the times since when names are
    claimed.

    :param key: the key in base64; "" if there is none.
    """
    is_its = tables.FollowedArchive.archive_id == archive_id
    if key and connection.scalar(sa.select(tables.FollowedArchive.key).where(is_its)) == key:
        connection.execute(sa.update(tables.FollowedArchive).where(is_its).values(due_at=None))
    elif key:
        read = {"epoch": None, "position": "", "etag": None, "read_at": None, "due_at": None}
        values = {"key": key, "pinned_at": now, **read}
        pinned = insert_or_update(connection, tables.FollowedArchive).values(
            archive_id=archive_id, **values
        )
        connection.execute(pinned.on_conflict_do_update(index_elements=["archive_id"], set_=values))
    else:
        connection.execute(sa.delete(tables.FollowedArchive).where(is_its))
        connection.execute(
            sa.delete(tables.ClaimedName).where(tables.ClaimedName.archive_id == archive_id)
        )
        is_party = sa.or_(
            tables.Conflict.first_archive_id == archive_id,
            tables.Conflict.second_archive_id == archive_id,
        )
        is_open = tables.Conflict.ended_at.is_(None)
        connection.execute(sa.update(tables.Conflict).where(is_party, is_open).values(ended_at=now))


def _refuse_key(service_ibi: str) -> RegistrationRefused:
    """Return the error for an unknown Archive and for a wrong key; it does not tell which."""
    message = f"no Archive with the service {service_ibi} is registered with this key"
    return RegistrationRefused(message, status=403)


# --- clashes -------------------------------------------------------------------------------------

_CLASH_SUBJECT = "Dois Arquivos, um prefixo / Two Archives, one prefix"
_CLASH_TEXT = """\
Dois Arquivos podem dar um mesmo identificador a dois itens: {clash}.
Em um deles, mudem IBI_MINT_PORT, reiniciem o servidor e executem: flask ibi register-archive
Os identificadores que já existem não mudam.

Two Archives can give one identifier to two items: {clash}.
At one of them, change IBI_MINT_PORT, restart the server, and run: flask ibi register-archive
Identifiers that exist do not change."""


def find_clashes(database: Database, service_ibi: str | None = None) -> dict[str, set[str]]:
    """Find clashes; return a dictionary from a sentence about each clash to e-mail addresses.

    The addresses are those of the administrators of the two Archives.

    :param service_ibi: return only the clashes of this Archive; None: of all Archives.
    :raises NotReady: if the database is not available or has no tables of the resolver.
    """
    clashes = {}
    for first, second in combinations(database.read(list_included), 2):
        prefixes, others = first.prefixes, second.prefixes
        services = first.service_ibi, second.service_ibi
        has_own_database = first.database is None or first.database != second.database
        if prefixes & others and has_own_database and service_ibi in (None, *services):
            shared = " or ".join(sorted(prefixes & others))
            text = f"identifiers with the prefix {shared} are minted by {' and '.join(services)}"
            clashes[text] = {str(first.admin_email), str(second.admin_email)} - {""}
    return clashes


def send_to_administrators(
    config: ResolverConfig, recipients: Collection[str], subject: str, text: str, what: str
) -> bool:
    """Send an e-mail, and return whether the mail server accepted it. Failures are logged.

    :param what: the content of the e-mail, as a clause for the log: "no e-mail says that ...".
    """
    if config.mail is None or not recipients:
        return False
    sender = "IBI_RESOLVER_EMAIL", config.email
    try:
        message = compose_email(config.mail, sender, ", ".join(recipients), subject, text)
        send_email(config.mail, message)
    except (errors.ConfigError, errors.MailError) as error:
        _logger.error("no e-mail says that %s: %s", what, error)
        return False
    return True


# --- the list ------------------------------------------------------------------------------------

#: The maximum number of Archives that lately gave items with a prefix, and are asked.
MAX_RECENT = 4
#: The seconds after which the list is read again, so that claims that are too old stop counting.
RELOAD = 5.0
#: The states of claims by the numbers in the table.
STATES = {number: state for state, number in tables.STATE_NUMBERS.items()}

#: The kinds of the rows of the SELECT. There is always one row of the first kind.
_STATE, _CLAIM, _HIDDEN, _RECENT = range(4)
#: The SELECT has few columns, because the drivers need time for each column. PostgreSQL takes the
#: type of a column from the first two parts.
_KNOWN = sa.text(f"""SELECT {_STATE} AS kind, version AS id, NULL AS text, NULL AS state,
 NULL AS since, NULL AS original FROM ibi_resolver_state
UNION ALL
SELECT {_CLAIM}, archive_id, name, state, since, original_archive FROM ibi_resolver_claim
WHERE name IN :names
UNION ALL
SELECT CASE WHEN is_hidden THEN {_HIDDEN} ELSE {_RECENT} END, archive_id, prefix, NULL, seen_at,
 NULL FROM ibi_resolver_prefix WHERE prefix IN :prefixes
""").bindparams(
    sa.bindparam("names", expanding=True, type_=sa.Text()),
    sa.bindparam("prefixes", expanding=True, type_=sa.Text()),
)


class Claimant(NamedTuple):
    """An included Archive that claims an item.

    :param original_id: the id of the Archive that has the Original, if the claim is about a Copy or
        a removed item, and names an included Archive. Otherwise None.
    """

    archive_id: int
    state: State
    original_id: int | None = None


class Known(NamedTuple):
    """What the resolver knows about a name without asking. Numbers are ids of included Archives.

    :param claimants: the Archives that claim the name, in the order in which the resolver uses
        their answers: first by state (Original, Copy, Deleted), then the oldest claim, then the
        Archive whose service IBI has the same prefix, then the Archive that was included first
        (federation CL-8a).
    :param hidden: the Archives with hidden items that have the same prefix.
    :param recent: the Archives that lately gave items with the same prefix, the last one first;
        then the Archives that mint with the prefix. They may have got the item after their claims
        were read.
    """

    claimants: tuple[Claimant, ...] = ()
    hidden: tuple[int, ...] = ()
    recent: tuple[int, ...] = ()


@dataclass(frozen=True)
class ArchiveList:
    """The included Archives at one moment. The object never changes.

    :param version: the version of the list in the database. -1: nothing was read.
    :param archives: the Archives by their ids, in the order of their ids.
    :param always: the ids, in the same order, of the Archives whose claims do not count. The
        resolver always asks these Archives.
    :param minters: the ids of the Archives that mint with a prefix, by prefix.
    :param ends_at: when the list must be read again.
    """

    version: int = -1
    archives: Mapping[int, Archive] = field(default_factory=dict)
    always: Collection[int] = ()
    minters: Mapping[str, Sequence[int]] = field(default_factory=dict)
    ends_at: float = 0.0


class ArchiveListReader:
    """Reads the list of Archives, and the knowledge about names. Thread-safe and fork-safe.

    There is no lock. If two threads read a new version, one of them may store the older list; the
    next resolution then reads the list again.

    :param max_age: claims do not count if they were last read more than this number of seconds ago.
    """

    def __init__(self, max_age: float) -> None:
        self._max_age = timedelta(seconds=max_age)
        self._list = ArchiveList()

    def read(
        self, connection: sa.Connection, names: Sequence[str], prefixes: Sequence[str]
    ) -> tuple[ArchiveList, dict[str, Known]]:
        """Return the included Archives, and a dictionary with what is known about each name.

        :param names: identifiers and aliases, as :func:`.fold_name` writes them.
        :param prefixes: the prefix of each name, in the same order; "" for an alias.
        """
        archives = self._list
        while True:
            parameters = {"names": names, "prefixes": prefixes}
            rows: Sequence[Any] = connection.execute(_KNOWN, parameters).all()
            [version] = [row.id for row in rows if row.kind == _STATE]
            if version == archives.version and monotonic() < archives.ends_at:
                break
            # if the list changes meanwhile, the version tells it
            self._list = archives = self._read_list(connection, version)
        included = [row for row in rows if row.id in archives.archives and row.kind != _STATE]
        known = {
            name: _find_known(archives, included, name, prefix)
            for name, prefix in zip(names, prefixes, strict=True)
        }
        return archives, known

    def _read_list(self, connection: sa.Connection, version: int) -> ArchiveList:
        since = datetime.now(timezone.utc) - self._max_age
        included = {one.id: one for one in list_included(connection)}
        always = [key for key, one in included.items() if not (one.read_at and one.read_at > since)]
        minters: dict[str, list[int]] = {}
        for key, one in included.items():
            for prefix in one.prefixes:
                minters.setdefault(prefix, []).append(key)
        has_claims = any(one.read_at for one in included.values())
        ends_at = monotonic() + RELOAD if has_claims else inf
        return ArchiveList(version, included, dict.fromkeys(always), minters, ends_at)


def order_claim(claim: Any, archive: Any, prefix: str) -> tuple[Any, ...]:
    """Return the sort key of a claim among all claims of a name (federation CL-8a).

    :param claim: a row with the columns ``state`` and ``since`` (when the claim of this state
        began).
    :param archive: the Archive, or a row with its columns.
    :param prefix: the prefix of the identifier; "" for an alias.
    """
    is_foreign = not prefix or parse_identifier(archive.service_ibi).prefix != prefix
    return claim.state, claim.since, is_foreign, archive.included_at, archive.id


def _find_known(archives: ArchiveList, rows: Sequence[Any], name: str, prefix: str) -> Known:
    """Return what the rows of the SELECT tell about a name."""
    claims = [row for row in rows if row.kind == _CLAIM and row.text == name]
    if len(claims) > 1:
        claims.sort(key=lambda row: order_claim(row, archives.archives[row.id], prefix))
    named = {row.original for row in claims if row.original is not None}
    originals = {
        one.service_ibi: key
        for key, one in (archives.archives.items() if named else ())
        if one.service_ibi in named
    }
    recent = [row for row in rows if row.kind == _RECENT and row.text == prefix]
    recent.sort(key=attrgetter("since"), reverse=True)
    return Known(
        tuple([Claimant(row.id, STATES[row.state], originals.get(row.original)) for row in claims]),
        tuple([row.id for row in rows if row.kind == _HIDDEN and row.text == prefix]),
        (*[row.id for row in recent[:MAX_RECENT]], *archives.minters.get(prefix, ())),
    )
