"""The formats of theses: ETD-MS 1.0 of the NDLTD, and MTD3-BR of the Brazilian BDTD.

Sources: http://www.ndltd.org/standards/metadata/etdms/1.0/etdms.xsd, and the schema mtd3-br.xsd of
IBICT (2015), which is published in the repository github.com/ibict-br/REPOX.
"""

from __future__ import annotations

from collections.abc import Iterator

from flask_ibi_archive.core.records.description import Degree, Name, Role
from flask_ibi_archive.core.records.formats.abnt import cite
from flask_ibi_archive.core.records.formats.datacite import UNAVAILABLE, format_year
from flask_ibi_archive.core.records.formats.vocabularies import find_access, find_language_code
from flask_ibi_archive.core.records.formats.xml_text import document, element, group
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import WorkType
from flask_ibi_archive.core.records.work_values import split_publisher

ETDMS_NAMESPACE = "http://www.ndltd.org/standards/metadata/etdms/1.0/"
ETDMS_SCHEMA = f"{ETDMS_NAMESPACE}etdms.xsd"
#: The addresses that the schema of IBICT and its crosswalks state.
MTD_NAMESPACE = "http://200.130.0.199/mtd3-br/"
MTD_SCHEMA = f"{MTD_NAMESPACE}mtd3-br.xsd"

#: The levels of ETD-MS.
_LEVELS = {
    "bachelor": "bachelors",
    "specialist": "other",
    "master": "masters",
    "doctoral": "doctoral",
    "postdoctoral": "postdoctoral",
}
_LEVELS_OF_TYPES = {
    WorkType.BACHELOR_THESIS: "bachelors",
    WorkType.MASTER_THESIS: "masters",
    WorkType.DOCTORAL_THESIS: "doctoral",
}
_MTD_TYPES = {
    WorkType.MASTER_THESIS: "masterThesis",
    WorkType.DOCTORAL_THESIS: "doctoralThesis",
}
#: Languages of theses whose codes of ISO 639-1 the list of MTD3-BR contains.
_MTD_LANGUAGES = frozenset({"pt", "en", "es", "fr", "de", "it", "ja", "zh", "ru", "la"})
#: The name, the text and the attributes of an element; an element without a text is left out.
Member = tuple[str, "str | None", "dict[str, str | None]"]
_ADVISORS: frozenset[Role | None] = frozenset({"advisor", "supervisor"})


def write_etdms(work: Work) -> str:
    """Return the ETD-MS document of a thesis.

    The schema demands a creator, a subject and a date; ``:unav`` replaces what is unknown.
    """
    return document(
        "thesis", _write_etdms(work), {ETDMS_NAMESPACE: ETDMS_SCHEMA}, xmlns=ETDMS_NAMESPACE
    )


def _write_etdms(work: Work) -> Iterator[str]:
    yield element("title", work.title, {"xml:lang": work.title_language})
    for title in work.other_titles:
        yield element("alternativeTitle", title.value, {"xml:lang": title.lang})
    for name in work.creators or (Name(UNAVAILABLE),):
        yield element("creator", name.inverted, {"resource": _find_url(name)})
    if not work.subjects:
        yield element("subject", UNAVAILABLE)
    for text, language, scheme, uri in work.subjects:
        yield element("subject", text, {"scheme": scheme, "resource": uri, "xml:lang": language})
    for text, language in work.abstracts:
        yield element("description", text, {"xml:lang": language})
    for text, language in work.notes:
        yield element("description", text, {"role": "note", "xml:lang": language})
    if work.publisher:
        yield element("publisher", work.publisher)
    for name in work.contributors:
        attributes = {"role": name.role, "resource": _find_url(name)}
        yield element("contributor", name.inverted, attributes)
    yield element("date", _find_date(work) or format_year(work))
    yield element("type", "Electronic Thesis or Dissertation")
    yield element("type", work.type_text or work.type.value)
    for media_type in dict.fromkeys(file.media_type for file in work.files):
        yield element("format", media_type or "unknown")
    for identifier in (work.url, *work.same_as_uris):
        yield element("identifier", identifier)
    if work.language:
        yield element("language", find_language_code(work.language))
    for text, language in work.coverage:
        yield element("coverage", text, {"xml:lang": language})
    yield from (element("rights", text) for text in _list_rights(work))
    yield from group("degree", _write_degree(work))


