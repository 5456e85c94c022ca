"""The routes of a resolver: persistent URLs, service and health; with an Archive in one app."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Flask
from support.accesses import stored
from support.archive_servers import Servers, http, servers
from support.archives import SERVICE, archive_of, close, make_app
from support.commands import command
from support.loopback import PATIENCE, serving
from support.registries import KEY, a_registry
from support.resolving import (
    ORIGINAL,
    Table,
    TableArchive,
    X,
    Y,
    Z,
    app_over,
    archives_of,
    goes_on,
    leads,
    resolver_of,
)
from support.vectors import load
from support.web import INSIDE, Answer, ask
from werkzeug.serving import make_server

from flask_ibi_archive import resolver
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.commands import ibi_resolver

#: The cases of the tests below.
CASES = load("resolver/persistent_urls.json")

HERE, THERE = "http://here.br/a.pdf?b=c", "http://there.br/b.pdf"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
RESOLVER = "/J8LNKB5R7W/3FUQHC5"
INCLUDED = "status.archive included status.confirmation successful"

REMOVED, CONTESTED, CIRCLE, BROKEN = (f"a.br/{n}/2001/01.01.00.00" for n in range(4))


@pytest.fixture(scope="module")
def hosts() -> Iterator[Servers]:
    """Servers on the loopback interface."""
    with servers() as found:
        yield found


@pytest.fixture(scope="module")
def archives(hosts: Servers) -> list[TableArchive]:
    """Two Archives."""
    translated = leads("http://a.br/en", relation=".translation")
    translated += f"\r\n{leads('http://a.br/pt', relation='.translation(pt)', key='')}"
    first: Table = {
        X: leads(HERE),
        f"{X}!": goes_on(Y),
        f"{X}+": translated,
        REMOVED: "state Deleted timestamp 2010-01-02T03:04:05Z",
        CONTESTED: leads(HERE),
        f"{CIRCLE}!": goes_on(CIRCLE),
    }
    second: Table = {
        f"{Y}!": leads(THERE, relation=".lastedition"),
        CONTESTED: leads(THERE),
        BROKEN: http("", "500 No"),
    }
    return archives_of(hosts, first, second)


@pytest.fixture(scope="module")
def app(archives: list[TableArchive], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An app with a resolver that has included both Archives."""
    folder = tmp_path_factory.mktemp("resolver")
    with app_over(archives, folder) as found:
        yield found


@pytest.fixture
def archive(hosts: Servers) -> TableArchive:
    """An Archive that has received no requests."""
    return TableArchive(hosts, 1, {X: leads(HERE)})


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Flask]]:
    """Create apps with a resolver."""
    with ExitStack() as stack:

        def one(*included: TableArchive, **options: Any) -> Flask:
            return stack.enter_context(app_over(included, tmp_path, **options))

        yield one


def asked_as(app: Flask, target: str, accept: str, **more: Any) -> Answer:
    return ask(app, target, headers={"Accept": accept}, **more)


# --- persistent URLs -----------------------------------------------------------------------------


@pytest.mark.rule("R62-16")
@pytest.mark.parametrize(
    ("target", "location"),
    [
        (f"/{X}", HERE),
        (f"/{X.upper()}", HERE),
        (f"/rep/{X}", HERE),
        (f"/{X}?x=1&ibiurl.language=pt&y", f"{HERE}&x=1&y"),
        (f"/{X}?ibiurl.verblist=GetLastEdition", THERE),
    ],
)
def test_a_persistent_url_is_redirected_to_the_item(app: Flask, target: str, location: str) -> None:
    for method in ("GET", "HEAD"):
        answer = ask(app, target, method)
        assert (answer.status, answer.headers["Location"]) == (302, location)
        assert answer.headers["Cache-Control"] == "private"
        assert answer.headers["Vary"] == "Accept"
        assert answer.body == b""


