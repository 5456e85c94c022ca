"""Tests what a work contains: from its record, its description and the text of Dublin Core."""

from __future__ import annotations

import html
import json
import re
from datetime import date, datetime, timezone
from typing import Any

from hypothesis import given
from support.metadata import BASE, IBI, describe, make, works

from flask_ibi_archive.core.records.description import Title, WorkType
from flask_ibi_archive.core.records.formats import BUILT_IN
from flask_ibi_archive.core.records.formats.brazilian import cite
from flask_ibi_archive.core.records.formats.json_ld import write_json_ld
from flask_ibi_archive.core.records.page_head import list_meta_tags
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work


def test_a_work_contains_what_the_record_states() -> None:
    moment = datetime(2011, 3, 4, tzinfo=timezone.utc)
    record = Record(
        rep="a.br/x/2000/01.01.00.00", ibip=IBI, timestamp=moment, language="pt",
        embargo=date(2027, 1, 1), next_edition="8J/2", translations={"en": "8J/3"}, state="Copy",
    )  # fmt: skip
    file = WorkFile("a.pdf", f"{BASE}/a.pdf", "application/pdf", 12)
    work = make_work(
        record,
        {"title": (("Chuva", "pt"), ("Rain", "en")), "language": (("eng", None),)},
        BASE,
        page_url="https://a.example/col/x/",
        files=[file],
        metadata_language="es",
        previous_edition="8J/1",
    )
    assert (work.ibi, work.url) == (IBI, f"{BASE}/{IBI}")
    assert work.page_url == "https://a.example/col/x/"
    assert (work.title, work.title_language) == ("Chuva", "pt")
    assert work.other_titles == (Title("Rain", "en"),)
    assert (work.language, work.metadata_language) == ("pt", "es")
    assert (work.deposited, work.available) == (moment, date(2027, 1, 1))
    assert (work.next_edition, work.previous_edition) == (f"{BASE}/8J/2", f"{BASE}/8J/1")
    assert work.translations == (("en", f"{BASE}/8J/3"),)
    assert (work.files, work.state) == ((file,), "Copy")


TITLES: list[Any] = [
    "Rain on <i>Bromelia</i>",
    {"value": "um estudo", "lang": "pt", "kind": "subtitle"},
    {"value": "CO<sub>2</sub> &amp; H", "lang": "en", "kind": "subtitle"},
    {"value": "Chuva", "lang": "pt", "kind": "translated"},
]


def test_each_format_has_the_title_with_its_subtitle_as_plain_text() -> None:
    titles = [{"value": TITLES[0], "lang": "en"}, *TITLES[1:]]
    work = describe(titles=titles, creators=["Silva, Ana"], abstracts=["<jats:p>It.</jats:p>"])
    full = "Rain on Bromelia: CO2 & H"
    assert (work.title, work.rich_title) == (
        full,
        "Rain on <i>Bromelia</i>: CO<sub>2</sub> &amp; H",
    )
    assert [title.value for title in work.other_titles] == ["um estudo", "Chuva"]
    for format in BUILT_IN:
        text = format.write(work)
        assert isinstance(text, str)
        assert full in html.unescape(text).replace(r"\u0026", "&").replace(r"\&", "&"), format
        custom = text.find('"custom"')  # only there, the description is as it is stated
        assert not re.search("<i>|jats", html.unescape(text)[:custom] if custom > 0 else text)
    assert json.loads(write_json_ld(work))["alternateName"] == ["um estudo", "Chuva"]
    tags = [tag.content for tag in list_meta_tags(work) if tag.name == "citation_title"]
    assert tags == [full]
    assert "".join(part.text for part in cite(work)).startswith(f"SILVA, Ana. {full}. ")


def test_a_degree_gives_the_date_the_type_and_the_publisher_unless_they_are_stated() -> None:
    degree = {"name": "Doutorado em Letras", "institution": "USP", "defended": "2009-06-30"}
    work = describe(titles=["T"], degree=degree)
    assert (work.year, work.type, work.publisher) == (2009, WorkType.DOCTORAL_THESIS, "USP")
    assert work.stated.issued is work.stated.publisher is None
    assert {name: texts[0][0] for name, texts in work.dublin_core.items()} == {
        "title": "T", "publisher": "USP", "date": "2009-06-30", "type": "doctoral thesis",
    }  # fmt: skip
    work = describe(titles=["T"], degree=degree, issued="2010", publisher="X", type="report")
    assert (work.year, work.type, work.publisher) == (2010, WorkType.REPORT, "X")


def test_the_title_has_a_substitute() -> None:
    work = make_work(Record(ibip=IBI), {"title": ((" ", None),)}, BASE, title="a.pdf")
    assert (work.title, work.has_title) == ("a.pdf", False)
    assert make().title == IBI


@given(works)
def test_all_texts_of_a_work_are_legal_in_xml(work: Work) -> None:
    texts = [work.title, *(name.inverted for name in work.creators)]
    for values in (work.dublin_core or {}).values():
        texts += [text for text, _ in values]
    assert all(text.strip() for text in texts)
    assert not any({"\0", "\x1b", "\ufffe", "\ud800"} & set(text) for text in texts)
    "".join([*texts, *(file.name for file in work.files)]).encode()
