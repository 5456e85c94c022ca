"""The reasons that the pure core gives in English, in the language of a page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from flask_ibi_archive.web.reason_texts import LEADS, REASONS

# A field is a text in quotes, as repr() writes it, or a word. No template has behind a field what
# could stand in it, so that it ends in one place only and no text is read more than once.
_FIELD = r"""('[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s'",;]+)"""

_PORTUGUESE = {**LEADS, **REASONS}

#: Characters of the longest reason that is translated; a reason repeats no more than a request may
#: hold.
MAX_REASON = 16384

#: A template, and what stands in the places of its ``{}``.
Part = tuple[str, tuple[str, ...]]


def translate_reason(reason: str, language: str) -> str:
    """Return a reason in the language of a page.

    :param reason: the ``rule`` of an error, in English.
    :returns: Portuguese for ``pt``, with its fields as they are; English for other languages, and
        for a reason that no template matches or that is longer than :data:`MAX_REASON`.
    """
    parts = split_reason(reason) if language == "pt" and len(reason) <= MAX_REASON else []
    return "".join([_PORTUGUESE[text].format(*fields) for text, fields in parts]) or reason


def split_reason(reason: str) -> list[Part]:
    """Return the parts of a reason: leads, perhaps none, and what is wrong; [] where no template
    matches.
    """
    parts: list[Part] = []
    start = 0
    while found := _find(LEADS, reason, start):
        part, start = found
        parts.append(part)
    found = _find(REASONS, reason, start)
    return [*parts, found[0]] if found else []


def _find(templates: Iterable[str], reason: str, start: int) -> tuple[Part, int] | None:
    """Return the part that begins at a place, and where it ends."""
    for template in templates:
        if found := _pattern(template).match(reason, start):
            return (template, found.groups()), found.end()
    return None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    end = r"\Z" if template in REASONS else ""
    return re.compile(_FIELD.join([re.escape(text) for text in template.split("{}")]) + end)
