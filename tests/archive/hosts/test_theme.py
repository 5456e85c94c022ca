"""The host replaces templates, layout, style and Content-Security-Policy of the pages."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask, Response, render_template
from jinja2 import BaseLoader, Environment, TemplateNotFound
from support.cases import for_each
from support.commands import command
from support.documentation import blocks
from support.loopback import nobody, serving
from support.pages import Page
from support.web import GONE, NOBODY, REPORT, REPORT_IBIP, ask

from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.server.web.responses import find_static_url

if TYPE_CHECKING:
    from playwright.sync_api import Page as BrowserPage

Host = Callable[..., Flask]

#: A layout with the blocks title, head and content, and blocks and variables of its own.
LAYOUT = """<!doctype html>
<html lang="pt-BR">
<head>
<title>{% block title %}{% endblock %} | Biblioteca</title>
<meta name="description" content="{% block description %}A biblioteca{% endblock %}">
<link rel="stylesheet" href="/theme/theme.css">
{% block head %}<meta name="author" content="host">{% endblock %}
</head>
<body>
<header><img src="/theme/logo.svg" alt="Biblioteca">{% if title %}<p>{{ title }}</p>{% endif %}
<nav>{% block links %}<a href="/">Início</a>{% endblock %}</nav></header>
<main class="container">{% block content %}{% endblock %}</main>
<footer>{% block metadata %}Rodapé{% endblock %}</footer>
</body>
</html>
"""
THEME = {"layout.html": LAYOUT}
#: A page of each kind.
PAGES = {
    f"/col/{REPORT}/": 200,
    f"/col/{REPORT}/files": 200,
    f"/col/{REPORT}/metadata": 200,
    f"/col/{REPORT}/statistics": 200,
    "/ibi/statistics": 200,
    f"/col/{GONE}/": 410,
    f"/col/{NOBODY}/": 404,
    f"/{REPORT_IBIP}:(mods)": 404,
}
BROWSER = {"Accept": "text/html", "Accept-Language": "en"}
POLICY = "Content-Security-Policy"
OWN_STYLE = 'class="ibi-site"'


def see(app: Flask, path: str) -> str:
    """Return the text of a page of a browser."""
    answer = ask(app, path, headers=BROWSER)
    assert answer.status == PAGES.get(path, 200)
    Page(answer.text)
    return answer.text


# --- the layout


@for_each("path", PAGES)
def test_all_pages_appear_in_the_layout_of_the_host(host: Host, path: str, tmp_path: Path) -> None:
    text = see(host(templates=THEME, place=tmp_path, IBI_BASE_TEMPLATE="layout.html"), path)
    page = Page(text)
    assert text.count("<html") == text.count("<main") == text.count("<h1") == 1
    assert page.text("title").endswith("| Biblioteca")
    assert len(page.text("title")) > len("| Biblioteca")
    assert "Rodapé" in page.text("footer")
    assert OWN_STYLE not in text
    # the blocks and variables of the layout stay those of the host
    assert 'content="A biblioteca"' in text
    assert 'content="host"' in text
    assert page.text("nav").strip() == "" or "Início" in text
    assert "<header><img" in text
    assert "<p>" not in text.partition("<header>")[2].partition("</header>")[0]
    # the language of our texts can differ from that of the layout
    assert '<div class="ibi-page" lang="en">' in text


#: What the layouts of hosts define or import for themselves.
NAMES = ("heading", "link", "cells", "date", "describe", "breadcrumb", "citation_text", "file_list")


@for_each("path", PAGES)
def test_macros_and_variables_of_the_layout_do_not_replace_ours(
    host: Host, path: str, tmp_path: Path
) -> None:
    own = "".join(f"{{% macro {name}() %}}theirs{{% endmacro %}}" for name in NAMES)
    calls = "".join(f"{{{{ {name}() }}}}" for name in NAMES)
    layout = f"{own}{LAYOUT.replace('<header>', f'{calls}<header>')}"
    plain = see(host(templates=THEME, place=tmp_path, IBI_BASE_TEMPLATE="layout.html"), path)
    text = see(
        host(templates={"own.html": layout}, place=tmp_path, IBI_BASE_TEMPLATE="own.html"), path
    )
    assert "theirs" * len(NAMES) in text
    assert Page(text).text("h1") == Page(plain).text("h1")
    for one in (text, plain):
        assert one.count("ibi-breadcrumb") == plain.count("ibi-breadcrumb") > 0


def find_static_path(name: str) -> str:
    """Return the path and the query of a file of the package."""
    with Flask("host").test_request_context():
        return find_static_url(name)


def test_the_style_of_our_pages_applies_only_to_their_elements(host: Host, tmp_path: Path) -> None:
    app = host(templates=THEME, place=tmp_path, IBI_BASE_TEMPLATE="layout.html")
    for path in PAGES:
        assert f'<link rel="stylesheet" href="{find_static_path("ibi.css")}">' in see(app, path)
    style = re.sub(r"/\*.*?\*/", "", ask(app, find_static_path("ibi.css")).text, flags=re.DOTALL)
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", style)
    assert len(selectors) > 50
    for selector in selectors:
        assert all(".ibi-" in one for one in selector.rpartition("{")[2].split(",")), selector


def test_browsers_keep_the_style_sheet_until_it_changes(host: Host) -> None:
    app, address = host(), find_static_path("ibi.css")
    assert "immutable" in ask(app, address).headers["Cache-Control"]
    # the page of another version must not fix the content of this version
    other = ask(app, address.partition("?")[0] + "?v=other")
    assert other.headers["Cache-Control"] == "no-cache"
    known = {"If-None-Match": other.headers["ETag"]}
    assert ask(app, address, headers=known).status == 304


def test_a_layout_needs_only_the_block_for_the_content(
    host: Host, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other blocks that it lacks are logged once."""
    layout = "<title>Library</title><main>{% block content %}{% endblock %}</main>"
    app = host(templates={"a/b.html": layout}, place=tmp_path, IBI_BASE_TEMPLATE="a/b.html")
    for _ in range(2):
        assert see(app, f"/col/{REPORT}/").startswith("<title>Library</title><main>\n<div class")
    assert [record.getMessage() for record in caplog.records] == [
        "IBI_BASE_TEMPLATE: a/b.html has no block title and no block head"
    ]


