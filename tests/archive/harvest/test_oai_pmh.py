"""OAI-PMH: verbs, errors, what is disclosed, sets, resumption tokens, and a host's catalogue."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from itsdangerous import URLSafeSerializer
from support.archives import archive_of, close, make_app
from support.clocks import Clock
from support.harvesting import (
    MORNING,
    OAI,
    find_errors,
    harvest,
    harvest_all,
    headers,
    parse,
    texts,
)
from support.shelf import Shelf
from support.statements import count_statements
from support.web import rep

from flask_ibi_archive import (
    CatalogueRecord,
    DublinCoreMetadata,
    IBIArchive,
    ItemRecord,
    MetadataItem,
)
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.record import AccessRule

HOST = "mtc-m16c.sid.inpe.br"
HIDDEN = AccessRule(("192.0.2.0/32",), "none")
DC = "{http://purl.org/dc/elements/1.1/}"


def deposit(archive: Archive, title: str = "Rain", **fields: Any) -> str:
    return archive.deposit(ItemRecord(title=title, **fields)).ibip


def name(ibi: str) -> str:
    return f"oai:{HOST}:{ibi}"


# --- the verbs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_six_verbs(app: Flask, archive: Archive, clock: Clock, method: str) -> None:
    identity = {
        "responseDate": "2026-03-01T08:00:00Z",
        "repositoryName": "Acervo & Cia",
        "baseURL": f"http://{HOST}/ibi/oai",
        "adminEmail": f"postmaster@{HOST}",
        "earliestDatestamp": "1970-01-01T00:00:00Z",
        "deletedRecord": "persistent",
        "granularity": "YYYY-MM-DDThh:mm:ssZ",
    }
    answer = harvest(app, method, verb="Identify")
    assert {name: "".join(texts(answer, name)) for name in identity} == identity
    item = deposit(archive)
    formats = harvest(app, method, verb="ListMetadataFormats", identifier=name(item))
    assert texts(formats, "metadataPrefix") == ["oai_dc", "datacite", "oai_openaire"]
    assert texts(harvest(app, method, verb="ListSets"), "setSpec")[:2] == ["openaire", "driver"]
    for verb in ("ListRecords", "ListIdentifiers"):
        assert headers(harvest(app, method, verb=verb, metadataPrefix="oai_dc")) == {item: False}
    clock.wait(60)
    deposit(archive)
    earliest = texts(harvest(app, method, verb="Identify"), "earliestDatestamp")
    assert earliest == ["2026-03-01T08:00:00Z"]
    record = harvest(app, method, verb="GetRecord", metadataPrefix="oai_dc", identifier=name(item))
    assert texts(record, "datestamp") == ["2026-03-01T08:00:00Z"]
    assert [one.text for one in record.iter(f"{DC}title")] == ["Rain"]
    assert [one.text for one in record.iter(f"{DC}identifier")] == [f"http://urlib.net/{item}"]


#: Wrong requests with the codes of their errors. No item has the identifiers in them.
ERRORS = [
    line.split(" ", 1)[::-1]
    for line in (Path(__file__).parent / "data" / "errors.txt").read_text().splitlines()
]


def test_an_error_has_the_code_of_the_specification(app: Flask, archive: Archive) -> None:
    deposit(archive)
    client = app.test_client()
    for query, code in ERRORS:
        root = parse(client.get(f"/ibi/oai?{query}").data)
        assert find_errors(root) == [code], query
        request = root.find(f"{OAI}request")
        assert request.text == f"http://{HOST}/ibi/oai"
        assert bool(request.attrib) is (code not in ("badVerb", "badArgument")), query
    # a body that is no form, or too long
    answer = client.post("/ibi/oai", data="verb=Identify", content_type="text/plain")
    assert find_errors(parse(answer.data)) == ["badVerb"]
    answer = client.post("/ibi/oai", data={"a": "=" * 20_000})
    assert find_errors(parse(answer.data)) == ["badArgument"]


# --- what harvesters see -------------------------------------------------------------------------


def test_a_deletion_is_reported_for_ever(app: Flask, archive: Archive, clock: Clock) -> None:
    item = deposit(archive)
    assert harvest_all(app) == {item: False}
    clock.wait(60)
    archive.delete(item, "withdrawn")
    assert harvest_all(app, from_="2026-03-01T08:01:00Z") == {item: True}
    record = harvest(app, verb="GetRecord", metadataPrefix="oai_dc", identifier=name(item))
    assert headers(record) == {item: True}
    assert record.find(f".//{OAI}metadata") is None
    formats = harvest(app, verb="ListMetadataFormats", identifier=name(item))
    assert find_errors(formats) == ["noMetadataFormats"]
    clock.wait(10**9)
    assert harvest_all(app) == {item: True}


def test_hidden_items_are_not_disclosed(app: Flask, archive: Archive, clock: Clock) -> None:
    hidden, shown = deposit(archive, "Secret", access=HIDDEN), deposit(archive)
    archive.reserve("a draft")
    assert harvest_all(app) == {shown: False}
    found = harvest(app, verb="GetRecord", metadataPrefix="oai_dc", identifier=name(hidden))
    assert find_errors(found) == ["idDoesNotExist"]
    service = name(archive.served().service_ibi)
    found = harvest(app, verb="GetRecord", metadataPrefix="oai_dc", identifier=service)
    assert find_errors(found) == ["idDoesNotExist"]
    clock.wait(60)
    archive.delete(hidden, "withdrawn")  # harvesters have never seen the item
    archive.edit(shown, access=HIDDEN)  # they have seen this item, so it is deleted for them
    assert harvest_all(app) == {shown: True}
    archive.edit(shown, access=None)
    assert harvest_all(app) == {shown: False}


def test_an_item_has_the_dublin_core_of_its_metadata_item(
    app: Flask, archive: Archive, clock: Clock
) -> None:
    about = deposit(archive, "On rain", content_type="Metadata")
    item = archive.deposit(ItemRecord(metadata=MetadataItem(about))).ibip

    def titles() -> list[str | None]:
        root = harvest(app, verb="ListRecords", metadataPrefix="oai_dc")
        assert headers(root) == {item: False}
        return [one.text for one in root.iter(f"{DC}title")]

    assert titles() == ["On rain"]
    clock.wait(60)
    archive.edit(about, metadata=DublinCoreMetadata({"title": (("On snow", None),)}))
    assert titles() == ["On snow"]
    assert harvest_all(app, from_="2026-03-01T08:01:00Z") == {item: False}
    archive.edit(about, access=HIDDEN)  # so the item has no title that harvesters may read
    assert harvest_all(app) == {item: True}


@pytest.mark.postgresql
def test_from_and_until_include_their_limits(app: Flask, archive: Archive, clock: Clock) -> None:
    items = []
    for _ in range(3):
        items.append(deposit(archive))
        harvest(app, verb="Identify")
        clock.wait()
    first, second, third = items
    times = [f"2026-03-01T08:00:0{n}Z" for n in range(3)]
    assert list(harvest_all(app, from_=times[1])) == [second, third]
    assert list(harvest_all(app, until=times[1])) == [first, second]
    assert list(harvest_all(app, from_=times[1], until=times[1])) == [second]
    assert list(harvest_all(app, from_="2026-03-01", until="2026-03-01")) == items


# --- lists in parts ------------------------------------------------------------------------------


@pytest.mark.usefixtures("parts_of_two")
def test_changes_and_deletions_during_a_harvest_move_to_the_end(
    app: Flask, archive: Archive, clock: Clock
) -> None:
    items = [deposit(archive, str(number)) for number in range(6)]
    root = harvest(app, verb="ListIdentifiers", metadataPrefix="oai_dc")
    assert list(headers(root)) == items[:2]
    archive.delete(items[0], "withdrawn")
    archive.edit(items[3], title="3, corrected")
    new = deposit(archive, "new")
    later: list[tuple[str, bool]] = []
    while token := "".join(texts(root, "resumptionToken")):
        root = harvest(app, verb="ListIdentifiers", resumptionToken=token)
        later += headers(root).items()
    expected = [items[2], items[4], items[5], items[0], items[3], new]
    assert later == [(ibi, ibi == items[0]) for ibi in expected]
    # the rest of a list is not empty if all its items have changed
    until = "2026-03-01T08:00:00Z"
    root = harvest(app, verb="ListRecords", metadataPrefix="oai_dc", until=until)
    clock.wait()
    for item in expected:
        if item != items[0]:
            archive.delete(item, "withdrawn")
    rest = harvest(app, verb="ListRecords", resumptionToken=texts(root, "resumptionToken")[0])
    assert [*headers(rest).values()] == [True]


@pytest.mark.usefixtures("parts_of_two")
def test_a_token_that_was_changed_is_refused(app: Flask, archive: Archive) -> None:
    for number in range(3):
        deposit(archive, str(number))
    [token] = texts(harvest(app, verb="ListRecords", metadataPrefix="oai_dc"), "resumptionToken")
    for place in range(0, len(token) - 1, 9):
        wrong = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        refused = harvest(app, verb="ListRecords", resumptionToken=wrong)
        assert find_errors(refused) == ["badResumptionToken"]
    # a token of another version, or with a format that is no longer registered
    sign = URLSafeSerializer("a secret for tests", salt="ibi-oai-pmh").dumps
    moment = MORNING.isoformat()
    for contents in ({}, 1, [], ["marc", None, None, None, moment, 1], ["oai_dc", *[None] * 5]):
        refused = harvest(app, verb="ListRecords", resumptionToken=str(sign(contents)))
        assert find_errors(refused) == ["badResumptionToken"]


def test_a_part_costs_a_constant_number_of_statements(app: Flask, archive: Archive) -> None:
    costs = []
    for count in (1, 20):
        for number in range(count):
            deposit(archive, str(number))
        harvest_all(app)
        lists = [
            partial(harvest, app, verb=verb, metadataPrefix="oai_dc")
            for verb in ("ListIdentifiers", "ListRecords")
        ]
        costs.append([len(count_statements(app, read)) for read in lists])
    assert costs[0] == costs[1]
    assert costs[0] <= [2, 10]


# --- sets ----------------------------------------------------------------------------------------


THESIS = {"type": ["Tese (Doutorado em Letras)"]}
GRANT = {"relation": ["info:eu-repo/grantAgreement/FAPESP//2010%2F1"]}


def describe(**elements: list[str]) -> DublinCoreMetadata:
    values = {name: tuple((text, None) for text in texts) for name, texts in elements.items()}
    return DublinCoreMetadata({"title": (("Rain", None),), **values})


def test_every_archive_has_sets_for_aggregators_and_types(
    app: Flask, archive: Archive, ibi: IBIArchive, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("Rain", encoding="utf-8")
    files: list[Any] = [("a.txt", tmp_path / "a.txt")]
    public = archive.deposit(ItemRecord(metadata=describe(**THESIS), files=files)).ibip
    paid = archive.deposit(ItemRecord(metadata=describe(**GRANT))).ibip
    sets = {"openaire": [public, paid], "driver": [public]}
    sets |= {"type:doctoral-thesis": [public], "type:other": [paid]}
    assert list(harvest_all(app)) == [public, paid]
    assert texts(harvest(app, verb="ListSets"), "setSpec") == [*sets]
    for spec, expected in sets.items():
        assert list(harvest_all(app, set=spec)) == expected
    # a record says who may read the files, unless the host decides
    query = {"verb": "GetRecord", "metadataPrefix": "oai_dc", "identifier": name(public)}
    rights = [one.text for one in harvest(app, **query).iter(f"{DC}rights")]
    assert rights == ["info:eu-repo/semantics/openAccess"]
    ibi.access_policy(lambda item, file, request: None)
    assert not [*harvest(app, **query).iter(f"{DC}rights")]


def test_an_item_without_a_title_is_harvested_when_it_has_one(
    app: Flask, archive: Archive, clock: Clock
) -> None:
    # since oai_dc without a title is useless, and OAI-PMH demands oai_dc of every item
    item = archive.deposit(ItemRecord()).ibip
    request = {"metadataPrefix": "oai_dc", "identifier": name(item)}
    assert find_errors(harvest(app, verb="GetRecord", **request)) == ["idDoesNotExist"]
    assert find_errors(harvest(app, verb="ListIdentifiers", metadataPrefix="datacite")) == [
        "noRecordsMatch"
    ]
    archive.edit(item, title="Rain")
    assert harvest_all(app) == {item: False}
    clock.wait(60)
    archive.edit(item, metadata=None)
    assert harvest_all(app) == {item: True}


@pytest.mark.postgresql
@pytest.mark.usefixtures("parts_of_two")
def test_the_format_of_theses_contains_theses_alone(app: Flask, archive: Archive) -> None:
    prefix, theses = "mtd3-br", []
    for number in range(6):
        metadata = describe(**(THESIS if number % 2 else {}))
        item = archive.deposit(ItemRecord(metadata=metadata)).ibip
        if number % 2:
            theses.append(item)
    assert list(harvest_all(app, "ListRecords", metadataPrefix=prefix)) == theses
    arguments = {"set": "type:doctoral-thesis", "metadataPrefix": prefix}
    assert list(harvest_all(app, **arguments)) == theses
    none = harvest(app, verb="ListIdentifiers", **{**arguments, "set": "type:other"})
    assert find_errors(none) == ["noRecordsMatch"]
    [other, *_] = {*harvest_all(app)} - {*theses}
    found = harvest(app, verb="GetRecord", metadataPrefix=prefix, identifier=name(other))
    assert find_errors(found) == ["cannotDisseminateFormat"]
    formats = harvest(app, verb="ListMetadataFormats", identifier=name(theses[0]))
    assert prefix in texts(formats, "metadataPrefix")
    record = harvest(app, verb="GetRecord", metadataPrefix="oai_dc", identifier=name(theses[0]))
    assert texts(record, "setSpec") == ["type:doctoral-thesis"]  # a hidden set is not shown


def test_sets_are_defined_by_the_host(
    app: Flask, archive: Archive, ibi: IBIArchive, clock: Clock
) -> None:
    # a set of the host replaces one with the same name
    members = {"Old snow": ["snow"], "new snow": ["snow:new"], "Rain": ["openaire"]}
    names = {"openaire": "Ours", "snow": "Snow", "snow:new": "New snow & ice"}
    ibi.oai_sets(names)(lambda work: members.get(work.title, []))
    listed = texts(harvest(app, verb="ListSets"), "setName")
    assert listed == ["Ours", "Open Access DRIVERset", "Snow", "New snow & ice"]
    old, new, rain = (deposit(archive, title) for title in members)
    assert list(harvest_all(app, set="openaire")) == [rain]
    assert list(harvest_all(app, set="snow")) == [old, new]
    assert list(harvest_all(app, set="snow:new")) == [new]
    found = harvest(app, verb="ListIdentifiers", metadataPrefix="oai_dc", set="sun")
    assert find_errors(found) == ["noRecordsMatch"]
    record = harvest(app, verb="GetRecord", metadataPrefix="oai_dc", identifier=name(new))
    assert texts(record, "setSpec") == ["snow", "snow:new", "type:other"]
    clock.wait(60)
    archive.delete(new, "withdrawn")
    archive.edit(old, title="Ice")
    assert harvest_all(app, set="snow") == {new: True}
    assert harvest_all(app, set="snow:new", from_="2026-03-01T08:01:00Z") == {new: True}


@pytest.mark.parametrize("spec", ["", "a b", "a:", "a" * 256])
def test_a_wrong_set_is_refused(ibi: IBIArchive, spec: str) -> None:
    with pytest.raises(ValueError, match="is not a setSpec"):
        ibi.oai_sets({spec: "Name"})(lambda work: [])


# --- the catalogue of a host ---------------------------------------------------------------------


@pytest.mark.usefixtures("parts_of_two")
def test_the_items_of_a_catalogue_are_harvested(uri: str, tmp_path: Path, clock: Clock) -> None:
    shelf = Shelf()

    def put(number: int, seconds: float, **fields: Any) -> str:
        time = MORNING + timedelta(seconds=seconds)
        shelf.put(CatalogueRecord(rep=rep(number), timestamp=time, **fields))
        return rep(number)

    ibi = IBIArchive(catalogue=shelf, clock=clock)
    ibi.oai_sets({"snow": "Snow"})(lambda work: ["snow"] if work.title == "Snow" else [])
    app = make_app(uri, tmp_path, ibi, PROPAGATE_EXCEPTIONS=True)
    archive_of(app).init()
    assert find_errors(harvest(app, verb="ListRecords", metadataPrefix="oai_dc")) == [
        "noRecordsMatch"
    ]
    snow = [put(number, number / 4, title="Snow") for number in range(5)]
    about = put(10, 0, title="Rain", content_type="Metadata")
    rain = put(11, 0.5, metadata=MetadataItem(about))
    put(12, 0, title="Secret", access=HIDDEN)
    put(13, 0, state="Reserved")
    gone = put(14, 9, state="Deleted", tombstone={"reason": "withdrawn"})
    expected = [*snow[:3], rain, *snow[3:], gone]
    found = harvest_all(app, "ListRecords")
    assert list(found) == expected
    assert [one for one in found if found[one]] == [gone]
    assert list(harvest_all(app, set="snow")) == snow
    assert list(harvest_all(app, until="2026-03-01T08:00:00Z")) == expected[:5]
    assert list(harvest_all(app, from_="2026-03-01T08:00:01Z")) == expected[5:]
    record = harvest(app, verb="GetRecord", metadataPrefix="oai_dc", identifier=name(rain))
    assert [one.text for one in record.iter(f"{DC}title")] == ["Rain"]
    identity = harvest(app, verb="Identify")
    assert texts(identity, "earliestDatestamp") == ["2026-03-01T08:00:00Z"]
    # a change is found if it is committed late
    [last_visit] = texts(identity, "responseDate")
    assert last_visit == "2026-03-01T07:55:00Z"
    close(app)
