"""Works, and strategies that generate the Dublin Core of works."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from flask_ibi_archive.core.records.dublin_core import ELEMENTS, NOT_XML
from flask_ibi_archive.core.records.record import AccessRule, DublinCore, FileRecord, Record
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work

IBI = "8JMKD3MGP8W/35MME4E"
BASE = "http://urlib.net"

#: Any text of Unicode, with control characters and halves of surrogate pairs.
texts = st.text(st.characters(), max_size=40)
_words = st.sampled_from(
    [
        "Silva, Ana", "INPE", "São Paulo: USP", "Chuva: um estudo", "2009-07-21", "c. 1998",
        "1998-08", "31/12/2001", "article", "Tese (Doutorado em Letras)", "Dataset",
        "Silva, Ana (0000-0002-1825-0097)", "info:eu-repo/semantics/article",
        "info:eu-repo/grantAgreement/EC/FP7/1", "10.1000/182",
        "Capítulo de livro",
        "doi:10.1590/S1519-70772014000100002", "https://doi.org/10.1000/a<b>&c", "CC BY 4.0",
        "https://creativecommons.org/licenses/by/4.0/", "http://example.org/x?a=1&b=%", "1234-567X",
        "ISBN 978-85-17-00001-1", "Revista X, São Paulo, v. 2, n. 1, p. 7-18, 2004", "por", "pt-BR",
    ]
)  # fmt: skip
_languages = st.sampled_from([None, "pt", "pt-BR", "en", "", "x y", "português"])
_values = st.lists(st.tuples(st.one_of(texts, _words), _languages), max_size=3).map(tuple)
#: The Dublin Core of works. The values are any texts, or texts that have a meaning.
dublin_cores: st.SearchStrategy[DublinCore] = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(ELEMENTS, _values)
)
_options = st.fixed_dictionaries(
    {},
    optional={
        "previous_edition": st.just("8JMKD3MGP8W/35MME4S"),
        "translation_of": st.sampled_from([None, "8JMKD3MGP8W/35MME4Q", "8JMKD3MGP8W/35MME4P"]),
        "today": st.dates(),
        "title": texts,
        "files": st.lists(
            st.builds(
                WorkFile,
                texts,
                st.just("http://example.org/file"),
                st.sampled_from([None, "application/pdf"]),
                st.one_of(st.none(), st.integers(0, 10**12)),
            ),
            max_size=2,
        ),
    },
)
_records = st.builds(
    Record,
    ibip=st.just(IBI),
    rep=st.sampled_from([None, "sid.inpe.br/mtc-m18@80/2009/07.21.13.23"]),
    timestamp=st.one_of(st.none(), st.datetimes()),
    language=st.sampled_from([None, "pt", "en"]),
    next_edition=st.sampled_from([None, "8JMKD3MGP8W/35MME4R"]),
    translations=st.sampled_from([{}, {"en": "8JMKD3MGP8W/35MME4Q"}]),
    embargo=st.one_of(st.none(), st.dates()),
    access=st.sampled_from([None, AccessRule(("192.0.2.0/24",))]),
    files=st.sampled_from([(), (FileRecord("a.pdf"),)]),
)


def _build(record: Record, dublin_core: DublinCore, options: dict[str, Any]) -> Work:
    return make_work(record, dublin_core, BASE, **options)


works = st.builds(_build, _records, dublin_cores, _options)


def make(**dc: str | list[str]) -> Work:
    """Return the work that has the values of Dublin Core."""
    elements = {
        name: tuple((text, None) for text in ([values] if isinstance(values, str) else values))
        for name, values in dc.items()
    }
    return make_work(Record(ibip=IBI), elements, BASE)


def one_line(text: str) -> str:
    """Return what remains of a text in a format without line breaks and control characters."""
    return " ".join(NOT_XML.sub("\ufffd", text).split()) if text.strip() else ""
