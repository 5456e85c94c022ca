"""The answers of the Archive service ([R] 4, 7)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from support.archives import SERVICE, archive_of, close, import_file, import_records, make_app
from support.vectors import FOLDER, load
from support.web import (
    GONE,
    INSIDE,
    NOBODY,
    REPORT,
    REPORT_ALIAS,
    REPORT_IBIP,
    SERVED_ELSEWHERE,
    SERVICE_PATH,
    Answer,
    ask,
    ask_service,
    ask_urls,
    query_of,
    without_key,
)

from flask_ibi_archive.archive.items.served_archives import create_archive

SUBJECT = ("servicesubject", "urlRequest")
USER = ("clientinformation.ipaddress", INSIDE)
IBI = ("parsedibiurl.ibi", REPORT)
NOTICE = b"notice {acknowledgment received}"
PAIR = re.compile(rb"[!-z|~]+ (?:[!-z|~]+|\{(?:[!-z|~]+(?: [!-z|~]+)*)?\})")


def check_form(answer: Answer) -> None:
    """Check the format that every answer of the service has."""
    assert answer.headers.getlist("Content-Type") == ["text/plain"]
    assert answer.headers.getlist("Cache-Control") == ["no-store"]
    assert answer.body.isascii()
    lines = answer.body.split(b"\r\n") if answer.body else []
    assert all(PAIR.fullmatch(line) for line in lines)
    names = [line.partition(b" ")[0] for line in lines]
    assert names == sorted(names)


def refused(answer: Answer, status: int = 400) -> str:
    """Return the alert of an answer that refuses a request."""
    assert answer.status == status
    check_form(answer)
    return answer.alert


@pytest.mark.rule("R5-10", "R72-06", "R72-15", "R72-16", "R72-02")
def test_each_subject_has_its_answer(web: Flask) -> None:
    # an inclusion confirmation request is confirmed
    answer = ask_service(web, ("servicesubject", "inclusionConfirmationRequest"))
    assert (answer.status, answer.body) == (200, b"confirmation yes")
    check_form(answer)
    # a url request is answered with the url list
    answer = ask_service(web, SUBJECT, USER, IBI)
    check_form(answer)
    pairs = answer.pairs
    assert re.fullmatch("[0-9]{10,}-[0-9]{10,}", pairs.pop("urlkey")[0])
    assert pairs == {
        "archiveaddress": ("mtc-m16c.sid.inpe.br",),
        "contenttype": ("Data",),
        "ibi": ("rep", REPORT, "ibip", REPORT_IBIP),
        "ibi.archiveservice": ("rep", SERVICE),
        "ibi.platformsoftware": (),
        "state": ("Original",),
        "timestamp": ("2009-07-21T13:23:45Z",),
        "url": (f"http://mtc-m16c.sid.inpe.br/col/{REPORT}/doc/report.pdf",),
    }
    # an acknowledgment is always answered with the notice
    for pairs in ACKNOWLEDGMENTS:
        # the second request contains each pair twice
        for more in ({}, pairs):
            answer = ask_service(
                web, ("servicesubject", "acknowledgment"), *pairs.items(), *more.items()
            )
            assert (answer.status, answer.body) == (200, NOTICE)
            check_form(answer)


@pytest.mark.rule("R61-14", "R4-06", "R4-10")
def test_a_wrong_message_is_refused_with_the_reason(web: Flask) -> None:
    # the alert names a wrong pair and the reason
    for name, value, said in [
        ("parsedibiurl.ibi", "8JMKD3MGP8W/35MME4V", "did you mean 8JMKD3MGP8W/35MME4U?"),
        ("clientinformation.ipaddress", " ", "the IP address of the user is missing"),
        ("parsedibiurl.verblist", "GetTranslation(pt) GetTranslation(en)", "GetTranslation(en)"),
    ]:
        pairs = dict([SUBJECT, USER, IBI])
        pairs[name] = value
        alert = refused(ask_service(web, *pairs.items()))
        assert alert.startswith(f"{name}: ")
        assert said in alert
    # the alert for an unknown subject names the known subjects
    for subject in ["urlrequest", "é"]:
        alert = refused(ask_service(web, ("servicesubject", subject), USER, IBI))
        assert (
            "is unknown; it must be one of urlRequest, acknowledgment, inclusionConfirmation"
            in alert
        )
    # a request without a subject is refused
    for query in ["", "?servicesubject=", "?&&=&"]:
        assert refused(ask(web, SERVICE_PATH + query)) == "servicesubject is missing"


WHOLE = {
    "clientinformation.ipaddress": INSIDE,
    "contenttype": "Data",
    "state": "Original",
    "url": f"http://mtc-m16c.sid.inpe.br/col/{REPORT}/doc/report.pdf",
    "url.persistent": f"http://urlib.net/{REPORT}",
    "urlkey": "1424636122-5331490054869684",
    "ibi": f"rep {REPORT} ibip {REPORT_IBIP}",
}


ACKNOWLEDGMENTS = [{}, WHOLE, *({**WHOLE, name: "\0{}é"} for name in WHOLE)]


@pytest.mark.rule("R4-03", "R5-10", "R62-15")
def test_the_requests_in_the_report_are_answered(web_with: Callable[..., Flask]) -> None:
    for number, body in [(0, b""), (3, b"confirmation yes"), (4, NOTICE)]:
        request = load("messages.json")["requests"][number]
        target = "/" + request["url"].partition("//")[2].partition("/")[2]
        service = target[1:].partition("?")[0]
        app = web_with(IBI_ARCHIVE_SERVICE_IBI=service)
        archive_of(app).init()
        answer = ask(app, target)
        assert (answer.status, answer.body) == (200, body)
        check_form(answer)


@pytest.mark.rule("R4-01")
def test_methods_and_long_queries(web: Flask) -> None:
    # methods other than get and head are refused
    for method in ["POST", "OPTIONS", "BREW"]:
        for subject in ["acknowledgment", "urlRequest"]:
            answer = ask_service(web, ("servicesubject", subject), method=method)
            assert method in refused(answer, 405)
            assert {word.strip() for word in answer.headers["Allow"].split(",")} == {"GET", "HEAD"}
    # head is answered like get without the body
    get = ask_service(web, SUBJECT, USER, IBI)
    head = ask_service(web, SUBJECT, USER, IBI, method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert dict(head.headers) == dict(get.headers)
    assert ask_service(web, SUBJECT, method="HEAD").status == 400
    # a query of more than 8 kib is refused
    start = f"{SERVICE_PATH}?servicesubject=acknowledgment&x="
    room = 8192 - len(start.partition("?")[2])
    assert ask(web, start + "a" * room).body == NOTICE
    assert "8193" in refused(ask(web, start + "a" * (room + 1)), 414)
    # the limit is for the encoded query
    assert refused(ask(web, start + "%41" * (room // 3 + 1)), 414)
    assert refused(ask(web, start + "a" * 1_000_000), 414)


@pytest.mark.rule("R4-05")
def test_pairs_may_have_any_order_and_unknown_pairs_are_ignored(web: Flask) -> None:
    expected = ask_service(web, SUBJECT, USER, IBI).body
    odd = [("x", "1"), ("x", "2"), ("Servicesubject", "y"), ("parsedibiurl.IBI", "?")]
    for pairs in ([IBI, USER, SUBJECT], [*odd, USER, *odd, IBI, SUBJECT, *odd]):
        assert without_key(ask_service(web, *pairs).body) == without_key(expected)


@pytest.mark.rule("R4-08")
@pytest.mark.postgresql
def test_a_filepath_leads_to_the_file_in_any_encoding_and_to_no_other(web: Flask) -> None:
    # a filepath may have any encoding
    target = f"{SERVICE_PATH}?{query_of(SUBJECT, USER, IBI)}&parsedibiurl.filepath="
    for written, path in [
        ("Relat%c3%b3rio%20Final.txt", "Relat%C3%B3rio%20Final.txt"),
        ("/Relat%25f3rio%2520Final.txt", "Relat%C3%B3rio%20Final.txt"),
        ("a%2520b.txt", "a%2520b.txt"),
    ]:
        answer = ask(web, target + written)
        check_form(answer)
        assert answer.pairs["url"] == (f"http://mtc-m16c.sid.inpe.br/col/{REPORT}/doc/{path}",)
    # a filepath that the item does not have returns no url
    for path in ["no.txt", "../table.csv", "a%00.txt", "%ED%A0%80", "%"]:
        answer = ask(web, target + path)
        assert answer.status == 200
        assert {"url", "urlkey", "state"}.isdisjoint(answer.pairs)
        assert answer.pairs["ibi"]
    # the url of a file is returned unchanged
    pairs = ask_urls(web, SERVED_ELSEWHERE)
    assert pairs["url"] == ("http://mtc-m16d.sid.inpe.br/other/doc/Relat%f3rio%20Final.pdf",)


@pytest.mark.rule("R62-08", "R72-05", "R72-07", "R72-15")
def test_items_are_found_by_their_identifiers(web: Flask) -> None:
    # an unknown ibi returns an empty list
    for ibi in [NOBODY, "8JMKD3MGP8W/3333333", "83LX3pFwXQZeBBx/aaaaa"]:
        answer = ask_service(web, SUBJECT, USER, ("parsedibiurl.ibi", ibi))
        assert (answer.status, answer.body) == (200, b"")
        check_form(answer)
    # an item is found by each of its identifiers in any case
    for ibi in [REPORT, REPORT.upper(), REPORT_IBIP, REPORT_IBIP.lower(), REPORT_ALIAS]:
        assert ask_urls(web, ibi)["ibi"] == ("rep", REPORT, "ibip", REPORT_IBIP)
    # a legacy identifier is case sensitive
    answer = ask_service(web, SUBJECT, USER, ("parsedibiurl.ibi", REPORT_ALIAS.swapcase()))
    assert "url" not in answer.pairs
    # a deleted item is answered with its tombstone
    pairs = ask_urls(web, GONE, "GetMetadata GetFileList")
    assert set(pairs) == {
        "archiveaddress", "ibi", "ibi.archiveservice", "ibi.platformsoftware", "state", "timestamp"
    }  # fmt: skip
    assert pairs["state"] == ("Deleted",)
    assert pairs["timestamp"] == ("2010-01-02T03:04:05Z",)


@pytest.mark.rule("R4-03")
def test_the_service_answers_at_both_forms_of_its_ibi_in_any_case(
    new_app: Callable[..., Flask],
) -> None:
    app = new_app(IBI_ARCHIVE_SERVICE_IBI=None)
    served, _ = archive_of(app).init()
    assert served.rep is not None
    assert served.ibip is not None
    for form in (served.rep, served.ibip):
        for path in (form, form.lower(), form.upper()):
            answer = ask(app, f"/{path}?servicesubject=inclusionConfirmationRequest")
            assert (answer.status, answer.body) == (200, b"confirmation yes")
    percent = served.rep.replace("@", "%40")
    assert ask(app, f"/{percent}?servicesubject=inclusionConfirmationRequest").status == 200
    # other paths are not found
    for path in (f"/{REPORT}", "/abc/def", f"/x/{served.rep}"):
        for method in ("GET", "POST"):
            target = f"{path}?servicesubject=inclusionConfirmationRequest"
            assert ask(app, target, method).status == 404


def add_host_routes(app: Flask) -> None:
    app.add_url_rule("/", "home", lambda: "home")
    app.add_url_rule("/<user>/<page>", "page", lambda user, page: f"{user} {page}")


def check_host_routes(app: Flask) -> None:
    assert ask(app, "/").body == b"home"
    assert ask(app, "/abc/def").body == b"abc def"
    assert ask(app, "/static/none").status == 404


def test_an_unreachable_database_is_503_with_an_alert(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app("postgresql+psycopg://nobody:a-password@127.0.0.1:1/none", tmp_path)
    add_host_routes(app)
    caplog.set_level(logging.ERROR)
    for pairs in (
        [("servicesubject", "inclusionConfirmationRequest")],
        [SUBJECT, USER, IBI],
        [("servicesubject", "acknowledgment")],
    ):
        answer = ask_service(app, *pairs)
        alert = refused(answer, 503)
        assert alert.startswith("the database does not answer")
        assert "a-password" not in alert + caplog.text
        assert int(answer.headers["Retry-After"]) > 0
    assert all(record.exc_info is None for record in caplog.records)
    for path in ("", "doc/x", "files", "metadata"):
        answer = ask(app, f"/col/{REPORT}/{path}")
        assert (answer.status, "Try again" in answer.text) == (503, True)
        assert int(answer.headers["Retry-After"]) > 0
    check_host_routes(app)
    close(app)


@pytest.mark.no_tables
def test_the_alert_names_init_and_no_restart_is_needed_after_init(
    new_app: Callable[..., Flask],
) -> None:
    app = new_app()
    add_host_routes(app)
    answer = ask_service(app, SUBJECT, USER, IBI)
    assert "flask ibi init" in refused(answer, 503) or "flask ibi upgrade" in answer.alert
    assert "Retry-After" in answer.headers
    assert "flask ibi" in refused(ask(app, f"/{REPORT}"), 503)
    page = ask(app, f"/col/{REPORT}/", headers={"Accept": "text/html"})
    assert (page.status, page.headers["Retry-After"], "flask" in page.text) == (503, "10", False)
    check_host_routes(app)
    other = new_app()
    archive_of(other).init()
    import_records(archive_of(other), [{"rep": REPORT}])
    assert ask_urls(app, REPORT)["state"] == ("Original",)
    assert ask(app, f"/col/{REPORT}/").status == 200
    check_host_routes(app)


def test_the_alert_names_the_setting_or_the_command_that_selects_an_archive(
    new_app: Callable[..., Flask],
) -> None:
    app = new_app(IBI_ARCHIVE_SERVICE_IBI=None)
    archive_of(new_app()).init()
    other = new_app(IBI_ARCHIVE_SERVICE_IBI=NOBODY)
    alert = refused(ask(other, f"/{NOBODY}?servicesubject=acknowledgment"), 503)
    assert NOBODY in alert
    assert "flask ibi init" in alert
    with archive_of(other).database.writing() as connection:
        create_archive(connection, {"address": "a.b", "platform_version": "1"}, NOBODY, None)
    alert = refused(ask_service(app, SUBJECT, USER, IBI), 503)
    assert all(text in alert for text in ("IBI_ARCHIVE_SERVICE_IBI", SERVICE, NOBODY))
    assert ask(app, f"/col/{REPORT}/").status == 503


def test_an_app_can_replace_the_service_with_a_route_for_its_address(
    web_with: Callable[..., Flask],
) -> None:
    app = web_with()
    app.add_url_rule(SERVICE_PATH, "own", lambda: "own")
    app.add_url_rule("/<one>/<two>/<three>/<four>", "four", lambda **_: "four")
    assert ask(app, SERVICE_PATH).text == "own"
    other = f"{SERVICE_PATH.upper()}?servicesubject=inclusionConfirmationRequest"
    assert ask(app, other).body == b"confirmation yes"


FOLDERS = sorted(path.parent for path in (FOLDER / "archive").glob("*/case.json"))


@pytest.mark.rule("R4-10", "R4-15", "R72-04", "R72-14", "R72-22", "R72-23", "R72-24")
@pytest.mark.rule("R72-30", "R72-31", "R72-33", "R8-01", "R8-02")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_answer_is_equal_to_the_example(new_app: Callable[..., Flask], folder: Path) -> None:
    case = json.loads((folder / "case.json").read_text())
    app = new_app(**case["config"])
    archive_of(app).init()
    import_file(archive_of(app), folder / "items.jsonl")
    for request in case["requests"]:
        url = f"/{case['config']['IBI_ARCHIVE_SERVICE_IBI']}?{request['query']}"
        answer = app.test_client().get(url)
        assert answer.status_code == 200, url
        assert answer.headers["Content-Type"] == "text/plain"
        assert answer.headers["Cache-Control"] == "no-store"
        expected = (folder / request["answer"]).read_bytes()
        assert without_key(answer.data) == without_key(expected), url
