"""Downloads: content, name and type of files, ranges and conditions."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin

import pytest
from flask import Flask
from support.archives import archive_of, import_records
from support.loopback import serving
from support.pages import Page, see
from support.web import (
    CLOSED,
    CLOSED_URL,
    CONTENTS,
    EMPTY,
    NEW,
    NOBODY,
    REPORT,
    REPORT_ALIAS,
    REPORT_IBIP,
    SERVED_ELSEWHERE,
    TRAP,
    UNLISTED,
    Answer,
    ask,
    ask_urls,
    follow,
    rep,
)

HOST = "http://mtc-m16c.sid.inpe.br/"
PDF = CONTENTS["report.pdf"]
ETAG = f'"{hashlib.sha256(PDF).hexdigest()}"'


def get(app: Flask, name: str, ibi: str = REPORT, **headers: str) -> Answer:
    """Send a request for a file with a name."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return ask(app, f"/col/{ibi}/doc/{quote(name)}", headers=named)


def test_whole_files_and_ranges(web: Flask) -> None:
    # a file can be read by every identifier of its item
    for ibi in [REPORT, REPORT_IBIP, REPORT_ALIAS, REPORT.upper(), REPORT_IBIP.lower()]:
        answer = get(web, "report.pdf", ibi)
        assert (answer.status, answer.body) == (200, PDF)
        assert answer.headers["Content-Length"] == str(len(PDF))
        assert answer.headers["ETag"] == ETAG
        assert answer.headers["Accept-Ranges"] == "bytes"
        assert answer.headers["Cache-Control"] == "no-cache"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    # other methods are refused
    for method in ["POST", "DELETE"]:
        for rest in ["", "doc/report.pdf"]:
            assert ask(web, f"/col/{REPORT}/{rest}", method).status == 405
    # a range returns its part; after the end it is refused, several of them are the whole file
    for wanted, status, body, place in [
        ("bytes=2000-9999", 206, PDF[2000:], "bytes 2000-2056/2057"),
        ("bytes=2057-", 416, None, "bytes */2057"),
        ("bytes=0-1,5-6", 200, PDF, None),
    ]:
        answer = get(web, "report.pdf", Range=wanted)
        assert (answer.status, answer.headers.get("Content-Range")) == (status, place)
        assert answer.body == body or status == 416


EARLIER, LATER = "Sat, 01 Jan 2000 00:00:00 GMT", "Fri, 31 Dec 2100 00:00:00 GMT"
OTHER = '"other"'
#: Conditions, and the status of a request for a range with them (RFC 9110, 13.1 and 13.2.2).
CONDITIONS: list[tuple[dict[str, str], int]] = [
    ({}, 206),
    ({"If-Match": ETAG}, 206),
    ({"If-Match": "W/" + ETAG}, 412),
    ({"If-Unmodified-Since": "{modified}"}, 206),
    ({"If-Match": ETAG, "If-Unmodified-Since": EARLIER}, 206),
    ({"If-Match": OTHER, "If-Unmodified-Since": LATER}, 412),
    ({"If-None-Match": "W/" + ETAG}, 304),
    ({"If-Modified-Since": "{modified}"}, 304),
    ({"If-Match": OTHER, "If-None-Match": ETAG}, 412),
    ({"If-Unmodified-Since": LATER, "If-Modified-Since": LATER}, 304),
    ({"If-Range": ETAG}, 206),
    ({"If-Range": OTHER}, 200),
    ({"If-Range": "{modified}"}, 200),
    ({"If-Range": ETAG, "If-None-Match": ETAG}, 304),
]


