"""A real harvester, while items change and are deleted at random: it misses nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from flask import Flask
from oaipmh_scythe import Scythe
from oaipmh_scythe.exceptions import NoRecordsMatch
from sickle import Sickle
from support.archives import archive_of, import_records
from support.clocks import Clock
from support.harvesting import harvest, texts
from support.loopback import serving
from support.web import rep

from flask_ibi_archive import DublinCoreMetadata, ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.formats import BUILT_IN


class Repository:
    """Items that change at random, with the titles that harvesters must know."""

    def __init__(self, archive: Archive, clock: Clock, seed: int) -> None:
        self.archive = archive
        self.clock = clock
        self.random = random.Random(seed)
        self.titles: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.imported = 0

    def change(self) -> None:
        """Change something; in most cases, the clock stands still. It may be set back."""
        action = self.random.choice(["deposit", "deposit", "import", "edit", "edit", "delete", ""])
        title = f"Title {self.random.random()} \u2603 & <"
        live = sorted(self.titles)
        if action == "deposit":
            self.titles[self.archive.deposit(ItemRecord(title=title)).ibip] = title
        elif action == "import":
            ibi, self.imported = rep(self.imported), self.imported + 1
            fields = {"timestamp": "1999-01-01T00:00:00Z", "metadata": {"dc": {"title": [title]}}}
            import_records(self.archive, [{"rep": ibi, **fields}])
            self.titles[ibi] = title
        elif live and action == "edit":
            ibi = self.random.choice(live)
            self.archive.edit(ibi, metadata=DublinCoreMetadata({"title": ((title, None),)}))
            self.titles[ibi] = title
        elif live and action == "delete":
            ibi = self.random.choice(live)
            self.archive.delete(ibi, "withdrawn")
            del self.titles[ibi]
            self.deleted.add(ibi)
        else:
            self.clock.wait(self.random.choice([1, 1, -10]))


class Harvester:
    """A harvester that knows the records of its earlier visits.

    :param address: the address of the server from which the harvester reads the records.
    :param app: another server of the same Archive, which tells the harvester the time.
    :param titles: the titles of all records, by the IBI; None: the item is deleted.
    """

    def __init__(self, address: str, app: Flask) -> None:
        self.scythe = Scythe(f"http://{address}/ibi/oai")
        self.app = app
        self.since: str | None = None
        self.titles: dict[str, str | None] = {}

    def visit(self, between: Any) -> None:
        """Harvest the changes since the last visit, and call a function between the records."""
        [began] = texts(harvest(self.app, verb="Identify"), "responseDate")
        # the argument from may equal the time of the last visit, because it includes its limit
        with suppress(NoRecordsMatch):  # nothing has changed
            for record in self.scythe.list_records(from_=self.since, metadata_prefix="oai_dc"):
                ibi = record.header.identifier.split(":", 2)[2]
                self.titles[ibi] = None if record.deleted else record.metadata["title"][0]
                between()
        self.since = began


def run(app: Flask, late_app: Flask, clock: Clock, seed: int, visits: int) -> None:
    repository = Repository(archive_of(app), clock, seed)
    with serving(late_app) as address:
        harvester = Harvester(address, app)
        for _ in range(8):
            repository.change()
        repository.archive.deposit(ItemRecord(title="The first visit is not empty"))
        for _ in range(visits):
            budget = iter(range(12))

            def between(budget: Iterator[int] = budget) -> None:
                if next(budget, None) is not None:
                    repository.change()

            known = {*repository.titles, *repository.deleted}
            live = dict(repository.titles)
            # after a quiet time, an answer states a time that is later than all changes
            harvest(app, verb="Identify")
            clock.wait(repository.random.choice([0, 100]))
            harvester.visit(between)
            # an item that nobody changed during the harvest has its title
            for ibi, title in live.items():
                if repository.titles.get(ibi) == title:
                    assert harvester.titles[ibi] == title
            assert known <= harvester.titles.keys()
            clock.wait(repository.random.choice([0, 1, 60, -90]))
        repository.archive.deposit(ItemRecord(title="The last visit is not empty"))
        harvester.visit(lambda: None)
        harvester.scythe.close()
    expected = {**repository.titles, **dict.fromkeys(repository.deleted)}
    assert {ibi: harvester.titles[ibi] for ibi in expected} == expected


@pytest.mark.usefixtures("parts_of_two")
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4))])
def test_a_harvest_during_changes_misses_nothing(
    app: Flask, late_app: Flask, clock: Clock, seed: int
) -> None:
    run(app, late_app, clock, seed, visits=3 * seed)


@pytest.mark.usefixtures("parts_of_two")
def test_sickle_and_scythe_read_every_format_and_set(app: Flask) -> None:
    archive = archive_of(app)
    elements = {"title": (("Rain", None),), "type": (("doctoral thesis", None),)}
    items = [
        archive.deposit(ItemRecord(metadata=DublinCoreMetadata(elements))).ibip for _ in range(7)
    ]
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
                found = [record.header.identifier.split(":", 2)[2] for record in records]
                assert found == items
        for sets in (sickle.ListSets(), scythe.list_sets()):
            specs = [one.setSpec for one in sets]
            assert specs == ["openaire", "driver", "type:doctoral-thesis", "type:other"]
        listed = sickle.ListIdentifiers(metadataPrefix="oai_dc")
        assert listed.resumption_token.complete_list_size == "8"
        assert len(list(listed)) == 8