@pytest.mark.rule("R62-17")
@pytest.mark.parametrize(
    ("target", "status"), CASES["alerts are pages for browsers and text for programs"]
)
def test_alerts_are_pages_for_browsers_and_text_for_programs(
    app: Flask, target: str, status: int
) -> None:
    for accept, kind in (
        (BROWSER, "text/html; charset=utf-8"),
        ("*/*", "text/plain"),
        ("text/plain", "text/plain"),
    ):
        answer = asked_as(app, target, accept)
        assert (answer.status, answer.headers["Content-Type"]) == (status, kind)
        assert answer.headers["Vary"] == "Accept, Accept-Language, Cookie"
        assert "Location" not in answer.headers
        if kind == "text/plain":
            assert answer.pairs["alert"]
        head = asked_as(app, target, accept, method="HEAD")
        assert (head.status, head.headers["Content-Type"]) == (status, kind)
    resolver_of(app).circuit_breaker.record_result(2, True)


def test_other_paths_are_left_to_the_app(make: Callable[..., Flask]) -> None:
    app = make()

    @app.get("/8JMKD3MGP8W/<name>")
    def page(name: str) -> str:
        return f"page {name}"

    assert ask(app, "/8JMKD3MGP8W/35MMLL8").body == b"page 35MMLL8"
    assert ask(app, "/8JMKD3MGP8W/35MMLL8", "POST").headers["Allow"] != "GET, HEAD"
    assert ask(app, "/8JMKD3MGP8W/35MMLL8/a").status == 404
    answer = ask(app, "/about/us")
    assert (answer.status, "alert" in answer.text) == (404, False)


# --- what is acknowledged ------------------------------------------------------------------------


@pytest.mark.rule("R62-07")
@pytest.mark.parametrize(
    ("peer", "forwarded", "told"),
    [
        (INSIDE, "1.2.3.4", (INSIDE,)),
        ("10.0.0.9", "6.6.6.6, 1.2.3.4, 10.1.1.1", ("1.2.3.4", "10.1.1.1", "10.0.0.9")),
        ("10.0.0.9", "2001:DB8::1", ("2001:db8::1", "10.0.0.9")),
        ("10.0.0.9", "nobody", ("0.0.0.0",)),
        (None, None, ("0.0.0.0",)),
    ],
)
def test_archives_receive_the_client_addresses_of_trusted_proxies(
    make: Callable[..., Flask],
    archive: TableArchive,
    peer: str | None,
    forwarded: str | None,
    told: tuple[str, ...],
) -> None:
    app = make(archive, IBI_TRUSTED_PROXIES="10.0.0.0/8")
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    earlier = len(archive.asked)
    assert ask(app, f"/{X}", headers=headers, remote=peer).status == 302
    assert archive.was_thanked().client_addresses == told
    for target in archive.asked[earlier:]:
        assert f"?clientinformation.ipaddress={'%20'.join(told)}&" in target


def test_a_head_request_is_not_acknowledged(
    make: Callable[..., Flask], archive: TableArchive
) -> None:
    app = make(archive)
    assert ask(app, f"/{X}", "HEAD").status == 302
    resolver_of(app).close()
    assert archive.thanks.empty()


# --- the service ---------------------------------------------------------------------------------


def registration(archive: TableArchive, subject: str = "inclusionRequest", **changes: str) -> str:
    """Return the query of an inclusion or exclusion request."""
    pairs = {
        "servicesubject": subject,
        "archiveaddress": archive.address,
        "archiveserviceibi": archive.service,
        "archiveip": "150.163.2.166",
        "archiveprotocol": "HTTP",
        "archiveplatformversion": "2014:11.09.02.16.15",
        "archiveadmemailaddress": "banon@dpi.inpe.br",
        "registrationkey": KEY,
        **changes,
    }
    return "&".join(f"{name}={value}" for name, value in pairs.items() if value)


def said(answer: Answer) -> tuple[int, str]:
    """Return status and text of an answer after checks that apply to every answer."""
    assert answer.headers.getlist("Content-Type") == ["text/plain"]
    assert answer.headers.getlist("Cache-Control") == ["no-store"]
    assert KEY not in answer.text
    return answer.status, answer.text


