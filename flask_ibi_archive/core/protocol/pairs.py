"""Parsing and formatting of lists of pairs. Every answer is a list of pairs.

    pairs = pair *(space pair);  pair = name 1*SP value;  space = SP | CRLF
    value = word | "{" [word *(1*SP word)] "}"
    word  = 1*(%x21-7A | %x7C | %x7E)

The text is a list of the programming language Tcl. Existing servers use more of the Tcl syntax than
this grammar allows. The parser also accepts the texts of these servers.

Source: [R] 4.2, Table 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple
from urllib.parse import quote

from flask_ibi_archive.core.protocol.query_strings import to_bytes
from flask_ibi_archive.errors import PeerProtocolError

ALERT = "alert"
NOTICE = "notice"

#: The pairs whose values are texts for people. Such a value is always in braces.
TEXTS = frozenset({ALERT, NOTICE})

_BETWEEN_PAIRS = "\r\n"
_WORD_CHARACTERS = "".join(map(chr, range(0x21, 0x7B))) + "|~"
_WORD_BYTES = _WORD_CHARACTERS.encode()
_split_words = re.compile(r"[^\t-\r ]+").findall
# Matches groups without inner braces, or an opening brace with the text up to the next brace, or a
# closing brace, or a separator. Only ASCII white space separates words. A no-break space does not.
_MARK = re.compile(r"(?:\{[^{}]*\})+|\{[^{}]*|\}|[\t-\r ]+")
# The usual pair: a word, then a word or a group without inner braces.
_match_plain_pair = re.compile(
    r"[\t-\r ]*([^\t-\r {}]+)[\t-\r ]+(?:([^\t-\r {}]+)|\{([^{}]*)\})(?=[\t-\r ]|\Z)"
).match
_name_of = itemgetter(0)

#: The maximum depth of nested braces.
MAX_DEPTH = 100


class Pair(NamedTuple):
    """A name and a value.

    :param name: the name, such as ``ibi.lastedition``.
    :param words: the words of the value. The value ``{}`` has no words.
    """

    name: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The value as one text: the words with a space between two words."""
        return " ".join(self.words)


def _is_plain(text: str) -> bool:
    """Return True if a text contains only characters that a word may contain."""
    # several times as fast as a regular expression
    return text.isascii() and not text.encode().translate(None, _WORD_BYTES)


@lru_cache(maxsize=1024)  # the names and many of the words are the same in all lists
def encode_word(text: str) -> str:
    """Return a text as one word: printable ASCII without spaces and braces.

    :returns: the text with all other characters percent-encoded in UTF-8. A surrogate escape
        becomes the byte that it represents. "%" does not change: %XX in the text is not encoded
        again. The empty text does not change either, although "" is not a word.
    Source: [R] Table 4.2.
    """
    if _is_plain(text):
        return text
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
    in_order = sorted([(encode_word(name), value) for name, value in pairs], key=_name_of)
    if in_order and not in_order[0][0]:
        raise ValueError("a pair has an empty name; a name must have at least one character")
    lines = []
    for name, value in in_order:
        if name in TEXTS:
            text = _format_group(value.split() if isinstance(value, str) else value)
        elif isinstance(value, str):
            text = encode_word(value) or "{}"
        else:
            text = " ".join([encode_word(word) for word in value if word])
            if not text or " " in text:  # no word contains a space
                text = "{" + text + "}"
        # join() writes the value of a str Enum; an f-string could write the name of the member
        lines.append(" ".join((name, text)))
    return _BETWEEN_PAIRS.join(lines)


def _format_group(words: Iterable[str]) -> str:
    return "{" + " ".join([encode_word(word) for word in words if word]) + "}"


def format_alert(text: str) -> str:
    """Return the pair ``alert {text}`` in one line.

    All white space between two words becomes one space.

    Source: [R] 6.2; 4.2, Table 4.2.
    """
    return f"{ALERT} {_format_group(text.split())}"


def format_notice(text: str) -> str:
    """Return the pair ``notice {text}`` in one line.

    All white space between two words becomes one space.

    Source: [R] 7.2, Algorithm 1; 4.2, Table 4.2.
    """
    return f"{NOTICE} {_format_group(text.split())}"


def join_pairs(*lists: str, separator: str = " ") -> str:
    """Return one text with several lists of pairs; empty lists are omitted.

    :param lists: the texts of the lists.
    :param separator: the text between two lists: a space as in [R], or CRLF.
    Source: [R] 7.2, JUNTAR, Example 7.7.
    """
    return separator.join([text for text in lists if text])


def parse_pairs(data: str | bytes) -> list[Pair]:
    """Parse a list of pairs.

    :param data: the body of an answer. Bytes that are not UTF-8 become surrogate escapes. Any ASCII
        white space may separate names and values.
    :returns: all pairs in the order of the text, including pairs with repeated or unknown names. As
        in Tcl, a value in braces may contain an inner group in braces. The inner group becomes one
        word without these braces. Other matching braces are part of the word.
    :raises PeerProtocolError: if braces do not match or are nested deeper than :data:`MAX_DEPTH`,
        if a name is empty, or if the last name has no value.
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
                raise PeerProtocolError("the name of a pair is empty", start)
        else:
            pairs.append(Pair(name, _split_group(element[1:-1]) if grouped else (element,)))
            name = None
    if name is not None:
        raise PeerProtocolError(f"the name {name[:80]!a} has no value", position)
    return pairs


def pairs_as_dict(pairs: Iterable[Pair]) -> dict[str, tuple[str, ...]]:
    """Return a dictionary from the names of pairs to the words of the values.

    If several pairs have the same name, the dictionary contains the first of these pairs.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, words in pairs:
        found.setdefault(name, words)
    return found


def _split_elements(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the position and the text of each element of a list.

    White space outside braces separates the elements.
    """
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
    """Return True if one pair of braces surrounds an element.

    :param element: a text in which each opening brace has a closing brace.
    """
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


def _split_group(text: str) -> tuple[str, ...]:
    if "{" not in text:
        return tuple(_split_words(text))
    return tuple(
        element[1:-1] if _is_group(element) else element for _, element in _split_elements(text)
    )
