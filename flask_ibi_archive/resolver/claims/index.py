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
(:data:`VERSION`). Each change of the list of runs adds a run, so a reader whose files belong to the
same version has all bindings. Otherwise it reads the list again. Old files can be deleted while
readers use them. A file that is already deleted when a reader wants to open it means that the list
has changed once more. A list that is newer than the rows is right, because the rows of that moment
are in its runs, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, func, select

from flask_ibi_archive.resolver.claims.index_runs import Holding as Holding
from flask_ibi_archive.resolver.claims.index_runs import OnRivals
from flask_ibi_archive.resolver.claims.tables import IndexRun
from flask_ibi_archive.server.database.database import Database

Result = TypeVar("Result")

#: The rows of the table from which :meth:`ClaimIndex.fold` makes a run.
FOLD_LIMIT = 1_000_000

#: The highest id of the runs; None if there are none. A SELECT that reads rows of the table Binding
#: also selects this value, for :meth:`ClaimIndex.find_in_files`.
VERSION = select(func.max(IndexRun.id)).scalar_subquery().label("index_version")


class ClaimIndex:
    """The index of claims. The class is thread-safe, and can be used in forked processes.

    :param database: the database of the resolver.
    :param folder: the folder of the files. Only this index may have files in it. It is created when
        the first file is written.
    :param limit: the number of rows in the table from which :meth:`fold` makes a run.
    """

    def __init__(self, database: Database, folder: Path, limit: int = FOLD_LIMIT) -> None:
        raise NotImplementedError

    def find(self, connection: Connection, keys: Sequence[bytes]) -> dict[bytes, list[Holding]]:
        """Return the Archives that claim names, in the order of their ids.

        :param connection: may be in a transaction, whose own bindings are found, too.
        :param keys: the keys of the names.
        :returns: the holdings of each key that is claimed; other keys are missing.
        :raises StorageError: if a file is missing or damaged.
        """
        raise NotImplementedError

    def find_in_files(
        self, key: bytes, recent: Iterable[Holding], version: int | None
    ) -> list[Holding]:
        """Return the Archives that claim a name, in the order of their ids.

        :param recent: the rows of the table Binding for the key.
        :param version: the value of :data:`VERSION` in the same SELECT.
        :raises StorageError: if a file is missing or damaged.
        :raises NotReady: if the database does not answer. It is only asked if the version is new.
        """
        raise NotImplementedError

    def store(self, connection: Connection, holdings: Iterable[tuple[bytes, int, int]]) -> None:
        """Store bindings in the transaction of the caller.

        :param holdings: the key of the name, the id of the Archive, the number of the state. The
            state replaces the earlier one of the same key and Archive; in the argument, the last.
        """
        raise NotImplementedError

    def fold(self, force: bool = False, on_rivals: OnRivals | None = None) -> bool:
        """Move the rows of the table to a file if there are many, and merge files.

        The caller must not be in a transaction. Nothing happens if another process is doing this.

        :param force: whether to move the rows even if there are few.
        :param on_rivals: is told of the keys that several Archives claim in the state Original, as
            far as they are in the merged files. The same key may be reported again.
        :returns: whether rows were moved.
        :raises StorageError: if a file can't be written, is missing or damaged.
        """
        raise NotImplementedError

    def compact(self, on_rivals: OnRivals | None = None) -> None:
        """Move all rows to one file. It contains each binding once.

        :param on_rivals: is told of all keys that several Archives claim in the state Original.
        :raises StorageError: if a file can't be written, is missing or damaged, or if another
            process is changing the files.
        """
        raise NotImplementedError

    def clear(self) -> None:
        """Delete all bindings and files.

        :raises StorageError: if another process is changing the files.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the files. They are opened again when they are needed."""
        raise NotImplementedError
