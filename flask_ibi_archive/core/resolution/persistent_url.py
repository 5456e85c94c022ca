"""Persistent URLs: parsing and formatting of the URLs that users cite.

A persistent URL consists of the host name of a resolver or Archive, an IBI, and three optional
parts: a modifier, the path of a file, and a query. The modifier requests a related item, which is
the last edition, a translation or the metadata.

    persistent-url = "http://urlib.net/" IBI [mdf] [path-absolute] ["?" pair *("&" pair)]
    mdf = ([u [t]] | [t [u]]) [m [t]]
    u = "!";  t = "+" ["(" xx ["-" YY] ")"];  m = ":" ["(" format ")"]

Source: [R] 6.1, Tables 6.1 to 6.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from urllib.parse import unquote_to_bytes

from flask_ibi_archive.core.identifiers.grammar import (
    MAX_LENGTH,
    Form,
    Identifier,
    match_identifier,
)
from flask_ibi_archive.core.identifiers.parse import explain_refusal, suggest_identifier
from flask_ibi_archive.core.protocol import relations
from flask_ibi_archive.core.protocol.languages import LanguageRange
from flask_ibi_archive.core.protocol.pairs import decode_query_string, encode_url
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import MalformedPersistentUrl, Reason, RefusedText

#: The maximum length of the text after the host name, in percent-encoded characters.
MAX_TARGET = 8192
#: The maximum length of the path. The query of a urlRequest contains the path; the query has at
#: most 8 KiB.
MAX_PATH = 4096

#: The maximum number of prefixes before the IBI, such as "rep/".
MAX_PREFIXES = 16

SYSTEM_PREFIX = "ibiurl."
REQUIRED_ITEM_STATUS = "ibiurl.requireditemstatus"
IBIURL_VERB_LIST = "ibiurl.verblist"
#: The service IBI of an Archive that redirected the reader to the Archive to which the item was
#: moved. It redirects a reader only once. All others ignore the pair.
MOVED_FROM = "ibiurl.movedfrom"

_KINDS = {
    "!": relations.StepKind.LAST_EDITION,
    "+": relations.StepKind.TRANSLATION,
    ":": relations.StepKind.METADATA,
}
_SIGNS = {kind: sign for sign, kind in _KINDS.items()}
_SIGN = re.compile(r"([!+:])(?:\(([^()/]*)\))?")
# The characters that end an identifier.
_END_OF_IBI = re.compile("[!+:?]")

# Texts that may precede the IBI in citations. Some proxies replace "http://" with "http:/".
_PREFIX = re.compile("(?:(https?:/)|ibi[/:]|rep/|upn:[a-z0-9]{6}:)/*", re.IGNORECASE)
_HOST = re.compile("[^/]+/+")
_BASE = re.compile("https?://[^/?#]+", re.IGNORECASE)
_COLLAPSED_BASE = re.compile("https?:/", re.IGNORECASE)

# "??" is the old form of ":". The first "?" separates the path from the query. The second "?" is
# the first character of the query.
_OLD_METADATA = re.compile(r"\?|%3F(?=&|\Z)", re.IGNORECASE)

# RFC 3986: the characters that a path or a query may contain without percent-encoding. Letters,
# digits and "-._~" are allowed too.
_PATH_CHARACTERS = "/:@!$&'()*+,;="
_QUERY_CHARACTERS = _PATH_CHARACTERS + "?"

_EXAMPLE = "http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)"


@dataclass(frozen=True, slots=True)
class PersistentUrl:
    """The content of a persistent URL without the host.

    :param ibi: the identifier.
    :param verbs: the verbs of the modifier, then the other verbs of ``ibiurl.verblist``.
    :param path: the path of the requested file, percent-encoded and with a leading "/". The path is
        "" if no file is requested.
    :param requires_original: whether the user only accepts the Original, and no Copy.
    :param passed_query: the part of the query that is added to the URL of the item: percent-encoded
        pairs, separated by "&"; or "".
    Source: [R] 6.1, Table 6.1; 6.2, Tables 6.6 and 6.8.
    """

    ibi: Identifier
    verbs: relations.VerbList = relations.NO_VERBS
    path: str = ""
    requires_original: bool = False
    passed_query: str = ""


@dataclass(frozen=True, slots=True)
class ResolutionRequest:
    """A user's request for a persistent URL ([R] 6.2, Table 6.6).

    :param wanted: the parsed persistent URL.
    :param persistent_url: the complete persistent URL that the user requested, with host and port.
        The acknowledgment contains this URL.
    :param client_addresses: the IP address of the user, followed by the addresses of the proxies.
    :param ranges: the languages that the user prefers. These languages are not sent to Archives.
    :param user_agent: the User-Agent header of the user's program.
    """

    wanted: PersistentUrl
    persistent_url: str
    client_addresses: tuple[str, ...]
    ranges: tuple[LanguageRange, ...] = ()
    user_agent: str | None = None


def parse_persistent_url(text: str) -> PersistentUrl:
    """Parse a whole persistent URL.

    :param text: an http or https URL with any host and port. A "#fragment" is ignored. The URL may
        begin with "http:/" instead of "http://".
    :raises MalformedPersistentUrl: if the text is not a persistent URL.
    Source: [R] 6.1, Tables 6.1 to 6.5.
    """
    if base := _BASE.match(text):
        return _parse_target(text[base.end() :], text)
    if _COLLAPSED_BASE.match(text):
        return _parse_target(text, text)
    raise MalformedPersistentUrl(text, Reason("not_http", example=_EXAMPLE))


@lru_cache(maxsize=32)  # several functions that answer a request parse its target
def parse_persistent_target(target: str) -> PersistentUrl:
    """Parse the part of a persistent URL that follows the host name.

    The IBI and the modifier may be percent-encoded. If the first four segments of the path are a
    repository name, this repository name is the IBI. Otherwise, the first two segments are the IBI.

    :param target: the part of the URL, such as ``/8JMKD3MGP8W/35MMLL8!:(oai_dc)/a%20b.pdf?x=1``.
        The caller must not decode this text, because a file name may contain an encoded "?" or "%".
    :raises MalformedPersistentUrl: if the text is not part of a persistent URL.
    Source: [R] 6.1, Tables 6.1 to 6.5.
    """
    return _parse_target(target, target)


def read_persistent_url(text: str) -> PersistentUrl:
    """Parse a whole persistent URL, or only the part that follows the host name.

    :param text: the text that a user has typed.
    :raises MalformedPersistentUrl: if the text is not a persistent URL or a part of it.
    """
    if is_persistent_url(text):
        return parse_persistent_url(text)
    return _parse_target("/" + text.lstrip("/"), text)


def find_cited_identifier(url: str) -> Identifier | None:
    """Return the identifier in a persistent URL that requests an item itself, not a part of it.

    :returns: None for any other URL, such as a persistent URL with a modifier or a path.
    """
    try:
        parsed = parse_persistent_url(url)
    except MalformedPersistentUrl:
        return None
    return parsed.ibi if parsed == PersistentUrl(parsed.ibi) else None


def is_persistent_url(text: str) -> bool:
    """Return whether a text begins with ``http:`` or ``https:``."""
    return text.lower().startswith(("http:", "https:"))


def _parse_target(target: str, text: str) -> PersistentUrl:
    """Parse the part of a URL after the host name. Error messages contain ``text``."""
    try:
        return _parse_parts(target)
    except RefusedText as error:
        reason, suggestion = error.reason, None
        if reason.code == "not_an_identifier":
            suggestion = suggest_identifier(str(reason.facts["text"]))
        raise MalformedPersistentUrl(text, reason, suggestion) from error


def _parse_parts(target: str) -> PersistentUrl:
    head, mark, query = target[: MAX_TARGET + 1].partition("#")[0].partition("?")
    path = encode_url(head, _PATH_CHARACTERS)
    query = encode_url(query, _QUERY_CHARACTERS)
    if len(target) > MAX_TARGET or len(path) + len(mark) + len(query) > MAX_TARGET:
        raise RefusedText("url_too_long", limit=MAX_TARGET)
    # Each decoded byte becomes one character, because _cut_path needs the number of decoded bytes.
    decoded = unquote_to_bytes(path).decode("iso-8859-1")
    ibi, end = _find_identifier(decoded)
    steps, names, end = _read_modifier(decoded, end)
    rest = decoded[end:]
    if rest == "??" or (rest == "?" and mark):
        steps.append(relations.Step(relations.StepKind.METADATA))
        names.append('"??"')
        rest = ""
    if old := _OLD_METADATA.match(query):
        steps.append(relations.Step(relations.StepKind.METADATA))
        names.append('"??"')
        query = query[old.end() :]
    shape = "".join([step.letter for step in steps])
    if shape not in relations.SHAPES:
        raise relations.refuse_order(names, shape)
    if rest and not rest.startswith("/"):
        raise RefusedText("after_modifier", text=_to_text(rest)[:80])
    requires_original, verb_list, passed_query = _read_query(query)
    verbs = _join_verbs(steps, verb_list)
    path = _cut_path(path, end) if rest else ""
    if len(encode_url(path)) > MAX_PATH:
        raise RefusedText("path_too_long", limit=MAX_PATH)
    return PersistentUrl(ibi, verbs, path, requires_original, passed_query)


def _to_text(decoded: str) -> str:
    return decoded.encode("iso-8859-1").decode("utf-8", "surrogateescape")


def _find_identifier(decoded: str) -> tuple[Identifier, int]:
    """Return ``(identifier, end)``: the identifier in a path, and the position where it ends."""
    start = 0
    for start in islice(_find_starts(decoded), MAX_PREFIXES + 1):
        # Only read the length of the longest identifier, because reading the whole rest is slow.
        parts = _split_parts(decoded, start, start + MAX_LENGTH + 2)
        for count in (4, 2):  # a repository name has four parts, an IBIp has two
            candidate = "/".join(parts[:count])
            if len(parts) >= count and (identifier := match_identifier(candidate)):
                return identifier, start + len(candidate)
    parts = _split_parts(decoded, start, len(decoded))
    if not any(parts):
        raise RefusedText("identifier_missing", example=_EXAMPLE)
    if len(parts) > 2:
        is_opaque = not re.search("[.@-]", parts[0] + parts[1])
        parts = parts[: 2 if is_opaque else 4]
    wrong = _to_text("/".join(parts))
    raise RefusedText("not_an_identifier", text=wrong[:300], problem=explain_refusal(wrong))


def _find_starts(decoded: str) -> Iterator[int]:
    """Yield each position where the identifier may begin: the start, and the end of each prefix."""
    start = len(decoded) - len(decoded.lstrip("/"))
    host_may_follow = False
    while True:
        yield start
        if match := _PREFIX.match(decoded, start):
            host_may_follow = match[1] is not None
        elif host_may_follow and (match := _HOST.match(decoded, start)):
            host_may_follow = False
        else:
            return
        start = match.end()


def _split_parts(decoded: str, start: int, stop: int) -> list[str]:
    """Return the path segments from ``start`` to the first sign of a modifier, or to ``stop``."""
    end = _END_OF_IBI.search(decoded, start, stop)
    return decoded[start : end.start() if end else stop].split("/", 4)


def _read_modifier(decoded: str, end: int) -> tuple[list[relations.Step], list[str], int]:
    """Parse the modifier at ``end``; return its steps, their texts, and the position after it."""
    steps: list[relations.Step] = []
    names: list[str] = []
    while len(steps) < 5 and (match := _SIGN.match(decoded, end)):  # at most four are valid
        names.append(f'"{match[0][:80]}"')
        try:
            steps.append(
                relations.Step(_KINDS[match[1]], None if match[2] is None else _to_text(match[2]))
            )
        except RefusedText as error:
            raise RefusedText("in_parameter", name=match[1], problem=error.reason) from error
        end = match.end()
    return steps, names, end


def _read_query(query: str) -> tuple[bool, str, str]:
    """Read the query of a persistent URL.

    :returns: ``(requires_original, verb_list, passed_query)``; see :class:`PersistentUrl`.
    """
    values: dict[str, str] = {}
    passed = []
    for piece in filter(None, query.split("&")):
        for name, value in decode_query_string(piece):
            if not name.startswith(SYSTEM_PREFIX):
                passed.append(piece)
            elif name in values and name in (REQUIRED_ITEM_STATUS, IBIURL_VERB_LIST):
                raise RefusedText("parameter_repeated", name=name)
            else:
                values[name] = value
    status = values.get(REQUIRED_ITEM_STATUS)
    if status not in (None, State.ORIGINAL):
        raise RefusedText(
            "parameter_value",
            name=REQUIRED_ITEM_STATUS,
            value=status[:80],
            allowed=State.ORIGINAL.value,
        )
    return status is not None, values.get(IBIURL_VERB_LIST, ""), "&".join(passed)


def _join_verbs(steps: list[relations.Step], verb_list: str) -> relations.VerbList:
    """Return the verbs of a modifier, followed by the verbs of a verb list that it lacks."""
    verbs = [relations.format_verb(step) for step in steps]
    others = [verb for verb in verb_list.replace("+", " ").split(" ") if verb not in verbs]
    if not any(others):
        return relations.VerbList(relations.Relation(tuple(steps))) if steps else relations.NO_VERBS
    try:
        return relations.parse_verb_list(" ".join(verbs + others))
    except RefusedText as error:
        raise RefusedText("in_parameter", name=IBIURL_VERB_LIST, problem=error.reason) from error


def _cut_path(path: str, length: int) -> str:
    """Remove characters from the start of a path. If only "/" remains, return "".

    :param length: the number of removed characters; %XX counts as one character.
    """
    start = 0
    for _ in range(length):
        start += 3 if path[start] == "%" else 1
    name = path[start + (3 if path[start] == "%" else 1) :]
    return f"/{name}" if name else ""


def format_persistent_target(url: PersistentUrl) -> str:
    """Return the part of a persistent URL that follows the host name.

    :returns: ASCII text with a leading "/". Verbs are written as a modifier.
    :raises ValueError: if the IBI and the path together look like a repository name. This
        error is impossible for a parsed URL.
    Source: [R] 6.1, Table 6.1.
    """
    path = encode_url(url.path, _PATH_CHARACTERS)
    modifier = "".join([_format_sign(step) for step in url.verbs.relation.steps])
    if path and not modifier and url.ibi.form is not Form.REP:
        read = _find_identifier(unquote_to_bytes(url.ibi.text + path).decode("iso-8859-1"))
        if read[0] != url.ibi:
            raise ValueError(
                f"{url.ibi}{path} cannot be written as a URL, because the text would be parsed as "
                f"the repository name {read[0]}"
            )
    pairs = []
    if url.requires_original:
        pairs.append(f"{REQUIRED_ITEM_STATUS}={State.ORIGINAL.value}")
    if url.verbs.file_list:
        pairs.append(f"{IBIURL_VERB_LIST}={relations.GET_FILE_LIST}")
    if url.passed_query:
        # Without this empty pair, a pair whose name begins with "?" would be parsed as "??".
        if not pairs and _OLD_METADATA.match(url.passed_query):
            pairs.append("")
        pairs.append(encode_url(url.passed_query, _QUERY_CHARACTERS))
    return add_query(f"/{url.ibi.text}{modifier}{path}", "&".join(pairs))


def _format_sign(step: relations.Step) -> str:
    sign = _SIGNS[step.kind]
    return sign if step.parameter is None else f"{sign}({step.parameter})"


def add_query(url: str, query: str) -> str:
    """Return a URL with more pairs at the end of the query. A "#fragment" stays at the end.

    :param query: the encoded pairs without the "?". If ``query`` is "", the URL does not change.
    Source: [R] 6.1, about pairs whose names do not begin with ``ibiurl.``.
    """
    if not query:
        return url
    front, hash_sign, fragment = url.partition("#")
    if "?" not in front:
        joint = "?"
    elif front.endswith(("?", "&")):
        joint = ""
    else:
        joint = "&"
    return f"{front}{joint}{query}{hash_sign}{fragment}"
