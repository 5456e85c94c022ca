"""The items of the resolution report in the example; the answer of [R] Example 7.2."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flask import Flask
from flask.testing import FlaskClient
from support.commands import ROOT, command
from support.vectors import FOLDER
from support.web import without_key

from .conftest import example_repository

PAGE = (ROOT / "docs/try-the-example.rst").read_text(encoding="utf-8")
ANSWER = (FOLDER / "archive/example_7_2/answer1.txt").read_bytes()
#: The relations of the whole answer: by default, an Archive returns what the resolver needs.
RELATIONS = [
    *("", ".lastedition", ".lastedition.metadata", ".lastedition.metadata(oai_dc)"),
    *(".metadata", ".metadata(oai_dc)", ".metadata.translation"),
    *(".translation(en)", ".translation(pt)"),
]
#: The URL in the page's curl command that asks an Archive.
[URL] = re.findall(r"^    curl '(http://localhost:[^']*urlRequest[^']*)'$", PAGE, re.MULTILINE)


@pytest.fixture
def app(uri: str, tmp_path: Path) -> Iterator[Flask]:
    """The example with the settings for the whole answer."""
    settings = {"IBI_FILTER_URL_LIST": False, "IBI_RELATIONS": RELATIONS}
    with example_repository(uri, tmp_path, **settings) as app:
        yield app


def target_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def test_the_pages_request_is_answered_with_example_7_2_whose_urls_return_content(
    app: Flask,
) -> None:
    assert command(app, "import", ROOT / "example_app/records/items.jsonl").status == 0
    client = app.test_client()
    answer = client.get(target_of(URL))
    assert (answer.status_code, answer.content_type) == (200, "text/plain")
    expected = ANSWER.replace(b"mtc-m16c.sid.inpe.br", b"localhost:5000")
    assert without_key(answer.data) == without_key(expected)
    urls = re.findall(r"^(url\S*) (\S+)", answer.text, re.MULTILINE)
    urls = [(name, url) for name, url in urls if name.partition(".")[0] == "url"]
    assert len(urls) == 9
    for name, url in urls:
        with client.get(target_of(url), follow_redirects=True) as content:
            assert content.status_code == 200
            kind = "(oai_dc)" if name.endswith("(oai_dc)") else ".metadata" in name
            begin = {"(oai_dc)": b"<oai_dc:dc", True: b"CCSDS 643.0-B-1", False: b"%PDF-"}[kind]
            assert begin in content.data
    links = imported_items(client)
    assert len(links) == 9
    for link, title in links:
        assert title in client.get(link).text


def test_hidden_and_removed_items_are_not_listed(app: Flask) -> None:
    client = app.test_client()
    assert "There are none yet" in client.get("/imported").text
    rep = "sid.inpe.br/mtc-m18@80/2009/07.21.13."
    hidden = {"networks": ["0.0.0.0/0"], "others": "none"}
    records: list[dict[str, object]] = [
        {"rep": f"{rep}01", "metadata": {"dc": {"title": ["<Added> & found"]}}},
        {
            "rep": f"{rep}02",
            "metadata": {"dc": {"title": ["Gone"]}},
            "state": "Deleted",
            "timestamp": "2010-01-01T00:00:00Z",
        },
        {"rep": f"{rep}03", "metadata": {"dc": {"title": ["Hidden"]}}, "access": hidden},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    assert command(app, "import", "-", stdin=lines.encode()).status == 0
    assert [title for _, title in imported_items(client)] == ["&lt;Added&gt; &amp; found"]


def imported_items(client: FlaskClient) -> list[tuple[str, str]]:
    """Return the link and the title of each item on the page of imported items."""
    return re.findall(r'<li><a href="([^"]+)">(.*?)</a>', client.get("/imported").text)
