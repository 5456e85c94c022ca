"""The lists of items by year and the sitemap, for crawlers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from lxml import etree
from support.archives import archive_of, close, import_records, make_app
from support.cases import for_each
from support.databases import new_database
from support.web import rep

from flask_ibi_archive import CatalogueRecord, IBIArchive, RecordCatalogue
from flask_ibi_archive.records.parse import parse_record
from flask_ibi_archive.web import crawl_lists

BASE = "http://mtc-m16c.sid.inpe.br"
SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


def record(number: int, year: int, **fields: object) -> dict[str, object]:
    return {"rep": rep(number), "timestamp": f"{year}-05-0{number % 9 + 1}T00:00:00Z", **fields}


RECORDS = [
    *(record(number, 2026, metadata={"dc": {"title": [f"Rain {number}"]}}) for number in range(5)),
    record(5, 2024),
    record(6, 2025, access={"networks": ["192.0.2.0/24"], "others": "none"}),
    record(7, 2023, state="Deleted", tombstone={"reason": "withdrawn"}),
    record(8, 2022, content_type="Metadata"),
]


class Shelf(RecordCatalogue):
    """A catalogue in memory with the same items."""

    def record(self, ibi: str) -> CatalogueRecord | None:
        return next((one for one in self.records() if one["rep"] == ibi), None)

    def records(self) -> Iterator[CatalogueRecord]:
        for one in map(parse_record, RECORDS):
            yield CatalogueRecord(
                rep=one.rep,
                timestamp=one.timestamp,
                state=one.state,
                metadata=one.metadata,
                access=one.access,
                content_type=one.content_type,
                **({"tombstone": one.tombstone} if one.tombstone else {}),
            )


@pytest.fixture(params=["sqlite", "postgresql", "catalogue"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Flask]:
    has_catalogue = request.param == "catalogue"
    ibi = IBIArchive(catalogue=Shelf() if has_catalogue else None)
    backend = "sqlite" if has_catalogue else request.param
    with new_database(backend, tmp_path, ready=True) as uri:
        app = make_app(uri, tmp_path, ibi, PROPAGATE_EXCEPTIONS=True)
        archive_of(app).init()
        if not has_catalogue:
            import_records(archive_of(app), RECORDS)
        yield app
        close(app)


def links(app: Flask, path: str) -> list[str]:
    """Return the addresses of the links in the list of a page."""
    response = app.test_client().get(path)
    assert response.status_code == 200
    [items] = re.findall('<ul class="ibi-items">(.*?)</ul>', response.text, re.DOTALL)
    return re.findall(r'<li><a href="([^"]+)"', items)


def landing(*numbers: int) -> list[str]:
    return [f"{BASE}/col/{rep(number)}/" for number in numbers]


def test_the_years_and_the_items_of_a_year(app: Flask) -> None:
    assert links(app, "/ibi/items") == [f"{BASE}/ibi/items/{year}" for year in (2026, 2024)]
    assert links(app, "/ibi/items/2026") == landing(4, 3, 2, 1, 0)
    assert "Rain 4" in app.test_client().get("/ibi/items/2026").text
    assert links(app, "/ibi/items/2024") == landing(5)


@for_each("path", ["2025", "2023", "2022", "0", "9999", "10000", "x", "2026/5"])
def test_other_years_are_not_found(app: Flask, path: str) -> None:
    assert app.test_client().get(f"/ibi/items/{path}").status_code == 404


def test_a_long_list_has_several_pages(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawl_lists, "SHOWN", 2)
    path, pages = "/ibi/items/2026", []
    while path:
        pages.append(links(app, path))
        text = app.test_client().get(path).text
        following = re.search(r'href="([^"]+)" rel="next"', text)
        path = following[1].removeprefix(BASE) if following else ""
    assert pages == [landing(4, 3), landing(2, 1), landing(0)]


@for_each("after", ["x", "2026_1", "2026-01-01T00:00:00+00:00_%00", "9999-12-31T23:00:00+00:00_x"])
def test_a_wrong_position_is_no_error(app: Flask, after: str) -> None:
    assert app.test_client().get(f"/ibi/items/2026?after={after}").status_code == 200


def locations(app: Flask, path: str) -> tuple[str, list[str]]:
    response = app.test_client().get(path)
    assert response.status_code == 200
    root = etree.fromstring(response.data)
    return root.tag.removeprefix(SITEMAP), [one.text for one in root.iter(f"{SITEMAP}loc")]


def test_the_sitemap_contains_the_public_pages(app: Flask) -> None:
    assert locations(app, "/ibi/sitemap.xml") == ("urlset", landing(0, 1, 2, 3, 4, 5))
    text = app.test_client().get("/ibi/sitemap.xml").text
    assert text.count("<lastmod>2026-05-01T00:00:00Z</lastmod>") == 1


def test_a_long_sitemap_has_an_index(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawl_lists, "SITEMAP_SIZE", 2)
    kind, parts = locations(app, "/ibi/sitemap.xml")
    assert kind == "sitemapindex"
    found = [locations(app, part.removeprefix(BASE)) for part in parts]
    assert all(kind == "urlset" and len(urls) in (1, 2) for kind, urls in found)
    assert [url for _, urls in found for url in urls] == landing(0, 1, 2, 3, 4, 5)


def test_an_empty_archive(new_app: Callable[..., Flask]) -> None:
    app = new_app()
    archive_of(app).init()
    assert "no public items" in app.test_client().get("/ibi/items").text
    assert locations(app, "/ibi/sitemap.xml") == ("urlset", [f"{BASE}/ibi/items"])
