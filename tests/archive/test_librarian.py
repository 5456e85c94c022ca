"""The page of the librarian shows what needs attention, and withdraws items."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from html import unescape
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask, abort
from flask.testing import FlaskClient
from flask_wtf import CSRFProtect
from lxml.html import document_fromstring
from msgspec.structs import replace
from sqlalchemy import update
from support.accesses import insert_counts
from support.archives import import_records
from support.commands import command
from support.documentation import blocks
from support.statements import count_statements
from support.web import rep
from werkzeug.test import TestResponse

from flask_ibi_archive import Archive, IBIArchive
from flask_ibi_archive.archive import librarian as module
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.archive.joining.registration import store_outcome
from flask_ibi_archive.archive.librarian import admin_page
from flask_ibi_archive.core.protocol import inclusion
from flask_ibi_archive.core.records.record import FileRecord, Record, Tombstone, format_record
from flask_ibi_archive.errors import ResolverError


class Librarian:
    """Opens pages, and sends forms with all fields that a browser would send."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def get(self, query: str = "", status: int = 200) -> str:
        """Return the text of the page without HTML escapes."""
        response = self.client.get(f"/care{query}")
        assert response.status_code == status, response.text
        return unescape(response.text)

    def section(self, name: str, query: str = "") -> str:
        """Return the section of the page with a heading."""
        return self.get(query).partition(f">{name}</h2>")[2].partition("</section>")[0]

    def send(self, query: str, **fields: Any) -> TestResponse:
        """Open a form, change some fields, and send it."""
        fields = read_fields(self.get(query)) | fields
        return self.client.post(f"/care{query}", data=fields, content_type="multipart/form-data")


def read_fields(html: str) -> dict[str, str]:
    """Return the values of the fields of a form; a browser sends no box that is not ticked."""
    forms = document_fromstring(html).forms
    return {name: text.removeprefix("\n") for form in forms for name, text in form.form_values()}


def record_of(archive: Archive, item: Any) -> Record:
    """Return the record of an item."""
    found = archive.get(item)
    assert found is not None
    return found.record


@pytest.fixture
def librarian(app: Flask) -> Librarian:
    """A librarian of an app whose page is at /care."""
    app.add_url_rule("/care", "care", admin_page, methods=["GET", "POST"])
    return Librarian(app.test_client())


@pytest.fixture
def thesis(archive: Archive) -> str:
    """The identifier of an item."""
    return str(archive.deposit(title="Ice clouds over the Amazon basin").ibi)


# --- the overview --------------------------------------------------------------------------------


def test_an_empty_archive_has_nothing_that_needs_attention(librarian: Librarian) -> None:
    page = librarian.get()
    assert "The Archive is not registered." in page
    assert "have not been checked yet" in librarian.section("Damaged files")
    assert "None." in librarian.section("Embargoes that end in the next 90 days")
    assert "No access has been counted" in page
    headers = librarian.client.get("/care").headers
    assert (headers["Cache-Control"], headers["X-Robots-Tag"]) == ("no-store", "noindex")


def test_the_registration_is_that_of_the_last_answer(
    archive: Archive, librarian: Librarian
) -> None:
    for subject, outcome, text in (
        ("inclusion", inclusion.RegistrationStatus("included", "successful"), "includes the Archi"),
        ("inclusion", inclusion.RegistrationStatus("included", "unsuccessful"), "not call it back"),
        ("inclusion", ResolverError("http://r", "is silent", "wait"), "the resolver http://r is s"),
        ("exclusion", inclusion.RegistrationStatus("excluded"), "has excluded the Archive."),
    ):
        place = archive.served().id, archive.config, f"{subject}Request"
        with archive.database.writing() as connection:
            store_outcome(connection, *place, outcome, archive.clock())
        assert text in librarian.section("Registration at the resolver")


def test_damaged_files_are_those_of_the_last_check(
    app: Flask, archive: Archive, librarian: Librarian
) -> None:
    item = archive.deposit(title="Rain", files=[("rain.csv", BytesIO(b"1,2"))])
    path = Path(str(record_of(archive, item).files[0].source))
    content = path.read_bytes()
    path.unlink()
    assert command(app, "verify").status == 1
    damaged = librarian.section("Damaged files")
    assert "1 file is damaged." in damaged
    assert "rain.csv" in damaged
    assert ">Rain</a>" in damaged
    path.write_bytes(content)
    assert command(app, "verify").status == 0
    assert "rain.csv" not in librarian.section("Damaged files")


