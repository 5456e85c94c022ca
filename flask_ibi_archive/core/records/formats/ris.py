"""The format RIS, which reference managers import.

Source: RIS Format Specifications, Research Information Systems, 2011 version of the types.
"""

from __future__ import annotations

from collections.abc import Iterator

from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import IN_JOURNALS, WorkType
from flask_ibi_archive.core.records.work_values import split_publisher
from flask_ibi_archive.errors import one_line

_TYPES = {
    WorkType.ARTICLE: "JOUR",
    WorkType.BACHELOR_THESIS: "THES",
    WorkType.BOOK: "BOOK",
    WorkType.CHAPTER: "CHAP",
    WorkType.CONFERENCE_PAPER: "CPAPER",
    WorkType.DATASET: "DATA",
    WorkType.DOCTORAL_THESIS: "THES",
    WorkType.IMAGE: "ART",
    WorkType.LECTURE: "SLIDE",
    WorkType.MAP: "MAP",
    WorkType.MASTER_THESIS: "THES",
    WorkType.MUSIC: "MUSIC",
    WorkType.PATENT: "PAT",
    WorkType.PREPRINT: "UNPB",
    WorkType.PROCEEDINGS: "CONF",
    WorkType.REPORT: "RPRT",
    WorkType.REVIEW: "JOUR",
    WorkType.SOFTWARE: "COMP",
    WorkType.SOUND: "SOUND",
    WorkType.STANDARD: "STAND",
    WorkType.THESIS: "THES",
    WorkType.VIDEO: "VIDEO",
}


def write_ris(work: Work) -> str:
    """Return the RIS record of a work. Each value is on one line."""
    lines = [(tag, one_line(text)) for tag, text in _list_values(work) if text]
    return "".join(f"{tag}  - {text}\r\n" for tag, text in lines) + "ER  - \r\n"


def _list_values(work: Work) -> Iterator[tuple[str, str | None]]:
    """Yield tags and values. TY must be the first tag."""
    place, publisher = split_publisher(work.publisher)
    yield "TY", _TYPES.get(work.type, "GEN")
    yield "ID", work.ibi
    yield "TI", work.title
    yield from (("AU", author.inverted) for author in work.authors)
    if work.issued is not None:
        year, month, day = (*map(str, work.issued.parts), "", "", "")[:3]
        other = "" if work.issued.iso else work.issued.text
        yield "PY", year and f"{year:0>4}"
        yield "DA", f"{year:0>4}/{month:0>2}/{day:0>2}" if day else other
    yield "PB", publisher
    if work.container is not None:
        place = place or work.container.place
        yield "JO" if work.type in IN_JOURNALS else "T2", work.container.title
        yield "VL", work.container.volume
        yield "IS", work.container.number
        yield "SP", work.container.first_page
        yield "EP", work.container.last_page
    yield "CY", place
    yield "M3", work.type_text
    yield from (("AB", text) for text, _ in work.abstracts[:1])
    yield from (("KW", text) for text, _ in work.subjects)
    yield "LA", work.language
    yield "SN", work.isbn or work.issn
    yield "DO", work.doi
    yield "UR", work.url
