"""The statistics pages: table, CSV and JSON, accessibility."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.accesses import insert_counts
from support.archives import archive_of, import_records, open_app
from support.pages import see
from support.web import (
    CLOSED,
    EMPTY,
    GONE,
    HIDDEN,
    HOSTILE,
    NEW,
    NOBODY,
    OLD,
    ONLY_IBIP,
    OUTSIDE,
    REPORT,
    ask,
    follow,
    shelf,
)

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.accesses.statistics import SHOWN

HOST = "http://mtc-m16c.sid.inpe.br"
PAGE = f"/col/{REPORT}/statistics"
ARCHIVE = "/ibi/statistics"
FIRST, DAYS = date(2023, 11, 21), 1097
TODAY = datetime(2026, 11, 28, tzinfo=timezone.utc)
COLUMNS = ("ibi", "day", "content_type", "accesses", "double_clicks", "robots")


def counts() -> list[tuple[str, date, str, int, int, int]]:
    """Return counts of three years of one item and of a few days of others."""
    found = []
    for place in range(DAYS):
        day = FIRST + timedelta(place)
        found.append((REPORT, day, "Metadata", place % 7 * 300, 2, 1))
        found.append((REPORT, day, "Data", place % 5, 0, 0))
    last = FIRST + timedelta(DAYS - 1)
    found.append((NEW, last, "Data", 1, 0, 0))
    found.append((OLD, last, "Data", 0, 0, 9))
    found.append((HIDDEN, last, "Data", 5, 0, 0))
    return found


@pytest.fixture(scope="module")
def counted(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An app with the shelf and three years of accesses; no test changes it."""
    folder: Path = tmp_path_factory.mktemp("counted")
    ibi = IBIArchive(clock=lambda: TODAY)
    with open_app(backend, folder, ibi=ibi, PROPAGATE_EXCEPTIONS=True) as app:
        archive = archive_of(app)
        import_records(archive, shelf(folder / "sources"))
        insert_counts(
            archive,
            [dict(zip(COLUMNS, (ibi, *values), strict=True)) for ibi, *values in counts()],
        )
        yield app


