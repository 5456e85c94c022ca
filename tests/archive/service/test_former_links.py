"""Links that are older than the Archive lead to its items, as their persistent URLs do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from flask import Flask, Response
from support.archives import archive_of, close, import_records, make_app
from support.databases import new_database
from support.statements import statements_of
from support.web import (
    CLOSED,
    GONE,
    NEW,
    OLD,
    REPORT,
    REPORT_IBIP,
    Answer,
    add_resolver,
    ask,
    shelf,
)
from werkzeug.exceptions import NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.items import ownership as same_as
from flask_ibi_archive.archive.service import local_resolution
from flask_ibi_archive.core.resolution.persistent_url import ResolutionRequest

NewApp = Callable[..., Flask]
HOST = "http://mtc-m16c.sid.inpe.br"
OLD_HOST = "old.example.org"
SAME_AS: dict[str, list[str]] = {
    REPORT: [
        "hdl:20.500.12345/678",
        "doi:10.5281/zenodo.1234567",
        "ark:12345/x54xz321",
        "urn:nbn:br:bn-123",
        "http://old.example.org/handle/1/2",
        "http://old.example.org:8080/jspui/handle/1/2",
        "http://old.example.org/item?id=1&x=%C3%A9",
        "http://old.example.org/Relat%C3%B3rio%20Final/",
        "http://mtc-m16c.sid.inpe.br/papers/2009/report",
        "http://mtc-m16c.sid.inpe.br/text/24",
        "http://mtc-m16c.sid.inpe.br/repository/old/1",
        "http://other.example.org/report",
    ],
    OLD: ["hdl:20.500.12345/old"],
    NEW: ["hdl:20.500.12345/678!"],
    GONE: ["hdl:20.500.12345/gone"],
    CLOSED: ["hdl:20.500.12345/closed"],
}
FORMER = [OLD_HOST, f"{OLD_HOST}:8080"]
REPORT_URL = f"{HOST}/col/{REPORT}/doc/report.pdf"


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the shelf with aliases."""
    return [{**item, "same_as": SAME_AS.get(item.get("rep", ""), [])} for item in shelf(folder)]


@pytest.fixture(scope="module")
def old_with(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewApp]:
    """A function that creates apps with these items on one database, each with its own settings.

    Accesses are not counted, because tests must not change the shared database.
    """
    folder, made = tmp_path_factory.mktemp("old"), list[Flask]()

    def make(**options: Any) -> Flask:
        made.append(make_app(uri, folder, **{"IBI_FORMER_HOSTS": FORMER, **options}))
        return made[-1]

    with new_database(backend, folder, ready=True) as uri, pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_resolution, "count_after_response", lambda *parts: None)
        archive_of(make()).init()
        import_records(archive_of(made[0]), records(folder / "sources"))
        yield make
        for app in made:
            close(app)


@pytest.fixture
def old(old_with: NewApp) -> Flask:
    """An app with these items."""
    return old_with()


