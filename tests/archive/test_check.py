"""The command check: with a real server on loopback, and with servers that answer wrongly."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import requests
import responses
from flask import Flask, redirect, request
from sqlalchemy import select
from support.archives import SERVICE, archive_of
from support.commands import Outcome, command
from support.databases import copy_database
from support.documentation import blocks
from support.loopback import Later, serving
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.wrappers import Response

from flask_ibi_archive.archive.items.changes import ChangeNote

NewApp = Callable[..., Flask]

ADDRESS = f"http://mtc-m16c.sid.inpe.br/{SERVICE}"
RESOLVER = "http://urlib.net/J8LNKB5R7W/3FUQHC5"
CONFIRMS = "confirmation yes"
PAGE = "http://mtc-m16c.sid.inpe.br/ibi/statistics"
ITEM_PAGE = re.compile("http://mtc-m16c.sid.inpe.br/col/.*/$")
PROXY_PAGE = "howto/reverse-proxy.rst"


def resolver(status: int) -> Flask:
    """Return a WSGI app that replaces the resolver."""
    app = Flask("resolver")
    app.add_url_rule("/<path:path>", "any", lambda path: ("a resolver", status))
    return app


def findings(outcome: Outcome) -> dict[str, tuple[bool, str]]:
    """Return the printed findings by name: whether there is no FAIL, and the text."""
    assert outcome.err == ""
    found = {}
    for line in outcome.out.splitlines():
        name, text = line[5:].split(": ", 1)
        found[name] = (line[:5] != "FAIL ", text)
        assert line[:5] in ("ok   ", "WARN ", "FAIL ")
    assert outcome.status == (0 if all(ok for ok, _ in found.values()) else 1)
    assert list(found) == [
        "configuration",
        "name",
        "database",
        "files",
        *(("claims", "pages", "persistent URLs") if found["database"][0] else ()),
        "address",
        "resolver",
        "registration",
    ]
    return found


@pytest.fixture
def app(app: Flask) -> Flask:
    """An app whose Archive publishes claims, as after the command init."""
    archive_of(app).claims.create_key()
    return app


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def mocked() -> Iterator[responses.RequestsMock]:
    """Answers that replace the network; tests may change them."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.get(ADDRESS, body=CONFIRMS)
        mock.get(RESOLVER, body="a resolver")
        mock.get(PAGE, body="a page")
        mock.head(ITEM_PAGE)
        yield mock


def test_check_and_list_are_in_the_language_of_the_user(
    app: Flask, mocked: responses.RequestsMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "pt_BR.UTF-8")
    lines = command(app, "check").out.splitlines()
    assert (
        f"ok   banco de dados: o banco de dados está atualizado; o IBI do serviço é {SERVICE}"
        in lines
    )
    assert lines[-1].startswith(
        "ok   cadastro: não cadastrado ainda; para obter uma chave de cadas"
    )
    assert command(app, "list").lines == ["rep\tibip\testado\tdata\ttítulo"]


@pytest.mark.rule("R4-02")
@pytest.mark.parametrize("status", [404, 500])
def test_check_sends_requests_to_real_servers(new_app: NewApp, status: int) -> None:
    place = Later()
    with serving(place) as address, serving(resolver(status)) as resolver_address:
        app = new_app(
            IBI_ARCHIVE_ADDRESS=address,
            IBI_MINT_HOST="mtc-m18.sid.inpe.br",
            IBI_RESOLVER_URL=f"http://{resolver_address}/J8LNKB5R7W/3FUQHC5",
        )
        command(app, "init")
        place.app = app
        found = findings(command(app, "check"))
    assert found == {
        "configuration": (
            True,
            f"new identifiers begin with {' and '.join(archive_of(app).minter.prefixes)}; "
            "those that exist stay as they are",
        ),
        "name": (
            True,
            "the repository has no name; set IBI_ARCHIVE_NAME, for pages and citations",
        ),
        "database": (True, f"the database is up to date; the service IBI is {SERVICE}"),
        "files": (True, f"{archive_of(app).config.files_folder} can be written"),
        "claims": (
            True,
            f"/ibi/claims can be read; the key is in {archive_of(app).config.claims_folder}",
        ),
        "pages": (True, "/ibi/statistics can be shown"),
        "persistent URLs": (True, "not checked, because there is no item yet"),
        "address": (True, f"http://{address}/{SERVICE} answers"),
        "resolver": (
            status < 500,
            f"http://{resolver_address}/J8LNKB5R7W/3FUQHC5 answers"
            + (f" with status {status}; try again later" if status >= 500 else ""),
        ),
        "registration": (
            True,
            "not registered yet; to get a registration key, run: flask ibi generate-key",
        ),
    }


