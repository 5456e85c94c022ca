"""The address ``/`` of an app that has no page there."""

from __future__ import annotations

from pathlib import Path

from flask import Flask
from support.archives import archive_of, close, make_host
from support.web import ask


def add_home(app: Flask) -> None:
    app.add_url_rule("/", "home", lambda: "the app's own")


def test_it_leads_to_the_list_of_items_unless_the_app_has_a_page(uri: str, tmp_path: Path) -> None:
    # it leads to the list of items
    app = make_host(uri, tmp_path)
    archive_of(app).init()
    assert ask(app, "/").headers["Location"] == "/ibi/items"
    assert ask(app, "/", "POST").status in (404, 405)
    close(app)
    # the page of the app has precedence
    for order in ["before", "after"]:
        app = make_host(uri, tmp_path, **{order: add_home})
        assert ask(app, "/").text == "the app's own"
        close(app)
