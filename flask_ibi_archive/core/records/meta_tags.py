"""The ``meta`` elements of a landing page for search engines and reference managers.

Sources: Google Scholar's inclusion guidelines for webmasters ("Indexing guidelines");
https://www.dublincore.org/specifications/dublin-core/dc-html/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flask_ibi_archive.core.records.dublin_core import ELEMENTS
from flask_ibi_archive.core.records.formats.places import split_publisher
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import IN_JOURNALS, WorkType
from flask_ibi_archive.core.records.work_values import IssuedDate
from flask_ibi_archive.errors import one_line

#: The types of works whose publisher is the institution of a report.
_REPORTS = frozenset({WorkType.REPORT, WorkType.PREPRINT})


@dataclass(frozen=True, slots=True)
class MetaTag:
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
    """Yield the names, without ``citation_``, and the values in the order of the guidelines."""
    yield "title", work.title
    for author in work.authors:
        yield "author", author.inverted
    yield "publication_date", _format_date(work.issued)
    if work.type.is_thesis:
        yield "dissertation_institution", split_publisher(work.publisher)[1]
    elif work.type in _REPORTS:
        yield "technical_report_institution", split_publisher(work.publisher)[1]
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
    for subject, _ in work.subjects:
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
    """Yield the elements of the Dublin Core, and the persistent URL as an identifier."""
    elements = work.dublin_core
    for name in ELEMENTS:
        for value, language in elements.get(name, ()):
            yield MetaTag(f"DC.{name}", value.strip(), language)
    if work.url not in [value for value, _ in elements.get("identifier", ())]:
        yield MetaTag("DC.identifier", work.url)
    if work.issued is not None and work.issued.iso is not None:
        yield MetaTag("DCTERMS.issued", work.issued.iso)