def test_conditions_are_evaluated_before_the_range(web: Flask) -> None:
    for method in ["GET", "HEAD"]:
        for wanted in [None, "bytes=0-4", "bytes=9999-"]:
            target = f"/col/{REPORT}/doc/report.pdf"
            modified = ask(web, target).headers["Last-Modified"]
            in_range = 206 if wanted == "bytes=0-4" else 416
            if wanted is None or method == "HEAD":  # only GET has ranges
                in_range = 200
            for conditions, expected in CONDITIONS:
                headers = {
                    name: value.format(modified=modified) for name, value in conditions.items()
                }
                if wanted is not None:
                    headers["Range"] = wanted
                answer = ask(web, target, method, headers=headers)
                status = in_range if expected == 206 else expected
                assert (answer.status, headers) == (status, headers)
                if status in (200, 206, 304):
                    whole = PDF if method == "GET" else b""
                    assert answer.body == {200: whole, 206: PDF[:5], 304: b""}[status]
                    assert answer.headers["ETag"] == ETAG


def test_parts_of_two_versions_of_a_file_are_never_combined(app: Flask, tmp_path: Path) -> None:
    """This also applies if the new content is stored already when the old content arrives."""
    archive = archive_of(app)
    for number, (ibi, text) in enumerate(((NEW, "second version"), (REPORT, "first version"))):
        source = tmp_path / str(number)
        source.write_text(text)
        files = [{"path": "a.txt", "source": str(source)}]
        record = {"rep": ibi, "files": files, "timestamp": "2001-01-01T00:00:00Z"}
        import_records(archive, [record])
        content = archive.files_folder.path(hashlib.sha256(text.encode()).hexdigest())
        os.utime(content, (number, number))
    first = get(app, "a.txt", Range="bytes=0-4")
    assert (first.status, first.body) == (206, b"first")
    archive.edit(REPORT, files=[tmp_path / "0"])
    for header, condition, status in (
        ("ETag", "If-Match", 412),
        ("Last-Modified", "If-Unmodified-Since", 412),
        ("ETag", "If-Range", 200),
    ):
        headers = {"Range": "bytes=5-", condition: first.headers[header]}
        second = ask(app, f"/col/{REPORT}/doc/0", headers=headers)
        assert second.status == status
        assert status != 200 or second.body == b"second version"


@pytest.mark.rule("R4-15")
def test_a_file_has_the_type_and_the_name_of_its_path(web: Flask) -> None:
    # a file has the type of its name
    for name, content_type in [
        ("table.csv", "text/csv; charset=utf-8"),
        ("old.txt", "text/plain"),
        ("data.tar.gz", "application/gzip"),
        ("odd.xyzzy", "application/octet-stream"),
        ("page.html", "text/html; charset=utf-8"),
        ("image.svg", "image/svg+xml"),
    ]:
        answer = get(web, name)
        assert answer.status == 200
        assert answer.headers.getlist("Content-Type") == [content_type]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Content-Encoding" not in answer.headers
        assert answer.body == CONTENTS[name]
        policy = answer.headers.get("Content-Security-Policy", "")
        assert policy.startswith("sandbox") is (name in ("page.html", "image.svg"))
        assert "allow-same-origin" not in policy
    # a file is sent with its name
    for name, disposition in [
        ("report.pdf", "inline; filename=report.pdf"),
        ("doc/a+b=c @100%.txt", 'inline; filename="a+b=c @100%.txt"'),
        ('it\'s "quoted".txt', 'inline; filename="it\'s \\"quoted\\".txt"'),
        (
            "Relatório Final.txt",
            "inline; filename=\"Relatorio Final.txt\"; filename*=UTF-8''Relat%C3%B3rio%20Final.txt",
        ),
        ("日本語.txt", "inline; filename=.txt; filename*=UTF-8''%E6%97%A5%E6%9C%AC%E8%AA%9E.txt"),
    ]:
        answer = get(web, name)
        assert answer.status == 200
        assert answer.headers["Content-Disposition"] == disposition
    # a file is found by its name in any encoding
    for path in [
        "Relat%F3rio%20Final.txt",
        "Relat%C3%B3rio%20Final.txt",
        "Relat%25C3%25B3rio%2520Final.txt",
    ]:
        answer = ask(web, f"/col/{REPORT}/doc/{path}")
        assert (answer.status, answer.body) == (200, CONTENTS["old.txt"])


