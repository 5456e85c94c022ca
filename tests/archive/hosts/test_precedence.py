"""Routes and addresses of the host have precedence over those of the extension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, abort, redirect, url_for
from support.commands import command
from support.pages import Page
from support.web import (
    EMPTY,
    GONE,
    NOBODY,
    PORTUGUESE,
    REPORT,
    REPORT_ALIAS,
    REPORT_IBIP,
    SERVICE_PATH,
    ask,
    ask_urls,
)
from werkzeug.routing import BaseConverter

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.core.protocol.url_list import Named, PageKind
from flask_ibi_archive.server.web.hooks import IBIConverter

Host = Callable[..., Flask]
HOST = "http://mtc-m16c.sid.inpe.br"

#: Rules of a host, and a path for which the extension also has a rule.
RULES = [
    ("/col/<path:ibi>/", f"/col/{REPORT}/"),
    ("/col/<own:ibi>/", f"/col/{REPORT}/"),
    ("/col/<flask_ibi_archive_item:ibi>/", f"/col/{REPORT_IBIP}/"),
    ("/col/<prefix>/<suffix>/", f"/col/{REPORT_IBIP}/"),
    ("/col/<path:ibi>/doc/<path:path>", f"/col/{REPORT}/doc/report.pdf"),
    ("/col/<flask_ibi_archive_item:ibi>/doc/<path:path>", f"/col/{REPORT}/doc/report.pdf"),
    ("/col/<flask_ibi_archive_item:ibi>/doc/<name>", f"/col/{REPORT}/doc/report.pdf"),
    ("/col/<path:ibi>/files", f"/col/{REPORT}/files"),
    ("/col/<own:ibi>/metadata", f"/col/{REPORT}/metadata"),
    ("/col/<path:ibi>/statistics", f"/col/{REPORT}/statistics"),
    ("/ibi/statistics", "/ibi/statistics"),
    ("/ibi/health", "/ibi/health"),
    ("/ibi/health/ready", "/ibi/health/ready"),
    ("/ibi/health/live", "/ibi/health/live"),
]
PATHS = sorted({path for _, path in RULES})


class OwnConverter(BaseConverter):
    """A converter of the host with a large weight."""

    regex = r"[^/]+(?:/[^/]+){1,3}"
    part_isolating = False
    weight = 5000


def add(app: Flask, rule: str, **options: Any) -> None:
    """Add a route of the host that answers with its rule."""
    app.url_map.converters.setdefault("own", OwnConverter)
    app.url_map.converters.setdefault("flask_ibi_archive_item", IBIConverter)
    app.add_url_rule(rule, f"own{len(app.view_functions)}", lambda **_: f"own {rule}", **options)


def find_blueprint(app: Flask, path: str) -> str:
    """Return the blueprint that answers requests for a path."""
    endpoint: str = app.url_map.bind("host").match(path)[0]
    return endpoint.partition(".")[0]


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_route_of_the_host_overrides_ours_in_any_order(host: Host, step: str) -> None:
    for rule, path in RULES:
        app = host(**{step: lambda app, rule=rule: add(app, rule)})
        assert ask(app, path).text == f"own {rule}"
        assert ask(app, path, "HEAD").status == 200
        kind = path.removeprefix(f"/col/{REPORT}").removeprefix(f"/col/{REPORT_IBIP}")
        others = [other for other in PATHS if not other.endswith(kind)]
        assert others
        assert {find_blueprint(app, other) for other in others} == {"ibi_archive"}


@pytest.mark.parametrize(
    "rule", ["/<path:page>", "/<section>/<path:page>", "/<a>/<b>", "/ibi/<page>", "/<path:p>/"]
)
def test_a_catch_all_of_the_host_does_not_hide_our_pages(host: Host, rule: str) -> None:
    for step in ("before", "after"):
        app = host(**{step: lambda app: add(app, rule)})
        assert {find_blueprint(app, path) for path in PATHS} == {"ibi_archive"}
        page = (
            "/ibi/page"
            if rule == "/ibi/<page>"
            else "/some/page/"
            if rule[-1] == "/"
            else "/some/page"
        )
        assert ask(app, page).text == f"own {rule}"


@pytest.mark.parametrize("rule", ["/<path:page>", "/<path(minlength=1):page>", "/<path:page>/"])
@pytest.mark.parametrize("step", ["before", "after"])
def test_persistent_urls_of_our_items_are_answered_before_a_catch_all(
    host: Host, step: str, rule: str
) -> None:
    app = host(**{step: lambda app: add(app, rule, methods=["GET", "PUT"])})
    end = "/" * rule.endswith("/")
    for text in (REPORT, REPORT_IBIP, REPORT_ALIAS):
        answer = ask(app, f"/{text}{end}")
        assert (answer.status, answer.headers["Location"]) == (
            302,
            f"{HOST}/col/{REPORT}/doc/report.pdf",
        )
        assert ask(app, f"/{text}{end}", "HEAD").status == 302
        assert ask(app, f"/{text}{end}", "PUT").text == f"own {rule}"
    assert ask(app, f"/{GONE}{end}").status == 410
    for page in ("some/page", NOBODY, "%ff", f"{REPORT}!x", "col/of/photos", "col/a/b/files"):
        assert ask(app, f"/{page}{end}").text == f"own {rule}"
    query = "servicesubject=urlRequest"
    assert ask(app, f"/{REPORT}{end}?{query}").text == f"own {rule}"


def log_in_first() -> Any:
    """A login check, which redirects to a page with a form."""
    return redirect("/login")


def refuse() -> None:
    """A rate limiter, which raises an exception."""
    abort(429)


class LoginNeeded(Exception):
    """The exception of a login check, for which the app has an error handler."""


def need_login() -> None:
    """A login check that raises an exception of its own."""
    raise LoginNeeded


@pytest.mark.parametrize("step", ["before", "after"])
@pytest.mark.parametrize("hook", [log_in_first, refuse, need_login])
def test_hooks_of_the_host_do_not_answer_for_the_protocol(
    host: Host, step: str, hook: Callable[[], Any]
) -> None:
    """A resolver cannot log in, and a reader of a persistent URL does not know the host."""
    app = host(**{step: lambda app: app.before_request(hook)})
    app.register_error_handler(LoginNeeded, lambda error: log_in_first())
    assert "ibi" in ask_urls(app, REPORT)
    assert ask(app, SERVICE_PATH, "POST").alert
    assert ask(app, f"/{REPORT}").headers["Location"].startswith(f"{HOST}/col/{REPORT}/")
    for path in ("/", "/static/x", "/no/such/page", f"/col/{REPORT}/"):
        answer = ask(app, path)
        assert answer.status == 429 or answer.headers["Location"] == "/login", path


# --- addresses


def find_address(page: PageKind, item: Named, path: str | None) -> str | None:
    """Return the addresses of a host that has its own pages for items and files."""
    if page == "item":
        return f"/thesis/{item.rep[-2:]}" if item.rep else None
    if page == "file" and item.rep in (REPORT, PORTUGUESE):
        return f"https://files.example/{path}"
    if page == "metadata" and path == "oai_dc":
        return f"/oai?identifier={item.ibip}"
    return None


@pytest.fixture
def moved(host: Host) -> Flask:
    """The app of a host that changes addresses after it has added the extension."""
    ibi = IBIArchive()
    app = host(ibi=ibi)
    assert ibi.address(find_address) is find_address
    return app


def test_url_lists_pages_and_redirects_contain_the_addresses_of_the_function(
    moved: Flask,
) -> None:
    report = "https://files.example/report.pdf"
    assert ask_urls(moved, EMPTY)["url"] == (f"{HOST}/thesis/15",)
    assert ask_urls(moved, REPORT)["url"] == (report,)
    found = ask_urls(moved, REPORT, "GetMetadata(oai_dc)")
    assert found["url.metadata(oai_dc)"] == (f"{HOST}/oai?identifier={REPORT_IBIP}",)
    links = Page(ask(moved, f"/col/{REPORT}/files").text).links
    # the path to the page begins with the home page; the link back to the item follows the files
    assert links[:3] == ["/ibi/items", "/thesis/01", report]
    assert links[-1] == "/thesis/01"
    assert not [link for link in links if f"/{REPORT}/doc/" in link or link.endswith(f"/{REPORT}/")]
    redirect = ask(moved, f"/{EMPTY}")
    assert (redirect.status, redirect.headers["Location"]) == (302, f"{HOST}/thesis/15")


def test_the_function_may_use_url_for_without_a_request(host: Host) -> None:
    ibi = IBIArchive()
    app = host(ibi=ibi, after=lambda app: app.add_url_rule("/thesis/<path:ibi>", "thesis"))
    ibi.address(lambda page, item, path: url_for("thesis", ibi=item.rep))
    assert ask_urls(app, EMPTY)["url"] == (f"{HOST}/thesis/{EMPTY}",)
    assert f"\nurl {HOST}/thesis/{EMPTY}\n" in command(app, "url-list", EMPTY).out
