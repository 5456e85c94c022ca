"""What a landing page tells programs: ``meta`` elements, and typed links (FAIR Signposting).

Sources: Google Scholar's inclusion guidelines for webmasters ("Indexing guidelines");
https://www.dublincore.org/specifications/dublin-core/dc-html/;
https://signposting.org/FAIR/; RFC 8288 (Link header); RFC 9264 (linksets).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import shorten
from urllib.parse import quote

from flask_ibi_archive.core.records.description import IssuedDate
from flask_ibi_archive.core.records.formats.json_ld import find_schema_type
from flask_ibi_archive.core.records.record import ELEMENTS
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import IN_JOURNALS, WorkType
from flask_ibi_archive.core.records.work_values import split_publisher
from flask_ibi_archive.errors import one_line

#: The types of works whose publisher is the institution of a report.
_REPORTS = frozenset({WorkType.REPORT, WorkType.PREPRINT})


@dataclass(frozen=True, slots=True)
class MetaTag:
    """A ``meta`` element.

    :param name: the name, such as ``citation_title``. Names of Open Graph begin with ``og:``.
    :param content: the value, which is not escaped.
    :param language: the language of the value, or None.
    """

    name: str
    content: str
    language: str | None = None

    @property
    def attribute(self) -> str:
        """The attribute with the name: Open Graph is RDFa, which has properties."""
        return "property" if self.name.startswith("og:") else "name"


#: The maximum number of characters of a description in previews of links.
MAX_DESCRIPTION = 300


def list_open_graph(work: Work, image_url: str | None = None) -> Iterator[MetaTag]:
    """Yield the ``meta`` elements of Open Graph, for the previews of links in messengers.

    Source: https://ogp.me.

    :param image_url: the URL of an image of the work, or None.
    """
    yield MetaTag("og:type", "article")
    yield MetaTag("og:title", one_line(work.title))
    yield MetaTag("og:url", work.url)
    if work.abstracts:
        text = one_line(work.abstracts[0][0])
        yield MetaTag("og:description", shorten(text, MAX_DESCRIPTION, placeholder="…"))
    if work.archive_name is not None:
        yield MetaTag("og:site_name", work.archive_name)
    if image_url is not None:
        yield MetaTag("og:image", image_url)


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
    """Yield the names, without ``citation_``, and the values in the order of the guidelines."""
    yield "title", work.title
    for author in work.creators:
        yield "author", author.inverted
        for affiliation in author.affiliations:
            yield "author_institution", affiliation.name
        yield "author_orcid", author.orcid_url
    degree = work.degree
    yield "publication_date", _format_date(work.issued or (degree.defended if degree else None))
    if work.type.is_thesis:
        institution = degree.institution.name if degree and degree.institution else None
        yield "dissertation_institution", institution or split_publisher(work.publisher)[1]
        yield "dissertation_name", degree.name if degree else None
    elif work.type in _REPORTS:
        yield "technical_report_institution", split_publisher(work.publisher)[1]
        yield "technical_report_number", work.number
    else:
        yield "publisher", split_publisher(work.publisher)[1]
    if container := work.container:
        yield _name_container(work.type), container.title
        yield "volume", container.volume
        yield "issue", container.number
        yield "firstpage", container.first_page
        yield "lastpage", container.last_page
    yield "issn", work.issn
    yield "isbn", work.isbn
    yield "doi", work.doi
    yield "language", work.language
    for subject, *_ in work.subjects:
        yield "keywords", subject
    yield "abstract_html_url", work.page_url
    yield "pdf_url", pdf_url


def _name_container(type: WorkType) -> str:
    if type in IN_JOURNALS:
        return "journal_title"
    return "inbook_title" if type is WorkType.CHAPTER else "conference_title"


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


#: The media types of a linkset: as JSON, and in the syntax of the Link header.
LINKSET_JSON, LINKSET_TEXT = "application/linkset+json", "application/linkset"
#: The maximum size of a Link header in bytes. Many servers and proxies refuse a response whose
#: headers together have more than 4 KiB.
MAX_HEADER = 3072

_SCHEMA_ORG = "https://schema.org/"
#: The characters of URLs that are not escaped: those of RFC 3986, and existing %XX sequences.
_URL_CHARACTERS = "%:/?#[]@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True)
class Link:
    """A link from one resource to another.

    :param anchor: the URL of the resource that the link is about.
    :param relation: the relation type, such as ``describedby``.
    :param target: the URL of the other resource.
    :param media_type: the media type of the other resource, or None.
    """

    anchor: str
    relation: str
    target: str
    media_type: str | None = None

    def format(self, *, with_anchor: bool = False) -> str:
        """Return the link in the syntax of the Link header (RFC 8288, 3)."""
        text = f'<{_escape(self.target)}>; rel="{self.relation}"'
        if self.media_type is not None:
            text += f'; type="{self.media_type}"'
        return f'{text}; anchor="{_escape(self.anchor)}"' if with_anchor else text


@dataclass(frozen=True, slots=True)
class Description:
    """Metadata of a work at an address.

    :param url: the address.
    :param media_type: the media type, or None if unknown.
    """

    url: str
    media_type: str | None = None


def list_item_links(
    work: Work, descriptions: Iterable[Description], linkset_url: str | None = None
) -> Iterator[Link]:
    """Yield the links of a landing page. The most important links are first.

    :param linkset_url: the address of the linkset; None in the linkset itself.
    """
    page = work.page_url
    yield Link(page, "cite-as", work.url)
    if linkset_url is not None:
        for media_type in (LINKSET_JSON, LINKSET_TEXT):
            yield Link(page, "linkset", linkset_url, media_type)
    yield Link(page, "type", f"{_SCHEMA_ORG}AboutPage")
    yield Link(page, "type", _SCHEMA_ORG + find_schema_type(work.type))
    if work.licence_url is not None:
        yield Link(page, "license", work.licence_url)
    for description in descriptions:
        yield Link(page, "describedby", description.url, description.media_type)
    for author in work.creators:
        identifier = author.orcid_url or author.ror or author.lattes_url
        if identifier is not None:
            yield Link(page, "author", identifier)
    for file in work.files:
        yield Link(page, "item", file.url, file.media_type)


def list_part_links(url: str, relation: str, persistent_url: str, page_url: str) -> Iterator[Link]:
    """Yield the links of a file or of metadata of a work.

    :param url: the URL of the file or of the metadata.
    :param relation: the relation to the landing page: ``collection`` or ``describes``.
    """
    yield Link(url, "cite-as", persistent_url)
    yield Link(url, relation, page_url, "text/html")


def list_all_links(work: Work, descriptions: tuple[Description, ...]) -> Iterator[Link]:
    """Yield the links of the landing page, of the files and of the metadata."""
    yield from list_item_links(work, descriptions)
    for file in work.files:
        yield from list_part_links(file.url, "collection", work.url, work.page_url)
    for description in descriptions:
        yield from list_part_links(description.url, "describes", work.url, work.page_url)


def format_link_header(links: Iterable[Link], size: int = MAX_HEADER) -> str:
    """Return the value of a Link header, with as many links as fit.

    :param size: the maximum size in bytes. Links that do not fit are only in the linkset.
    """
    chosen: list[str] = []
    for link in links:
        text = link.format()
        if len(text) + 2 <= size:
            chosen.append(text)
            size -= len(text) + 2
    return ", ".join(chosen)


def format_linkset(links: Iterable[Link]) -> str:
    """Return the links as a document of the type application/linkset (RFC 9264, 4.1)."""
    return ",\n".join(link.format(with_anchor=True) for link in links) + "\n"


def format_linkset_json(links: Iterable[Link]) -> str:
    """Return the links as a document of the type application/linkset+json (RFC 9264, 4.2)."""
    contexts: dict[str, dict[str, object]] = {}
    for link in links:
        context = contexts.setdefault(link.anchor, {"anchor": _escape(link.anchor)})
        target = {"href": _escape(link.target)}
        if link.media_type is not None:
            target["type"] = link.media_type
        targets = context.setdefault(link.relation, [])
        assert isinstance(targets, list)
        targets.append(target)
    return json.dumps({"linkset": list(contexts.values())}, indent=1) + "\n"


def _escape(url: str) -> str:
    """Return a URL in ASCII, without the characters that end a URL in a Link header."""
    return quote(url, safe=_URL_CHARACTERS)
