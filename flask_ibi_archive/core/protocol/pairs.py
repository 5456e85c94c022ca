r"""The text of messages: pairs of names and values, as query strings and as lists of pairs.

A request is a query string such as ``name=value&name=value``. If a query contains a byte that is
not UTF-8, the parsed query contains a surrogate escape. For example, ``%f3`` becomes ``"\udcf3"``.
Formatting turns a surrogate escape into the same byte again.

Every answer is a list of pairs.

    pairs = pair *(space pair);  pair = name 1*SP value;  space = SP | CRLF
    value = word | "{" [word *(1*SP word)] "}"
    word  = 1*(%x21-7A | %x7C | %x7E)

The text is a list of the programming language Tcl. Existing servers use more of the Tcl syntax than
this grammar allows. The parser also accepts the texts of these servers.

The query of an inclusion request contains the registration key of an Archive. The query of a
request of the document registry can contain the password of an actor. These values are secrets.
Many programs write the complete URL of a request to a log.

Source: [R] 4.1, Table 4.1 (query strings); 4.2, Table 4.2 (lists of pairs).
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from flask_ibi_archive.errors import PeerProtocolError

SERVICE_SUBJECT = "servicesubject"
#: The message about a pair that a request contains more than once.
REPEATED = "{} appears more than once; it must appear once"

# These characters are not encoded, like letters, digits and "-._~". RFC 3986 allows them in a
# query, and Table 4.1 of [R] does not contain them.
_PLAIN = "/:@!$'()*,;"
_LONE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
# Matches a surrogate that represents no byte.
_NO_ESCAPE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def to_bytes(value: str) -> bytes:
    """Return a text in UTF-8.

    A surrogate escape becomes the byte that it represents. Any other surrogate becomes U+FFFD.
    """
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _NO_ESCAPE.sub("\ufffd", value).encode("utf-8", "surrogateescape")


def decode_url(text: str) -> str:
    """Decode each %XX of a URL or path.

    The result is for comparing two URLs or two paths.

    :returns: a text that may contain surrogate escapes. "+" and a malformed "%" do not change.
    """
    if "%" not in text:
        return text
    return unquote_to_bytes(to_bytes(text)).decode("utf-8", "surrogateescape")


def decode_query_string(raw: bytes | str) -> list[tuple[str, str]]:
    """Return the pairs of a query string in the order of the text.

    The function accepts every text.

    :param raw: the part of a URL after the "?", not decoded.
    :returns: names and values, decoded once: "+" becomes a space, and %XX becomes a byte. A
        malformed "%" does not change. A part without "=" is a name with an empty value. An empty
        part is ignored.
    Source: [R] 7.2, DECODQS, Example 7.1; 4.1, Table 4.1.
    """
    octets = raw if isinstance(raw, bytes) else to_bytes(raw)
    # in ISO 8859-1, each character is a byte; the bytes may be parts of characters in UTF-8
    pairs = parse_qsl(octets.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    return [
        (
            name.encode("latin-1").decode("utf-8", "surrogateescape"),
            value.encode("latin-1").decode("utf-8", "surrogateescape"),
        )
        for name, value in pairs
    ]


def find_repeated(pairs: Iterable[tuple[str, str]]) -> set[str]:
    """Return the names that occur in more than one pair of a query string."""
    return {name for name, count in Counter(name for name, _ in pairs).items() if count > 1}


def refuse_subject(subject: str, known: Iterable[str]) -> PeerProtocolError:
    """Return the error for an unknown value of servicesubject."""
    return PeerProtocolError(
        f"servicesubject {subject[:80]!r} is unknown; it must be one of {', '.join(known)}"
    )


def format_query_string(pairs: Iterable[tuple[str, str]], urls: Container[str] = ()) -> str:
    """Return the query string with some pairs, in the order of the pairs.

    :param pairs: names and values.
    :param urls: the names of the pairs whose values are URLs or paths. :func:`encode_url` encodes
        these values.
    :returns: ASCII text without the "?".
    Source: [R] 4.1, Table 4.1.
    """
    parts = []
    for name, value in pairs:
        encode = encode_url if name in urls else encode_value
        parts.append(f"{encode_value(name)}={encode(value)}")
    return "&".join(parts)


@lru_cache(maxsize=1024)  # the names and many of the values are the same in all queries
def encode_value(value: str) -> str:
    """Encode a name or a value for a query string.

    :returns: ASCII text. Spaces, ``% & + = ? #`` and all characters that RFC 3986 does not allow in
        a query become %XX. Characters such as ``/ : @ ! ( )`` do not change.
    Source: [R] 4.1, Table 4.1.
    """
    return quote(to_bytes(value), safe=_PLAIN)


def encode_url(url: str, plain: str = _PLAIN) -> str:
    """Percent-encode a URL or path, by default for a query string; an existing %XX stays as it is.

    Only a malformed "%" becomes %25. Erratum: according to Table 4.1, every "%" becomes %25. The
    examples of [R] contradict this rule.

    :param plain: the characters that are not encoded, except letters, digits and "-._~".
    Source: [R] Examples 6.9, 8.1 and 8.2.
    """
    return quote(to_bytes(_LONE_PERCENT.sub("%25", url)), safe=plain + "%")


#: The length of paths that are composed.
MAX_COMPOSED = 4096


def list_candidate_paths(filepath: str) -> tuple[str, ...]:
    """Return the paths that parsedibiurl.filepath may mean; the most probable one is first.

    :param filepath: the value, decoded once. The value may contain surrogate escapes.
    :returns: first the value without the leading "/"; then, if it contains %XX, the same decoded
        again; then these paths in NFC, because paths are stored in NFC. A path that is not UTF-8 is
        decoded as ISO 8859-1. The result is () for an empty value.
    Source: [R] 7.2, parsedibiurl.filepath.
    """
    raw = filepath.removeprefix("/").encode("utf-8", "surrogateescape")
    if not raw:
        return ()
    paths = [_decode_path(raw), _decode_path(unquote_to_bytes(raw))]
    # stored paths are shorter, and to compose a long text may take quadratic time
    composed = (normalize("NFC", path) for path in paths if len(path) <= MAX_COMPOSED)
    return tuple(dict.fromkeys([*paths, *composed]))


def _decode_path(raw: bytes) -> str:
    # No file has a path with NUL. PostgreSQL does not accept NUL, not even in a comparison.
    raw = raw.replace(b"\0", b"%00")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("iso-8859-1")


ALERT = "alert"
NOTICE = "notice"

#: The pairs whose values are texts for people. Such a value is always in braces.
TEXTS = frozenset({ALERT, NOTICE})

_WORD_CHARACTERS = "".join(map(chr, range(0x21, 0x7B))) + "|~"
# Only ASCII white space separates words. A no-break space does not.
_WORD = re.compile(r"[^\t-\r ]+")
# The usual element: a word, or a group without inner braces.
_PLAIN_ELEMENT = re.compile(r"(?:[^\t-\r {}]+|\{[^{}]*\})(?=[\t-\r ]|\Z)")
# Matches groups without inner braces, or an opening brace with the text up to the next brace, or a
# closing brace, or a separator.
_MARK = re.compile(r"(?:\{[^{}]*\})+|\{[^{}]*|\}|[\t-\r ]+")
_BRACE = re.compile("[{}]")

#: The maximum depth of nested braces.
MAX_DEPTH = 100


class Pair(NamedTuple):
    """A name and a value.

    :param name: the name, such as ``ibi.lastedition``.
    :param words: the words of the value; () for the value ``{}``.
    """

    name: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The value as one text: the words with a space between two words."""
        return " ".join(self.words)