@pytest.mark.rule("R61-15")
def test_files_with_any_names_urls_and_scripts(app: Flask, tmp_path: Path) -> None:
    # a file with scripts is sent with the sandbox policy
    page = tmp_path / "page"
    page.write_bytes(b"<script>1</script>")
    names = ["a.xhtml", "a.xml", "a.xsl", "a.rdf", "A.HTML", "a.htm", "a.SVG", "data:text.html"]
    files = [{"path": name, "source": str(page)} for name in [*names, "a.b.html"]]
    import_records(archive_of(app), [{"rep": rep(1), "files": files}])
    for file in files:
        answer = get(app, file["path"], rep(1))
        assert answer.status == 200
        # browsers do not execute scripts in this type
        if answer.headers["Content-Type"] != "application/octet-stream":
            assert answer.headers["Content-Security-Policy"].startswith("sandbox"), file
    # the url list has a working url for every file name
    names = [
        "%2e%2e",
        "%",
        "a%2Fb",
        "%41",
        "A",
        "é!$&'()*+,;=:@#?[]{}|\\^`\"<> 日本/😀\u200f\ufeff",
    ]
    files = []
    for number, name in enumerate(names):
        place = tmp_path / f"source{number}"
        place.write_text(name)
        files.append({"path": name, "source": str(place)})
    import_records(archive_of(app), [{"rep": rep(2), "files": files}])
    listed = ask(app, f"/col/{rep(2)}/files").text
    for name in names:
        url = ask_urls(app, rep(2), filepath=name)["url"][0]
        assert url.isascii()
        assert unquote(url).endswith("/doc/" + name)
        answer = follow(app, url)
        assert (answer.status, answer.body.decode()) == (200, name)
        assert f'href="{url.removeprefix(HOST[:-1])}"' in listed
    # the url of a file on another server is not changed
    urls = [
        "https://example.org/a?b=c&d=%20#e",
        "http://example.org:8080/%5bx%5D",
        "http://h/~a;b=c,d/@:!$'()*",
        "https://example.org/user@host",
        "http://[2001:db8::1]/x",
        "http://example.org//a/../b",
    ]
    files = [{"path": str(number), "url": url} for number, url in enumerate(urls)]
    import_records(archive_of(app), [{"rep": rep(4), "files": files}])
    for file in files:
        assert get(app, file["path"], rep(4)).headers.getlist("Location") == [file["url"]]
        assert ask_urls(app, rep(4), filepath=file["path"])["url"] == (file["url"],)


@pytest.mark.rule("D5-01")
def test_paths_are_found_encoded_decoded_and_relative(web: Flask) -> None:
    # a server that decodes paths also finds the file
    with serving(web) as address:
        connection = HTTPConnection(address)
        for target, status in (
            (f"/col/{REPORT}/doc", 200),
            (f"/{REPORT}", 302),
            (f"/{NOBODY}", 302),
        ):
            connection.request("GET", f"{target}/Relat%F3rio%20Final.txt?x=1")
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == status
            assert body == CONTENTS["old.txt"] or status != 200
        assert answer.getheader("Location", "").endswith(f"{NOBODY}/Relat%F3rio%20Final.txt?x=1")
    # relative links between items work; [D] 5: the path of the page is cgi/a.html
    page = ask_urls(web, TRAP)["url"][0].replace("/doc/doc/cgi/", "/doc/cgi/")
    link = urljoin(page, f"../../../../../../{REPORT}/doc/table.csv")
    assert follow(web, link).body == CONTENTS["table.csv"]
    beside = urljoin(f"{HOST}col/{REPORT}/doc/", "doc/a%2Bb%3Dc%20%40100%25.txt")
    assert follow(web, beside).body == CONTENTS["new.txt"]


