"""No claim is lost or reordered, and no two trees of one size are signed with one key.

Transactions are open at the same time, the database is set back, and processes are killed before a
statement or a write to a file (federation CL-4).
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from flask import Flask
from flask_ibi_archive.archive.claims.signing import KeyFolder
from sqlalchemy import event, select, update
from support.archives import archive_of, close, make_app
from support.clocks import Clock
from support.published_logs import (
    DatabaseCopy,
    compute_tree,
    open_published,
    read_claims,
    read_entries,
    sequence,
)

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.claims import sequencer
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.core.claims.claim import parse_claim
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import NotReady

ITEMS = 6


class Signatures:
    """All trees that were signed: there is one of each size for each key."""

    def __init__(self) -> None:
        self.roots: dict[tuple[object, int], bytes] = {}

    def add(self, key: object, size: int, root: bytes) -> None:
        assert self.roots.setdefault((key, size), root) == root

    def publish(self, archive: Archive, clock: Clock) -> list[bytes]:
        """Publish the log, check it, and return its entries."""
        clock.wait(2)
        sequence(archive)
        opened = open_published(archive)
        checkpoint = opened.checkpoint
        self.add(archive.claims.verifier(), checkpoint.size, checkpoint.root)
        entries = read_entries(archive, checkpoint.size)
        assert compute_tree(entries) == checkpoint.root
        assert archive.claims.verify() == []
        return entries


class Walk:
    """Random changes of items, and the claims that must be in the log."""

    def __init__(self, archive: Archive, clock: Clock, seed: int) -> None:
        self.archive = archive
        self.clock = clock
        self.dice = random.Random(seed)
        self.signatures = Signatures()
        self.names = [archive.deposit(title="t").ibip for _ in range(ITEMS)]
        with archive.database.reading() as connection:
            rows = connection.execute(select(Item.ibip, Item.id).where(~Item.is_service))
            self.ids = {row.ibip: row.id for row in rows}
        self.now = {name: format_timestamp(clock()) for name in self.names}
        self.claimed = {name: [time] for name, time in self.now.items()}
        self.open: dict[int, tuple[ExitStack, Any, dict[str, str]]] = {}
        self.copy: tuple[DatabaseCopy, dict[str, str]] | None = None

    @property
    def may_overlap(self) -> bool:
        return not self.archive.database.has_one_writer

    def change(self) -> None:
        """Change items in one of two transactions, and commit it or roll it back sometimes."""
        number = self.dice.randrange(2)
        if number not in self.open:
            stack = ExitStack()
            store = stack.enter_context(self.archive.context.transaction())
            self.open[number] = stack, store, {}
        stack, store, changes = self.open[number]
        for _ in range(self.dice.randrange(1, 4)):
            name = self.names[self.dice.randrange(ITEMS // 2) * 2 + number]
            self.clock.wait(1)
            store.connection.execute(
                update(Item).where(Item.id == self.ids[name]).values(timestamp=self.clock())
            )
            changes[name] = format_timestamp(self.clock())
        if not self.may_overlap or self.dice.random() < 0.5:
            self.end(number)

    def end(self, number: int) -> None:
        stack, _, changes = self.open.pop(number)
        if self.dice.random() < 0.2:
            stack.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
            return
        stack.close()
        for name, time in changes.items():
            self.now[name] = time
            self.claimed[name].append(time)

    def check(self) -> None:
        """Publish the log. It must contain each committed change of an item, in their order."""
        found: dict[str, list[str]] = {name: [] for name in self.names}
        for entry in self.signatures.publish(self.archive, self.clock):
            claim = parse_claim(entry)
            if claim.ibip in found:
                found[claim.ibip].append(claim.timestamp)
        assert found == self.claimed

    def back_up(self) -> None:
        if not self.open:
            self.check()
            self.copy = DatabaseCopy(self.archive), dict(self.now)

    def restore(self) -> None:
        """Set the database back to a state before the last signature: a new log begins."""
        if self.copy is None or self.open:
            return
        self.archive.edit(self.names[0], title=str(self.dice.random()))
        self.signatures.publish(self.archive, self.clock)
        copy, before = self.copy
        copy.restore()
        if not self.may_overlap:  # all tables were set back
            self.now = dict(before)
        else:
            self.now[self.names[0]] = self.read_time(self.names[0])
        self.claimed = {name: [time] for name, time in self.now.items()}
        self.copy = None
        self.check()

    def read_time(self, name: str) -> str:
        item = self.archive.get(name)
        assert item is not None
        return format_timestamp(item.record.timestamp) or ""

    def run(self, steps: int) -> None:
        actions: list[Callable[[], None]] = [self.change] * 6
        actions += [self.check, self.check, self.back_up, self.restore]
        for _ in range(steps):
            self.dice.choice(actions)()
        for number in [*self.open]:
            self.end(number)
        self.check()


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 9))]
)
def test_the_log_has_each_committed_change_once(
    archive: Archive, clock: Clock, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencer, "BATCH", 3)
    monkeypatch.setattr(sequencer, "AHEAD", 20)
    Walk(archive, clock, seed).run(60)


def test_threads_and_processes_sequence_one_after_the_other(
    archive: Archive, uri: str, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencer, "BATCH", 5)
    names = {archive.deposit(title="t").ibip for _ in range(10)}
    other = make_app(uri, tmp_path, IBIArchive(clock=clock))
    threads = [
        Thread(target=sequence, args=(each,))
        for each in (archive, archive_of(other), archive, archive_of(other))
    ]
    for thread in threads:
        thread.start()
    names |= {archive.deposit(title="t").ibip for _ in range(10)}
    for thread in threads:
        thread.join()
    entries = Signatures().publish(archive, clock)
    claimed = [parse_claim(entry).ibip for entry in entries]
    assert len(claimed) == 21
    assert set(claimed) > names
    close(other)


def test_a_long_transaction_delays_the_beginning_of_the_log_but_not_other_writers(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(app)
    if archive.database.has_one_writer:
        pytest.skip("transactions do not overlap")
    monkeypatch.setattr(sequencer, "WRITERS_TIMEOUT", 0.05)
    name = archive.deposit(title="t").ibip
    with archive.database.writing() as connection:
        connection.execute(update(Item).where(Item.ibip == name).values(language="pt"))
        with pytest.raises(NotReady, match="lock"):
            archive.claims.create_key()
        archive.deposit(title="u")
    archive.claims.create_key()
    assert name in [claim.ibip for claim in read_claims(archive)]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("is_paused", [False, True])
def test_a_transaction_that_does_not_see_the_log_delays_its_beginning(
    app: Flask, level: str, is_paused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(app)
    if archive.database.has_one_writer:
        pytest.skip("a transaction with older data can't write")
    monkeypatch.setattr(sequencer, "WRITERS_TIMEOUT", 0.05)
    name = archive.deposit(title="t").ibip
    if is_paused:
        archive.claims.create_key()
        archive.claims.pause()
    engine = archive.database.engine.execution_options(isolation_level=level)
    with engine.begin() as connection:
        connection.execute(select(Item.id)).all()  # from now on, it sees the data of this moment
        with pytest.raises(NotReady, match="transaction that began before the log of claims"):
            archive.claims.create_key()
        archive.deposit(title="u")
        connection.execute(update(Item).where(Item.ibip == name).values(state="Deleted"))
    archive.claims.create_key()
    [claim] = [claim for claim in read_claims(archive) if claim.ibip == name]
    assert claim.state is State.DELETED


# --- killed processes ----------------------------------------------------------------------------


@pytest.fixture
def killed(app: Flask) -> Callable[[Callable[[], object], int], bool]:
    """Run a function in another process, which is killed before one of its steps.

    A step is a statement for the database or the write of a file. The function returns whether the
    process was killed.
    """

    def run(work: Callable[[], object], step: int) -> bool:
        archive_of(app).database.close()
        process = os.fork()
        if process == 0:
            try:
                count_steps(archive_of(app), step)
                work()
            finally:
                os._exit(1)
        _, status = os.waitpid(process, 0)
        return os.WIFSIGNALED(status)

    return run


def count_steps(archive: Archive, last: int) -> None:
    """Kill this process before a step."""
    left = last

    def step(*arguments: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(archive.database.engine, "before_cursor_execute", step)
    event.listen(archive.database.engine, "commit", step)
    write = KeyFolder._write

    def write_or_die(folder: KeyFolder, name: str, text: str) -> None:
        step()
        write(folder, name, text)
        step()

    KeyFolder._write = write_or_die  # type: ignore[method-assign, assignment]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(("seed", "kills"), [(1, 3), pytest.param(2, 25, marks=pytest.mark.slow)])
def test_a_killed_process_loses_and_repeats_no_claim(
    archive: Archive,
    clock: Clock,
    seed: int,
    kills: int,
    killed: Callable[[Callable[[], object], int], bool],
) -> None:
    dice = random.Random(seed)
    signatures = Signatures()
    names = [str(archive.served().ibip)]
    done = 0
    while done < kills:
        names += [archive.deposit(title="t").ibip for _ in range(3)]
        clock.now += timedelta(seconds=2)
        is_killed = killed(lambda: archive.claims.checkpoint(clock()), dice.randrange(24))
        done += is_killed
        stored = next(archive.config.claims_folder.glob("*.checkpoint"), None)
        if stored is not None:
            origin, size, root = stored.read_text().split("\n")[:3]
            signatures.add(origin, int(size), root.encode())
        if dice.random() < 0.5:
            check_killed(archive, clock, signatures, names)
    check_killed(archive, clock, signatures, names)


def check_killed(archive: Archive, clock: Clock, signatures: Signatures, names: list[str]) -> None:
    entries = signatures.publish(archive, clock)
    claimed = [parse_claim(entry).ibip for entry in entries]
    assert claimed[1:] == names[1:]
    assert archive.claims.status().number == 1