def test_a_missing_layout_is_logged_and_our_own_is_used(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    app = host(IBI_BASE_TEMPLATE="layuot.html")
    with caplog.at_level(logging.ERROR):
        assert OWN_STYLE in see(app, f"/col/{REPORT}/")
    [record] = caplog.records
    assert record.getMessage() == (
        "IBI_BASE_TEMPLATE is 'layuot.html'; it should be the name of a template in a template "
        "folder of the app, as layout.html"
    )
    assert record.exc_info is None


#: Layouts whose blocks are defined by a template that they extend, or not at all.
LAYOUTS = {
    **THEME,
    "child.html": "{% extends 'layout.html' %}{% block links %}{% endblock %}",
    "chosen.html": "{% extends config.CHOSEN %}",
    "bare.html": "<main>{% block content %}{% endblock %}</main>",
    "body.html": "<title>{% block title %}{% endblock %}</title>{% block body %}{% endblock %}",
    "body_child.html": "{% extends 'body.html' %}{% block head %}{% endblock %}",
}


@for_each("name", ["body.html", "body_child.html"])
def test_a_layout_without_a_block_for_the_content_is_logged_and_our_own_is_used(
    host: Host, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """The pages would be empty."""
    app = host(templates=LAYOUTS, place=tmp_path, IBI_BASE_TEMPLATE=name)
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        assert OWN_STYLE in see(app, f"/col/{REPORT}/")
    [record] = caplog.records
    assert record.getMessage() == (
        f"IBI_BASE_TEMPLATE is '{name}'; it should be a template that contains "
        "{% block content %}{% endblock %}"
    )


@for_each("name", ["child.html", "chosen.html", "bare.html"])
def test_blocks_may_be_in_a_template_that_the_layout_extends(
    host: Host, tmp_path: Path, name: str
) -> None:
    app = host(templates=LAYOUTS, place=tmp_path, IBI_BASE_TEMPLATE=name, CHOSEN="layout.html")
    assert OWN_STYLE not in see(app, f"/col/{REPORT}/")


class OnlyOwn(BaseLoader):
    """A loader of a host that replaces the loader of Flask, as that of CKAN does."""

    def get_source(self, environment: Environment, template: str) -> Any:
        if template not in LAYOUTS:
            raise TemplateNotFound(template)
        return LAYOUTS[template], None, None


@pytest.mark.slow
@for_each("path", PAGES)
def test_pages_appear_in_an_app_with_a_template_loader_of_its_own(host: Host, path: str) -> None:
    def replace_loader(app: Flask) -> None:
        app.jinja_env.loader = loader
        app.add_url_rule("/own", "own", lambda: render_template("bare.html"))

    loader = OnlyOwn()
    app = host(after=replace_loader)
    assert OWN_STYLE in see(app, path)
    assert "Rodapé" in see(host(after=replace_loader, IBI_BASE_TEMPLATE="layout.html"), path)
    # nothing changes for the pages of the host
    assert app.jinja_env.loader is loader
    assert ask(app, "/own").text == LAYOUTS["bare.html"].partition("{")[0] + "</main>"


@for_each(
    ("name", "finding"),
    [
        ("layout.html", "ok   layout: the template layout.html of the app exists"),
        ("child.html", "ok   layout: the template child.html of the app exists"),
        (
            "bare.html",
            "ok   layout: the template bare.html of the app exists; it has no block title and no "
            "block head",
        ),
        ("body.html", "FAIL layout: IBI_BASE_TEMPLATE is 'body.html'; it should be a template"),
        ("layuot.html", "FAIL layout: IBI_BASE_TEMPLATE is 'layuot.html'; it should be the name"),
    ],
)
def test_the_check_command_finds_a_missing_layout(
    host: Host, tmp_path: Path, name: str, finding: str
) -> None:
    with nobody() as address:
        app = host(
            templates=LAYOUTS,
            place=tmp_path,
            IBI_BASE_TEMPLATE=name,
            IBI_ARCHIVE_ADDRESS=address,
            IBI_RESOLVER_URL=f"http://{address}/{REPORT_IBIP}",
        )
        result = command(app, "check")
    assert result.status == 1
    assert result.out.splitlines()[-1].startswith(finding)


# --- templates


def test_a_template_of_the_host_extends_ours_and_changes_a_block(
    host: Host, tmp_path: Path
) -> None:
    landing = (
        '{% extends "ibi_archive/default/landing.html" %}'
        "{% block ibi_heading %}{{ super() }}<p>Own {{ item.title }}</p>{% endblock %}"
        "{% block ibi_files %}Files: {{ ibi_parts.file_list(item, addresses) }}{% endblock %}"
        "{% block ibi_metadata %}{% endblock %}"
    )
    app = host(templates={"ibi_archive/landing.html": landing}, place=tmp_path)
    text = see(app, f"/col/{REPORT}/")
    assert '<h1 lang="en">A report</h1><p>Own A report</p>' in text
    assert 'Files: \n<ul class="ibi-files">' in text
    assert "DataCite" not in text
    assert f"/col/{REPORT}/statistics" in text
    assert "Dublin Core" in see(app, f"/col/{REPORT}/metadata")


@for_each(
    ("name", "path"),
    [
        ("landing", f"/col/{REPORT}/"),
        ("files", f"/col/{REPORT}/files"),
        ("metadata", f"/col/{REPORT}/metadata"),
        ("statistics", f"/col/{REPORT}/statistics"),
        ("statistics", "/ibi/statistics"),
        ("tombstone", f"/col/{GONE}/"),
        ("message", f"/col/{NOBODY}/"),
        ("alert", f"/{REPORT_IBIP}:(mods)"),
    ],
)
def test_each_template_can_be_extended_and_replaced(
    host: Host, tmp_path: Path, name: str, path: str
) -> None:
    template, folder = f"ibi_archive/{name}.html", tmp_path / name
    replaced = host(templates={template: "own"}, place=folder / "replaced")
    assert ask(replaced, path, headers=BROWSER).text == "own"
    extending = (
        f'{{% extends "ibi_archive/default/{name}.html" %}}'
        "{% block content %}own {{ super() }}{% endblock %}"
    )
    extended = host(templates={template: extending}, place=folder / "extended")
    assert '<main id="ibi-content">\nown' in see(extended, path)


def test_the_host_adds_a_style_sheet_to_our_layout(host: Host, tmp_path: Path) -> None:
    base = (
        '{% extends "ibi_archive/default/base.html" %}'
        '{% block head %}<link rel="stylesheet" href="/theme/theme.css">{% endblock %}'
    )
    app = host(templates={"ibi_archive/base.html": base}, place=tmp_path)
    for path in PAGES:
        text = see(app, path)
        assert OWN_STYLE in text
        assert '<link rel="stylesheet" href="/theme/theme.css">' in text


def test_the_templates_of_the_documentation_work(host: Host, tmp_path: Path) -> None:
    layout, adapter, base, part = (
        # an app without static files
        block.text.replace("url_for('static', filename='style.css')", "'/theme/theme.css'")
        for block in blocks("howto/theme.rst")
        if block.language == "jinja"
    )
    landing = {"ibi_archive/landing.html": part}
    own = host(
        templates={"layout.html": layout, **landing},
        place=tmp_path / "own",
        IBI_BASE_TEMPLATE="layout.html",
        after=lambda app: app.add_url_rule("/", "home", lambda: render_template("layout.html")),
    )
    ours = host(templates={"ibi_archive/base.html": base, **landing}, place=tmp_path / "ours")
    for app in own, ours:
        text = see(app, f"/col/{REPORT}/")
        assert "Printed copies: ask at the desk." in text
        assert '<link rel="stylesheet" href="/theme/theme.css">' in text
        assert text.count("?lang=pt") == 1
    assert "University of Example" in see(own, f"/col/{REPORT}/")
    # a page of the host
    assert 'href="/?lang=pt"' in see(own, "/")
    # a layout with the blocks of InvenioRDM
    invenio = (
        "{% block head %}{% block head_title %}<title>RDM</title>{% endblock %}{% endblock %}"
        "<main>{% block page_body %}no content{% endblock %}</main>"
    )
    # tests/installed_hosts has the adapters of CKAN and Kerko
    app = host(
        templates={"rdm.html": invenio, "adapter.html": adapter},
        place=tmp_path / "rdm",
        IBI_BASE_TEMPLATE="adapter.html",
        BASE_TEMPLATE="rdm.html",
    )
    page = see(app, f"/col/{REPORT}/")
    head, _, main = page.partition("<main>")
    assert head.count("<title>") == main.count('<div class="ibi-page"') == 1
    assert f'href="{find_static_path("ibi.css")}"' in head
    assert "no content" not in main


# --- the Content-Security-Policy


def policies(app: Flask, path: str) -> list[str]:
    """Return all Content-Security-Policy headers of an answer."""
    return ask(app, path, headers=BROWSER).headers.getlist(POLICY)


def test_the_policy_allows_what_the_host_itself_serves(host: Host) -> None:
    for path in PAGES:
        [policy] = policies(host(), path)
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == "'self'"
        assert "style-src" not in rules
        assert "script-src" not in rules
        assert "'self'" in rules["img-src"]
        assert rules["frame-ancestors"] == rules["base-uri"] == "'self'"
        # browsers apply form-action to redirects, and a form leads to items on other hosts
        assert "form-action" not in rules


def test_a_setting_replaces_the_policy_of_pages_but_not_of_files(host: Host) -> None:
    app = host(IBI_CONTENT_SECURITY_POLICY="default-src 'self' https://cdn.example")
    for path in PAGES:
        assert policies(app, path) == ["default-src 'self' https://cdn.example"]
    [sandbox] = policies(app, f"/col/{REPORT}/doc/page.html")
    assert sandbox.startswith("sandbox")


def test_an_empty_setting_leaves_the_policy_to_the_host(host: Host) -> None:
    app = host(IBI_CONTENT_SECURITY_POLICY="")
    assert [policies(app, path) for path in PAGES] == [[]] * len(PAGES)
    [sandbox] = policies(app, f"/col/{REPORT}/doc/page.html")
    assert sandbox.startswith("sandbox")


def assign(response: Response) -> Response:
    """Set the header as Flask-Talisman does."""
    response.headers[POLICY] = "default-src 'none'"
    return response


def append(response: Response) -> Response:
    """Add the header, even if it exists."""
    response.headers.add(POLICY, "default-src 'none'")
    return response


def default(response: Response) -> Response:
    """Set the header if it does not exist."""
    response.headers.setdefault(POLICY, "default-src 'none'")
    return response


@for_each("hook", [assign, append, default])
def test_the_policy_of_the_host_has_precedence_and_is_not_doubled(host: Host, hook: Any) -> None:
    for step in ("before", "after"):
        app = host(**{step: lambda app: app.after_request(hook)})
        for path in (f"/col/{REPORT}/", f"/{REPORT_IBIP}:(mods)"):
            assert policies(app, path) == ["default-src 'none'"]
        # both headers apply to a file that can contain scripts
        own, sandbox = policies(app, f"/col/{REPORT}/doc/page.html")
        assert own == "default-src 'none'"
        assert sandbox.startswith("sandbox")


def test_pages_of_the_host_get_no_policy(host: Host) -> None:
    app = host(after=lambda app: app.add_url_rule("/", "home", lambda: "home"))
    assert policies(app, "/") == policies(app, "/nothing") == []


def test_a_resolver_has_the_same_settings(tmp_path: Path) -> None:
    app = Flask("host", instance_path=str(tmp_path / "instance"), static_folder=None)
    app.template_folder = str(tmp_path / "templates")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "layout.html").write_text(LAYOUT)
    app.config.update(IBI_BASE_TEMPLATE="layout.html", IBI_CONTENT_SECURITY_POLICY="img-src *")
    IBIResolver(app)
    try:
        answer = ask(app, "/", headers=BROWSER)
        assert answer.headers.getlist(POLICY) == ["img-src *"]
        assert "| Biblioteca</title>" in answer.text
        assert '<form class="ibi-form"' in answer.text
    finally:
        app.extensions["ibi_resolver"].resolver.close()


@for_each(
    ("key", "value", "expected"),
    [
        ("IBI_CONTENT_SECURITY_POLICY", "default-src\nx", "a Content-Security-Policy in one line"),
        ("IBI_CONTENT_SECURITY_POLICY", "défaut", "a Content-Security-Policy in one line"),
        ("IBI_BASE_TEMPLATE", 7, "the name of a template"),
        ("APPLICATION_ROOT", "repository", "the path under which the app is mounted"),
        ("APPLICATION_ROOT", "http://a.br/x", "the path under which the app is mounted"),
    ],
)
def test_a_wrong_setting_is_an_error_at_the_start(
    host: Host, key: str, value: Any, expected: str
) -> None:
    with pytest.raises(ConfigError, match=f"{key} .*{expected}"):
        host(**{key: value})


# --- a browser

CSS = "body { font-family: sans-serif; margin: 0 } header { background: #123; padding: 1rem }"
LOGO = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="30"><rect width="90" height="30" fill="#fa0"/></svg>'  # noqa: E501


def add_theme(app: Flask) -> None:
    """Serve the style sheet and the logo of the theme."""
    app.add_url_rule("/theme/theme.css", "css", lambda: Response(CSS, content_type="text/css"))
    app.add_url_rule("/theme/logo.svg", "logo", lambda: Response(LOGO, mimetype="image/svg+xml"))


@pytest.mark.slow
def test_a_browser_loads_the_style_sheet_and_the_logo_of_the_host(
    host: Host, tmp_path: Path, page: BrowserPage
) -> None:
    app = host(templates=THEME, place=tmp_path, after=add_theme, IBI_BASE_TEMPLATE="layout.html")
    asked: set[str] = set()
    errors: list[object] = []
    page.on("request", lambda request: asked.add(request.url))
    page.on("pageerror", errors.append)
    page.on("console", errors.append)
    with serving(app) as address:
        base = f"http://{address}"
        page.goto(f"{base}/col/{REPORT}/")
        assert page.locator("h1").text_content() == "A report"
    assert errors == []
    paths = {url.removeprefix(base) for url in asked} - {"/favicon.ico"}
    assert paths == {
        f"/col/{REPORT}/",
        find_static_path("ibi.css"),
        find_static_path("ibi.js"),
        "/theme/theme.css",
        "/theme/logo.svg",
    }