def test_embargoes_are_shown_if_they_end_in_ninety_days(
    archive: Archive, librarian: Librarian
) -> None:
    for days in (0, 1, 90, 91):
        archive.deposit(title=f"Rain {days}", embargo=archive.today + timedelta(days=days))
    page = librarian.section("Embargoes that end in the next 90 days")
    assert re.findall(r">Rain (\d+)<", page) == ["1", "90"]


@pytest.mark.postgresql
def test_most_read_items_are_those_of_the_last_year(archive: Archive, librarian: Librarian) -> None:
    numbers = range(1, 15)
    titles = {number: {"dc": {"title": [f"Item {number}"]}} for number in numbers}
    import_records(archive, [{"rep": rep(no), "metadata": it} for no, it in titles.items()])
    none = {"double_clicks": 0, "robots": 0}
    counts = [
        {"ibi": rep(number), "content_type": kind, "accesses": accesses, **none}
        | {"day": archive.today - timedelta(days=400 if number == 14 else number)}
        for number in numbers
        for kind, accesses in (("Data", 2 * number), ("Metadata", number))
    ]
    insert_counts(archive, counts)
    page = librarian.section("Most read items of the last 12 months")
    assert re.findall(r">Item (\d+)</a>", page) == [str(number) for number in range(13, 3, -1)]
    assert "<td>13</td><td>26</td>" in page


# --- the items -----------------------------------------------------------------------------------


def test_a_search_finds_items_and_offers_to_withdraw_those_that_are_not_removed(
    archive: Archive, librarian: Librarian
) -> None:
    kept, removed = archive.deposit(title="Rain 2025"), archive.deposit(title="Rain 2024")
    archive.delete(removed, "An error.")
    page = librarian.section("Items", "?q=rain")
    assert re.findall(r"withdraw=([^\"]+)\"", page) == [kept.ibi]
    assert ">Rain 2024</a>" in page
    assert "No item is found." in librarian.get("?q=snow")


@pytest.mark.postgresql
def test_the_list_shows_items_by_title_type_and_year(
    archive: Archive, librarian: Librarian
) -> None:
    archive.deposit(title="Rain", type="doctoral thesis", issued="2019", creators=["Silva, Ana"])
    archive.deposit(title="fog", metadata={"dc": {"type": ["Artigo"], "date": ["2021-03-15"]}})
    archive.deposit(title="Ice", type="doctoral thesis", issued="2020")
    for query, titles in (
        ("", ["Ice", "fog", "Rain"]),
        ("?order=title", ["fog", "Ice", "Rain"]),
        ("?order=year&type=x&year=-1&page=0", ["fog", "Ice", "Rain"]),
        ("?type=doctoral+thesis&order=type", ["Ice", "Rain"]),
        ("?type=article&year=2021", ["fog"]),
    ):
        page = librarian.section("Items", query)
        assert re.findall(r"/\">(\w+)</a>", page) == titles, query
    assert "Silva, Ana · 2019 · Doctoral thesis" in librarian.get()
    # types that no item has are not offered
    assert re.findall(r"<option value=\"([a-z ]+)\"", page)[:2] == ["article", "doctoral thesis"]


