"""Elements of XML documents as text."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape, quoteattr

from flask_ibi_archive.core.records.work_values import clean

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


def element(name: str, text: str, attributes: Mapping[str, str | None] | None = None) -> str:
    """Return an element that contains a text.

    U+FFFD replaces the characters that XML does not allow.

    :param attributes: the attributes. An attribute with the value None is omitted.
    """
    # An XML parser would read a carriage return as a line feed.
    content = escape(clean(text), {"\r": "&#13;"})
    return f"<{name}{_format_attributes(attributes or {})}>{content}</{name}>"


def _format_attributes(attributes: Mapping[str, str | None]) -> str:
    return "".join(
        f" {name}={quoteattr(clean(value))}"
        for name, value in attributes.items()
        if value is not None
    )
