"""The index of claims: which Archives claim an identifier or an alias.

Theory
------

A resolver of 10^8 items with two names each has 2*10^8 bindings of 20 bytes. A table of SQLite
needs 25 to 36 bytes for each of them, LMDB about 28, and inserting keys that are hash values in
random places of such a table becomes slow when the table is larger than the memory. Therefore the
index has two parts:

- The recent bindings are in the table :class:`Binding`. They are stored in the transaction that
  moves the position up to which the log of the Archive was read.
- All others are in immutable files with sorted records of fixed size (index_runs.py). Their list
  is the table :class:`IndexRun`. A newer run has a higher id, and newer bindings win.

:meth:`ClaimIndex.fold` moves the rows of the table to a new run when there are many. Then it merges
the newest run with the older ones as long as these are not larger than all newer ones together.
Therefore the sizes of the runs at least double from each run to the next older one: n rows are in
at most log2(n / limit) + 1 runs, and each record is written log2(n / limit) / 2 times on average.

Crashes: a new file is complete and on the disk, under its final name, before the transaction
commits that names it and that removes what the file replaces. Killed at any point, a process leaves
either the old or the new set. Files that no row names are deleted by the next process that folds. A
lock on the folder makes sure that there is only one.

Readers: a SELECT that reads the rows of the table also returns the highest id of the runs
(:data:`VERSION`). Each change of the list of runs adds a run or removes all, so a reader whose
files belong to the same version has all bindings. Otherwise it reads the list again. Old files can
be deleted while readers use them. A file that is already deleted when a reader wants to open it
means that the list has changed once more. A list that is newer than the rows is right, because the
rows of that moment are in its runs, too.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, delete, func, insert, literal, select, text
from sqlalchemy.types import LargeBinary

from flask_ibi_archive.core.claims.claim import STATE_NUMBERS
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.old_claims.index_runs import Holding as Holding
from flask_ibi_archive.resolver.old_claims.index_runs import (
    Run,
    explain_damage,
    merge,
    pack,
    write_run,
)
from flask_ibi_archive.resolver.old_claims.tables import Binding, IndexRun
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import batched
from flask_ibi_archive.server.files import lock_folder

Runs: TypeAlias = "dict[int, Run]"
#: Calls a function with a connection.
Read: TypeAlias = "Callable[[Callable[[Connection], Sequence[Any]]], Sequence[Any]]"

#: The rows of the table from which :meth:`ClaimIndex.fold` makes a run.
FOLD_LIMIT = 1_000_000
#: The bindings that :meth:`ClaimIndex.rebuild` sorts in memory.
FILE_ROWS = 200_000
#: The rows that are read or written at once.
BATCH = 5000

#: The number of the state that hides an earlier one: the Archive no longer claims the name.
NOT_CLAIMED = 0

#: The highest id of the runs; None if there are none. A SELECT that reads rows of the table Binding
#: also selects this value, for :meth:`ClaimIndex.find_in_files`.
VERSION = select(func.max(IndexRun.id)).scalar_subquery().label("index_version")

_RUNS = select(IndexRun.id, IndexRun.name).order_by(IndexRun.id)
_IS_WRONG = Binding.state.not_in([NOT_CLAIMED, *STATE_NUMBERS.values()])
_BINDINGS = select(Binding.key, Binding.archive_id, Binding.state)
#: PostgreSQL: lets others read the bindings, but not change them.
_LOCK = f"LOCK TABLE {Binding.__tablename__} IN SHARE ROW EXCLUSIVE MODE"
_UPSERT = "ON CONFLICT (key, archive_id) DO UPDATE SET state = excluded.state"
_INSERT = f"INSERT INTO {Binding.__tablename__} (key, archive_id, state)"
_STORE_EACH = f"{_INSERT} VALUES (?, ?, ?) {_UPSERT}"
#: One parameter contains all records, because PostgreSQL needs long to bind many parameters.
_STORE_RECORDS = text(
    f"{_INSERT} SELECT substring(data FROM n + 1 FOR 16),"
    " get_byte(data, n + 16) * 65536 + get_byte(data, n + 17) * 256 + get_byte(data, n + 18),"
    " get_byte(data, n + 19) FROM (SELECT CAST(:records AS bytea) AS data) AS records,"
    f" generate_series(0, length(data) - 20, 20) AS n {_UPSERT}"
).bindparams(bindparam("records", type_=LargeBinary))


class ClaimIndex:
    """The index of claims. The class is thread-safe, and can be used in forked processes.

    :param database: the database of the resolver.
    :param folder: the folder of the files. No other files may be in it. It is created when needed.
    :param limit: the number of rows in the table from which :meth:`fold` makes a run.
    """

    def __init__(self, database: Database, folder: Path, limit: int = FOLD_LIMIT) -> None:
        self._database = database
        self._folder = folder
        self._limit = limit
        #: The rows that can be stored until it is worth counting them.
        self._room = 0
        #: The open runs by their ids, from the oldest to the newest. The dict is never changed.
        self._runs: Runs = {}

    # --- finding ---------------------------------------------------------------------------------

    def find(self, connection: Connection, keys: Sequence[bytes]) -> dict[bytes, list[Holding]]:
        """Return the Archives that claim names, in the order of their ids.

        :param connection: may be in a transaction, whose own bindings are found, too.
        :param keys: the keys of the names.
        :returns: the holdings of each key that is claimed; other keys are missing.
        :raises StorageError: if a file is missing or damaged.
        """
        found: dict[bytes, list[Holding]] = {}
        for batch in batched(keys, BATCH):
            recent: dict[bytes, list[Holding]] = {key: [] for key in batch}
            one_row = select(literal(1)).subquery()
            statement = (
                select(VERSION, Binding.key, Binding.archive_id, Binding.state)
                .select_from(one_row)
                .outerjoin(Binding, Binding.key.in_(batch))
            )
            rows = connection.execute(statement).all()
            for _, key, archive_id, state in rows:
                if key is not None:
                    recent[key].append(Holding(archive_id, state))
            runs = self._open(rows[0].index_version, lambda work: work(connection))
            for key, holdings in recent.items():
                if complete := _find(key, holdings, runs):
                    found[key] = complete
        return found

    def find_in_files(
        self, key: bytes, recent: Iterable[Holding], version: int | None
    ) -> list[Holding]:
        """Return the Archives that claim a name, in the order of their ids.

        :param recent: the rows of the table Binding for the key.
        :param version: the value of :data:`VERSION` in the same SELECT.
        :raises StorageError: if a file is missing or damaged.
        :raises NotReady: if the database does not answer. It is only asked if the version is new.
        """
        return _find(key, recent, self._open(version, self._database.read))

    def _open(self, version: int | None, read: Read) -> Runs:
        """Return the runs of a version, or of a newer one."""
        runs = self._runs
        return runs if next(reversed(runs), None) == version else self._reload(read)

    def _reload(self, read: Read) -> Runs:
        """Read the list of runs, open those that are new, and return all."""
        lost = None
        while True:
            names: dict[int, str] = dict(read(_list_runs))
            try:
                runs = {
                    id: self._runs.get(id) or Run(self._folder / name) for id, name in names.items()
                }
            except OSError as error:
                if names == lost:  # nobody has replaced the file
                    reason = f"can't be opened: {error.strerror}"
                    raise explain_damage(error.filename or self._folder, reason) from error
                lost = names
            else:
                self._runs = runs
                return runs

    def check(self) -> None:
        """Read all bindings.

        :raises StorageError: if a file is missing or damaged, or if a row has an unknown state.
        """
        deque(merge(list(self._reload(self._database.read).values())), 0)
        if self._database.read_rows(select(Binding.key).where(_IS_WRONG).limit(1)):
            raise StorageError(
                f"the table {Binding.__tablename__} has a row with an unknown state; run: flask "
                "ibi-resolver rebuild-index"
            )

    # --- storing ---------------------------------------------------------------------------------

    def store(self, connection: Connection, holdings: Iterable[tuple[bytes, int, int]]) -> None:
        """Store bindings in the transaction of the caller.

        :param holdings: the key of the name, the id of the Archive (at most 2**24 - 1), the number
            of the state or :data:`NOT_CLAIMED`. The state replaces the earlier one of the same key
            and Archive; in the argument, the last one counts.
        """
        states = {(key, archive_id): state for key, archive_id, state in holdings}
        # in the order of the keys, so that two writers can't lock rows crosswise
        rows = [(*binding, state) for binding, state in sorted(states.items())]
        self._room -= len(rows)
        for batch in batched(rows, BATCH):
            if self._database.has_one_writer:
                connection.exec_driver_sql(_STORE_EACH, batch)
            else:
                records = b"".join(pack(*row) for row in batch)
                connection.execute(_STORE_RECORDS, {"records": records})

    def fold(self, force: bool = False) -> bool:
        """Move the rows of the table to a file if there are many, and merge files.

        The caller must not be in a transaction. Nothing happens if another process is doing this.
        While the rows are moved, nobody can change them; on SQLite, nobody can write.

        :param force: whether to move the rows even if there are few.
        :returns: whether rows were moved.
        :raises StorageError: if a file can't be written, is missing or damaged.
        """
        if not force and not self._is_full():
            return False
        with self._locking() as locked:
            if locked:
                self._move_rows()
                runs = self._reload(self._database.read)
                count = count_mergeable([run.records for run in runs.values()])
                self._merge(dict(list(runs.items())[-count:]))
                self._remove_old_files()
        return locked

    def compact(self) -> None:
        """Move all rows to one file. It contains each binding once.

        The caller must not be in a transaction.

        :raises StorageError: if a file can't be written, is missing or damaged, or if another
            process is changing the files.
        """
        with self._locking() as locked:
            self._refuse_unless(locked)
            self._move_rows()
            self._merge(self._reload(self._database.read))
            self._remove_old_files()

    def clear(self) -> None:
        """Delete all bindings and files. The caller must not be in a transaction.

        :raises StorageError: if another process is changing the files.
        """
        with self._locking() as locked:
            self._refuse_unless(locked)
            with self._database.writing(table_lock=_LOCK) as connection:
                connection.execute(delete(Binding))
                connection.execute(delete(IndexRun))
            self._remove_old_files()

    def rebuild(self, holdings: Iterable[tuple[bytes, int, int]], batch: int = FILE_ROWS) -> None:
        """Replace all files by one with other bindings. The rows of the table remain, and win.

        Rows with an unknown state are deleted.

        Until all bindings are in the new file, lookups use the old files.

        :param holdings: see :meth:`store`. Later states of a key and an Archive win.
        :param batch: the number of bindings that are sorted in memory.
        :raises StorageError: if a file can't be written, or if another process is changing the
            files. Then the old files remain.
        """
        with self._locking() as locked:
            self._refuse_unless(locked)
            parts: list[Run] = []
            for some in batched(holdings, batch):
                parts.append(self._sort(some))
                count = count_mergeable([part.records for part in parts])
                parts[-count:] = [self._merge_parts(parts[-count:])]
            if len(parts) > 1:
                parts = [self._merge_parts(parts)]
            with self._database.writing() as connection:
                connection.execute(delete(IndexRun))
                connection.execute(delete(Binding).where(_IS_WRONG))
                for part in parts:
                    row = {"name": part.path.name, "records": part.records}
                    connection.execute(insert(IndexRun), row)
            self._remove_old_files()

    def close(self) -> None:
        """Close the files when no thread uses them. They are opened again when they are needed."""
        self._runs = {}

    # --- the files -------------------------------------------------------------------------------

    def _is_full(self) -> bool:
        if self._room <= 0:
            counting = select(func.count()).select_from(Binding)
            self._room = self._limit - self._database.read_rows(counting)[0][0]
        return self._room <= 0

    @contextmanager
    def _locking(self) -> Iterator[bool]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(self._folder, exclusive=True) as locked:
            yield locked

    def _refuse_unless(self, locked: bool) -> None:
        if not locked:
            raise StorageError(
                f"the index of claims in {self._folder} is being changed; try again later"
            )

    def _move_rows(self) -> None:
        """Move the rows of the table to a new run."""
        with self._database.writing(table_lock=_LOCK) as connection:
            statement = _BINDINGS.order_by(Binding.key, Binding.archive_id)
            if connection.execute(statement.limit(1)).first() is not None:
                rows = connection.execute(statement.execution_options(yield_per=BATCH))
                blocks = (b"".join(pack(*row) for row in some) for some in rows.partitions())
                connection.execute(insert(IndexRun), self._write_run(blocks))
                connection.execute(delete(Binding))
        self._room = self._limit

    def _merge(self, runs: Runs) -> None:
        """Replace the newest runs by one that contains their records."""
        if len(runs) < 2:
            return
        run = self._write_run(merge(list(runs.values())))
        with self._database.writing() as connection:
            connection.execute(insert(IndexRun), run)
            connection.execute(delete(IndexRun).where(IndexRun.id.in_(runs)))

    def _sort(self, holdings: Iterable[tuple[bytes, int, int]]) -> Run:
        """Write a file that no row names yet."""
        states = {(key, archive_id): state for key, archive_id, state in holdings}
        records = b"".join(pack(*binding, states[binding]) for binding in sorted(states))
        return Run(self._folder / str(self._write_run([records])["name"]))

    def _merge_parts(self, parts: Sequence[Run]) -> Run:
        """Replace files that no row names by one."""
        if len(parts) == 1:
            return parts[0]
        merged = Run(self._folder / str(self._write_run(merge(parts))["name"]))
        for part in parts:
            part.path.unlink()
        return merged

    def _write_run(self, blocks: Iterable[bytes]) -> dict[str, object]:
        """Write a file, and return its row."""
        name = f"{secrets.token_hex(8)}.run"
        return {"name": name, "records": write_run(self._folder / name, blocks)}

    def _remove_old_files(self) -> None:
        """Delete the files that no row names: they were merged, or a process was killed."""
        paths = {run.path for run in self._reload(self._database.read).values()}
        for path in self._folder.iterdir():
            if path not in paths:
                path.unlink()


def count_mergeable(sizes: Sequence[int]) -> int:
    """Return how many of the newest runs are to be merged into one.

    :param sizes: the numbers of records of the runs, from the oldest to the newest.
    """
    count = total = 0
    for size in reversed(sizes):
        if count and size > total:
            break
        count += 1
        total += size
    return count


def _find(key: bytes, recent: Iterable[Holding], runs: Runs) -> list[Holding]:
    states = dict(recent)
    for run in reversed(runs.values()):
        for archive_id, state in run.find(key):
            states.setdefault(archive_id, state)
    return [Holding(*item) for item in sorted(states.items()) if item[1] != NOT_CLAIMED]


def _list_runs(connection: Connection) -> Sequence[Any]:
    return connection.execute(_RUNS).all()