def test_a_long_list_has_several_pages_that_keep_the_search(
    archive: Archive, librarian: Librarian, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHOWN", 2)
    for number in range(5):
        archive.deposit(title=f"Rain {number}")
    query, seen = "?q=rain&order=title", []
    while query:
        page = librarian.section("Items", query)
        seen.append("".join(re.findall(r">Rain (\d)</a>", page)))
        following = re.search(r'href="/care([^"]+)" rel="next"', page)
        query = following[1] if following else ""
    assert seen == ["01", "23", "4"]
    assert "5 items" in page
    assert 'rel="prev"' in page


def test_a_draft_is_reserved_and_then_released_or_deposited(
    archive: Archive, librarian: Librarian
) -> None:
    for note in ("Fog", "Thesis of Ana Silva", ""):
        assert librarian.send("", reserve="1", note=note).status_code == 303
    [fog, thesis, unnamed] = archive.reservations()
    drafts = librarian.section("Drafts")
    assert {fog.ibip, thesis.ibip, unnamed.ibip} <= set(re.findall(r"\w+/\w+", drafts))
    assert "Thesis of Ana Silva" in drafts
    response = librarian.send("", release=fog.ibip, ibi_token="")
    assert response.status_code == 422
    assert len(archive.reservations()) == 3
    assert librarian.send("", release=fog.ibip).status_code == 303
    assert "already released" in librarian.send("", release=fog.ibip).text
    assert librarian.send(f"?new=book&draft={thesis.ibip}", title="Rain").status_code == 303
    assert archive.get(thesis.rep).title == "Rain"  # type: ignore[union-attr]
    left = set(re.findall(r"\w+/\w+", librarian.section("Drafts")))
    assert left & {fog.ibip, thesis.ibip, unnamed.ibip} == {unnamed.ibip}


def test_the_number_of_statements_does_not_depend_on_the_number_of_items(
    app: Flask, archive: Archive, librarian: Librarian
) -> None:
    def add(numbers: range) -> None:
        metadata = {"dc": {"title": ["Rain"]}}
        import_records(archive, [{"rep": rep(no), "metadata": metadata} for no in numbers])
        day = archive.today + timedelta(days=5)
        with archive.database.writing() as connection:
            connection.execute(update(Item).where(~Item.is_service).values(embargo=day))

    add(range(1, 4))
    assert command(app, "verify").status == 0
    librarian.get()
    few = count_statements(app, librarian.get)
    add(range(4, 60))
    assert len(count_statements(app, librarian.get)) == len(few) <= 14
    assert "The first 20 of" in librarian.get()


# --- the form ------------------------------------------------------------------------------------


def test_an_item_is_withdrawn_with_a_reason(
    archive: Archive, librarian: Librarian, thesis: str
) -> None:
    successor = archive.deposit(title="Rain, corrected")
    response = librarian.send(f"?withdraw={thesis}", reason=" ")
    assert response.status_code == 422
    assert "Fill in this field." in response.text
    response = librarian.send(f"?withdraw={thesis}", reason="An error.", successor="no identifier")
    assert response.status_code == 422
    assert 'id="successor-fault"' in response.text
    assert "An error.</textarea>" in response.text
    fields = {"reason": "An error.", "successor": successor.ibi, "citation": ""}
    assert librarian.send(f"?withdraw={thesis}", **fields).status_code == 303
    librarian.send(f"?withdraw={successor.ibi}", reason="The law.", discard_description="1")
    old, new = record_of(archive, thesis), record_of(archive, successor)
    assert old.tombstone == Tombstone("An error.", successor=successor.ibi)
    assert (old.metadata is None, new.metadata is None) == (False, True)
    # items that have no form say why
    assert "This item was removed" in librarian.get(f"?withdraw={thesis}", 410)
    for text in (rep(9), "x", archive.served().service_ibi):
        assert "No item of this Archive" in librarian.get(f"?withdraw={text}", 404)


def test_a_form_without_the_token_of_the_session_changes_nothing(
    app: Flask, librarian: Librarian, thesis: str
) -> None:
    path = f"?withdraw={thesis}"
    other = read_fields(Librarian(app.test_client()).get(path))["ibi_token"]
    for token in ("", "é", other):
        response = librarian.send(path, ibi_token=token, reason="An error.")
        assert response.status_code == 422
        assert "Send it again." in response.text
    # the form that comes back has a new token
    again = {**read_fields(response.text), "reason": "An error."}
    assert librarian.client.post(f"/care{path}", data=again).status_code == 303


def test_the_token_of_the_extension_of_the_host_is_in_the_forms(
    app: Flask, librarian: Librarian, thesis: str
) -> None:
    CSRFProtect(app)
    path = f"?withdraw={thesis}"
    assert librarian.send(path, csrf_token="", reason="None.").status_code == 400
    assert librarian.send(path, reason="None.").status_code == 303


def test_the_view_of_the_guide_shows_the_page_to_librarians_only(app: Flask) -> None:
    user = SimpleNamespace(is_librarian=False)

    def login_required(view: Callable[..., Any]) -> Callable[..., Any]:
        return view

    [view] = [each.text for each in blocks("howto/librarian.rst") if "admin_page" in each.text][:1]
    names = {"app": app, "ibi": IBIArchive(), "abort": abort, "current_user": user}
    exec(view, {**names, "login_required": login_required})
    client = app.test_client()
    assert client.get("/admin/ibi").status_code == 403
    user.is_librarian = True
    assert "Care of the Archive" in client.get("/admin/ibi").text
    assert client.post("/admin/ibi").status_code == 200


# --- descriptions --------------------------------------------------------------------------------


def test_a_thesis_is_deposited_with_its_files_in_one_form(
    archive: Archive, librarian: Librarian
) -> None:
    page = librarian.get("?new=doctoral+thesis")
    first = " ".join(re.findall(r'name="(\w+)"', page.partition("<details")[0]))
    assert "type title subtitle creators institution programme" in first
    fields = {
        "title": "Chuva na Amazônia",
        "creators": "Silva, Ana (0000-0002-1825-0097)\r\nSouza, Davi",
        "institution": "INPE",
        "defended": "05/03/2019",
        "advisors": "Costa, Eva",
        "subjects": "chuva\r\nnuvens",
        "abstract(en)": "On rain.",
        "language": "Português",
        "embargo": "5/3/2030",
        "place": "São José dos Campos",
        "publisher": "INPE",
        "files": [(BytesIO(b"%PDF"), "tese.pdf"), (BytesIO(b"1"), "dados.csv")],
    }
    response = librarian.send("?new=doctoral+thesis", **fields)
    assert response.status_code == 303, re.findall("fault.*", response.text)
    assert "The item was saved" in librarian.get(response.location.removeprefix("/care"))
    [item] = archive.find("chuva")
    work = format_record(item.record)["metadata"]["work"]
    ana = {"name": "Silva, Ana", "orcid": "0000-0002-1825-0097"}
    assert work["creators"] == [ana, "Souza, Davi"]
    assert work["type"] == "doctoral thesis"
    assert work["degree"] == {"institution": "INPE", "defended": "2019-03-05"}
    assert work["contributors"] == [{"name": "Costa, Eva", "role": "advisor"}]
    assert work["abstracts"] == [{"value": "On rain.", "lang": "en"}]
    assert (item.record.language, str(item.record.embargo)) == ("pt", "2030-03-05")
    assert [file.path for file in item.record.files] == ["tese.pdf", "dados.csv"]


def test_wrong_fields_are_named_and_nothing_is_stored(
    archive: Archive, librarian: Librarian
) -> None:
    for fields, name in (
        ({}, "title"),
        ({"title": "Rain", "issued": "31/02/2019"}, "issued"),
        ({"title": "Rain", "creators": "Silva, Ana (0000-0002-1825-0098)"}, "creators"),
        ({"title": "Rain", "advisors": "?"}, "advisors"),
        ({"title": "Rain", "doi": "x", "ibi_token": ""}, ""),
    ):
        response = librarian.send("?new=article", **fields)
        assert response.status_code == 422, fields
        assert re.findall(r'id="([^"]+)-fault"', response.text) == ([name] if name else []), name
        assert f'value="{fields.get("title", "")}"' in response.text
    assert list(archive.find()) == []
    response = librarian.send("?new=article&lang=pt", title="Rain", issued="31/02/2019")
    assert "não é uma data como" in response.text
    # another type shows its fields, and what was written remains
    response = librarian.send("?new=article", title="Rain", type="book", show="1")
    assert 'value="Rain"' in response.text
    assert response.text.index('name="isbn"') < response.text.index("<details")


#: A description with parts for which there are no fields.
RICH = {
    "titles": [
        "Rain",
        {"value": "Chuva", "lang": "pt", "kind": "translated"},
        {"value": "R", "kind": "other"},
    ],
    "creators": [
        {"name": "Silva, Ana", "affiliations": ["INPE"], "lattes": "1234567890123456"},
        {"name": "INPE", "kind": "organisation"},
    ],
    "contributors": [
        {"name": "Costa, Eva", "role": "researcher"},
        {"name": "Lima, Ivo", "role": "advisor"},
    ],
    "type": "tese de doutorado",
    "publisher": "São José dos Campos: INPE",
    "issued": "c. 2019",
    "dates": {"accepted": "2019-01-01", "submitted": "2018"},
    "degree": {
        "name": "Doutorado",
        "institution": {"name": "INPE", "ror": "https://ror.org/04xbn6x09"},
    },
    "abstracts": ["One.\n\nTwo.", {"value": "Um.", "lang": "pt"}],
    "subjects": [{"value": "rain", "scheme": "LCSH"}],
    "notes": ["First.", "Second."],
    "related": [{"identifier": "doi:10.1000/182", "relation": "Cites"}, "10.1000/183"],
    "funding": [{"funder": "CNPq", "programme": "PQ"}, {"funder": "Fapesp", "number": "1"}],
}


def test_an_edit_keeps_what_the_form_does_not_change(
    archive: Archive, librarian: Librarian
) -> None:
    ibi = archive.deposit(metadata={"work": RICH}, same_as=["doi:10.1000/1"]).ibi
    before = fields_of(archive, ibi)
    assert librarian.send(f"?edit={ibi}").status_code == 303
    assert fields_of(archive, ibi) == before
    fields = {
        "creators": "INPE\nSilva, Ana\nSouza, Davi",
        "advisors": "",
        "subjects": "rain\nice",
        "notes~1": "",
        "submitted": "01/2018",
        "grants": "\n2",
        "place": "Cachoeira Paulista",
        "publisher": "INPE",
        "same_as": "hdl:20.500.12345/678",
        "translated_title(pt)": "A chuva",
    }
    notes = [name for name in read_fields(librarian.get(f"?edit={ibi}")) if "notes" in name]
    fields[notes[1]] = fields.pop("notes~1")
    assert librarian.send(f"?edit={ibi}", **fields).status_code == 303
    after = fields_of(archive, ibi)
    chuva = {"value": "A chuva", "lang": "pt", "kind": "translated"}
    expected = RICH | {
        "titles": ["Rain", chuva, {"value": "R", "kind": "other"}],
        "creators": [RICH["creators"][1], RICH["creators"][0], "Souza, Davi"],
        "contributors": RICH["contributors"][:1],
        "subjects": [*RICH["subjects"], "ice"],
        "notes": ["First."],
        "dates": {"accepted": "2019-01-01", "submitted": "2018-01"},
        "funding": [RICH["funding"][0], {"funder": "Fapesp", "number": "2"}],
        "place": "Cachoeira Paulista",
        "publisher": "INPE",
    }
    work = after["metadata"]["work"]
    assert {name: work[name] for name in expected} == {**expected, "related": work["related"]}
    assert after["same_as"] == ["doi:10.1000/1", "hdl:20.500.12345/678"]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("SILVA, Ana Maria", {"affiliations": ["INPE"], "lattes": "1234567890123456"}),
        ("Silva, Antonio", {"affiliations": ["USP"]}),
        ("Souza, A. (0000-0002-1825-0097)", {"affiliations": ["USP"]}),
        ("Silva, A.", {}),  # it may be either person
        ("Souza, Ana", {}),
    ],
)
def test_a_person_whose_name_is_written_otherwise_keeps_what_the_line_does_not_show(
    archive: Archive, librarian: Librarian, line: str, kept: dict[str, Any]
) -> None:
    creators = [
        {"name": "Silva, Ana", "affiliations": ["INPE"], "lattes": "1234567890123456"},
        {"name": "Silva, Antonio", "affiliations": ["USP"], "orcid": "0000-0002-1825-0097"},
    ]
    ibi = archive.deposit(title="Rain", creators=creators).ibi
    assert librarian.send(f"?edit={ibi}", creators=line).status_code == 303
    [creator] = fields_of(archive, ibi)["metadata"]["work"]["creators"]
    name, _, orcid = line.partition(" (")
    named = {"name": name, **kept, **({"orcid": orcid[:-1]} if orcid else {})}
    assert creator == (named if len(named) > 1 else name)


