"""Languages: parsing, the preferences of a reader, and the choice of an available language.

The browser of the reader sends language ranges, such as ``pt-BR`` or ``pt``. Each range has a
weight. A tag such as ``zh-Hant-TW`` consists of subtags: a language, a script and a country.

Source: RFC 9110, 12.4.2 and 12.5.4 (Accept-Language); RFC 4647, 2.1 and 3.4 (lookup); [R] 6.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from flask_ibi_archive.errors import RefusedText

_CODES = json.loads(
    files("flask_ibi_archive.core.protocol").joinpath("codes.json").read_text(encoding="utf-8")
)
#: Language codes, ISO 639-1, lower case, and those of ISO 639-3; the languages of Bihar (``bh``)
#: have no common one. Source: [R] Appendix A, Table A.1.
LANGUAGES: dict[str, str] = _CODES["languages"]
#: Country codes, ISO 3166-1 alpha-2, upper case. Source: [R] Appendix A, Table A.1.
COUNTRIES = frozenset(" ".join(_CODES["countries"]).split())


def parse_language(text: str) -> str:
    """Check that a text is a language such as ``pt`` or ``pt-BR``, and return the text.

    :param text: a language code, or a language code and a country code. Upper and lower case are
        different.
    :raises RefusedText: if the text is not a language.
    Source: [R] Table 7.5 and Appendix A.
    """
    language, dash, country = text.partition("-")
    for code, place in ((language, country), (language.lower(), country.upper())):
        if code in LANGUAGES and (not dash or place in COUNTRIES):
            if (code, place) == (language, country):
                return text
            raise RefusedText("language_case", text=text[:80], right=f"{code}{dash}{place}")
    code = "unknown_country" if language in LANGUAGES else "unknown_language"
    raise RefusedText(code, text=text[:80])


#: Maximum number of language ranges in a header. Further ranges are ignored.
MAX_RANGES = 50

ANY_LANGUAGE = "*"

# language-range = (1*8ALPHA *("-" 1*8alphanum)) | "*"; weight = OWS ";" OWS "q=" qvalue
_RANGE = re.compile(
    r"[ \t]*(\*|[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,15})"
    r"(?:[ \t]*;[ \t]*[Qq]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?[ \t]*"
)


@dataclass(frozen=True, slots=True)
class LanguageRange:
    """A language range of an Accept-Language header.

    :param tag: the tag as in the header, such as ``pt-BR``; ``"*"`` means any language.
    :param quality: the weight, from 1 (preferred) to 0 (not acceptable).
    Source: RFC 4647, 2.1; RFC 9110, 12.4.2.
    """

    tag: str
    quality: float = 1.0


@dataclass(frozen=True, slots=True)
class ReaderPreferences:
    """The preferences of the reader. Archives do not receive them ([R] 6.2).

    :param ranges: the language ranges, sorted by preference. The most preferred range is first.
    :param requires_original: whether only the Original is acceptable.
    """

    ranges: tuple[LanguageRange, ...] = ()
    requires_original: bool = False

    @property
    def has_languages(self) -> bool:
        """Whether the reader prefers at least one language."""
        return next(_wanted_tags(self.ranges), None) is not None


def parse_accept_language(header: str | None) -> tuple[LanguageRange, ...]:
    """Return the language ranges of an Accept-Language header, sorted by preference.

    :param header: the value of the header, or None if the header is missing.
    :returns: at most 50 ranges. The range with the highest weight is first. Ranges with the same
        weight keep the order of the header. Malformed ranges are left out.
    Source: RFC 9110, 12.5.4.
    """
    parts = (header or "").split(",", 2 * MAX_RANGES)[: 2 * MAX_RANGES]
    found = [match for part in parts if (match := _RANGE.fullmatch(part))][:MAX_RANGES]
    ranges = [LanguageRange(match[1], float(match[2] or "1")) for match in found]
    return tuple(sorted(ranges, key=lambda language: -language.quality))


def find_language(ranges: Sequence[LanguageRange], available: Collection[str]) -> str | None:
    """Return the available language that suits the reader best, or None if no language suits.

    The ranges are tried in order of preference. For each range, subtags are removed from the end
    until the rest is an available language: the range ``pt-BR`` accepts ``pt``. If there is no such
    language, the range accepts the same language in any country: the ranges ``pt`` and ``pt-AO``
    accept ``pt-BR``. Among several such languages, the preference is: the country of the range,
    then a language that another range names, then alphabetical order. Upper and lower case are
    treated as equal. The range ``*`` selects no language. A range with the weight 0 refuses all
    languages that it matches, except those that a longer range accepts.

    :param ranges: the language ranges, sorted by preference.
    :param available: the available languages, such as ``pt`` or ``pt-BR``.
    Source: RFC 4647, 3.4 (removing subtags); [R] 6.1.
    """
    qualities = {language.tag.lower(): language.quality for language in reversed(ranges)}
    tags = {tag.lower(): tag for tag in available if not _is_refused(tag.lower(), qualities)}
    wanted_tags = list(_wanted_tags(ranges))
    for wanted in wanted_tags:
        for shorter in _shorten(wanted):
            if shorter in tags:
                return tags[shorter]
        language, *others = wanted.split("-")
        if same := [tag for tag in tags if tag.startswith(f"{language}-")]:
            named = [tag for tag in wanted_tags if tag in same] + sorted(same)
            # False precedes True: the first language with the country of the range, if there is one
            return tags[min(named, key=lambda tag: tag.rpartition("-")[2] not in others)]
    return None


def is_first_choice(ranges: Sequence[LanguageRange], tag: str) -> bool:
    """Return whether a language is equal to the range that the reader prefers most."""
    return next(_wanted_tags(ranges), None) == tag.lower()


def _wanted_tags(ranges: Sequence[LanguageRange]) -> Iterator[str]:
    for language in ranges:
        if language.quality > 0 and language.tag != ANY_LANGUAGE:
            yield language.tag.lower()


def _is_refused(tag: str, qualities: Mapping[str, float]) -> bool:
    """Return whether the reader refuses a language.

    The longest range that matches the language decides: a range of weight 0 refuses the language.
    """
    return next((qualities[shorter] for shorter in _shorten(tag) if shorter in qualities), 1.0) == 0


def _shorten(tag: str) -> Iterator[str]:
    """Yield a tag, then the tag without the last subtag, and so on: zh-Hant-TW, zh-Hant, zh."""
    subtags = tag.split("-")
    while subtags:
        yield "-".join(subtags)
        subtags.pop()
        # a subtag of one letter has no meaning without the next subtag
        if len(subtags) > 1 and len(subtags[-1]) == 1:
            subtags.pop()
