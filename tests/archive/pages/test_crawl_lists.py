"""The lists of items by year and the sitemap, for crawlers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree
from support.archives import archive_of, import_records, open_app
from support.cases import for_each
from support.shelf import Shelf
from support.statements import count_statements
from support.web import rep

from flask_ibi_archive import CatalogueRecord, IBIArchive
from flask_ibi_archive.archive.pages import lists as crawl_lists
from flask_ibi_archive.core.records.lines import parse_record

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
    return Shelf(
        *(
            CatalogueRecord(
                rep=one.rep,
                timestamp=one.timestamp,
                state=one.state,
                metadata=one.metadata,
                access=one.access,
                content_type=one.content_type,
                **({"tombstone": one.tombstone} if one.tombstone else {}),
            )
            for one in map(parse_record, RECORDS)
        )
    )


@pytest.fixture(params=["tables of the package", "catalogue of a host"])
def app(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> Iterator[Flask]:
    has_catalogue = request.param == "catalogue of a host"
    ibi = IBIArchive(catalogue=catalogue() if has_catalogue else None)
    with open_app(backend, tmp_path, ibi=ibi, PROPAGATE_EXCEPTIONS=True) as app:
        if not has_catalogue:
            import_records(archive_of(app), RECORDS)
        yield app


def links(app: Flask, path: str) -> list[str]:
    """Return the addresses of the links in the list of a page."""
    response = app.test_client().get(path)
    assert response.status_code == 200
    [items] = re.findall('<ul class="ibi-items">(.*?)</ul>', response.text, re.DOTALL)
    return re.findall(r'<li><a href="([^"]+)"', items)


def landing(*numbers: int) -> list[str]:
    return [f"{BASE}/col/{rep(number)}/" for number in numbers]


@pytest.mark.postgresql
def test_the_years_and_the_items_of_a_year(app: Flask) -> None:
    text = app.test_client().get("/ibi/items").text
    years = re.findall(r'<li><a href="([^"]+/ibi/items/[^"]+)"', text)
    assert years == [f"{BASE}/ibi/items/{year}" for year in (2012, 2009)]
    assert links(app, "/ibi/items") == landing(*NEWEST)
    assert links(app, "/ibi/items/2009") == landing(4, 3, 2, 1, 0)
    assert "Rain 4" in app.test_client().get("/ibi/items/2009").text
    # the year of an item may be that of its metadata item
    assert links(app, "/ibi/items/2012") == landing(9)


def test_the_newest_items(app: Flask) -> None:
    assert links(app, "/ibi/newest") == landing(*NEWEST)


@for_each("path", ["2025", "2010", "0", "10000", "undated"])
def test_other_years_are_not_found(app: Flask, path: str) -> None:
    assert app.test_client().get(f"/ibi/items/{path}").status_code == 404


@for_each(
    ("path", "expected"),
    [
        ("/ibi/items/2009", [(4, 3), (2, 1), (0,)]),
        ("/ibi/newest", [(9, 5), (4, 3), (2, 1), (0,)]),
    ],
)
def test_a_long_list_has_several_pages(
    app: Flask, monkeypatch: pytest.MonkeyPatch, path: str, expected: list[tuple[int, ...]]
) -> None:
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


@for_each("page", ["", "x", "2026_1", "2026-13-01T00:00:00Z_1", "2026-05-01T00:00:00Z_", "%C2%B2"])
def test_a_page_that_does_not_exist_is_not_found(app: Flask, page: str) -> None:
    assert app.test_client().get(f"/ibi/items/2009?page={page}").status_code == 404


def test_the_lists_say_which_year_they_mean(app: Flask) -> None:
    for path, heading in (
        ("", "All items by year of publication"),
        ("/2009", "Items published in 2009"),
    ):
        assert f"<h1>{heading}</h1>" in app.test_client().get(f"/ibi/items{path}").text


def test_the_first_and_the_last_year_of_the_calendar_have_pages(
    new_app: Callable[..., Flask],
) -> None:
    app = new_app()
    archive_of(app).init()
    records = [{"rep": rep(n), **described("x", year)} for n, year in enumerate((1001, 9999))]
    import_records(archive_of(app), records)
    assert links(app, "/ibi/items/9999") == landing(1)
    assert links(app, "/ibi/items/1001") == landing(0)


def test_an_edit_moves_an_item_to_another_year(new_app: Callable[..., Flask]) -> None:
    app = new_app()
    archive_of(app).init()
    ibi = archive_of(app).deposit(title="x", issued="2001").rep
    assert links(app, "/ibi/items/2001") == [f"{BASE}/col/{ibi}/"]
    archive_of(app).edit(ibi, issued="2002")
    assert app.test_client().get("/ibi/items/2001").status_code == 404
    assert links(app, "/ibi/items/2002") == [f"{BASE}/col/{ibi}/"]


def test_a_list_needs_few_statements(new_app: Callable[..., Flask]) -> None:
    app = new_app()
    archive_of(app).init()
    import_records(
        archive_of(app), [{"rep": rep(n), **described("x", 1900 + n)} for n in range(40)]
    )
    for path, most in (("/ibi/items", 5), ("/ibi/items/1903", 3), ("/ibi/newest", 3)):
        client = app.test_client()
        client.get(path)
        assert len(count_statements(app, lambda: client.get(path))) <= most, path  # noqa: B023


def locations(app: Flask, path: str) -> tuple[str, list[str]]:
    response = app.test_client().get(path)
    assert response.status_code == 200
    root = etree.fromstring(response.data)
    return root.tag.removeprefix(SITEMAP), [one.text for one in root.iter(f"{SITEMAP}loc")]


def test_the_sitemap_contains_the_public_pages(app: Flask) -> None:
    assert locations(app, "/ibi/sitemap.xml") == ("urlset", landing(0, 1, 2, 3, 4, 5, 9))
    text = app.test_client().get("/ibi/sitemap.xml").text
    assert text.count("<lastmod>2026-05-01T00:00:00Z</lastmod>") == 1


def test_a_long_sitemap_has_an_index(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawl_lists, "SITEMAP_SIZE", 2)
    kind, parts = locations(app, "/ibi/sitemap.xml")
    assert kind == "sitemapindex"
    found = [locations(app, part.removeprefix(BASE)) for part in parts]
    assert all(kind == "urlset" and len(urls) in (1, 2) for kind, urls in found)
    assert [url for _, urls in found for url in urls] == landing(0, 1, 2, 3, 4, 5, 9)


@for_each("number", ["1", "4000", "184467440737094", "184467440737096", "1" + 18 * "0", "9" * 99])
def test_other_sitemaps_are_not_found(app: Flask, number: str) -> None:
    assert app.test_client().get(f"/ibi/sitemap/{number}").status_code == 404


OAI = "/ibi/oai?verb=ListIdentifiers&metadataPrefix=oai_dc"
NUMBERS = st.one_of(st.integers(-2, 10_001), st.integers(-(10**30), 10**30)).map(str)
MOMENTS = st.builds(
    "{}-{}-{}{}{}".format,
    st.sampled_from(["0000", "0001", "1970", "2024", "2026", "9999", "10000"]),
    st.sampled_from(["00", "01", "12", "13"]),
    st.sampled_from(["00", "01", "31", "99"]),
    st.sampled_from(["", "T00:00:00", "T23:59:59", "T24:00:00", "T23:59:60", "T00:00:00.5"]),
    st.sampled_from(["", "Z", "+00:00", "%2B23:59", "-23:59", "%00"]),
)
VALUES = st.one_of(
    NUMBERS, MOMENTS, st.builds("{}_{}".format, MOMENTS, st.one_of(NUMBERS, st.text(max_size=3)))
)
NAMES = st.sampled_from(["page", "after", "until", "from", "by", "format", "choice", "verb"])
ADDRESSES = st.one_of(
    st.builds("/ibi/items/{}".format, NUMBERS),
    st.builds("/ibi/sitemap/{}".format, NUMBERS),
    st.sampled_from(
        ["/ibi/items", "/ibi/items/2009", "/ibi/items/9999", "/ibi/items/1", "/ibi/sitemap.xml",
         "/ibi/newest", "/ibi/statistics", OAI,
         *(f"/col/{rep(0)}/{page}" for page in ("", "files", "metadata", "statistics"))]
    ),
)  # fmt: skip


@example("/ibi/newest", [("page", "0001-01-01T00:00:00%2B23:59_1")])
@example("/ibi/items/2009", [("page", "0001-01-01T00:00:00%2B23:59_1")])
@example("/ibi/sitemap/1000000000000000000", [])
@example(OAI, [("until", "9999-12-31")])
@example(OAI, [("until", "9999-12-31T23:59:59Z")])
@example(OAI, [("from", "0001-01-01")])
@given(address=ADDRESSES, query=st.lists(st.tuples(NAMES, VALUES), max_size=3))
def test_no_number_or_date_in_an_address_is_an_error_of_the_server(
    app: Flask, address: str, query: list[tuple[str, str]]
) -> None:
    mark = "&" if "?" in address else "?"
    target = address + mark + "&".join(f"{name}={value}" for name, value in query)
    assert app.test_client().get(target).status_code < 500, target


def test_an_empty_archive(new_app: Callable[..., Flask]) -> None:
    app = new_app()
    archive_of(app).init()
    assert "no public items" in app.test_client().get("/ibi/items").text
    assert locations(app, "/ibi/sitemap.xml") == ("urlset", [f"{BASE}/ibi/items"])
