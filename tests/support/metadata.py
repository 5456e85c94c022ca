"""Works for the tests of metadata formats, and the schemas that validate the documents."""

from __future__ import annotations

from datetime import date
from typing import Any

from hypothesis import strategies as st
from lxml import etree

from flask_ibi_archive.core.records.description import parse_description
from flask_ibi_archive.core.records.record import (
    ELEMENTS,
    AccessRule,
    FileRecord,
    Record,
    describe_work,
    parse_record,
)
from flask_ibi_archive.core.records.values import NOT_XML
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work
from support.commands import ROOT
from support.vectors import load

IBI = "8JMKD3MGP8W/35MME4E"
BASE = "http://urlib.net"


def make(**dc: str | list[str]) -> Work:
    """Return the work that has the values of Dublin Core."""
    elements = {
        name: tuple((text, None) for text in ([values] if isinstance(values, str) else values))
        for name, values in dc.items()
    }
    return make_work(Record(ibip=IBI), elements, BASE)


def make_described(record: Record, **options: Any) -> Work:
    """Return the work of a record with a description or Dublin Core."""
    metadata: Any = record.metadata
    return make_work(record, metadata.elements, BASE, description=metadata.work, **options)


def describe(language: str | None = None, **work: Any) -> Work:
    """Return the work that has a description."""
    stated = describe_work(parse_description("work", work))
    return make_described(Record(ibip=IBI, language=language, metadata=stated))


def load_work(name: str) -> Work:
    """Return a work of ``vectors/works.json``."""
    stated = load("works.json")[name]
    options = {**stated.get("options", {})}
    options["files"] = [WorkFile(**file) for file in options.get("files", ())]
    if "today" in options:
        options["today"] = date.fromisoformat(options["today"])
    return make_described(parse_record(stated["record"]), **options)


def one_line(text: str) -> str:
    """Return what remains of a text in a format without line breaks and control characters."""
    return " ".join(NOT_XML.sub("\ufffd", text).split()) if text.strip() else ""


# --- strategies ----------------------------------------------------------------------------------

#: Any text of Unicode, with control characters and halves of surrogate pairs.
texts = st.text(st.characters(), max_size=40)
#: Texts that mean something in Dublin Core.
_words = st.sampled_from(
    [
        "Silva, Ana", "INPE", "São Paulo: USP", "Chuva: um estudo", "2009-07-21", "c. 1998",
        "1998-08", "31/12/2001", "article", "Tese (Doutorado em Letras)", "Dataset", "10.1000/182",
        "Silva, Ana (0000-0002-1825-0097)", "info:eu-repo/semantics/article", "por", "pt-BR",
        "info:eu-repo/grantAgreement/EC/FP7/1", "Capítulo de livro", "1234-567X", "CC BY 4.0",
        "doi:10.1590/S1519-70772014000100002", "https://doi.org/10.1000/a<b>&c",
        "https://creativecommons.org/licenses/by/4.0/", "http://example.org/x?a=1&b=%",
        "ISBN 978-85-17-00001-1", "Revista X, São Paulo, v. 2, n. 1, p. 7-18, 2004",
    ]
)  # fmt: skip
_languages = st.sampled_from([None, "pt", "pt-BR", "en", "", "x y", "português"])
_values = st.lists(st.tuples(texts | _words, _languages), max_size=3).map(tuple)
_hostile = st.lists(
    st.sampled_from(
        ["chuva", "<b>", "&amp;", "]]>", '"x"', "東京", "😀", "--", "a\u0301", "v. 2", "{x}", "\\"]
    ),
    min_size=1,
).map(" ".join)  # fmt: skip
_examples: dict[str, list[Any]] = {}
for _name, _value in (
    *load("description.json").items(),
    *(work for each in load("works.json").values()
      for work in each["record"]["metadata"].get("work", {}).items()),
    *(case[:2] for case in load("tables/description.json")["a value is read in its usual spellings"]
      ["cases"]),
):  # fmt: skip
    _examples.setdefault(_name, []).append(_value)