@pytest.mark.only_on("sqlite")
def test_check_finds_that_the_database_is_older_than_the_files_beside_it(
    app: Flask, mocked: responses.RequestsMock, tmp_path: Path
) -> None:
    archive = archive_of(app)
    archive.deposit(title="On rain", files=[("a.txt", BytesIO(b"a"))])
    path = archive.database.engine.url.database
    copy_database(path, tmp_path / "backup")
    new = archive.deposit(title="On snow", files=[("b.txt", BytesIO(b"b"))])
    item = archive.get(new)
    assert item is not None
    later = time.time() + 100  # timestamps that are nearly the same prove nothing
    os.utime(str(item.record.files[0].source), (later, later))
    app.test_client().get("/ibi/claims")
    found = findings(command(app, "check"))
    assert found["files"][0]
    assert found["claims"][0]
    copy_database(tmp_path / "backup", path)
    found = findings(command(app, "check"))
    ok, text = found["files"]
    assert not ok
    assert text.startswith("1 files in ")
    assert "docs/howto/backup.rst" in text
    ok, text = found["claims"]
    assert not ok
    assert text.startswith("the database is older than the claims that were published last")


@pytest.mark.parametrize(
    ("rule", "ok", "text"),
    [
        ("/<path:page>", True, "the app answers /8JMKD3MGP8W/"),
        ("/<a>/<b>", False, "a route of the app answers /8JMKD3MGP8W/"),
    ],
)
def test_check_finds_a_route_that_takes_the_persistent_urls(
    filled: Flask, mocked: responses.RequestsMock, rule: str, ok: bool, text: str
) -> None:
    filled.add_url_rule(rule, "taken", lambda **values: "taken")
    found = findings(command(filled, "check"))["persistent URLs"]
    assert found[0] is ok
    assert found[1].startswith(text)
    assert ok or found[1].endswith("ibi.answer_persistent_url() (see docs/howto/your-app-has.rst)")


