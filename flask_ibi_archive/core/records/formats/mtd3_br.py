"""The format mtd3-br: theses for the Brazilian BDTD.

Source: the schema mtd3-br.xsd of IBICT (2015), in the repository github.com/ibict-br/REPOX.
"""

from __future__ import annotations

from collections.abc import Iterator

from flask_ibi_archive.core.records.description import Name, WorkType
from flask_ibi_archive.core.records.formats.abnt import cite
from flask_ibi_archive.core.records.formats.vocabularies import (
    find_access,
)
from flask_ibi_archive.core.records.formats.xml_text import document, element
from flask_ibi_archive.core.records.work import Work

#: The namespace and the schema, as the schema of IBICT and its crosswalks state them.
SPACE = ("http://200.130.0.199/mtd3-br/", "http://200.130.0.199/mtd3-br/mtd3-br.xsd")

_TYPES = {
    WorkType.MASTER_THESIS: "masterThesis",
    WorkType.DOCTORAL_THESIS: "doctoralThesis",
}
#: Languages of theses whose codes of ISO 639-1 the list of MTD3-BR contains.
_LANGUAGES = frozenset({"pt", "en", "es", "fr", "de", "it", "ja", "zh", "ru", "la"})
#: The name, the text and the attributes of an element; an element without a text is left out.
Member = tuple[str, "str | None", "dict[str, str | None]"]


def write_mtd3_br(work: Work) -> str:
    """Return the MTD3-BR document of a thesis."""
    return document("mtd3-br:mtd3br", _write(work), SPACE)


def _write(work: Work) -> Iterator[str]:
    """Yield the elements in the order of the schema."""
    for name, text, attributes in _list_elements(work):
        if text:
            yield element(f"mtd3-br:{name}", text, attributes)


def _list_elements(work: Work) -> Iterator[Member]:
    """Yield the elements, also those without a text."""

    def plain(name: str, text: str | None) -> Member:
        return name, text, {}

    def spoken(name: str, text: str, language: str | None) -> Member:
        return name, text, {"lang": _find_language(language)}

    coadvisors = work.find_contributors("co-advisor")
    for author in work.creators[:1]:
        yield from _list_person("contributorAuthor", [author])
        yield plain("contributorAuthorID", author.orcid)
    advisors = work.find_contributors("advisor", "supervisor")
    yield from _list_person("contributorAdvisor", advisors)
    yield from _list_person("contributorAdvisor-co1", coadvisors[:1])
    yield from _list_person("contributorAdvisor-co2", coadvisors[1:])
    for name in work.find_contributors("committee member"):
        yield plain("contributorReferees", name.inverted)
    deposited = work.deposited.isoformat() if work.deposited else None
    yield plain("dateAccessioned", deposited)
    yield plain("dateAvailable", work.available.isoformat() if work.available else deposited)
    yield plain("dateIssued", _find_date(work))
    yield plain("identifierUri", work.url)
    citation = "".join(part.text for part in cite(work))
    yield "identifierCitation", citation, {"norma": "ABNT"}
    yield plain("identifierDoi", work.doi)
    portuguese = [text for text in work.abstracts if (text[1] or "pt").startswith("pt")]
    others = [text for text in work.abstracts if text not in portuguese]
    yield from (spoken("descriptionResumo", *text) for text in portuguese)
    yield from (spoken("descriptionAbstract", *text) for text in others)
    for funder in dict.fromkeys(grant.funder for grant in work.funding):
        yield plain("descriptionSponsorship", funder)
    yield plain("publisher", work.institution)
    yield plain("publisherProgram", work.degree.programme if work.degree else None)
    yield plain("type", _TYPES.get(work.type))
    yield plain("title", work.title)
    for title in work.other_titles:
        yield spoken("titleAlternative", title.value, title.lang)
    yield plain("language", _find_language(work.language))
    access = find_access(work)
    yield plain("rights", access and access.term)
    yield plain("rightsUri", work.licence_url)
    areas = [subject for subject in work.subjects if (subject.scheme or "").lower() == "cnpq"]
    plain_subjects = [subject for subject in work.subjects if subject not in areas]
    yield from (spoken("subject", subject.value, subject.lang) for subject in plain_subjects)
    yield from (spoken("subjectCnpq", subject.value, subject.lang) for subject in areas)
    yield plain("format", next((file.media_type for file in work.files if file.media_type), None))
    for related in work.related:
        yield plain("relation", related.url or related.identifier)


def _find_date(work: Work) -> str | None:
    """Return the date of the defence, otherwise the date of publication, if it is known."""
    dates = (work.degree.defended if work.degree else None, work.issued)
    return next((date.iso for date in dates if date is not None and date.iso), None)


def _list_person(name: str, people: list[Name]) -> Iterator[Member]:
    """Yield the names of people, and then the addresses of their Curriculum Lattes."""
    yield from ((name, person.inverted, {}) for person in people)
    yield from ((f"{name}Lattes", person.lattes_url, {}) for person in people)


def _find_language(tag: str | None) -> str | None:
    code = (tag or "").partition("-")[0].lower()
    return code if code in _LANGUAGES else None
