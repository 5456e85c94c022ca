"""Writing of XML: elements with a text, and groups of elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from flask_ibi_archive.core.records.values import clean

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
#: The namespace of the elements of Dublin Core.
DC = "http://purl.org/dc/elements/1.1/"
XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'


def element(name: str, text: str, attributes: Mapping[str, str | None] | None = None) -> str:
    """Return an element that contains a text.

    U+FFFD replaces the characters that XML does not allow.

    :param attributes: the attributes. An attribute with the value None is omitted.
    """
    # An XML parser would read a carriage return as a line feed.
    content = escape(clean(text), {"\r": "&#13;"})
    return f"<{name}{format_attributes(attributes or {})}>{content}</{name}>"


def format_attributes(attributes: Mapping[str, str | None]) -> str:
    """Return the attributes of an element, each after a space."""
    return "".join(
        f" {name}={quoteattr(clean(value))}"
        for name, value in attributes.items()
        if value is not None
    )


def parent(
    name: str, members: Iterable[str], attributes: Mapping[str, str | None] | None = None
) -> str:
    """Return an element that contains other elements."""
    return f"<{name}{format_attributes(attributes or {})}>{''.join(members)}</{name}>"


def group(name: str, members: Iterable[str]) -> Iterator[str]:
    """Yield an element with members, each once; nothing if there are no members."""
    lines = list(dict.fromkeys(members))
    if lines:
        yield f"<{name}>"
        yield from lines
        yield f"</{name}>"


def document(root: str, lines: Iterable[str], space: tuple[str, str], **spaces: str) -> str:
    """Return an XML document.

    :param root: the name of the root element.
    :param lines: the members of the root element.
    :param space: the namespace of the document, and the URL of its XML schema.
    :param spaces: the namespaces of other prefixes than that of the root element.
    """
    prefix = f"xmlns:{root.partition(':')[0]}" if ":" in root else "xmlns"
    names = {prefix: space[0], **{f"xmlns:{name}": uri for name, uri in spaces.items()}}
    head = f"<{root}{format_attributes(names)} {XSI}"
    start = head + format_attributes({"xsi:schemaLocation": " ".join(space)}) + ">"
    return "\n".join([DECLARATION + start, *lines, f"</{root}>", ""])
