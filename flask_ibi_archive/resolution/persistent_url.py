"""Persistent URLs: an IBI, a modifier, a path and a query behind the host of a resolver or an
Archive.

    persistent-url = "http://urlib.net/" IBI [mdf] [path-absolute] ["?" pair *("&" pair)]
    mdf = ([u [t]] | [t [u]]) [m [t]]
    u = "!";  t = "+" ["(" xx ["-" YY] ")"];  m = ":" ["(" format ")"]

Source: [R] 6.1, Tables 6.1 to 6.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from urllib.parse import quote, unquote_to_bytes

from flask_ibi_archive.errors import LocalProtocolError, MalformedPersistentUrl
from flask_ibi_archive.identifiers import Form, Identifier, suggest_identifier
from flask_ibi_archive.identifiers.abnf import MAX_LENGTH
from flask_ibi_archive.identifiers.diagnosis import explain_refusal
from flask_ibi_archive.identifiers.identifier import match_identifier
from flask_ibi_archive.protocol.query import decode_query_string, encode_url, to_bytes
from flask_ibi_archive.protocol.relations import SHAPES, Relation, Step, StepKind, refuse_order
from flask_ibi_archive.protocol.verbs import (
    GET_FILE_LIST,
    NO_VERBS,
    VerbList,
    format_verb,
    parse_verb_list,
)

#: Characters of the longest text behind a host that is read, each as it is written in a URL.
MAX_TARGET = 8192
#: Characters of a path in a urlRequest, whose query an Archive takes with 8 KiB at most.
MAX_PATH = 4096

#: What may be in front of the IBI at most, each as "rep/".
MAX_PREFIXES = 16

SYSTEM_PREFIX = "ibiurl."
REQUIRED_ITEM_STATUS = "ibiurl.requireditemstatus"
VERB_LIST = "ibiurl.verblist"
ORIGINAL = "Original"

_KINDS = {
    "!": StepKind.LAST_EDITION,
    "+": StepKind.TRANSLATION,
    ":": StepKind.METADATA,
}
_SIGNS = {kind: sign for sign, kind in _KINDS.items()}
_SIGN = re.compile(r"([!+:])(?:\(([^()/]*)\))?")
# What stands in no identifier, but right behind one.
_END_OF_IBI = re.compile("[!+:?]")

# What citations have in front of the IBI. A proxy that merges slashes makes "http:/" of "http://".
_PREFIX = re.compile("(?:(https?:/)|ibi[/:]|rep/|upn:[a-z0-9]{6}:)/*", re.IGNORECASE)
_HOST = re.compile("[^/]+/+")
_BASE = re.compile("https?://[^/?#]+", re.IGNORECASE)
_COLLAPSED_BASE = re.compile("https?:/", re.IGNORECASE)

# "??" is the old way to write ":"; the first "?" begins the query.
_OLD_METADATA = re.compile(r"\?|%3F(?=&|\Z)", re.IGNORECASE)

# RFC 3986: what may stand in a path and in a query, besides letters, digits and "-._~".
_PATH_CHARACTERS = "/:@!$&'()*+,;=%"
_QUERY_CHARACTERS = _PATH_CHARACTERS + "?"
_LONE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")

_EXAMPLE = "http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)"


@dataclass(frozen=True, slots=True)
class PersistentUrl:
    """What a persistent URL asks for, whatever its host.

    :param ibi: the identifier.
    :param verbs: those of the modifier, then those of ``ibiurl.verblist`` that are not among them.
    :param path: the file wanted: "" or beginning with "/"; ASCII, with the %XX that it was written
        with.
    :param requires_original: whether nothing but the Original will do.
    :param passed_query: the pairs that belong to the item, in their order, as they were written:
        ASCII, "&" between, none of them empty.
    Source: [R] 6.1, Table 6.1; 6.2, Tables 6.6 and 6.8.
    """

    ibi: Identifier
    verbs: VerbList = NO_VERBS
    path: str = ""
    requires_original: bool = False
    passed_query: str = ""


def parse_persistent_url(text: str) -> PersistentUrl:
    """Return what a persistent URL asks for.

    :param text: the whole URL: http or https, any host and port, nothing around it; a "#fragment"
        is left out. The "//" may have become "/".
    :raises MalformedPersistentUrl: with what is wrong, and the identifier that was probably meant
        where exactly one repair gives one.
    Source: [R] 6.1, Tables 6.1 to 6.5.
    """
    if base := _BASE.match(text):
        return _parse_target(text[base.end() :], text)
    if _COLLAPSED_BASE.match(text):
        return _parse_target(text, text)
    raise MalformedPersistentUrl(
        text, f"it begins neither with http:// nor with https://; right is {_EXAMPLE}"
    )


def parse_persistent_target(target: str) -> PersistentUrl:
    """Return what a persistent URL asks for, from what stands behind its host.

    :param target: such as ``/8JMKD3MGP8W/35MMLL8!:(oai_dc)/a%20b.pdf?x=1``, with the %XX that it
        came with, so that an encoded "?" or "%" in the name of a file is told from a plain one.
    :raises MalformedPersistentUrl: as :func:`parse_persistent_url` does.

    IBI and modifier may be encoded in part or whole. Where the first four parts of the path are a
    repository name they are that, and no IBIp with a path.
    Source: [R] 6.1, Tables 6.1 to 6.5.
    """
    return _parse_target(target, target)


def read_persistent_url(text: str) -> PersistentUrl:
    """Return what a text asks for that somebody typed: a whole persistent URL, or what stands
    behind its host.

    :raises MalformedPersistentUrl: as :func:`parse_persistent_url` does.
    """
    if is_persistent_url(text):
        return parse_persistent_url(text)
    return _parse_target("/" + text.lstrip("/"), text)


def is_persistent_url(text: str) -> bool:
    """Return whether a text is a whole URL, for :func:`parse_persistent_url`, and no bare IBI."""
    return text.lower().startswith(("http:", "https:"))


def _parse_target(target: str, text: str) -> PersistentUrl:
    """Return what a target asks for; ``text`` is what a refusal names."""
    head, mark, query = target[: MAX_TARGET + 1].partition("#")[0].partition("?")
    path = _encode(head, _PATH_CHARACTERS)
    query = _encode(query, _QUERY_CHARACTERS)
    if len(target) > MAX_TARGET or len(path) + len(mark) + len(query) > MAX_TARGET:
        raise MalformedPersistentUrl(
            text, f"it is too long; at most {MAX_TARGET} characters may stand behind the host"
        )
    # A byte is a character here, so that places in both texts can be compared.
    decoded = unquote_to_bytes(path).decode("iso-8859-1")
    ibi, end = _find_identifier(decoded, text)
    try:
        steps, names, end = _read_modifier(decoded, end)
        rest = decoded[end:]
        if rest == "??" or (rest == "?" and mark):
            steps.append(Step(StepKind.METADATA))
            names.append('"??"')
            rest = ""
        if old := _OLD_METADATA.match(query):
            steps.append(Step(StepKind.METADATA))
            names.append('"??"')
            query = query[old.end() :]
        shape = "".join([step.letter for step in steps])
        if shape not in SHAPES:
            raise ValueError(refuse_order(names, shape))
        if rest and not rest.startswith("/"):
            raise ValueError(
                f"{_to_text(rest)[:80]!a} can't stand behind the IBI and its modifier; a modifier is made of "
                '"!", "+", "+(pt-BR)", ":" and ":(oai_dc)", and a path begins with "/"'
            )
        requires_original, verb_list, passed_query = _read_query(query)
        verbs = _join_verbs(steps, verb_list)
    except ValueError as exc:
        raise MalformedPersistentUrl(text, str(exc)) from exc
    path = _cut_path(path, end) if rest else ""
    if len(encode_url(path)) > MAX_PATH:
        raise MalformedPersistentUrl(
            text,
            f"the path behind the IBI is too long; at most {MAX_PATH} characters can be sent to an Archive, "
            "where each of & = + ? counts as three",
        )
    return PersistentUrl(ibi, verbs, path, requires_original, passed_query)


def _encode(text: str, plain: str) -> str:
    """Return a part of a URL with what may not stand there as %XX; it keeps its own %XX."""
    return quote(to_bytes(_LONE_PERCENT.sub("%25", text)), safe=plain)


def _to_text(decoded: str) -> str:
    return decoded.encode("iso-8859-1").decode("utf-8", "surrogateescape")


def _find_identifier(decoded: str, text: str) -> tuple[Identifier, int]:
    """Return the identifier of a path, and where it ends."""
    start = 0
    for start in islice(_find_starts(decoded), MAX_PREFIXES + 1):
        # what is longer is no identifier; the whole rest would be read again at each start
        parts = _split_parts(decoded, start, start + MAX_LENGTH + 2)
        for count in (4, 2):  # a repository name wins over an IBIp with a path
            candidate = "/".join(parts[:count])
            if len(parts) >= count and (identifier := match_identifier(candidate)):
                return identifier, start + len(candidate)
    parts = _split_parts(decoded, start, len(decoded))
    if not any(parts):
        raise MalformedPersistentUrl(text, f"there is no IBI behind the host; right is {_EXAMPLE}")
    if len(parts) > 2:
        is_opaque = not re.search("[.@-]", parts[0] + parts[1])
        parts = parts[: 2 if is_opaque else 4]
    wrong = _to_text("/".join(parts))
    raise MalformedPersistentUrl(
        text, f"{wrong[:300]!a} is no IBI: {explain_refusal(wrong)}", suggest_identifier(wrong)
    )


def _find_starts(decoded: str) -> Iterator[int]:
    """Return the places where the identifier may begin: at the beginning, then behind each prefix."""
    start = len(decoded) - len(decoded.lstrip("/"))
    host_may_follow = False
    while True:
        yield start
        if found := _PREFIX.match(decoded, start):
            host_may_follow = found[1] is not None
        elif host_may_follow and (found := _HOST.match(decoded, start)):
            host_may_follow = False
        else:
            return
        start = found.end()


def _split_parts(decoded: str, start: int, stop: int) -> list[str]:
    """Return what is between slashes from a place up to the first sign of a modifier, or to another
    place.
    """
    end = _END_OF_IBI.search(decoded, start, stop)
    return decoded[start : end.start() if end else stop].split("/", 4)


def _read_modifier(decoded: str, end: int) -> tuple[list[Step], list[str], int]:
    """Return the steps of a modifier, as they are written, and where it ends."""
    steps: list[Step] = []
    names: list[str] = []
    while len(steps) < 5 and (found := _SIGN.match(decoded, end)):  # four is the longest
        names.append(f'"{found[0][:80]}"')
        try:
            steps.append(Step(_KINDS[found[1]], None if found[2] is None else _to_text(found[2])))
        except ValueError as exc:
            raise ValueError(f"{found[1]}: {exc}") from exc
        end = found.end()
    return steps, names, end


def _read_query(query: str) -> tuple[bool, str, str]:
    """Return whether the Original is required, the verb list, and what is passed on."""
    values: dict[str, str] = {}
    passed = []
    for piece in query.split("&"):
        for name, value in decode_query_string(piece):
            if not name.startswith(SYSTEM_PREFIX):
                passed.append(piece)
            elif name in values and name in (REQUIRED_ITEM_STATUS, VERB_LIST):
                raise ValueError(f"{name} is given more than once")
            else:
                values[name] = value
    status = values.get(REQUIRED_ITEM_STATUS)
    if status not in (None, ORIGINAL):
        raise ValueError(f"{REQUIRED_ITEM_STATUS} is {status[:80]!a}; its only value is {ORIGINAL}")
    return status is not None, values.get(VERB_LIST, ""), "&".join(passed)


def _join_verbs(steps: list[Step], verb_list: str) -> VerbList:
    """Return the verbs of a modifier followed by those of a verb list that are not among them."""
    verbs = [format_verb(step) for step in steps]
    others = [verb for verb in verb_list.replace("+", " ").split(" ") if verb not in verbs]
    if not any(others):
        return VerbList(Relation(tuple(steps)))
    try:
        return parse_verb_list(" ".join(verbs + others))
    except ValueError as exc:
        raise ValueError(f"{VERB_LIST}: {exc}") from exc


def _cut_path(path: str, length: int) -> str:
    """Return what stands behind so many decoded characters of a path; "" where that names no file."""
    start = 0
    for _ in range(length):
        start += 3 if path[start] == "%" else 1
    name = path[start + (3 if path[start] == "%" else 1) :]
    return f"/{name}" if name else ""


def format_persistent_url(url: PersistentUrl, base: str) -> str:
    """Return the text of a persistent URL.

    :param base: scheme and host, such as ``http://urlib.net``.
    :returns: canonical text: ASCII, a modifier rather than verbs; :func:`parse_persistent_url`
        gives the value again.
    :raises LocalProtocolError: as :func:`format_persistent_target` does.
    Source: [R] 6.1, Table 6.1.
    """
    return base.rstrip("/") + format_persistent_target(url)


def format_persistent_target(url: PersistentUrl) -> str:
    """Return what stands behind the host of a persistent URL; it begins with "/".

    :raises LocalProtocolError: if IBI and path together would be read as a repository name, which
        no URL that was read has.
    Source: [R] 6.1, Table 6.1.
    """
    path = _encode(url.path, _PATH_CHARACTERS)
    modifier = "".join([_format_sign(step) for step in url.verbs.relation.steps])
    if path and not modifier and url.ibi.form is not Form.REP:
        read = _find_identifier(unquote_to_bytes(url.ibi.text + path).decode("iso-8859-1"), "")
        if read[0] != url.ibi:
            raise LocalProtocolError(
                f"{url.ibi}{path} would be read as the repository name {read[0]}"
            )
    pairs = []
    if url.requires_original:
        pairs.append(f"{REQUIRED_ITEM_STATUS}={ORIGINAL}")
    if url.verbs.file_list:
        pairs.append(f"{VERB_LIST}={GET_FILE_LIST}")
    if url.passed_query:
        # An empty piece in front keeps a name that begins with "?" from being read as "??".
        if not pairs and _OLD_METADATA.match(url.passed_query):
            pairs.append("")
        pairs.append(_encode(url.passed_query, _QUERY_CHARACTERS))
    return add_query(f"/{url.ibi.text}{modifier}{path}", "&".join(pairs))


def _format_sign(step: Step) -> str:
    sign = _SIGNS[step.kind]
    return sign if step.parameter is None else f"{sign}({step.parameter})"


def add_query(url: str, query: str) -> str:
    """Return a URL with a query added to it: behind "?", or "&" where it has one; before a
    "#fragment".

    :param query: raw pairs, without the "?"; "": the URL stays as it is.
    Source: [R] 6.1, on pairs that are not the system's.
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
