"""The format oai_dc: unqualified Dublin Core in XML.

Source: http://www.openarchives.org/OAI/2.0/oai_dc.xsd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.records.description import Text
from flask_ibi_archive.core.records.record import ELEMENTS
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import WorkType, find_type
from flask_ibi_archive.core.records.work_values import clean, find_doi, format_doi, is_url
from flask_ibi_archive.errors import IdentifierError

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


NAMESPACE = "http://www.openarchives.org/OAI/2.0/oai_dc/"
SCHEMA = "http://www.openarchives.org/OAI/2.0/oai_dc.xsd"

_DCMI_TYPE = "http://purl.org/dc/dcmitype/"
_SEMANTICS = "info:eu-repo/semantics/"
_EMBARGO_END = "info:eu-repo/date/embargoEnd/"
#: The terms of the vocabulary info:eu-repo, and of the DCMI Type Vocabulary for other types.
_TYPES = {
    WorkType.ARTICLE: f"{_SEMANTICS}article",
    WorkType.BACHELOR_THESIS: f"{_SEMANTICS}bachelorThesis",
    WorkType.BOOK: f"{_SEMANTICS}book",
    WorkType.CHAPTER: f"{_SEMANTICS}bookPart",
    WorkType.COLLECTION: f"{_DCMI_TYPE}Collection",
    WorkType.CONFERENCE_PAPER: f"{_SEMANTICS}conferenceObject",
    WorkType.DATASET: f"{_DCMI_TYPE}Dataset",
    WorkType.DOCTORAL_THESIS: f"{_SEMANTICS}doctoralThesis",
    WorkType.IMAGE: f"{_DCMI_TYPE}StillImage",
    WorkType.LECTURE: f"{_SEMANTICS}lecture",
    WorkType.MAP: f"{_DCMI_TYPE}StillImage",
    WorkType.MASTER_THESIS: f"{_SEMANTICS}masterThesis",
    WorkType.PATENT: f"{_SEMANTICS}patent",
    WorkType.POSTER: f"{_SEMANTICS}conferenceObject",
    WorkType.PREPRINT: f"{_SEMANTICS}preprint",
    WorkType.REPORT: f"{_SEMANTICS}report",
    WorkType.REVIEW: f"{_SEMANTICS}review",
    WorkType.SOFTWARE: f"{_DCMI_TYPE}Software",
    WorkType.SOUND: f"{_DCMI_TYPE}Sound",
    WorkType.TEXT: f"{_DCMI_TYPE}Text",
    WorkType.VIDEO: f"{_DCMI_TYPE}MovingImage",
}
#: Matches a term for the access in dc:rights.
_ACCESS_RIGHT = re.compile(
    r"info:eu-repo/semantics/\w+Access\b|https?://purl\.org/coar/access_right/"
)
_WITH_DOIS = ("identifier", "source", "relation")
_NAMESPACES = (
    f'xmlns:oai_dc="{NAMESPACE}" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    f'xsi:schemaLocation="{NAMESPACE} {SCHEMA}"'
)


def write_oai_dc(work: Work) -> str:
    """Return the Dublin Core of a work as an oai_dc document.

    The document also contains what the Archive knows, if the Dublin Core does not state it: the
    identifiers in other systems, the language, a term for the type, who may read the files, and the
    end of an embargo. A bare DOI is written as a URL. A work without a title has the title
    ``[Untitled]`` and its identifier.
    """
    elements = {name: tuple(_link_dois(name, texts)) for name, texts in work.dublin_core.items()}
    for name, text in _list_missing(work):
        elements[name] = (*elements.get(name, ()), (text, None))
    return format_oai_dc(elements)


def _link_dois(name: str, texts: Iterable[Text]) -> Iterator[Text]:
    for text, language in texts:
        doi = None if name not in _WITH_DOIS or is_url(text) else find_doi(text)
        yield text if doi is None else format_doi(doi), language


def _list_missing(work: Work) -> Iterator[tuple[str, str]]:
    """Yield the elements that the Archive adds because the Dublin Core of the work lacks them.

    The terms for access and embargoes are those of the OpenAIRE Guidelines for Literature
    Repositories 3.0.
    """
    stated = {
        name: [text for text, _ in work.dublin_core.get(name, ())]
        for name in ("date", "language", "rights", "type")
    }
    if not work.has_title:
        yield "title", f"[Untitled] {work.ibi}"
    if not work.dublin_core:
        yield "identifier", work.url
    known = {_find_digest(text) for text, _ in work.dublin_core.get("identifier", ())}
    for alias in work.same_as:
        if alias.digest not in known:
            yield "identifier", alias.url or alias.text
    if work.language and not stated["language"]:
        yield "language", work.language
    term = _TYPES.get(work.type)
    if term and not any("/" in text and find_type(text) is work.type for text in stated["type"]):
        yield "type", term
    if work.access and not any(map(_ACCESS_RIGHT.match, stated["rights"])):
        yield "rights", f"{_SEMANTICS}{work.access}Access"
    if work.access == "embargoed" and not any(_EMBARGO_END in text for text in stated["date"]):
        yield "date", f"{_EMBARGO_END}{work.available}"


def _find_digest(text: str) -> str | None:
    """Return the digest of an identifier of another system; None if a text is none."""
    try:
        return parse_foreign(text).digest
    except IdentifierError:
        return None


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
