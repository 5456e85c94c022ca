"""What harvesters and crawlers, who are in no network, learn about an item."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, close, make_app
from support.shelf import Shelf
from support.web import rep

from flask_ibi_archive import CatalogueRecord, IBIArchive
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.hosts.host_catalogue import read_record
from flask_ibi_archive.archive.items.read import describe_host_item
from flask_ibi_archive.core.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
)
from flask_ibi_archive.core.records.work import WorkFile

NOW = datetime(2027, 2, 28, 12, tzinfo=timezone.utc)
TODAY = NOW.date()
TOMORROW = TODAY + timedelta(days=1)
NETWORK = "192.0.2.0/24"
BASE, PAGES = "http://urlib.net", "http://mtc-m16c.sid.inpe.br/col"
A, IBIP = rep(1), "8JMKD3MGP8W/35MME4E"
OPEN_METADATA, CLOSED_METADATA, HIDDEN_METADATA, LINKED_METADATA, MISSING = map(rep, range(2, 7))
CLOSED, HIDDEN = AccessRule((NETWORK,)), AccessRule((NETWORK,), "none")


def texts(*values: str) -> tuple[tuple[str, None], ...]:
    return tuple((value, None) for value in values)


def shelved(ibi: str, **fields: Any) -> CatalogueRecord:
    described = {"title": "Neve", "content_type": "Metadata", "language": "pt", **fields}
    stated = {name: value for name, value in described.items() if value is not None}
    return CatalogueRecord(rep=ibi, timestamp=NOW, **stated)  # type: ignore[typeddict-item]


SHELF = (
    shelved(OPEN_METADATA),
    shelved(CLOSED_METADATA, access=CLOSED),
    shelved(HIDDEN_METADATA, access=HIDDEN),
    shelved(LINKED_METADATA, title=None, metadata=MetadataAddress("https://a.example/")),
)
find_record = partial(read_record, Shelf(*SHELF))


@pytest.fixture
def app(uri: str, tmp_path: Path) -> Iterator[Flask]:
    app = make_app(uri, tmp_path, IBIArchive(clock=lambda: NOW))
    archive_of(app).init()
    yield app
    close(app)


FILES = (FileRecord("a.pdf"), FileRecord("b.xyzzy"), FileRecord("c", "https://a.example/c"))
LISTED = (
    WorkFile("a.pdf", f"{PAGES}/{A}/doc/a.pdf", "application/pdf"),
    WorkFile("b.xyzzy", f"{PAGES}/{A}/doc/b.xyzzy"),
    WorkFile("c", "https://a.example/c"),
)


def test_only_files_that_all_readers_may_read_are_listed(archive: Archive) -> None:
    for fields, files in [
        ({}, LISTED),
        ({"list_files": False}, ()),
        ({"access": CLOSED}, ()),
        ({"embargo": TODAY}, LISTED),
        ({"embargo": TOMORROW}, ()),
    ]:
        record = Record(rep=A, files=FILES, **fields)
        assert describe_host_item(archive, find_record, record).files == files


def test_the_metadata_of_an_item_of_a_host_describe_it_unless_they_are_hidden(
    archive: Archive,
) -> None:
    for metadata, title, language in [
        (DublinCoreMetadata({"title": texts("Snow")}), "Snow", None),
        # the rule of a metadata item closes its files, not the description
        (MetadataItem(CLOSED_METADATA), "Neve", "pt"),
        (MetadataItem(HIDDEN_METADATA), None, None),
        (MetadataItem(LINKED_METADATA), None, "pt"),
        (MetadataItem(MISSING), None, None),
    ]:
        work = describe_host_item(archive, find_record, Record(rep=A, ibip=IBIP, metadata=metadata))
        assert (work.title, work.has_title) == (title or IBIP, title is not None)
        assert work.metadata_language == language
        assert (work.url, work.page_url) == (f"{BASE}/{IBIP}", f"{PAGES}/{A}/")