_objects = st.fixed_dictionaries({"value": _hostile}, optional={"lang": st.just("pt-BR")})
#: The JSON of descriptions: values of the examples, and texts that a format might interpret.
descriptions = st.fixed_dictionaries(
    {"titles": st.lists(_hostile | _objects, min_size=1, max_size=2)},
    optional={
        **{name: st.sampled_from(_examples[name]) for name in _examples if name != "titles"},
        **dict.fromkeys(("publisher", "number", "version", "extent"), _hostile),
        **dict.fromkeys(("abstracts", "notes", "subjects", "coverage", "rights"),
                        st.lists(_hostile | _objects, max_size=2)),
        "type": st.sampled_from(["article", "book", "chapter", "data set", "poster", "TCC", "map"]),
        "creators": st.sampled_from(_examples["creators"])
        | st.lists(_hostile.map("Ana {}".format), max_size=2),
        "container": st.fixed_dictionaries(
            {"title": _hostile}, optional=dict.fromkeys(("place", "volume", "pages"), _hostile)
        ),
    },
)  # fmt: skip
_files = st.builds(
    WorkFile,
    texts,
    st.just("http://example.org/file?a=1&b=%41"),
    st.sampled_from([None, "application/pdf"]),
    st.none() | st.integers(0, 10**12),
)
_options = st.fixed_dictionaries(
    {},
    optional={
        "previous_edition": st.just("8JMKD3MGP8W/35MME4S"),
        "translation_of": st.sampled_from([None, "8JMKD3MGP8W/35MME4Q", "8JMKD3MGP8W/35MME4P"]),
        "today": st.dates(),
        "title": texts,
        "files": st.lists(_files, max_size=2),
    },
)
_records = st.builds(
    Record,
    ibip=st.just(IBI),
    rep=st.sampled_from([None, "sid.inpe.br/mtc-m18@80/2009/07.21.13.23"]),
    same_as=st.sampled_from([(), tuple(load("works.json")["data set"]["record"]["same_as"])]),
    timestamp=st.none() | st.datetimes(),
    language=st.sampled_from([None, "pt", "en"]),
    next_edition=st.sampled_from([None, "8JMKD3MGP8W/35MME4R"]),
    translations=st.sampled_from([{}, {"en": "8JMKD3MGP8W/35MME4Q"}]),
    embargo=st.none() | st.dates(),
    access=st.sampled_from([None, AccessRule(("192.0.2.0/24",))]),
    files=st.sampled_from([(), (FileRecord("a.pdf"),)]),
)
_dublin_cores = st.fixed_dictionaries({}, optional=dict.fromkeys(ELEMENTS, _values))
#: Works of any Dublin Core; works of any description.
works = st.builds(
    lambda record, elements, options: make_work(record, elements, BASE, **options),
    _records,
    _dublin_cores,
    _options,
) | st.builds(
    lambda record, data, options: make_work(
        record,
        (stated := describe_work(parse_description("work", data))).elements,
        BASE,
        description=stated.work,
        **options,
    ),
    _records,
    descriptions,
    _options,
)


# --- schemas -------------------------------------------------------------------------------------

FOLDER = ROOT / "tests/data/schemas"
#: The files of the schemas that validate documents, by the names of formats.
SCHEMA_FILES = {
    "oai_dc": "oai_dc.xsd",
    "datacite": "datacite-4.7/metadata.xsd",
    "oai_openaire": "openaire-4.0/openaire.xsd",
    "mtd3-br": "mtd3-br.xsd",
}


class _Folder(etree.Resolver):
    def resolve(self, system_url: str | None, public_id: str | None, context: Any) -> Any:
        """Return the file that has the name in a URL; nothing is read from the network."""
        if not (system_url or "").startswith("http"):
            return None  # a file beside the schema
        name = (system_url or "").rpartition("/")[2]
        return self.resolve_filename(str(FOLDER / name), context)


def load_schema(name: str) -> etree.XMLSchema:
    """Return the schema of a format, or a schema by the name of its file without the extension."""
    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(_Folder())
    return etree.XMLSchema(etree.parse(FOLDER / SCHEMA_FILES.get(name, f"{name}.xsd"), parser))
