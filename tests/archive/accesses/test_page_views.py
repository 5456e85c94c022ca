"""Where persistent URLs lead (IBI_LANDS_ON), and views of pages that come without a resolver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from support.accesses import acknowledge, set_time, stored
from support.archives import archive_of, import_records, open_app
from support.pages import see
from support.web import EMPTY, INSIDE, NEW, OLD, REPORT, ask, ask_urls, shelf

HOST = "http://mtc-m16c.sid.inpe.br"
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0"}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    """An app with the shelf, whose persistent URLs lead to pages."""
    with open_app("sqlite", tmp_path, IBI_LANDS_ON="page") as app:
        import_records(archive_of(app), shelf(tmp_path / "sources"))
        yield app


def count(app: Flask, ibi: str = REPORT) -> tuple[int, ...]:
    """Return the views, downloads, double clicks and robots of an item."""
    found = archive_of(app).statistics(ibi)
    return found.views, found.downloads, found.double_clicks, found.robots


def test_persistent_urls_without_verbs_and_path_lead_to_the_page(
    app: Flask, web_with: Callable[..., Flask]
) -> None:
    page, file = f"{HOST}/col/{REPORT}/", f"{HOST}/col/{REPORT}/doc/report.pdf"
    for setting, lands_on in ((app, page), (web_with(), file)):
        found = ask_urls(setting, REPORT)
        assert (found["url"], found["contenttype"]) == ((lands_on,), ("Data",))
        assert ask_urls(setting, REPORT, filepath="report.pdf")["url"] == (file,)
        assert ask_urls(setting, REPORT, "GetFileList")["url"] == (f"{HOST}/col/{REPORT}/files",)
        found = ask_urls(setting, REPORT, "GetTranslation(en)")
        assert found["url.translation(en)"] == (file,)
        found = ask_urls(setting, OLD, "GetLastEdition")
        assert found["url.lastedition"] == (f"{HOST}/col/{NEW}/doc/page.html",)
    for target, url in ((REPORT, page), (f"{REPORT}?x=1", f"{page}?x=1"), (f"{REPORT}+(en)", file)):
        assert ask(app, f"/{target}").headers["Location"] == url


def test_a_view_of_a_page_is_counted_once_whichever_way_the_reader_came(app: Flask) -> None:
    archive = archive_of(app)
    second = 1_780_000_000.0
    set_time(archive, second)
    page = f"/col/{REPORT}/"
    # without a resolver: one view, and a reload is a double click
    ask(app, page, headers=BROWSER)
    [row] = stored(archive)
    assert (row["url"], row["address"]) == (f"{HOST}{page}", "150.163.2.0")
    ask(app, page, headers=BROWSER)
    assert count(app) == (1, 0, 1, 0)
    # by a persistent URL at the Archive itself
    set_time(archive, second + 100)
    url = ask(app, f"/{REPORT}", headers=BROWSER).headers["Location"]
    ask(app, url.removeprefix(HOST), headers=BROWSER)
    assert count(app) == (2, 0, 1, 0)
    # by a resolver that does not name the browser, before and after the page
    set_time(archive, second + 200)
    assert archive.take_acknowledgment(acknowledge(archive, REPORT, user=INSIDE))
    ask(app, page, headers=BROWSER)
    assert count(app) == (3, 0, 1, 0)
    set_time(archive, second + 300)
    ask(app, page, headers=BROWSER)
    assert archive.take_acknowledgment(acknowledge(archive, REPORT, user=INSIDE))
    assert count(app) == (4, 0, 1, 0)
    # an item without files, whose page counts as its content
    ask(app, f"/{EMPTY}", headers=BROWSER)
    ask(app, f"/col/{EMPTY}/", headers=BROWSER)
    assert sum(count(app, EMPTY)) == 1


def test_robots_and_programs_are_no_readers_of_pages(app: Flask) -> None:
    page = f"/col/{REPORT}/"
    robot = {"User-Agent": "Mozilla/5.0 (compatible; Googlebot/2.1)"}
    for headers in (robot, {}, {**BROWSER, "Sec-Purpose": "prefetch"}):
        assert ask(app, page, headers=headers).status == 200
    assert ask(app, page, "HEAD", headers=BROWSER).status == 200
    assert ask(app, page, headers={**BROWSER, "Accept": "application/x-bibtex"}).status == 303
    assert count(app) == (0, 0, 0, 1)
    # the page says what is counted
    assert "Views of this page and of the metadata" in see(app, page).text("p")
