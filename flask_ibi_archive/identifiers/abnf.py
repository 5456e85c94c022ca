"""The grammars of the identifiers as patterns; each rule stands above its pattern.

All classes are written out: no pattern lets a character through that is not ASCII, and none can
match a part of a text in more than one way, so that a refusal never takes longer than a match.
Use ``fullmatch``: nothing may stand around an identifier, not even a line break.

Source: [G] Tables 6.1 and 7.1.
"""

from __future__ import annotations

import re

from flask_ibi_archive.reasons import Reason

MAX_LENGTH = 255
"""Characters that an identifier has at most."""

_ALPHANUM = "[A-Za-z0-9]"

# word = ALPHANUM | ALPHANUM *(ALPHANUM | "-") ALPHANUM
_WORD = rf"{_ALPHANUM}+(?:-+{_ALPHANUM}+)*"

# last-word = ALPHA | ALPHA *(ALPHANUM | "-") ALPHANUM
_LAST_WORD = rf"[A-Za-z]{_ALPHANUM}*(?:-+{_ALPHANUM}+)*"

# subdomain = *(word ".") last-word ["."]
_SUBDOMAIN = rf"(?:{_WORD}\.)*{_LAST_WORD}\.?"

# port = 1*DIGIT; "." is written, "@" was written before August 2010
_PORT = "[.@][0-9]+"

# year = 4*DIGIT. Erratum: dates behind the year 9999 are no dates of any calendar in use here.
_YEAR = "([0-9]{4})"

# month = 2DIGIT; day = 2DIGIT; hour = 2DIGIT; minute = 2DIGIT. The semantic rules ask that the
# date exists; all of that but the length of the months is put into the pattern.
_MINUTES = r"(0[1-9]|1[0-2])\.(0[1-9]|[12][0-9]|3[01])\.(?:[01][0-9]|2[0-3])\.[0-5][0-9]"

# second = 2DIGIT ["." 1*DIGIT]
_SECOND = r"[0-5][0-9](?:\.[0-9]+)?"

# repository = subdomain "/" word [("." | "@") port] "/" year
#              "/" month "." day "." hour "." minute ["." second]
REPOSITORY = re.compile(rf"{_SUBDOMAIN}/{_WORD}(?:{_PORT})?/{_YEAR}/{_MINUTES}(?:\.{_SECOND})?")
"""A repository name; its groups are year, month and day."""

# word = 1*(A-U without I and O | W | X | 2-9), of which W and X are no graphemes
_GRAPHEME = "[2-9A-HJ-NP-Ua-hj-np-u]"

# IBIp = word "/" word, in the shape that Algorithms 5 and 6 give:
#        1*grapheme ("W" | "X") *grapheme "/" 1*grapheme ["W" 1*grapheme]
IBIP = re.compile(rf"{_GRAPHEME}+[WXwx]{_GRAPHEME}*/{_GRAPHEME}+(?:[Ww]{_GRAPHEME}+)?")
"""An IBIp in either case."""

# Decided: two words of letters and digits, an upper-case "Z" in the first; [G] 7 keeps "Z" free.
LEGACY = re.compile(rf"(?=[^/]*Z){_ALPHANUM}+/{_ALPHANUM}+")
"""An identifier from before the standard."""

FOREIGN = re.compile(r"[^A-Za-z0-9./@-]")
"""A character that stands in no identifier."""

DIGITS = re.compile("[0-9]+")
"""Decimal digits, ASCII only."""

_NO_WORD_CHARACTER = re.compile("[^A-Za-z0-9-]")


def find_word_fault(word: str, *, last: bool = False) -> Reason | None:
    """Return what keeps a text from being a word of a domain name, or None if it is one.

    :param word: the text between two dots.
    :param last: whether the stricter rule ``last-word`` is asked for.
    Source: [G] Table 6.1, rules word and last-word.
    """
    if not word:
        return Reason("word_empty")
    if wrong := _NO_WORD_CHARACTER.search(word):
        return Reason("word_character", character=wrong[0])
    if word[0] == "-" or word[-1] == "-":
        return Reason("word_hyphen")
    if last and not word[0].isalpha():
        return Reason("last_word")
    return None
