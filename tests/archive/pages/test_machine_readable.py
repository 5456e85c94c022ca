"""Programs find metadata and files of an item from its landing page."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from link_header import parse
from lxml import html
from support.archives import archive_of, import_records
from support.web import EMPTY, INSIDE, NETWORK, NOBODY, OUTSIDE, REPORT, Answer, ask, rep, source
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.core.records.formats import BUILT_IN
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.server.web.negotiation import choose_format, prefers_metadata

ORIGIN = "http://mtc-m16c.sid.inpe.br"
MARC = {
    "media_type": "application/marcxml+xml",
    "schema": "http://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd",
    "namespace": "http://www.loc.gov/MARC21/slim",
}
FORMATS: dict[str, str | None] = {format.name: format.media_type for format in BUILT_IN}
CHROME = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;"
    "q=0.8,application/signed-exchange;v=b3;q=0.7"
)
#: The default of R's httr.
HTTR = "application/json, text/xml, application/xml, */*"


class Head:
    """The elements of the head of a page."""

    def __init__(self, text: str) -> None:
        root = html.document_fromstring(text)
        names = [one for one in root.iter("meta") if "name" in one.attrib]
        self.meta = [(one.get("name"), one.get("content"), one.get("lang")) for one in names]
        self.links = {one.get("rel"): one.get("href") for one in root.iter("link")}
        self.json_ld = "".join(root.xpath('//script[@type="application/ld+json"]/text()'))

    def values(self, name: str) -> list[str]:
        return [content for found, content, _ in self.meta if found == name]


def links_of(answer: Answer) -> dict[str, list[str]]:
    """Return the targets of the Link header of an answer, by relation."""
    found: dict[str, list[str]] = {}
    [header] = answer.headers.getlist("Link")
    for link in parse(header).links:
        found.setdefault(link.rel, []).append(link.href)
    return found


def test_the_quality_values_decide_the_format() -> None:
    for accept, expected in [
        (CHROME, ""),
        ("application/json", "json-ld"),
        ("application/x-bibtex, text/html;q=0.9", "bibtex"),
        ("text/html;q=0, application/xhtml+xml;q=0, */*;q=0.1", "oai_dc"),
        ("text/html;q=0", None),
    ]:
        assert choose_format(parse_accept_header(accept, MIMEAccept), FORMATS) == expected
    # only who wants nothing else as much is led to the metadata
    for accept, file_type, expected in [
        (CHROME, None, False),
        ("application/x-bibtex, */*;q=0.1", None, True),
        ("application/x-bibtex;q=0", None, False),
        ("application/*", None, False),
        ("application/json", "application/json", False),
    ]:
        assert prefers_metadata(parse_accept_header(accept, MIMEAccept), file_type) is expected


#: The addresses at which a client negotiates: the persistent URL, the page, a file, the metadata.
PLACES = (
    f"/{REPORT}",
    f"/col/{REPORT}/",
    f"/col/{REPORT}/doc/report.pdf",
    f"/col/{REPORT}/metadata",
)


def test_a_program_is_redirected_to_the_metadata_it_prefers(web: Flask) -> None:
    for name, first in [("bibtex", place) for place in PLACES] + [
        (name, PLACES[0]) for name in FORMATS
    ]:
        media_type = str(FORMATS[name])
        answer = ask(web, first, headers={"Accept": media_type})
        assert answer.status == (302 if first == PLACES[0] else 303)
        assert "Accept" in answer.headers["Vary"]
        place = answer.headers["Location"]
        assert place == f"{ORIGIN}/col/{REPORT}/metadata?choice={name}"
        found = ask(web, place.removeprefix(ORIGIN))
        assert found.status == 200
        assert found.headers["Content-Type"].partition(";")[0] == media_type
        extension = next(format.extension for format in BUILT_IN if format.name == name)
        assert found.headers["Content-Disposition"].endswith(f'.{extension}"')
        assert links_of(found)["describes"] == [f"{ORIGIN}/col/{REPORT}/"]
    # the answer has the type that the client named
    for name, media_type in [
        ("json-ld", "application/json"),
        ("bibtex", "text/x-bibtex"),
        ("bibtex", CHROME),
    ]:
        address = f"/col/{REPORT}/metadata?choice={name}"
        answer = ask(web, address, headers={"Accept": media_type})
        expected = FORMATS[name] if media_type == CHROME else media_type
        assert answer.headers["Content-Type"].partition(";")[0] == expected
        assert "Accept" in answer.headers["Vary"]
    # a browser gets the page or the file
    for place in PLACES:
        for accept in (CHROME, HTTR, "*/*", "application/pdf, text/html"):
            answer = ask(web, place, headers={"Accept": accept})
            assert answer.status == (302 if place == PLACES[0] else 200)
            assert "choice=" not in answer.headers.get("Location", "")
            assert "Accept" in answer.headers["Vary"]


def test_a_program_that_wants_a_description_gets_no_file(web: Flask) -> None:
    turtle = "application/rdf+xml, text/turtle;q=0.9"
    for accept, url in [
        (turtle, f"{ORIGIN}/col/{REPORT}/metadata"),
        (f"{turtle}, */*;q=0.1", f"{ORIGIN}/col/{REPORT}/metadata"),
        (f"{turtle}, application/x-bibtex;q=0.5", f"{ORIGIN}/col/{REPORT}/metadata?choice=bibtex"),
        ("application/pdf", f"{ORIGIN}/col/{REPORT}/doc/report.pdf"),
    ]:
        answer = ask(web, f"/{REPORT}", headers={"Accept": accept})
        assert answer.headers["Location"] == url
        # programs in browsers may follow it from any site
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        if accept != "application/pdf":
            page = ask(web, url.removeprefix(ORIGIN), headers={"Accept": accept})
            assert page.status == 200
            file = ask(web, f"/col/{REPORT}/doc/report.pdf", headers={"Accept": accept})
            assert file.status == 303
    assert "Access-Control-Allow-Origin" in ask(web, f"/{NOBODY}").headers


def test_the_links_and_the_head_of_a_landing_page(web: Flask) -> None:
    # a program that accepts nothing of it gets 406 and the list
    for ibi, accept in ((REPORT, "image/png"), (EMPTY, "application/ld+json")):
        answer = ask(web, f"/col/{ibi}/", headers={"Accept": accept})
        assert answer.status == 406
        assert "cite-as" in links_of(answer)
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        first, *listed = answer.text.splitlines()
        assert first.endswith(" is not available in the requested form. It is available as:")
        assert listed[0] == f"text/html {ORIGIN}/col/{ibi}/"
    listed = ask(web, f"/col/{REPORT}/", headers={"Accept": "image/png"}).text.splitlines()[2:]
    assert [line.split(" ")[0] for line in listed] == [*FORMATS.values()]
    for line in listed:
        media_type, url = line.split(" ")
        found = ask(web, url.removeprefix(ORIGIN))
        assert found.headers["Content-Type"].partition(";")[0] == media_type
    assert ask(web, f"/col/{REPORT}/metadata", headers={"Accept": "image/png"}).status == 406
    assert ask(web, f"/col/{REPORT}/", headers={"Accept": CHROME}).status == 200
    # the links and the head of a landing page
    # the links of a landing page lead to its parts
    answer = ask(web, f"/col/{REPORT}/")
    assert "Accept" in answer.headers["Vary"]
    found = links_of(answer)
    assert len(found["cite-as"]) == 1
    assert len(found["describedby"]) == len(FORMATS)
    for url in (*found["describedby"], *found["item"]):
        part = ask(web, url.removeprefix(ORIGIN))
        assert part.status == 200, url
        assert links_of(part)["cite-as"] == found["cite-as"]


#: A function that creates an app with records.
Create = Callable[..., Flask]
HOSTILE = '</script><script>alert(1)</script><!-- "&\u2028 😀'


@pytest.fixture
def new_shelf(new_app: Create) -> Create:
    """A function that creates an app with records, for an extension object of the test."""

    def create(*records: dict[str, Any], ibi: IBIArchive | None = None) -> Flask:
        app = new_app(ibi=ibi)
        archive_of(app).init()
        import_records(archive_of(app), list(records))
        return app

    return create


def test_formats_and_tags_show_what_the_reader_may_see(new_shelf: Create, tmp_path: Path) -> None:
    # json ld never ends its element
    app = new_shelf({"rep": rep(1), "metadata": {"dc": {"title": [HOSTILE]}}})
    answer = ask(app, f"/col/{rep(1)}/")
    assert json.loads(Head(answer.text).json_ld)["name"] == " ".join(HOSTILE.split())
    assert answer.text.count("</script>") == 2
    # hidden items show nothing in links tags and formats
    hidden = {
        "rep": rep(11),
        "metadata": {"dc": {"title": ["Secret"]}},
        "access": {"networks": [NETWORK], "others": "none"},
        "files": [{"path": "report.pdf", "source": source(tmp_path / "s", "report.pdf")}],
    }
    closed = {**hidden, "rep": rep(12), "access": {"networks": [NETWORK]}}
    app = new_shelf(hidden, closed)
    for accept in ("text/html", *filter(None, FORMATS.values()), "image/png"):
        for rest in ("", "metadata", "doc/report.pdf"):
            answer = ask(app, f"/col/{rep(11)}/{rest}", headers={"Accept": accept}, remote=OUTSIDE)
            assert answer.status == 403
            assert "Secret" not in answer.text
            assert not set(answer.headers.keys()) & {"Link", "Location"}
    for name in FORMATS:
        for ibi in (rep(11), rep(12)):
            answer = ask(app, f"/col/{ibi}/metadata?choice={name}", remote=OUTSIDE)
            assert "report.pdf" not in answer.text + str(answer.headers)
    for remote, shows in ((INSIDE, True), (OUTSIDE, False)):
        answer = ask(app, f"/col/{rep(12)}/", remote=remote)
        assert ("item" in links_of(answer)) is shows
        assert (Head(answer.text).values("citation_pdf_url") != []) is shows
        assert ("report.pdf" in answer.text) is shows
    # a format of the host is served and listed
    ibi = IBIArchive()

    @ibi.metadata_format("plain", media_type="text/plain", extension="txt", label="Text")
    def write_plain(work: Work) -> bytes:
        return work.title.encode()

    app = new_shelf({"rep": rep(21), "metadata": {"dc": {"title": ["Rain"]}}}, ibi=ibi)
    assert ask(app, f"/col/{rep(21)}/metadata?choice=plain").text == "Rain"
    page = ask(app, f"/col/{rep(21)}/")
    assert f"{ORIGIN}/col/{rep(21)}/metadata?choice=plain" in links_of(page)["describedby"]
    assert ">Text</a>" in page.text


@pytest.mark.parametrize("result", [ValueError("no author"), None, 7])
def test_an_error_of_the_host_is_logged_and_the_document_is_an_error_page(
    new_shelf: Create, caplog: pytest.LogCaptureFixture, result: object
) -> None:
    ibi = IBIArchive()

    @ibi.metadata_format("marcxml", **MARC)
    def write_marc(work: Work) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    app = new_shelf({"rep": rep(1), "metadata": {"dc": {"title": ["Rain"]}}}, ibi=ibi)
    with caplog.at_level(logging.ERROR):
        answer = ask(app, f"/col/{rep(1)}/metadata?choice=marcxml")
    assert answer.status == 500
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "can't be written in the format marcxml" in caplog.text
