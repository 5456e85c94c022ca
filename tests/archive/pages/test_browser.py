"""The pages in a real browser: rendered without errors and without requests to other servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from flask import Flask, Response
from support.accesses import insert_counts
from support.archives import archive_of, close, import_records, make_app
from support.browser import CONSOLE, render, serving
from support.pages import Page
from support.web import HOSTILE, NEW, resolver_app

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.resolution.answer import ArchiveSource
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind
from flask_ibi_archive.server.pages.alerts import alert_response


def numbers(page: str) -> list[list[int]]:
    """Return the numbers in each row of the table of a page; the last row has the sums."""
    rows = re.findall(r"<tr>(.*?)</tr>", page.partition("<tbody>")[2], re.DOTALL)
    return [
        [int(re.sub("[.,]", "", cell)) for cell in re.findall(r"<td>([\d.,]+)</td>", row)]
        for row in rows
    ]


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[tuple[Flask, int, list[str]]]:
    """A server with an item that has accesses, its port, and the list of its requests."""
    app = make_app(f"sqlite:///{tmp_path / 'ibi.sqlite'}", tmp_path)
    archive = archive_of(app)
    archive.init()
    import_records(archive, [{"rep": NEW, "metadata": {"dc": {"title": [HOSTILE]}}}])
    row = {"ibi": NEW, "double_clicks": 0, "robots": 0}
    insert_counts(
        archive,
        [
            {**row, "day": date(2026, month, 3), "content_type": kind, "accesses": 700 * month}
            for month in range(1, 12)
            for kind in ("Data", "Metadata")
        ],
    )
    with serving(app) as (port, asked):
        yield app, port, asked
    close(app)


@pytest.mark.slow
@pytest.mark.parametrize("language", [pytest.param("en", marks=pytest.mark.slow), "pt-BR"])
def test_the_browser_renders_statistics_without_further_requests(
    pages: tuple[Flask, int, list[str]], tmp_path: Path, language: str
) -> None:
    app, port, asked = pages
    path = f"/col/{NEW}/statistics"
    dom, log = render(f"http://127.0.0.1:{port}{path}", tmp_path, f"--accept-lang={language}")
    found = archive_of(app).statistics(NEW)
    expected = [
        [period.views, period.downloads, period.double_clicks, period.robots]
        for period in found.periods
    ]
    assert len(expected) == 11
    assert numbers(dom) == [*expected, [found.views, found.downloads, 0, 0]]
    page = Page(dom)
    assert page.html["lang"] == language[:2]
    assert page.text("h1").endswith(HOSTILE)
    assert not CONSOLE.findall(log)
    ours = [line for line in asked if "/favicon.ico" not in line and "/ibi/static/ibi." not in line]
    assert ours == [f"127.0.0.1:{port} {path}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "heading"),
    [
        ("/?ibi=8JMKD3MGP8W/34PGRBS&do=decode", "Encontrar um item pelo seu identificador"),
        ("/8JMKD3MGP8W/34PGRBS?x=1", "Mais de uma fonte declara ter o original"),
    ],
)
def test_the_browser_renders_resolver_pages_without_further_requests(
    tmp_path: Path, path: str, heading: str
) -> None:
    claimants = (
        ArchiveSource("8JMKD3MGP7W/3EPGUE5", "a.example"),
        ArchiveSource("8JMKD3MGP8W/34PGRBS", "b.example"),
    )
    alert = Alert(AlertKind.SUSPECTS, parse_identifier("8JMKD3MGP8W/34PGRBS"), claimants)
    with serving(resolver_app(lambda *asked: alert_response(alert))) as (port, asked):
        dom, log = render(f"http://127.0.0.1:{port}{path}", tmp_path, "--accept-lang=pt-BR")
    page = Page(dom)
    assert page.html["lang"] == "pt"
    assert page.text("h1") == heading
    assert not CONSOLE.findall(log)
    ours = [line for line in asked if "/favicon.ico" not in line and "/ibi/static/ibi." not in line]
    assert ours == [f"127.0.0.1:{port} {path}"]


@pytest.mark.slow
def test_these_tests_notice_console_messages_and_other_requests(tmp_path: Path) -> None:
    app = Flask("faulty")

    @app.get("/")
    def faulty() -> Response:
        return Response(
            '<img src="http://elsewhere.example/x.png"><script>console.error("a message")</script>'
            "<p>there",
            content_type="text/html",
        )

    with serving(app) as (port, asked):
        dom, log = render(f"http://127.0.0.1:{port}/", tmp_path)
    assert "<p>there</p>" in dom
    assert "a message" in " ".join(CONSOLE.findall(log))
    assert any(line.endswith("/x.png") and "elsewhere" in line for line in asked)
