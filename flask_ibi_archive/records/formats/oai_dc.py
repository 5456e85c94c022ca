"""The format oai_dc: unqualified Dublin Core in XML.

Source: http://www.openarchives.org/OAI/2.0/oai_dc.xsd.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flask_ibi_archive.records.dublin_core import ELEMENTS
from flask_ibi_archive.records.formats.xml_text import DECLARATION, element
from flask_ibi_archive.records.work import Work

NAMESPACE = "http://www.openarchives.org/OAI/2.0/oai_dc/"
SCHEMA = "http://www.openarchives.org/OAI/2.0/oai_dc.xsd"

_NAMESPACES = (
    f'xmlns:oai_dc="{NAMESPACE}" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    f'xsi:schemaLocation="{NAMESPACE} {SCHEMA}"'
)


def write_oai_dc(work: Work) -> str:
    """Return the Dublin Core of a work as an oai_dc document.

    If there is no Dublin Core, the document contains the title and the identifier of the work.
    """
    substitute = {"title": ((work.title, None),), "identifier": ((work.url, None),)}
    return format_oai_dc(work.dublin_core or substitute)


def format_oai_dc(elements: Mapping[str, Iterable[tuple[str, str | None]]]) -> str:
    """Return the XML text of an oai_dc document.

    The elements are in the order of the Dublin Core Metadata Element Set.

    :param elements: the values of each element. A value consists of a text and the language of the
        text. The language is None if unknown.
    """
    lines = [f"{DECLARATION}<oai_dc:dc {_NAMESPACES}>"]
    for name in ELEMENTS:
        for value, language in elements.get(name, ()):
            lines.append("  " + element(f"dc:{name}", value, {"xml:lang": language}))
    lines.append("</oai_dc:dc>\n")
    return "\n".join(lines)
