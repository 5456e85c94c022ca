"""The lists of items by year and the sitemap, for crawlers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import pytest
from flask import Flask
from lxml import etree
from support.archives import archive_of, import_records, open_app
from support.shelf import Shelf
from support.statements import count_statements
from support.web import rep

from flask_ibi_archive import CatalogueRecord, IBIArchive
from flask_ibi_archive.archive.pages import lists as crawl_lists
from flask_ibi_archive.core.records.record import parse_record

BASE = "http://mtc-m16c.sid.inpe.br"
SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


def record(number: int, year: int, **fields: object) -> dict[str, object]:
    return {"rep": rep(number), "timestamp": f"{year}-05-0{number % 9 + 1}T00:00:00Z", **fields}


def described(title: str, year: int) -> dict[str, object]:
    return {"metadata": {"dc": {"title": [title], "date": [f"{year}-03-14"]}}}


RECORDS = [
    *(record(number, 2026, **described(f"Rain {number}", 2009)) for number in range(5)),
    record(5, 2026),
    record(
        6, 2025, access={"networks": ["192.0.2.0/24"], "others": "none"}, **described("x", 2010)
    ),
    record(7, 2023, state="Deleted", tombstone={"reason": "withdrawn"}, **described("x", 2011)),
    record(8, 2022, content_type="Metadata", **described("The metadata", 2012)),
    record(9, 2027, metadata={"ibi": rep(8)}),
]
#: The public items, the last added first.
NEWEST = (9, 5, 4, 3, 2, 1, 0)


def catalogue() -> Shelf:
    """Return a catalogue with the same items."""
    names = ("rep", "timestamp", "state", "metadata", "access", "content_type", "tombstone")
    read = [{name: getattr(one, name) for name in names} for one in map(parse_record, RECORDS)]
    return Shelf(*(CatalogueRecord(**{k: v for k, v in one.items() if v}) for one in read))


@pytest.fixture(params=["tables of the package", "catalogue of a host"])
def app(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> Iterator[Flask]:
    has_catalogue = request.param == "catalogue of a host"
    ibi = IBIArchive(catalogue=catalogue() if has_catalogue else None)
    with open_app(backend, tmp_path, ibi=ibi, PROPAGATE_EXCEPTIONS=True) as app:
        if not has_catalogue:
            import_records(archive_of(app), RECORDS)
        yield app


def links(app: Flask, path: str) -> list[str]:
    """Return the addresses of the links in the list of a page, which are paths."""
    response = app.test_client().get(path)
    assert response.status_code == 200
    [items] = re.findall('<ul class="ibi-items">(.*?)</ul>', response.text, re.DOTALL)
    return [BASE + path for path in re.findall(r'<li><a href="(/[^"]+)"', items)]


def landing(*numbers: int) -> list[str]:
    return [f"{BASE}/col/{rep(number)}/" for number in numbers]


@pytest.mark.postgresql
def test_the_lists_and_the_sitemap_contain_the_public_items(app: Flask) -> None:
    # the years and the items of a year
    text = app.test_client().get("/ibi/items").text
    years = re.findall(r'<li><a href="(/ibi/items/[^"]+)"', text)
    assert years == [f"/ibi/items/{year}" for year in (2012, 2009)]
    assert links(app, "/ibi/items") == landing(*NEWEST)
    assert links(app, "/ibi/items/2009") == landing(4, 3, 2, 1, 0)
    assert "Rain 4" in app.test_client().get("/ibi/items/2009").text
    # the year of an item may be that of its metadata item
    assert links(app, "/ibi/items/2012") == landing(9)
    # the sitemap contains the public pages
    assert locations(app, "/ibi/sitemap.xml") == ("urlset", landing(0, 1, 2, 3, 4, 5, 9))
    text = app.test_client().get("/ibi/sitemap.xml").text
    assert text.count("<lastmod>2026-05-01T00:00:00Z</lastmod>") == 1
    # other lists and pages are not found
    for path in [
        "items/2025",
        "items/undated",
        "items/2009?page=x",
        "items/2009?page=2026-13-01T00:00:00Z_1",
        "sitemap/1",
        "sitemap/184467440737096",
    ]:
        assert app.test_client().get(f"/ibi/{path}").status_code == 404


def test_an_item_is_as_new_as_its_arrival(new_app: Callable[..., Flask]) -> None:
    app = new_app()
    archive = archive_of(app)
    archive.init()
    # an item that was mentioned before, and one with a reserved identifier
    reserved = archive.reserve().rep
    expected = [archive.deposit(title="Rain 1", issued="2009", next_edition=rep(1)).rep]
    expected.append(archive.deposit(title="Rain 2", issued="2009").rep)
    import_records(archive, [{"rep": rep(1), **described("Rain 3", 2009)}])
    archive.deposit(title="Fog", issued="2009", reserved=reserved)
    archive.edit(expected[0], title="Drizzle")  # moves no item
    urls = [f"{BASE}/col/{ibi}/" for ibi in (*expected, rep(1), reserved)]
    for path in ("/ibi/items", "/ibi/newest", "/ibi/items/2009"):
        assert links(app, path) == urls[::-1]
    assert locations(app, "/ibi/sitemap.xml") == ("urlset", urls)
    archive.delete(expected[1], "withdrawn")
    import_records(archive, [{"rep": rep(2)}])
    del urls[1]
    assert links(app, "/ibi/newest") == [f"{BASE}/col/{rep(2)}/", *urls[::-1]]


def test_long_lists_have_several_pages(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    # a long list has several pages
    for path, expected in [
        ("/ibi/items/2009", [(4, 3), (2, 1), (0,)]),
        ("/ibi/newest", [(9, 5), (4, 3), (2, 1), (0,)]),
    ]:
        monkeypatch.setattr(crawl_lists, "SHOWN", 2)
        pages, client = [], app.test_client()
        while path:
            pages.append(links(app, path))
            response = client.get(path)
            # only the first page is for search engines
            assert ("X-Robots-Tag" in response.headers) == (len(pages) > 1)
            following = re.search(r'href="([^"]+)" rel="next"', response.text)
            path = following[1].removeprefix(BASE) if following else ""
        assert pages == [landing(*numbers) for numbers in expected]
    # a long sitemap has an index
    monkeypatch.setattr(crawl_lists, "SITEMAP_SIZE", 2)
    kind, parts = locations(app, "/ibi/sitemap.xml")
    assert kind == "sitemapindex"
    found = [locations(app, part.removeprefix(BASE)) for part in parts]
    assert all(kind == "urlset" and len(urls) in (1, 2) for kind, urls in found)
    assert [url for _, urls in found for url in urls] == landing(0, 1, 2, 3, 4, 5, 9)


@pytest.mark.postgresql
def test_a_search_finds_the_public_items_with_all_its_words(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = app.test_client()
    for query, expected in [
        ("rAin", (4, 3, 2, 1, 0)),
        ("RAIN+13.03", (3,)),
        (f"rain+{rep(2)}", (2,)),
        ("rain+%25", ()),  # no pattern
        ("x", ()),  # hidden, removed
        ("rain%00%ff", ()),
    ]:
        text = client.get(f"/ibi/items?q={query}").text
        found = re.findall(r'<li><a href="(/col/[^"]+)"', text)
        assert [BASE + path for path in found] == landing(*expected), query
        assert ("No item has these words" in text) == (not expected)
    # the form, the parts of a long list and the other languages keep the words
    monkeypatch.setattr(crawl_lists, "SHOWN", 3)
    first = client.get("/ibi/items?q=ra+in")
    assert first.headers["X-Robots-Tag"] == "noindex"
    assert 'value="ra in"' in first.text
    assert "/ibi/items?q=ra+in&amp;lang=pt" in first.text
    [following] = re.findall(r'href="([^"]+)" rel="next"', first.text)
    assert links(app, unescape(following).removeprefix(BASE)) == landing(1, 0)


@pytest.mark.postgresql
def test_the_search_reads_authors_and_subjects_and_shows_the_type_and_the_year(
    new_app: Callable[..., Flask],
) -> None:
    app = new_app()
    archive_of(app).init()
    fields = {
        "creators": ["Souza, Davi"],
        "subjects": ["Ice"],
        "type": "doctoral thesis",
        "issued": "2019",
    }
    ibi = archive_of(app).deposit(title="Rain", **fields).rep
    metadata = archive_of(app).deposit(title="Fog", content_type="Metadata").rep
    described = archive_of(app).deposit(metadata={"ibi": metadata}).rep
    # Dublin Core keeps the markup of other systems, which the search does not read
    title = "<i>Aedes</i> &amp; CO<sub>2</sub>"
    marked = archive_of(app).deposit(metadata={"dc": {"title": [title]}}).rep
    for words, found in (("souza ice", ibi), ("fog", described), ("co2 %26 aedes", marked)):
        assert links(app, f"/ibi/items?q={words}") == [f"{BASE}/col/{found}/"]
    assert "No item has these words" in app.test_client().get("/ibi/items?q=sub").text
    text = app.test_client().get("/ibi/items?q=davi").text
    assert "Souza, Davi · 2019 · Doctoral thesis" in text
    archive_of(app).edit(metadata, access={"networks": ["192.0.2.0/24"], "others": "none"})
    assert "No item has these words" in app.test_client().get("/ibi/items?q=fog").text


def test_an_empty_archive_and_one_that_changes(new_app: Callable[..., Flask]) -> None:
    app = new_app()
    archive_of(app).init()
    assert "no public items" in app.test_client().get("/ibi/items").text
    assert locations(app, "/ibi/sitemap.xml") == ("urlset", [f"{BASE}/ibi/items"])
    # an edit moves an item to another year
    ibi = archive_of(app).deposit(title="x", issued="2001").rep
    assert links(app, "/ibi/items/2001") == [f"{BASE}/col/{ibi}/"]
    archive_of(app).edit(ibi, issued="2002")
    assert app.test_client().get("/ibi/items/2001").status_code == 404
    assert links(app, "/ibi/items/2002") == [f"{BASE}/col/{ibi}/"]
    # a list needs few statements
    records = [{"rep": rep(n), **described("x", 1900 + n)} for n in range(40)]
    import_records(archive_of(app), records)
    for path, most in (("/ibi/items", 9), ("/ibi/items/1903", 7), ("/ibi/newest", 7)):
        client = app.test_client()
        client.get(path)
        assert len(count_statements(app, lambda: client.get(path))) <= most, path  # noqa: B023


def locations(app: Flask, path: str) -> tuple[str, list[str]]:
    response = app.test_client().get(path)
    assert response.status_code == 200
    root = etree.fromstring(response.data)
    return root.tag.removeprefix(SITEMAP), [one.text for one in root.iter(f"{SITEMAP}loc")]