def list_rows(text: str) -> list[str]:
    """Return the texts of the rows of the first table of a page."""
    table = text.partition("<tbody>")[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [" ".join(re.sub("<[^>]*>", " ", row).split()) for row in rows]


@pytest.mark.only_on("sqlite")
def test_the_table_shows_the_statistics_of_the_archive(counted: Flask, snapshot: Any) -> None:
    for target, language in [(f"{PAGE}?by=day", "pt-BR"), (f"{ARCHIVE}?by=year", "en")]:
        page = see(counted, target, language=language)
        assert page.html["lang"] == language[:2]
        # labels and numbers, then the sums of the page and of all periods
        assert list_rows(page.source) == snapshot(name=target)
    # the table is accessible
    page = see(counted, f"{PAGE}?by=year")
    headers = [attrs.get("scope") for tag, attrs in page.tags if tag == "th"]
    assert headers[:5] == ["col"] * 5
    assert set(headers[5:]) == {"row"}
    assert "Accesses by year" in page.text("caption")
    [region] = [attrs for _, attrs in page.tags if attrs.get("role") == "region"]
    # a wide table can be scrolled with the keyboard
    assert (region["tabindex"], region["aria-labelledby"]) == ("0", "accesses-table")
    times = [attrs["datetime"] for tag, attrs in page.tags if tag == "time"]
    assert times == [str(year) for year in range(2023, 2027)]
    assert "COUNTER Code of Practice" in page.text("p")
    # a page with three years of days is small
    answer = ask(counted, f"{PAGE}?by=day")
    assert len(answer.body) < 40_000
    assert len(list_rows(answer.text)) == SHOWN["day"] + len(["Subtotal", "Total"])
    # a page without accesses has no table
    page = see(counted, f"/col/{EMPTY}/statistics")
    assert "No access has been counted so far." in page.text("p")
    assert "table" not in {tag for tag, _ in page.tags}
    # a page with only robots has a table
    assert list_rows(ask(counted, f"/col/{OLD}/statistics").text)[-1] == "Total 0 0 0 9"
    # the title of an item is escaped
    page = see(counted, f"/col/{NEW}/statistics")
    assert page.text("h1") == f"Statistics: {HOSTILE}"
    assert page.text("title") == f"Statistics: {HOSTILE}"


@pytest.mark.postgresql
def test_csv_and_json_contain_all_numbers(counted: Flask) -> None:
    for target, by in [(PAGE, "month"), (ARCHIVE, "year")]:
        found = archive_of(counted).statistics(REPORT if target == PAGE else None, by)
        text = ask(counted, f"{target}?by={by}&format=csv").text
        assert list(csv.reader(io.StringIO(text, newline=""))) == found.csv_rows()
        answer = ask(counted, f"{target}?by={by}&format=json")
        assert answer.headers["Content-Type"] == "application/json"
        assert json.loads(answer.text) == found.to_json()
    # downloaded statistics have a plain file name
    for target, name in [
        (f"{PAGE}?format=csv&by=day", "sid.inpe.br-mtc-m18-80-2009-07.21.13.01-day.csv"),
        (f"/col/{ONLY_IBIP}/statistics?format=csv", "8JMKD3MGP8W-35MME4F-month.csv"),
        (f"{ARCHIVE}?format=json", "archive-month.json"),
    ]:
        answer = ask(counted, target, headers={"Accept-Language": "pt"})
        assert answer.headers["Content-Disposition"] == f'attachment; filename="statistics-{name}"'
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "private, no-cache"
        if "csv" in target:
            assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
            assert answer.text.startswith("period,views,downloads,")
            assert "\r\n" in answer.text


def test_the_pages_are_linked(counted: Flask) -> None:
    for link in see(counted, f"/col/{NEW}/statistics").links:
        assert follow(counted, link).status == 200
    # the landing page shows the last twelve months
    months = list(archive_of(counted).statistics(REPORT).list_recent_months(TODAY.date(), 12))
    page = see(counted, f"/col/{REPORT}/")
    meters = [attrs for tag, attrs in page.tags if tag == "meter"]
    values = [number for month in months for number in (month.views, month.downloads)]
    assert [int(str(meter["value"])) for meter in meters] == values
    assert {meter["max"] for meter in meters} == {str(max(values))}
    assert "meter" not in {tag for tag, _ in see(counted, f"/col/{EMPTY}/").tags}
    # the landing page links to the statistics
    assert PAGE in see(counted, f"/col/{REPORT}/").links
    assert f"/col/{REPORT}/" in see(counted, PAGE).links
    assert ARCHIVE in see(counted, PAGE).links


def test_wrong_addresses_and_hidden_items(counted: Flask) -> None:
    # the page for a wrong parameter shows the allowed parameters
    for query in ("by=week", "by=%ff", "format=xml"):
        for target in (PAGE, ARCHIVE):
            page = see(counted, f"{target}?{query}", 400)
            assert "by=day, month or year; format=html, csv or json" in page.text("p")
    # a removed or unknown item has no statistics
    for ibi, status in [(GONE, 410), (NOBODY, 404), ("8JMKD3MGP8W/35MME4V", 404), ("x/y", 404)]:
        see(counted, f"/col/{ibi}/statistics?format=csv", status)
    # a hidden item hides its statistics
    for query in ("", "?format=csv", "?by=week"):
        target = f"/col/{HIDDEN}/statistics{query}"
        page = see(counted, target, 403, remote=OUTSIDE)
        assert "Hidden" not in page.text("h1") + page.text("title")
    assert see(counted, f"/col/{HIDDEN}/statistics").text("h1") == "Statistics: Hidden"
    # the rule of this item restricts only its files
    assert see(counted, f"/col/{CLOSED}/statistics", remote=OUTSIDE)
