"""Diagnosis: explains why a text is not an identifier.

The error messages for users contain the explanation. The checks read the text from left to right
and follow the grammars of [G] Tables 6.1 and 7.1. The input is always a text that does not match
these grammars.
"""

from __future__ import annotations

import re

from flask_ibi_archive.core.identifiers.abnf import DIGITS, FOREIGN, MAX_LENGTH, find_word_fault
from flask_ibi_archive.core.identifiers.ibip import GRAPHEMES
from flask_ibi_archive.core.identifiers.identifier import month_has_day
from flask_ibi_archive.reasons import Reason

_DATE_FIELDS = (
    ("month", 1, 12),
    ("day", 1, 31),
    ("hour", 0, 23),
    ("minute", 0, 59),
    ("second", 0, 59),
)
_PUNCTUATION = re.compile("[.@-]")
_TWO_DIGITS = re.compile("[0-9]{2}")
_PORT_SIGN = re.compile("[.@]")
_SEPARATOR = re.compile("[WX]")


def explain_refusal(text: str) -> Reason:
    """Return the reason why a text is not an identifier.

    :returns: the first error in the text. A position in the reason counts characters from 1.
    """
    if not text:
        return Reason("identifier_empty")
    if len(text) > MAX_LENGTH:
        return Reason("identifier_too_long", length=len(text), limit=MAX_LENGTH)
    if foreign := FOREIGN.search(text):
        code = "character_not_allowed" if foreign[0].isascii() else "character_not_ascii"
        return Reason(code, character=foreign[0], position=foreign.start() + 1)
    parts = text.split("/")
    if len(parts) == 1:
        return Reason("slash_missing")
    if len(parts) == 2 and not _PUNCTUATION.search(text):
        return _explain_ibip(*parts)
    if len(parts) == 4:
        return _explain_repository_name(*parts)
    return Reason("number_of_parts", count=len(parts))


def _explain_ibip(first: str, second: str) -> Reason:
    for name, part in (("first", first), ("second", second)):
        if not part:
            return Reason(f"{name}_part_empty")
        for character in part:
            if character.upper() not in f"{GRAPHEMES}WX":
                return Reason(f"{name}_part_character", character=character)
    codes = _SEPARATOR.split(first.upper())
    if len(codes) == 1:
        return Reason("separator_missing")
    if len(codes) > 2:
        return Reason("separator_repeated", count=len(codes) - 1)
    if not codes[0]:
        return Reason("address_code_missing")
    if "X" in second.upper():
        return Reason("x_in_second_part")
    codes = second.upper().split("W")
    if not codes[0]:
        return Reason("seconds_code_missing")
    return Reason("fraction_repeated" if len(codes) > 2 else "fraction_code_missing")


def _explain_repository_name(subdomain: str, word: str, year: str, rest: str) -> Reason:
    return (
        _explain_subdomain(subdomain)
        or _explain_word_and_port(word)
        or _explain_year(year)
        or _explain_date(year, rest)
    )


def _explain_subdomain(subdomain: str) -> Reason | None:
    words = subdomain.removesuffix(".").split(".")
    for number, word in enumerate(words, 1):
        if fault := find_word_fault(word, last=number == len(words)):
            return Reason("word_of_subdomain", number=number, word=word, problem=fault)
    return None


def _explain_word_and_port(part: str) -> Reason | None:
    word, *port = _PORT_SIGN.split(part, maxsplit=1)
    if fault := find_word_fault(word):
        return Reason("word_after_subdomain", word=word, problem=fault)
    if port and not port[0]:
        return Reason("port_missing", sign=part[-1])
    if port and not DIGITS.fullmatch(port[0]):
        return Reason("port_not_digits", port=port[0])
    return None


def _explain_year(year: str) -> Reason | None:
    if len(year) != 4 or not DIGITS.fullmatch(year) or year == "0000":
        return Reason("year", value=year)
    return None


def _explain_date(year: str, rest: str) -> Reason:
    fields = rest.split(".")
    for (name, least, most), field in zip(_DATE_FIELDS, fields, strict=False):
        if not _TWO_DIGITS.fullmatch(field) or not least <= int(field) <= most:
            return Reason(name, value=field)
    if len(fields) < 4:
        return Reason(f"{_DATE_FIELDS[len(fields)][0]}_missing")
    if not month_has_day(year, fields[0], fields[1]):
        return Reason("no_such_day", day=fields[1], month=fields[0], year=year)
    if len(fields) > 6:
        return Reason("date_too_long")
    return Reason("fraction_not_digits", fraction=fields[-1])
