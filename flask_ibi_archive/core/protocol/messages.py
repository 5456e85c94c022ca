"""The three requests to an Archive: parsing, formatting, and the text of the answer.

- A urlRequest asks for the URL list of an item. The list contains the URLs of the item and of
  related items.
- An acknowledgment reports that the resolver redirected a user to a URL of the URL list.
- An inclusionConfirmationRequest asks if the Archive wants to be included.

The module ``inclusion`` contains the requests of an Archive to a resolver: inclusionRequest and
exclusionRequest.

The resolver formats requests, and the Archive parses them.
Source: [R] Tables 5.2 (inclusion), 6.9 and 6.11; 7.2, Algorithm 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flask_ibi_archive.core.identifiers.grammar import Form, Identifier
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import inclusion, relations
from flask_ibi_archive.core.protocol.hosts import CLIENT_ADDRESSES, parse_client_addresses
from flask_ibi_archive.core.protocol.pairs import (
    NOTICE,
    REPEATED,
    SERVICE_SUBJECT,
    find_repeated,
    format_pairs,
    format_query_string,
    refuse_subject,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import PeerProtocolError

#: Maximum length of a query string in bytes. The Archive answers a longer query with status 414.
MAX_QUERY = 8192

URL_REQUEST = "urlRequest"
ACKNOWLEDGMENT = "acknowledgment"

REQUESTED_IBI = "parsedibiurl.ibi"
FILE_PATH = "parsedibiurl.filepath"
VERB_LIST = "parsedibiurl.verblist"
CONTENT_TYPE = "contenttype"
STATE = "state"
URL = "url"
PERSISTENT_URL = "url.persistent"
URL_KEY = "urlkey"
IBI = "ibi"

#: The pairs whose values are URLs or paths. %XX in such a value is not encoded again.
URL_PAIRS = frozenset({URL, PERSISTENT_URL, FILE_PATH})

CONTENT_TYPES = frozenset({"Data", "Metadata"})
#: The states of items that can be delivered ([R] Table 6.11).
DELIVERED_STATES = frozenset({State.ORIGINAL.value, State.COPY.value})


#: The subjects of the requests that an Archive answers.
SUBJECTS = (URL_REQUEST, ACKNOWLEDGMENT, inclusion.INCLUSION_CONFIRMATION_REQUEST)


@dataclass(frozen=True, slots=True)
class UrlRequest:
    """The request of the resolver for the URL list of an item.

    :param ibi: the requested identifier.
    :param client_addresses: IP addresses in canonical text. The first address is the address of the
        user. The addresses of the proxies follow.
    :param filepath: the path of the requested file, decoded once. The path may begin with "/". ""
        means that the user requested no path.
    :param verbs: the verb list. The verbs request a related item, such as the last edition.
    Source: [R] Table 6.9; 7.2, Algorithm 1.
    """

    ibi: Identifier
    client_addresses: tuple[str, ...]
    filepath: str = ""
    verbs: relations.VerbList = relations.NO_VERBS


@dataclass(frozen=True, slots=True)
class Acknowledgment:
    """The report of the resolver that it redirected a user to a URL.

    The Archive counts the access. An attribute is None if the pair is missing, wrong or repeated.

    :param client_addresses: as in :class:`UrlRequest`.
    :param content_type: Data or Metadata.
    :param state: Original or Copy.
    :param url: the delivered URL, decoded once.
    :param persistent_url: the requested persistent URL, decoded once.
    :param url_key: the URL key. With this key, the Archive recognises its own URL list. The parser
        checks only the syntax of the key.
    :param ibi: the identifiers of the delivered item, the repository name first.
    :param wrong: the names of the pairs that are wrong or repeated.
    Source: [R] Table 6.11.
    """

    client_addresses: tuple[str, ...] | None = None
    content_type: str | None = None
    state: str | None = None
    url: str | None = None
    persistent_url: str | None = None
    url_key: str | None = None
    ibi: tuple[Identifier, ...] | None = None
    wrong: frozenset[str] = field(default=frozenset(), compare=False)


Request: TypeAlias = inclusion.InclusionConfirmationRequest | UrlRequest | Acknowledgment


def parse_request(pairs: Sequence[tuple[str, str]]) -> Request:
    """Parse a request.

    The subject of the request is the value of servicesubject, such as ``urlRequest``. The function
    ignores pairs that do not belong to the subject. A wrong pair of an acknowledgment raises no
    error. Instead, the attribute for this pair is None.

    :param pairs: the result of :func:`.decode_query_string`.
    :raises PeerProtocolError: if servicesubject is not one of the three subjects, if a required
        pair is missing or empty, if a pair of the subject appears more than once, or if the IBI,
        the addresses or the verb list are wrong.
    Source: [R] 7.2, Algorithm 1; Tables 6.9 and 6.11.
    """
    values, repeated = dict(pairs), find_repeated(pairs)
    if SERVICE_SUBJECT in repeated:
        raise PeerProtocolError(REPEATED.format(SERVICE_SUBJECT))
    subject = values.get(SERVICE_SUBJECT)
    if not subject:
        raise PeerProtocolError(f"{SERVICE_SUBJECT} is missing")
    if subject == URL_REQUEST:
        return _parse_url_request(values, repeated)
    if subject == ACKNOWLEDGMENT:
        return _parse_acknowledgment(values, repeated)
    if subject == inclusion.INCLUSION_CONFIRMATION_REQUEST:
        return inclusion.InclusionConfirmationRequest()
    raise refuse_subject(subject, SUBJECTS)


def _parse_url_request(values: Mapping[str, str], repeated: set[str]) -> UrlRequest:
    for name in (REQUESTED_IBI, CLIENT_ADDRESSES, FILE_PATH, VERB_LIST):
        if name in repeated:
            raise PeerProtocolError(REPEATED.format(name))
    for name in (REQUESTED_IBI, CLIENT_ADDRESSES):
        if not values.get(name):
            raise PeerProtocolError(f"{name} is missing")
    name = REQUESTED_IBI  # an error message names the pair that is wrong
    try:
        ibi = parse_identifier(values[REQUESTED_IBI])
        name = CLIENT_ADDRESSES
        client_addresses = parse_client_addresses(values[CLIENT_ADDRESSES])
        name = VERB_LIST
        verbs = relations.parse_verb_list(values.get(VERB_LIST, ""))
    except ValueError as exc:
        raise PeerProtocolError(f"{name}: {exc}") from exc
    return UrlRequest(ibi, client_addresses, values.get(FILE_PATH, ""), verbs)


def _parse_acknowledgment(values: Mapping[str, str], repeated: set[str]) -> Acknowledgment:
    found: dict[str, Any] = {}
    wrong = set()
    for name, (attribute, parse) in _ACKNOWLEDGMENT_PAIRS.items():
        if name in repeated:
            wrong.add(name)
        elif text := values.get(name):
            try:
                found[attribute] = parse(text)
            except ValueError:
                wrong.add(name)
    return Acknowledgment(**found, wrong=frozenset(wrong))


def parse_ibi_forms(words: Sequence[str]) -> tuple[Identifier, ...]:
    """Parse the value of an ``ibi`` pair. The value contains one or two identifiers.

    :param words: ``rep R``, ``ibip I`` or both in any order. R is a repository name. I is an IBIp
        or a legacy identifier. The function ignores empty words.
    :returns: one or two identifiers, the repository name first.
    :raises ValueError: if the words are wrong.
    Source: [R] Table 7.4.
    """
    found: dict[str, Identifier] = {}
    rest = iter([word for word in words if word])
    for form in rest:  # forms and identifiers alternate
        text = next(rest, "")
        if form not in ("rep", "ibip") or form in found or not text:
            raise ValueError(
                f"{' '.join(words)[:300]!a} is not a list of forms; the list "
                'should be "rep R", "ibip I" or "rep R ibip I"'
            )
        identifier = parse_identifier(text)
        if name_form(identifier) != form:
            raise ValueError(
                f"{text!a} follows the word {form}, but is an identifier of another form"
            )
        found[form] = identifier
    if not found:
        raise ValueError("the list of forms has no identifier")
    return tuple([found[form] for form in ("rep", "ibip") if form in found])


def _parse_ibi(text: str) -> tuple[Identifier, ...]:
    # Some resolvers send the value in braces, as in a list of pairs.
    bare = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    return parse_ibi_forms(bare.split(" "))


_parse_web_url = inclusion.create_parser(
    re.compile(r"https?://[^\s/?#]", re.ASCII | re.IGNORECASE).match, "an http or https URL"
)
#: The attribute for each pair of an acknowledgment, and the parser of the value.
_ACKNOWLEDGMENT_PAIRS: dict[str, tuple[str, Callable[[str], object]]] = {
    CLIENT_ADDRESSES: ("client_addresses", parse_client_addresses),
    CONTENT_TYPE: (
        "content_type",
        inclusion.create_parser(CONTENT_TYPES.__contains__, "a content type"),
    ),
    STATE: ("state", inclusion.create_parser(DELIVERED_STATES.__contains__, "Original or Copy")),
    URL: ("url", _parse_web_url),
    PERSISTENT_URL: ("persistent_url", _parse_web_url),
    URL_KEY: ("url_key", inclusion.parse_key),
    IBI: ("ibi", _parse_ibi),
}


def name_form(identifier: Identifier) -> str:
    """Return the word that precedes an identifier in an ``ibi`` value: ``rep`` or ``ibip``."""
    return "rep" if identifier.form is Form.REP else "ibip"


def list_ibi_words(rep: str | None = None, ibip: str | None = None) -> tuple[str, ...]:
    """Return the words of an ``ibi`` value, such as ("rep", R, "ibip", I) ([R] Table 7.4).

    An identifier that is None or empty is left out.
    """
    if rep is None:
        return ("ibip", ibip) if ibip is not None else ()
    return ("rep", rep) if ibip is None else ("rep", rep, "ibip", ibip)


def format_request(request: Request) -> str:
    """Return the query string of a request, with the pairs sorted by name.

    :param request: the request. %XX in the filepath and in the URLs is not encoded again.
    :returns: ASCII text without the "?". Attributes that are None or empty are omitted.
    Source: [R] 4.1; Examples 4.1, 6.9, 8.1 and 8.2.
    """
    values: dict[str, str | None]
    if isinstance(request, UrlRequest):
        values = {
            SERVICE_SUBJECT: URL_REQUEST,
            CLIENT_ADDRESSES: " ".join(request.client_addresses),
            REQUESTED_IBI: request.ibi.text,
            FILE_PATH: request.filepath,
            VERB_LIST: relations.format_verb_list(request.verbs),
        }
    elif isinstance(request, Acknowledgment):
        forms = {name_form(identifier): identifier.text for identifier in request.ibi or ()}
        values = {
            name: getattr(request, attribute)
            for name, (attribute, _) in _ACKNOWLEDGMENT_PAIRS.items()
        }
        values |= {
            SERVICE_SUBJECT: ACKNOWLEDGMENT,
            CLIENT_ADDRESSES: " ".join(request.client_addresses or ()),
            IBI: " ".join(list_ibi_words(**forms)),
        }
    else:
        values = {SERVICE_SUBJECT: inclusion.INCLUSION_CONFIRMATION_REQUEST}
    pairs = [(name, value) for name, value in sorted(values.items()) if value]
    return format_query_string(pairs, URL_PAIRS)


def build_response(
    request: Request,
    list_urls: Callable[[UrlRequest], Iterable[tuple[str, str | Sequence[str]]]],
    take_acknowledgment: Callable[[Acknowledgment], object] = lambda acknowledgment: None,
) -> str:
    """Answer a request: return the text of a list of pairs.

    :param list_urls: returns the URL list for a urlRequest.
    :param take_acknowledgment: stores an acknowledgment. The result of this function is ignored.
    Source: [R] 7.2, Algorithm 1 (MONTARRESPOSTA).
    """
    if isinstance(request, UrlRequest):
        return format_pairs(list_urls(request))
    if isinstance(request, Acknowledgment):
        take_acknowledgment(request)
        return format_pairs([(NOTICE, "acknowledgment received")])
    return inclusion.CONFIRMATION


@dataclass(frozen=True, slots=True)
class Agents:
    """The User-Agent headers of the programs that caused an acknowledgment.

    :param sender: the User-Agent of the program that sent the request, usually the resolver.
    :param reader: the User-Agent of the reader's browser, if the resolver sends it.
    """

    sender: str | None = None
    reader: str | None = None


NO_AGENTS = Agents()