def fields_of(archive: Archive, ibi: str) -> dict[str, Any]:
    """Return the JSON of the record of an item without its timestamp."""
    return format_record(replace(record_of(archive, ibi), timestamp=None))


def test_the_form_fits_dublin_core_and_refuses_what_would_be_lost(
    archive: Archive, librarian: Librarian
) -> None:
    plain = archive.deposit(title="Rain", creators=["Silva, Ana"]).ibi
    assert librarian.send(f"?edit={plain}", title="Fog").status_code == 303
    dc = {"title": ["Fog"], "creator": ["Silva, Ana"]}
    assert fields_of(archive, plain)["metadata"] == {"dc": dc}
    assert librarian.send(f"?edit={plain}", issued="2019").status_code == 303
    assert fields_of(archive, plain)["metadata"]["work"]["issued"] == "2019"


def test_a_form_that_was_open_while_the_item_changed_is_refused(
    app: Flask, archive: Archive, librarian: Librarian, thesis: str
) -> None:
    data = read_fields(librarian.get(f"?edit={thesis}"))
    archive.clock = lambda: datetime.now(timezone.utc) + timedelta(seconds=5)
    archive.edit(thesis, title="Rain")
    response = librarian.client.post(f"/care?edit={thesis}", data=data | {"title": "Fog"})
    assert response.status_code == 422
    assert "changed in the meantime" in response.text
    assert archive.get(thesis).title == "Rain"  # type: ignore[union-attr]


