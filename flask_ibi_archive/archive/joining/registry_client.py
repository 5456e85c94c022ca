"""The client of the document registry of a resolver ([P] 4).

An Archive that uses such a registry is an actor. Each request has the actor's password. Therefore a
request is sent by POST, and no error and no log contains the request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeVar

from flask_ibi_archive.archive.joining.resolver_answer import REPORT, Endpoint
from flask_ibi_archive.core.protocol.query import format_query_string
from flask_ibi_archive.core.protocol.registry_2008.answers import (
    Confirmation,
    RegisteredActor,
    RegisteredDocument,
    RegistryAnswer,
    parse_registry_answer,
)
from flask_ibi_archive.core.protocol.registry_2008.model import (
    ChangePassword,
    DocumentRecord,
    RegisterActor,
    RegistryRequest,
)
from flask_ibi_archive.core.protocol.registry_2008.requests import format_registry_request
from flask_ibi_archive.errors import (
    ConfigError,
    DocumentRegistryError,
    PeerProtocolError,
    ResolverError,
    ResolverFailed,
    TransportError,
)
from flask_ibi_archive.server.config import ArchiveConfig
from flask_ibi_archive.server.http.transport import (
    HttpResponse,
    fetch,
    make_printable,
    without_password,
)

Answer = TypeVar("Answer", RegisteredActor, RegisteredDocument, Confirmation, DocumentRecord)

#: The timeout in seconds for one answer. The resolver may look up the host of an actor first.
ANSWER_TIMEOUT = 20
#: At most this number of bytes of an answer is read: a record with the URLs of many actors.
MAX_ANSWER = 2**20

URL_EXPECTED = "the address of the resolver's registry, such as http://urlib.net/ibi/registry"
ACTOR_EXPECTED = (
    "the actorID of this Archive, such as dpi.inpe.br/banon/2001/01.11.16.21; "
    "flask ibi registry register-actor prints it"
)


@dataclass
class RegistryClient:
    """Sends the requests of an actor to the registry of a resolver.

    :param fetch: sends an HTTP request and returns the response.
    :param now: returns the current time.
    :ivar url: the URL of the registry.
    :raises ConfigError: if IBI_REGISTRY_URL is not set.
    """

    config: ArchiveConfig
    fetch: Callable[..., HttpResponse] = fetch
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)

    def __post_init__(self) -> None:
        if self.config.registry_url is None:
            raise ConfigError("IBI_REGISTRY_URL", None, URL_EXPECTED)
        self.url = self.config.registry_url

    @property
    def actor_id(self) -> str:
        """The actorID of this Archive.

        :raises ConfigError: if IBI_REGISTRY_ACTOR_ID is not set.
        """
        if self.config.registry_actor_id is None:
            raise ConfigError("IBI_REGISTRY_ACTOR_ID", None, ACTOR_EXPECTED)
        return self.config.registry_actor_id.text

    def send(self, request: RegistryRequest, expected: type[Answer]) -> Answer:
        """Send a request, and return the answer.

        :param expected: the class of the answer.
        :raises DocumentRegistryError: if the resolver refuses the request.
        :raises ResolverFailed: if the resolver cannot be reached or its answer is not valid.
        Source: [P] 4.1 to 4.7.
        """
        endpoint = Endpoint(
            without_password(self.url),
            "IBI_REGISTRY_URL",
            URL_EXPECTED,
            "an answer of the registry",
            MAX_ANSWER,
            repeatable=False,
        )
        outcome = self._send(request, endpoint)
        if isinstance(outcome, expected):
            return outcome
        if isinstance(outcome, ResolverError | DocumentRegistryError):
            # not raised in an except clause: the context of the error could contain the passwords
            raise outcome
        reason = f"sends the answer to another request ({type(outcome).__name__})"
        raise ResolverFailed(endpoint.url, reason, REPORT)

    def _send(
        self, request: RegistryRequest, endpoint: Endpoint
    ) -> RegistryAnswer | ResolverError | DocumentRegistryError:
        try:
            answer = self.fetch(
                self.url,
                form=format_query_string(format_registry_request(request)),
                seconds=ANSWER_TIMEOUT,
                limit=endpoint.limit,
                inner_hosts=None,
            )
        except TransportError as error:
            return endpoint.explain_failure(error)
        outcome = self._read(endpoint, answer)
        if isinstance(outcome, ResolverError | DocumentRegistryError | Confirmation):
            shown = f"{answer.headers}{answer.text}"
            if any(password in shown for password in list_passwords(request)):
                return _hide_text(endpoint, outcome)
        return outcome

    def _read(
        self, endpoint: Endpoint, answer: HttpResponse
    ) -> RegistryAnswer | ResolverError | DocumentRegistryError:
        if 300 <= answer.status < 400:
            return endpoint.explain_redirect(answer)
        if not answer.complete:
            return endpoint.explain_size()
        reason = ""
        try:
            parsed = parse_registry_answer(answer.body)
            if answer.status < 400:
                return parsed
        except DocumentRegistryError as error:
            message = make_printable(str(error), limit=MAX_ANSWER)
            return _refuse(endpoint, error, f"refuses the request: {message}")
        except PeerProtocolError as error:
            reason = str(error)
        if answer.status >= 400:
            return endpoint.explain_status(answer, self.now())
        return endpoint.explain_text(answer, reason)


def _refuse(endpoint: Endpoint, error: DocumentRegistryError, text: str) -> DocumentRegistryError:
    return DocumentRegistryError(
        error.code, f"the resolver {endpoint.url} {text}", error.retry_after
    )


def _hide_text(
    endpoint: Endpoint, outcome: ResolverError | DocumentRegistryError | Confirmation
) -> ResolverError | DocumentRegistryError | Confirmation:
    """Return an outcome without the text of an answer that contains a password."""
    if isinstance(outcome, Confirmation):
        return Confirmation("the resolver has carried out the request")
    hidden = "the message is not shown, because it contains a password of the request"
    if isinstance(outcome, DocumentRegistryError):
        return _refuse(endpoint, outcome, f"refuses the request ({outcome.code}); {hidden}")
    return ResolverFailed(endpoint.url, f"sends no valid answer; {hidden}", endpoint.wrong_url)


def list_passwords(request: RegistryRequest) -> tuple[str, ...]:
    """Return the passwords that a request contains."""
    if isinstance(request, RegisterActor):
        return (request.password,)
    if isinstance(request, ChangePassword):
        return request.credentials.password, request.new_password
    return (request.credentials.password,)
