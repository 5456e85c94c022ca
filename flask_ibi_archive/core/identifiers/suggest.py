"""The question "did you mean ...?" in error messages.

People confuse characters that look alike. The pairs of such characters are 0/O, 1/I, 8/B, 5/S and
V/U. This module replaces such characters in a wrong text.

- In a repository name, each letter in the port and in the date becomes the digit of the pair. A
  digit at the beginning of the last word of the subdomain becomes the letter of the pair.
- In an IBIp, each "V" becomes "U". If a part of the IBIp cannot be decoded, the module replaces one
  of the characters 8, B, 5 and S in this part. If one replacement is not enough, the module makes
  two replacements. An IBIp cannot contain 0, O, 1 or I, and these characters are not replaced.

A repaired text is right if the text can be decoded. The module prefers the texts with the fewest
replacements. If exactly one of these texts is right, the module suggests this text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations

from flask_ibi_archive.core.identifiers.abnf import IBIP, MAX_LENGTH
from flask_ibi_archive.core.identifiers.decode import decode_identifier
from flask_ibi_archive.core.identifiers.ibip import decode_ibip_prefix, decode_ibip_suffix
from flask_ibi_archive.core.identifiers.identifier import Identifier, match_identifier
from flask_ibi_archive.errors import IdentifierError

_TWO_WORDS = re.compile("[A-Za-z0-9]+/[A-Za-z0-9]+")
_PORT_SIGN = re.compile("[.@]")
_TO_DIGIT = str.maketrans("oibs", "0185")
_TO_LETTER = str.maketrans("0185", "oibs")
_EXCHANGED = {"8": "B", "B": "8", "5": "S", "S": "5"}

_MAX_EXCHANGES = 2
_MAX_CANDIDATES = 200


def suggest_identifier(text: str) -> str | None:
    """Return the identifier that the writer of a text probably meant.

    :param text: a text that is not an identifier, or an IBIp that cannot be decoded.
    :returns: the canonical text of the repaired identifier. None if there is no right text, or more
        than one right text.
    """
    if len(text) > MAX_LENGTH or not text.isascii():
        return None
    if _TWO_WORDS.fullmatch(text):
        return _repair_ibip(text.upper())
    return _repair_repository_name(text.lower()) if text.count("/") == 3 else None


def _repair_repository_name(text: str) -> str | None:
    subdomain, word, year, rest = text.split("/")
    start = subdomain.removesuffix(".").rfind(".") + 1
    first, others = subdomain[start : start + 1], subdomain[start + 1 :]
    subdomain = subdomain[:start] + first.translate(_TO_LETTER) + others
    if sign := _PORT_SIGN.search(word):
        word = word[: sign.start()] + word[sign.start() :].translate(_TO_DIGIT)
    repaired = f"{subdomain}/{word}/{year.translate(_TO_DIGIT)}/{rest.translate(_TO_DIGIT)}"
    if repaired == text:
        return None
    identifier = match_identifier(repaired)
    return repaired if identifier and _can_decode(identifier) else None


def _can_decode(identifier: Identifier) -> bool:
    try:
        decode_identifier(identifier)
    except IdentifierError:
        return False
    return True


def _repair_ibip(text: str) -> str | None:
    repaired = text.replace("V", "U")
    if not IBIP.fullmatch(repaired):
        return None
    prefix, _, suffix = repaired.partition("/")
    right_prefix = _repair_code(prefix, decode_ibip_prefix)
    right_suffix = _repair_code(suffix, decode_ibip_suffix) if right_prefix else None
    found = f"{right_prefix}/{right_suffix}"
    return found if right_suffix and found != text else None


def _repair_code(part: str, decode: Callable[[str], object]) -> str | None:
    """Return the right text of a part with the fewest replacements.

    :param part: the prefix or the suffix of an IBIp.
    :param decode: raises ValueError if a text cannot be decoded.
    :returns: the text; None if there is no right text, or more than one right text.
    """
    tried = 0
    for exchanges in range(_MAX_EXCHANGES + 1):
        found = None
        for candidate in _list_replacements(part, exchanges):
            tried += 1
            if tried > _MAX_CANDIDATES:
                return None
            try:
                decode(candidate)
            except ValueError:
                continue
            if found:
                return None
            found = candidate
        if found:
            return found
    return None


def _list_replacements(part: str, exchanges: int) -> Iterator[str]:
    """Yield each text that differs from a part by a certain number of replacements."""
    places = [place for place, grapheme in enumerate(part) if grapheme in _EXCHANGED]
    for chosen in combinations(places, exchanges):
        characters = list(part)
        for place in chosen:
            characters[place] = _EXCHANGED[characters[place]]
        yield "".join(characters)
