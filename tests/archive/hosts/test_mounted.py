"""An app that is mounted under a path: pages, files, redirects and URL lists contain the path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Flask, url_for
from support.archives import SERVICE, archive_of
from support.cases import for_each
from support.commands import command
from support.loopback import HERE, PATIENCE, serving
from support.pages import Page
from support.web import (
    CONTENTS,
    EMPTY,
    GONE,
    NEW,
    NOBODY,
    OLD,
    REPORT,
    REPORT_IBIP,
    SERVED_ELSEWHERE,
    ask,
    ask_urls,
)
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.wrappers import Response

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.joining.registration import call_own_address
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.server.web.requests import is_request_url, request_url

Host = Callable[..., Flask]
HOST = "http://mtc-m16c.sid.inpe.br"
ROOT = "/repository"
BROWSER = {"Accept": "text/html", "Accept-Language": "en"}


class WebServer:
    """A WSGI app that does what the rule of the web server does.

    The server passes requests for the address of the service to the mounted app, as
    ``rewrite ^/<service IBI>$ /repository$uri last;`` does in nginx.
    """

    def __init__(self, app: Flask, root: str = ROOT) -> None:
        self.root = root
        self.mounted = DispatcherMiddleware(Response("another app", 404), {root: app})

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        if environ["PATH_INFO"] == f"/{SERVICE}":
            environ["PATH_INFO"] = self.root + environ["PATH_INFO"]
        return self.mounted(environ, start_response)


class StrippingServer(WebServer):
    """A server that removes the path from requests without telling the app about it."""

    def __init__(self, app: Flask) -> None:
        super().__init__(app)
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        path = environ["PATH_INFO"]
        if path != f"/{SERVICE}" and not path.startswith(f"{ROOT}/"):
            return super().__call__(environ, start_response)
        environ["PATH_INFO"] = path.removeprefix(ROOT)
        return self.app(environ, start_response)


def mount(app: Flask, server: type[WebServer] = WebServer) -> Flask:
    """Return an app that answers requests as a web server with the mounted app."""
    outer = Flask("outer")
    outer.wsgi_app = server(app)  # type: ignore[method-assign]
    return outer


@pytest.fixture(params=["script name", "application root", "both"])
def mounted(host: Host, request: pytest.FixtureRequest) -> Flask:
    """The web server of a mounted app that knows its path by SCRIPT_NAME or APPLICATION_ROOT."""
    config = {} if request.param == "script name" else {"APPLICATION_ROOT": ROOT}
    server = StrippingServer if request.param == "application root" else WebServer
    return mount(host(**config), server)


# --- URL lists


def test_url_lists_at_the_service_address_contain_the_path(mounted: Flask) -> None:
    found = ask_urls(mounted, EMPTY)
    assert found["url"] == (f"{HOST}{ROOT}/col/{EMPTY}/",)
    assert found["archiveaddress"] == ("mtc-m16c.sid.inpe.br",)
    [url] = ask_urls(mounted, REPORT, filepath="report.pdf")["url"]
    assert url == f"{HOST}{ROOT}/col/{REPORT}/doc/report.pdf"
    assert ask(mounted, url.removeprefix(HOST)).body == CONTENTS["report.pdf"]
    assert ask_urls(mounted, REPORT, "GetMetadata")["url.metadata"] == (
        f"{HOST}{ROOT}/col/{REPORT}/metadata",
    )


def test_the_address_of_the_service_remains_at_the_root_of_the_host(mounted: Flask) -> None:
    confirmation = "?servicesubject=inclusionConfirmationRequest"
    for address in (f"/{SERVICE}", f"{ROOT}/{SERVICE}"):
        assert ask(mounted, address + confirmation).body == b"confirmation yes"
    assert ask_urls(mounted, SERVICE)["url"] == (f"{HOST}/{SERVICE}",)
    assert ask(mounted, f"/{REPORT}").text == "another app"


def test_an_acknowledgment_for_a_url_with_the_path_is_counted(mounted: Flask) -> None:
    app = mounted.wsgi_app.mounted.mounts[ROOT]  # type: ignore[attr-defined]
    before = archive_of(app).statistics(NEW).downloads
    redirect = ask(mounted, f"{ROOT}/{NEW}", headers=BROWSER, remote=f"203.0.113.{before + 1}")
    assert redirect.headers["Location"] == f"{HOST}{ROOT}/col/{NEW}/doc/page.html"
    after = archive_of(app).statistics(NEW).downloads
    assert after == before + 1


# --- pages and redirects


def test_all_links_of_all_pages_contain_the_path_and_work(mounted: Flask) -> None:
    waiting = [
        f"{HOST}{ROOT}{path}"
        for path in (f"/col/{REPORT}/", f"/col/{SERVED_ELSEWHERE}/", f"/col/{REPORT}/doc/no.txt")
    ]
    seen = set(waiting)
    while waiting:
        answer = ask(mounted, waiting.pop().removeprefix(HOST), headers=BROWSER)
        assert answer.status in (200, 302, 404)
        assert answer.body != b"another app"
        if answer.status == 302 or not answer.headers["Content-Type"].startswith("text/html"):
            continue
        if "sandbox" in answer.headers["Content-Security-Policy"]:
            continue
        for link in Page(answer.text).links:
            # only the link to the home page is a path
            assert not link.startswith("/") or link == f"{ROOT}/ibi/items"
            if link.startswith(HOST):
                assert link.startswith(f"{HOST}{ROOT}/")
                waiting += [link] if link not in seen else []
                seen.add(link)
    assert f"{HOST}{ROOT}/ibi/statistics" in seen
    assert len(seen) > 25


@for_each(
    ("target", "location"),
    [
        (f"{ROOT}/{EMPTY}", f"{HOST}{ROOT}/col/{EMPTY}/"),
        (f"{ROOT}/{REPORT_IBIP}/table.csv", f"{HOST}{ROOT}/col/{REPORT}/doc/table.csv"),
        (f"{ROOT}/{REPORT}:", f"{HOST}{ROOT}/col/{REPORT}/metadata"),
        (f"{ROOT}/col/{REPORT}", f"{HOST}{ROOT}/col/{REPORT}/"),
        (f"{ROOT}/ibi//statistics", f"{HOST}{ROOT}/ibi/statistics"),
        (f"{ROOT}/{NOBODY}", f"http://urlib.net/{NOBODY}"),
    ],
)
def test_redirects_contain_the_path(mounted: Flask, target: str, location: str) -> None:
    answer = ask(mounted, target, headers=BROWSER)
    assert (answer.status, answer.headers["Location"]) in ((302, location), (308, location))


def test_links_of_alerts_contain_the_path(mounted: Flask) -> None:
    links = Page(ask(mounted, f"{ROOT}/{REPORT}:(mods)", headers=BROWSER).text).links
    assert f"{ROOT}/{REPORT}:(oai_dc)" in links
    malformed = ask(mounted, f"{ROOT}/{REPORT}!!", headers=BROWSER).text
    assert f"<code>{HOST}:80{ROOT}/{REPORT}!!</code>" in malformed
    assert ask(mounted, f"{ROOT}/{GONE}", headers=BROWSER).status == 410


def test_the_url_of_a_request_contains_the_path(host: Host) -> None:
    for config, base in (({}, f"{HOST}{ROOT}"), ({"APPLICATION_ROOT": ROOT}, HOST)):
        with host(**config).test_request_context("/col/x/", base_url=base):
            assert request_url() == f"{HOST}:80{ROOT}/col/x/"
            # a redirect to this URL would be an endless loop
            assert is_request_url(f"{HOST}{ROOT}/col/x/")
            assert not is_request_url(f"{HOST}/col/x/")


def test_a_path_with_other_letters_is_encoded(host: Host) -> None:
    app = host()
    outer = Flask("outer")
    outer.wsgi_app = WebServer(app, "/répo".encode().decode("latin-1"))  # type: ignore[method-assign]
    assert ask_urls(outer, EMPTY)["url"] == (f"{HOST}/r%C3%A9po/col/{EMPTY}/",)
    app = host(APPLICATION_ROOT="/répo/")
    assert ask_urls(app, EMPTY)["url"] == (f"{HOST}/r%C3%A9po/col/{EMPTY}/",)


def test_the_persistent_urls_of_the_app_itself_are_no_endless_redirect(host: Host) -> None:
    own = mount(host(IBI_PERSISTENT_URL_BASE=f"{HOST}{ROOT}"))
    assert ask(own, f"{ROOT}/{NOBODY}", headers=BROWSER).status == 404
    # a resolver at the root of the same host is another app
    other = mount(host(IBI_PERSISTENT_URL_BASE=HOST))
    assert ask(other, f"{ROOT}/{NOBODY}").headers["Location"] == f"{HOST}/{NOBODY}"


# --- commands, addresses of the host, resolver


def test_commands_know_the_path_from_the_application_root(host: Host) -> None:
    app = host(APPLICATION_ROOT=ROOT)
    assert f"url {HOST}{ROOT}/col/{EMPTY}/\n" in command(app, "url-list", EMPTY).out
    assert f"url {HOST}/col/{EMPTY}/\n" in command(host(), "url-list", EMPTY).out


@for_each("config", [{}, {"APPLICATION_ROOT": ROOT}])
def test_the_path_is_added_once_to_addresses_of_the_host(
    host: Host, config: dict[str, Any]
) -> None:
    ibi = IBIArchive()
    app = host(ibi=ibi, after=lambda app: app.add_url_rule("/thesis/<path:ibi>", "t"), **config)
    expected = (f"{HOST}{ROOT}/thesis/{EMPTY}",)
    for function in (lambda *_: url_for("t", ibi=EMPTY), lambda *_: f"/thesis/{EMPTY}"):
        ibi.address(function)
        assert ask_urls(mount(app), EMPTY)["url"] == expected
    if config:
        assert f"url {expected[0]}\n" in command(app, "url-list", EMPTY).out


def test_the_pages_of_a_resolver_contain_the_path(host: Host, tmp_path: Path) -> None:
    def add_resolver(app: Flask) -> None:
        app.config["IBI_RESOLVER_DATABASE_URI"] = f"sqlite:///{tmp_path / 'resolver.sqlite'}"
        IBIResolver(app)

    app = host(before=add_resolver)
    try:
        outer = mount(app)
        text = ask(outer, f"{ROOT}/?ibi={REPORT_IBIP}&do=decode", headers=BROWSER).text
        assert f'<form class="ibi-form" action="{ROOT}/"' in text
        assert all(link.startswith(f"{ROOT}/") for link in Page(text).links)
        led = ask(outer, f"{ROOT}/?ibi={REPORT_IBIP}&do=resolve", headers=BROWSER)
        assert led.headers["Location"] == f"{ROOT}/{REPORT_IBIP}"
        assert ask(outer, f"{ROOT}/ibi-resolver/health/live").status == 200
    finally:
        app.extensions["ibi_resolver"].resolver.close()


def test_a_real_server_serves_a_mounted_app(host: Host) -> None:
    outer = Flask("outer")
    with serving(outer) as address:
        app = host(IBI_ARCHIVE_ADDRESS=address, IBI_INNER_HOSTS=HERE)
        outer.wsgi_app = WebServer(app)  # type: ignore[method-assign]
        assert call_own_address(archive_of(app), 30) == f"http://{address}/{SERVICE}"
        query = {
            "servicesubject": "urlRequest",
            "clientinformation.ipaddress": "203.0.113.9",
            "parsedibiurl.ibi": OLD,
            "parsedibiurl.filepath": "old.txt",
        }
        answer = requests.get(f"http://{address}/{SERVICE}", query, timeout=PATIENCE).text
        [url] = [line[4:] for line in answer.split("\r\n") if line.startswith("url ")]
        assert url == f"http://{address}{ROOT}/col/{OLD}/doc/old.txt"
        assert requests.get(url, timeout=PATIENCE).content == CONTENTS["old.txt"]
        page = requests.get(f"http://{address}{ROOT}/{EMPTY}", headers=BROWSER, timeout=PATIENCE)
        assert page.url == f"http://{address}{ROOT}/col/{EMPTY}/"
        assert page.history[0].status_code == 302
