"""The languages that a reader prefers, and which of those offered suits best.

Source: RFC 9110, 12.4.2 and 12.5.4 (Accept-Language); RFC 4647, 2.1 and 3.4 (lookup); [R] 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

#: Ranges of a header that count; what stands behind them is passed over.
MAX_RANGES = 50

ANY_LANGUAGE = "*"

# language-range = (1*8ALPHA *("-" 1*8alphanum)) | "*"; weight = OWS ";" OWS "q=" qvalue
_RANGE = re.compile(
    r"[ \t]*(\*|[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,15})"
    r"(?:[ \t]*;[ \t]*[Qq]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?[ \t]*"
)


@dataclass(frozen=True, slots=True)
class LanguageRange:
    """A language that a reader asks for.

    :param tag: such as ``pt-BR``, as it was written, or ``"*"``: any language.
    :param quality: how much it is wanted, 1 to 0; 0: not at all.
    Source: RFC 4647, 2.1; RFC 9110, 12.4.2.
    """

    tag: str
    quality: float = 1.0


def parse_accept_language(header: str | None) -> tuple[LanguageRange, ...]:
    """Return the ranges of an Accept-Language header, those wanted most first.

    :param header: its value; None: there is none.
    :returns: at most 50, by weight, those of the same weight in their order; what is malformed is
        passed over. Nothing is refused.
    Source: RFC 9110, 12.5.4.
    """
    parts = (header or "").split(",", 2 * MAX_RANGES)[: 2 * MAX_RANGES]
    found = [match for part in parts if (match := _RANGE.fullmatch(part))][:MAX_RANGES]
    ranges = [LanguageRange(match[1], float(match[2] or "1")) for match in found]
    return tuple(sorted(ranges, key=lambda language: -language.quality))


@dataclass(frozen=True, slots=True)
class ReaderPreferences:
    """What is not told to Archives ([R] 6.2).

    :param ranges: the languages preferred.
    :param requires_original: whether nothing but the Original will do.
    """

    ranges: tuple[LanguageRange, ...] = ()
    requires_original: bool = False

    @property
    def has_preferences(self) -> bool:
        """Whether any language at all is wanted rather than others."""
        return any(one.quality > 0 and one.tag != ANY_LANGUAGE for one in self.ranges)


def find_language(ranges: Sequence[LanguageRange], offered: Collection[str]) -> str | None:
    """Return the language that suits a reader best, None where none does.

    :param ranges: by preference.
    :param offered: ``xx`` or ``xx-YY`` each; it is one of them that is given.

    Each range in turn is shortened until it is offered (``pt-BR`` falls back to ``pt``); where it
    never is, what it is the beginning of will do, the alphabetically first (``pt`` accepts
    ``pt-BR``, but ``pt-BR`` does not lead to ``pt-PT``). Case does not count. ``*`` picks nothing,
    and what a range with the weight 0 names is not picked, unless a longer one wants it.
    Source: RFC 4647, 3.4; [R] 6.1.
    """
    refused = _Refused(ranges)
    tags = {tag.lower(): tag for tag in offered if tag not in refused}
    for wanted in _get_wanted(ranges):
        for shorter in _shorten(wanted):
            if shorter in tags:
                return tags[shorter]
        if narrower := [tag for tag in tags if tag.startswith(f"{wanted}-")]:
            return tags[min(narrower)]
    return None


def is_best(ranges: Sequence[LanguageRange], tag: str) -> bool:
    """Tell whether a language is exactly what the first range asks for: nothing offered can be
    better.
    """
    return next(_get_wanted(ranges), None) == tag.lower()


def _get_wanted(ranges: Sequence[LanguageRange]) -> Iterator[str]:
    for language in ranges:
        if language.quality > 0 and language.tag != ANY_LANGUAGE:
            yield language.tag.lower()


def _shorten(tag: str) -> Iterator[str]:
    """Return a tag in lower case, then without its last subtag, and so on."""
    subtags = tag.split("-")
    while subtags:
        yield "-".join(subtags)
        subtags.pop()
        if len(subtags) > 1 and len(subtags[-1]) == 1:  # it only introduces what stood behind it
            subtags.pop()


class _Refused:
    """The languages that ranges refuse: of those that name a language the longest decides."""

    def __init__(self, ranges: Sequence[LanguageRange]) -> None:
        self._qualities: dict[str, float] = {}
        for language in ranges:
            tag = language.tag.lower()
            self._qualities[tag] = max(language.quality, self._qualities.get(tag, 0))

    def __contains__(self, tag: str) -> bool:
        for shorter in _shorten(tag.lower()):
            if shorter in self._qualities:
                return self._qualities[shorter] == 0
        return False
