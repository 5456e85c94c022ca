"""Pages, persistent URLs and messages in the user interface of Invenio, and beside its API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from installed_hosts.invenio_site.repository import Site, end_https
from invenio_app.factory import create_api
from invenio_db import db
from my_site import theses
from playwright.sync_api import Page

from flask_ibi_archive.testing import Reader


@pytest.fixture
def ibi_database_uri(tmp_path: Path) -> str:
    """A database of one kind, since pages do not depend on it."""
    return f"sqlite:///{tmp_path / 'host.sqlite'}"


def add_thesis(app: Flask, title: str = "On rain") -> str:
    """Add a thesis, and return its identifier."""
    with app.app_context():
        thesis = theses.Thesis.create({"title": title, "creators": ["Silva, Ana"]})
        theses.mint_ibi(thesis.id, thesis)
        db.session.commit()
        return thesis.model.ibi


def path_of(app: Flask, ibi: str) -> str:
    """Return the path of the page of a thesis."""
    with app.test_request_context():
        archive = theses.ibi.archive
        return archive.addresses.item(archive.get(ibi)).removeprefix(archive.config.base_url)


def test_a_browser_shows_a_thesis_in_the_layout_of_invenio(
    site: Site, server: Any, tab: Page
) -> None:
    app = site.create_app(PREFERRED_URL_SCHEME="http")  # the server of the test has no certificate
    site.create_tables(app)
    site.run(app, "collect")  # the static files of the theme
    ibi = add_thesis(app)
    end_https(app)
    server.app = app
    tab.goto(f"{server.url}/{ibi}")
    assert tab.url == f"{server.url}{path_of(app, ibi)}"
    assert tab.title() == "On rain"
    assert tab.locator("main h1").inner_text() == "On rain"
    assert tab.locator("header.theme img[alt=Invenio]").is_visible()
    assert tab.locator("footer#footer").is_visible()
    box = tab.locator(".ibi-box").first  # our stylesheet
    assert box.evaluate("element => getComputedStyle(element).borderTopStyle") == "solid"


def test_a_url_request_is_answered_by_http_and_without_a_limit(app: Flask) -> None:
    """Talisman redirects all other requests to https, and Flask-Limiter allows 60 a minute."""
    ibi = add_thesis(app)
    for _ in range(80):
        assert Reader(app).request_urls(ibi)["state"] == ("Original",)
    assert app.test_client().get("/ping").status_code == 200
    page = app.test_client().get(path_of(app, ibi), base_url="http://localhost")
    assert (page.status_code, page.location[:8]) == (302, "https://")


def test_check_shows_a_page_although_talisman_wants_https(app: Flask, site: Site) -> None:
    add_thesis(app)
    findings = site.check(app)
    assert findings["pages"] == "ok /ibi/statistics can be shown"
    assert findings["persistent URLs"].startswith("ok the app answers /")


def test_pages_follow_the_language_that_invenio_has_stored(site: Site) -> None:
    app = site.create_app(I18N_LANGUAGES=[("pt", "Português")])
    site.create_tables(app)
    end_https(app)
    path, client = path_of(app, add_thesis(app)), app.test_client()
    assert "How to cite" in client.get(path).text
    assert client.get("/lang/pt").status_code == 302
    page = client.get(path)
    assert "Como citar" in page.text
    policy = "default-src 'self'; object-src 'none'"  # that of Invenio
    assert page.headers["Content-Security-Policy"] == policy


def test_the_api_deposits_and_the_user_interface_answers(app: Flask, site: Site) -> None:
    api = create_api(**site.settings)
    ibi = add_thesis(api, "On snow")
    end_https(api)
    assert api.test_client().get(f"/{ibi}").status_code == 404
    assert Reader(app).request_urls(ibi)["state"] == ("Original",)
    end_https(app)
    assert "On snow" in app.test_client().get(path_of(app, ibi)).text
    assert app.test_client().get(f"/api{path_of(app, ibi)}").status_code == 404
    with api.app_context():
        db.engine.dispose()
        theses.ibi.archive.database.close()


def test_a_thesis_that_invenio_marks_as_deleted_is_a_tombstone(app: Flask) -> None:
    """Record.delete() keeps the row without its JSON document."""
    ibi = add_thesis(app)
    with app.app_context():
        row = db.session.scalars(db.select(theses.ThesisMetadata)).one()
        theses.Thesis(row.data, model=row).delete()
        db.session.commit()
    assert Reader(app).request_urls(ibi)["state"] == ("Deleted",)
    end_https(app)
    page = app.test_client().get(path_of(app, ibi))
    assert page.status_code == 410
    assert "removed by its author" in page.text
