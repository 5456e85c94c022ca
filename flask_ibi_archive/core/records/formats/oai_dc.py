"""The format oai_dc: unqualified Dublin Core in XML, as DRIVER, OpenAIRE and LA Referencia read it.

Sources: http://www.openarchives.org/OAI/2.0/oai_dc.xsd, DRIVER Guidelines 2.0, OpenAIRE Guidelines
for Literature Repositories 3.0, and the rules of harvesting of LA Referencia (2015).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from flask_ibi_archive.core.records.description import Text, WorkType, find_type
from flask_ibi_archive.core.records.formats import common
from flask_ibi_archive.core.records.record import ELEMENTS
from flask_ibi_archive.core.records.values import find_doi, find_foreign, format_doi, is_url
from flask_ibi_archive.core.records.work import Work

#: The namespace and the schema.
SPACE = (
    "http://www.openarchives.org/OAI/2.0/oai_dc/",
    "http://www.openarchives.org/OAI/2.0/oai_dc.xsd",
)

_EMBARGO_END = "info:eu-repo/date/embargoEnd/"
#: Matches a term for the access in dc:rights.
_ACCESS_RIGHT = re.compile(
    r"info:eu-repo/semantics/\w+Access\b|https?://purl\.org/coar/access_right/"
)
#: Matches a term for the type in dc:type, of one of the two older vocabularies.
_TYPE_TERM = re.compile(r"info:eu-repo/|https?://purl\.org/dc/")
_WITH_DOIS = ("identifier", "source", "relation")


def write_oai_dc(work: Work) -> str:
    """Return the Dublin Core of a work as an oai_dc document.

    The Archive adds what the Dublin Core does not state: the persistent URL, the identifiers in
    other systems, the language, terms for the type and for the stage of publication, the media
    types of the files, who may read the files, and the end of an embargo. A bare DOI is written as
    a URL, and a language as a code of ISO 639-3. The title of a work without a title consists of
    ``[Untitled]`` and the identifier.
    """
    elements = {name: tuple(_convert(name, texts)) for name, texts in work.dublin_core.items()}
    for name, text in _list_missing(work):
        elements[name] = (*elements.get(name, ()), (text, None))
    return format_oai_dc(elements)


def _convert(name: str, texts: Iterable[Text]) -> Iterator[Text]:
    """Yield the values of an element with DOIs as URLs, and languages as codes."""
    for text, language in texts:
        doi = None if name not in _WITH_DOIS or is_url(text) else find_doi(text)
        if doi is not None:
            yield format_doi(doi), language
        else:
            yield common.find_language_code(text) if name == "language" else text, language


def _list_missing(work: Work) -> Iterator[tuple[str, str]]:
    """Yield ``(element, text)`` for what the Archive adds to the Dublin Core of the work."""
    stated = {
        name: [text for text, _ in work.dublin_core.get(name, ())]
        for name in ("date", "format", "identifier", "language", "rights", "type")
    }
    if not work.has_title:
        yield "title", f"[Untitled] {work.ibi}"
    if not any(ibi in text for text in stated["identifier"] for ibi in work.identifiers):
        yield "identifier", work.url
    known = filter(None, map(find_foreign, stated["identifier"]))
    digests = {identifier.digest for identifier in known}
    for alias in work.same_as:
        if alias.digest not in digests:
            yield "identifier", alias.url or alias.text
    if work.language and not stated["language"]:
        yield "language", common.find_language_code(work.language)
    yield from (("type", term) for term in _list_types(work) if term not in stated["type"])
    media_types = dict.fromkeys(file.media_type for file in work.files if file.media_type)
    yield from (("format", name) for name in media_types if name not in stated["format"])
    access = common.find_access(work)
    if access and not any(map(_ACCESS_RIGHT.match, stated["rights"])):
        yield "rights", access.term
    if work.access == "embargoed" and not any(_EMBARGO_END in text for text in stated["date"]):
        yield "date", f"{_EMBARGO_END}{work.available}"


def _list_types(work: Work) -> Iterator[str]:
    """Yield the terms for the type in two vocabularies, then the term for the publication stage."""
    # a vocabulary has several terms for one of our types; a stated term says most
    texts = [text for text, _ in work.dublin_core.get("type", ()) if find_type(text) is work.type]
    terms = common.TYPES[work.type]
    if terms.term and not any(map(_TYPE_TERM.match, texts)):
        yield terms.term
    if work.type is not WorkType.OTHER and not any("/coar/" in text for text in texts):
        yield terms.uri
    version = common.find_version(work)
    if version:
        yield version.term


def format_oai_dc(elements: Mapping[str, Iterable[tuple[str, str | None]]]) -> str:
    """Return the XML text of an oai_dc document.

    The elements are in the order of the Dublin Core Metadata Element Set.

    :param elements: the values of each element, by its name. Each value is ``(text, language)``;
        the language is None if unknown.
    """
    lines = (
        "  " + common.element(f"dc:{name}", value, {"xml:lang": language})
        for name in ELEMENTS
        for value, language in elements.get(name, ())
    )
    return common.document("oai_dc:dc", lines, SPACE, dc=common.DC)
