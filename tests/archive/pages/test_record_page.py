"""The page of an item: all that its description states, access, ZIP file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from flask import Flask
from msgspec.structs import fields
from support.archives import archive_of, import_records
from support.pages import see
from support.statements import count_statements
from support.web import INSIDE, NETWORK, OUTSIDE, ask, rep, source

from flask_ibi_archive.archive.pages import labels
from flask_ibi_archive.archive.pages import zip as zip_files
from flask_ibi_archive.core.records import description
from flask_ibi_archive.core.records.description import Description
from flask_ibi_archive.server.web.texts import OWN_TEMPLATES

#: A complete description, and what the page shows for each of its fields.
DESCRIBED = json.loads(Path(__file__).with_name("described_work.json").read_text("utf-8"))
WORK, SHOWN = DESCRIBED["work"], DESCRIBED["shown"]


def write(folder: Path, name: str) -> str:
    """Write a file to a folder, and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"The content of {name}")
    return str(path)


@pytest.fixture
def put(app: Flask, tmp_path: Path) -> Callable[..., Flask]:
    """A function that imports an item with some files."""

    def put(*names: str, **record: Any) -> Flask:
        files = [{"path": name, "source": write(tmp_path, name)} for name in names]
        import_records(archive_of(app), [{"rep": rep(1), "files": files, **record}])
        return app

    return put


def test_the_page_shows_each_field_of_the_description(put: Callable[..., Flask]) -> None:
    app = put("report.pdf", metadata={"work": WORK})
    text = see(app, f"/col/{rep(1)}/").source.partition("<main")[2]
    names = {field.name for field in fields(Description)} - {"type_text"}
    assert SHOWN.keys() == names
    for name, values in SHOWN.items():
        for value in values:
            assert value in text, name
    # authors after the tenth are folded
    folded = text.partition("<summary>2 more authors</summary>")[2].partition("</details>")[0]
    assert re.findall(r"Author\d+", folded) == ["Author9", "Author10"]


def test_the_words_of_descriptions_have_names() -> None:
    tables = {"ibi_roles": set(labels.ROLES)}
    for path in (OWN_TEMPLATES / "ibi_archive/default").glob("*.html"):
        for name, table in re.findall(r"{% set (\w+) = {\n(.*?)} %}", path.read_text(), re.DOTALL):
            tables[name] = set(re.findall(r'^"([^"]+)":', table, re.MULTILINE))
    for name, words in (
        ("roles", description.Role.__args__), ("dates", description.DATE_KINDS),
        ("levels", description.DegreeLevel.__args__), ("titles", description.TitleKind.__args__),
        ("access", description.AccessRight.__args__), ("relations", description.RELATIONS),
    ):  # fmt: skip
        assert tables[f"ibi_{name}"] == {*words}


def test_the_abstract_in_the_language_of_the_reader_is_first(put: Callable[..., Flask]) -> None:
    app = put(metadata={"work": WORK})
    rain, chuva = ">It rains.</p>", ">Chove.</p>"
    for language, first, other in (("en", rain, chuva), ("pt", chuva, rain), ("es", rain, chuva)):
        text = see(app, f"/col/{rep(1)}/", language=language).source
        assert text.index(first) < text.index(other), language


RULE = {"networks": [NETWORK]}


def test_a_badge_says_who_may_read(put: Callable[..., Flask]) -> None:
    restricted = {
        "files": [],
        "metadata": {"work": {"titles": ["x"], "access_right": "restricted"}},
    }
    for number, (record, expected) in enumerate(
        [
            ({}, "Open access"),
            ({"embargo": "9999-03-01"}, "Embargoed until 1 March 9999"),
            ({"access": RULE}, "Restricted access"),
            ({"files": []}, "Metadata only"),
            (restricted, "Restricted access"),
        ],
        10,
    ):
        app = put("report.pdf", **{"rep": rep(number), **record})
        assert expected in see(app, f"/col/{rep(number)}/", remote=OUTSIDE).text("li")


def read_zip(app: Flask, **options: str) -> dict[str, bytes]:
    answer = ask(app, f"/col/{rep(1)}/files.zip", **options)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/zip"
    assert int(answer.headers["Content-Length"]) == len(answer.body)
    with ZipFile(BytesIO(answer.body)) as found:
        assert found.testzip() is None
        return {name: found.read(name) for name in found.namelist()}


