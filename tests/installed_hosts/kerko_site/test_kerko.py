"""Kerko: the command of the page, its catch-all route and its layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from deposits import ibi
from flask import Flask
from installed_hosts.kerko_site.library import PDF, fill, make_app, run
from playwright.sync_api import Page

from flask_ibi_archive.testing import Reader


@pytest.fixture
def ibi_database_uri(tmp_path: Path) -> str:
    """A database of one kind, since these tests do not depend on it."""
    return f"sqlite:///{tmp_path / 'ibi.sqlite'}"


@pytest.fixture
def app(ibi_settings: dict[str, Any], tmp_path: Path) -> Iterator[Flask]:
    """A bibliography with two reports, which the Archive has."""
    app = make_app(ibi_settings, tmp_path)
    run(app, "ibi", "init")
    fill(app, 7, {"AAAA1111": "On rain", "BBBB2222": "On snow"})
    run(app, "deposit-items")
    yield app
    with app.app_context():
        ibi.archive.database.close()


def find(app: Flask, title: str, state: str = "Original") -> Any:
    """Return the item with a title."""
    with app.app_context():
        [item] = ibi.archive.find(title, state=state)
        return item


def test_the_archive_follows_the_bibliography(app: Flask) -> None:
    rain, snow = find(app, "On rain"), find(app, "On snow")
    assert rain.creators == ["Silva, Ana"]
    pairs = Reader(app).request_urls(rain.ibi)
    assert Reader(app).open(pairs["url"][0]).data == PDF
    run(app, "deposit-items")
    assert find(app, "On rain").record == rain.record  # not even the timestamp
    fill(app, 8, {"AAAA1111": "On warm rain", "CCCC3333": "On ice"})
    run(app, "deposit-items")
    assert find(app, "On warm rain").ibi == rain.ibi
    assert find(app, "On snow", "Deleted").ibi == snow.ibi
    assert find(app, "On ice").ibi not in (rain.ibi, snow.ibi)


def test_persistent_urls_are_answered_before_the_route_of_kerko_for_all_paths(app: Flask) -> None:
    item = find(app, "On rain")
    client = app.test_client()
    [url] = Reader(app).request_urls(item.ibi)["url"]
    assert urljoin(url, client.get(f"/{item.ibi}").location) == url
    assert "On rain" in client.get("/AAAA1111").text
    assert client.get("/unknown/page").status_code == 404
    output = app.test_cli_runner().invoke(args=["ibi", "check"]).stdout
    assert "ok   pages: /ibi/statistics can be shown\n" in output
    assert "ok   persistent URLs: the app answers /" in output


def test_a_browser_shows_a_report_in_the_layout_of_kerko(
    app: Flask, server: Any, tab: Page
) -> None:
    item = find(app, "On rain")
    server.app = app
    with app.app_context():
        url = ibi.archive.addresses.item(item)
    tab.goto(url)
    assert tab.title() == "On rain"
    assert tab.locator("main h1").inner_text() == "On rain"
    assert tab.locator("nav.navbar").is_visible()
    assert "Zotero" in tab.locator("footer").inner_text()
    assert tab.evaluate("document.head.querySelectorAll('link[href*=\"ibi.css\"]').length") == 1
    box = tab.locator(".ibi-box").first
    assert box.evaluate("element => getComputedStyle(element).borderTopStyle") == "solid"
    answer = tab.request.get(f"{server.url}/{item.ibi}")
    assert answer.body() == PDF
