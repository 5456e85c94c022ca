"""Imports the records of a file in batches.

The command import uses :class:`Importer`. A record is a line with the JSON description of an item.
All batches are one transaction, or each batch is a transaction of its own. An interrupted import of
the second kind can be continued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.items.bulk import examine_tables, prepare_for_many_rows
from flask_ibi_archive.archive.items.claim_changes import begin_change
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.importing.items import ItemBatch, rule_error
from flask_ibi_archive.archive.items.importing.progress import (
    NO_BYTES,
    Counts,
    Errors,
    ImportLog,
    ImportProgress,
    ImportResult,
    ImportState,
    Phase,
)
from flask_ibi_archive.archive.items.importing.source import (
    AddFile,
    ImportSource,
    Limits,
    Line,
    LineReader,
    add_files,
    measure_file,
    open_source,
)
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.operations.context import name_archives
from flask_ibi_archive.archive.items.relations import RelationBatch
from flask_ibi_archive.archive.items.rules import explain_refusal
from flask_ibi_archive.archive.items.staging import Staging
from flask_ibi_archive.errors import RecordError, RuleBroken, StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.signals import NOBODY, Notice, Notifier


@dataclass
class Steps:
    """The steps of the import of a file. An import has three phases:

    1. The items are stored without their relations to other items.
    2. If an item has replaced a stub, the item is added to the stub's group of translations.
       (A stub is a row for an item of another Archive. Items of this Archive refer to the stub.)
    3. The relations of the items are stored.

    :param state: the progress of the import. Its ``position`` is the number of bytes of the file
        that the present phase has completed; the reader continues there.
    :param remembered: whether the table of imports keeps the complete import, so that the same file
        is not imported again.
    :param take_back: see :class:`Importer`.
    """

    source: ImportSource
    state: ImportState
    limits: Limits
    remembered: bool = False
    errors: Errors = field(default_factory=Errors)
    take_back: bool = False
    reader: LineReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = LineReader(self.source)

    def read(self, add_file: AddFile) -> Sequence[Line]:
        """Return the next lines whose items must be stored, and add their files.

        If all items are stored, the result is empty.

        :param add_file: a function that adds a file.
        :raises RecordError: if a line is not a valid record, and not all errors are reported.
        """
        if self.state.phase is not Phase.ITEMS:
            return ()

        def add(line: Line) -> None:
            line.contents = add_files(self.source, line, add_file, self.errors)

        return self.reader.read_batch(self.limits, self.errors, add)

    def step(self, store: ItemStore, log: ImportLog, lines: Sequence[Line]) -> ImportState | None:
        """Do the next step of the import in the transaction of the caller.

        :param lines: the lines that :meth:`read` returned, with the checksums of their files.
        :returns: the new progress of the import, or None if the import is complete.
        :raises RecordError: if a line cannot be imported.
        """
        after: ImportState | None
        if self.state.phase is Phase.ITEMS:
            after = self._items(store, log, lines)
        elif self.state.phase is Phase.LANGUAGES:
            after = self._languages(store, log)
        else:
            after = self._relations(store, log)
        if after is None:
            if self.state.on_conflict == "update":
                store.relations.delete_unused_stubs()
            self._end(log)
        else:
            log.save(after)
        return after

    def _end(self, log: ImportLog) -> None:
        """Delete the import from the log, or store that it is complete."""
        if not self.remembered:
            log.forget(self.state)
            return
        reader = self.reader
        for _ in reader.lines:
            pass
        log.finish(
            replace(self.state, position=reader.position, line=reader.line, digest=reader.digest)
        )

    def _items(self, store: ItemStore, log: ImportLog, lines: Sequence[Line]) -> ImportState:
        """Store the items of lines. Without lines, begin the next phase."""
        state, reader = self.state, self.reader
        if not lines:
            return self._begin_phase(Phase.LANGUAGES, lines=reader.line)
        prepare_for_many_rows(store.connection)
        batch = ItemBatch(store, log, state, self.source.name, lines, self.errors, self.take_back)
        batch.write()
        return replace(
            self._at_reader(Phase.ITEMS),
            added=state.added + batch.added,
            updated=state.updated + batch.updated,
            skipped=state.skipped + batch.skipped,
        )

    def _languages(self, store: ItemStore, log: ImportLog) -> ImportState:
        """Add items that have replaced stubs to the groups of translations of these stubs."""
        state = self.state
        pending = log.read_languages(state, self.limits.lines)
        if not pending:
            return self._begin_phase(Phase.TIES)
        for line, ibi in pending:
            for language in line.languages:
                try:
                    with self.errors.rolling_back_on_error(store.connection):
                        store.relations.translations.rejoin(line.item_id, language, ibi)
                except RuleBroken as error:
                    self.errors.add(rule_error(self.source.name, line.line, error, "language"))
        return replace(state, line=pending[-1][0].line)

    def _relations(self, store: ItemStore, log: ImportLog) -> ImportState | None:
        """Store the relations of the items of the next lines.

        :returns: the new progress of the import, or None if no lines are left.
        """
        prepare_for_many_rows(store.connection)
        reader = self.reader
        pending = log.read_references(self.state, self.limits.lines)
        if not pending:
            return self._find_added_lines()
        items = list(zip(pending.values(), reader.read_references(pending), strict=True))
        batch = RelationBatch(store.connection, store.archive_id, items, self.state.started_at)
        for number, (item_id, references) in zip(pending, items, strict=True):
            if batch.known.get(references.identifiers[0], (0, ""))[0] != item_id:
                reader.line = number
                raise reader.error(None, "the line contained another item when it was imported")
            try:
                batch.add(item_id, references)
            except RuleBroken as error:
                self.errors.add(rule_error(self.source.name, number, error))
        batch.write()
        return self._at_reader(Phase.TIES)

    def _find_added_lines(self) -> ImportState | None:
        """Return the state at which the import of added lines begins.

        A user may add lines to the file before the import is resumed. Their items are stored next.
        Then the relations of all lines are stored again, which changes no stored relation.

        :returns: None if no lines were added. Then the import is complete.
        """
        reader = self.reader
        reader.skip_lines(self.state.lines or 0)
        if reader.is_at_end():
            return None
        return self._at_reader(Phase.ITEMS)

    def _at_reader(self, phase: Phase) -> ImportState:
        """Return the state at the position of the reader."""
        reader = self.reader
        return replace(
            self.state,
            phase=phase,
            position=reader.position,
            line=reader.line,
            digest=reader.digest,
        )

    def _begin_phase(self, phase: Phase, lines: int | None = None) -> ImportState:
        """Return the state at the beginning of a phase.

        The phase begins with the first line of the file.

        :param lines: the number of lines of the file; None keeps the known number.
        """
        if phase is Phase.TIES:  # the reader must start again, because this phase reads the file
            self.reader = LineReader(self.source)
        return replace(
            self.state,
            phase=phase,
            position=0,
            line=0,
            digest=NO_BYTES,
            lines=self.state.lines if lines is None else lines,
        )

    # --- resuming an import ----------------------------------------------------------------------

    def move_to_position(self) -> bool:
        """Move the reader to the position that the import has reached.

        :returns: whether the lines before this position are unchanged.
        """
        self.reader = LineReader(self.source)
        return self.reader.skip(self.state.position, self.state.line, self.state.digest)

    def is_unchanged(self) -> bool:
        """Return whether the file has not changed since it was imported completely."""
        return self.move_to_position() and self.reader.is_at_end()


#: The maximum number of lines that are imported together.
BATCH = 2000


class _Rollback(Exception):
    """Raised at the end of a dry run to roll back the transaction."""


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


class _Transaction:
    """A transaction of an import with its new files. It begins when the first batch is written.

    The files of the first batch are staged before the transaction begins, because a transaction
    blocks other writers.

    :param begin: begins the transaction and returns the items of the Archive.
    """

    def __init__(self, staging: Staging, begin: Callable[[], ItemStore]) -> None:
        self.staging = staging
        self._begin = begin
        self._store: ItemStore | None = None

    def begin(self) -> ItemStore:
        """Begin the transaction if it has not begun, and return the items of the Archive."""
        if self._store is None:
            self._store = self._begin()
            self._store.lock_relations(limited=False)
        return self._store

    def complete(self) -> list[Notice]:
        """Move the new files to the store, and return the signals of the transaction."""
        self.staging.move_all_to_store()
        return name_archives(self.begin(), {})


@dataclass
class Importer:
    """Imports the records of a file into an Archive.

    :param files: the folder of stored files.
    :param on_conflict: what is done if an item already exists: error, skip or update.
    :param take_back: whether a line may make an item an Original again whose Original is in another
        Archive.
    :param dry_run: if true, the file is only checked and nothing is changed.
    :param resume: if true, each batch is committed, and an interrupted import is continued.
    :param restart: if true, an interrupted import is not continued. The import starts at the first
        line. The items that were already imported remain.
    :param progress: a function that is called with the number of units of work that are done, and
        with the total number of units. None means that the progress is not reported.
    :param clock: a function that returns the timestamp for items whose records have no timestamp.
    :param on_error: a function that is called with each error of a dry run. The dry run then
        continues with the next line. None means that the first error ends the dry run.
    :param on_resume: a function that is called with the state of an interrupted import before the
        import is continued.
    :param notifier: sends the signals after each commit.
    """

    database: Database
    archive_id: int
    files: FileStore
    on_conflict: str = "error"
    take_back: bool = False
    dry_run: bool = False
    resume: bool = False
    restart: bool = False
    progress: Callable[[int, int], None] | None = None
    clock: Callable[[], datetime] = _now
    on_error: Callable[[RecordError], None] | None = None
    on_resume: Callable[[ImportState], None] = lambda state: None
    notifier: Notifier = NOBODY
    _earlier: Counts = field(default_factory=Counts)

    def run(self, source: ImportSource) -> ImportResult:
        """Import a file.

        Without ``resume``, the import is one transaction. With ``resume``, each record is imported
        only once, even if the import is interrupted several times. With ``resume`` and
        ``on_conflict="error"``, nothing is done if the same file was already imported completely.

        :raises RecordError: if a record is wrong. The error names the line and the field. Without
            ``resume``, nothing was changed. With ``resume``, the batches before the error were
            imported.
        :raises StorageError: if the interrupted import is an import of another file, was started
            with another option ``on_conflict``, or is continued by another process.
        """
        if self.resume and self.dry_run:
            raise ValueError("a dry run cannot be resumed")
        progress = ImportProgress(source.size, self.progress)
        steps = self._open_steps(source)
        try:
            with nullcontext() if self.resume else self._transaction() as transaction:
                self._import(steps, progress, transaction)
                if self.dry_run:
                    raise _Rollback
        except _Rollback:
            pass
        except IntegrityError as error:
            raise explain_refusal(error) from error
        state = steps.state
        if state.added + state.updated >= BATCH and not self.dry_run:
            with self.database.writing() as connection:
                examine_tables(connection)
        progress.finish()
        return ImportResult(state.added, state.updated, state.skipped, self._earlier)

    @contextmanager
    def _transaction(self) -> Iterator[_Transaction]:
        """Yield a transaction; after the commit, send its signals."""
        with self.files.staging() as staging:
            with ExitStack() as stack:

                def open_store() -> ItemStore:
                    connection = stack.enter_context(self.database.writing())
                    begin_change(connection)
                    return ItemStore(connection, self.archive_id)

                transaction = _Transaction(staging, open_store)
                yield transaction
                notices = transaction.complete()
            self.notifier.send(notices)

    def _import(self, steps: Steps, progress: ImportProgress, shared: _Transaction | None) -> None:
        """Import batch by batch.

        :param shared: the transaction of all batches; None: each batch is a transaction.
        """
        after: ImportState | None = steps.state
        while after is not None and after.phase is not Phase.DONE:
            steps.state = after
            progress.report_state(after)
            try:
                with nullcontext(shared) if shared else self._transaction() as transaction:
                    after = self._import_batch(steps, transaction)
            except RecordError as error:
                state = steps.state
                has_begun = state.phase is not Phase.ITEMS or state.position > 0
                if not self.resume or not has_begun:
                    raise
                reason = f"{error.reason}; {_advice(state)}"
                raise RecordError(error.source, error.line, error.field, reason) from error

    def _import_batch(self, steps: Steps, transaction: _Transaction) -> ImportState | None:
        """Import the next batch.

        :returns: the new state of the import, or None if the import is complete.
        :raises StorageError: if another process has continued the import.
        """
        lines = steps.read(measure_file if self.dry_run else transaction.staging.add_stream)
        store = transaction.begin()
        log = ImportLog(store.connection, self.archive_id)
        if not steps.state.id:
            steps.state = log.begin(steps.state, self.resume, self.restart)
        elif not log.has_state(steps.state):
            raise StorageError(f"another process continues the import of {steps.state.source}")
        return steps.step(store, log, lines)

    # --- the beginning ---------------------------------------------------------------------------

    def _open_steps(self, source: ImportSource) -> Steps:
        """Return the steps of a new import, or of an import that is continued.

        :raises StorageError: if the import cannot be continued.
        """
        if self.resume and source.place is None:
            raise StorageError(
                f"{source.name} can't be read again; the option --resume needs a file"
            )
        earlier = self._find_earlier(source) if self.resume and not self.restart else None
        now = self.clock()
        new = ImportState(0, source.place or source.name, self.on_conflict, now)
        errors = Errors(self.on_error if self.dry_run else None)
        steps = Steps(source, earlier or new, Limits(BATCH), self.resume, errors, self.take_back)
        if earlier is not None:
            if not steps.move_to_position():
                raise StorageError(
                    f"the first {earlier.line} lines of {source.name} were changed after they "
                    "were imported; undo the changes and resume the import, or start again with "
                    "--restart and --on-conflict skip or update"
                )
            self._earlier = Counts(earlier.added, earlier.updated, earlier.skipped)
            self.on_resume(earlier)
        return steps

    def _find_earlier(self, source: ImportSource) -> ImportState | None:
        """Return the state of the interrupted import; None if there is no such import.

        If the same file was already imported completely, the state of this complete import is
        returned: a process may be killed after the last commit, before it reports success.

        :raises StorageError: if the interrupted import is an import of another file, or if it was
            started with another option --on-conflict.
        """
        place = source.place or ""
        with self.database.reading() as connection:
            log = ImportLog(connection, self.archive_id)
            finished, state = log.find_finished(place), log.find_unfinished()
        if (
            finished is not None
            and self.on_conflict == finished.on_conflict == "error"
            and Steps(source, finished, Limits(BATCH)).is_unchanged()
        ):
            return finished
        if state is None:
            return None
        if state.source != place:
            raise StorageError(
                f"the import of {state.source} was interrupted; complete that import with "
                f"import --resume, or import {source.name} with --resume --restart (the "
                "interrupted import is then abandoned)"
            )
        if state.on_conflict != self.on_conflict:
            raise StorageError(
                f"the import of {source.name} was started with --on-conflict {state.on_conflict}; "
                "resume the import with the same option, or start again with --restart (the "
                "imported items remain)"
            )
        return state


def _advice(state: ImportState) -> str:
    """Return advice for the user if an error in a line has stopped a resumable import."""
    if state.phase is Phase.ITEMS:
        return (
            f"the lines 1 to {state.line} are imported; correct this line and run import --resume "
            "again"
        )
    return (
        "all items are imported; correct the references to other items in this line and run "
        "import --resume again (only these references are read again)"
    )


__all__ = ["BATCH", "ImportResult", "ImportSource", "Importer", "open_source"]