def _write_degree(work: Work) -> Iterator[str]:
    degree = work.degree or Degree()
    if degree.name:
        yield element("name", degree.name)
    level = _LEVELS[degree.level] if degree.level else _LEVELS_OF_TYPES.get(work.type)
    if level:
        yield element("level", level)
    if degree.programme:
        yield element("discipline", degree.programme)
    if degree.institution:
        yield element("grantor", degree.institution.name, {"resource": degree.institution.ror})


def _find_url(name: Name) -> str | None:
    """Return the URL that identifies a person or an organisation."""
    return name.orcid_url or name.lattes_url or name.ror


def _find_date(work: Work) -> str | None:
    """Return the date of the defence, otherwise the date of publication, if it is known."""
    dates = (work.degree.defended if work.degree else None, work.issued)
    return next((date.iso for date in dates if date is not None and date.iso), None)


def _list_rights(work: Work) -> Iterator[str]:
    access = find_access(work)
    if access is not None:
        yield access.term
    yield from (text for text, _ in work.rights)
    if work.licence_url:
        yield work.licence_url


def write_mtd(work: Work) -> str:
    """Return the MTD3-BR document of a thesis."""
    return document(
        "mtd3-br:mtd3br",
        _write_mtd(work),
        {MTD_NAMESPACE: MTD_SCHEMA},
        **{"mtd3-br": MTD_NAMESPACE},
    )


def _write_mtd(work: Work) -> Iterator[str]:
    """Yield the elements in the order of the schema."""
    for name, text, attributes in _list_mtd(work):
        if text:
            yield element(f"mtd3-br:{name}", text, attributes)


def _list_mtd(work: Work) -> Iterator[Member]:
    """Yield the elements, also those without a text."""

    def plain(name: str, text: str | None) -> Member:
        return name, text, {}

    def list_roles(*roles: Role) -> list[Name]:
        return [name for name in work.contributors if name.role in roles]

    advisors = [name for name in work.contributors if name.role in _ADVISORS]
    coadvisors = list_roles("co-advisor")
    for name in work.creators[:1]:
        yield from _list_person("contributorAuthor", [name])
        yield plain("contributorAuthorID", name.orcid)
    yield from _list_person("contributorAdvisor", advisors)
    yield from _list_person("contributorAdvisor-co1", coadvisors[:1])
    yield from _list_person("contributorAdvisor-co2", coadvisors[1:])
    for name in list_roles("committee member"):
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
    for text, language in portuguese:
        yield "descriptionResumo", text, {"lang": _find_mtd_language(language)}
    for text, language in work.abstracts:
        if (text, language) not in portuguese:
            yield "descriptionAbstract", text, {"lang": _find_mtd_language(language)}
    for funder in dict.fromkeys(grant.funder for grant in work.funding):
        yield plain("descriptionSponsorship", funder)
    degree = work.degree or Degree()
    institution = degree.institution.name if degree.institution else None
    yield plain("publisher", institution or split_publisher(work.publisher)[1])
    yield plain("publisherProgram", degree.programme)
    yield plain("type", _MTD_TYPES.get(work.type))
    yield plain("title", work.title)
    for title in work.other_titles:
        yield "titleAlternative", title.value, {"lang": _find_mtd_language(title.lang)}
    yield plain("language", _find_mtd_language(work.language))
    access = find_access(work)
    yield plain("rights", access and access.term)
    yield plain("rightsUri", work.licence_url)
    areas = [subject for subject in work.subjects if (subject.scheme or "").lower() == "cnpq"]
    for subject in work.subjects:
        if subject not in areas:
            yield "subject", subject.value, {"lang": _find_mtd_language(subject.lang)}
    for subject in areas:
        yield "subjectCnpq", subject.value, {"lang": _find_mtd_language(subject.lang)}
    yield plain("format", next((file.media_type for file in work.files if file.media_type), None))
    for related in work.related:
        yield plain("relation", related.url or related.identifier)


def _list_person(name: str, people: list[Name]) -> Iterator[Member]:
    """Yield the names of people, and then the addresses of their Curriculum Lattes."""
    yield from ((name, person.inverted, {}) for person in people)
    yield from ((f"{name}Lattes", person.lattes_url, {}) for person in people)


def _find_mtd_language(tag: str | None) -> str | None:
    code = (tag or "").partition("-")[0].lower()
    return code if code in _MTD_LANGUAGES else None
