"""The change log: whoever reads on from a number misses nothing, and meets each item once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, select, update
from support.archives import archive_of, close, make_app
from support.clocks import Clock
from support.harvesting import MORNING, harvest

from flask_ibi_archive import IBIArchive, ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.changes import (
    Appearance,
    Change,
    ChangeNote,
    number_changes,
    renew,
    select_datestamp,
)
from flask_ibi_archive.archive.items.tables import Item

TESTS = Path(__file__).parents[2]
#: Changes the title of an item and lets a harvester number the change, for ever.
CHANGE = """
import sys
from itertools import count
from pathlib import Path
from support.archives import archive_of, make_app
uri, folder, ibi = sys.argv[1:]
app = make_app(uri, Path(folder))
for number in count():
    archive_of(app).edit(ibi, title=f"Rain {number}")
    print(number, flush=True)
    app.test_client().get("/ibi/oai?verb=Identify")
"""


def kill_while_changing(uri: str, folder: Path, ibi: str | None, changes: int) -> int:
    """Kill a process that edits an item again and again, and return the number of its last edit.

    :param changes: the number of edits after which it is killed, a moment later.
    """
    with subprocess.Popen(
        [sys.executable, "-c", CHANGE, uri, folder, str(ibi)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    ) as process:
        assert process.stdout is not None
        numbers = [process.stdout.readline() for _ in range(changes)]
        sleep(random.random() / 50)
        process.kill()
        numbers += process.stdout.read().split()
    return int(numbers[-1])


@pytest.fixture
def clock() -> Clock:
    return Clock(MORNING)


@pytest.fixture
def app(uri: str, tmp_path: Path, clock: Clock) -> Iterator[Flask]:
    app = make_app(uri, tmp_path, IBIArchive(clock=clock))
    archive_of(app).init()
    yield app
    close(app)


def describe(connection: Connection, items: Any) -> dict[int, Appearance]:
    """Return what readers see of items: the key of the host, which stands for a description."""
    rows = connection.execute(select(Item.id, Item.host_key).where(Item.id.in_(items)))
    return {one.id: Appearance("", sha256(str(one.host_key).encode()).hexdigest()) for one in rows}


def number(archive: Archive, connection: Connection, now: datetime, limit: int = 100) -> bool:
    """Give numbers to changes, and return whether there may be more."""
    return number_changes(connection, archive.served().id, now, limit, describe)[1]


class Reader:
    """A reader that reads on from the last number that it has seen."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.last, self.datestamp = 0, MORNING.replace(year=1970)
        self.seen: dict[int, str] = {}

    def read(self, limit: int = 100) -> list[int]:
        """Read the next changes, and return their items."""
        statement = select(Change.item_id, Change.number, Change.digest, select_datestamp())
        later = statement.where(Change.number > self.last).order_by(Change.number).limit(limit)
        rows = self.archive.database.read_rows(later)
        for item_id, position, digest, datestamp in rows:
            assert datestamp >= self.datestamp
            self.last, self.datestamp, self.seen[item_id] = position, datestamp, digest
        items = [row.item_id for row in rows]
        assert len(set(items)) == len(items)
        return items


def expect(archive: Archive) -> dict[int, str]:
    """Return what a reader must have seen."""
    with archive.database.reading() as connection:
        items = connection.scalars(select(Item.id)).all()
        return {key: shown.digest for key, shown in describe(connection, items).items()}


class Writers:
    """Three transactions that are open at the same time, and change items at random.

    On SQLite, which has one writer, there is one.
    """

    def __init__(self, archive: Archive, chance: random.Random) -> None:
        self.archive, self.random = archive, chance
        ids = [row.id for row in archive.database.read_rows(select(Item.id).order_by(Item.id))]
        count = 1 if archive.database.engine.dialect.name == "sqlite" else 3
        self.items = [ids[number::count] for number in range(count)]
        self.open: dict[int, tuple[ExitStack, Connection]] = {}

    def change(self) -> None:
        """Change an item in a transaction, which begins now if it is not open."""
        writer = self.random.randrange(len(self.items))
        if writer not in self.open:
            stack = ExitStack()
            self.open[writer] = stack, stack.enter_context(self.archive.database.writing())
        key = f"k:{self.random.random()}"
        chosen = self.random.choice(self.items[writer])
        statement = update(Item).where(Item.id == chosen, ~Item.is_service)
        self.open[writer][1].execute(statement.values(host_key=key))

    def end(self, writer: int) -> None:
        """Commit a transaction, or roll it back."""
        stack, connection = self.open.pop(writer)
        if self.random.random() < 0.3:
            connection.rollback()
        stack.close()


@pytest.mark.postgresql
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_a_reader_misses_no_change_that_is_committed_late(
    app: Flask, archive: Archive, clock: Clock, seed: int
) -> None:
    for title in range(6):
        archive.deposit(ItemRecord(title=str(title)))
    chance = random.Random(seed)
    reader, writers = Reader(archive), Writers(archive, chance)
    for _ in range(100):
        action = chance.choice(["change", "change", "end", "number", "read", "wait"])
        if action == "change":
            writers.change()
        elif action == "end" and writers.open:
            writers.end(chance.choice(list(writers.open)))
        elif action == "number" and not (
            archive.database.engine.dialect.name == "sqlite" and writers.open
        ):
            with suppress(ZeroDivisionError), archive.database.writing() as connection:
                number(archive, connection, clock().replace(microsecond=0), chance.choice([1, 5]))
                assert chance.randrange(4) or 1 / 0  # a reader fails: what it did is rolled back
        elif action == "read":
            reader.read(chance.choice([1, 2, 100]))
        else:
            clock.wait(chance.choice([0, 1, 1, 5, -4]))
    for writer in [*writers.open]:
        writers.end(writer)
    with archive.database.writing() as connection:
        while number(archive, connection, clock()):
            pass
    reader.read()
    assert reader.seen == expect(archive)


def test_a_killed_process_loses_no_change(
    app: Flask, archive: Archive, uri: str, tmp_path: Path
) -> None:
    ibi = archive.deposit(ItemRecord(title="Snow")).ibip
    last = kill_while_changing(uri, tmp_path, ibi, random.randrange(5, 25))
    view = archive.get(ibi)
    assert view is not None
    root = harvest(app, verb="ListRecords", metadataPrefix="oai_dc")
    [title] = [one.text for one in root.iter("{*}title")]
    assert view.dublin_core["title"] == ((title, None),)
    assert int(title.split()[1]) >= last
    assert archive.database.read_rows(select(ChangeNote.id)) == []


def test_a_note_about_an_item_that_looks_as_before_changes_nothing(
    app: Flask, archive: Archive, clock: Clock
) -> None:
    archive.deposit(ItemRecord(title="Rain"))
    reader = Reader(archive)
    with archive.database.writing() as connection:
        number(archive, connection, clock())
    items = reader.read()
    with archive.database.writing() as connection:
        connection.execute(update(Item).values(language=Item.language))
        assert connection.scalars(select(ChangeNote.item_id)).all() == items
        number(archive, connection, clock())
        assert not connection.scalars(select(ChangeNote.item_id)).all()
    assert reader.read() == []
    with archive.database.writing() as connection:
        renew(connection, archive.served().id)
        number(archive, connection, clock())
    assert reader.read() == items
