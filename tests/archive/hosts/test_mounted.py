"""An app that is mounted under a path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urljoin

import pytest
from flask import Flask
from support.archives import SERVICE, archive_of
from support.commands import command
from support.pages import Page
from support.web import (
    CONTENTS,
    EMPTY,
    NEW,
    NOBODY,
    REPORT,
    REPORT_IBIP,
    SERVED_ELSEWHERE,
    ask,
    ask_urls,
)
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.wrappers import Response

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
        if environ["PATH_INFO"] == f"/{SERVICE}":
            environ["PATH_INFO"] = self.root + environ["PATH_INFO"]
        return self.mounted(environ, start_response)


class StrippingServer(WebServer):
    """A server that removes the path from requests without telling the app about it."""

    def __init__(self, app: Flask) -> None:
        super().__init__(app)
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
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


@pytest.fixture(params=["script name", "application root"])
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


@pytest.mark.slow
def test_all_links_of_all_pages_contain_the_path_and_work(host: Host) -> None:
    mounted = mount(host(APPLICATION_ROOT=ROOT))
    waiting = [
        f"{HOST}{ROOT}{path}"
        for path in (f"/col/{REPORT}/", f"/col/{SERVED_ELSEWHERE}/", f"/col/{REPORT}/doc/no.txt")
    ]
    seen = set(waiting)
    while waiting:
        url = waiting.pop()
        answer = ask(mounted, url.removeprefix(HOST), headers=BROWSER)
        assert answer.status in (200, 302, 404, 410)
        assert answer.body != b"another app"
        if answer.status == 302 or not answer.headers["Content-Type"].startswith("text/html"):
            continue
        if "sandbox" in answer.headers["Content-Security-Policy"]:
            continue
        for link in Page(answer.text).links:
            link = urljoin(url, link).partition("#")[0]
            if link.startswith(HOST):
                assert link.startswith(f"{HOST}{ROOT}/")
                waiting += [link] if link not in seen else []
                seen.add(link)
    assert f"{HOST}{ROOT}/ibi/statistics" in seen
    assert len(seen) > 25


@pytest.mark.parametrize(
    ("target", "location"),
    [
        (f"{ROOT}/{REPORT_IBIP}/table.csv", f"{HOST}{ROOT}/col/{REPORT}/doc/table.csv"),
        (f"{ROOT}/{REPORT}:", f"{HOST}{ROOT}/col/{REPORT}/metadata"),
        (f"{ROOT}/col/{REPORT}", f"{HOST}{ROOT}/col/{REPORT}/"),
        (f"{ROOT}/ibi//statistics", f"{HOST}{ROOT}/ibi/statistics"),
        (f"{ROOT}/{NOBODY}", f"http://urlib.net/{NOBODY}"),
    ],
)
def test_redirects_contain_the_path(mounted: Flask, target: str, location: str) -> None:
    answer = ask(mounted, target, headers=BROWSER)
    assert answer.status in (302, 308)
    assert urljoin(HOST, answer.headers["Location"]) == location


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
