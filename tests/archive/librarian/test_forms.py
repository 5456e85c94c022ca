"""The forms of the librarian: they edit and withdraw items without a row of the host."""

from __future__ import annotations

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from flask import Flask
from flask_wtf import CSRFProtect
from itsdangerous import URLSafeTimedSerializer
from support.archives import import_records
from support.cases import for_each
from support.librarians import Librarian, read_fields
from support.web import rep

from flask_ibi_archive import Archive
from flask_ibi_archive.core.records.fields import format_record

WORK: dict[str, Any] = {
    "titles": [
        {"value": "Ice clouds over the Amazon basin", "lang": "en"},
        {"value": "Nuvens de gelo sobre a bacia amazônica", "lang": "pt", "kind": "translated"},
    ],
    "creators": [
        {
            "name": "Silva, Ana",
            "kind": "person",
            "orcid": "0000-0002-1825-0097",
            "affiliations": [{"name": "Vale University", "ror": "https://ror.org/04xbn6x09"}],
        }
    ],
    "contributors": [
        {"name": "Souza, Davi", "role": "advisor"},
        {"name": "Costa, Rui", "role": "committee member", "affiliations": ["Serra University"]},
        {"name": "Vale Observatory", "kind": "organisation", "role": "sponsor"},
    ],
    "type": "doctoral thesis",
    "publisher": "Vale University",
    "issued": "2025-03-14",
    "dates": {"accepted": "2025-02-01"},
    "degree": {
        "name": "Doctorate in Remote Sensing",
        "level": "doctoral",
        "programme": "Remote Sensing",
        "institution": {"name": "Vale University", "ror": "https://ror.org/04xbn6x09"},
        "defended": "2025-01-20",
    },
    "container": {"title": "Journal of Clouds", "volume": "3", "pages": "7-18"},
    "abstracts": [{"value": "Twelve years.\n\nOf lidar.", "lang": "en"}],
    "subjects": [{"value": "lidar", "lang": "en", "scheme": "LCSH"}, "cirrus"],
    "licence": "CC-BY-4.0",
    "access_right": "open",
    "extent": "171 p.",
    "related": [{"identifier": "doi:10.1000/182", "relation": "IsSupplementedBy"}],
    "funding": [{"funder": "Vale Foundation", "number": "2024/123"}],
}


def work_of(archive: Archive, ibi: str) -> Any:
    """Return the metadata of an item in JSON."""
    item = archive.get(ibi)
    assert item is not None
    return format_record(item.record)["metadata"]


@pytest.fixture
def thesis(archive: Archive) -> str:
    """The identifier of an item with a complete description."""
    return str(archive.deposit(metadata={"work": WORK}, language="en").ibi)


def test_a_form_that_is_sent_unchanged_changes_no_value(
    archive: Archive, librarian: Librarian, thesis: str
) -> None:
    before = work_of(archive, thesis)
    response = librarian.send(f"?edit={thesis}")
    assert response.status_code == 303
    assert work_of(archive, thesis) == before
    assert "The item was changed:" in librarian.client.get(response.location).text


@for_each(
    ("field", "typed", "name", "value"),
    [
        ("titles", "Rain", "titles", ["Rain"]),
        ("titles", "Rain [en]\nChuva [pt]", "titles", ["Rain", "Chuva"]),
        (
            "creators",
            "Costa, Rui; 1234567890123456; Vale University",
            "creators",
            [
                {
                    "name": "Costa, Rui",
                    "lattes": "1234567890123456",
                    "affiliations": ["Vale University"],
                }
            ],
        ),
        ("contributors.advisor", "", "contributors", ["Costa, Rui", "Vale Observatory"]),
        ("type", "report", "type", "report"),
        ("degree.defended", "2025", "degree", {**WORK["degree"], "defended": "2025"}),
        (
            "container.title",
            "Cloud Letters",
            "container",
            {**WORK["container"], "title": "Cloud Letters"},
        ),
        ("subjects", "cirrus", "subjects", ["cirrus"]),
        ("issued", "2024", "issued", "2024"),
        ("licence", "MIT", "licence", "MIT"),
        ("funding", "", "funding", None),
    ],
)
def test_a_changed_field_is_stored_and_the_others_stay(
    archive: Archive, librarian: Librarian, field: str, typed: str, name: str, value: Any
) -> None:
    thesis = str(archive.deposit(metadata={"work": WORK}, language="en").ibi)
    before = work_of(archive, thesis)["work"]
    assert librarian.send(f"?edit={thesis}", **{field: typed}).status_code == 303
    after = work_of(archive, thesis)["work"]
    found = after.get(name)
    if name in ("titles", "contributors"):
        found = [
            one if isinstance(one, str) else one.get("value", one.get("name")) for one in found
        ]
    assert found == value
    assert {**after, name: 0} == {**before, name: 0}


