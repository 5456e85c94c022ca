"""OAI-PMH: formats of the host. A function of the host that fails must not break a response."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import compress, product
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from lxml import etree
from sqlalchemy.exc import OperationalError
from support.archives import archive_of, close, make_app
from support.documentation import FILES
from support.harvesting import find_errors, harvest, texts

from flask_ibi_archive import IBIArchive, ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.harvest import oai_pmh
from flask_ibi_archive.core.records.work import Work

NOTE = "http://a.example/note"
GOOD = f'<?xml version="1.0"?>\n<!DOCTYPE note>\n<note xmlns="{NOTE}">{{}}</note>\n'


Writer = Callable[[], str | bytes]


@pytest.fixture
def broken() -> dict[str, Writer]:
    """The functions that write the format "note" of a host, by the titles for which they fail."""
    return {}


@pytest.fixture
def app(uri: str, tmp_path: Path, broken: dict[str, Writer], ibi: IBIArchive) -> Iterator[Flask]:
    @ibi.metadata_format("note", media_type="application/xml", schema=f"{NOTE}.xsd", namespace=NOTE)
    def write(work: Work) -> str | bytes:
        return broken.get(work.title, lambda: GOOD.format(work.title))()

    app = make_app(uri, tmp_path, ibi, PROPAGATE_EXCEPTIONS=True)
    archive_of(app).init()
    yield app
    close(app)


def deposit(archive: Archive, *titles: str) -> list[str]:
    return [archive.deposit(ItemRecord(title=title)).ibip for title in titles]


def ask(app: Flask, verb: str, **arguments: str) -> etree._Element:
    answer = app.test_client().get("/ibi/oai", query_string={"verb": verb, **arguments})
    assert answer.status_code == 200
    return etree.fromstring(answer.data)


def ask_notes(app: Flask, verb: str = "ListRecords", **arguments: str) -> etree._Element:
    return ask(app, verb, metadataPrefix="note", **arguments)


def titles(root: etree._Element) -> list[str | None]:
    return [one.text for one in root.iter(f"{{{NOTE}}}note")]


def fail() -> str:
    raise LookupError("no author")


BROKEN: list[Writer] = [
    fail,
    lambda: 7,  # type: ignore[list-item,return-value]
    lambda: "\ud800",
    lambda: b"<note>\xff</note>",
    lambda: "</metadata><metadata>",
    lambda: "<note>&nbsp;</note>",
    lambda: "<!DOCTYPE note [<!ENTITY a 'b'>]><note>&a;</note>",
]


def test_an_item_that_cant_be_written_is_left_out_and_logged_once(
    app: Flask, archive: Archive, broken: dict[str, Writer], caplog: pytest.LogCaptureFixture
) -> None:
    items = deposit(archive, "Rain", "Snow", "Ice")
    name = f"oai:mtc-m16c.sid.inpe.br:{items[1]}"
    for result in BROKEN:
        broken["Snow"] = result
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            assert titles(ask_notes(app)) == ["Rain", "Ice"]
        assert [entry.getMessage() for entry in caplog.records] == [
            f"the metadata of the item {items[1]} can't be written in the format note"
        ]
        refused = ask_notes(app, "GetRecord", identifier=name)
        assert find_errors(refused) == ["cannotDisseminateFormat"]
    # the other formats and the lists of identifiers still contain the item
    for root in (
        ask(app, "ListRecords", metadataPrefix="oai_dc"),
        ask_notes(app, "ListIdentifiers"),
    ):
        assert [text.split(":")[2] for text in texts(root, "identifier")] == items


def test_a_lost_database_ends_the_request_rather_than_leaving_the_item_out(
    app: Flask, archive: Archive, broken: dict[str, Writer]
) -> None:
    def lose() -> str:
        raise OperationalError("SELECT 1", {}, Exception("the connection was lost"))

    deposit(archive, "Rain", "Snow")
    broken["Snow"] = lose
    with pytest.raises(OperationalError):  # status 500: harvesters try again
        ask_notes(app)
    broken.clear()
    assert titles(ask_notes(app)) == ["Rain", "Snow"]


def harvest_notes(app: Flask) -> list[list[str | None]]:
    """Return the titles in each part of a list."""
    root = ask_notes(app)
    parts = [titles(root)]
    while any(tokens := texts(root, "resumptionToken")):
        root = ask(app, "ListRecords", resumptionToken=tokens[0])
        assert find_errors(root) == []
        parts.append(titles(root))
    return parts


def test_a_harvester_reaches_the_end_whichever_records_cant_be_written(
    app: Flask, archive: Archive, broken: dict[str, Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["Rain", "Snow", "Ice"]
    deposit(archive, *names)
    for count, *is_good in product((1, 2), *[(True, False)] * len(names)):
        monkeypatch.setattr(oai_pmh, "PART", count)
        good = list(compress(names, is_good))
        broken |= dict.fromkeys(set(names) - set(good), fail)
        if good:
            expected = [good[start : start + count] for start in range(0, len(good), count)]
            assert harvest_notes(app) == expected
        else:
            assert find_errors(ask_notes(app)) == ["cannotDisseminateFormat"]
        broken.clear()
    # the token of a list that can't be continued stays valid until the function is corrected
    monkeypatch.setattr(oai_pmh, "PART", 1)
    (token,) = texts(ask_notes(app), "resumptionToken")
    broken |= dict.fromkeys(names, fail)
    refused = ask(app, "ListRecords", resumptionToken=token)
    assert find_errors(refused) == ["cannotDisseminateFormat"]
    broken.clear()
    assert titles(ask(app, "ListRecords", resumptionToken=token)) == ["Snow"]
    # a request does not search the whole Archive
    monkeypatch.setattr(oai_pmh, "MAX_SKIPPED", 2)
    deposit(archive, "Hail", "Fog")
    broken |= dict.fromkeys(["Snow", "Ice", "Hail"], fail)
    assert harvest_notes(app) == [["Rain"], ["Fog"]]
    broken["Rain"] = fail
    assert find_errors(ask_notes(app)) == ["cannotDisseminateFormat"]


def test_an_item_whose_sets_cant_be_found_belongs_to_no_set(
    app: Flask, ibi: IBIArchive, archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[Callable[[Work], Any]] = [
        lambda work: fail(),
        lambda work: ["unknown"],
        lambda work: None,
    ]
    items = deposit(archive, "Rain", "Snow")
    for find in failures:
        ibi.oai_sets({"all": "All"})(
            lambda work, find=find: find(work) if work.title == "Snow" else ["all"]
        )
        app.test_cli_runner().invoke(args=["ibi", "renew-harvests"])
        caplog.clear()
        assert titles(ask_notes(app)) == ["Rain", "Snow"]
        assert [entry.getMessage() for entry in caplog.records] == [
            f"the sets of the item {items[1]} can't be found"
        ]
        assert titles(ask_notes(app, set="all")) == ["Rain"]
    ibi.oai_sets({"all": "All"})(lambda work: ["all"])
    app.test_cli_runner().invoke(args=["ibi", "renew-harvests"])
    assert titles(ask_notes(app, set="all")) == ["Rain", "Snow"]


def test_the_format_of_the_documentation_is_valid(
    app: Flask, ibi: IBIArchive, archive: Archive
) -> None:
    exec(FILES["marc.py"], {"ibi": ibi})
    archive.deposit(title="Rain", creators=["Silva, Ana", "Souza, Davi"], subjects=["chuva"])
    root = harvest(app, verb="ListRecords", metadataPrefix="marcxml")  # validates the response
    fields = [(one.get("tag"), one[0].text) for one in root.iter("{*}datafield")]
    assert fields[:3] == [("100", "Silva, Ana"), ("700", "Souza, Davi"), ("245", "Rain")]