@lru_cache(maxsize=1024)  # the names and many of the words are the same in all lists
def encode_word(text: str) -> str:
    """Return a text as one word: printable ASCII without spaces and braces.

    :returns: the text with all other characters percent-encoded in UTF-8. A surrogate escape
        becomes the byte that it represents. "%" does not change: %XX in the text is not encoded
        again. The empty text does not change either, although "" is not a word.
    Source: [R] Table 4.2.
    """
    return quote(to_bytes(text), safe=_WORD_CHARACTERS)


def format_pairs(pairs: Iterable[tuple[str, str | Sequence[str]]]) -> str:
    """Return the text of a list of pairs, sorted by name.

    :param pairs: names and values in any order. A value is one word or a sequence of words. The
        value of an ``alert`` or ``notice`` may also be a text of several words.
    :returns: ASCII text with one pair per line, and CRLF between two lines. Pairs with the same
        name keep their order. A value of several words is in braces. The value of an alert or a
        notice is always in braces. A value without words is ``{}``. :func:`encode_word` encodes
        the names and the words. Empty words are omitted.
    :raises ValueError: if a name is empty.
    Source: [R] 4.2, Table 4.2.
    """
    in_order = sorted([(encode_word(name), value) for name, value in pairs], key=itemgetter(0))
    if in_order and not in_order[0][0]:
        raise ValueError("a pair has an empty name; a name must have at least one character")
    lines = []
    for name, value in in_order:
        is_text = name in TEXTS
        if isinstance(value, str):
            value = value.split() if is_text else (value,)
        text = " ".join([encode_word(word) for word in value if word])
        if is_text or not text or " " in text:  # no word contains a space
            text = "{" + text + "}"
        lines.append(f"{name} {text}")
    return "\r\n".join(lines)