def fail_in_templates(app: Flask) -> None:
    """Add a function of a host whose result each page needs, and that raises an exception."""
    app.context_processor(lambda: {"broken": 1 // 0})


def show_failures(app: Flask) -> None:
    """Add a page of a host for exceptions."""
    fail_in_templates(app)
    app.register_error_handler(ZeroDivisionError, lambda error: ("broken", 500))


def replace_page(app: Flask) -> None:
    """Add a page of a host at the same address."""
    app.add_url_rule("/ibi/statistics", "own", lambda: ("gone", 410))


def need_middleware(app: Flask) -> None:
    """Add WSGI middleware of a host, without which its pages fail."""
    serve = app.wsgi_app
    app.wsgi_app = lambda environ, start: serve({**environ, "HOST_LANG": "en"}, start)
    app.context_processor(lambda: {"host_lang": request.environ["HOST_LANG"]})


@pytest.mark.parametrize(
    ("step", "ok", "text"),
    [
        (need_middleware, True, "/ibi/statistics can be shown"),
        (
            fail_in_templates,
            False,
            "/ibi/statistics fails: ZeroDivisionError: integer division or modulo by zero",
        ),
        (show_failures, False, "the app answers /ibi/statistics with status 500; see its log"),
        (replace_page, True, "the app itself answers /ibi/statistics, with status 410"),
    ],
)
def test_check_finds_a_page_that_cannot_be_shown(
    app: Flask,
    mocked: responses.RequestsMock,
    step: Callable[[Flask], None],
    ok: bool,
    text: str,
) -> None:
    step(app)
    assert findings(command(app, "check"))["pages"] == (ok, text)


def test_check_examines_the_settings(
    new_app: NewApp, mocked: responses.RequestsMock, tmp_path: Path
) -> None:
    # check writes to the folder of files and leaves nothing there
    folder = tmp_path / "kept" / "files"
    app = new_app(IBI_FILES_FOLDER=str(folder))
    command(app, "init")
    assert findings(command(app, "check"))["files"] == (True, f"{folder} can be written")
    folder.rmdir()  # fails unless it is empty
    ok, text = findings(command(app, "check"))["files"]
    assert not ok
    assert text.startswith(f"the folder of files is missing ({folder}); set IBI_FILES_FOLDER")
    assert not folder.exists()
    # check reports settings that do not allow minting
    app = new_app(IBI_ARCHIVE_IP=None)
    command(app, "init")
    found = findings(command(app, "check"))
    assert found["configuration"][1].startswith("IBI_ARCHIVE_IP is not set")
    assert [name for name, (ok, _) in found.items() if not ok] == ["configuration"]
    # check finds that https is redirected to itself
    # The web server in front of the app does not say that the request had https.
    app = new_app(PREFERRED_URL_SCHEME="https")
    command(app, "init")
    page = "https://mtc-m16c.sid.inpe.br/ibi/statistics"
    mocked.get(ADDRESS.replace("http:", "https:"), body=CONFIRMS)
    mocked.get(page, status=302, headers={"Location": page})
    assert findings(command(app, "check"))["address"] == (
        False,
        f"{page} is redirected to itself; the web server in front of the app must send the header "
        "X-Forwarded-Proto (see docs/howto/reverse-proxy.rst)",
    )
    mocked.replace(responses.GET, page, body="a page")
    assert findings(command(app, "check"))["address"][0]


def test_check_sends_the_address_of_a_reader(app: Flask, mocked: responses.RequestsMock) -> None:
    """The key of Flask-Limiter in Invenio contains the address."""
    app.before_request(lambda: ipaddress.ip_address(request.remote_addr or "") and None)
    assert findings(command(app, "check"))["pages"] == (True, "/ibi/statistics can be shown")


def test_check_makes_the_confirmation_call_and_publishes_no_changes(
    app: Flask, mocked: responses.RequestsMock
) -> None:
    # check makes the confirmation call
    command(app, "check")
    [own, _, far] = [call.request.url for call in mocked.calls]
    assert own == f"{ADDRESS}?servicesubject=inclusionConfirmationRequest"
    assert far == f"{RESOLVER}?servicesubject=clashRequest&archiveserviceibi={SERVICE}"
    # check publishes no changes to harvesters
    archive = archive_of(app)
    archive.deposit(title="On rain")

    def count() -> int:
        with archive.database.reading() as connection:
            return len(connection.execute(select(ChangeNote.id)).all())

    pending = count()
    assert pending
    command(app, "check")
    assert count() == pending
    # check prints json
    outcome = command(app, "check", "--json")
    assert outcome.status == 0
    results = json.loads(outcome.data)
    assert {one["name"]: (one["ok"], one["text"]) for one in results} == findings(
        command(app, "check")
    )
    mocked.replace(responses.GET, RESOLVER, status=500)
    outcome = command(app, "check", "--json")
    assert (outcome.status, outcome.err) == (1, "")
    assert [one["name"] for one in json.loads(outcome.out) if not one["ok"]] == ["resolver"]


def test_a_login_before_all_pages_is_a_warning(app: Flask, mocked: responses.RequestsMock) -> None:
    def lines(name: str) -> list[str]:
        done = command(app, "check")
        assert done.status == 0
        return [line for line in done.out.splitlines() if f" {name}: " in line]

    # in front of the app
    for status in (401, 302):
        mocked.replace(responses.GET, PAGE, status=status, headers={"Location": "/login"})
        [line] = lines("address")
        assert line.startswith(f"WARN address: {PAGE} answers with status {status}, as a check ")
    mocked.replace(responses.GET, PAGE, body="a page")
    # a public item is asked, too, and not one for members
    archive = archive_of(app)
    for networks in (["10.0.0.0/8"], None):
        access = networks and {"networks": networks, "others": "metadata"}
        page = archive.addresses.item(archive.deposit(title="On rain", access=access))
        mocked.replace(responses.HEAD, ITEM_PAGE, status=403)
        text = "WARN address" if networks is None else "ok   address"
        assert lines("address")[0].startswith(text)
    https = f"https{page[4:]}"
    mocked.replace(responses.HEAD, ITEM_PAGE, status=301, headers={"Location": https})
    assert lines("address")[0].endswith("; set PREFERRED_URL_SCHEME to 'https'")
    mocked.replace(responses.HEAD, ITEM_PAGE)
    assert lines("address") == [f"ok   address: {ADDRESS} answers"]
    # in the app; as JSON, it is a warning, too
    app.before_request_funcs[None] = [lambda: redirect("/login")]
    assert lines("pages")[0].startswith("WARN pages: the app itself answers /ibi/statistics")
    results = json.loads(command(app, "check", "--json").data)
    assert [one["name"] for one in results if one["is_warning"]] == ["name", "pages"]


WRONG_ANSWERS: list[tuple[dict[str, Any], str]] = [
    ({"body": "<html>It works!</html>"}, "answers 200 '<html>It works!</html>' instead of"),
    ({"body": CONFIRMS + " " + "x" * 5000}, "instead of 'confirmation yes'"),
    ({"body": "<html>", "status": 500}, "answers 500 '<html>' instead of"),
    ({"status": 302, "headers": {"Location": "/login"}}, "such as a login check"),
    ({"body": requests.Timeout("slow")}, "took too long; check that IBI_ARCHIVE_ADDRESS"),
    ({"body": requests.ConnectionError("no")}, "can't be reached; check that IBI_ARCHIVE_ADDRESS"),
]


def test_a_wrong_answer_at_the_address_is_a_line_and_status_1(
    app: Flask, mocked: responses.RequestsMock
) -> None:
    for answer, part in WRONG_ANSWERS:
        mocked.replace(responses.GET, ADDRESS, **answer)
        found = findings(command(app, "check"))
        assert [name for name, (ok, _) in found.items() if not ok] == ["address"], part
        assert part in found["address"][1]
        assert found["address"][1].startswith(ADDRESS)


def test_check_finds_that_another_archive_is_at_the_address(new_app: NewApp) -> None:
    place = Later()
    with serving(place) as address:
        settings = {"IBI_ARCHIVE_ADDRESS": address, "IBI_RESOLVER_URL": f"http://{address}"}
        app = new_app(**settings)
        place.app = new_app(**settings, IBI_ARCHIVE_SERVICE_IBI="sid.inpe.br/mtc/2008/03.17.15.17")
        for each in (app, place.app):
            command(each, "init")
        ok, text = findings(command(app, "check"))["address"]
    assert not ok
    assert f"/{SERVICE} answers 404 " in text


WEBSITE = Response("another app", 404)


def dispatch(app: Flask) -> Any:
    """Return the WSGI app of the page about servers, which mounts an app under a path."""
    [code] = [block.text for block in blocks(PROXY_PAGE) if "Dispatcher" in block.text]
    names: dict[str, Any] = {"website": WEBSITE, "repository": app}
    exec(code.replace("8JMKD3MGP8W/4GR7C9G", SERVICE), names)
    return names["application"]


def test_check_asks_the_published_addresses_of_a_mounted_app(new_app: NewApp) -> None:
    place = Later()
    with serving(place) as address, serving(resolver(404)) as far:
        settings = {
            "APPLICATION_ROOT": "/repository",
            "IBI_ARCHIVE_ADDRESS": address,
            "IBI_MINT_HOST": "mtc-m18.sid.inpe.br",
            "IBI_RESOLVER_URL": f"http://{far}/x",
            "IBI_PERSISTENT_URL_BASE": f"http://{address}/repository",
        }

        def check(mount: Callable[[Flask], Any], **changed: Any) -> dict[str, str]:
            """Return the findings that failed."""
            app = new_app(**{**settings, **changed})
            place.app = mount(app)
            found = findings(command(app, "check"))
            return {name: text for name, (ok, text) in found.items() if not ok}

        app = new_app(**settings)
        command(app, "init")
        archive_of(app).claims.create_key()
        ibi = archive_of(app).deposit(title="On rain").ibi
        assert check(dispatch) == {}
        # the service is not at the root of the host
        failed = check(lambda app: DispatcherMiddleware(WEBSITE, {"/repository": app}))
        assert list(failed) == ["address"]
        assert f"pass requests for /{SERVICE} on to /repository/{SERVICE} of" in failed["address"]
        assert failed["address"].endswith("(see docs/howto/reverse-proxy.rst)")
        # persistent URLs are not, either
        failed = check(dispatch, IBI_PERSISTENT_URL_BASE=f"http://{address}")
        assert list(failed) == ["persistent URLs"]
        assert failed["persistent URLs"].startswith(
            f"http://{address}/{ibi} answers with status 404 instead of a redirect"
        )
        # the app does not know its path
        failed = check(dispatch, APPLICATION_ROOT="/")
        assert list(failed) == ["address"]
        assert f"http://{address}/ibi/statistics answers with status 404" in failed["address"]
        assert "set APPLICATION_ROOT" in failed["address"]


@pytest.mark.no_tables
def test_check_before_init_advises_init_and_does_not_check_the_address(
    new_app: NewApp, mocked: responses.RequestsMock
) -> None:
    found = findings(command(new_app(), "check"))
    assert found["database"] == (
        False,
        "the database does not contain the tables; run: flask ibi init",
    )
    assert found["address"][1].endswith(" without the database")
    assert [call.request.url for call in mocked.calls] == [RESOLVER]
