"""Unqualified Dublin Core: its elements and their XML format oai_dc."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape, quoteattr

#: The fifteen elements, in the order of the Dublin Core Metadata Element Set.
ELEMENTS = (
    "title", "creator", "subject", "description", "publisher", "contributor", "date", "type",
    "format", "identifier", "source", "language", "relation", "coverage", "rights",
)  # fmt: skip

#: The characters that XML 1.0 does not allow, not even escaped.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: The values of xml:lang (the simple form of BCP 47).
LANGUAGE_TAG = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*\Z")

_NAMESPACES = (
    'xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/ '
    'http://www.openarchives.org/OAI/2.0/oai_dc.xsd"'
)


def format_oai_dc(elements: Mapping[str, Iterable[tuple[str, str | None]]]) -> str:
    """Return an oai_dc document (XML 1.0 for UTF-8) of elements, in the order of the standard.

    :param elements: the values of each element, each with its language or None.
    """
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<oai_dc:dc {_NAMESPACES}>"]
    for name in ELEMENTS:
        for value, language in elements.get(name, ()):
            tag = f" xml:lang={quoteattr(language)}" if language else ""
            # An XML parser would read a carriage return as a line feed.
            text = escape(value, {"\r": "&#13;"})
            lines.append(f"  <dc:{name}{tag}>{text}</dc:{name}>")
    lines.append("</oai_dc:dc>\n")
    return "\n".join(lines)
