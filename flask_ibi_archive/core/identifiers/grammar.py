"""Identifiers: the grammars of the three forms rep, ibip and legacy, and their recognition.

The comment above each pattern quotes the rule of the standard. The patterns accept only ASCII
characters. No pattern can match a part of a text in two ways. Therefore a mismatch is found as fast
as a match. Use the method ``fullmatch``, because a text with other characters before or after an
identifier is not an identifier. Even a line break is not allowed.

Source: [G] Tables 6.1 and 7.1.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from enum import Enum

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

_NO_WORD_CHARACTER = re.compile("[^A-Za-z0-9-]")


def find_word_fault(word: str, *, last: bool = False) -> Reason | None:
    """Return why a text is not a valid word of a domain name; None if the word is valid.

    :param word: the text between two dots.
    :param last: whether the word is the last word. The rule for the last word is stricter.

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


class Form(str, Enum):
    """The form of an identifier. Messages contain the values as short names.

    ``rep`` is a repository name, and ``ibip`` is an IBIp. A ``legacy`` identifier is older than the
    standard.
    Source: [G] 5, 6 and 7.
    """

    REP = "rep"
    IBIP = "ibip"
    LEGACY = "legacy"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Identifier:
    """An identifier with its canonical text.

    The class does not check the text. Therefore use ``parse_identifier`` or a ``build_`` function
    to create an identifier. If two texts differ in upper and lower case only, ``parse_identifier``
    returns equal identifiers (not for legacy identifiers).

    :param form: the form of the identifier.
    :param text: the text in lower case (rep), in upper case (ibip) or unchanged (legacy).

    Source: [G] 5, function c; 6 and 7 on case.
    """

    form: Form
    text: str

    @property
    def prefix(self) -> str:
        """The part that names the server, such as ``sid.inpe.br/mtc-m18`` or ``8JMKD3MGP8W``."""
        parts = self.text.split("/")
        return "/".join(parts[: len(parts) // 2])

    @property
    def suffix(self) -> str:
        """The part that the server assigns, such as ``2009/02.16.17.46`` or ``34PGRBS``."""
        return self.text.removeprefix(f"{self.prefix}/")

    def __str__(self) -> str:
        return self.text


def match_identifier(text: str) -> Identifier | None:
    """Return the identifier of a text, or None if the text is not an identifier.

    Source: [G] Tables 6.1 and 7.1 with their semantic rules.
    """
    if len(text) > MAX_LENGTH:
        return None
    if IBIP.fullmatch(text):
        return Identifier(Form.IBIP, text.upper())
    if match := REPOSITORY.fullmatch(text):
        year, month, day = match.groups()
        if year == "0000" or not month_has_day(year, month, day):
            return None
        return Identifier(Form.REP, text.lower())
    if LEGACY.fullmatch(text):
        return Identifier(Form.LEGACY, text)
    return None


def month_has_day(year: str, month: str, day: str) -> bool:
    """Return True if a month has a certain day, which is 01 or later.

    :param year: the digits of the year, 0001 to 9999.
    :param month: the digits of the month, 01 to 12.
    :param day: the digits of the day.
    """
    return int(day) <= monthrange(int(year), int(month))[1]
