"""The list of pairs: the format of every answer.

    pairs = pair *(space pair);  pair = name 1*SP value;  space = SP | CRLF
    value = word | "{" [word *(1*SP word)] "}"
    word  = 1*(%x21-7A | %x7C | %x7E)

The text is a Tcl list. Existing servers use more of Tcl than the grammar allows; the parser accepts
it.
Source: [R] 4.2, Table 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple
from urllib.parse import quote

from flask_ibi_archive.errors import LocalProtocolError, PeerProtocolError
from flask_ibi_archive.protocol.query import to_bytes

ALERT = "alert"
NOTICE = "notice"

#: Pairs whose value is a text for people; it is always in braces.
TEXTS = frozenset({ALERT, NOTICE})

_BETWEEN_PAIRS = "\r\n"
_find_foreign = re.compile(r"[^!-z|~]").search
_WORD_CHARACTERS = "".join(map(chr, range(0x21, 0x7B))) + "|~"
_split_words = re.compile(r"[^\t-\r ]+").findall
# Groups without inner braces, an opening brace with the text up to the next brace, a closing brace,
# or a separator. Only ASCII white space separates: A0 is a byte of a word.
_MARK = re.compile(r"(?:\{[^{}]*\})+|\{[^{}]*|\}|[\t-\r ]+")
# The usual pair: a word, then a word or a group without inner braces.
_match_plain_pair = re.compile(
    r"[\t-\r ]*([^\t-\r {}]+)[\t-\r ]+(?:([^\t-\r {}]+)|\{([^{}]*)\})(?=[\t-\r ]|\Z)"
).match
_name_of = itemgetter(0)

#: The maximum depth of nested braces.
MAX_DEPTH = 100


class Pair(NamedTuple):
    """A parsed pair; :func:`format_pairs` accepts a list of them.

    :param name: such as ``ibi.lastedition``.
    :param words: the words of its value; none for ``{}``.
    """

    name: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The words joined by spaces, such as the text of an alert."""
        return " ".join(self.words)


def encode_word(text: str) -> str:
    """Return a text as one word: printable ASCII without space and braces.

    :returns: the text with all other characters as %XX (upper case), in UTF-8, a surrogate escape
        as its byte. "%" is a character of words and does not change, so that %XX is not encoded
        again. The empty text, which is not a word, stays empty.
    Source: [R] Table 4.2.
    """
    if _find_foreign(text) is None:
        return text
    return quote(to_bytes(text), safe=_WORD_CHARACTERS)


def format_pairs(pairs: Iterable[tuple[str, str | Sequence[str]]]) -> str:
    """Return the text of a list of pairs.

    :param pairs: names and values in any order. A value is a word or a sequence of words; a string
        for ``alert`` or ``notice`` is a text, split into words at white space.
    :returns: ASCII text, one pair per line, sorted by name (pairs with one name keep their order),
        with CRLF between two lines and nothing after the last. One word is written bare; several
        words, and an alert or notice, are in braces; no word is ``{}``. Names and words are encoded
        by :func:`encode_word`; empty words are omitted.
    :raises LocalProtocolError: if a name is empty.
    Source: [R] 4.2, Table 4.2.
    """
    in_order = sorted(pairs, key=_name_of)
    lines = []
    for name, value in in_order:
        if _find_foreign(name) is not None:
            # Encoded names may have another order.
            return format_pairs([(encode_word(name), value) for name, value in in_order])
        if not name:
            raise LocalProtocolError("a pair has an empty name; a name has at least one character")
        if name in TEXTS:
            words = value.split() if isinstance(value, str) else list(value)
            lines.append(f"{name} {_format_group(words)}")
        elif isinstance(value, str):
            lines.append(f"{name} {encode_word(value) or '{}'}")
        else:
            words = [word for word in value if word]
            lines.append(
                f"{name} {encode_word(words[0]) if len(words) == 1 else _format_group(words)}"
            )
    return _BETWEEN_PAIRS.join(lines)


def _format_group(words: Iterable[str]) -> str:
    return "{" + " ".join([encode_word(word) for word in words if word]) + "}"


