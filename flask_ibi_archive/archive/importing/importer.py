"""Imports the records of a file, in one transaction or in batches.

The command import uses :class:`Importer`. A record is a line with the JSON description of an item.
If an import in batches is interrupted, it can be continued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.importing.named_files import add_files, measure_file, stage_files
from flask_ibi_archive.archive.importing.reporting import (
    Counts,
    Errors,
    ImportProgress,
    ImportResult,
)
from flask_ibi_archive.archive.importing.source import (
    ImportSource,
    Limits,
    open_source,
)
from flask_ibi_archive.archive.importing.steps import Steps
from flask_ibi_archive.archive.operations.noting import name_archives
from flask_ibi_archive.errors import RecordError, StorageError
from flask_ibi_archive.signals import NOBODY, Notice, Notifier
from flask_ibi_archive.storage.bulk import examine_tables
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.file_store import FileStore
from flask_ibi_archive.storage.imports import ImportLog, ImportState, Phase
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.rules import find_broken_rule

#: The maximum number of lines that are imported together.
BATCH = 2000


class _Rollback(Exception):
    """Raised at the end of a dry run to roll back the transaction."""


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


@dataclass
class Importer:
    """Imports the records of a file into an Archive.

    :param files: the folder of stored files.
    :param on_conflict: what is done if an item already exists: error, skip or update.
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
        run = self._import_in_batches if self.resume else self._import_whole
        try:
            with source.spooling(None if self.dry_run else self.files.folder):
                state = run(source, progress)
        except IntegrityError as error:
            raise find_broken_rule(error) or StorageError(
                f"the database refuses a record: {error.orig}"
            ) from error
        if state.added + state.updated >= BATCH and not self.dry_run:
            with self.database.writing() as connection:
                examine_tables(connection)
        progress.finish()
        return ImportResult(state.added, state.updated, state.skipped, self._earlier)

    # --- all or nothing --------------------------------------------------------------------------

    def _import_whole(self, source: ImportSource, progress: ImportProgress) -> ImportState:
        errors = Errors(self.on_error if self.dry_run else None)
        notices: list[Notice] = []
        with self.files.staging() as staging:
            # add the files before the transaction, because a transaction blocks other writers
            stage_files(
                source, measure_file if self.dry_run else staging.add_stream, progress, errors
            )
            try:
                with self.database.writing() as connection:
                    store = ItemStore(connection, self.archive_id)
                    state = self._write_all(store, source, progress, errors)
                    if self.dry_run:
                        raise _Rollback
                    notices = name_archives(store, {})
                    for line in source.staged:
                        for content in line.contents.values():
                            staging.move_to_store(content)
            except _Rollback:
                pass
        self.notifier.send(notices)
        return state

    def _write_all(
        self, store: ItemStore, source: ImportSource, progress: ImportProgress, errors: Errors
    ) -> ImportState:
        store.lock_relations(limited=False)
        log = ImportLog(store.connection, self.archive_id)
        name = source.place or source.name
        state = log.begin(name, self.on_conflict, self.clock(), resumable=False)
        steps = Steps(source, state, Limits(BATCH), errors=errors)
        after: ImportState | None = state
        while after is not None:
            steps.state = after
            progress.report_state(after)
            after = steps.step(store, log, steps.read())
        return steps.state

    # --- in batches ------------------------------------------------------------------------------

    def _import_in_batches(self, source: ImportSource, progress: ImportProgress) -> ImportState:
        if source.place is None:
            raise StorageError(
                f"{source.name} can't be read again; the option --resume needs a file"
            )
        done = self._find_completed(source, source.place)
        if done is not None:
            self._report_resumed(done)
            return done
        steps = Steps(
            source, self._find_or_begin(source, source.place), Limits(BATCH), remembered=True
        )
        self._skip_done(steps)
        if _has_begun(steps.state):
            self._report_resumed(steps.state)
        after: ImportState | None = steps.state
        while after is not None:
            steps.state = after
            progress.report_state(after)
            try:
                after = self._import_batch(steps)
            except RecordError as error:
                if not _has_begun(steps.state):
                    # no record was imported yet, so there is no import that could be continued
                    with self._writing(steps.state) as (_, log):
                        log.forget(steps.state)
                    raise
                reason = f"{error.reason}; {_advice(steps.state)}"
                raise RecordError(error.source, error.line, error.field, reason) from error
        return steps.state

    def _report_resumed(self, state: ImportState) -> None:
        self._earlier = Counts(state.added, state.updated, state.skipped)
        self.on_resume(state)

    def _find_completed(self, source: ImportSource, place: str) -> ImportState | None:
        """Return the previous import if the same file was imported completely; otherwise None.

        This case occurs if a process is killed after the last commit and before it reports success.
        """
        if self.restart or self.on_conflict != "error":
            return None
        state = self.database.read(
            lambda connection: ImportLog(connection, self.archive_id).find_finished(place)
        )
        if state is None or state.on_conflict != self.on_conflict:
            return None
        return state if Steps(source, state, Limits(BATCH)).is_unchanged() else None

    def _find_or_begin(self, source: ImportSource, place: str) -> ImportState:
        """Return the state of the interrupted import, or of a new import.

        :raises StorageError: if the interrupted import is an import of another file, or if it was
            started with another option --on-conflict.
        """
        with self.database.writing() as connection:
            ItemStore(connection, self.archive_id).lock_relations(limited=False)
            log = ImportLog(connection, self.archive_id)
            state = log.find_unfinished()
            if state is not None and self.restart:
                log.forget(state)
                state = None
            if state is None:
                return log.begin(place, self.on_conflict, self.clock(), resumable=True)
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

    def _skip_done(self, steps: Steps) -> None:
        """Skip the lines that were already imported.

        If lines were appended to the file after all items were imported, the import first goes back
        and imports the items of these lines.

        :raises StorageError: if the imported lines were changed.
        """
        if not steps.move_to_position():
            raise StorageError(
                f"the first {steps.state.line} lines of {steps.source.name} were changed after "
                "they were imported; undo the changes and resume the import, or start again with "
                "--restart and --on-conflict skip or update"
            )
        back = steps.go_back_to_appended_lines()
        if back is not None:
            with self._writing(steps.state) as (_, log):
                log.save(back)
            steps.state = back

    def _import_batch(self, steps: Steps) -> ImportState | None:
        """Import the next batch in a transaction.

        :returns: the new state of the import, or None if the import is complete.
        """
        lines = steps.read()
        with self.files.staging() as staging:
            # add the files before the transaction, because a transaction blocks other writers
            for line in lines:
                line.contents = add_files(steps.source, line, staging.add_stream, steps.errors)
            with self._writing(steps.state) as (store, log):
                after = steps.step(store, log, lines)
                notices = name_archives(store, {})
                for line in lines:
                    for content in line.contents.values():
                        staging.move_to_store(content)
        self.notifier.send(notices)
        return after

    @contextmanager
    def _writing(self, state: ImportState) -> Iterator[tuple[ItemStore, ImportLog]]:
        """Return a context manager that opens a transaction and returns the items and the log.

        :raises StorageError: if another process has continued the import.
        """
        with self.database.writing() as connection:
            store = ItemStore(connection, self.archive_id)
            store.lock_relations(limited=False)
            log = ImportLog(connection, self.archive_id)
            if not log.has_state(state):
                raise StorageError(f"another process continues the import of {state.source}")
            yield store, log


def _has_begun(state: ImportState) -> bool:
    return state.phase is not Phase.ITEMS or state.position > 0


def _advice(state: ImportState) -> str:
    """Return advice for the user if an error in a line has stopped the import."""
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
