"""The "did you mean" of error messages: repairs of characters that look alike.

The pairs of such characters are 0/O, 1/I, 8/B, 5/S and V/U.

- A repository name: a letter in the port or in the date becomes the digit of its pair. A digit at
  the beginning of the last word of the subdomain becomes the letter of its pair. All such
  characters are replaced at the same time.
- An IBIp: "V" becomes "U". If the first or the second part cannot be decoded, one of the characters
  8, B, 5 and S in that part is replaced, or two of them if one is not enough. 0, O, 1 and I are not
  replaced: neither character of their pairs can be in an IBIp.

A text has a suggestion if exactly one repair with the fewest replacements can be decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations

from flask_ibi_archive.errors import IdentifierError
from flask_ibi_archive.identifiers.abnf import IBIP, MAX_LENGTH
from flask_ibi_archive.identifiers.decode import decode_identifier
from flask_ibi_archive.identifiers.ibip import decode_ibip_prefix, decode_ibip_suffix
from flask_ibi_archive.identifiers.identifier import Identifier, match_identifier

_TWO_WORDS = re.compile("[A-Za-z0-9]+/[A-Za-z0-9]+")
_PORT_SIGN = re.compile("[.@]")
_TO_DIGIT = str.maketrans("oibs", "0185")
_TO_LETTER = str.maketrans("0185", "oibs")
_EXCHANGED = {"8": "B", "B": "8", "5": "S", "S": "5"}

_MAX_EXCHANGES = 2
_MAX_CANDIDATES = 200


def suggest_identifier(text: str) -> str | None:
    """Return the identifier that the writer of a text probably meant, or None.

    :param text: a text that is not an identifier, or an IBIp that cannot be decoded.
    :returns: the canonical text of the repaired identifier; None if no repair or more than one
        repair can be decoded.
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
    right_prefix = _find_only_code(prefix, decode_ibip_prefix)
    right_suffix = _find_only_code(suffix, decode_ibip_suffix) if right_prefix else None
    found = f"{right_prefix}/{right_suffix}"
    return found if right_suffix and found != text else None


def _find_only_code(part: str, decode: Callable[[str], object]) -> str | None:
    """Return the text with the fewest replacements that can be decoded; None if not exactly one."""
    tried = 0
    for exchanges in range(_MAX_EXCHANGES + 1):
        found = None
        for candidate in _exchange(part, exchanges):
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


def _exchange(part: str, exchanges: int) -> Iterator[str]:
    """Yield each text that results from a number of replacements in a part."""
    places = [place for place, grapheme in enumerate(part) if grapheme in _EXCHANGED]
    for chosen in combinations(places, exchanges):
        characters = list(part)
        for place in chosen:
            characters[place] = _EXCHANGED[characters[place]]
        yield "".join(characters)