@for_each(
    ("field", "typed", "message"),
    [
        ("titles", "", "Fill in this field."),
        ("creators", "Silva, Ana; 0000-0002-1825-0098", "0000-0002-1825-0098"),
        ("contributors.committee", "A, B; 0000-0000", "0000-0000"),
        ("contributors", "painter: Silva, Ana", "painter"),
        ("issued", "yesterday", "yesterday"),
        ("degree.defended", "31/12/2024", "31/12/2024"),
        ("licence", "free", "free"),
        ("related", "nothing at all", "nothing at all"),
        ("dates", "sometime: 2024", "the known fields are accepted"),
        ("item.language", "Klingon", "Klingon"),
        ("item.embargo", "soon", "soon"),
        ("item.same_as", "doi:none", "doi:none"),
    ],
)
def test_an_error_is_beside_its_field_and_every_field_keeps_what_was_typed(
    archive: Archive, librarian: Librarian, field: str, typed: str, message: str
) -> None:
    thesis = str(archive.deposit(metadata={"work": WORK}, language="en").ibi)
    before = work_of(archive, thesis)
    sent = {field: typed, "publisher": "A new publisher"}
    response = librarian.send(f"?edit={thesis}", **sent)
    assert response.status_code == 422
    page = unescape(response.text)
    fault = page.partition(f'id="{field}-fault">')[2].partition("</div>")[0]
    assert message in fault
    assert f'<a href="#{field}">' in page
    kept = read_fields(response.text)
    for name, value in sent.items():
        assert "".join(map(unescape, kept[name])) == value
    assert work_of(archive, thesis) == before


def test_texts_in_further_languages_are_added(
    archive: Archive, librarian: Librarian, thesis: str
) -> None:
    texts = {"abstracts": ["Doze anos.", "Twelve years.", ""], "abstracts.lang": ["pt", "en", ""]}
    librarian.send(f"?edit={thesis}", **texts)
    assert work_of(archive, thesis)["work"]["abstracts"] == [
        {"value": "Doze anos.", "lang": "pt"},
        {"value": "Twelve years.", "lang": "en"},
    ]


def test_dublin_core_that_a_description_would_lose_is_edited_as_dublin_core(
    archive: Archive, librarian: Librarian
) -> None:
    dc = {
        "title": [{"value": "Chuva", "lang": "pt"}],
        "format": ["text/csv"],
        "description": ["One\nTwo"],
    }
    import_records(archive, [{"rep": rep(1), "metadata": {"dc": dc}}])
    page = f"?edit={rep(1)}"
    assert librarian.send(page).status_code == 303
    assert work_of(archive, rep(1)) == {"dc": dc}
    librarian.send(page, title="Chuva [pt]\nRain", format="")
    changed = {"title": [*dc["title"], "Rain"], "description": ["One\nTwo"]}
    assert work_of(archive, rep(1)) == {"dc": changed}


def test_dublin_core_that_a_description_states_gets_all_fields(
    archive: Archive, librarian: Librarian
) -> None:
    dc = {"title": ["Rain"], "creator": ["Silva, Ana"]}
    import_records(archive, [{"rep": rep(1), "metadata": {"dc": dc}}])
    librarian.send(f"?edit={rep(1)}", creators="Silva, Ana; 0000-0002-1825-0097")
    assert work_of(archive, rep(1))["work"] == {
        "titles": ["Rain"],
        "creators": [{"name": "Silva, Ana", "orcid": "0000-0002-1825-0097"}],
    }


