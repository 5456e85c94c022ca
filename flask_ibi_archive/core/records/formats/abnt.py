"""Citations in the Brazilian style ABNT NBR 6023:2018.

A citation consists of parts with a style, so that a page can set the title in bold type. Numbers
such as 7.1 in this module are sections of the norm, whose rules are implemented as published guides
describe them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

from flask_ibi_archive.core.records.description import (
    IN_JOURNALS,
    Container,
    Degree,
    Name,
    WorkType,
)
from flask_ibi_archive.core.records.formats.vocabularies import find_contributors, find_institution
from flask_ibi_archive.core.records.values import IssuedDate, split_publisher
from flask_ibi_archive.core.records.work import Work

Style = Literal["", "bold", "italic"]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a citation.

    :param text: the text, which is not escaped.
    :param style: ``bold``, ``italic`` or "".
    """

    text: str
    style: Style = ""


#: Abbreviations of the months (annex A). Dates are in the language of the work.
_MONTHS = {
    "pt": ("jan.", "fev.", "mar.", "abr.", "maio", "jun.", "jul.", "ago.", "set.", "out.", "nov.",
           "dez."),
    "en": ("Jan.", "Feb.", "Mar.", "Apr.", "May", "June", "July", "Aug.", "Sept.", "Oct.", "Nov.",
           "Dec."),
    "es": ("enero", "feb.", "marzo", "abr.", "mayo", "jun.", "jul.", "agosto", "sept.", "oct.",
           "nov.", "dic."),
}  # fmt: skip
#: The articles and the other words of one syllable at the beginning of a title. If a work has no
#: author, such a word and the next word are in capitals (8.1).
_SHORT_WORDS = frozenset({
    "a", "à", "ao", "aos", "as", "às", "com", "da", "das", "de", "do", "dos", "e", "em", "na",
    "nas", "no", "nos", "o", "os", "por", "um", "uma", "umas", "uns",
    "al", "con", "del", "el", "en", "la", "las", "los", "un", "una", "unas", "unos", "y",
    "an", "in", "of", "on", "the", "to",
})  # fmt: skip
_DEGREES = {
    WorkType.DOCTORAL_THESIS: "Tese (Doutorado)",
    WorkType.MASTER_THESIS: "Dissertação (Mestrado)",
    WorkType.BACHELOR_THESIS: "Trabalho de Conclusão de Curso (Graduação)",
    WorkType.THESIS: "Tese",
}
#: Matches a type that names the academic degree as the norm does.
_STATED_DEGREE = re.compile(r"(?:tese|disserta|trabalho|monografia)[^(]*\(.+\)", re.IGNORECASE)
_PROCEEDINGS = re.compile(
    r"(anais|proceedings|actas|atas|resumos|abstracts)"
    r"(?: (?:do|da|dos|das|de|del|de la|of the|of))? (.+)",
    re.IGNORECASE,
)
_NO_PLACE, _NO_PUBLISHER = Part("S. l.", "italic"), Part("s. n.", "italic")
#: The number of authors above which only the first author is named (8.1).
MAX_AUTHORS = 3


def cite(work: Work, accessed: date | None = None, *, has_address: bool = True) -> tuple[Part, ...]:
    """Return the citation of a work in parts.

    :param accessed: the day on which the reader accessed the work; None: it is not stated.
    :param has_address: False if the citation names the IBI instead of the persistent URL, as for a
        removed item.
    """
    parts = [*_list_authors(work), *_describe(work)]
    if work.doi_url:
        parts.append(Part(f" DOI: {work.doi_url}."))
    if has_address:
        parts.append(Part(f" Disponível em: {work.url}."))
    else:
        parts.append(Part(f" IBI: {work.ibi}."))
    if accessed is not None and has_address:
        day = f"{accessed.day} {_MONTHS['pt'][accessed.month - 1]} {accessed.year}"
        parts.append(Part(f" Acesso em: {day}."))
    return tuple(part for part in parts if part.text)


def _describe(work: Work) -> Iterator[Part]:
    """Yield the title and the data of publication, which depend on the type."""
    if work.type.is_thesis:
        yield from _describe_thesis(work)
    elif work.type in IN_JOURNALS and work.container:
        yield from _describe_article(work, work.container)
    elif work.container:
        yield from _describe_section(work, work.container)
    else:
        yield from _list_titles(work, "bold")
        yield Part(" ")
        yield from _list_imprint(work, work.archive_name)


def _list_authors(work: Work) -> Iterator[Part]:
    """Yield the authors (8.1): of more than three authors, only the first one."""
    if not work.creators:
        return
    if len(work.creators) > MAX_AUTHORS:
        yield Part(f"{_format_author(work.creators[0])} ")
        yield Part("et al.", "italic")
        yield Part(" ")
    else:
        yield Part(_end_sentence("; ".join(map(_format_author, work.creators))) + " ")


