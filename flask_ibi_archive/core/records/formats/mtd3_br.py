"""The format mtd3-br: theses for the Brazilian BDTD.

Source: the schema mtd3-br.xsd of IBICT (2015), in the repository github.com/ibict-br/REPOX.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flask_ibi_archive.core.records.description import Name, WorkType
from flask_ibi_archive.core.records.formats.abnt import cite
from flask_ibi_archive.core.records.formats.common import document, element, find_access
from flask_ibi_archive.core.records.work import Work

#: The namespace and the schema, as the schema of IBICT and its crosswalks state them.
SPACE = ("http://200.130.0.199/mtd3-br/", "http://200.130.0.199/mtd3-br/mtd3-br.xsd")

_TYPES = {WorkType.MASTER_THESIS: "masterThesis", WorkType.DOCTORAL_THESIS: "doctoralThesis"}
#: Languages of theses whose codes of ISO 639-1 the list of MTD3-BR contains.
_LANGUAGES = frozenset({"pt", "en", "es", "fr", "de", "it", "ja", "zh", "ru", "la"})
#: The name, the text and the language of an element; an element without a text is left out.
Member = tuple[str, "str | None", "str | None"]


def write_mtd3_br(work: Work) -> str:
    """Return the MTD3-BR document of a thesis."""
    return document("mtd3-br:mtd3br", _write(work), SPACE)


def _write(work: Work) -> Iterator[str]:
    """Yield the elements in the order of the schema."""
    for name, text, language in _list_elements(work):
        attributes = {"lang": _find_language(language)}
        if name == "identifierCitation":
            attributes = {"norma": "ABNT"}
        if text:
            yield element(f"mtd3-br:{name}", text, attributes)


def _find_language(tag: str | None) -> str | None:
    code = (tag or "").partition("-")[0].lower()
    return code if code in _LANGUAGES else None


def _list_elements(work: Work) -> Iterator[Member]:
    """Yield the elements, also those without a text."""
    yield from _list_people("contributorAuthor", work.creators[:1])
    yield from (("contributorAuthorID", author.orcid, None) for author in work.creators[:1])
    advisors = work.find_contributors("advisor", "supervisor")
    coadvisors = work.find_contributors("co-advisor")
    yield from _list_people("contributorAdvisor", advisors)
    yield from _list_people("contributorAdvisor-co1", coadvisors[:1])
    yield from _list_people("contributorAdvisor-co2", coadvisors[1:])
    for name in work.find_contributors("committee member"):
        yield "contributorReferees", name.inverted, None
    deposited = work.deposited.isoformat() if work.deposited else None
    yield "dateAccessioned", deposited, None
    yield "dateAvailable", work.available.isoformat() if work.available else deposited, None
    # the date of the defence, otherwise the date of publication, if it is known
    dates = (work.degree.defended if work.degree else None, work.issued)
    yield "dateIssued", next((date.iso for date in dates if date and date.iso), None), None
    yield "identifierUri", work.url, None
    yield "identifierCitation", "".join(part.text for part in cite(work)), None
    yield "identifierDoi", work.doi, None
    portuguese = [text for text in work.abstracts if (text[1] or "pt").startswith("pt")]
    others = [text for text in work.abstracts if text not in portuguese]
    yield from (("descriptionResumo", *text) for text in portuguese)
    yield from (("descriptionAbstract", *text) for text in others)
    for funder in dict.fromkeys(grant.funder for grant in work.funding):
        yield "descriptionSponsorship", funder, None
    yield "publisher", work.institution, None
    yield "publisherProgram", work.degree.programme if work.degree else None, None
    yield "type", _TYPES.get(work.type), None
    yield "title", work.title, None
    yield from (("titleAlternative", title.value, title.lang) for title in work.other_titles)
    yield "language", _find_language(work.language), None
    access = find_access(work)
    yield "rights", access and access.term, None
    yield "rightsUri", work.licence_url, None
    areas = [subject for subject in work.subjects if (subject.scheme or "").lower() == "cnpq"]
    words = [subject for subject in work.subjects if subject not in areas]
    yield from (("subject", subject.value, subject.lang) for subject in words)
    yield from (("subjectCnpq", subject.value, subject.lang) for subject in areas)
    media_types = (file.media_type for file in work.files if file.media_type)
    yield "format", next(media_types, None), None
    for related in work.related:
        yield "relation", related.url or related.identifier, None


def _list_people(name: str, people: Sequence[Name]) -> Iterator[Member]:
    """Yield the names of people, and then the addresses of their Curriculum Lattes."""
    yield from ((name, person.inverted, None) for person in people)
    yield from ((f"{name}Lattes", person.lattes_url, None) for person in people)