def format_alert(text: str) -> str:
    """Return the pair ``alert {text}`` in one line; white space of any kind becomes a space.

    Source: [R] 6.2; 4.2, Table 4.2.
    """
    return f"{ALERT} {_format_group(text.split())}"


def format_notice(text: str) -> str:
    """Return the pair ``notice {text}`` in one line, like :func:`format_alert`.

    Source: [R] 7.2, Algorithm 1; 4.2, Table 4.2.
    """
    return f"{NOTICE} {_format_group(text.split())}"


def join_pairs(*lists: str, separator: str = " ") -> str:
    """Join the texts of several lists with a separator; empty lists are omitted.

    :param separator: a space, as in [R], or CRLF.
    Source: [R] 7.2, JUNTAR, Example 7.7.
    """
    return separator.join([text for text in lists if text])


def parse_pairs(data: str | bytes) -> list[Pair]:
    """Parse a list of pairs; repeated and unknown names are kept, in their order.

    :param data: the body of an answer. Bytes are read as UTF-8, other bytes as surrogate escapes,
        so that the written pairs have the same bytes as %XX.
    :returns: the pairs. Any amount of ASCII white space separates. A group in braces inside a value
        in braces is one word: its text without the outer braces (as in Tcl; empty for ``{}``).
        Other matching braces are part of their word.
    :raises PeerProtocolError: if braces do not match or are nested deeper than :data:`MAX_DEPTH`,
        a name is empty, or the last name has no value. ``position`` counts characters.
    Source: [R] 4.2, Table 4.2.
    """
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    pairs = []
    name: str | None = None
    position = 0
    while found := _match_plain_pair(text, position):
        plain, word, group = found.groups()
        pairs.append(Pair(plain, tuple(_split_words(group)) if word is None else (word,)))
        position = found.end()
    for start, element in _split_elements(text, position):
        grouped = _is_group(element)
        if name is None:
            name, position = element[1:-1] if grouped else element, start
            if not name:
                raise PeerProtocolError("a name is empty", start)
        else:
            pairs.append(Pair(name, _words_of_group(element[1:-1]) if grouped else (element,)))
            name = None
    if name is not None:
        raise PeerProtocolError(f"the name {name[:80]!a} has no value", position)
    return pairs


def pairs_as_dict(pairs: Iterable[Pair]) -> dict[str, tuple[str, ...]]:
    """Return the words of each name; a repeated name has those of its first pair."""
    found: dict[str, tuple[str, ...]] = {}
    for name, words in pairs:
        found.setdefault(name, words)
    return found


def _split_elements(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the elements that white space outside braces separates, each with its position."""
    opened = depth = 0
    for mark in _MARK.finditer(text, start):
        sign = mark[0]
        if sign[0] == "{":
            if sign[-1] == "}":
                continue
            if not depth:
                opened = mark.start()
            depth += 1
            if depth > MAX_DEPTH:
                raise PeerProtocolError(
                    f"braces are nested more than {MAX_DEPTH} deep", mark.start()
                )
        elif sign == "}":
            if not depth:
                raise PeerProtocolError("a closing brace has no opening brace", mark.start())
            depth -= 1
        elif not depth:
            if start < mark.start():
                yield start, text[start : mark.start()]
            start = mark.end()
    if depth:
        raise PeerProtocolError("an opening brace has no closing brace", opened)
    if start < len(text):
        yield start, text[start:]


def _is_group(element: str) -> bool:
    """Return whether an element, whose braces match, is inside one pair of braces."""
    if element[0] != "{" or element[-1] != "}":
        return False
    if element.find("}") == len(element) - 1:
        return True
    depth = 0
    for mark in _MARK.finditer(element):
        if mark[0] == "}":
            depth -= 1
            if not depth:
                return mark.end() == len(element)
        elif mark[0][0] == "{":
            if mark[0][-1] != "}":
                depth += 1
            elif not depth:
                return False
    return False


def _words_of_group(text: str) -> tuple[str, ...]:
    if "{" not in text:
        return tuple(_split_words(text))
    return tuple(
        element[1:-1] if _is_group(element) else element for _, element in _split_elements(text)
    )
