"""Registration of the Archive with a resolver: key, inclusion and exclusion ([R] 5)."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from threading import Event
from time import monotonic

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.registration.answers import MAX_ANSWER, explain_failure, read_answer
from flask_ibi_archive.archive.registration.standing import find_move, shown_url
from flask_ibi_archive.archive.transport import HttpResponse, fetch
from flask_ibi_archive.config import ArchiveConfig
from flask_ibi_archive.errors import (
    ConfigError,
    NotReady,
    ResolverError,
    ResolverFailed,
    TransportError,
)
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.inclusion import (
    EXCLUSION_REQUEST,
    INCLUSION_REQUEST,
    RegistrationRequest,
    RegistrationStatus,
    format_registration_request,
)
from flask_ibi_archive.protocol.registration import build_registration_email
from flask_ibi_archive.storage.registration import (
    find_registration,
    store_exclusion,
    store_failure,
    store_inclusion,
)

#: Seconds for one answer: the resolver calls the Archive back meanwhile.
ANSWER_TIMEOUT = 20
#: Seconds that are waited before the second try, and at most.
FIRST_DELAY, LONGEST_DELAY = 1.0, 16.0

KEY_EXPECTED = "a registration key; flask ibi generate-key prints a random one"


@dataclass(frozen=True, slots=True)
class RegistrationResult:
    """What came of a request.

    :param tries: how often the resolver was asked.
    :param not_stored: why it could not be written down, None: it was.
    """

    status: RegistrationStatus
    tries: int
    not_stored: str | None = None


def generate_key() -> str:
    """Return a random registration key, two numbers of sixteen digits ([R] Table 5.1)."""
    numbers = [secrets.randbelow(9 * 10**15) + 10**15 for _ in range(2)]
    return f"{numbers[0]}-{numbers[1]}"


def registration_email(archive: ArchiveService) -> tuple[str, str]:
    """Return subject and body of the e-mail to the resolver's administrator ([R] 5.1, Example 5.1).

    :raises ConfigError: if there is no key.
    :raises NotReady: if the Archive isn't there yet.
    """
    key = _required(archive.config.registration_key, "IBI_REGISTRATION_KEY", KEY_EXPECTED)
    return build_registration_email(parse_identifier(archive.served().service_ibi), key)


def build_request(archive: ArchiveService, subject: str) -> RegistrationRequest:
    """Return the request that the settings make.

    :raises ConfigError: naming the first setting that is missing.
    :raises NotReady: if the Archive isn't there yet.
    """
    config: ArchiveConfig = archive.config
    return RegistrationRequest(
        subject=subject,
        key=_required(config.registration_key, "IBI_REGISTRATION_KEY", KEY_EXPECTED),
        ip=_required(
            config.archive_ip,
            "IBI_ARCHIVE_IP",
            "the Archive's IPv4 or IPv6 address, as 150.163.34.243",
        ),
        admin_email=_required(
            config.archive_admin_email,
            "IBI_ARCHIVE_ADMIN_EMAIL",
            "the e-mail address of the Archive's administrator, as banon@dpi.inpe.br",
        ),
        address=config.archive_address,
        service_ibi=parse_identifier(archive.served().service_ibi),
        platform_version=config.archive_platform_version,
    )


def _required(value: str | None, key: str, expected: str) -> str:
    if value is None:
        raise ConfigError(key, None, expected)
    return value


def backoff(
    chance: Callable[[], float], first: float = FIRST_DELAY, longest: float = LONGEST_DELAY
) -> Iterator[float]:
    """Return the seconds to wait before each further try: twice as long each time, less some
    chance.

    :param chance: gives a number from 0 to 1; many Archives that failed together don't come back
        together.
    """
    delay = first
    while True:
        yield delay * (0.5 + chance() / 2)
        delay = min(2 * delay, longest)


def _ignore(error: ResolverFailed, delay: float) -> None:
    pass


@dataclass
class Registrar:
    """Asks the resolver to include the Archive or to exclude it, and writes down what comes of it.

    :param fetch: the HTTP client.
    :param clock: gives seconds; ``wait`` waits for so many.
    :param now: gives the date.
    :param chance: gives a number from 0 to 1.
    :param on_retry: is told what went wrong and how many seconds it is waited before the next try.
    """

    archive: ArchiveService
    fetch: Callable[..., HttpResponse] = fetch
    clock: Callable[[], float] = monotonic
    wait: Callable[[float], object] = field(default_factory=lambda: Event().wait)
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    chance: Callable[[], float] = random.random
    on_retry: Callable[[ResolverFailed, float], None] = _ignore

    def include(self, *, moved: bool = False) -> RegistrationResult:
        """Have the Archive included: resolvers ask it from now on.

        Asking again where it is included already does no harm.

        :param moved: the Archive has another address or IP than the one registered, and that is
            right.
        :raises ConfigError: naming the first setting that is missing; nothing was sent.
        :raises ArchiveMoved: if address or IP differ from those registered; nothing was sent.
        :raises ResolverRefused: if the resolver says no.
        :raises ResolverFailed: if it can't be reached within IBI_REGISTRATION_DEADLINE, or does not
            answer as it should.
        Source: [R] 5.2, Example 5.2.
        """
        return self._request(INCLUSION_REQUEST, moved)

    def exclude(self, *, moved: bool = False) -> RegistrationResult:
        """Have the Archive excluded; it stays registered. See :meth:`include`.

        Source: [R] 5.2, Example 5.3.
        """
        return self._request(EXCLUSION_REQUEST, moved)

    def _request(self, subject: str, moved: bool) -> RegistrationResult:
        archive = self.archive
        request = build_request(archive, subject)
        archive_id = archive.served().id
        known = archive.database.read(lambda connection: find_registration(connection, archive_id))
        if known is not None and not moved:
            difference = find_move(known, archive.config)
            if difference is not None:
                raise difference
        asked = self._ask(request)
        not_stored = self._store(archive_id, request, asked[0])
        if isinstance(asked[0], ResolverError):
            raise asked[0]
        return RegistrationResult(asked[0], asked[1], not_stored)

    def _ask(self, request: RegistrationRequest) -> tuple[RegistrationStatus | ResolverError, int]:
        """Ask until there is an answer that does not pass by itself, or the time is over."""
        end = self.clock() + self.archive.config.registration_deadline
        for tries, delay in enumerate(backoff(self.chance), 1):
            came = self._ask_once(request, end - self.clock())
            if not isinstance(came, ResolverFailed) or not came.passing:
                return came, tries
            pause = max(delay, came.retry_after or 0)
            if self.clock() + pause >= end:
                return came, tries
            self.on_retry(came, pause)
            self.wait(pause)
        raise AssertionError("the delays never end")

    def _ask_once(
        self, request: RegistrationRequest, left: float
    ) -> RegistrationStatus | ResolverError:
        url = shown_url(self.archive.config)
        try:
            answer = self.fetch(
                self.archive.config.resolver_url,
                format_registration_request(request),
                seconds=min(left, ANSWER_TIMEOUT),
                limit=MAX_ANSWER,
                inner_hosts=None,
            )
            return read_answer(request.subject, url, _without_key(answer, request.key), self.now())
        except TransportError as error:
            return explain_failure(url, error)
        except ResolverError as error:
            return error

    def _store(
        self,
        archive_id: int,
        request: RegistrationRequest,
        came: RegistrationStatus | ResolverError,
    ) -> str | None:
        """Write down what came; give the reason why that can't be, None where it could."""
        now = self.now()
        url = shown_url(self.archive.config)
        try:
            with self.archive.database.writing() as connection:
                if isinstance(came, ResolverError):
                    store_failure(connection, archive_id, url, str(came), now)
                elif request.subject == EXCLUSION_REQUEST:
                    store_exclusion(connection, archive_id, url, request.address, request.ip, now)
                else:
                    store_inclusion(
                        connection,
                        archive_id,
                        url,
                        request.address,
                        request.ip,
                        came.confirmed,
                        now,
                    )
        except NotReady as error:
            return str(error)
        return None


def _without_key(answer: HttpResponse, key: str) -> HttpResponse:
    """Return an answer without the key in it: a resolver may say back what it was asked."""
    return replace(
        answer,
        body=answer.body.replace(key.encode(), b"***"),
        headers={name: value.replace(key, "***") for name, value in answer.headers.items()},
    )
