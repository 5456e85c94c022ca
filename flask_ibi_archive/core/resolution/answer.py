"""The content of an Archive's answer: the URL and the identifier of each relation ([R] 7.2).

Archives are not trusted: the URLs that they return are checked (RFC 3986, 3.2; [R] 6.2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from flask_ibi_archive.core.identifiers.grammar import Identifier
from flask_ibi_archive.core.protocol import hosts, messages
from flask_ibi_archive.core.protocol.inclusion import is_key
from flask_ibi_archive.core.protocol.pairs import ALERT, Pair, encode_word, parse_pairs
from flask_ibi_archive.core.protocol.relations import Step, VerbList, parse_relation, step_matches
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import NEXT_EDITION
from flask_ibi_archive.errors import PeerProtocolError

#: Maximum number of characters in a URL.
MAX_URL = 8192

# matches the scheme, host and port of a URL; a URL with a user name or password does not match
_URL = re.compile(
    r"(https?)://([^\[\]/?#:@]+|\[[^\]]*\])(?::([0-9]{0,5}))?(?=[/?#]|\Z)", re.IGNORECASE
)
# matches the host with its port, and the path; urlsplit() checks more, and is ten times as slow
_HOST_AND_PATH = re.compile("https?://([^/?#]*)([^?#]*)", re.IGNORECASE)
_CONTROL = re.compile("[\0-\x1f\x7f]")
_PORTS = {"http": "80", "https": "443"}
# a content type that may be shown: others may contain text of the request
_is_content_type = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}").fullmatch


def find_usable_url(
    words: Sequence[str], address: str | None, inner_hosts: hosts.InnerHosts = hosts.NO_INNER_HOSTS
) -> str | None:
    """Return the URL in the value of a pair, or None if a redirect to the URL is not allowed.

    :param words: the words in the value of the pair ``url``. A valid value is a single word.
    :param address: the host and port of the Archive, as registered at the resolver. This host is
        allowed. All other internal hosts are refused, because an Archive must not redirect readers
        into a private network. If ``address`` is None, the Archive is trusted and every host is
        allowed.
    :param inner_hosts: the internal hosts that are allowed for every Archive.
    :returns: the URL in ASCII, with all other characters percent-encoded; or None.
    """
    if len(words) != 1 or len(words[0]) > MAX_URL or _CONTROL.search(words[0]):
        return None
    match = _URL.match(words[0])
    if match is None or not hosts.is_host(match[2]):
        return None
    if not 0 < int(match[3] or 80) <= hosts.MAX_PORT:
        return None
    host = match[2].rstrip(".").lower()
    if address is not None:
        # most URLs have the address of the Archive, which is compared fast
        is_allowed = (
            _has_address(host, match, address) or hosts.is_public_host(host) or host in inner_hosts
        )
        if not is_allowed:
            return None
    url = encode_word(words[0])
    return url if len(url) <= MAX_URL else None


def _has_address(host: str, url: re.Match[str], address: str) -> bool:
    """Return whether a URL has the same host and port as the address of an Archive.

    If the address has no port, the default port for the scheme of the URL is used.
    """
    default = _PORTS[url[1].lower()]
    allowed_host, colon, port = address.lower().rpartition(":")
    if not colon or port.endswith("]"):
        allowed_host, port = address.lower(), ""
    return (host, int(url[3] or default)) == (allowed_host.rstrip("."), int(port or default))


def is_same_address(url: str, other: str) -> bool:
    """Return whether two URLs have the same host and path.

    A redirect from one of these URLs to the other would be a loop. Differences in default ports,
    upper and lower case of the host, percent-encoding and the query are ignored.
    """
    parts, others = _HOST_AND_PATH.match(url), _HOST_AND_PATH.match(other)
    if (
        parts is None
        or others is None
        or hosts.normalize_host(parts[1]) != hosts.normalize_host(others[1])
    ):
        return False
    return parts[2] == others[2] or unquote_to_bytes(parts[2]) == unquote_to_bytes(others[2])


#: The steps of a relation: all steps, or only the first steps.
Steps = tuple[Step, ...]

#: Maximum number of characters of a pair name. The longest relation has 75 characters, not counting
#: the name of a metadata format.
MAX_NAME = 256

_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """The Archive, or the actor of the document registry, from which an answer comes.

    :param service: the IBI of the Archive's service, or the IBI of the actor.
    :param address: the host and port of the Archive or actor, as registered at the resolver.
    :param is_own: whether the Archive runs in this process. Its URLs are then trusted.
    :param is_actor: whether the source is an actor ([P] 4).
    """

    service: str
    address: str
    is_own: bool = False
    is_actor: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one item. The question is sent to every Archive.

    :param verbs: the requested relation, and optionally the request for the list of files.
    :param filepath: the path of a file of the item, percent-encoded as in the persistent URL.
    """

    ibi: Identifier
    verbs: VerbList
    filepath: str = ""

    def create_request(self, client_addresses: tuple[str, ...]) -> messages.UrlRequest:
        """Return the urlRequest message for this question.

        :param client_addresses: the IP address of the reader, then the IP addresses of the proxies.
        Source: [R] 6.2, Table 6.9.
        """
        return messages.UrlRequest(self.ibi, client_addresses, self.filepath, self.verbs)