# --- files ---------------------------------------------------------------------------------------


def test_files_are_added_replaced_and_removed(archive: Archive, librarian: Librarian) -> None:
    files = [("a.pdf", BytesIO(b"1")), ("b.csv", BytesIO(b"2")), ("c.txt", BytesIO(b"3"))]
    ibi = archive.deposit(title="Rain", files=files).ibi
    assert f"files={ibi}" in librarian.section("Items")
    uploads = [(BytesIO(b"new"), "a.pdf"), (BytesIO(b"4"), "d.png")]
    response = librarian.send(f"?files={ibi}", files=uploads, remove=["c.txt"])
    assert response.status_code == 303
    record = record_of(archive, ibi)
    contents = {file.path: Path(str(file.source)).read_bytes() for file in record.files}
    assert contents == {"a.pdf": b"new", "b.csv": b"2", "d.png": b"4"}
    assert record.target_path == "a.pdf"
    assert librarian.send(f"?files={ibi}", target="d.png", remove=["a.pdf"]).status_code == 303
    assert record_of(archive, ibi).target_path == "d.png"
    wrong = [(BytesIO(b"5"), "x.csv"), (BytesIO(b"6"), "x.csv")]
    response = librarian.send(f"?files={ibi}", files=wrong)
    assert response.status_code == 422
    assert "two files are named x.csv" in response.text


