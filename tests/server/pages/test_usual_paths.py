"""The paths that browsers and crawlers ask for: only if the app has no answer of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask, redirect
from support.archives import archive_of, close, make_host
from support.registry_calls import registry_app
from support.web import ask

PATHS = ("/", "/robots.txt", "/favicon.ico")


def add_own(app: Flask) -> None:
    for path in PATHS:
        app.add_url_rule(path, path.strip("/") or "home", lambda: "the app's own")


def test_an_archive_answers_what_the_app_does_not(uri: str, tmp_path: Path) -> None:
    app = make_host(uri, tmp_path)
    archive_of(app).init()
    assert ask(app, "/").headers["Location"] == "/ibi/items"
    robots = ask(app, "/robots.txt")
    assert robots.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "Sitemap: http://mtc-m16c.sid.inpe.br/ibi/sitemap.xml\n" in robots.text
    icon = ask(app, "/favicon.ico")
    assert (icon.status, icon.body[:4]) == (200, b"\0\0\1\0")
    assert ask(app, "/", "POST").status in (404, 405)
    close(app)


@pytest.mark.parametrize("order", ["before", "after"])
def test_the_routes_of_the_app_have_precedence(uri: str, tmp_path: Path, order: str) -> None:
    app = make_host(uri, tmp_path, **{order: add_own})
    for path in PATHS:
        assert ask(app, path).text == "the app's own"
    close(app)


def test_the_hooks_of_the_app_answer_for_its_home_page(uri: str, tmp_path: Path) -> None:
    def need_login(app: Flask) -> None:
        app.before_request(lambda: redirect("/login"))

    app = make_host(uri, tmp_path, after=need_login)
    assert ask(app, "/").headers["Location"] == "/login"
    close(app)


def test_a_resolver_has_its_front_page(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'resolver.sqlite'}"
    with registry_app(tmp_path, IBI_RESOLVER_DATABASE_URI=database) as app:
        assert ask(app, "/favicon.ico").status == 200
        assert "Disallow: /ibi/" in ask(app, "/robots.txt").text
        assert "<form" in ask(app, "/").text