def test_the_service_rejects_invalid_requests(
    make: Callable[..., Flask], archive: TableArchive
) -> None:
    app = make()
    good = registration(archive)
    unknown = said(ask(app, f"{RESOLVER}?{good}"))
    a_registry(resolver_of(app).database).register(archive.service, KEY)
    wrong = said(ask(app, f"{RESOLVER}?{registration(archive, registrationkey='9876543210')}"))
    assert unknown == wrong
    assert (unknown[0], unknown[1][:7]) == (403, "alert {")
    subjects = ("urlRequest", "acknowledgment", "inclusionConfirmationRequest", "x", "")
    for query, status in [
        *((registration(archive, subject), 400) for subject in subjects),
        ("", 400),
        (registration(archive, archiveip=""), 400),
        (registration(archive, archiveip="here"), 400),
        (f"{good}&archiveip=1.2.3.4", 400),
        (f"{good}&x={'a' * 8192}", 414),
    ]:
        assert said(ask(app, f"{RESOLVER}?{query}"))[0] == status, query
    for path in (RESOLVER, RESOLVER.lower()):
        for method in ("POST", "PUT"):
            answer = ask(app, f"{path}?{good}", method)
            assert answer.status == 405
            assert answer.headers["Content-Type"] == "text/plain"
            assert answer.headers["Allow"] == "GET, HEAD"
        # HEAD has the same status as GET, but changes nothing
        wrong_key = registration(archive, registrationkey="9876543210")
        for query, status in ((good, 200), (wrong_key, 403), ("", 400)):
            head = ask(app, f"{path}?{query}", "HEAD")
            assert (head.status, head.body) == (status, b"")
    assert archive.asked == []
    assert resolver_of(app).registry.list()[0].included_at is None


@pytest.mark.parametrize("name", ["registrationkey", "RegistrationKey", "registration%6Bey"])
def test_a_registration_key_is_not_redirected(app: Flask, archive: TableArchive, name: str) -> None:
    query = registration(archive).replace("registrationkey", name)
    status, text = said(ask(app, f"/{X}?{query}"))
    assert status == 400
    assert "may only be sent to the resolver's service" in text
    assert archive.asked == []


def test_keys_are_not_written_to_the_log_of_the_server(
    app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = make_server("127.0.0.1", 0, app)
    with ThreadPoolExecutor() as pool:
        pool.submit(server.handle_request)
        url = f"http://127.0.0.1:{server.port}{RESOLVER}"
        requests.get(url, {"registrationkey": KEY}, timeout=PATIENCE)
    server.server_close()
    logging.getLogger("gunicorn.access").info("GET %s?registrationkey=%s", RESOLVER, KEY)
    assert caplog.text.count("registrationkey=***") == 2
    assert KEY not in caplog.text


def test_the_service_has_the_configured_ibi(make: Callable[..., Flask]) -> None:
    app = make(IBI_RESOLVER_SERVICE_IBI=Z.upper())
    assert said(ask(app, f"/{Z}"))[0] == 400
    assert said(ask(app, f"/{Z.upper()}"))[0] == 400
    assert ask(app, RESOLVER).status == 404


# --- health, and before there are tables ---------------------------------------------------------


def test_the_resolver_is_not_ready_before_init(tmp_path: Path, archive: TableArchive) -> None:
    app = Flask("resolver", instance_path=str(tmp_path))
    app.config.from_mapping(
        PROPAGATE_EXCEPTIONS=True, IBI_RESOLVER_DATABASE_URI=f"sqlite:///{tmp_path / 'r.sqlite'}"
    )
    IBIResolver(app)
    service = f"{RESOLVER}?{'&'.join(f'{name}=1' for name in 'ab')}"
    ready = ("/ibi-resolver/health", "/ibi-resolver/health/ready")
    for target in ready:
        answer = ask(app, target)
        assert (answer.status, answer.headers["Content-Type"]) == (503, "application/json")
        assert b"run: flask ibi-resolver init" in answer.body
    assert ask(app, "/ibi-resolver/health/live").status == 200
    for accept in (BROWSER, "*/*"):
        answer = asked_as(app, f"/{X}", accept)
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) > 0
    assert "run: flask ibi-resolver init" in answer.text
    assert ask(app, "/").status == 200
    assert ask(app, service).status == 400
    unready = ask(app, f"{RESOLVER}?{registration(archive)}")
    assert said(unready)[0] == 503
    assert int(unready.headers["Retry-After"]) > 0
    resolver_of(app).init()
    for target in ready:
        assert ask(app, target).body == b'{"status":"ok"}\n'
    assert ask(app, f"/{X}").status == 404
    resolver_of(app).close()


