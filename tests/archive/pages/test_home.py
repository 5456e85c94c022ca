"""The address ``/`` of an app that has no page there."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of, close, make_host
from support.web import ask


def add_home(app: Flask) -> None:
    app.add_url_rule("/", "home", lambda: "the app's own")


def test_it_leads_to_the_list_of_items(uri: str, tmp_path: Path) -> None:
    app = make_host(uri, tmp_path)
    archive_of(app).init()
    assert ask(app, "/").headers["Location"] == "/ibi/items"
    assert ask(app, "/", "POST").status in (404, 405)
    close(app)


@pytest.mark.parametrize("order", ["before", "after"])
def test_the_page_of_the_app_has_precedence(uri: str, tmp_path: Path, order: str) -> None:
    app = make_host(uri, tmp_path, **{order: add_home})
    assert ask(app, "/").text == "the app's own"
    close(app)
