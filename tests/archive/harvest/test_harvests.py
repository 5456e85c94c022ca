"""Real harvesters read every format and set."""

from __future__ import annotations

import pytest
from flask import Flask
from oaipmh_scythe import Scythe
from sickle import Sickle
from support.loopback import serving

from flask_ibi_archive import DublinCoreMetadata, ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.formats import BUILT_IN


@pytest.mark.usefixtures("parts_of_two")
def test_sickle_and_scythe_read_every_format_and_set(app: Flask, archive: Archive) -> None:
    elements = {"title": (("Rain", None),), "type": (("doctoral thesis", None),)}
    record = ItemRecord(metadata=DublinCoreMetadata(elements))
    items = [archive.deposit(record).ibip for _ in range(5)]
    archive.deposit(ItemRecord(title="Snow"))
    with serving(app) as address, Scythe(f"http://{address}/ibi/oai") as scythe:
        sickle = Sickle(f"http://{address}/ibi/oai")
        prefixes = [format.name for format in BUILT_IN if format.is_xml]
        assert [one.metadataPrefix for one in sickle.ListMetadataFormats()] == prefixes
        for prefix in prefixes:
            # a list of several parts
            for records in (
                sickle.ListRecords(metadataPrefix=prefix, set="type:doctoral-thesis"),
                scythe.list_records(metadata_prefix=prefix, set_="type:doctoral-thesis"),
            ):
                assert [one.header.identifier.split(":", 2)[2] for one in records] == items
        for sets in (sickle.ListSets(), scythe.list_sets()):
            specs = [one.setSpec for one in sets]
            assert specs == ["openaire", "driver", "type:doctoral-thesis", "type:other"]