def ask_at(app: Flask, host: str, target: str, method: str = "GET", **headers: str) -> Answer:
    """Send a request to a host."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(app, target, method, headers={"Host": host, **named})


def location(answer: Answer) -> str:
    """Check that an answer is a redirect and return its URL."""
    assert answer.status == 302, (answer.status, answer.body)
    return answer.headers["Location"]


@pytest.mark.rule("FI-3")
def test_an_alias_leads_where_the_persistent_url_leads(old: Flask) -> None:
    # each spelling of an alias leads to the item
    for alias in [
        "hdl:20.500.12345/678",
        "doi:10.5281/ZENODO.1234567",
        "ark:/12345/x54-xz321/",
    ]:
        assert location(ask(old, f"/{alias}")) == REPORT_URL
        assert ask(old, f"/{alias}", "HEAD").status == 302
        assert ask(old, f"/{alias}", "POST").status == 405
    # an alias leads where the persistent url leads
    for rest in [
        "+(pt):",
        "?x=%C3%A9&y",
        "/Relat%C3%B3rio%20Final.txt",
    ]:
        expected = ask(old, f"/{REPORT}{rest}")
        for alias in ("doi:10.5281/zenodo.1234567", "ark:/12345/x54xz321", "urn:nbn:br:bn-123"):
            answer = ask(old, f"/{alias}{rest}")
            assert location(answer) == location(expected)
            assert dict(answer.headers) == dict(expected.headers)


def test_the_inflections_of_an_ark_ask_for_the_metadata(old: Flask) -> None:
    expected = location(ask(old, f"/{REPORT}??"))
    for target in ("ark:12345/x54xz321?info", "ark:/12345/x54xz321/?info", "ark:/12345/x54xz321??"):
        assert location(ask(old, f"/{target}")) == expected == f"{HOST}/col/{REPORT}/metadata"
    # other identifiers pass the query on to the item
    assert location(ask(old, "/hdl:20.500.12345/678?info")) == f"{REPORT_URL}?info"


@pytest.mark.rule("FI-3")
def test_former_addresses_lead_to_items_and_other_paths_are_not_found(old: Flask) -> None:
    # former addresses lead to items
    for host, target in [
        (OLD_HOST, "/handle/1/2"),
        (OLD_HOST, "/handle/1/2/"),
        (OLD_HOST, "/handle/1/2;jsessionid=5A8E.node1"),
        (OLD_HOST, "/item;jsessionid=5A8E?id=1&x=%C3%A9"),
        ("mtc-m16c.sid.inpe.br", "/http://old.example.org/handle/1/2/"),
        (f"{OLD_HOST}:8080", "/jspui/handle/1/2"),
        (OLD_HOST, "/item?id=1&x=%c3%a9"),
        ("mtc-m16c.sid.inpe.br", "/http://old.example.org/handle/1/2"),  # from a resolver
        ("mtc-m16c.sid.inpe.br", "/text/24"),  # the text of an IBIp that no server can have
    ]:
        assert location(ask_at(old, host, target)) == REPORT_URL
        assert ask_at(old, host, target, "HEAD").status == 302
        assert ask_at(old, host, target, "POST").status == 405
    # other paths get the 404 of the app
    for host, target in [
        (OLD_HOST, "/handle/1/2/3"),
        # nobody said that these hosts are ours
        ("www.old.example.org", "/handle/1/2"),
        ("other.example.org", "/papers/2009/report"),
        ("mtc-m16c.sid.inpe.br", "/doi:10.5281/%FF%00"),
        ("mtc-m16c.sid.inpe.br", "/hdl:20.500.12345/678?servicesubject=urlRequest"),
    ]:
        answer = ask_at(old, host, target)
        assert answer.status == 404
        assert answer.body == ask_at(old, host, "/no/such/page").body
        assert ask_at(old, host, target, "POST").status == 404


@pytest.mark.rule("FI-4")
def test_what_is_not_here_is_explained_or_left_to_the_resolver(old: Flask) -> None:
    # an item that is removed or has no such part is explained
    for alias, target, status in (
        ("hdl:20.500.12345/gone", GONE, 410),
        ("hdl:20.500.12345/678/none.pdf", f"{REPORT_IBIP}/none.pdf", 404),
        ("hdl:20.500.12345/678+(fr)", f"{REPORT_IBIP}+(fr)", 404),
    ):
        answer, expected = (
            ask(old, f"/{one}", headers={"Accept": "text/html"}) for one in (alias, target)
        )
        assert answer.status == expected.status == status
        # the resolver does not know the alias
        for link in re.findall(r'href="http://urlib.net[^"]*"', expected.text):
            assert link in answer.text
        assert "urlib.net/hdl" not in answer.text
    # an item of another archive is left to the resolver
    # the resolver does not know the aliases of this Archive
    target = "/hdl:20.500.12345/678+(fr)?ibiurl.requireditemstatus=Original"
    expected = location(ask(old, target.replace("/hdl:20.500.12345/678", f"/{REPORT_IBIP}")))
    assert expected.startswith(f"http://urlib.net/{REPORT_IBIP}+(fr)?")
    assert location(ask(old, target)) == expected


def test_the_app_decides_who_answers(old_with: NewApp) -> None:
    # without local resolution the app answers
    app = old_with(IBI_LOCAL_RESOLUTION=False)
    for host, target in (
        ("mtc-m16c.sid.inpe.br", "/hdl:20.500.12345/678"),
        (OLD_HOST, "/handle/1/2"),
    ):
        assert ask_at(app, host, target).status == 404
    # a view of the host may let the archive answer
    ibi = IBIArchive()

    def show(**given: str) -> Any:
        return ibi.answer_persistent_url() or "own page"

    app = old_with(after=lambda app: app.add_url_rule("/<a>/<b>/<c>", "own", show))
    assert location(ask(app, "/papers/2009/report")) == REPORT_URL
    assert location(ask_at(app, OLD_HOST, "/handle/1/2")) == REPORT_URL
    assert ask(app, "/handle/1/2").text == "own page"
    # an app may be mounted under a path
    app = old_with()
    outer = Flask("outer")
    server = DispatcherMiddleware(NotFound(), {"/repository": app})
    outer.wsgi_app = server  # type: ignore[method-assign]
    mounted = REPORT_URL.replace("/col/", "/repository/col/")
    assert location(ask(outer, "/repository/hdl:20.500.12345/678")) == mounted
    # the web server of the former host adds the path
    assert location(ask_at(outer, OLD_HOST, "/repository/handle/1/2")) == mounted
    assert location(ask(outer, "/repository/old/1")) == mounted
    assert ask(outer, "/repository/old/2").status == 404
    assert ask(outer, "/old/1").status == 404


@pytest.mark.parametrize("process", ["own", "other"])
def test_without_former_addresses_a_page_that_does_not_exist_costs_no_statement(
    new_app: NewApp, monkeypatch: pytest.MonkeyPatch, process: str
) -> None:
    app, now = new_app(), 1000.0
    archive = archive_of(app)
    monkeypatch.setattr(same_as, "monotonic", lambda: now)
    archive.init()
    archive.deposit(title="A", same_as=["doi:10.5281/zenodo.1"])
    assert ask(app, "/papers/1").status == 404
    with statements_of(archive.database) as sent:
        assert ask(app, "/papers/1").status == 404
        assert sent == []
    with monkeypatch.context() as patches:
        if process == "other":
            patches.setattr(same_as, "_addresses", WeakKeyDictionary())
        archive.deposit(title="B", same_as=["https://mtc-m16c.sid.inpe.br/papers/1"])
    if process == "other":
        assert ask(app, "/papers/1").status == 404
        now += 60
    assert ask(app, "/papers/1").status == 302


def test_a_resolver_of_the_same_app_resolves(old_with: NewApp) -> None:
    def resolve(asked: ResolutionRequest) -> Response:
        return Response(f"{asked.wanted.ibi} {asked.wanted.path} {asked.persistent_url}")

    for step in ("before", "after"):
        app = old_with(**{step: lambda app: add_resolver(app, resolve)})
        url = f"{HOST}:80/{REPORT_IBIP}"
        answer = ask(app, "/hdl:20.500.12345/678/a.pdf")
        assert answer.text == f"{REPORT_IBIP} /a.pdf {url}/a.pdf"
        assert ask(app, "/papers/2009/report").text == f"{REPORT_IBIP}  {url}"
        assert ask(app, f"/{REPORT}").text == f"{REPORT}  {HOST}:80/{REPORT}"
        assert ask(app, "/hdl:20.500.12345/none").status == 404
        # the resolver explains what is like a persistent URL
        assert ask(app, "/sid.inpe.br/x").status == 400


def test_a_route_for_all_paths_leaves_aliases_to_the_archive(old_with: NewApp) -> None:
    for step, end in (("before", ""), ("after", ""), ("before", "/")):
        rule = f"/<path:page>{end}"
        app = old_with(
            **{
                step: lambda app, rule=rule: app.add_url_rule(
                    rule, "own", lambda page: f"own {page}"
                )
            }
        )
        assert location(ask(app, f"/ark:12345/x54xz321{end}")) == REPORT_URL
        assert location(ask_at(app, OLD_HOST, "/Relat%C3%B3rio%20Final/")) == REPORT_URL
        assert ask(app, f"/hdl:1/2{end}").text == "own hdl:1/2"
        assert ask_at(app, OLD_HOST, f"/other{end}").text == "own other"
        # a page of the app, although an item was there
        assert ask(app, f"/papers/2009/report{end}").text == "own papers/2009/report"


@pytest.mark.rule("FI-3")
def test_a_former_link_costs_one_more_statement(old: Flask) -> None:
    database = archive_of(old).database
    ask(old, f"/{REPORT}")
    with statements_of(database) as sent:
        for host, target, count in (
            ("mtc-m16c.sid.inpe.br", "/hdl:20.500.12345/6/a/b/c/d!:(oai_dc)+", 1),
            ("mtc-m16c.sid.inpe.br", "/no/such/page", 1),
            (OLD_HOST, "/item?id=3", 1),
            ("no.example.org", "/no/such/page", 0),
            ("mtc-m16c.sid.inpe.br", "/hdl:20.500.12345/678", 2),
            (OLD_HOST, "/handle/1/2:(oai_dc)", 2),
            ("mtc-m16c.sid.inpe.br", f"/{REPORT}", 1),
        ):
            sent.clear()
            ask_at(old, host, target, "HEAD")
            assert len(sent) == count, (target, sent)