def test_the_fields_of_the_item_are_stored(
    archive: Archive, librarian: Librarian, thesis: str
) -> None:
    day = (archive.today + timedelta(days=9)).isoformat()
    fields = {"item.language": "pt", "item.embargo": day, "item.same_as": "hdl:1234/5"}
    assert librarian.send(f"?edit={thesis}", **fields).status_code == 303
    item = archive.get(thesis)
    assert item is not None
    assert (item.record.language, str(item.record.embargo)) == ("pt", day)
    assert item.record.same_as == ("hdl:1234/5",)
    librarian.send(f"?edit={thesis}", **dict.fromkeys(fields, ""))
    item = archive.get(thesis)
    assert item is not None
    assert (item.record.language, item.record.embargo, item.record.same_as) == (None, None, ())


def test_a_change_by_another_person_is_not_overwritten_unseen(
    archive: Archive, librarian: Librarian, thesis: str
) -> None:
    form = read_fields(librarian.get(f"?edit={thesis}"))
    form["ibi_version"] = "2020-01-01T00:00:00Z"
    response = librarian.client.post(f"/care?edit={thesis}", data={**form, "publisher": "Mine"})
    assert response.status_code == 422
    assert "was changed while the form was open" in response.text
    again = read_fields(response.text)
    assert again["publisher"] == ["Mine"]
    assert librarian.client.post(f"/care?edit={thesis}", data=again).status_code == 303
    assert work_of(archive, thesis)["work"]["publisher"] == "Mine"


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
    item = archive.get(thesis)
    assert item is not None
    assert item.record.tombstone is not None
    assert item.record.tombstone.reason == "An error."
    assert item.record.tombstone.successor == successor.ibi
    assert item.description is not None


def test_the_description_is_deleted_if_the_librarian_says_so(
    archive: Archive, librarian: Librarian, thesis: str
) -> None:
    librarian.send(f"?withdraw={thesis}", reason="The law.", discard_description="1")
    item = archive.get(thesis)
    assert item is not None
    assert item.record.metadata is None


@pytest.mark.parametrize("action", ["edit", "withdraw"])
def test_items_that_have_no_form_say_why(
    archive: Archive, librarian: Librarian, thesis: str, action: str
) -> None:
    archive.delete(thesis, "An error.")
    assert "This item was removed" in librarian.get(f"?{action}={thesis}", 409)
    assert "No item of this Archive" in librarian.get(f"?{action}={rep(9)}", 404)
    assert "No item of this Archive" in librarian.get(f"?{action}=x", 404)
    service = archive.served().service_ibi
    assert "No item of this Archive" in librarian.get(f"?{action}={service}", 404)


# --- requests of other sites


def _sign(archive: Archive, number: str) -> str:
    keys = list(archive.config.secret_keys)
    return str(URLSafeTimedSerializer(keys, salt="ibi_form").dumps(number))


@pytest.mark.parametrize("action", ["edit", "withdraw"])
@pytest.mark.parametrize("kind", ["none", "invented", "of another session", "signed for nobody"])
def test_a_form_without_the_token_of_the_session_changes_nothing(
    app: Flask, archive: Archive, librarian: Librarian, thesis: str, action: str, kind: str
) -> None:
    form = read_fields(librarian.get(f"?{action}={thesis}"))
    other = read_fields(Librarian(app.test_client()).get(f"?{action}={thesis}"))
    token = {
        "none": "",
        "invented": "x",
        "of another session": other["ibi_token"][0],
        "signed for nobody": _sign(archive, "x"),
    }[kind]
    data = {**form, "ibi_token": token, "reason": "An error.", "publisher": "Evil"}
    response = librarian.client.post(f"/care?{action}={thesis}", data=data)
    assert response.status_code == 422
    assert "Send it again." in response.text
    item = archive.get(thesis)
    assert item is not None
    assert item.record.state == "Original"
    assert work_of(archive, thesis)["work"]["publisher"] == "Vale University"
    # the form that comes back has a new token
    again = read_fields(response.text)
    assert librarian.client.post(f"/care?{action}={thesis}", data=again).status_code == 303


def test_the_token_of_the_extension_of_the_host_is_in_the_forms(
    app: Flask, librarian: Librarian, thesis: str
) -> None:
    CSRFProtect(app)
    form = read_fields(librarian.get(f"?withdraw={thesis}"))
    path = f"/care?withdraw={thesis}"
    without = {name: value for name, value in form.items() if name != "csrf_token"}
    assert librarian.client.post(path, data={**without, "reason": "None."}).status_code == 400
    assert librarian.client.post(path, data={**form, "reason": "None."}).status_code == 303
