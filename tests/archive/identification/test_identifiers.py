"""Programs get identifiers, reserve them, and deposit, update and withdraw items."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of
from support.vectors import load

from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier
from flask_ibi_archive.core.records.description import WORK_FIELDS
from flask_ibi_archive.core.records.record import FIELDS

from .conftest import Program

RECORD: dict[str, Any] = {
    "language": "pt",
    "metadata": {"dc": {"title": ["On rain"], "creator": ["Silva, Ana"]}},
    "files": [{"path": "rain.pdf", "url": "https://files.example.org/rain.pdf"}],
}


def new(program: Program, json: Any = None, **headers: str) -> dict[str, str]:
    """Return the identifier that a request issues."""
    answer = program("POST", json=json, **headers)
    assert answer.status_code == 201, answer.text
    [identifier] = answer.json["identifiers"]
    assert answer.headers["Location"].endswith(f"/ibi/identifiers/{identifier['rep']}")
    return dict(identifier)


# --- issuing and reserving -----------------------------------------------------------------------


@pytest.mark.rule("G5-02")
def test_an_empty_request_issues_one_identifier_in_both_forms(program: Program) -> None:
    issued = new(program)
    rep, ibip = (decode_identifier(parse_identifier(issued[form])) for form in ("rep", "ibip"))
    assert (rep.host, rep.port) == ("mtc-m16c.sid.inpe.br", 80)
    assert (ibip.ip, ibip.port) == ("150.163.34.243", 800)
    assert rep.date == ibip.date
    assert issued["persistent_url"] == f"http://urlib.net/{issued['ibip']}"
    assert program("GET", f"/{issued['rep']}").json["status"] == "issued"
    refused = program("PUT", f"/{issued['rep']}", {"record": RECORD})
    assert refused.status_code == 409
    assert "only a reserved identifier" in refused.json["detail"]


def test_a_reserved_identifier_is_deposited_later_or_released(
    program: Program, served_app: Flask
) -> None:
    reserved = new(program, {"reserve": True, "note": "thesis of Ana Silva"})
    assert program("GET", f"/{reserved['ibip']}").json["status"] == "held"
    answer = program("PUT", f"/{reserved['ibip']}", {"record": RECORD})
    assert (answer.status_code, answer.json["status"]) == (201, "Original")
    item = archive_of(served_app).get(reserved["rep"])
    assert item is not None
    assert item.title == "On rain"
    [reservation] = archive_of(served_app).reservations()
    assert (reservation.note, reservation.status) == ("thesis of Ana Silva", "used")
    # or released
    released = new(program, {"reserve": True})
    for _ in range(2):
        assert program("DELETE", f"/{released['rep']}").json["status"] == "released"
    assert program("PUT", f"/{released['rep']}", {"record": RECORD}).status_code == 409


# --- items ---------------------------------------------------------------------------------------


def test_an_item_is_deposited_shown_updated_and_withdrawn(
    program: Program, served_app: Flask
) -> None:
    path = f"/{new(program, {'record': RECORD})['ibip']}"
    shown = program("GET", path).json
    assert shown["status"] == "Original"
    stated = {name: value for name, value in shown["record"].items() if name in RECORD}
    assert stated == RECORD
    changed = {**shown["record"], "language": "en", "embargo": "2030-01-01"}
    updated = program("PUT", path, {"record": changed})
    assert updated.status_code == 200
    assert (updated.json["record"]["language"], updated.json["record"]["embargo"]) == (
        "en",
        "2030-01-01",
    )
    # what the record of an update omits gets its default
    updated = program("PUT", path, {"record": {"files": RECORD["files"]}})
    assert updated.json["record"].keys() == {"rep", "ibip", "timestamp", "files"}
    assert program("DELETE", path).json["field"] == "reason"
    successor = new(program, {"record": RECORD})["rep"]
    withdrawn = program("DELETE", f"{path}?reason=Retracted&successor={successor}")
    assert withdrawn.json["record"]["tombstone"] == {"reason": "Retracted", "successor": successor}
    assert program("DELETE", f"{path}?reason=Again").status_code == 200
    refused = program("PUT", path, {"record": withdrawn.json["record"]})
    assert (refused.status_code, refused.json["field"]) == (422, "record.state")
    page = served_app.test_client().get(f"/col{path}/", follow_redirects=True)
    assert page.status_code == 410
    assert "Retracted" in page.text


def test_an_update_keeps_the_files_of_the_archive(
    new_program: Callable[..., Program], served_app: Flask
) -> None:
    item = archive_of(served_app).deposit(title="On rain", files=[("a.txt", BytesIO(b"rain"))])
    program = new_program(may="deposit,all")
    shown = program("GET", f"/{item.ibi}").json["record"]
    assert shown["files"] == [{"path": "a.txt", "sha256": shown["files"][0]["sha256"]}]
    answer = program("PUT", f"/{item.ibi}", {"record": {**shown, "language": "en"}})
    assert answer.status_code == 200, answer.text
    shown = program("GET", f"/{item.ibi}").json["record"]  # with the timestamp of the update
    wrong = {**shown, "files": [{"path": "b.txt"}]}
    refused = program("PUT", f"/{item.ibi}", {"record": wrong})
    assert (refused.status_code, refused.json["field"]) == (422, "record.files[0].url")


def test_a_wrong_field_is_named_and_nothing_is_stored(program: Program, served_app: Flask) -> None:
    for json, field in load("identification.json"):
        answer = program("POST", json=json)
        assert (answer.status_code, answer.mimetype) == (422, "application/problem+json")
        assert (answer.json["title"], answer.json["field"]) == ("Unprocessable Entity", field)
    assert list(archive_of(served_app).find()) == []
    assert program("GET").json["identifiers"] == []


def test_a_body_that_is_no_json_is_refused(program: Program) -> None:
    for body, content_type, status in (
        (b"{", "application/json", 400),
        (b"count=1", "application/x-www-form-urlencoded", 415),
        (b" " * (1 << 20) + b"{}", "application/json", 413),
        (b'{"record": ' + b"[" * 101 + b"]" * 101 + b"}", "application/json", 400),
        (rb'{"note": "\ud800"}', "application/json", 400),
    ):
        headers = {"Authorization": f"Bearer {program.key}", "Content-Type": content_type}
        answer = program.client.post("/ibi/identifiers", data=body, headers=headers)
        assert (answer.status_code, answer.mimetype) == (status, "application/problem+json")


def test_a_rule_of_the_archive_is_named(
    new_program: Callable[..., Program], served_app: Flask
) -> None:
    program = new_program(may="deposit,all")
    path = f"/{new(program, {'record': {**RECORD, 'aliases': ['83LX3pFwXQZeBBx/hwiTk']}})['ibip']}"
    refused = program("PUT", path, {"record": RECORD})
    assert refused.status_code == 409
    assert "identifiers are permanent" in refused.json["detail"]
    item = archive_of(served_app).deposit(title="On rain", key="thesis:3")
    for answer in (
        program("PUT", f"/{item.ibi}", {"record": RECORD}),
        program("DELETE", f"/{item.ibi}?reason=Wrong"),
    ):
        assert answer.status_code == 409
        assert "follows thesis:3 of the repository" in answer.json["detail"]


def test_a_list_is_read_in_parts(program: Program) -> None:
    program("POST", json={"count": 5})
    listed, path = [], "?limit=2"
    while path:
        part = program("GET", path).json
        listed += [each["rep"] for each in part["identifiers"]]
        path = part.get("next", "").partition("/ibi/identifiers")[2]
    assert len(listed) == len(set(listed)) == 5
    for query, field in (("limit=0", "limit"), ("after=x", "after"), ("limit=1&limit=2", "limit")):
        assert program("GET", f"?{query}").json["field"] == field
    refused = program("PATCH")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, POST")
    assert program("POST", "/8JMKD3MGP8W/35MME4E").headers["Allow"] == "GET, PUT, DELETE"


# --- the same request again ----------------------------------------------------------------------


def test_a_repeated_request_gets_the_first_answer(program: Program, served_app: Flask) -> None:
    for json in ({"count": 3}, {"reserve": True, "note": "x"}, {"record": RECORD}):
        key = next(iter(json))
        before = program("GET").json["identifiers"]
        first = program("POST", json=json, Idempotency_Key=f'"{key}"')
        again = program("POST", json=dict(reversed(json.items())), Idempotency_Key=key)
        assert (again.status_code, again.json) == (first.status_code, first.json)
        listed = [each["rep"] for each in program("GET").json["identifiers"][len(before) :]]
        assert listed == [each["rep"] for each in first.json["identifiers"]]
    assert len(list(archive_of(served_app).find())) == 1


def test_another_request_with_the_same_key_is_refused(new_program: Callable[..., Program]) -> None:
    program = new_program()
    assert program("POST", json={"note": "x"}, Idempotency_Key="a").status_code == 422
    first = program("POST", json={"record": RECORD}, Idempotency_Key="a")  # the corrected request
    assert first.status_code == 201
    refused = program("POST", json={"count": 2}, Idempotency_Key="a")
    assert (refused.status_code, refused.json["field"]) == (422, "Idempotency-Key")
    assert program("POST", Idempotency_Key="ç").status_code == 422
    other = new_program("dspace")("POST", json={"record": RECORD}, Idempotency_Key="a")
    assert other.json != first.json


# --- what a program may see ----------------------------------------------------------------------


def test_a_program_sees_and_changes_only_what_it_made(
    new_program: Callable[..., Program],
) -> None:
    mine, theirs = new_program("ojs"), new_program("dspace")
    path = f"/{new(mine, {'record': RECORD})['ibip']}"
    assert theirs("GET").json["identifiers"] == []
    for answer in (
        theirs("GET", path),
        theirs("PUT", path, {"record": RECORD}),
        theirs("DELETE", f"{path}?reason=Mine"),
        theirs("GET", "/8JMKD3MGP8W/35MME4E"),
        theirs("GET", "/nothing"),
    ):
        assert answer.status_code == 404
        assert answer.json["detail"] == "this program has requested no such identifier"
    assert mine("GET", path).json["status"] == "Original"


def test_a_program_gets_no_identifier_of_others_as_an_alias(
    new_program: Callable[..., Program],
) -> None:
    mine, theirs, all_items = (
        new_program(name, may)
        for name, may in (("ojs", "mint"), ("x", "deposit"), ("y", "deposit,all"))
    )
    reserved = new(mine, {"reserve": True})["rep"]
    record = {**RECORD, "aliases": [reserved]}
    for program, status in ((theirs, 422), (all_items, 409)):
        assert program("POST", json={"record": record}).status_code == status
    for alias in (new(mine)["ibip"], "8JMKD3MGP8W/35MME4E"):
        refused = theirs("POST", json={"record": {"aliases": [alias]}})
        assert (refused.status_code, refused.json["field"]) == (422, "record.aliases[0]")
    assert mine("GET", f"/{reserved}").json["status"] == "held"
    # an alias gives no right to an item
    issued = new(mine)["rep"]
    item = new(all_items, {"record": {**RECORD, "aliases": [issued]}})["rep"]
    for name in (item, issued):
        assert mine("DELETE", f"/{name}?reason=Mine").status_code == 404


def test_a_program_relates_its_items_to_no_identifier_of_others(
    new_program: Callable[..., Program], served_app: Flask
) -> None:
    mine, theirs = new_program("ojs"), new_program("dspace")

    def relate(field: str, ibi: str) -> dict[str, Any]:
        value = {"translations": {"en": ibi}, "metadata": {"ibi": ibi}}.get(field, ibi)
        return {"record": {"language": "pt", field: value}}

    released = new(theirs, {"reserve": True})
    theirs("DELETE", f"/{released['rep']}")
    kinds: tuple[Any, ...] = ({"record": {"language": "en"}}, {"reserve": True}, {"count": 1})
    draft = archive_of(served_app).reserve("a draft of the repository")
    others = [*(new(theirs, kind)["rep"] for kind in kinds), released["ibip"], draft.rep]
    everything = new_program("monitor", "deposit,all")
    for field in ("next_edition", "translations", "metadata"):
        for other in others:
            refused = mine("POST", json=relate(field, other))
            assert refused.status_code == 422, other
            assert refused.json["field"].split(".")[1] == field
            assert refused.json["detail"] == f"{other} belongs to others; the scope all allows it"
        for allowed in (new(mine, kinds[0])["ibip"], "sid.inpe.br/elsewhere/2001/01.01.00.00"):
            assert mine("POST", json=relate(field, allowed)).status_code == 201
        assert everything("POST", json=relate(field, draft.ibip)).status_code == 201


def test_an_update_of_an_older_record_is_refused(program: Program, served_app: Flask) -> None:
    archive = archive_of(served_app)
    path = f"/{new(program, {'record': RECORD})['ibip']}"
    read = program("GET", path).json["record"]
    now = archive.clock()
    archive.clock = lambda: now + timedelta(minutes=1)
    changed = {**read, "language": "en"}
    first, repeated = (program("PUT", path, {"record": changed}) for _ in range(2))
    assert (first.status_code, repeated.status_code) == (200, 200)
    assert repeated.json == first.json
    refused = program("PUT", path, {"record": {**read, "language": "es"}})
    assert refused.status_code == 409
    assert refused.json["detail"] == "the item has changed since it was read; read it again"


def test_a_key_for_all_sees_what_others_made(
    new_program: Callable[..., Program], served_app: Flask
) -> None:
    path = f"/{new(new_program('ojs'), {'record': RECORD})['ibip']}"
    item = archive_of(served_app).deposit(title="Deposited by the repository")
    program = new_program("monitor", "deposit,all")
    assert len(program("GET").json["identifiers"]) == 1
    assert program("GET", path).status_code == 200
    assert program("GET", f"/{item.ibi}").json["rep"] == item.rep
    assert program("DELETE", f"/{item.ibi}?reason=Wrong").json["status"] == "Deleted"
    assert program("GET", f"/{archive_of(served_app).served().service_ibi}").status_code == 404


def test_a_scope_allows_its_operations(new_program: Callable[..., Program]) -> None:
    for may, json, status in (
        ("mint", {"record": RECORD}, 403),
        ("deposit", {"record": RECORD}, 201),
        ("deposit", {"count": 1}, 403),
        ("all", None, 403),
    ):
        assert new_program(f"{may} {status}", may)("POST", json=json).status_code == status
    program = new_program(may="mint,all")
    path = f"/{new(program, {'reserve': True})['ibip']}"
    assert program("PUT", path, {"record": RECORD}).status_code == 403
    item = new(new_program("dspace"), {"record": RECORD})["rep"]
    assert program("DELETE", f"/{item}?reason=Wrong").status_code == 403
    assert program("DELETE", path).json["status"] == "released"


# --- the description of the interface ------------------------------------------------------------


def test_the_description_has_all_fields_of_a_record(
    served_app: Flask, new_app: Callable[..., Flask]
) -> None:
    described = served_app.test_client().get("/ibi/identifiers/openapi.json").json
    assert described is not None
    fields = described["components"]["schemas"]["Record"]["properties"]
    assert set(fields) == set(FIELDS)
    [work] = [one for one in fields["metadata"]["oneOf"] if "work" in one["properties"]]
    assert set(work["properties"]["work"]["properties"]) == set(WORK_FIELDS)
    # without the setting there is no server
    client = new_app().test_client()
    for path in ("", "/openapi.json"):
        assert client.get(f"/ibi/identifiers{path}").status_code == 404
