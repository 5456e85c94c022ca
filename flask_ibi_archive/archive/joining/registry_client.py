"""The client of the document registry of a resolver ([P] 4), and the registration of an item.

An Archive that uses such a registry is an actor. Each request has the actor's password. Therefore a
request is sent by POST, and no error and no log contains the request.

The registration contains the URLs that the Archive returns for a reader whose IP address is in no
network of an access rule, because the registry gives every reader the same URLs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeVar

from flask_ibi_archive import errors
from flask_ibi_archive.archive.items.identifiers import find_held
from flask_ibi_archive.archive.joining.resolver_answer import REPORT, Endpoint
from flask_ibi_archive.core.identifiers import Identifier, parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.pairs import encode_word
from flask_ibi_archive.core.protocol.query_strings import format_query_string
from flask_ibi_archive.core.protocol.registry_2008 import model, registry_messages
from flask_ibi_archive.core.protocol.relations import EMPTY, Relation, parse_relation
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import answer_url_request
from flask_ibi_archive.core.records.fields import parse_timestamp
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.server.config import ArchiveConfig
from flask_ibi_archive.server.http import transport

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

Answer = TypeVar(
    "Answer",
    registry_messages.RegisteredActor,
    registry_messages.RegisteredDocument,
    registry_messages.Confirmation,
    model.DocumentRecord,
)

#: The timeout in seconds for one answer. The resolver may look up the host of an actor first.
ANSWER_TIMEOUT = 20
#: The largest number of bytes of an answer that are read: a record with the URLs of many actors.
MAX_ANSWER = 2**20

URL_EXPECTED = "the address of the resolver's registry, such as http://urlib.net/ibi/registry"
ACTOR_EXPECTED = (
    "the actorID of this Archive, such as dpi.inpe.br/banon/2001/01.11.16.21; "
    "flask ibi registry register-actor prints it"
)
#: The IP address of a reader who is in no network. It is reserved for documentation (RFC 5737).
ANY_READER = "192.0.2.1"

#: The URL of a target of a relation, and the date of the last change of the target.
_DatedUrl = tuple[str, datetime]


@dataclass
class RegistryClient:
    """Sends the requests of an actor to the registry of a resolver.

    :param fetch: sends an HTTP request and returns the response.
    :param now: returns the current time.
    :ivar url: the URL of the registry.
    :raises ConfigError: if IBI_REGISTRY_URL is not set.
    """

    config: ArchiveConfig
    fetch: Callable[..., transport.HttpResponse] = transport.fetch
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)

    def __post_init__(self) -> None:
        if self.config.registry_url is None:
            raise errors.ConfigError("IBI_REGISTRY_URL", None, URL_EXPECTED)
        self.url = self.config.registry_url

    @property
    def actor_id(self) -> str:
        """The actorID of this Archive.

        :raises ConfigError: if IBI_REGISTRY_ACTOR_ID is not set.
        """
        if self.config.registry_actor_id is None:
            raise errors.ConfigError("IBI_REGISTRY_ACTOR_ID", None, ACTOR_EXPECTED)
        return self.config.registry_actor_id.text

    def send(self, request: model.RegistryRequest, expected: type[Answer]) -> Answer:
        """Send a request, and return the answer.

        :param expected: the class of the answer.
        :raises DocumentRegistryError: if the resolver refuses the request.
        :raises ResolverError: if the resolver cannot be reached or its answer is not valid.
        Source: [P] 4.1 to 4.7.
        """
        endpoint = Endpoint(
            transport.without_password(self.url),
            "IBI_REGISTRY_URL",
            URL_EXPECTED,
            "an answer of the registry",
            MAX_ANSWER,
            repeatable=False,
        )
        outcome = self._send(request, endpoint)
        if isinstance(outcome, expected):
            return outcome
        if isinstance(outcome, errors.ResolverError | errors.DocumentRegistryError):
            # :meth:`_send` returns the error instead of raising it in an except clause, because
            # the context of the error could contain the passwords.
            raise outcome
        reason = f"sends the answer to another request ({type(outcome).__name__})"
        raise errors.ResolverError(endpoint.url, reason, REPORT)

    def _send(
        self, request: model.RegistryRequest, endpoint: Endpoint
    ) -> registry_messages.RegistryAnswer | errors.ResolverError | errors.DocumentRegistryError:
        """Send a request, and return the answer or an error, neither of which shows a password."""
        try:
            answer = self.fetch(
                self.url,
                form=format_query_string(registry_messages.format_registry_request(request)),
                seconds=ANSWER_TIMEOUT,
                limit=endpoint.limit,
                inner_hosts=None,
            )
        except errors.TransportError as error:
            return endpoint.explain_failure(error)
        outcome = self._read(endpoint, answer)
        if isinstance(
            outcome,
            errors.ResolverError | errors.DocumentRegistryError | registry_messages.Confirmation,
        ):
            shown = f"{answer.headers}{answer.text}"
            if any(password in shown for password in list_passwords(request)):
                return _hide_text(endpoint, outcome)
        return outcome

    def _read(
        self, endpoint: Endpoint, answer: transport.HttpResponse
    ) -> registry_messages.RegistryAnswer | errors.ResolverError | errors.DocumentRegistryError:
        """Return the answer of the registry that a response contains, or an error."""
        if 300 <= answer.status < 400:
            return endpoint.explain_redirect(answer)
        if not answer.complete:
            return endpoint.explain_size()
        reason = ""
        try:
            parsed = registry_messages.parse_registry_answer(answer.body)
            if answer.status < 400:
                return parsed
        except errors.DocumentRegistryError as error:
            message = transport.make_printable(str(error), limit=MAX_ANSWER)
            return _refuse(endpoint, error, f"refuses the request: {message}")
        except errors.PeerProtocolError as error:
            reason = str(error)
        if answer.status >= 400:
            return endpoint.explain_status(answer, self.now())
        return endpoint.explain_text(answer, reason)


def _refuse(
    endpoint: Endpoint, error: errors.DocumentRegistryError, text: str
) -> errors.DocumentRegistryError:
    return errors.DocumentRegistryError(
        error.code, f"the resolver {endpoint.url} {text}", error.retry_after
    )


def _hide_text(
    endpoint: Endpoint,
    outcome: errors.ResolverError | errors.DocumentRegistryError | registry_messages.Confirmation,
) -> errors.ResolverError | errors.DocumentRegistryError | registry_messages.Confirmation:
    """Return an outcome without the text of an answer that contains a password."""
    if isinstance(outcome, registry_messages.Confirmation):
        return registry_messages.Confirmation("the resolver has carried out the request")
    hidden = "the message is not shown, because it contains a password of the request"
    if isinstance(outcome, errors.DocumentRegistryError):
        return _refuse(endpoint, outcome, f"refuses the request ({outcome.code}); {hidden}")
    return errors.ResolverError(
        endpoint.url, f"sends no valid answer; {hidden}", endpoint.wrong_url
    )


def list_passwords(request: model.RegistryRequest) -> tuple[str, ...]:
    """Return the passwords that a request contains."""
    if isinstance(request, model.RegisterActor):
        return (request.password,)
    if isinstance(request, model.ChangePassword):
        return request.credentials.password, request.new_password
    return (request.credentials.password,)


def build_registration(
    archive: Archive, ibi: str, credentials: model.Credentials, *, allows_original: bool = True
) -> model.RegisterDocument:
    """Return the request that registers an item with the registry of a resolver.

    :param ibi: any identifier of the item. It becomes the documentID.
    :param allows_original: False if an item in the state Original is not registered as the
        original, because the actor does not hold the copyright.
    :raises IdentifierError: if the text is not an identifier.
    :raises UnknownItem: if no item of this Archive has the identifier.
    :raises StorageError: if the item is deleted.
    :raises StorageError: if the identifier is only reserved, or if the item has no URL for all
        readers.
    Source: [P] 4.4.
    """
    identifier = parse_identifier(ibi)
    item = archive.get(identifier.text)
    if item is None:
        raise _explain_unknown(archive, identifier.text)
    state = item.record.state
    if state == State.DELETED.value:
        raise errors.StorageError(
            f"{identifier} has the state {state}: it can't be registered; only an item that is "
            "Original or Copy can"
        )
    location = locate_document(archive, identifier, item)
    if location.url is None and not location.metadata:
        raise errors.StorageError(
            f"{identifier} can't be registered: it has no URL for all readers"
            f"{_explain_hidden(item)}"
        )
    is_original = allows_original and state == State.ORIGINAL.value
    return model.RegisterDocument(credentials, location, identifier.text, is_original)


def _explain_unknown(archive: Archive, ibi: str) -> errors.StorageError:
    archive_id = archive.served().id
    if archive.database.read(lambda connection: find_held(connection, archive_id, [ibi])):
        return errors.StorageError(
            f"{ibi} can't be registered: it is reserved for a draft; deposit the draft first"
        )
    return errors.UnknownItem(ibi)


def _explain_hidden(item: ItemView) -> str:
    if item.embargo is not None:
        return f" before {item.embargo}, the end of its embargo"
    rule = item.record.access
    return "" if rule is None else ", because its access rule excludes most of them"


def locate_document(
    archive: Archive, identifier: Identifier, item: ItemView
) -> model.DocumentLocation:
    """Return the URLs of an item and its metadata for all readers, and its other editions.

    The other editions are stated as persistent URLs, because they may be in any Archive.
    """
    urls = _list_urls(archive, identifier) if item.shows_itself(ANY_READER) else {}
    # readers who may not read the files get the URL of the metadata instead of the item's URL
    url, updated_at = urls.get(EMPTY, (None, None)) if item.allows(ANY_READER) else (None, None)
    return model.DocumentLocation(
        url=url,
        updated_at=updated_at,
        metadata=_list_metadata(urls),
        previous_edition_url=_persistent_url(archive, _find_previous_edition(item)),
        next_edition_url=_persistent_url(archive, _find_next_edition(archive, item)),
    )


def _list_urls(archive: Archive, identifier: Identifier) -> dict[Relation, _DatedUrl]:
    """Return the URL of each relation of an item that the Archive answers."""
    facts = replace(archive.facts(), filter_url_list=False)
    request = UrlRequest(identifier, (ANY_READER,))
    pairs = dict(
        archive.read_catalogue(
            lambda catalogue: answer_url_request(catalogue, request, facts, lambda item: "")
        )
    )
    urls = {}
    for name, url in pairs.items():
        if name == "url" or name.startswith("url."):
            relation = name.removeprefix("url")
            timestamp = parse_timestamp("timestamp", pairs[f"timestamp{relation}"])
            urls[parse_relation(relation)] = encode_word(str(url)), timestamp
    return urls


def _list_metadata(urls: Mapping[Relation, _DatedUrl]) -> tuple[model.MetadataLocation, ...]:
    """Return the URLs of the metadata, of its formats, and of the translations of the metadata.

    Each URL occurs once for each format, if possible with its language.
    """
    locations: dict[tuple[str, str | None], model.MetadataLocation] = {}
    relations = [relation for relation in urls if relation.shape in ("m", "mt")]
    for relation in sorted(relations, key=lambda each: (len(each.steps), each.name)):
        url, updated_at = urls[relation]
        metadata, *translation = relation.steps
        language = translation[0].parameter if translation else None
        known = locations.get((url, metadata.parameter))
        if known is None or (known.language is None and language is not None):
            locations[url, metadata.parameter] = model.MetadataLocation(
                url, updated_at, metadata.parameter, language
            )
    return tuple(locations.values())


def _persistent_url(archive: Archive, ibi: str | None) -> str | None:
    return None if ibi is None else archive.persistent_url(ibi)


def _find_next_edition(archive: Archive, item: ItemView) -> str | None:
    """Return an identifier of the next edition that is not deleted; None if there is none."""
    ibi, seen = item.record.next_edition, set(item.record.identifiers)
    while ibi is not None and ibi not in seen:  # the catalogue of a host may contain a circle
        seen.add(ibi)
        following = archive.get(ibi)
        if following is None or following.record.state != State.DELETED.value:
            return ibi
        ibi = following.record.next_edition
    return None


def _find_previous_edition(item: ItemView) -> str | None:
    """Return an identifier of the previous edition that is not deleted.

    :returns: None if there is none, or if the items are in the catalogue of the host. Such a
        catalogue states next editions only.
    """
    earlier = [other for other in item.related if other.kind == "earlier_edition"]
    return next((other.ibi for other in reversed(earlier) if not other.is_removed), None)
