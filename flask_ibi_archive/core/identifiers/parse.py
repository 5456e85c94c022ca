"""Parsing and decoding of identifiers. An error explains what is wrong, and may suggest a repair.

The explanation reads a wrong text from left to right and follows [G] Tables 6.1 and 7.1.

People confuse characters that look alike: 0/O, 1/I, 8/B, 5/S and V/U. A repair replaces such
characters.

- In a repository name, a letter of such a pair becomes the digit if it is in the port or in the
  date. A digit becomes the letter if it begins the last word of the subdomain.
- In an IBIp, each "V" becomes "U". If a part of the IBIp cannot be decoded, the module replaces one
  of the characters 8, B, 5 and S in this part, or two of them if one is not enough. An IBIp
  cannot contain 0, O, 1 or I.

The suggestion is the text with the fewest replacements that can be decoded. If there are several
such texts with the same number of replacements, there is no suggestion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, islice
from typing import TypeVar

from flask_ibi_archive.core.identifiers import grammar
from flask_ibi_archive.core.identifiers.dates import get_posix_seconds, join_seconds
from flask_ibi_archive.core.identifiers.grammar import Form, Identifier, match_identifier
from flask_ibi_archive.errors import IdentifierError, Reason, RefusedText


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded content of an identifier.

    An attribute is None if identifiers of this form do not contain the value.

    :param form: the form of the identifier.
    :param host: the domain name (repository name only).
    :param ip: the canonical text of the IP address (IBIp only).
    :param port: 1 to 65535; 80 (repository name) or 800 (IBIp) if the prefix contains no port.
    :param date: the date of the assignment in exact POSIX seconds (UTC).
    """

    form: Form
    host: str | None = None
    ip: str | None = None
    port: int | None = None
    date: Fraction | None = None


def decode_identifier(identifier: Identifier) -> Decoded:
    """Decode an identifier into the address and the port of a server, and the date.

    The server had this address and port when it assigned the identifier. The function does not
    query the DNS.

    :returns: for the form rep, the host, the port and the date; for ibip, the IP address, the port
        and the date; for legacy, only the form.
    :raises IdentifierError: if the first part does not contain an address and a port, or if the
        second part does not contain a date.

    Source: [G] 5, functions c and f; 6, Algorithms 1 and 2; 7, on Algorithms 5 and 6.
    """
    if identifier.form is Form.LEGACY:
        return Decoded(Form.LEGACY)
    if identifier.form is Form.IBIP:
        return _decode_ibip(identifier)
    return _decode_repository_name(identifier)


def _decode_ibip(identifier: Identifier) -> Decoded:
    code = "no_address_and_port"
    try:
        ip, port = grammar.decode_ibip_prefix(identifier.prefix)
        code = "no_date"
        date = grammar.decode_ibip_suffix(identifier.suffix)
    except RefusedText as error:
        raise IdentifierError(identifier.text, Reason(code, problem=error.reason)) from error
    return Decoded(Form.IBIP, ip=ip, port=port, date=date)


def _decode_repository_name(identifier: Identifier) -> Decoded:
    subdomain, word, year, rest = identifier.text.split("/")
    word, _, digits = word.replace("@", ".").partition(".")
    port = int(digits or grammar.DEFAULT_REPOSITORY_PORT)
    if not 1 <= port <= 65535:
        raise IdentifierError(identifier.text, Reason("port_range", port=digits[:20]))
    month, day, hour, minute, second, fraction = [*rest.split("."), "0", "0"][:6]
    moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second))
    date = join_seconds(get_posix_seconds(moment), fraction)
    return Decoded(Form.REP, host=f"{word}.{subdomain}", port=port, date=date)


_DATE_FIELDS = (
    ("month", 1, 12),
    ("day", 1, 31),
    ("hour", 0, 23),
    ("minute", 0, 59),
    ("second", 0, 59),
)
_PUNCTUATION = re.compile("[.@-]")
_PORT_SIGN = re.compile("[.@]")
_SEPARATOR = re.compile("[WX]")


def explain_refusal(text: str) -> Reason:
    """Return the reason why a text is not an identifier.

    :returns: the first error in the text. A position in the reason counts characters from 1.
    """
    if not text:
        return Reason("identifier_empty")
    if len(text) > grammar.MAX_LENGTH:
        return Reason("identifier_too_long", length=len(text), limit=grammar.MAX_LENGTH)
    if foreign := grammar.FOREIGN.search(text):
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
            if character.upper() not in f"{grammar.GRAPHEMES}WX":
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
    if reason := _explain_subdomain(subdomain) or _explain_word_and_port(word):
        return reason
    if len(year) != 4 or not year.isdigit() or year == "0000":
        return Reason("year", value=year)
    return _explain_date(year, rest)


def _explain_subdomain(subdomain: str) -> Reason | None:
    words = subdomain.removesuffix(".").split(".")
    for number, word in enumerate(words, 1):
        if fault := grammar.find_word_fault(word, last=number == len(words)):
            return Reason("word_of_subdomain", number=number, word=word, problem=fault)
    return None


