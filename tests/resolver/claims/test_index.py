"""The index of claims equals a dict, also after crashes, and while other processes read it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import event, func, select
from support.loopback import PATIENCE
from support.registries import resolver_database

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.old_claims import index as module
from flask_ibi_archive.resolver.old_claims.index import (
    VERSION,
    ClaimIndex,
    Holding,
    count_mergeable,
)
from flask_ibi_archive.resolver.old_claims.index_runs import Run
from flask_ibi_archive.resolver.old_claims.tables import Binding, IndexRun
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.files import lock_folder

Bindings = dict[tuple[bytes, int], int]

ORIGINAL, COPY, DELETED = 1, 2, 3
LIMIT = 5
KEYS = [bytes(16), b"\0" * 15 + b"\1", b"name" * 4, b"named" * 3 + b"!", b"\xff" * 16]


@pytest.fixture
def index(database: Database, tmp_path: Path) -> ClaimIndex:
    return ClaimIndex(database, tmp_path / "index", LIMIT)


def store(index: ClaimIndex, bindings: Bindings) -> None:
    with index._database.writing() as connection:
        index.store(connection, [(*binding, state) for binding, state in bindings.items()])


def find(index: ClaimIndex, keys: Sequence[bytes]) -> dict[bytes, list[Holding]]:
    with index._database.reading() as connection:
        return index.find(connection, keys)


def resolve(index: ClaimIndex, key: bytes) -> list[Holding]:
    """Return what is found with the rows and the version that one SELECT of the caller read."""
    version = select(VERSION).subquery()
    found = index._database.read_rows(
        select(version.c.index_version, Binding.archive_id, Binding.state)
        .select_from(version)
        .outerjoin(Binding, Binding.key == key)
    )
    recent = [Holding(row.archive_id, row.state) for row in found if row.state is not None]
    return index.find_in_files(key, recent, found[0].index_version)


def expected(bindings: Bindings) -> dict[bytes, list[Holding]]:
    found: dict[bytes, list[Holding]] = {}
    for (key, archive_id), state in sorted(bindings.items()):
        found.setdefault(key, []).append(Holding(archive_id, state))
    return found


def files(index: ClaimIndex) -> list[str]:
    return sorted(path.name for path in index._folder.iterdir())


def named_files(index: ClaimIndex) -> list[str]:
    return sorted(row.name for row in index._database.read_rows(select(IndexRun.name)))


def count_rows(index: ClaimIndex) -> int:
    return int(index._database.read_rows(select(func.count()).select_from(Binding))[0][0])


# --- against a model -----------------------------------------------------------------------------

BINDINGS = st.dictionaries(
    st.tuples(
        st.sampled_from(KEYS) | st.binary(min_size=16, max_size=16),
        st.integers(1, 4) | st.just(2**24 - 1),
    ),
    st.sampled_from([ORIGINAL, COPY, DELETED]),
    max_size=12,
)


class IndexMachine(RuleBasedStateMachine):
    """Stores and moves bindings in one process, and reads them with the object of another one."""

    database: ClassVar[Database]
    folder: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__()
        self.model: Bindings = {}
        self.index = ClaimIndex(self.database, self.folder, LIMIT)
        self.reader = ClaimIndex(self.database, self.folder)
        self.index.clear()

    @rule(bindings=BINDINGS)
    def store(self, bindings: Bindings) -> None:
        store(self.index, bindings)
        self.model |= bindings

    @rule(bindings=BINDINGS)
    def roll_back(self, bindings: Bindings) -> None:
        after = expected(self.model | bindings)
        with suppress(KeyError), self.database.writing() as connection:
            self.index.store(connection, [(*binding, state) for binding, state in bindings.items()])
            found = self.index.find(connection, [key for key, _ in bindings])
            assert found == {key: after[key] for key, _ in bindings}
            raise KeyError

    @rule(force=st.booleans())
    def fold(self, force: bool) -> None:
        rows = count_rows(self.index)
        is_moved = self.index.fold(force)
        assert is_moved is (force or rows >= LIMIT)
        assert count_rows(self.index) == (0 if is_moved else rows)

    @rule()
    def compact(self) -> None:
        self.index.compact()
        assert len(files(self.index)) == bool(self.model)

    @rule(bindings=BINDINGS, batch=st.integers(1, 5))
    def rebuild(self, bindings: Bindings, batch: int) -> None:
        self.index.fold(force=True)
        recent = dict(list(self.model.items())[:2])
        store(self.index, recent)
        holdings = [(*binding, state) for binding, state in bindings.items()]
        again = [(key, archive_id, DELETED) for key, archive_id, _ in holdings[:3]]
        self.index.rebuild([*again, *holdings], batch)
        assert find_runs(self.index) == [len(bindings)] * bool(bindings)
        self.model = bindings | recent

    @rule()
    def clear(self) -> None:
        self.index.clear()
        self.model = {}
        assert files(self.index) == []

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = ClaimIndex(self.database, self.folder, LIMIT)

    @invariant()
    def finds_what_the_model_has(self) -> None:
        keys = [*KEYS, b"unclaimed".ljust(16), *(key for key, _ in self.model)]
        assert find(self.reader, keys) == expected(self.model)
        assert [resolve(self.reader, key) for key in KEYS] == [
            expected(self.model).get(key, []) for key in KEYS
        ]

    @invariant()
    def keeps_named_files_only(self) -> None:
        assert files(self.index) == named_files(self.index)
        runs = list(find_runs(self.index))
        assert count_mergeable(runs) <= 1
        assert sum(runs) <= 2 * len(self.model) or len(runs) <= 1


def find_runs(index: ClaimIndex) -> list[int]:
    rows = index._database.read_rows(select(IndexRun.records).order_by(IndexRun.id))
    return [row.records for row in rows]


@pytest.fixture
def machine(uri: str, tmp_path: Path) -> Iterator[type[IndexMachine]]:
    with resolver_database(uri) as database:

        class Machine(IndexMachine):
            pass

        Machine.database, Machine.folder = database, tmp_path / "index"
        yield Machine


def run(machine: type[IndexMachine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
        ),
    )


@pytest.mark.slow
def test_a_few_random_operations_equal_the_model(machine: type[IndexMachine]) -> None:
    run(machine, 6, 25)


@pytest.mark.slow
def test_random_operations_equal_the_model(machine: type[IndexMachine]) -> None:
    run(machine, 50, 50)


@pytest.mark.slow
def test_many_names_are_found_at_once(index: ClaimIndex) -> None:
    bindings = {(os.urandom(16), 1 + number % 3): COPY for number in range(12_000)}
    store(index, bindings)
    keys = [key for key, _ in bindings]
    assert find(index, keys) == expected(bindings)
    index.fold()
    assert find(index, keys) == expected(bindings)


def test_the_last_state_of_a_list_counts(index: ClaimIndex) -> None:
    with index._database.writing() as connection:
        index.store(connection, [(KEYS[0], 1, ORIGINAL), (KEYS[0], 1, DELETED)])
    assert find(index, KEYS) == {KEYS[0]: [Holding(1, DELETED)]}


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ([], 0),
        ([8, 7], 1),
        ([7, 7], 2),
        ([16, 8, 4, 4], 4),
        ([99, 12, 5, 6], 2),
    ],
)
def test_newest_runs_are_merged_until_an_older_one_is_larger_than_all_newer_ones(
    sizes: list[int], count: int
) -> None:
    assert count_mergeable(sizes) == count


def test_the_number_of_files_grows_with_the_logarithm(index: ClaimIndex) -> None:
    for number in range(64):
        store(index, {(os.urandom(16), number): COPY for _ in range(LIMIT)})
        assert index.fold()
        runs = find_runs(index)
        assert sum(runs) == LIMIT * (number + 1)
        assert len(runs) == bin(number + 1).count("1")


# --- crashes and other processes -----------------------------------------------------------------


def in_child(work: Callable[[], None]) -> int:
    """Run a function in a forked process, and return its exit status; negative: a signal."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def kill_at(step: int, database: Database) -> None:
    """Kill this process before the given statement, commit, or change of a file."""
    left = step

    def count(*_: Any, **__: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("before_cursor_execute", "commit"):
        event.listen(database.engine, name, count)
    sync = os.fsync
    os.fsync = lambda file: (count(), sync(file))[1]
    sys.addaudithook(
        lambda name, _: (
            count() if name in ("open", "os.rename", "os.remove", "os.listdir") else None
        )
    )


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", [ClaimIndex.fold, ClaimIndex.compact])
def test_a_process_that_is_killed_at_any_point_leaves_the_same_bindings(
    index: ClaimIndex, operation: Callable[[ClaimIndex], object], stride: int
) -> None:
    """Each fifth point is tried, and each one in the slow test."""
    database = index._database
    step, status = 0, -signal.SIGKILL
    while status:
        index.clear()
        first = {(key, archive): ORIGINAL for key in KEYS for archive in (1, 2, 3)}
        second = {(key, archive): DELETED for key in KEYS for archive in (2, 4)}
        for bindings in (first, second):
            store(index, bindings)
            index.fold()
        recent = {(key, archive): COPY for key in KEYS for archive in (3, 4)}
        store(index, recent)

        def work(step: int = step) -> None:
            kill_at(step, database)
            operation(ClaimIndex(database, index._folder, LIMIT))

        status = in_child(work)
        assert status in (0, -signal.SIGKILL)
        assert find(index, KEYS) == expected(first | second | recent)
        index.fold(force=True)
        assert find(ClaimIndex(database, index._folder), KEYS) == expected(first | second | recent)
        assert files(index) == named_files(index)
        step += stride
    assert step > 15


@pytest.mark.slow
def test_processes_read_while_another_one_stores_and_merges(index: ClaimIndex) -> None:
    keys = [os.urandom(16) for _ in range(40)]
    store(index, {(key, 1): ORIGINAL for key in keys})
    context = multiprocessing.get_context("fork")
    is_over = context.Event()
    ready = context.Semaphore(0)

    def read_until_the_end() -> None:
        reader = ClaimIndex(index._database, index._folder)
        newest = dict.fromkeys(keys, 0)
        is_last = False
        while not is_last:
            is_last = is_over.is_set()
            found = find(reader, keys)
            for key in keys:
                for holdings in (found[key], resolve(reader, key)):
                    assert [holding.archive_id for holding in holdings] == [1]
                    assert holdings[0].state >= newest[key]
                    newest[key] = holdings[0].state
            ready.release()
        assert min(newest.values()) == 100

    readers = [context.Process(target=read_until_the_end) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in readers:
        assert ready.acquire(timeout=PATIENCE)
    for state in range(2, 101):
        store(index, {(key, 1): state for key in keys})
        index.fold()
        if state % 10 == 0:
            index.compact()
    is_over.set()
    for reader in readers:
        reader.join()
    assert [reader.exitcode for reader in readers] == [0, 0]


def test_one_process_at_a_time_changes_the_files(index: ClaimIndex) -> None:
    store(index, {(key, 1): ORIGINAL for key in KEYS})
    index.fold()
    with lock_folder(index._folder, exclusive=True):
        assert not index.fold(force=True)
        for operation in (index.compact, index.clear, lambda: index.rebuild([])):
            with pytest.raises(StorageError, match="is being changed; try again later"):
                operation()
    assert index.fold(force=True)


def test_files_that_disappear_between_list_and_opening_are_looked_up_again(
    index: ClaimIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state in (COPY, ORIGINAL):
        store(index, {(key, 1): state for key in [*KEYS, bytes([state]) * 16]})
    index.fold()
    store(index, {(KEYS[0], 2): DELETED})

    def replace_files_first(path: Path) -> Run:
        monkeypatch.setattr(module, "Run", Run)
        index.compact()
        return Run(path)

    monkeypatch.setattr(module, "Run", replace_files_first)
    reader = ClaimIndex(index._database, index._folder)
    assert find(reader, KEYS[:1]) == {KEYS[0]: [Holding(1, ORIGINAL), Holding(2, DELETED)]}


def test_a_missing_or_damaged_file_is_an_error_with_advice(index: ClaimIndex) -> None:
    store(index, {(key, 1): ORIGINAL for key in KEYS})
    index.fold()
    [name] = files(index)
    path = index._folder / name
    content = path.read_bytes()
    for damage in (path.unlink, lambda: path.write_bytes(content[:-1])):
        damage()
        for work in (lambda: find(index, KEYS), index.compact):
            index.close()
            with pytest.raises(StorageError) as error:
                work()
            assert str(path) in str(error.value)
            assert str(error.value).endswith("run: flask ibi-resolver rebuild-index")
    index.clear()
    assert find(index, KEYS) == {}