def test_missing_files_and_items_are_not_found(web: Flask) -> None:
    # no path leaves its item
    for path in [
        "../../../../../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "..%5C..%5Cetc%5Cpasswd",
        "a.html%00.txt",
        "doc/cgi",
    ]:
        target = f"/col/{TRAP}/doc/{path}"
        answer = ask(web, target)
        if answer.status == 308:  # werkzeug merges adjacent slashes
            answer = follow(web, answer.headers["Location"])
        assert answer.status == 404
        assert b"root:" not in answer.body
    # odd names that are files are found
    for path in ["..a/b..", "a%5Cb.txt", "doc/cgi/a.html", "doc%2Fcgi%2Fa.html"]:
        assert ask(web, f"/col/{TRAP}/doc/{path}").status == 200
    # every page of an unknown item is 404
    for ibi in [NOBODY, "%00/%00"]:
        for rest in ["", "doc/report.pdf", "files", "metadata"]:
            assert ask(web, f"/col/{ibi}/{rest}").status == 404
    # the page for a missing file shows the reason
    answer = get(web, "named.pdf", SERVED_ELSEWHERE)
    assert (answer.status, "not available here" in answer.text) == (404, True)
    assert "The item has no files." in ask(web, f"/col/{EMPTY}/files").text
    # shared caches must not store restricted files
    for name, ibi, status in (("report.pdf", CLOSED, 200), ("far.pdf", CLOSED_URL, 302)):
        answer = get(web, name, ibi)
        assert answer.status == status
        assert answer.headers["Cache-Control"] == "private, no-cache"


def test_a_file_that_cannot_be_read_is_not_found_and_the_reason_is_logged(
    web: Flask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: Any) -> Any:
        raise PermissionError(13, "No luck", "/the/content")

    monkeypatch.setattr("werkzeug.utils.open", refuse, raising=False)
    answer = get(web, "report.pdf")
    assert answer.status == 404
    assert "not available here" in answer.text
    assert "/the/content" not in answer.text
    [record] = caplog.records
    assert REPORT in record.message
    assert "No luck: '/the/content'" in record.message
    assert record.exc_info is None


def test_settings_for_files(web_with: Callable[..., Flask]) -> None:
    # a file whose url is its own address causes no redirect loop
    for scheme, host in (("http", None), ("https", None), ("http", "other.example")):
        app = web_with(PREFERRED_URL_SCHEME=scheme)
        headers = {"Host": host} if host else {}
        answer = ask(app, f"/col/{SERVED_ELSEWHERE}/doc/self%20%C3%A9.pdf", headers=headers)
        if answer.status == 302:
            answer = follow(app, answer.headers["Location"], headers=headers)
        assert (answer.status, "not available here" in answer.text) == (404, True)
    # x sendfile leaves sending to the server
    answer = get(web_with(USE_X_SENDFILE=True), "report.pdf")
    assert answer.status == 200
    assert Path(answer.headers["X-Sendfile"]).read_bytes() == PDF


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
    address, seen = f"/col/{rep(1)}/files", []
    for number, shown in enumerate(("1 to 100", "101 to 200", "201 to 250"), 1):
        page = see(many_files, f"{address}?page={number}" if number > 1 else address)
        assert f"Files {shown} of 250" in page.text("p")
        seen += names_of(page)
        linked = [link for link in page.links if "?page=" in link]
        others = [other for other in (number - 1, number + 1) if 1 <= other <= 3]
        assert linked == [f"{address}?page={other}" for other in others]
    assert seen == [f"{number}.csv" for number in range(1, 251)]
    for number in ("4", "0", "-1", "01", "x", "", "9" * 5000, "%F3"):
        see(many_files, f"{address}?page={number}", 404)
    # the forms for programs are complete
    assert ask(many_files, f"{address}?format=text").text.count("\n") == 250
    assert len(json.loads(ask(many_files, f"{address}?format=json").body)["files"]) == 250
    # the landing page shows the first of many files
    page = see(many_files, f"/col/{rep(1)}/")
    assert names_of(page) == [f"{number}.csv" for number in range(1, 51)]
    assert f"/col/{rep(1)}/files" in page.links
    assert "All 250 files" in page.text("a")
    assert page.source.count("contentUrl") == 50