def parse_pairs(data: str | bytes) -> list[Pair]:
    """Parse a list of pairs.

    :param data: the body of an answer. Bytes that are not UTF-8 become surrogate escapes. Any ASCII
        white space may separate names and values.
    :returns: all pairs in the order of the text, including pairs with repeated or unknown names. As
        in Tcl, a value in braces may contain groups in braces: ``{a {b c}}`` has the words "a" and
        "b c". Other matching braces are part of the word.
    :raises PeerProtocolError: if braces do not match or are nested deeper than :data:`MAX_DEPTH`,
        if a name is empty, or if the last name has no value.
    Source: [R] 4.2, Table 4.2.
    """
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    pairs = []
    elements = iter(_split_elements(text))
    for start, name, _ in elements:
        if not name:
            raise PeerProtocolError("the name of a pair is empty", start)
        element = next(elements, None)
        if element is None:
            raise PeerProtocolError(f"the name {name[:80]!a} has no value", start)
        _, value, is_group = element
        pairs.append(Pair(name, _split_group(value) if is_group else (value,)))
    return pairs


def pairs_as_dict(pairs: Iterable[Pair]) -> dict[str, tuple[str, ...]]:
    """Return a dictionary from the names of pairs to the words of the values.

    If several pairs have the same name, the dictionary contains the first of these pairs.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, words in pairs:
        found.setdefault(name, words)
    return found


def _split_group(text: str) -> tuple[str, ...]:
    if "{" not in text:  # the usual case, which the pattern splits much faster
        return tuple(_WORD.findall(text))
    return tuple([element for _, element, _ in _split_elements(text)])


def _split_elements(text: str) -> list[tuple[int, str, bool]]:
    """Split the text of a list into elements, at white space outside of braces.

    :returns: for each element ``(position, text, is_in_braces)``. If one pair of braces surrounds
        the element, the text does not contain these braces, and the last value is True.
    """
    elements, end = [], 0
    while word := _WORD.search(text, end):
        start = word.start()
        plain = _PLAIN_ELEMENT.match(text, start)
        end = plain.end() if plain else _find_end(text, start)
        element = text[start:end]
        is_group = element[0] == "{" and (plain is not None or _is_group(element))
        elements.append((start, element[1:-1] if is_group else element, is_group))
    return elements


def _find_end(text: str, start: int) -> int:
    """Return the position after the element that begins at ``start``."""
    opened: list[int] = []  # the positions of the open braces
    for mark in _MARK.finditer(text, start):
        sign, position = mark[0], mark.start()
        if sign == "}":
            if not opened:
                raise PeerProtocolError("a closing brace has no opening brace", position)
            opened.pop()
        elif sign[0] == "{":
            if sign[-1] != "}":
                opened.append(position)
            if len(opened) > MAX_DEPTH:
                raise PeerProtocolError(f"braces are nested more than {MAX_DEPTH} deep", position)
        elif not opened:
            return position
    if opened:
        raise PeerProtocolError("an opening brace has no closing brace", opened[0])
    return len(text)


def _is_group(element: str) -> bool:
    """Return True if the last character of an element closes the first brace of the element.

    :param element: a text that begins with a brace, and in which all braces match.
    """
    depth = 0
    for brace in _BRACE.finditer(element):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            break
    return brace.end() == len(element)


def _match_names(*names: str) -> str:
    """Return a regular expression that matches some names, also with percent-encoded letters."""
    return "|".join(
        [
            "".join([f"(?:{letter}|%{ord(letter):x}|%{ord(letter) - 32:x})" for letter in name])
            for name in names
        ]
    )


_REGISTRATION_KEY = "registrationkey"
_KEY = re.compile(rf"(?:{_match_names(_REGISTRATION_KEY)})(?:=|%3D)", re.IGNORECASE)
# The name "password" also matches the end of newPassword. If a query is the value of another query,
# "=" and "&" are percent-encoded. Otherwise %26 is a part of the secret.
_SECRET = re.compile(
    rf"((?:{_match_names(_REGISTRATION_KEY, 'password')})(?:=|(%3D)))"
    r"(?(2)(?:(?!%26)[^&\s])*|[^&\s]*)",
    re.IGNORECASE,
)


def contains_key(text: str) -> bool:
    """Return True if a text, such as a query, contains a registration key."""
    return _KEY.search(text) is not None


def hide_keys(loggers: Iterable[str]) -> None:
    """Replace registration keys and passwords by ``***`` in all future messages of loggers.

    :param loggers: the names of the loggers in this process.
    """
    for name in loggers:
        # If the logger already has this filter, this call has no effect.
        logging.getLogger(name).addFilter(_hide_secrets_in_record)


def _hide_secrets_in_record(record: logging.LogRecord) -> bool:
    """Hide the keys and passwords in a log record.

    :returns: always True: the logger writes the record.
    """
    try:
        text = record.getMessage()
    except (TypeError, ValueError, KeyError):  # The logger reports this error.
        return True
    hidden, count = _SECRET.subn(r"\1***", text)
    if count:
        record.msg, record.args = hidden, ()
    return True
