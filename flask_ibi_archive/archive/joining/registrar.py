"""Send inclusion and exclusion requests to the resolver ([R] 5.2).

A failed request is repeated. Each request contains the registration key ([R] 5.1). This module also
generates registration keys.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

from flask_ibi_archive import errors
from flask_ibi_archive.archive.joining import registration_state
from flask_ibi_archive.archive.joining.resolver_answer import MAX_ANSWER, Endpoint, read_answer
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import inclusion
from flask_ibi_archive.server.config import ArchiveConfig
from flask_ibi_archive.server.http.transport import HttpResponse, fetch

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The timeout in seconds for one answer. Before the answer, the resolver calls the Archive back.
ANSWER_TIMEOUT = 20
#: The number of seconds in which a request is repeated.
DEADLINE = 60
#: The delay in seconds before the second attempt, and the longest delay before a later attempt.
FIRST_DELAY, LONGEST_DELAY = 1.0, 16.0

KEY_EXPECTED = "a registration key; flask ibi generate-key prints a random registration key"
IP_EXPECTED = "the Archive's IPv4 or IPv6 address, such as 150.163.34.243"
EMAIL_EXPECTED = "the e-mail address of the Archive's administrator, such as banon@dpi.inpe.br"


@dataclass(frozen=True, slots=True)
class RegistrationResult:
    """The result of an inclusion or exclusion request.

    :param tries: the number of attempts.
    :param not_stored: the reason why the result could not be stored in the database. None if the
        result was stored.
    """

    status: inclusion.RegistrationStatus
    tries: int
    not_stored: str | None = None


def generate_key() -> str:
    """Return a random registration key: two numbers of sixteen digits ([R] Table 5.1)."""
    numbers = [secrets.randbelow(9 * 10**15) + 10**15 for _ in range(2)]
    return f"{numbers[0]}-{numbers[1]}"


def build_request(archive: Archive, subject: str) -> inclusion.RegistrationRequest:
    """Return an inclusion or exclusion request with the values of the settings.

    :raises ConfigError: if a setting is missing. The error names the first missing setting.
    :raises NotReady: if the Archive does not exist yet.
    """
    config, further = archive.config, {}
    if subject == inclusion.INCLUSION_REQUEST:
        further["database"] = archive.served().database
        with suppress(errors.ConfigError):  # an Archive that can't mint has no prefixes
            further["mints"] = " ".join(config.check_minting())
    return inclusion.RegistrationRequest(
        subject=subject,
        key=required_key(config),
        ip=require_setting(config.archive_ip, "IBI_ARCHIVE_IP", IP_EXPECTED),
        admin_email=require_setting(
            config.archive_admin_email, "IBI_ARCHIVE_ADMIN_EMAIL", EMAIL_EXPECTED
        ),
        address=config.archive_address,
        service_ibi=parse_identifier(archive.served().service_ibi),
        platform_version=config.archive_platform_version,
        **further,
    )


def required_key(config: ArchiveConfig) -> str:
    """Return the registration key of the settings.

    :raises ConfigError: if IBI_REGISTRATION_KEY is not set.
    """
    return require_setting(config.registration_key, "IBI_REGISTRATION_KEY", KEY_EXPECTED)


def require_setting(value: str | None, key: str, expected: str) -> str:
    """Return the value of a setting.

    :param expected: a description of the value.
    :raises ConfigError: if the value is None.
    """
    if value is None:
        raise errors.ConfigError(key, None, expected)
    return value


def backoff(chance: Callable[[], float]) -> Iterator[float]:
    """Yield the delay in seconds before each retry. Each delay is about twice the previous delay.

    tenacity would replace only this function, not the loops with their deadline and Retry-After.

    :param chance: returns a random number from 0 to 1. If several Archives fail at the same time,
        the random numbers make these Archives retry at different times.
    """
    delay = FIRST_DELAY
    while True:
        yield delay * (0.5 + chance() / 2)
        delay = min(2 * delay, LONGEST_DELAY)


def _ignore(error: errors.ResolverError, delay: float) -> None:
    pass


@dataclass
class Registrar:
    """Requests the inclusion or the exclusion of the Archive, and stores the result.

    :param fetch: sends an HTTP request and returns the response.
    :param clock: returns the time in seconds.
    :param wait: waits for a number of seconds.
    :param now: returns the current time.
    :param chance: returns a random number from 0 to 1.
    :param on_retry: called before each retry with the error and the seconds until the retry.
    """

    archive: Archive
    fetch: Callable[..., HttpResponse] = fetch
    clock: Callable[[], float] = monotonic
    wait: Callable[[float], object] = field(default_factory=lambda: Event().wait)
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    chance: Callable[[], float] = random.random
    on_retry: Callable[[errors.ResolverError, float], None] = _ignore

    def include(self, *, moved: bool = False) -> RegistrationResult:
        """Request the inclusion of the Archive.

        After the inclusion, the resolver asks the Archive about items. An Archive that is already
        included may send this request again.

        :param moved: True if the Archive has moved to another address or IP. Then the settings may
            differ from the registered address and IP.
        :raises ConfigError: if a setting is missing. No request was sent.
        :raises RegistrationError: if address or IP differ from the registered address or IP. No
            request was sent.
        :raises ResolverError: if the resolver refuses the request, cannot be reached within
            :data:`DEADLINE`, or sends an answer that is not valid.
        Source: [R] 5.2, Example 5.2.
        """
        return self._request(inclusion.INCLUSION_REQUEST, moved)

    def exclude(self, *, moved: bool = False) -> RegistrationResult:
        """Request the exclusion of the Archive. See :meth:`include`.

        The Archive stays registered, but the resolver does not ask the Archive any more.

        Source: [R] 5.2, Example 5.3.
        """
        return self._request(inclusion.EXCLUSION_REQUEST, moved)

    def _request(self, subject: str, moved: bool) -> RegistrationResult:
        """Send an inclusion or exclusion request, and store the result; see :meth:`include`."""
        archive = self.archive
        request = build_request(archive, subject)
        archive_id = archive.served().id
        known = archive.database.read(
            lambda connection: registration_state.find_registration(connection, archive_id)
        )
        if known is not None and not moved:
            difference = registration_state.find_move(known, archive.config)
            if difference is not None:
                raise difference
        outcome, tries = self._send(request)
        not_stored = self._store(archive_id, request, outcome)
        if isinstance(outcome, errors.ResolverError):
            raise outcome
        archive.notifier.send_registration(
            "archive",
            outcome.confirmed if subject == inclusion.INCLUSION_REQUEST else None,
            request.service_ibi.text,
            request.address,
            registration_state.shown_url(archive.config),
        )
        return RegistrationResult(outcome, tries, not_stored)

    def _send(
        self, request: inclusion.RegistrationRequest
    ) -> tuple[inclusion.RegistrationStatus | errors.ResolverError, int]:
        """Send a request, and repeat the request after a temporary error until the deadline.

        :returns: the status or the error, and the number of attempts.
        """
        deadline = self.clock() + DEADLINE
        for tries, delay in enumerate(backoff(self.chance), 1):
            outcome = self._send_once(request, deadline - self.clock())
            if not isinstance(outcome, errors.ResolverError) or not outcome.passing:
                return outcome, tries
            pause = max(delay, outcome.retry_after or 0)
            if self.clock() + pause >= deadline:
                return outcome, tries
            self.on_retry(outcome, pause)
            self.wait(pause)
        raise AssertionError("backoff() never ends")

    def _send_once(
        self, request: inclusion.RegistrationRequest, left: float
    ) -> inclusion.RegistrationStatus | errors.ResolverError:
        """Send a request once, and return the status or the error.

        :param left: the number of seconds until the deadline.
        """
        endpoint = Endpoint(registration_state.shown_url(self.archive.config))
        try:
            answer = self.fetch(
                self.archive.config.resolver_url,
                inclusion.format_registration_request(request),
                seconds=min(left, ANSWER_TIMEOUT),
                limit=MAX_ANSWER,
                inner_hosts=None,
            )
            answer = _without_key(answer, request.key)
            return read_answer(request.subject, endpoint, answer, self.now())
        except errors.TransportError as error:
            return endpoint.explain_failure(error)
        except errors.ResolverError as error:
            return error

    def _store(
        self,
        archive_id: int,
        request: inclusion.RegistrationRequest,
        outcome: inclusion.RegistrationStatus | errors.ResolverError,
    ) -> str | None:
        """Store the outcome of a request.

        :returns: None, or the reason why the outcome could not be stored.
        """
        now = self.now()
        url = registration_state.shown_url(self.archive.config)
        try:
            with self.archive.database.writing() as connection:
                if isinstance(outcome, errors.ResolverError):
                    registration_state.store_failure(connection, archive_id, url, str(outcome), now)
                else:
                    registration_state.store_status(
                        connection,
                        archive_id,
                        url,
                        request.address,
                        request.ip,
                        included=request.subject == inclusion.INCLUSION_REQUEST,
                        confirmed=outcome.confirmed,
                        now=now,
                    )
        except errors.NotReady as error:
            return str(error)
        return None


def _without_key(answer: HttpResponse, key: str) -> HttpResponse:
    """Return an answer in which the registration key is replaced by asterisks.

    A resolver may repeat the request, which contains the key, in its answer. Errors show parts of
    the answer, but must not show the key.
    """
    return replace(
        answer,
        body=answer.body.replace(key.encode(), b"***"),
        headers={name: value.replace(key, "***") for name, value in answer.headers.items()},
    )


def registration_email(archive: Archive) -> tuple[str, str]:
    """Return the subject and the body of the e-mail that requests registration with a resolver.

    :raises ConfigError: if IBI_REGISTRATION_KEY is not set.
    :raises NotReady: if the Archive does not exist yet.
    Source: [R] 5.1, Example 5.1.
    """
    key = required_key(archive.config)
    return inclusion.build_registration_email(parse_identifier(archive.served().service_ibi), key)
