"""The format MARCXML: MARC 21 for bibliographic data, in XML.

Sources: https://www.loc.gov/marc/bibliographic/ (the numbers of fields in this module), and
http://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flask_ibi_archive.core.records.description import Degree, Name
from flask_ibi_archive.core.records.formats.datacite import format_year
from flask_ibi_archive.core.records.formats.vocabularies import (
    find_access,
    find_language_code,
    find_type_terms,
)
from flask_ibi_archive.core.records.formats.xml_text import document, element
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import CONTAINED, WorkType
from flask_ibi_archive.core.records.work_values import name_licence, split_publisher

NAMESPACE = "http://www.loc.gov/MARC21/slim"
SCHEMA = "http://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd"

#: Leader 06 (type of record); "a" (language material) for other types.
_RECORD_TYPES = {
    WorkType.DATASET: "m",
    WorkType.IMAGE: "k",
    WorkType.MAP: "e",
    WorkType.MUSIC: "c",
    WorkType.SOFTWARE: "m",
    WorkType.SOUND: "i",
    WorkType.VIDEO: "g",
}
#: The codes of MARC for languages, if they differ from those of ISO 639-3.
_LANGUAGES = {
    "bod": "tib", "ces": "cze", "cym": "wel", "deu": "ger", "ell": "gre", "eus": "baq",
    "fas": "per", "fra": "fre", "hye": "arm", "isl": "ice", "kat": "geo", "mkd": "mac",
    "mri": "mao", "msa": "may", "mya": "bur", "nld": "dut", "ron": "rum", "slk": "slo",
    "sqi": "alb", "zho": "chi",
}  # fmt: skip

#: The code and the text of a subfield; a subfield without a text is left out.
Subfield = tuple[str, "str | None"]
#: The tag, the two indicators, and the subfields.
Field = tuple[str, str, Sequence[Subfield]]


def write_marcxml(work: Work) -> str:
    """Return the MARCXML document of a work."""
    return document("record", _write(work), {NAMESPACE: SCHEMA}, xmlns=NAMESPACE)


def _write(work: Work) -> Iterator[str]:
    level = "b" if work.type in CONTAINED else "c" if work.type is WorkType.COLLECTION else "m"
    # the lengths are unknown, "7" is a minimal record
    yield element("leader", f"00000n{_RECORD_TYPES.get(work.type, 'a')}{level} a22000007u 4500")
    yield element("controlfield", work.ibi, {"tag": "001"})
    if work.deposited is not None:
        moment = work.deposited.strftime("%Y%m%d%H%M%S.0").zfill(16)
        yield element("controlfield", moment, {"tag": "005"})
    yield element("controlfield", _write_008(work), {"tag": "008"})
    for tag, indicators, subfields in _list_fields(work):
        found = [element("subfield", text, {"code": code}) for code, text in subfields if text]
        if found:
            start = f'<datafield tag="{tag}" ind1="{indicators[0]}" ind2="{indicators[1]}">'
            yield f"{start}{''.join(found)}</datafield>"


def _write_008(work: Work) -> str:
    """Return the date of the record, the year and the language, at their positions."""
    entered = "      " if work.deposited is None else work.deposited.strftime("%y%m%d")
    language = _find_language(work) or "   "
    return f"{entered}s{format_year(work)}    xx {'':17}{language} d"


def _find_language(work: Work) -> str | None:
    code = find_language_code(work.language or "")
    return _LANGUAGES.get(code, code) if len(code) == 3 else None


def _list_fields(work: Work) -> Iterator[Field]:
    """Yield the fields in order, also those without a text."""
    container, degree = work.container, work.degree or Degree()
    is_contained = work.type in CONTAINED or container is not None
    if not is_contained:
        yield "020", "  ", [("a", work.isbn)]
        yield "022", "  ", [("a", work.issn)]
    yield "024", "7 ", [("a", work.doi), ("2", work.doi and "doi")]
    yield from (("024", "8 ", [("a", ibi)]) for ibi in work.identifiers)
    yield "041", "  ", [("a", _find_language(work))]
    for name in work.creators[:1]:
        yield _write_name("1", name, "author")
    yield "245", f"{int(bool(work.creators))}0", [("a", work.title)]
    for title in work.other_titles:
        if title.kind == "translated":
            language = title.lang and find_language_code(title.lang)
            yield "242", "10", [("a", title.value), ("y", language)]
        else:
            yield "246", "3 ", [("a", title.value)]
    yield "250", "  ", [("a", work.version)]
    issued = work.issued.text if work.issued else None
    place, publisher = split_publisher(work.publisher)
    yield "264", " 1", [("a", place), ("b", publisher), ("c", issued)]
    yield "300", "  ", [("a", work.extent)]
    yield from (("500", "  ", [("a", text)]) for text, _ in work.notes)
    institution = degree.institution.name if degree.institution else None
    defended = degree.defended.text if degree.defended else None
    parts = [("b", degree.name or degree.level), ("c", institution), ("d", defended)]
    yield "502", "  ", [*parts, ("g", degree.programme)]
    access = find_access(work)
    if access is not None:
        indicator = "0" if access.label == "open access" else "1"
        yield "506", f"{indicator} ", [("a", access.label), ("u", access.uri)]
    yield from (("520", "3 ", [("a", text)]) for text, _ in work.abstracts)
    yield from (("522", "  ", [("a", text)]) for text, _ in work.coverage)
    for grant in work.funding:
        text = ": ".join(filter(None, (grant.funder, grant.title)))
        yield "536", "  ", [("a", text), ("c", grant.number), ("e", grant.programme)]
    yield from (("540", "  ", [("a", text)]) for text, _ in work.rights)
    if work.licence_url:
        yield "540", "  ", [("a", name_licence(work.licence_url)), ("u", work.licence_url)]
    for subject in work.subjects:
        if subject.scheme is None:
            yield "653", "  ", [("a", subject.value)]
        else:
            scheme = subject.scheme.lower()
            yield "650", " 7", [("a", subject.value), ("0", subject.uri), ("2", scheme)]
    yield "655", " 4", [("a", work.type_text or find_type_terms(work.type).label)]
    yield from (_write_name("7", name, "author") for name in work.creators[1:])
    yield from (_write_name("7", name, name.role) for name in work.contributors)
    if is_contained:
        yield "773", "0 ", [*_write_container(work), ("x", work.issn), ("z", work.isbn)]
    for related in work.related:
        yield "787", "08", [("i", related.relation), ("o", related.identifier)]
    yield "856", "40", [("u", work.url)]
    for file in work.files:
        size = None if file.size is None else str(file.size)
        yield "856", "40", [("u", file.url), ("q", file.media_type), ("s", size)]


def _write_name(digit: str, name: Name, role: str | None) -> Field:
    """Return a main entry (1XX) or an added entry (7XX) of a person or an organisation."""
    is_organisation = name.kind == "organisation" or name.ror is not None
    indicator = "2" if is_organisation else "1" if name.given else "0"
    urls: Iterable[Subfield] = (("1", url) for url in (name.orcid_url, name.lattes_url, name.ror))
    affiliations: Iterable[Subfield] = (("u", each.name) for each in name.affiliations)
    subfields = [("a", name.inverted), ("e", role), *affiliations, *urls]
    return f"{digit}{'10' if is_organisation else '00'}", f"{indicator} ", subfields


def _write_container(work: Work) -> list[Subfield]:
    """Return the title of what contains the work, its place, and the part of it."""
    container = work.container
    if container is None:
        return []
    numbers = (("v.", container.volume), ("n.", container.number), ("p.", container.pages))
    part = ", ".join(f"{name} {number}" for name, number in numbers if number)
    return [("t", container.title), ("d", container.place), ("g", part)]
