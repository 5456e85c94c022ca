"""The list of pairs: reader and writer of every answer.

    pairs = pair *(space pair);  pair = name 1*SP value;  space = SP | CRLF
    value = word | "{" [word *(1*SP word)] "}"
    word  = 1*(%x21-7A | %x7C | %x7E)

The text is a Tcl list, and servers in use write more of Tcl than the grammar has; the reader
takes it.
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

#: Pairs whose value is a text for people: always in braces.
TEXTS = frozenset({ALERT, NOTICE})

_BETWEEN_PAIRS = "\r\n"
_find_foreign = re.compile(r"[^!-z|~]").search
_WORD_CHARACTERS = "".join(map(chr, range(0x21, 0x7B))) + "|~"
_split_words = re.compile(r"[^\t-\r ]+").findall
# Groups without braces in them, an opening brace with the text up to the next brace, a closing
# brace, or what separates outside braces: ASCII white space alone, since A0 is a byte of words.
_MARK = re.compile(r"(?:\{[^{}]*\})+|\{[^{}]*|\}|[\t-\r ]+")
# A pair as nearly all are: a word, and a word or a group without braces in it.
_match_plain_pair = re.compile(
    r"[\t-\r ]*([^\t-\r {}]+)[\t-\r ]+(?:([^\t-\r {}]+)|\{([^{}]*)\})(?=[\t-\r ]|\Z)"
).match
_name_of = itemgetter(0)

#: Braces within braces that are read at most.
MAX_DEPTH = 100


class Pair(NamedTuple):
    """A pair as it was read; a list of them can be given to :func:`format_pairs`.

    :param name: such as ``ibi.lastedition``.
    :param words: the words of its value, none for ``{}``.
    """

    name: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The words joined by spaces: an alert's text, or the one word of a state."""
        return " ".join(self.words)


def encode_word(text: str) -> str:
    """Return a text as one word: printable ASCII without space and braces.

    :returns: the text with everything else as %XX (upper case): UTF-8, a surrogate escape as its
        byte. "%" itself is a character of words and stays, so that %XX which the text already
        carries is not encoded again, and a word is its own encoding. The empty text, which is no
        word, stays empty.
    Source: [R] Table 4.2.
    """
    if _find_foreign(text) is None:
        return text
    return quote(to_bytes(text), safe=_WORD_CHARACTERS)


def format_pairs(pairs: Iterable[tuple[str, str | Sequence[str]]]) -> str:
    """Return the text of a list of pairs.

    :param pairs: names and values, in any order. A value is a word, or a sequence of words; of
        ``alert`` and ``notice`` a string is a text, whose words white space separates.
    :returns: ASCII; one pair a line, sorted by name (pairs of one name keep their order), CRLF
        between two and nothing behind the last. A value of one word is bare, of two or more, or an
        alert's or notice's, in braces, of none ``{}``. Names and words are encoded by
        :func:`encode_word`, empty words left out.
    :raises LocalProtocolError: if a name is empty.
    Source: [R] 4.2, Table 4.2.
    """
    in_order = sorted(pairs, key=_name_of)
    lines = []
    for name, value in in_order:
        if _find_foreign(name) is not None:
            # Encoded names may sort otherwise.
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
    """Return the pair ``alert {text}``, in one line: white space of any kind separates words.

    Source: [R] 6.2; 4.2, Table 4.2.
    """
    return f"{ALERT} {_format_group(text.split())}"


def format_notice(text: str) -> str:
    """Return the pair ``notice {text}``, likewise.

    Source: [R] 7.2, Algorithm 1; 4.2, Table 4.2.
    """
    return f"{NOTICE} {_format_group(text.split())}"


def join_pairs(*lists: str, separator: str = " ") -> str:
    """Return the texts of several lists as one: a separator between two, none beside an empty one.

    :param separator: a space, as [R] prints it, or CRLF.
    Source: [R] 7.2, JUNTAR, Example 7.7.
    """
    return separator.join([text for text in lists if text])


def parse_pairs(data: str | bytes) -> list[Pair]:
    """Return the pairs of a list, in their order, repeated names included.

    :param data: an answer's body; bytes are read as UTF-8, and what is none as surrogate escapes,
        so that writing the pairs again gives the same bytes as %XX.
    :returns: the pairs. White space of ASCII separates, wherever it stands and however much of it.
        Where a value in braces holds braces again, such an inner group is one word, its text
        without the outer braces (as Tcl reads it; empty for ``{}``); other braces that match stay
        in their word. Unknown names are kept.
    :raises PeerProtocolError: where braces do not match or are nested more than :data:`MAX_DEPTH`
        deep, a name is empty, or the last one has no value; ``position`` counts characters.
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
    """Return the words of each name; of a repeated name those of its first pair."""
    found: dict[str, tuple[str, ...]] = {}
    for name, words in pairs:
        found.setdefault(name, words)
    return found


def _split_elements(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Return what white space outside braces separates from a place on, each with its position."""
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
                raise PeerProtocolError("a brace is closed that was not opened", mark.start())
            depth -= 1
        elif not depth:
            if start < mark.start():
                yield start, text[start : mark.start()]
            start = mark.end()
    if depth:
        raise PeerProtocolError("a brace is opened and not closed", opened)
    if start < len(text):
        yield start, text[start:]


def _is_group(element: str) -> bool:
    """Tell whether an element (its braces match) is wholly in one pair of braces."""
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