# --- spreadsheets --------------------------------------------------------------------------------


TABLE = (
    "título;autor;data da defesa;instituição;arquivo\nChuva;Silva, Ana;05/03/2019;INPE;tese.pdf\n"
)


def upload(text: str = TABLE, name: str = "teses.csv") -> dict[str, Any]:
    """Return the fields of a form with a spreadsheet and a file that it names."""
    file = BytesIO(text.encode()), name
    return {"table": file, "files": [(BytesIO(b"%PDF"), "tese.pdf")]}


def test_a_spreadsheet_is_checked_first_and_imported_with_a_second_button(
    archive: Archive, librarian: Librarian
) -> None:
    response = librarian.send("?import=1", **upload())
    assert response.status_code == 200
    assert "<dd>1</dd>" in response.text
    assert "Nothing was imported yet." in response.text
    assert list(archive.find()) == []
    second = read_fields(unescape(response.text)) | {"import": "1"}
    # the upload of another user, and a wrong one, are not imported
    for wrong in (second["upload"] + "x", ""):
        form = second | {"upload": wrong}
        assert librarian.client.post("/care?import=1", data=form).status_code == 422
    assert librarian.client.post("/care?import=1", data=second).status_code == 303
    [item] = archive.find()
    work = format_record(item.record)["metadata"]["work"]
    assert work["degree"] == {"institution": "INPE", "defended": "2019-03-05"}
    assert [file.path for file in item.record.files] == ["tese.pdf"]
    # the upload is deleted, and its rows are known
    assert archive.files_folder.find_stale_stagings(time.time() + 1) == []
    assert librarian.client.post("/care?import=1", data=second).status_code == 422
    assert "<dd>1</dd>\n</dl>" in librarian.send("?import=1", **upload()).text


