"""The host replaces templates, layout, style and Content-Security-Policy of the pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response, render_template
from support.commands import command
from support.documentation import blocks
from support.pages import Page
from support.web import GONE, NOBODY, REPORT, REPORT_IBIP, ask

from flask_ibi_archive.server.web.responses import find_static_url

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
    answer = ask(app, path, headers=BROWSER)
    assert answer.status == PAGES.get(path, 200)
    Page(answer.text)
    return answer.text


# --- the layout


def test_all_pages_appear_in_the_layout_of_the_host(host: Host, tmp_path: Path) -> None:
    app = host(templates=THEME, place=tmp_path, IBI_BASE_TEMPLATE="layout.html")
    for path in PAGES:
        check_layout(see(app, path))


def check_layout(text: str) -> None:
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


def test_check_names_a_layout_that_is_missing(host: Host, tmp_path: Path) -> None:
    app = host(place=tmp_path, IBI_BASE_TEMPLATE="layuot.html", PROPAGATE_EXCEPTIONS=False)
    assert "none of the templates given were found: layuot.html" in command(app, "check").out


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
    with app.test_request_context():
        assert f'href="{find_static_url("ibi.css")}"' in head
    assert "no content" not in main


# --- the Content-Security-Policy


def policies(app: Flask, path: str) -> list[str]:
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


def assign(response: Response) -> Response:
    """Set the header as Flask-Talisman does."""
    response.headers[POLICY] = "default-src 'none'"
    return response


def append(response: Response) -> Response:
    """Add the header, even if it exists."""
    response.headers.add(POLICY, "default-src 'none'")
    return response


def default(response: Response) -> Response:
    response.headers.setdefault(POLICY, "default-src 'none'")
    return response


@pytest.mark.parametrize("hook", [assign, append, default])
def test_the_policy_of_the_host_has_precedence_and_is_not_doubled(host: Host, hook: Any) -> None:
    for step in ("before", "after"):
        app = host(**{step: lambda app: app.after_request(hook)})
        for path in (f"/col/{REPORT}/", f"/{REPORT_IBIP}:(mods)"):
            assert policies(app, path) == ["default-src 'none'"]
        # both headers apply to a file that can contain scripts
        own, sandbox = policies(app, f"/col/{REPORT}/doc/page.html")
        assert own == "default-src 'none'"
        assert sandbox.startswith("sandbox")
