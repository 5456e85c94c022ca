"""A real harvester, while items change and are deleted at random: it misses nothing."""

from __future__ import annotations

import random
from contextlib import suppress

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
    """Items that change at random, with the titles that harvesters must know.

    :ivar titles: the titles of all items, by the IBI; None: the item is deleted.
    """

    def __init__(self, archive: Archive, clock: Clock, seed: int) -> None:
        self.archive = archive
        self.clock = clock
        self.random = random.Random(seed)
        self.titles: dict[str, str | None] = {}

    def deposit(self) -> None:
        title = f"Title {self.random.random()} \u2603 & <"
        self.titles[self.archive.deposit(ItemRecord(title=title)).ibip] = title

    def change(self) -> None:
        """Change something; in most cases, the clock stands still. It may be set back."""
        action = self.random.choice(["deposit", "deposit", "import", "edit", "edit", "delete", ""])
        title = f"Title {self.random.random()}"
        live = sorted(ibi for ibi, known in self.titles.items() if known is not None)
        if action == "deposit":
            self.deposit()
        elif action == "import":
            ibi = rep(len(self.titles))
            fields = {"timestamp": "1999-01-01T00:00:00Z", "metadata": {"dc": {"title": [title]}}}
            import_records(self.archive, [{"rep": ibi, **fields}])
            self.titles[ibi] = title
        elif live and action in ("edit", "delete"):
            ibi = self.random.choice(live)
            if action == "edit":
                self.archive.edit(ibi, title=title)
            else:
                self.archive.delete(ibi, "withdrawn")
            self.titles[ibi] = title if action == "edit" else None
        else:
            self.clock.wait(self.random.choice([1, 1, -10]))


@pytest.mark.usefixtures("parts_of_two")
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4))])
def test_a_harvest_during_changes_misses_nothing(
    app: Flask, late_app: Flask, clock: Clock, seed: int
) -> None:
    repository, known = Repository(archive_of(app), clock, seed), dict[str, str | None]()
    since: str | None = None

    def visit(changes: int) -> str:
        """Harvest the changes since the last visit, while some others are made."""
        # the harvester asks one server for the time, and another one for the records
        [began] = texts(harvest(app, verb="Identify"), "responseDate")
        with suppress(NoRecordsMatch):  # nothing has changed
            # the argument from may equal the time of the last visit, because it includes its limit
            for record in scythe.list_records(from_=since, metadata_prefix="oai_dc"):
                ibi = record.header.identifier.split(":", 2)[2]
                known[ibi] = None if record.deleted else record.metadata["title"][0]
                changes -= 1
                if changes >= 0:
                    repository.change()
        return began

    with serving(late_app) as address, Scythe(f"http://{address}/ibi/oai") as scythe:
        for _ in range(8):
            repository.change()
        repository.deposit()  # the first visit finds an item
        for _ in range(3 * seed):
            # after a quiet time, an answer states a time that is later than all changes
            harvest(app, verb="Identify")
            clock.wait(repository.random.choice([0, 100]))
            since = visit(changes=12)
            clock.wait(repository.random.choice([0, 1, 60, -90]))
        repository.deposit()
        visit(changes=0)
    assert known == repository.titles


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