def _format_author(name: Name) -> str:
    """Return an author. The family name or the organisation is in capitals.

    An addition in parentheses is not in capitals, and of a body of a government only the name of
    the government is (8.1), as in ``BRASIL. Ministério da Justiça``.
    """
    if name.given is not None:
        return f"{name.family.upper()}, {name.given}"
    government = re.fullmatch(r"(\w[\w ]{3,}\. )(.+)", name.family)
    head, rest = government.groups() if government else (name.family, "")
    main, bracket, addition = head.partition("(")
    return main.upper() + bracket + addition + rest


def _list_titles(work: Work, style: Style) -> Iterator[Part]:
    """Yield the title and the subtitle, as a sentence. Only the title is in the style.

    If the work has no author, its first word is in capitals instead (8.1).
    """
    # catalogues also write a space in front of the colon
    title, *subtitle = re.split(" ?: ", work.title, maxsplit=1)
    if not work.creators and work.has_title:
        title, style = _capitalize_first_word(title), ""
    if subtitle:
        yield Part(title, style)
        yield Part(_end_sentence(f": {subtitle[0]}"))
    else:
        sentence = _end_sentence(title)
        yield Part(title, style)
        yield Part(sentence[len(title) :])  # the full stop is not in the style


def _capitalize_first_word(title: str) -> str:
    first, space, rest = title.partition(" ")
    if first.lower() in _SHORT_WORDS and rest:
        second, following, rest = rest.partition(" ")
        return f"{first.upper()} {second.upper()}{following}{rest}"
    return first.upper() + space + rest


def _describe_thesis(work: Work) -> Iterator[Part]:
    """Yield title, year of deposit, degree, institution and year of the defence (7.1)."""
    yield from _list_titles(work, "bold")
    known = work.degree or Degree()
    defended = _format_year(known.defended or work.issued)
    year = _format_year(work.issued or known.defended)
    stated = work.type_text or ""
    degree = stated if _STATED_DEGREE.fullmatch(stated) else _DEGREES[work.type]
    if known.name is not None and degree is not stated:
        degree = f"{degree.partition(' (')[0]} ({known.name})"
    place = split_publisher(work.publisher)[0]
    institution = ", ".join(filter(None, (find_institution(work), place)))
    yield Part(f" {year}. {degree}")
    yield Part(f" – {institution}, {defended}." if institution else ".")


def _describe_article(work: Work, journal: Container) -> Iterator[Part]:
    """Yield title, journal, volume, number, pages and date of an article (7.7)."""
    yield from _list_titles(work, "")
    yield Part(" ")
    yield Part(journal.title, "bold")
    yield Part(", ")
    if journal.place:
        yield Part(journal.place)
    else:
        yield from (Part("["), _NO_PLACE, Part("]"))
    numbers = (("v.", journal.volume), ("n.", journal.number), ("p.", journal.pages))
    for name, number in numbers:
        if number:
            yield Part(f", {name} {number}")
    yield Part(f", {_format_date(work)}.")


def _describe_section(work: Work, container: Container) -> Iterator[Part]:
    """Yield title, book or event, imprint and pages of a chapter or paper (7.3 and 7.8).

    If the editors of the book are unknown, the title of the book is its entry, with the first word
    in capitals (8.1).
    """
    yield from _list_titles(work, "")
    yield Part(" ")
    yield Part("In", "italic")
    proceedings = _PROCEEDINGS.fullmatch(container.title)
    if work.type is not WorkType.CHAPTER:
        collection, event = proceedings.groups() if proceedings else ("Anais", container.title)
        name, comma, rest = event.partition(",")
        place = f", {container.place}" if container.place else ""
        yield Part(f": {_end_sentence(name.upper() + comma + rest + place)} ")
        yield Part(collection.capitalize(), "bold")
        yield Part(" [...]. ")
    elif editors := find_contributors(work, "editor"):
        yield Part(f": {'; '.join(map(_format_author, editors))} (org.). ")
        yield Part(container.title, "bold")
        yield Part(". ")
    else:
        yield Part(f": {_end_sentence(_capitalize_first_word(container.title))} ")
    yield from _list_imprint(work)
    if container.pages:
        yield Part(f" p. {container.pages}.")


def _list_imprint(work: Work, archive_name: str | None = None) -> Iterator[Part]:
    """Yield place, publisher and year (8.4 to 8.6); expressions replace what is unknown.

    :param archive_name: the repository, which is the publisher of a work if no publisher is stated.
        None for a part of a book or of proceedings, because the repository did not publish these.
    """
    place, publisher = split_publisher(work.publisher)
    if publisher is None and archive_name is not None:
        yield Part(archive_name)
    elif publisher is None:
        yield from (Part("["), _NO_PLACE, Part(": "), _NO_PUBLISHER, Part("]"))
    elif place is None:
        yield from (Part("["), _NO_PLACE, Part(f"]: {publisher}"))
    else:
        yield Part(f"{place}: {publisher}")
    yield Part(f", {_format_year(work.issued)}.")


def _format_year(issued: IssuedDate | None) -> str:
    """Return the year. Brackets mark what the work itself does not state (8.6)."""
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
    """Return a text that ends with a full stop, "!" or "?". Add a full stop if necessary."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
