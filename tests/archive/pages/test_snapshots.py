"""The pages and documents of some items as a whole: heads, texts and metadata.

``pytest tests/archive/pages/test_snapshots.py --snapshot-update`` writes the expected pages again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, import_records, open_app
from support.web import OUTSIDE, ask, rep, shelf

FIRST, SECOND, TRANSLATION, METADATA, GONE, COPY, BARE, UNKNOWN = map(rep, range(1, 9))
UNLISTED, BARE_GONE, CLOSED = map(rep, range(9, 12))
#: The paths of pages, by what they show.
PAGES = {
    "a former edition": f"{FIRST}/",
    "an item whose metadata are an item": f"{TRANSLATION}/",
    "metadata that are an item": f"{METADATA}/",
    "a copy with an embargo": f"{COPY}/",
    "an item without a description": f"{BARE}/",
    "a secret list of files": f"{UNLISTED}/files",
    "files": f"{SECOND}/files",
    "metadata": f"{SECOND}/metadata",
    "a hidden item": f"{CLOSED}/",
    "a tombstone": f"{GONE}/",
    "a tombstone without a description": f"{BARE_GONE}/",
    "an unknown item": f"{UNKNOWN}/",
    "a typing error": "8JMKD3MGP8W/35MME4V/",
    "an unknown file": f"{SECOND}/doc/none.pdf",
}
#: What differs from run to run: the day of access, and the versions of static files.
CHANGING = re.compile(r"(?<=Accessed on: )\d+ \w+\.? \d{4}|(?<=\?v=)[0-9a-f]{12}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An app with an item of each kind."""
    folder = tmp_path_factory.mktemp("site")
    with open_app("sqlite", folder) as app:
        import_records(archive_of(app), shelf(folder / "sources", "pages/sites.json"))
        yield app


def read(app: Flask, path: str) -> str:
    """Return a page for a browser, without what differs from run to run."""
    text = ask(app, f"/col/{path}", headers={"Accept": "text/html"}, remote=OUTSIDE).text
    return re.sub(r"\n\s*\n", "\n", CHANGING.sub("...", text))


@pytest.mark.rule("R72-26")
def test_the_main_parts_of_pages(site: Flask, snapshot: Any) -> None:
    for name, path in PAGES.items():
        main = read(site, path).partition("<main")[2].partition("</main>")[0]
        assert main == snapshot(name=name)


def test_a_landing_page_with_its_head_and_links(site: Flask, snapshot: Any) -> None:
    assert read(site, f"{SECOND}/") == snapshot(name="page")
    [links] = ask(site, f"/col/{SECOND}/").headers.getlist("Link")
    assert links.split(", ") == snapshot(name="Link")


def test_the_metadata_of_an_item_in_each_format(site: Flask, snapshot: Any) -> None:
    for format in archive_of(site).formats:
        answer = ask(site, f"/col/{SECOND}/metadata?choice={format.name}")
        assert answer.status == 200
        assert answer.text == snapshot(name=format.name)
