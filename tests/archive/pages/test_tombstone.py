"""Tombstones: the pages of removed items, and the answers of the service for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of, close, import_records, make_app
from support.commands import command
from support.pages import see
from support.web import INSIDE, NETWORK, NOBODY, OUTSIDE, ask, rep

#: The citation of the removed item.
CITATION = "Banon, G. A report. São José dos Campos, 2009.\nInstead: <http://urlib.net/x>"
REASON = "It was withdrawn <b>by its authors</b>"
BASE = "http://urlib.net/"
#: The addresses of an item, after ``/col/<ibi>/``, except those of its description.
ADDRESSES = ("", "files", "statistics", "doc/report.txt", "doc/none.txt", "doc/%ff", "doc/../x")


@pytest.fixture
def removed(app: Flask, tmp_path: Path) -> tuple[str, str]:
    """The identifiers of an item that commands deposited and then deleted."""
    report = tmp_path / "report.txt"
    report.write_text("report")
    words = ("--title", "A report", "--creator", "Banon, G.", "--language", "en")
    [line] = command(app, "add", report, *words).lines
    for name in ("", "files", "metadata", "doc/report.txt"):
        assert ask(app, f"/col/{line.split(chr(9))[0]}/{name}").status == 200
    ibi, ibip = line.split("\t")
    words = ("--reason", REASON, "--citation", CITATION, "--successor", NOBODY.upper())
    assert command(app, "delete", ibip, "--yes", *words).status == 0
    return ibi, ibip


def test_the_pages_of_a_removed_item(app: Flask, removed: tuple[str, str]) -> None:
    # every address of a removed item answers 410
    for method, ibi in (("GET", removed[0].upper()), ("HEAD", removed[1].lower())):
        for address in ADDRESSES:
            answer = ask(app, f"/col/{ibi}/{address}", method)
            assert answer.status == 410, address
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            assert answer.headers["Link"] == f'<{BASE}{NOBODY}>; rel="successor-version"'
            assert (answer.body == b"") == (method == "HEAD")
    # the page shows item, date, reason and successor
    shown = json.loads(command(app, "show", removed[0], "--json").data)
    page = see(app, f"/col/{removed[1]}/", 410)
    assert REASON in page.text("p")
    assert CITATION in page.text("p")
    [moment] = [attributes for tag, attributes in page.tags if tag == "time"]
    assert moment["datetime"] == shown["timestamp"].replace("Z", "+00:00")
    assert page.links[1:3] == [f"{BASE}{NOBODY}", f"{BASE}{removed[1]}"]
    # the description of a removed item stays readable
    assert "Banon, G." in see(app, f"/col/{removed[1]}/metadata").text("dd")
    for format in archive_of(app).formats:
        answer = ask(app, f"/col/{removed[0]}/metadata?choice={format.name}")
        assert answer.status == 200, format.name
        assert "a report" in answer.text.lower(), format.name
    assert ask(app, f"/col/{removed[0]}/metadata?choice=marc").status == 404


def test_tombstones_and_copies_of_other_kinds(app: Flask) -> None:
    # the description of a removed item may be in a metadata item
    metadata = {"rep": rep(2), "content_type": "Metadata"}
    metadata["metadata"] = {"dc": {"title": ["A report"], "creator": ["Banon, G."]}}
    import_records(archive_of(app), [{"rep": rep(1), "metadata": {"ibi": rep(2)}}, metadata])
    archive_of(app).delete(rep(1), "withdrawn")
    assert "A report" in see(app, f"/col/{rep(1)}/", 410).text("p")
    for address in ("metadata", "metadata?choice=oai_dc", "metadata?choice=bibtex"):
        assert "A report" in ask(app, f"/col/{rep(1)}/{address}").text, address
    # a removed metadata item describes itself only
    import_records(archive_of(app), [{"rep": rep(3), "metadata": {"ibi": rep(2)}}])
    archive_of(app).delete(rep(2), "withdrawn")
    assert "A report" in see(app, f"/col/{rep(2)}/metadata").text("dd")
    assert "A report" not in ask(app, f"/col/{rep(3)}/").text
    assert ask(app, f"/col/{rep(3)}/metadata").status == 404
    # a tombstone may have a next edition instead of a successor and no reason
    import_records(archive_of(app), [deleted(rep(11), next_edition=rep(12)), {"rep": rep(12)}])
    page = see(app, f"/col/{rep(11)}/", 410)
    edition = f"/col/{rep(12)}/"
    assert page.links == ["/ibi/items", edition, BASE + rep(11), BASE + rep(11)]
    assert "Next edition" in page.text("p")
    assert "Reason" not in page.text("strong")
    assert page.text("title") == f"This item was removed: {rep(11)}"
    assert ask(app, f"/col/{rep(11)}/").headers["Link"] == (
        f'<{BASE}{rep(12)}>; rel="successor-version"'
    )
    # a successor may be named by its short form
    pair = archive_of(app).deposit(title="Rain"), archive_of(app).deposit(title="Fog")
    archive_of(app).delete(pair[0], "An error.", successor=pair[1].ibip)
    assert "Fog" in see(app, f"/col/{pair[0].ibi}/", 410).text("cite")
    import_records(archive_of(app), [deleted(rep(13))])
    assert "Link" not in ask(app, f"/col/{rep(13)}/").headers
    # without the status, the resolver may choose the copy again
    far = "sid.inpe.br/mtc-m99@80/2009/07.21.13.00"
    import_records(archive_of(app), [{"rep": rep(21), "state": "Copy", "original_archive": far}])
    original = f"{BASE}{rep(21)}?ibiurl.requireditemstatus=Original"
    assert original in see(app, f"/col/{rep(21)}/").links
    answer = ask(app, original.removeprefix(BASE[:-1]))
    assert (answer.status, answer.headers["Location"]) == (302, original)


@pytest.mark.parametrize("others", ["none", "metadata"])
def test_the_rule_of_a_removed_item_hides_its_description(app: Flask, others: str) -> None:
    rule = {"networks": [NETWORK], "others": others}
    record = {"rep": rep(1), "metadata": {"dc": {"title": ["Secret"]}}, "access": rule}
    import_records(archive_of(app), [record])
    archive_of(app).delete(rep(1), "withdrawn")
    for address in ("metadata", "metadata?choice=oai_dc"):
        inside, outside = (
            ask(app, f"/col/{rep(1)}/{address}", remote=user) for user in (INSIDE, OUTSIDE)
        )
        assert (inside.status, "Secret" in inside.text) == (200, True)
        assert ("Secret" in outside.text) == (others == "metadata")


def deleted(ibi: str, **fields: object) -> dict[str, object]:
    """Return the record of a removed item."""
    moment = {"timestamp": "2010-01-02T03:04:05Z"}
    return {"rep": ibi, "state": "Deleted", **moment, **fields}


def test_a_tombstone_names_whom_to_ask(uri: str, tmp_path: Path) -> None:
    app = make_app(uri, tmp_path, IBI_ARCHIVE_ADMIN_EMAIL="library@example.org")
    archive_of(app).init()
    import_records(archive_of(app), [deleted(rep(1))])
    text = ask(app, f"/col/{rep(1)}/").text
    assert '<a href="mailto:library@example.org?subject=http%3A//urlib.net/' in text
    close(app)
