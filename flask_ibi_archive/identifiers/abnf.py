"""The grammars of the identifiers as regular expressions.

The comment above each pattern is the rule of the standard. The patterns accept ASCII characters
only. No pattern can match a part of a text in two ways; therefore a mismatch is as fast as a match.
Use ``fullmatch``: nothing may precede or follow an identifier, not even a line break.

Source: [G] Tables 6.1 and 7.1.
"""

from __future__ import annotations

import re

from flask_ibi_archive.reasons import Reason

MAX_LENGTH = 255
"""Maximum length of an identifier in characters."""

_ALPHANUM = "[A-Za-z0-9]"

# word = ALPHANUM | ALPHANUM *(ALPHANUM | "-") ALPHANUM
_WORD = rf"{_ALPHANUM}+(?:-+{_ALPHANUM}+)*"

# last-word = ALPHA | ALPHA *(ALPHANUM | "-") ALPHANUM
_LAST_WORD = rf"[A-Za-z]{_ALPHANUM}*(?:-+{_ALPHANUM}+)*"

# subdomain = *(word ".") last-word ["."]
_SUBDOMAIN = rf"(?:{_WORD}\.)*{_LAST_WORD}\.?"

# port = 1*DIGIT; written after ".", before August 2010 after "@"
_PORT = "[.@][0-9]+"

# year = 4*DIGIT. Erratum: exactly four digits, because Python has no dates after the year 9999.
_YEAR = "([0-9]{4})"

# month = 2DIGIT; day = 2DIGIT; hour = 2DIGIT; minute = 2DIGIT. The date must exist: the pattern
# checks all of this except the length of the month.
_MINUTES = r"(0[1-9]|1[0-2])\.(0[1-9]|[12][0-9]|3[01])\.(?:[01][0-9]|2[0-3])\.[0-5][0-9]"

# second = 2DIGIT ["." 1*DIGIT]
_SECOND = r"[0-5][0-9](?:\.[0-9]+)?"

# repository = subdomain "/" word [("." | "@") port] "/" year
#              "/" month "." day "." hour "." minute ["." second]
REPOSITORY = re.compile(rf"{_SUBDOMAIN}/{_WORD}(?:{_PORT})?/{_YEAR}/{_MINUTES}(?:\.{_SECOND})?")
"""Matches a repository name; its groups are year, month and day."""

# word = 1*(A-U without I and O | W | X | 2-9). A grapheme is a digit of base 27; W and X are
# separators.
_GRAPHEME = "[2-9A-HJ-NP-Ua-hj-np-u]"

# IBIp = word "/" word. Algorithms 5 and 6 produce this shape only:
#        1*grapheme ("W" | "X") *grapheme "/" 1*grapheme ["W" 1*grapheme]
IBIP = re.compile(rf"{_GRAPHEME}+[WXwx]{_GRAPHEME}*/{_GRAPHEME}+(?:[Ww]{_GRAPHEME}+)?")
"""Matches an IBIp in upper or lower case."""

# Decided: two words of letters and digits; the first word contains "Z", which [G] 7 reserves.
LEGACY = re.compile(rf"(?=[^/]*Z){_ALPHANUM}+/{_ALPHANUM}+")
"""Matches a legacy identifier, which is older than the standard."""

FOREIGN = re.compile(r"[^A-Za-z0-9./@-]")
"""Matches a character that no identifier contains."""

DIGITS = re.compile("[0-9]+")
"""Matches decimal digits, ASCII only."""

_NO_WORD_CHARACTER = re.compile("[^A-Za-z0-9-]")


def find_word_fault(word: str, *, last: bool = False) -> Reason | None:
    """Return the reason why a text is not a word of a domain name; None if it is such a word.

    :param word: the text between two dots.
    :param last: whether the stricter rule ``last-word`` applies.
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