def _explain_word_and_port(part: str) -> Reason | None:
    word, *port = _PORT_SIGN.split(part, maxsplit=1)
    if fault := grammar.find_word_fault(word):
        return Reason("word_after_subdomain", word=word, problem=fault)
    if port and not port[0]:
        return Reason("port_missing", sign=part[-1])
    if port and not port[0].isdigit():
        return Reason("port_not_digits", port=port[0])
    return None


def _explain_date(year: str, rest: str) -> Reason:
    fields = rest.split(".")
    for (name, least, most), field in zip(_DATE_FIELDS, fields, strict=False):
        if len(field) != 2 or not field.isdigit() or not least <= int(field) <= most:
            return Reason(name, value=field)
    if len(fields) < 4:
        return Reason(f"{_DATE_FIELDS[len(fields)][0]}_missing")
    if not grammar.month_has_day(year, fields[0], fields[1]):
        return Reason("no_such_day", day=fields[1], month=fields[0], year=year)
    if len(fields) > 6:
        return Reason("date_too_long")
    return Reason("fraction_not_digits", fraction=fields[-1])


_TWO_WORDS = re.compile("[A-Za-z0-9]+/[A-Za-z0-9]+")
_TO_DIGIT = str.maketrans("oibs", "0185")
_TO_LETTER = str.maketrans("0185", "oibs")
_EXCHANGED = {"8": "B", "B": "8", "5": "S", "S": "5"}

_Text = TypeVar("_Text", str, Identifier)

_MAX_EXCHANGES = 2
_MAX_CANDIDATES = 200


def suggest_identifier(text: str) -> str | None:
    """Return the identifier that the writer of a text probably meant.

    :param text: a text that is not an identifier, or an IBIp that cannot be decoded.
    :returns: the canonical text of the repaired identifier. None if no repair gives an identifier,
        or if several repairs do.
    """
    if len(text) > grammar.MAX_LENGTH or not text.isascii():
        return None
    if _TWO_WORDS.fullmatch(text):
        return _repair_ibip(text.upper())
    return _repair_repository_name(text.lower()) if text.count("/") == 3 else None


def _repair_repository_name(text: str) -> str | None:
    subdomain, word, year, rest = text.split("/")
    # only the first character of the last word must be a letter
    start = subdomain.removesuffix(".").rfind(".") + 1
    first, others = subdomain[start : start + 1], subdomain[start + 1 :]
    subdomain = subdomain[:start] + first.translate(_TO_LETTER) + others
    if sign := _PORT_SIGN.search(word):
        word = word[: sign.start()] + word[sign.start() :].translate(_TO_DIGIT)
    repaired = f"{subdomain}/{word}/{year.translate(_TO_DIGIT)}/{rest.translate(_TO_DIGIT)}"
    if repaired == text:
        return None
    identifier = match_identifier(repaired)
    return repaired if identifier and _is_right(identifier, decode_identifier) else None


def _repair_ibip(text: str) -> str | None:
    repaired = text.replace("V", "U")
    if not grammar.IBIP.fullmatch(repaired):
        return None
    prefix, _, suffix = repaired.partition("/")
    right_prefix = _repair_code(prefix, grammar.decode_ibip_prefix)
    right_suffix = _repair_code(suffix, grammar.decode_ibip_suffix) if right_prefix else None
    found = f"{right_prefix}/{right_suffix}"
    return found if right_suffix and found != text else None


def _repair_code(part: str, decode: Callable[[str], object]) -> str | None:
    """Replace as few characters of a part as necessary so that the part can be decoded.

    :param part: the prefix or the suffix of an IBIp.
    :param decode: raises ValueError if a text cannot be decoded.
    :returns: the repaired part. None if two replacements are not enough, or if several repaired
        parts have the same number of replacements.
    """
    tried = 0
    for exchanges in range(_MAX_EXCHANGES + 1):
        candidates = list(islice(_list_replacements(part, exchanges), _MAX_CANDIDATES + 1))
        tried += len(candidates)
        if tried > _MAX_CANDIDATES:
            return None
        if right := [candidate for candidate in candidates if _is_right(candidate, decode)]:
            return right[0] if len(right) == 1 else None
    return None


def _is_right(text: _Text, decode: Callable[[_Text], object]) -> bool:
    try:
        decode(text)
    except ValueError:
        return False
    return True


def _list_replacements(part: str, exchanges: int) -> Iterator[str]:
    """Yield each text in which ``exchanges`` of the confusing characters of a part are replaced."""
    positions = [position for position, grapheme in enumerate(part) if grapheme in _EXCHANGED]
    for chosen in combinations(positions, exchanges):
        characters = list(part)
        for position in chosen:
            characters[position] = _EXCHANGED[characters[position]]
        yield "".join(characters)


@lru_cache(maxsize=1024)  # an answer parses the identifier of its item several times
def parse_identifier(text: str) -> Identifier:
    """Parse an identifier of any form.

    :param text: a repository name or an IBIp in upper or lower case, or a legacy identifier.
    :raises IdentifierError: if the text is not an identifier. The error contains the reason, and
        the result of :func:`suggest_identifier`.

    Source: [G] Tables 6.1 and 7.1 with their semantic rules.
    """
    identifier = match_identifier(text)
    if identifier is None:
        raise IdentifierError(text, explain_refusal(text), suggest_identifier(text))
    return identifier
