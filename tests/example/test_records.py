"""The items of the resolution report in the example; the answer of [R] Example 7.2."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flask import Flask
from flask.testing import FlaskClient
from support.commands import ROOT, command, environment
from support.example import close_example
from support.vectors import FOLDER
from support.web import without_key

from example_app.extensions import db

PAGE = (ROOT / "docs/try-the-example.rst").read_text(encoding="utf-8")
ANSWER = (FOLDER / "archive/example_7_2/answer1.txt").read_bytes()
#: The settings with which the Archive returns the whole answer of Example 7.2: by default, it
#: returns only what the resolver needs.
SETTINGS = {
    "FLASK_IBI_FILTER_URL_LIST": "false",
    "FLASK_IBI_RELATIONS": json.dumps(
        [
            "",
            ".lastedition",
            ".lastedition.metadata",
            ".lastedition.metadata(oai_dc)",
            ".metadata",
            ".metadata(oai_dc)",
            ".metadata.translation",
            ".translation(en)",
            ".translation(pt)",
        ]
    ),
}
COMMANDS = (
    ("init",),
    ("import", "--on-conflict", "skip", "example_app/records/items.jsonl"),
)
#: The URL in the page's curl command that asks an Archive.
[URL] = re.findall(r"^    curl '(http://localhost:[^']*urlRequest[^']*)'$", PAGE, re.MULTILINE)


def expected(host: str = "localhost:5000") -> bytes:
    """Return the answer of [R] Example 7.2 with the address of the example."""
    return without_key(ANSWER.replace(b"mtc-m16c.sid.inpe.br", host.encode()))


def urls_of(answer: bytes) -> dict[str, str]:
    """Return the URLs in an answer, with the name of each."""
    pairs = (line.split(" ", 1) for line in answer.decode().splitlines())
    return {name: value for name, value in pairs if name.partition(".")[0] == "url"}


def target_of(url: str) -> str:
    """Return the path and the query of a URL."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def create_app(patch: pytest.MonkeyPatch, folder: Path, **settings: str) -> Flask:
    """Return the example's app with settings from the environment."""
    wanted = environment(folder, **settings)
    for name in set(os.environ) - set(wanted):
        patch.delenv(name)
    for name, value in wanted.items():
        patch.setenv(name, value)
    patch.syspath_prepend(str(ROOT))
    app: Flask = importlib.import_module(wanted["FLASK_APP"]).create_app()
    return app


@pytest.fixture(scope="module")
def example_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the database of the example."""
    return tmp_path_factory.mktemp("example")


@pytest.fixture(scope="module")
def example(example_folder: Path) -> Iterator[Flask]:
    """The example, initialised and filled by its commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        app = create_app(patch, example_folder, **SETTINGS)
        with app.app_context():
            db.create_all()
        for words in COMMANDS:
            assert command(app, *words).status == 0
    yield app
    close_example(app)


@pytest.fixture(scope="module")
def client(example: Flask) -> FlaskClient:
    """A test client of the example."""
    return example.test_client()


def test_the_pages_request_is_answered_with_example_7_2(client: FlaskClient) -> None:
    answer = client.get(target_of(URL))
    assert (answer.status_code, answer.content_type) == (200, "text/plain")
    assert without_key(answer.data) == expected()
    assert answer.data != without_key(answer.data)


def test_every_url_in_the_answer_returns_content(client: FlaskClient) -> None:
    urls = urls_of(client.get(target_of(URL)).data)
    assert len(urls) == 9
    for name, url in urls.items():
        assert url.startswith("http://localhost:5000/")
        with client.get(target_of(url), follow_redirects=True) as answer:
            assert answer.status_code == 200
            if name.endswith("(oai_dc)"):
                assert answer.mimetype in ("application/xml", "text/xml")
                assert b"<oai_dc:dc" in answer.data
            elif ".metadata" in name:
                assert answer.mimetype == "text/html"
                assert b"CCSDS 643.0-B-1" in answer.data
            else:
                assert answer.mimetype == "application/pdf"
                assert answer.data.startswith(b"%PDF-")
                assert answer.data.rstrip().endswith(b"%%EOF")


def test_the_page_of_imported_items_links_to_their_pages(client: FlaskClient) -> None:
    links = imported_items(client)
    assert len(links) == 9
    for link, title in links:
        page = client.get(link)
        assert page.status_code == 200
        assert title in page.text
        assert "Vale University Repository" in page.text


def test_hidden_and_removed_items_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(monkeypatch, tmp_path)
    client = app.test_client()
    with app.app_context():
        db.create_all()
    assert command(app, "init").status == 0
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
    close_example(app)


def imported_items(client: FlaskClient) -> list[tuple[str, str]]:
    """Return the link and the title of each item on the page of imported items."""
    return re.findall(r'<li><a href="([^"]+)">(.*?)</a>', client.get("/imported").text)