def test_the_report_names_rows_and_columns(archive: Archive, librarian: Librarian) -> None:
    response = librarian.send("?import=1", **upload(f"{TABLE};Souza, Davi;x;INPE;\n"))
    assert "1 error. Nothing was imported." in response.text
    assert "<strong>row 3, data da defesa</strong>" in response.text
    assert 'name="upload"' not in response.text
    # a wrong secondary value is left out with a warning
    response = librarian.send("?import=1", **upload(TABLE.replace("instituição", "issn")))
    assert "<strong>row 2, issn</strong>" in response.text
    response = librarian.send("?import=1&lang=pt", **upload(TABLE.replace("instituição", "issn")))
    assert "<strong>linha 2, issn</strong>: &#39;INPE&#39; não é um ISSN como" in response.text
    assert 'name="upload"' in response.text
    names = ("x.ods", "..", "\x00.csv", f"{'x' * 300}.csv")
    unread = [upload(TABLE, name) for name in names]
    for wrong in ({}, *unread, {**upload(), "ibi_token": ""}):
        assert librarian.send("?import=1", **wrong).status_code == 422
    assert list(archive.find()) == []


def test_unknown_columns_get_a_field_or_are_left_out(
    archive: Archive, librarian: Librarian
) -> None:
    table = TABLE.replace("título", "Obra").replace("instituição", "x")
    page = librarian.send("?import=1", **upload(table)).text
    assert "the column is unknown" in page
    assert re.findall('name="column" value="([^"]+)"', page) == ["Obra", "x"]
    assert 'name="import"' not in page
    form = {**read_fields(unescape(page)), "column": ["Obra", "x"], "field": ["title", ""]}
    page = librarian.client.post("/care?import=1", data=form).text
    assert '<option value="title" selected>Title</option>' in page
    assert list(archive.find()) == []
    form |= {"import": "1"}
    assert librarian.client.post("/care?import=1", data=form).status_code == 303
    assert [item.title for item in archive.find()] == ["Chuva"]


# --- checks --------------------------------------------------------------------------------------


def test_files_are_checked_now_unless_they_are_too_many(
    archive: Archive, librarian: Librarian, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        ibi = archive.deposit(title="Rain", files=[(f"{name}.csv", BytesIO(name.encode()))]).ibi
    assert "Send it again." in librarian.send("", check_files="0", ibi_token="").text
    assert "have not been checked" in librarian.section("Damaged files")
    assert librarian.send("", check_files="0").status_code == 303
    assert "0 files are damaged." in librarian.section("Damaged files")
    Path(str(record_of(archive, ibi).files[0].source)).unlink()
    monkeypatch.setattr(module, "CHECK_SECONDS", -1)
    response = librarian.send("", check_files="0")
    page = librarian.section("Damaged files", response.location.removeprefix("/care"))
    assert "too many to check" in page
    assert "0 files are damaged." in page
    monkeypatch.setattr(module, "CHECK_SECONDS", 60)
    librarian.send("", check_files="0")
    assert "b.csv" in librarian.section("Damaged files")


def test_links_are_checked_now_in_parts(
    archive: Archive, librarian: Librarian, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECKED_LINKS", 2)
    urls = [f"http://127.0.0.1:1/{number}.pdf" for number in range(3)]
    files = [FileRecord(f"{number}.pdf", url) for number, url in enumerate(urls)]
    ibi = archive.deposit(title="Rain", files=files).ibi
    page = librarian.send("", check_links="0").text
    assert [url in page for url in urls] == [True, True, False]
    assert "2 of 3 links were checked." in page
    form = read_fields(unescape(page)) | {"check_links": "2"}
    page = librarian.client.post("/care", data=form).text
    assert [url in page for url in urls] == [False, False, True]
    assert f"files={archive.get(ibi).rep}" in page  # type: ignore[union-attr]
    assert "Check the next links" not in page
