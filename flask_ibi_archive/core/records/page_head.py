"""The part of a landing page for programs: ``meta`` elements, and typed links (FAIR Signposting).

Sources: Google Scholar's inclusion guidelines for webmasters ("Indexing guidelines");
https://www.dublincore.org/specifications/dublin-core/dc-html/;
https://signposting.org/FAIR/; RFC 8288 (Link header).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

from flask_ibi_archive.core.records.description import IN_JOURNALS, WorkType
from flask_ibi_archive.core.records.formats.common import TYPES
from flask_ibi_archive.core.records.record import ELEMENTS
from flask_ibi_archive.core.records.values import IssuedDate
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import one_line

#: The types of works whose publisher is the institution of a report.
_REPORTS = frozenset({WorkType.REPORT, WorkType.PREPRINT})


class MetaTag(NamedTuple):
    """A ``meta`` element.

    :param name: the name, such as ``citation_title``.
    :param content: the value, which is not escaped.
    :param language: the language of the value, or None.
    """

    name: str
    content: str
    language: str | None = None


def list_meta_tags(work: Work, pdf_url: str | None = None) -> Iterator[MetaTag]:
    """Yield the ``meta`` elements of the landing page of a work.

    A work without a title has no ``citation_`` elements, because Google Scholar requires a title.

    :param pdf_url: the URL of the work as a PDF that the reader may open; None if there is none.
    """
    if work.has_title:
        for name, content in _list_citation_values(work, pdf_url):
            if content is not None and (text := one_line(content)):
                yield MetaTag(f"citation_{name}", text)
    yield from _list_dublin_core(work)


def _list_citation_values(work: Work, pdf_url: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield ``(name, value)`` in the order of the guidelines; the name is without ``citation_``."""
    yield "title", work.title
    for author in work.creators:
        yield "author", author.inverted
        for affiliation in author.affiliations:
            yield "author_institution", affiliation.name
        yield "author_orcid", author.orcid_url
    yield "publication_date", _format_date(work.issued)
    if work.type.is_thesis:
        yield "dissertation_institution", work.institution
        yield "dissertation_name", work.degree.name if work.degree else None
    elif work.type in _REPORTS:
        yield "technical_report_institution", work.imprint[1]
        yield "technical_report_number", work.number
    else:
        yield "publisher", work.imprint[1]
    if container := work.container:
        name = "inbook_title" if work.type is WorkType.CHAPTER else "conference_title"
        yield "journal_title" if work.type in IN_JOURNALS else name, container.title
        yield "volume", container.volume
        yield "issue", container.number
        yield "firstpage", container.first_page
        yield "lastpage", container.last_page
    yield "issn", work.issn
    yield "isbn", work.isbn
    yield "doi", work.doi
    yield "language", work.language
    for subject in work.subjects:
        yield "keywords", subject.value
    yield "abstract_html_url", work.page_url
    yield "pdf_url", pdf_url


def _format_date(issued: IssuedDate | None) -> str | None:
    """Return a date such as ``2009/7/21`` or ``2009``, or None. A month alone is not allowed."""
    if issued is None or issued.year is None:
        return None
    return "/".join(map(str, issued.parts if issued.day is not None else issued.parts[:1]))


def _list_dublin_core(work: Work) -> Iterator[MetaTag]:
    """Yield the elements of the Dublin Core, and the other identifiers of the work."""
    elements = work.dublin_core
    for name in ELEMENTS:
        for value, language in elements.get(name, ()):
            yield MetaTag(f"DC.{name}", value.strip(), language)
    if work.url not in [value for value, _ in elements.get("identifier", ())]:
        yield MetaTag("DC.identifier", work.url)
    for alias in work.same_as:
        yield MetaTag("DC.identifier", alias.url or alias.text)
    if work.issued is not None and work.issued.iso is not None:
        yield MetaTag("DCTERMS.issued", work.issued.iso)


#: The maximum size of a Link header in bytes. Many servers and proxies refuse a response whose
#: headers together have more than 4 KiB.
MAX_HEADER = 3072

_SCHEMA_ORG = "https://schema.org/"
#: The characters of URLs that are not escaped: those of RFC 3986, and existing %XX sequences.
_URL_CHARACTERS = "%:/?#[]@!$&'()*+,;=~"


class Link(NamedTuple):
    """A link from a response (a page or a file) to another resource.

    :param relation: the relation type, such as ``describedby``.
    :param target: the URL of the other resource.
    :param media_type: the media type of the other resource, or None.
    """

    relation: str
    target: str
    media_type: str | None = None

    def format(self) -> str:
        """Return the link in the syntax of the Link header (RFC 8288, 3)."""
        # an ASCII text without the characters that end a URL in a Link header
        target = quote(self.target, safe=_URL_CHARACTERS)
        text = f'<{target}>; rel="{self.relation}"'
        if self.media_type is not None:
            text += f'; type="{self.media_type}"'
        return text


def list_item_links(work: Work, metadata: Mapping[str, str | None]) -> Iterator[Link]:
    """Yield the links of a landing page. The most important links are first.

    :param metadata: the media type of the metadata at each address; None if it is unknown.
    """
    yield Link("cite-as", work.url)
    yield Link("type", f"{_SCHEMA_ORG}AboutPage")
    yield Link("type", _SCHEMA_ORG + TYPES[work.type].schema_org)
    if work.licence_url is not None:
        yield Link("license", work.licence_url)
    for url, media_type in metadata.items():
        yield Link("describedby", url, media_type)
    for author in work.creators:
        identifier = author.orcid_url or author.ror or author.lattes_url
        if identifier is not None:
            yield Link("author", identifier)
    for file in work.files:
        yield Link("item", file.url, file.media_type)


def list_part_links(relation: str, persistent_url: str, page_url: str) -> Iterator[Link]:
    """Yield the links of a file or of metadata of a work.

    :param relation: the relation to the landing page: ``collection`` or ``describes``.
    """
    yield Link("cite-as", persistent_url)
    yield Link(relation, page_url, "text/html")


def format_link_header(links: Iterable[Link]) -> str:
    """Return the value of a Link header; links that would make it too long are left out."""
    chosen: list[str] = []
    size = MAX_HEADER
    for link in links:
        text = link.format()
        if len(text) + 2 <= size:
            chosen.append(text)
            size -= len(text) + 2
    return ", ".join(chosen)
