"""The format DataCite, kernel 4.

The schema demands an identifier, a creator, a title, a publisher, a year and a type. If the
metadata do not state one of them, the document says so with the standard value ``:unav``
("unavailable") of the DataCite Metadata Schema 4.7, appendix 3. Source:
https://schema.datacite.org/meta/kernel-4.7/metadata.xsd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from urllib.parse import unquote

from flask_ibi_archive.core.identifiers.foreign import ForeignKind
from flask_ibi_archive.core.records.description import Grant, Name
from flask_ibi_archive.core.records.formats.oai_dc import DECLARATION, element
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import WorkType
from flask_ibi_archive.core.records.work_values import find_doi, find_licence

NAMESPACE = "http://datacite.org/schema/kernel-4"
SCHEMA = "https://schema.datacite.org/meta/kernel-4.7/metadata.xsd"
UNAVAILABLE = ":unav"
#: The year if neither the metadata nor the Archive know one; the schema demands four digits.
NO_YEAR = "0000"

_TYPES = {
    WorkType.ARTICLE: "JournalArticle",
    WorkType.BACHELOR_THESIS: "Dissertation",
    WorkType.BOOK: "Book",
    WorkType.CHAPTER: "BookChapter",
    WorkType.COLLECTION: "Collection",
    WorkType.CONFERENCE_PAPER: "ConferencePaper",
    WorkType.DATASET: "Dataset",
    WorkType.DOCTORAL_THESIS: "Dissertation",
    WorkType.IMAGE: "Image",
    WorkType.LECTURE: "Presentation",
    WorkType.MAP: "Image",
    WorkType.MASTER_THESIS: "Dissertation",
    WorkType.MUSIC: "Other",
    WorkType.OTHER: "Other",
    WorkType.PATENT: "Text",
    WorkType.POSTER: "Poster",
    WorkType.PREPRINT: "Preprint",
    WorkType.PROCEEDINGS: "ConferenceProceeding",
    WorkType.REPORT: "Report",
    WorkType.REVIEW: "Text",
    WorkType.SOFTWARE: "Software",
    WorkType.SOUND: "Sound",
    WorkType.STANDARD: "Standard",
    WorkType.TEXT: "Text",
    WorkType.THESIS: "Dissertation",
    WorkType.VIDEO: "Audiovisual",
}
#: The types of the containers of works; a relatedItem must have a type.
_CONTAINERS = {
    WorkType.ARTICLE: "Journal",
    WorkType.CHAPTER: "Book",
    WorkType.CONFERENCE_PAPER: "ConferenceProceeding",
    WorkType.POSTER: "ConferenceProceeding",
    WorkType.REVIEW: "Journal",
}


#: The types of identifiers in other systems.
_FOREIGN_TYPES = {
    ForeignKind.HANDLE: "Handle",
    ForeignKind.DOI: "DOI",
    ForeignKind.ARK: "ARK",
    ForeignKind.URN: "URN",
    ForeignKind.ADDRESS: "URL",
}


def write_datacite(work: Work) -> str:
    """Return the DataCite document of a work."""
    lines = [
        f'{DECLARATION}<resource xmlns="{NAMESPACE}" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:schemaLocation="{NAMESPACE} {SCHEMA}">',
        *_describe(work),
        "</resource>\n",
    ]
    return "\n".join(lines)


def _describe(work: Work) -> Iterator[str]:
    """Yield the elements of a document. A group without elements is omitted."""
    # the schema allows other types than DOI, and the OpenAIRE Guidelines for Data Archives use URL
    identifier, kind = (work.doi, "DOI") if work.doi else (work.url, "URL")
    yield element("identifier", identifier, {"identifierType": kind})
    authors = work.creators or (Name(UNAVAILABLE),)
    yield from _group("creators", (_name("creator", author) for author in authors))
    yield from _group("titles", _titles(work))
    yield element("publisher", work.publisher or UNAVAILABLE)
    yield element("publicationYear", _year(work))
    general = {"resourceTypeGeneral": _TYPES[work.type]}
    yield element("resourceType", work.type_text or general["resourceTypeGeneral"], general)
    yield from _group(
        "subjects",
        (element("subject", text, {"xml:lang": language}) for text, language, *_ in work.subjects),
    )
    yield from _group(
        "contributors",
        (_name("contributor", name, ' contributorType="Other"') for name in work.contributors),
    )
    yield from _group("dates", _dates(work))
    if work.language:
        yield element("language", work.language)
    yield from _group("alternateIdentifiers", _alternate_identifiers(work))
    yield from _group("relatedIdentifiers", chain(_same_as(work), _related_identifiers(work)))
    sizes = (f"{file.size} bytes" for file in work.files if file.size is not None)
    yield from _group("sizes", (element("size", size) for size in sizes))
    media_types = dict.fromkeys(file.media_type for file in work.files if file.media_type)
    yield from _group("formats", (element("format", name) for name in media_types))
    yield from _group("rightsList", _rights(work))
    yield from _group(
        "descriptions",
        (
            element("description", text, {"descriptionType": "Abstract", "xml:lang": language})
            for text, language in work.abstracts
        ),
    )
    yield from _group("fundingReferences", map(_grant, work.funding))
    yield from _group("relatedItems", _related_items(work))


def _group(name: str, members: Iterable[str]) -> Iterator[str]:
    """Yield an element with members, each once; nothing if there are no members."""
    lines = list(dict.fromkeys(members))
    if lines:
        yield f"<{name}>"
        yield from lines
        yield f"</{name}>"


def _name(role: str, name: Name, attributes: str = "") -> str:
    kind = "Personal" if name.is_person else None  # without a comma it may be a person, too
    parts = [element(f"{role}Name", name.inverted, {"nameType": kind})]
    if name.given is not None:
        parts += [element("givenName", name.given), element("familyName", name.family)]
    if name.orcid_url is not None:
        scheme = {"nameIdentifierScheme": "ORCID", "schemeURI": "https://orcid.org"}
        parts.append(element("nameIdentifier", name.orcid_url, scheme))
    return f"<{role}{attributes}>{''.join(parts)}</{role}>"


def _titles(work: Work) -> Iterator[str]:
    yield element("title", work.title, {"xml:lang": work.title_language})
    for title in work.other_titles:
        # a title in another language is a translation
        is_translated = None not in (title.lang, work.title_language)
        is_translated = is_translated and title.lang != work.title_language
        kind = "TranslatedTitle" if is_translated else "AlternativeTitle"
        yield element("title", title.value, {"titleType": kind, "xml:lang": title.lang})


def _year(work: Work) -> str:
    """Return the year of publication; otherwise the year in which the Archive got the item."""
    if work.year is not None:
        return f"{work.year:04}"
    return NO_YEAR if work.deposited is None else f"{work.deposited.year:04}"


def _dates(work: Work) -> Iterator[str]:
    if work.issued is not None:
        text = work.issued.text
        yield element("date", text, {"dateType": "Issued"})
    if work.available is not None:
        yield element("date", work.available.isoformat(), {"dateType": "Available"})
    if work.deposited is not None:
        yield element("date", work.deposited.isoformat(), {"dateType": "Updated"})


def _alternate_identifiers(work: Work) -> Iterator[str]:
    if work.doi:
        yield element("alternateIdentifier", work.url, {"alternateIdentifierType": "URL"})
    for ibi in work.identifiers:
        yield element("alternateIdentifier", ibi, {"alternateIdentifierType": "IBI"})
    if work.isbn and work.type not in _CONTAINERS:
        yield element("alternateIdentifier", work.isbn, {"alternateIdentifierType": "ISBN"})


def _related_identifiers(work: Work) -> Iterator[str]:
    """Yield the related works. A text states the relation if kernel 4.7 has no word for it."""
    related: list[tuple[str | None, str, str | None]] = [
        (work.next_edition, "IsPreviousVersionOf", None),
        (work.previous_edition, "IsNewVersionOf", None),
        (work.translation_of, "IsTranslationOf", None),
        *((url, "HasTranslation", None) for _, url in work.translations),
        *((other.url, "Other", "dc:relation") for other in work.related),
    ]
    for url, relation, information in related:
        if url is not None:
            doi = find_doi(url)
            attributes = {
                "relatedIdentifierType": "DOI" if doi else "URL",
                "relationType": relation,
                "relationTypeInformation": information,
            }
            yield element("relatedIdentifier", unquote(doi) if doi else url, attributes)


def _same_as(work: Work) -> Iterator[str]:
    """Yield the identifiers of the work in other systems, except the DOI of the document itself."""
    for alias in work.same_as:
        if not work.is_doi(alias):
            # DataCite writes Handles and DOIs without the name of the scheme
            text = re.sub("^(hdl|doi):", "", alias.text)
            kind = _FOREIGN_TYPES[alias.kind]
            attributes = {"relatedIdentifierType": kind, "relationType": "IsIdenticalTo"}
            yield element("relatedIdentifier", text, attributes)


def _grant(grant: Grant) -> str:
    title = "" if grant.title is None else element("awardTitle", grant.title)
    funder, number = element("funderName", grant.funder), element("awardNumber", grant.number or "")
    return f"<fundingReference>{funder}{number}{title}</fundingReference>"


def _rights(work: Work) -> Iterator[str]:
    """Yield the statements about rights. The licence may be one of them."""
    licences = [find_licence(text) for text, _ in work.rights]
    for (text, language), url in zip(work.rights, licences, strict=True):
        yield element("rights", text, {"rightsURI": url, "xml:lang": language})
    if work.licence_url and work.licence_url not in licences:
        yield element("rights", work.licence_url, {"rightsURI": work.licence_url})


def _related_items(work: Work) -> Iterator[str]:
    container = work.container
    if container is None:
        return
    kind = _CONTAINERS[work.type]
    yield f'<relatedItem relatedItemType="{kind}" relationType="IsPublishedIn">'
    number, scheme = (work.issn, "ISSN") if kind == "Journal" else (work.isbn, "ISBN")
    if number:
        yield element("relatedItemIdentifier", number, {"relatedItemIdentifierType": scheme})
    yield f"<titles>{element('title', container.title)}</titles>"
    parts = {
        "volume": container.volume,
        "issue": container.number,
        "firstPage": container.first_page,
        "lastPage": container.last_page,
    }
    yield from (element(name, text) for name, text in parts.items() if text)
    yield "</relatedItem>"
