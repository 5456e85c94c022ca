"""The pages: well formed, in the reader's language, and without external resources."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of, close, make_app
from support.pages import MARKED, NAMES, TAG, list_unmarked_words, list_words, marked_language, see
from support.web import (
    CLOSED,
    EMPTY,
    GONE,
    HIDDEN,
    HOSTILE,
    METADATA,
    NEW,
    NOBODY,
    OLD,
    OUTSIDE,
    REPORT,
    REPORT_ALIAS,
    SERVED_ELSEWHERE,
    SERVICE_PATH,
    TRAP,
    UNLISTED,
    URL_METADATA,
    WITH_METADATA,
    ask,
    follow,
    shelf,
)

HOST = "http://mtc-m16c.sid.inpe.br/"

#: The path after ``/col/<ibi>/``, the IBI, the status, and the address of the user.
PAGES = [
    *(
        ("", ibi, 200, "")
        for ibi in (REPORT, EMPTY, METADATA, OLD, NEW, WITH_METADATA, URL_METADATA)
    ),
    *(("", ibi, 200, "") for ibi in (SERVED_ELSEWHERE, TRAP, UNLISTED, SERVICE_PATH[1:])),
    *(("", ibi, 404, "") for ibi in (NOBODY, "8JMKD3MGP8W/35MME4V")),
    *(("files", ibi, 200, "") for ibi in (REPORT, EMPTY, UNLISTED)),
    ("", CLOSED, 200, OUTSIDE),
    ("", HIDDEN, 403, OUTSIDE),
    ("", GONE, 410, ""),
    ("files", CLOSED, 403, OUTSIDE),
    ("files", GONE, 410, ""),
    ("metadata", REPORT, 200, ""),
    ("metadata", EMPTY, 404, ""),
    ("metadata?choice=marc", EMPTY, 404, ""),
    ("doc/none", REPORT, 404, ""),
    ("doc/named.pdf", SERVED_ELSEWHERE, 404, ""),
]


@pytest.mark.slow
def test_every_page_is_well_formed_and_completely_translated(web: Flask, tmp_path: Path) -> None:
    for rest, ibi, status, remote in PAGES:
        page = see(web, f"/col/{ibi}/{rest}", status, "pt", remote=remote or OUTSIDE)
        assert page.html == {"lang": "pt"}
        if status != 200:  # an error page has links that work
            here = [link for link in page.links if link.startswith((HOST, "/"))]
            assert {follow(web, link).status for link in here} <= {200, 302}, (ibi, rest)
    # no page has text without a translation
    for path, remote in [
        *((f"/col/{ibi}/{rest}", remote or OUTSIDE) for rest, ibi, _, remote in PAGES),
        (f"/col/{REPORT}/files?format=x", OUTSIDE),
        (f"/col/{REPORT}/statistics", OUTSIDE),
        (f"/col/{REPORT}/statistics?by=x", OUTSIDE),
        *((f"/ibi/{name}", OUTSIDE) for name in ("statistics", "items", "newest?page=1")),
    ]:
        records = str(shelf(tmp_path))
        # lists of files contain the extensions, such as PDF
        data = list_words(f"{HOST} {records} {records.upper()} {path}")
        with marked_language():
            text = ask(web, path, headers=MARKED, remote=remote).text
        assert f'lang="{TAG}"' in text
        assert list_unmarked_words(text) - data <= NAMES


@pytest.mark.rule("R72-26")
def test_links_titles_and_addresses(web: Flask) -> None:
    page = see(web, f"/col/{REPORT_ALIAS}/")
    assert page.text("h1") == page.text("title") == "A report"
    files = [link for link in page.links if "/doc/" in link]
    assert len(files) > 10
    # markup in a title is escaped
    for rest in ["", "metadata", "files"]:
        page = see(web, f"/col/{NEW}/{rest}")
        assert " ".join(HOSTILE.split()) in " ".join(page.text("h1").split())
        assert HOSTILE in page.text("title")
    # the owner hides the list of files, not the files
    for language, text in (("en", "does not allow its list"), ("pt", "não permite a divulgação")):
        for rest in ("files", ""):
            page = see(web, f"/col/{UNLISTED}/{rest}", language=language)
            assert text in page.text("p")
            assert not [link for link in page.links if "old.txt" in link]
    assert ask(web, f"/col/{UNLISTED}/doc/old.txt").status == 200
    # the page of an unknown item links to what was probably meant
    for ibi, links in (
        (NOBODY.upper(), [f"http://urlib.net/{NOBODY}"]),
        ("8JMKD3MGP8W/35MME4V", ["http://urlib.net/8JMKD3MGP8W/35MME4U"]),
        ("8JMKD3MGP8W/35MME4I", []),
    ):
        assert see(web, f"/col/{ibi}/", 404).links == ["/ibi/items", *links]
    # an address without its last slash is redirected, with the path of a mounted app
    base = "http://evil.example/r%C3%A9po"
    answer = web.test_client().get(f"/col/{REPORT}?x=%F3", base_url=base)
    assert answer.status_code == 308
    assert answer.headers["Location"] == f"/r%C3%A9po/col/{REPORT}/?x=%F3"
    assert ask(web, f"//evil.example//{REPORT}").headers.get("Location") is None


def test_it_leads_to_the_list_of_items_unless_the_app_has_a_page(uri: str, tmp_path: Path) -> None:
    def add_home(app: Flask) -> None:
        app.add_url_rule("/", "home", lambda: "the app's own")

    app = make_app(uri, tmp_path)
    archive_of(app).init()
    assert ask(app, "/").headers["Location"] == "/ibi/items"
    assert ask(app, "/", "POST").status in (404, 405)
    close(app)
    for order in ["before", "after"]:
        app = make_app(uri, tmp_path, **{order: add_home})
        assert ask(app, "/").text == "the app's own"
        assert see(app, f"/col/{NOBODY}/", 404).all_links[1] == "/"
        close(app)