@dataclass(frozen=True, slots=True)
class Answer:
    """The URL list that an Archive returned for a question.

    :param pairs: the words of the value of each pair, by the name of the pair. The mapping is empty
        if the Archive does not know the item.
    :ivar contents: a cache of :func:`parse_answer`, by ``inner_hosts``. A resolution that is
        replayed uses the same answers again.
    """

    source: ArchiveSource
    question: Question
    pairs: Mapping[str, tuple[str, ...]]
    contents: dict[hosts.InnerHosts, AnswerContent] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )


@dataclass(frozen=True, slots=True)
class RelationEntry:
    """The values of an answer for one relation. Unusable values are left out.

    :param content_type: Data or Metadata.
    :param state: Original or Copy.
    :param ibi: the identifiers of the item, the repository name first; () if they are unknown.
    """

    url: str | None = None
    content_type: str | None = None
    state: str | None = None
    ibi: tuple[Identifier, ...] = ()


NO_ENTRY = RelationEntry()


@dataclass(frozen=True, slots=True)
class AnswerContent:
    """The usable content of an answer.

    :param entries: the values for each relation that has a URL or an identifier, by the steps of
        the relation. Only the relation of the question and its beginnings are included. The key ()
        is the item itself.
    :param next_edition: the identifiers of the next edition, the repository name first; or ().
    :param url_key: the URL key. The resolver sends this key in the acknowledgment.
    :param is_tombstone: whether the item was removed. Then there are no entries.
    :param timestamp: the date when the item was removed.
    Source: [R] 7.2, Tables 7.3 to 7.5.
    """

    entries: Mapping[Steps, RelationEntry] = field(default_factory=dict)
    next_edition: tuple[Identifier, ...] = ()
    url_key: str | None = None
    is_tombstone: bool = False
    timestamp: str | None = None


def parse_answer(
    answer: Answer, inner_hosts: hosts.InnerHosts = hosts.NO_INNER_HOSTS
) -> AnswerContent:
    """Return the usable content of an answer. Later calls return the same object.

    Unknown and malformed pairs are ignored.

    :param inner_hosts: the internal hosts to which readers may be redirected.
    """
    if inner_hosts not in answer.contents:
        answer.contents[inner_hosts] = _parse_content(answer, inner_hosts)
    return answer.contents[inner_hosts]


def _parse_content(answer: Answer, inner_hosts: hosts.InnerHosts) -> AnswerContent:
    pairs = answer.pairs
    if pairs.get("state") == (State.DELETED.value,):
        words = pairs.get("timestamp", ())
        is_timestamp = len(words) == 1 and _TIMESTAMP.fullmatch(words[0]) is not None
        return AnswerContent(is_tombstone=True, timestamp=words[0] if is_timestamp else None)
    path = answer.question.verbs.relation.steps
    address = None if answer.source.is_own else answer.source.address
    entries: dict[Steps, RelationEntry] = {}
    for name in pairs:
        prefix, dot, rest = name.partition(".")
        if prefix not in ("url", "ibi") or len(name) > MAX_NAME:
            continue
        try:
            steps = parse_relation(dot + rest).steps
        except ValueError:
            continue
        if len(steps) > len(path) or not all(map(step_matches, path, steps)) or steps in entries:
            continue
        entry = _parse_entry(pairs, dot + rest, address, inner_hosts)
        if entry.url is not None or entry.ibi:
            entries[steps] = entry
    key = pairs.get("urlkey", ())
    return AnswerContent(
        entries,
        _parse_ibi(pairs, NEXT_EDITION) if NEXT_EDITION in pairs else (),
        key[0] if len(key) == 1 and is_key(key[0]) else None,
    )


def _parse_entry(
    pairs: Mapping[str, tuple[str, ...]],
    relation: str,
    address: str | None,
    inner_hosts: hosts.InnerHosts,
) -> RelationEntry:
    return RelationEntry(
        find_usable_url(pairs.get(f"url{relation}", ()), address, inner_hosts),
        _find_word(pairs.get(f"contenttype{relation}", ()), messages.CONTENT_TYPES),
        _find_word(pairs.get(f"state{relation}", ()), messages.DELIVERED_STATES),
        _parse_ibi(pairs, f"ibi{relation}"),
    )


def _find_word(words: Sequence[str], allowed: AbstractSet[str]) -> str | None:
    return words[0] if len(words) == 1 and words[0] in allowed else None


def _parse_ibi(pairs: Mapping[str, tuple[str, ...]], name: str) -> tuple[Identifier, ...]:
    if name not in pairs:
        return ()
    try:
        return messages.parse_ibi_forms(pairs[name])
    except ValueError:
        return ()


def read_answer(status: int, content_type: str, body: bytes) -> list[Pair] | str:
    """Parse an Archive's HTTP answer: return its pairs, or a text that says why it is not accepted.

    An answer with status 200 is accepted. An answer with status 400 is accepted if the answer
    contains an ``alert`` pair: the Archive has rejected the question. Then the result is an empty
    list. An answer without a content type is read as text.
    Source: [R] 6.2, Tables 6.5 and 4.2.
    """
    if 300 <= status < 400:
        return f"redirects (status {status})"
    pairs = _read_pairs(content_type, body) if status in (200, 400) else ""
    if status == 200:
        return pairs
    if isinstance(pairs, list) and any(pair.name == ALERT for pair in pairs):
        return []
    return f"answers with status {status}"


def _read_pairs(content_type: str, body: bytes) -> list[Pair] | str:
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in ("", "text/plain"):
        shown = kind if _is_content_type(kind) else "another content type"
        return f"answers with {shown} instead of text/plain"
    if not body:
        return []
    try:
        return parse_pairs(body)
    except PeerProtocolError as error:
        return f"answers with a malformed pair list (at position {error.position})"
