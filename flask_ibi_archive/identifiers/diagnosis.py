"""Why a text is no identifier: what is wrong, and in which part.

Only refused texts come here; the checks follow the grammars of [G] Tables 6.1 and 7.1 part by part.
"""

from __future__ import annotations

import re

from flask_ibi_archive.identifiers.abnf import DIGITS, FOREIGN, MAX_LENGTH, find_word_fault
from flask_ibi_archive.identifiers.identifier import has_day
from flask_ibi_archive.identifiers.numerals import GRAPHEMES

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


def explain_refusal(text: str) -> str:
    """Return the first thing that is wrong with a text that is no identifier.

    :returns: a clause in plain words that names the part; positions are counted from 1.
    """
    if not text:
        return "it is empty"
    if len(text) > MAX_LENGTH:
        return f"it has {len(text)} characters, where at most {MAX_LENGTH} are allowed"
    if foreign := FOREIGN.search(text):
        kind = "no character" if foreign[0].isascii() else "not an ASCII character, so none"
        return f"{foreign[0]!r} at position {foreign.start() + 1} is {kind} of an identifier"
    parts = text.split("/")
    if len(parts) == 1:
        return "it has no '/' between a prefix and a suffix"
    if len(parts) == 2 and not _PUNCTUATION.search(text):
        return _explain_ibip(*parts)
    if len(parts) == 4:
        return _explain_repository_name(*parts)
    return (
        f"it has {len(parts)} parts joined by '/', where a repository name has four "
        "(subdomain/word/year/month.day.hour.minute) and an IBIp has two words of letters and "
        "digits"
    )


def _explain_ibip(first: str, second: str) -> str:
    for place, part in (("first", first), ("second", second)):
        if not part:
            return f"the {place} part is empty"
        for character in part:
            if character.upper() not in f"{GRAPHEMES}WX":
                return (
                    f"the {place} part has {character!r}, where an IBIp has 2 to 9 and the letters "
                    "A to U but I and O, with W and X to separate"
                )
    codes = _SEPARATOR.split(first.upper())
    if len(codes) != 2:
        count = "no 'W' or 'X'" if len(codes) == 1 else f"'W' or 'X' {len(codes) - 1} times"
        return f"the first part has {count}, where one stands between address and port"
    if not codes[0]:
        return "the first part has no code of an address in front of 'W' or 'X'"
    if "X" in second.upper():
        return "the second part has 'X', where only 'W' may separate seconds and fraction"
    codes = second.upper().split("W")
    if not codes[0]:
        return "the second part has no code of seconds in front of 'W'"
    if len(codes) > 2:
        return "the second part has more than one 'W', where one stands before the fraction"
    return "the second part has no code of a fraction behind 'W'"


def _explain_repository_name(subdomain: str, word: str, year: str, rest: str) -> str:
    return (
        _explain_subdomain(subdomain)
        or _explain_word_and_port(word)
        or _explain_year(year)
        or _explain_date(year, rest)
    )


def _explain_subdomain(subdomain: str) -> str | None:
    words = subdomain.removesuffix(".").split(".")
    for place, word in enumerate(words, 1):
        if fault := find_word_fault(word, last=place == len(words)):
            return f"word {place} of the subdomain, {word!r}, {fault}"
    return None


def _explain_word_and_port(part: str) -> str | None:
    word, *port = _PORT_SIGN.split(part, maxsplit=1)
    if fault := find_word_fault(word):
        return f"the word behind the subdomain, {word!r}, {fault}"
    if port and not port[0]:
        return f"the second part ends with {part[-1]!r}, where the digits of a port must follow"
    if port and not DIGITS.fullmatch(port[0]):
        return f"the port, {port[0]!r}, is not made of digits only"
    return None


def _explain_year(year: str) -> str | None:
    if len(year) != 4 or not DIGITS.fullmatch(year) or year == "0000":
        return f"the year, {year!r}, is none of 0001 to 9999, in four digits"
    return None


def _explain_date(year: str, rest: str) -> str:
    fields = rest.split(".")
    for (name, least, most), field in zip(_DATE_FIELDS, fields, strict=False):
        if not _TWO_DIGITS.fullmatch(field) or not least <= int(field) <= most:
            return f"the {name}, {field!r}, is none of {least:02} to {most:02}, in two digits"
    if len(fields) < 4:
        missing = _DATE_FIELDS[len(fields)][0]
        return f"the date ends before the {missing}, where month.day.hour.minute is needed"
    if not has_day(year, fields[0], fields[1]):
        return f"the day, {fields[1]!r}, does not exist in month {fields[0]} of {year}"
    if len(fields) > 6:
        return "the date has too many parts, where nothing may follow the fraction"
    return f"the fraction of the second, {fields[-1]!r}, is not made of digits only"
