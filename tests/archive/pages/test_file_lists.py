"""The list of files of an item: as pages, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from flask import Flask
from support.archives import archive_of, import_records
from support.pages import Page, see
from support.web import EMPTY, UNLISTED, ask, rep

HOST = "http://mtc-m16c.sid.inpe.br/"


@pytest.mark.rule("R72-26")
def test_a_secret_list_of_files_says_so_in_text_and_json_too(web: Flask) -> None:
    text = "The owner of the item does not allow its list of files to be shown."
    address = f"/col/{UNLISTED}/files"
    answer = ask(web, f"{address}?format=text")
    assert (answer.status, answer.text) == (200, f"# {text}\n")
    found = json.loads(ask(web, address, headers={"Accept": "application/json"}).body)
    assert found == {"ibi": UNLISTED, "files": None, "message": text}
    # an item without files has a list, which is empty
    assert json.loads(ask(web, f"/col/{EMPTY}/files?format=json").body)["files"] == []
    answer = ask(web, f"{address}?format=text&lang=pt")
    assert "não permite a divulgação" in answer.text
    assert answer.headers["Content-Language"] == "pt"
    assert {"Accept", "Accept-Language"} <= set(answer.headers["Vary"].split(", "))


@pytest.fixture
def many_files(new_app: Callable[..., Flask]) -> Flask:
    """An app with an item that has 250 files."""
    app = new_app()
    archive_of(app).init()
    files = [{"path": f"{n}.csv", "url": f"https://example.org/{n}"} for n in range(1, 251)]
    described = {"metadata": {"dc": {"title": ["Rain"], "type": ["Dataset"]}}}
    import_records(archive_of(app), [{"rep": rep(1), "files": files, **described}])
    return app


def names_of(page: Page) -> list[str]:
    return [link.rpartition("/")[2] for link in page.links if "/doc/" in link]


def test_a_long_list_of_files_has_several_pages(many_files: Flask) -> None:
    # a long list of files has several pages
    address, seen = f"/col/{rep(1)}/files", []
    for number, shown in enumerate(("1 to 100", "101 to 200", "201 to 250"), 1):
        page = see(many_files, f"{address}?page={number}" if number > 1 else address)
        assert f"Files {shown} of 250" in page.text("p")
        seen += names_of(page)
        linked = [link for link in page.links if "?page=" in link]
        others = [other for other in (number - 1, number + 1) if 1 <= other <= 3]
        assert linked == [f"{HOST}{address[1:]}?page={other}" for other in others]
    assert seen == [f"{number}.csv" for number in range(1, 251)]
    for number in ("4", "0", "-1", "01", "x", "", "9" * 5000, "%F3"):
        see(many_files, f"{address}?page={number}", 404)
    # the forms for programs are complete
    assert ask(many_files, f"{address}?format=text").text.count("\n") == 250
    assert len(json.loads(ask(many_files, f"{address}?format=json").body)["files"]) == 250
    # the landing page shows the first of many files
    page = see(many_files, f"/col/{rep(1)}/")
    assert names_of(page) == [f"{number}.csv" for number in range(1, 51)]
    assert f"{HOST}col/{rep(1)}/files" in page.links
    assert "All 250 files" in page.text("a")
    assert page.source.count("contentUrl") == 50
