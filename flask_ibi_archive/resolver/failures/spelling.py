"""The known identifier that is nearest to one that failed.

It may also be a foreign identifier or a former address. Only texts that differ by one typing error
are tried, the likely errors first:

1. punctuation of the sentence around the identifier, a lost ``@80``, a lost or doubled slash, and
   characters that look alike, such as O and 0; a DOI or a Handle without its scheme;
2. two characters in the wrong order, and one character too many;
3. one wrong character, and one that is missing.

An identifier is only suggested if it is known: identifiers that a server mints one after another
differ by one character, so that without this test nearly every suggestion would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from flask_ibi_archive.core.identifiers import suggest_identifier
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.identifiers.ibip import GRAPHEMES
from flask_ibi_archive.errors import IdentifierError

#: Returns those of some identifiers in canonical spelling that are known.
FindKnown = Callable[[Sequence[str]], Collection[str]]

#: The maximum number of texts that are tried for one identifier.
MAX_TRIED = 8000
#: The number of identifiers that are looked up together.
BATCH = 500

_AROUND = " .,;:'\"()[]{}<>"
_ALIKE = ("0OoQD", "1IiLl", "2Zz", "5Ss", "6Gb", "8B", "UVuv", "-_")
_PORTS = ("@80", ".80")
_IBIP_CHARACTERS = f"{GRAPHEMES}WXZ/"
_REP_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789.-/@"
_LEGACY_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/"
_FOREIGN_CHARACTERS = f"{_LEGACY_CHARACTERS}-._:"
_has_scheme = re.compile("(?:doi|hdl|ark|urn|https?):", re.IGNORECASE).match


def find_nearest(text: str, find_known: FindKnown, *, thorough: bool = True) -> str | None:
    """Return the known identifier that is nearest to a text.

    The result depends on the text and on the known identifiers only.

    :param text: an identifier in canonical spelling, or a text that is no identifier.
    :param find_known: returns those of some identifiers in canonical spelling that are known.
    :param thorough: False tries only the most likely errors, at most some dozen identifiers.
    :returns: an identifier in canonical spelling. None if none of those that were tried is known.
    """
    variants = _list_likely(text.strip(_AROUND))
    if thorough:
        variants = chain(variants, _list_edits(text))
    candidates = _list_identifiers(text, islice(variants, MAX_TRIED))
    while batch := list(islice(candidates, BATCH)):
        known = find_known(batch)
        if known:
            return next(candidate for candidate in batch if candidate in known)
    return None


def _list_identifiers(text: str, variants: Iterable[str]) -> Iterator[str]:
    """Yield the variants that are identifiers, in canonical spelling, each once."""
    seen = {_read_name(text)[1]}
    for variant in variants:
        name, compared = _read_name(variant)
        if name and compared not in seen:
            seen.add(compared)
            yield name


def _read_name(text: str) -> tuple[str, str]:
    """Return the canonical spelling of an identifier, and the form for comparison.

    :returns: an empty spelling and the text itself if the text is no identifier.
    """
    identifier = match_identifier(text)
    if identifier is not None:
        return identifier.text, identifier.text
    if _has_scheme(text):
        try:
            foreign = parse_foreign(text)
        except IdentifierError:
            pass
        else:
            return foreign.text, foreign.digest
    return "", text


def _list_likely(text: str) -> Iterator[str]:
    """Yield the results of correcting one of the most likely errors."""
    yield text
    if suggestion := suggest_identifier(text):
        yield suggestion
    parts = text.split("/")
    if len(parts) == 4:
        yield from _list_ports(parts)
    yield "/".join(part for part in parts if part)
    if text[:1].isdecimal():
        yield f"hdl:{text}"  # a DOI, too
    # the case of an identifier from before the standard is part of it
    yield text.upper()
    for place, character in enumerate(text):
        for alike in _ALIKE:
            if character in alike:
                for other in alike:
                    yield text[:place] + other + text[place + 1 :]


def _list_ports(parts: list[str]) -> Iterator[str]:
    """Yield a repository name with the default port, or without its port."""
    domain, word, *date = parts
    for port in _PORTS:
        bare = word.removesuffix(port)
        yield "/".join([domain, bare if bare != word else word + port, *date])


def _list_edits(text: str) -> Iterator[str]:
    """Yield the texts that differ by one edit: those with fewer alternatives first."""
    characters = _list_characters(text)
    places = range(len(text))
    for place in places[:-1]:
        yield text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    for place in places:
        yield text[:place] + text[place + 1 :]
    for place in range(len(text) + 1):
        yield text[:place] + "/" + text[place:]
    for place in reversed(places):  # the ends of identifiers differ most
        for character in characters:
            yield text[:place] + character + text[place + 1 :]
    for place in range(len(text), -1, -1):
        for character in characters:
            yield text[:place] + character + text[place:]


def _list_characters(text: str) -> str:
    """Return the characters that identifiers of the form that a text was meant to have contain."""
    if _has_scheme(text):
        return _FOREIGN_CHARACTERS
    if "." in text or text.count("/") > 2:
        return _REP_CHARACTERS
    return _LEGACY_CHARACTERS if "z" in text.lower() else _IBIP_CHARACTERS
