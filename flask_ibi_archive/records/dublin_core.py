"""Dublin Core metadata: the names of the elements, the XML format oai_dc, and citations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape, quoteattr

from flask_ibi_archive.records.record import DublinCore

#: The fifteen elements, in the order of the Dublin Core Metadata Element Set.
ELEMENTS = (
    "title", "creator", "subject", "description", "publisher", "contributor", "date", "type",
    "format", "identifier", "source", "language", "relation", "coverage", "rights",
)  # fmt: skip

#: Matches the characters that XML 1.0 does not allow. Escaping does not make them legal.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Matches the values that xml:lang may have (the simple form of BCP 47).
LANGUAGE_TAG = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*\Z")

_YEAR = re.compile("[0-9]{4}")
_NAMESPACES = (
    'xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/ '
    'http://www.openarchives.org/OAI/2.0/oai_dc.xsd"'
)


def format_oai_dc(elements: Mapping[str, Iterable[tuple[str, str | None]]]) -> str:
    """Return the XML text of an oai_dc document.

    The elements are in the order of the Dublin Core Metadata Element Set.

    :param elements: the values of each element. A value consists of a text and the language of the
        text. The language is None if unknown.
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


def format_citation(elements: DublinCore, ibi: str) -> str | None:
    """Return a citation of an item.

    :param elements: the Dublin Core of the item.
    :param ibi: the identifier of the item.
    :returns: one line such as ``Banon, G.; Ribeiro, L. (2009). Title. Publisher. IBI: <ibi>``.
        None if the item has neither a creator nor a title.
    """
    creators = [value for value, _ in elements.get("creator", ())]
    titles = [value for value, _ in elements.get("title", ())]
    if not creators and not titles:
        return None
    dates = [value for value, _ in elements.get("date", ())]
    publishers = [value for value, _ in elements.get("publisher", ())]
    head = "; ".join(creators)
    if dates:
        year = _YEAR.match(dates[0])
        head = f"{head} ({year.group() if year else dates[0]})".strip()
    parts = [head, *titles[:1], "; ".join(publishers), f"IBI: {ibi}"]
    return (
        " ".join(_end_sentence(" ".join(part.split())) for part in parts[:-1] if part)
        + f" {parts[-1]}"
    )


def _end_sentence(text: str) -> str:
    """Return a text that ends with a full stop, "!" or "?". Add a full stop if necessary."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
