"""The grammars of the identifiers as regular expressions.

The comment above each pattern quotes the rule of the standard. The patterns accept only ASCII
characters. No pattern can match a part of a text in two ways. Therefore a mismatch is found as fast
as a match. Use the method ``fullmatch``, because a text with other characters before or after an
identifier is not an identifier. Even a line break is not allowed.

Source: [G] Tables 6.1 and 7.1.
"""

from __future__ import annotations

import re

from flask_ibi_archive.reasons import Reason

MAX_LENGTH = 255
"""The maximum length of an identifier in characters."""

_ALPHANUM = "[A-Za-z0-9]"

# word = ALPHANUM | ALPHANUM *(ALPHANUM | "-") ALPHANUM
_WORD = rf"{_ALPHANUM}+(?:-+{_ALPHANUM}+)*"

# last-word = ALPHA | ALPHA *(ALPHANUM | "-") ALPHANUM
_LAST_WORD = rf"[A-Za-z]{_ALPHANUM}*(?:-+{_ALPHANUM}+)*"

# subdomain = *(word ".") last-word ["."]
_SUBDOMAIN = rf"(?:{_WORD}\.)*{_LAST_WORD}\.?"

# port = 1*DIGIT. The character before the port is ".". Before August 2010, it was "@".
_PORT = "[.@][0-9]+"

# year = 4*DIGIT. Erratum: the pattern requires exactly four digits, because Python has no dates
# after the year 9999.
_YEAR = "([0-9]{4})"

# month = 2DIGIT; day = 2DIGIT; hour = 2DIGIT; minute = 2DIGIT. The pattern also checks the ranges:
# month 01 to 12, day 01 to 31, hour 00 to 23, minute 00 to 59. The pattern does not check that the
# month has this day.
_MINUTES = r"(0[1-9]|1[0-2])\.(0[1-9]|[12][0-9]|3[01])\.(?:[01][0-9]|2[0-3])\.[0-5][0-9]"

# second = 2DIGIT ["." 1*DIGIT]
_SECOND = r"[0-5][0-9](?:\.[0-9]+)?"

# repository = subdomain "/" word [("." | "@") port] "/" year
#              "/" month "." day "." hour "." minute ["." second]
REPOSITORY = re.compile(rf"{_SUBDOMAIN}/{_WORD}(?:{_PORT})?/{_YEAR}/{_MINUTES}(?:\.{_SECOND})?")
"""Matches a repository name. The groups of a match are the year, the month and the day."""

# word = 1*(A-U without I and O | W | X | 2-9). W and X are separators. Each other character is a
# grapheme, a digit in base 27.
_GRAPHEME = "[2-9A-HJ-NP-Ua-hj-np-u]"

# IBIp = word "/" word. Algorithms 5 and 6 produce only words of this shape:
#        1*grapheme ("W" | "X") *grapheme "/" 1*grapheme ["W" 1*grapheme]
IBIP = re.compile(rf"{_GRAPHEME}+[WXwx]{_GRAPHEME}*/{_GRAPHEME}+(?:[Ww]{_GRAPHEME}+)?")
"""Matches an IBIp in upper or lower case."""

# This package defines a legacy identifier as two words of letters and digits. The first word
# contains "Z". [G] 7 reserves this letter.
LEGACY = re.compile(rf"(?=[^/]*Z){_ALPHANUM}+/{_ALPHANUM}+")
"""Matches a legacy identifier. Legacy identifiers are older than the standard."""

FOREIGN = re.compile(r"[^A-Za-z0-9./@-]")
"""Matches a character that is not allowed in identifiers."""

DIGITS = re.compile("[0-9]+")
"""Matches decimal digits. Only ASCII digits are allowed."""

_NO_WORD_CHARACTER = re.compile("[^A-Za-z0-9-]")


def find_word_fault(word: str, *, last: bool = False) -> Reason | None:
    """Return why a text is not a valid word of a domain name; None if the word is valid.

    Source: [G] Table 6.1, rules word and last-word.

    :param word: the text between two dots.
    :param last: whether the word is the last word. The rule for the last word is stricter.
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