def test_the_zip_file_contains_all_files_that_the_reader_may_read(
    put: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"/col/{rep(1)}/files.zip"
    app = put("report.pdf", "table.csv", "data/chuva ção.txt", access=RULE)
    found = read_zip(app, remote=INSIDE)
    assert set(found) == {"report.pdf", "table.csv", "data/chuva ção.txt"}
    assert found["report.pdf"] == ask(app, f"/col/{rep(1)}/doc/report.pdf").body
    assert address in see(app, f"/col/{rep(1)}/").links
    assert ask(app, address, remote=OUTSIDE).status == 403
    # it is bounded
    for limit in (("MAX_SIZE", 10), ("MAX_FILES", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(zip_files, *limit)
            assert "at most" in see(app, address, 404).text("p")
            assert "too many or too large for one ZIP file" in see(app, f"/col/{rep(1)}/").text("p")
    archive_of(app).edit(rep(1), embargo="9999-01-01")
    assert ask(app, address, remote=INSIDE).status == 403
    # the names of a secret list would be in it
    put("report.pdf", "table.csv", list_files=False, rep=rep(2))
    see(app, f"/col/{rep(2)}/files.zip", 404)
    assert "files.zip" not in see(app, f"/col/{rep(2)}/").source


def test_pages_are_sent_once_and_public_data_to_all_sites(put: Callable[..., Flask]) -> None:
    app = put(metadata={"work": WORK})
    import_records(archive_of(app), [{"rep": rep(2), "metadata": {"work": WORK}, "access": RULE}])
    for rest in ("", "metadata", "metadata?choice=oai_dc", "files"):
        path = f"/col/{rep(1)}/{rest}"
        etag = ask(app, path).headers["ETag"]
        again = ask(app, path, headers={"If-None-Match": etag})
        assert (again.status, again.body) == (304, b"")
        assert ask(app, path, headers={"If-None-Match": '"other"'}).status == 200
    for rest, accept, is_shared, is_repeated in (
        ("", "", False, False),
        ("", "application/x-bibtex", True, False),
        ("metadata", "", False, True),
        ("metadata?choice=oai_dc", "", True, True),
        ("files?format=json", "", True, True),
        ("statistics", "", False, True),
    ):
        headers = {"Accept": accept} if accept else {}
        answer = ask(app, f"/col/{rep(1)}/{rest}", headers=headers)
        assert ("Access-Control-Allow-Origin" in answer.headers) == is_shared
        # repetitions are not for search engines
        assert ("X-Robots-Tag" in answer.headers) == is_repeated
        # what depends on the network of the reader is for no other site
        closed = ask(app, f"/col/{rep(2)}/{rest}", headers=headers, remote=INSIDE)
        assert "Access-Control-Allow-Origin" not in closed.headers


OLD, NEW, NEWEST, TRANSLATION, METADATA = map(rep, range(1, 6))


def test_a_landing_page_shows_related_items_by_title_with_few_statements(
    app: Flask, tmp_path: Path
) -> None:
    dc = {"title": [{"value": "The metadata", "lang": "en"}], "creator": ["Silva, Ana"]}
    files = [{"path": name, "source": source(tmp_path, name)} for name in ("report.pdf", "new.txt")]
    import_records(
        archive_of(app),
        [
            {"rep": OLD, "next_edition": NEW, "metadata": {"dc": {"title": ["First edition"]}}},
            {
                "rep": NEW,
                "language": "en",
                "next_edition": NEWEST,
                "translations": {"pt": TRANSLATION},
                "metadata": {"ibi": METADATA},
                "files": files,
            },
            {"rep": NEWEST, "metadata": {"dc": {"title": ["Third edition"]}}},
            {"rep": TRANSLATION, "language": "pt", "metadata": {"dc": {"title": ["Tradução"]}}},
            {"rep": METADATA, "content_type": "Metadata", "metadata": {"dc": dc}},
        ],
    )
    page = see(app, f"/col/{NEW}/", language="en")
    # title and author are those of the metadata item
    assert page.text("h1") == "The metadata"
    assert "Silva, Ana" in page.source
    for title in ("First edition", "Third edition", "Tradução"):
        assert f">{title}</cite>" in page.source
    assert page.source.index("A newer edition of this item exists") < page.source.index("Files")
    assert len(count_statements(app, lambda: see(app, f"/col/{NEW}/"))) <= 7


def test_the_name_of_the_host_is_neither_that_of_the_site_nor_a_publisher(
    put: Callable[..., Flask],
) -> None:
    app = put(metadata={"dc": {"title": ["Rain"], "creator": ["Silva, Ana"]}})
    host = archive_of(app).config.archive_address
    text = see(app, f"/col/{rep(1)}/").source
    assert host not in re.sub(r"""https?://[^"'<\s]+""", "", text)
    assert "<strong>Rain</strong>. [<em>S. l.</em>: <em>s. n.</em>], [s. d.]. " in text
    identify = ask(app, "/ibi/oai?verb=Identify").text
    assert f"<repositoryName>IBI Archive {archive_of(app).served().service_ibi}<" in identify
