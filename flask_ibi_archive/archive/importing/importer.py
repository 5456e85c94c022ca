"""Imports a file of records, in one transaction or in batches that can be resumed.

The command import uses :class:`Importer`. A record is the JSON description of an item, on one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.importing.reporting import (
    STEP,
    Counts,
    Errors,
    ImportProgress,
    ImportResult,
)
from flask_ibi_archive.archive.importing.source import (
    ImportSource,
    Limits,
    Line,
    LineReader,
    open_source,
)
from flask_ibi_archive.archive.importing.steps import Steps
from flask_ibi_archive.errors import RecordError, StorageError
from flask_ibi_archive.records.fields import quoted
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.file_io import Content, measure
from flask_ibi_archive.storage.file_store import FileStore
from flask_ibi_archive.storage.imports import ImportLog, ImportState, Phase
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.rules import find_broken_rule

#: The maximum number of lines that are imported together.
BATCH = 1000
#: Matches every line that may name a file to add; a field name may contain JSON escapes.
MAY_NAME_FILES = re.compile(rb"source|\\u")

#: Adds a file to the store, or only measures it.
AddFile = Callable[[Path], Content]


class _Rollback(Exception):
    """Ends a dry run, so that the transaction is rolled back."""


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


@dataclass
class Importer:
    """Imports the records of a file into an Archive.

    :param files: the folder of stored files.
    :param on_conflict: how to handle an item that already exists: error, skip or update.
    :param dry_run: check the file, change nothing.
    :param resume: commit each batch, and continue an import that was interrupted.
    :param restart: start again at the first line; the imported items remain.
    :param progress: called with the number of units of work that are done, and their total number;
        None: progress is not reported.
    :param clock: returns the timestamp for items whose records have none.
    :param on_error: called with each error of a dry run, which then continues; None: the first
        error ends the dry run.
    :param on_resume: called with the state of the interrupted import, before it is continued.
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
    _earlier: Counts = field(default_factory=Counts)

    def run(self, source: ImportSource) -> ImportResult:
        """Import a file.

        Without ``resume``, the import is one transaction. With ``resume``, no record is imported
        twice: after any number of interruptions, the database is the same as without them. If the
        previous import was a complete import of the same file, nothing is done (unless
        ``on_conflict`` is skip or update).

        :raises RecordError: if a record is wrong; the error names line and field. Nothing was
            changed, or (with ``resume``) nothing after the last complete batch.
        :raises StorageError: if the interrupted import is an import of another file, or was started
            with other options, or is continued by another process.
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
        progress.finish()
        return ImportResult(state.added, state.updated, state.skipped, self._earlier)

    # --- all or nothing --------------------------------------------------------------------------

    def _import_whole(self, source: ImportSource, progress: ImportProgress) -> ImportState:
        errors = Errors(self.on_error if self.dry_run else None)
        with self.files.staging() as staging:
            # before the transaction, since a transaction blocks other writers
            stage_files(source, measure if self.dry_run else staging.add, progress, errors)
            try:
                with self.database.writing() as connection:
                    state = self._write_all(connection, source, progress, errors)
                    if self.dry_run:
                        raise _Rollback
                    for line in source.staged:
                        for content in line.contents.values():
                            staging.move_to_store(content)
            except _Rollback:
                pass
        return state

    def _write_all(
        self,
        connection: Connection,
        source: ImportSource,
        progress: ImportProgress,
        errors: Errors,
    ) -> ImportState:
        store = ItemStore(connection, self.archive_id)
        store.lock_relations()
        log = ImportLog(connection, self.archive_id)
        name = source.place or source.name
        state = log.begin(name, self.on_conflict, self.clock(), resumable=False)
        steps = Steps(source, state, Limits(BATCH), errors=errors)
        after: ImportState | None = state
        while after is not None:
            steps.state = after
            progress.reached(after)
            after = steps.step(store, log, steps.read())
        return steps.state

    # --- in batches ------------------------------------------------------------------------------

    def _import_in_batches(self, source: ImportSource, progress: ImportProgress) -> ImportState:
        if source.place is None:
            raise StorageError(f"{source.name} can't be read again; --resume needs a file")
        done = self._find_completed(source, source.place)
        if done is not None:
            self._report_resumed(done)
            return done
        steps = Steps(source, self._open(source, source.place), Limits(BATCH), remembered=True)
        self._skip_done(steps)
        if _has_begun(steps.state):
            self._report_resumed(steps.state)
        after: ImportState | None = steps.state
        while after is not None:
            steps.state = after
            progress.reached(after)
            try:
                after = self._import_batch(steps)
            except RecordError as error:
                if not _has_begun(steps.state):
                    # nothing is imported yet, so there is nothing to resume
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
        """Return the previous import if it was a complete import of the same file.

        A process may be killed after the last commit, before it can report its success.
        """
        if self.restart or self.on_conflict != "error":
            return None
        state = self.database.read(
            lambda connection: ImportLog(connection, self.archive_id).find_finished(place)
        )
        if state is None or state.on_conflict != self.on_conflict:
            return None
        return state if Steps(source, state, Limits(BATCH)).is_whole() else None

    def _open(self, source: ImportSource, place: str) -> ImportState:
        """Return the interrupted import, or a new one.

        :raises StorageError: if the interrupted import is of another file, or has other options.
        """
        with self.database.writing() as connection:
            ItemStore(connection, self.archive_id).lock_relations()
            log = ImportLog(connection, self.archive_id)
            state = log.find_unfinished()
            if state is not None and self.restart:
                log.forget(state)
                state = None
            if state is None:
                return log.begin(place, self.on_conflict, self.clock(), resumable=True)
        if state.source != place:
            raise StorageError(
                f"the import of {state.source} was interrupted: complete it with import --resume, "
                f"or abandon it by importing {source.name} with --resume --restart"
            )
        if state.on_conflict != self.on_conflict:
            raise StorageError(
                f"the import of {source.name} was started with --on-conflict {state.on_conflict}; "
                "resume it with the same option, or start again with --restart (imported items "
                "remain)"
            )
        return state

    def _skip_done(self, steps: Steps) -> None:
        """Skip the imported lines; if lines were appended, import their items first.

        :raises StorageError: if the imported lines were changed.
        """
        if not steps.find_place():
            raise StorageError(
                f"the first {steps.state.line} lines of {steps.source.name} were imported and have "
                "been changed since: undo the changes and resume, or start again with --restart "
                "and --on-conflict skip or update"
            )
        back = steps.go_back()
        if back is not None:
            with self._writing(steps.state) as (_, log):
                log.save(back)
            steps.state = back

    def _import_batch(self, steps: Steps) -> ImportState | None:
        """Import the next batch in a transaction and return the new state, None at the end."""
        lines = steps.read()
        with self.files.staging() as staging:
            # before the transaction, since a transaction blocks other writers
            for line in lines:
                line.contents = add_files(steps.source, line, staging.add, steps.errors)
            with self._writing(steps.state) as (store, log):
                after = steps.step(store, log, lines)
                for line in lines:
                    for content in line.contents.values():
                        staging.move_to_store(content)
        return after

    @contextmanager
    def _writing(self, state: ImportState) -> Iterator[tuple[ItemStore, ImportLog]]:
        """Yield the items and the log in a transaction.

        :raises StorageError: if another process has continued the import.
        """
        with self.database.writing() as connection:
            store = ItemStore(connection, self.archive_id)
            store.lock_relations()
            log = ImportLog(connection, self.archive_id)
            if not log.has_state(state):
                raise StorageError(f"another process continues the import of {state.source}")
            yield store, log


def stage_files(
    source: ImportSource, add_file: AddFile, progress: ImportProgress, errors: Errors
) -> None:
    """Add all files that a source names, before the transaction that writes the items begins.

    Only lines that may name files are parsed; if all errors are collected, all lines are parsed.
    The parsed lines are stored in ``source.staged``.

    :raises StorageError: if the files or the lines cannot be stored.
    """
    reader = LineReader(source)
    reported = 0
    for text in reader.lines:
        if (errors.collects or MAY_NAME_FILES.search(text)) and text.strip():
            try:
                line = reader.parse(text)
            except RecordError:
                if not errors.collects:
                    raise
                for error in reader.find_errors(text):
                    errors.add(error)
            else:
                line.contents = add_files(source, line, add_file, errors)
                source.staged.add(line)
        if reader.position - reported >= STEP:
            reported = reader.position
            progress.staged(reported)
    progress.staged(reader.position)


def add_files(
    source: ImportSource, line: Line, add_file: AddFile, errors: Errors
) -> dict[str, Content]:
    """Add the files that a record names, and return their contents by path.

    :param errors: receives an error for each file that cannot be read or has another checksum.
    """
    found: dict[str, Content] = {}
    for number, file in enumerate(line.record.files):
        if file.source is None:
            continue
        path = source.folder / file.source
        name = f"files[{number}]"
        try:
            content = add_file(path)
        except (OSError, ValueError) as error:
            reason = f"{quoted(str(path))} can't be read: {getattr(error, 'strerror', error)}"
            errors.add(RecordError(source.name, line.number, f"{name}.source", reason))
            continue
        if file.sha256 not in (None, content.sha256):
            reason = f"the file {quoted(str(path))} has the checksum {content.sha256}"
            errors.add(RecordError(source.name, line.number, f"{name}.sha256", reason))
        found[file.path] = content
    return found


def _has_begun(state: ImportState) -> bool:
    return state.phase is not Phase.ITEMS or state.position > 0


def _advice(state: ImportState) -> str:
    """Return advice for a user whose import was stopped by an error in a line."""
    if state.phase is Phase.ITEMS:
        return (
            f"the lines up to {state.line} are imported; correct this line and run import --resume "
            "again"
        )
    return (
        "all items are imported; correct the references of this line to other items (only these "
        "are read again) and run import --resume again"
    )


__all__ = ["BATCH", "ImportResult", "ImportSource", "Importer", "open_source"]
