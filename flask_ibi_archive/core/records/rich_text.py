"""The markup that other systems write in titles and abstracts, as HTML and as plain text.

Crossref, Zotero and journals write ``CO<sub>2</sub>``, ``<jats:italic>Aedes</jats:italic>`` or
``&amp;`` in titles. Records keep such texts as they are. Pages show the markup: the HTML contains
only the tags of :data:`TAGS`, without attributes. Citations, formats and searches use the plain
text. A tag without its counterpart, and any other tag, is text. An entity is decoded once.
"""

from __future__ import annotations

import re
from collections import Counter
from html import escape, unescape

from flask_ibi_archive.core.records.values import NOT_XML

#: The tags of the HTML.
TAGS = frozenset({"i", "em", "b", "strong", "sub", "sup"})
#: The tags that become line breaks, and the other names that JATS has for tags. Other tags of JATS,
#: such as those of links, are left out.
_NAMES = {name: f"<{name}>" for name in TAGS} | {"p": "\n"}
_JATS = _NAMES | {"italic": "<i>", "bold": "<b>", "title": "\n", "sec": "\n", "list-item": "\n"}
_TAG = re.compile(r"<(/?)(jats:)?([A-Za-z][a-z-]*)(?:\s[^<>]*)?>", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});", re.IGNORECASE)


def to_html(text: str) -> str:
    """Return a text as HTML, whose line breaks are characters."""
    return _join(text, 0) or escape(text)


def to_plain(text: str) -> str:
    """Return a text without markup."""
    return _join(text, 1) or text


_BREAK = ("\n", "\n")


def _join(text: str, form: int) -> str:
    """Return a text with markup as HTML (``form`` 0) or as plain text (1).

    The result is "" for a text without markup, or if nothing but spaces remains.
    """
    if "<" not in text and "&" not in text:
        return ""
    parts = _read(text)
    joined = "".join(part[form] for part in parts)
    if _BREAK not in parts:
        return joined if joined.strip() else ""
    return "\n".join(filter(None, map(str.strip, joined.split("\n"))))


def _read(text: str) -> list[tuple[str, str]]:
    """Divide a text into parts; return ``(HTML, plain text)`` for each part."""
    parts: list[tuple[str, str]] = []
    #: The tags without a counterpart so far, with the places of their parts; and their numbers.
    opened: list[tuple[str, int]] = []
    counts: Counter[str] = Counter()
    position = 0
    for found in _TAG.finditer(text):
        parts += map(_read_text, (text[position : found.start()], found[0]))
        position = found.end()
        name = f"{found[2] or ''}{found[3]}".lower()
        known = _JATS if found[2] else _NAMES
        tag = known.get(found[3].lower(), "" if found[2] else None)
        if tag is not None and not found[1]:
            opened.append((name, len(parts) - 1))
            counts[name] += 1
        elif tag is not None and counts[name]:
            start = ""
            while start != name:
                start, place = opened.pop()
                counts[start] -= 1
            is_break = tag == "\n"
            parts[place] = _BREAK if is_break else (tag, "")
            parts[-1] = _BREAK if is_break else (tag.replace("<", "</"), "")
    return [*parts, _read_text(text[position:])]


def _read_text(text: str) -> tuple[str, str]:
    plain = _ENTITY.sub(_decode, text)
    return escape(plain), plain


def _decode(entity: re.Match[str]) -> str:
    """Decode an entity such as ``&amp;``; keep an entity whose character is not allowed."""
    text = unescape(entity[0])
    return entity[0] if NOT_XML.search(text) or text in ("", "\ufffd") else text