# --- one app with an Archive ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "second"),
    [
        ("sqlite:///{folder}/both.sqlite", "sqlite:///{folder}/both.sqlite"),
        ("sqlite:///{folder}/archive.sqlite", "sqlite:///{folder}/resolver.sqlite"),
    ],
    ids=["a database", "nothing more"],
)
def test_an_archive_and_a_resolver_in_one_app(
    uri: str,
    second: str,
    tmp_path: Path,
    make: Callable[..., Flask],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both: list[Flask] = []
    asked: list[str] = []

    def serve(environ: Any, start: Any) -> Any:
        asked.append(environ["QUERY_STRING"])
        return both[0](environ, start)

    with serving(serve) as host:
        uri, second = (text.format(folder=tmp_path) for text in (uri, second))
        url = f"http://{host}{RESOLVER}"
        archive = make_app(
            uri,
            tmp_path,
            IBI_ARCHIVE_ADDRESS=host,
            IBI_MINT_HOST="mtc-m18.sid.inpe.br",
            IBI_RESOLVER_URL=url,
            IBI_REGISTRATION_KEY=KEY,
            IBI_ARCHIVE_ADMIN_EMAIL="banon@dpi.inpe.br",
            IBI_PERSISTENT_URL_BASE=f"http://{host}",
        )
        app = make(app=archive, IBI_RESOLVER_DATABASE_URI=second)
        both.append(app)
        archive_of(app).init()
        a_registry(resolver_of(app).database).register(SERVICE, KEY)
        path = tmp_path / "report.txt"
        path.write_text("a report")
        rep, ibip = command(app, "add", path).data.split()
        # its own items are redirected to, although the Archive is not included yet
        assert ask(app, f"/{rep}", "HEAD").status == 302
        assert ask(app, f"/{rep}{ORIGINAL}", "HEAD").status == 404
        assert command(app, "register-archive").data.strip() == INCLUDED
        answer = ask(app, f"/{ibip}")
        assert (answer.status, answer.headers["Cache-Control"]) == (302, "private")
        location = answer.headers["Location"]
        assert location.startswith(f"http://{host}/col/")
        assert ask(app, location.removeprefix(f"http://{host}")).body == b"a report"
        assert ask(app, f"/{rep}{ORIGINAL}", "HEAD").headers["Location"] == location
        for target, status in (
            (X, 404),
            (f"{rep}/none.txt", 404),
            (f"{rep}/none.txt{ORIGINAL}", 404),
        ):
            assert ask(app, f"/{target}").status == status
        # each has its own service and health
        for service, subject in ((f"/{SERVICE}", "urlRequest"), (RESOLVER, "inclusionRequest")):
            for address in (service, service.upper()):
                answer = ask(app, f"{address}?servicesubject=x")
                assert (answer.status, subject in answer.alert) == (400, True)
        assert ask(app, "/ibi/health").status == ask(app, "/ibi-resolver/health").status == 200
        # the Archive was asked within the process: there might be no free worker for HTTP
        assert [query for query in asked if "inclusionConfirmationRequest" in query]
        assert not [query for query in asked if "urlRequest" in query]
        # the access is counted as if it had been acknowledged
        [access] = stored(archive_of(app))
        assert access["ibi"] == rep
        # an error in it counts as one silent Archive
        monkeypatch.setattr(Archive, "list_urls", lambda *asked: 1 / 0)
        for target in (f"/{rep}", f"/{rep}{ORIGINAL}"):
            answer = ask(app, target)
            assert answer.status == 504
            assert "1 of 1 Archives did not answer" in " ".join(answer.pairs["alert"])
    close(app)


# --- the start of an app -------------------------------------------------------------------------


def test_an_app_can_have_only_one_resolver(make: Callable[..., Flask]) -> None:
    app = make()
    assert app.cli.commands["ibi-resolver"] is ibi_resolver
    with pytest.raises(RuntimeError, match="already has an IBIResolver"):
        IBIResolver(app)


def test_without_pycurl_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pages", "resolving", "claims", "asking"):
        monkeypatch.delitem(sys.modules, f"{resolver.__name__}.{name}")
        monkeypatch.delattr(resolver, name)
    monkeypatch.setitem(sys.modules, "pycurl", None)

    def create_app() -> Flask:
        app = Flask("resolver", instance_path=str(tmp_path))
        IBIResolver(app)
        return app

    error = command(create_app, "list", group=ibi_resolver).error
    assert error.startswith("a resolver needs pycurl")
    assert error.endswith("run: pip install 'flask_ibi_archive[resolver]'")
