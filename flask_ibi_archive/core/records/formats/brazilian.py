"""Brazilian formats: citations in the style ABNT NBR 6023:2018, and mtd3-br, theses for the BDTD.

A citation consists of parts, and each part has a style, so that a page can set the title in bold
type. Numbers such as 7.1 in this module are sections of the norm. The rules follow published guides
to the norm.

Source of mtd3-br: the schema mtd3-br.xsd of IBICT (2015), in github.com/ibict-br/REPOX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records.formats.common import TYPES, document, element, find_access
from flask_ibi_archive.core.records.values import VOCABULARIES, IssuedDate, list_words
from flask_ibi_archive.core.records.work import Work


class Part(NamedTuple):
    """A part of a citation.

    :param text: the text, which is not escaped.
    :param style: ``bold``, ``italic`` or "".
    """

    text: str
    style: str = ""


#: Abbreviations of the months (annex A). Dates of works are in the language of the work.
_MONTHS = VOCABULARIES["months"]
#: The articles and the other words of one syllable at the beginning of a title. If a work has no
#: author, such a word and the next word are in capitals (8.1).
_SHORT_WORDS = frozenset(list_words("short words"))
#: The words of a citation: what a thesis of each type and degree is called, and others.
_WORDS = {
    language: {key: words[number] for key, words in VOCABULARIES["citations"].items()}
    for number, language in enumerate(("pt", "en", "es"))
}
#: The language of the name of a degree, by a word in it.
_DEGREE_LANGUAGES = list_words("degree languages")
#: The particles in front of a surname, which follow the given names (8.1). In capitals they belong
#: to the surname, as in Van Buren.
_PARTICLES = re.compile(
    r"(?:(?:de l[ao]s?|d[aeo]s?|del|di|du|von|van|der|den|ter|ten|zum?|zur|e)\s+)+(?=\S)"
)
_EDITION = re.compile(
    r"([0-9]{1,3})(?:\s*[ªºa.]|st|nd|rd|th)?\s*(?:ed(?:\b\.?|i\w+))?[.,]?(?:\s+(.+))?",
    re.IGNORECASE,
)
#: The types of works whose version is an edition.
WITH_EDITIONS = frozenset(map(model.WorkType, ("book", "chapter", "proceedings")))
_PAGES = re.compile(r"([0-9ivxlc, ]*[0-9]+)\s*(f|p)?\w*\.?", re.IGNORECASE)
#: Matches a type that names the academic degree as the norm does.
_STATED_DEGREE = re.compile(r"(?:tese|disserta|trabalho|monografia)[^(]*\(.+\)", re.IGNORECASE)
_PROCEEDINGS = re.compile(
    r"(anais|proceedings|actas|atas|resumos|abstracts)"
    r"(?: (?:do|da|dos|das|de|del|de la|of the|of))? (.+)",
    re.IGNORECASE,
)
#: What separates the parts of a citation; the texts of works have no control characters.
_MARK = "\0"
#: The number of authors above which only the first author is named (8.1).
MAX_AUTHORS = 3


def cite(
    work: Work, accessed: date | None = None, language: str = "pt", *, has_address: bool = True
) -> tuple[Part, ...]:
    """Return the citation of a work in parts.

    :param accessed: the day on which the reader accessed the work; None: it is not stated.
    :param language: the language of the reader. Words such as "accessed on" are in this language.
    :param has_address: False if the citation names the IBI instead of the persistent URL, as for a
        removed item.
    """
    doi = f" DOI: {work.doi_url}." if work.doi_url else ""
    language = language[:2] if language[:2] in _WORDS else "pt"
    words = _WORDS[language]
    address = f" {words['address']}: {work.url}." if has_address else f" IBI: {work.ibi}."
    if accessed is not None and has_address:
        day = f"{accessed.day} {_MONTHS[language][accessed.month - 1]} {accessed.year}"
        address += f" {words['accessed']}: {day}."
    described = _describe(work, language)
    styles_and_texts = ["", *f"{_list_authors(work)}{described}{doi}{address}".split(_MARK)]
    pairs = zip(styles_and_texts[::2], styles_and_texts[1::2], strict=True)
    return tuple(Part(text, style) for style, text in pairs if text)


def _style(text: str, style: str) -> str:
    """Put marks around a text; :func:`cite` divides the citation into parts at these marks."""
    return f"{_MARK}{style}{_MARK}{text}{_MARK}{_MARK}"


_NO_PLACE = _style("S. l.", "italic")


def _describe(work: Work, language: str) -> str:
    """Return the part of a citation after the authors, which depends on the type of the work."""
    if work.type.is_thesis:
        return _describe_thesis(work, language)
    if work.container is None:
        imprint = _format_imprint(work, work.archive_name)
        return f"{_format_title(work, 'bold')} {imprint}{_format_extent(work, 'p.')}"
    if work.type in model.IN_JOURNALS:
        return _describe_article(work, work.container)
    return _describe_section(work, work.container)


def _list_authors(work: Work) -> str:
    """Return the authors (8.1); if there are more than three, only the first one."""
    if not work.creators:
        return ""
    if len(work.creators) > MAX_AUTHORS:
        return f"{_format_author(work.creators[0])} {_style('et al.', 'italic')} "
    return _end_sentence("; ".join(map(_format_author, work.creators))) + " "


def _format_author(name: model.Name) -> str:
    """Return an author. The family name or the organisation is in capitals.

    Two parts of an organisation are not in capitals: words in parentheses, and the name of a body
    of a government, as in ``BRASIL. Ministério da Justiça`` (8.1). In the name of a person, a
    particle such as "da" follows the given names, and a word of kinship such as "Júnior" belongs to
    the surname: ``SILVA JÚNIOR, José da``.
    """
    if name.given is not None:
        family, (given, *suffixes) = name.family, re.split(r",\s*", name.given)
        first, _, last = given.rpartition(" ")
        if model.KINSHIP.fullmatch(family) and first and len(last.rstrip(".")) > 1:
            family, given = f"{last} {family}", first
        if particle := _PARTICLES.match(family):
            family, given = family[particle.end() :], f"{given} {particle[0]}".rstrip()
        return ", ".join((family.upper(), given, *suffixes))
    government = re.fullmatch(r"(\w[\w ]{3,}\. )(.+)", name.family)
    head, rest = government.groups() if government else (name.family, "")
    main, bracket, addition = head.partition("(")
    return main.upper() + bracket + addition + rest


def _format_title(work: Work, style: str = "") -> str:
    """Return a sentence with the title and the subtitle. The style applies to the title alone.

    If the work has no author, the first word of the title is in capitals instead (8.1).
    """
    # catalogues also write a space in front of the colon
    title, *rest = re.split(" ?: ", work.title, maxsplit=1)
    subtitle = f": {rest[0]}" if rest else ""
    if work.subtitle is not None and work.title.startswith(work.titles[0].value):
        title = work.titles[0].value
        subtitle = work.title[len(title) :]
    if not work.creators and work.has_title:
        title, style = _capitalize_first_word(title), ""
    # the full stop is not in the style
    end = _end_sentence(subtitle) if subtitle else _end_sentence(title)[len(title) :]
    return _style(title, style) + end


def _capitalize_first_word(title: str) -> str:
    first, space, rest = title.partition(" ")
    if first.lower() in _SHORT_WORDS and rest:
        second, following, rest = rest.partition(" ")
        return f"{first.upper()} {second.upper()}{following}{rest}"
    return first.upper() + space + rest


def _describe_thesis(work: Work, language: str) -> str:
    """Return title, advisors, year of deposit, pages, degree, institution and year (7.1)."""
    known = work.degree or model.Degree()
    words = _WORDS[language]
    advisors = "".join(
        f" {_end_sentence(f'{words[role]}: ' + '; '.join(name.direct for name in names))}"
        for role, names in (
            ("advisor", work.find_contributors("advisor", "supervisor")),
            ("co-advisor", work.find_contributors("co-advisor")),
        )
        if names
    )
    defended = _format_year(known.defended or work.issued)
    year = _format_year(work.issued or known.defended)
    stated = work.type_text or ""
    if known.name is not None:
        # both words of the degree are in one language
        name = known.name.lower()
        found = (tag for word, tag in _DEGREE_LANGUAGES.items() if word in name)
        words = _WORDS[next(found, language)]
    kind = "specialist" if known.level == "specialist" else work.type.value
    degree = stated if _STATED_DEGREE.fullmatch(stated) else words[kind]
    if known.name is not None and degree is not stated:
        degree = f"{degree.partition(' (')[0]} ({known.name})"
    place = work.imprint[0]
    institution = ", ".join(filter(None, (work.institution, place)))
    granted = f" – {institution}, {defended}" if institution else ""
    pages = _format_extent(work, "f.")
    return f"{_format_title(work, 'bold')}{advisors} {year}.{pages} {degree}{granted}."


def _format_extent(work: Work, unit: str) -> str:
    """Return the number of pages or leaves; "" if it is unknown.

    :param unit: the unit for a number that is stated without a unit.
    """
    found = _PAGES.fullmatch(work.extent or "")
    return f" {found[1].strip()} {f'{found[2].lower()}.' if found[2] else unit}" if found else ""


def _format_edition(work: Work) -> str:
    """Return the edition of a book, in the language of the book (8.3); "" if it is unknown."""
    if work.version is None or work.type not in WITH_EDITIONS:
        return ""
    found = _EDITION.fullmatch(work.version)
    if found is None:
        return f"{_end_sentence(work.version)} "
    number, rest = found.groups()
    ordinal = f"{number}."
    if (work.language or "").startswith("en"):
        ending = {"1": "st", "2": "nd", "3": "rd"}.get(number[-1], "th")
        ordinal = f"{number}{'th' if number[-2:-1] == '1' else ending}"
    return f"{ordinal} ed. {_end_sentence(rest) + ' ' if rest else ''}"


def _describe_article(work: Work, journal: model.Container) -> str:
    """Return title, journal, volume, number, pages and date of an article (7.7)."""
    numbers = (("v.", journal.volume), ("n.", journal.number), ("p.", journal.pages))
    parts = [
        _style(journal.title, "bold"),
        journal.place or work.place or f"[{_NO_PLACE}]",
        *(f"{name} {number}" for name, number in numbers if number),
        _format_date(work),
    ]
    return f"{_format_title(work)} {', '.join(parts)}."


def _describe_section(work: Work, container: model.Container) -> str:
    """Return title, book or event, imprint and pages of a chapter or paper (7.3 and 7.8).

    If the editors of the book are unknown, the title of the book takes the place of their names;
    its first word is then in capitals (8.1).
    """
    if work.type is not model.WorkType.CHAPTER:
        proceedings = _PROCEEDINGS.fullmatch(container.title)
        collection, event = proceedings.groups() if proceedings else ("Anais", container.title)
        name, comma, rest = event.partition(",")
        place = f", {container.place}" if container.place else ""
        entry = _end_sentence(name.upper() + comma + rest + place)
        book = f"{entry} {_style(collection.capitalize(), 'bold')} [...]."
    elif editors := work.find_contributors("editor"):
        names = "; ".join(map(_format_author, editors))
        book = f"{names} (org.). {_style(container.title, 'bold')}."
    else:
        book = _end_sentence(_capitalize_first_word(container.title))
    pages = f" p. {container.pages}." if container.pages else ""
    return f"{_format_title(work)} {_style('In', 'italic')}: {book} {_format_imprint(work)}{pages}"


def _format_imprint(work: Work, archive_name: str | None = None) -> str:
    """Return edition, place, publisher and year (8.3 to 8.6), or expressions such as "[s. l.]".

    :param archive_name: the repository, which is the publisher of a work if no publisher is stated.
        None for a part of a book or of proceedings, because the repository did not publish these.
    """
    place, publisher = work.imprint
    publisher = publisher or (archive_name if place is None else None)
    if publisher is None:
        unknown = _style("s. n.", "italic")
        imprint = f"{place}: [{unknown}]" if place else f"[{_NO_PLACE}: {unknown}]"
    elif work.publisher is None:
        imprint = publisher
    else:
        imprint = f"{place or f'[{_NO_PLACE}]'}: {publisher}"
    return f"{_format_edition(work)}{imprint}, {_format_year(work.issued)}."


def _format_year(issued: IssuedDate | None) -> str:
    """Return the year, in brackets if the work itself does not state the year (8.6)."""
    if issued is None:
        return "[s. d.]"
    if issued.year is None:
        return issued.text.rstrip(".")
    return f"[ca. {issued.year}]" if issued.is_approximate else str(issued.year)


def _format_date(work: Work) -> str:
    """Return day, month and year as far as known, in the language of the work (8.6)."""
    issued = work.issued
    if issued is None or issued.month is None:
        return _format_year(issued)
    months = _MONTHS.get((work.language or "pt")[:2], _MONTHS["pt"])
    day = "" if issued.day is None else f"{issued.day} "
    return f"{day}{months[issued.month - 1]} {issued.year}"


def _end_sentence(text: str) -> str:
    """Add a full stop to a text, unless the text ends with a full stop, "!" or "?"."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


#: The namespace and the schema, as the schema of IBICT and its crosswalks state them.
SPACE = ("http://200.130.0.199/mtd3-br/", "http://200.130.0.199/mtd3-br/mtd3-br.xsd")

_TYPES = frozenset({model.WorkType.MASTER_THESIS, model.WorkType.DOCTORAL_THESIS})
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
    yield "type", TYPES[work.type].stated_term if work.type in _TYPES else None, None
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


def _list_people(name: str, people: Sequence[model.Name]) -> Iterator[Member]:
    """Yield the names of people, and then the addresses of their Curriculum Lattes."""
    yield from ((name, person.inverted, None) for person in people)
    yield from ((f"{name}Lattes", person.lattes_url, None) for person in people)
