"""Takes in a file of records: all of it or nothing, or batch by batch, so that it can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.importing.contents import FileManifest, contents_of
from flask_ibi_archive.archive.importing.errors import Errors
from flask_ibi_archive.archive.importing.progress import Progress, work_of
from flask_ibi_archive.archive.importing.source import ImportSource, Limits, open_source
from flask_ibi_archive.archive.importing.steps import Steps
from flask_ibi_archive.errors import RecordError, StorageError
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.file_store import FileStore, Staging, measure
from flask_ibi_archive.storage.imports import ImportLog, ImportState, Phase
from flask_ibi_archive.storage.items import Content, ItemStore
from flask_ibi_archive.storage.rules import explain

#: Lines that are taken in together.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Counts:
    """How many records of a file were added, updated and skipped."""

    added: int = 0
    updated: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class ImportResult(Counts):
    """What became of the records of a file, in all runs of the import.

    :param earlier: what the runs before this one did.
    """

    earlier: Counts = Counts()


class _Undo(Exception):
    """Ends a dry run: the transaction is rolled back."""


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


@dataclass
class Importer:
    """Takes the records of a file into an Archive.

    :param folder: where the contents of files are kept.
    :param on_conflict: what to do with an item that is here already: error, skip or update.
    :param dry_run: check the file, change nothing.
    :param resume: keep what is done, batch by batch, and go on with an import that broke off.
    :param restart: forget the import that broke off; what it took in stays.
    :param progress: told how much of the work (:func:`work_of`) was done since it was told last.
    :param clock: tells the moment of what states none.
    :param on_error: called with each error of a dry run, which then goes on; None: the first one
        ends it.
    :param on_resume: called with how far an earlier run came, before this one goes on.
    """

    database: Database
    archive_id: int
    folder: FileStore
    on_conflict: str = "error"
    dry_run: bool = False
    resume: bool = False
    restart: bool = False
    progress: Callable[[int], None] = lambda done: None
    clock: Callable[[], datetime] = _now
    on_error: Callable[[RecordError], None] | None = None
    on_resume: Callable[[ImportState], None] = lambda state: None
    _earlier: Counts = Counts()

    def run(self, source: ImportSource) -> ImportResult:
        """Take in a file.

        Without ``resume`` it is one transaction. With it, what a run took in before it broke off is
        not taken in again: however often that happens, the database is in the end as if it never
        had. Nor is anything where the very same file was the last and is done (and ``on_conflict``
        is error).

        :raises RecordError: naming line and field; then nothing was changed, or (``resume``)
            nothing since the last batch.
        :raises StorageError: if the import that broke off is one of another file, or of this one
            when it began otherwise, or if another process goes on with it.
        """
        if self.resume and self.dry_run:
            raise ValueError("a dry run keeps nothing that could be resumed")
        progress = Progress(source.size, self.progress)
        try:
            state = (
                self._batches(source, progress) if self.resume else self._whole(source, progress)
            )
        except IntegrityError as error:
            raise explain(error) or StorageError(
                f"the database refuses it: {error.orig}"
            ) from error
        progress.finish()
        return ImportResult(state.added, state.updated, state.skipped, self._earlier)

    # --- all or nothing --------------------------------------------------------------------------

    def _whole(self, source: ImportSource, progress: Progress) -> ImportState:
        with (
            self.folder.staging() if not self.dry_run else nullcontext() as staging,
            self._manifest() as manifest,
        ):
            errors = Errors(self.on_error if self.dry_run else None)
            # before the transaction, which keeps other writers waiting
            manifest.fill(source, staging.take if staging else measure, progress.look, errors)
            try:
                with self.database.writing() as connection:
                    state = self._take_all(connection, source, manifest, progress, errors)
                    if staging is None:
                        raise _Undo
                    for content in manifest.all():
                        staging.keep(content)
            except _Undo:
                pass
        return state

    @contextmanager
    def _manifest(self) -> Iterator[FileManifest]:
        # beside the contents, where there is room for them, too
        manifest = FileManifest(None if self.dry_run else self.folder.folder)
        try:
            yield manifest
        finally:
            manifest.close()

    def _take_all(
        self,
        connection: Connection,
        source: ImportSource,
        manifest: FileManifest,
        progress: Progress,
        errors: Errors,
    ) -> ImportState:
        store = ItemStore(connection, self.archive_id)
        store.lock_ties()
        log = ImportLog(connection, self.archive_id)
        state = log.begin(
            source.place or source.name, self.on_conflict, self.clock(), resumable=False
        )
        steps = Steps(source, state, Limits(BATCH), errors=errors)
        after: ImportState | None = state
        while after is not None:
            steps.state = after
            progress.reach(after)
            lines = steps.read()
            after = steps.step(
                store, lines, {line.number: manifest.of(line.number) for line in lines}
            )
        return steps.state

    # --- batch by batch --------------------------------------------------------------------------

    def _batches(self, source: ImportSource, progress: Progress) -> ImportState:
        if source.place is None:
            raise StorageError(f"{source.name} can't be read again; --resume needs a file")
        done = self._done(source, source.place)
        if done is not None:
            self._resumed(done)
            return done
        state = self._open(source, source.place)
        steps = Steps(source, state, Limits(BATCH), remembered=True)
        self._find_place(steps)
        if _is_begun(steps.state):
            self._resumed(steps.state)
        after: ImportState | None = steps.state
        while after is not None:
            steps.state = after
            progress.reach(after)
            try:
                after = self._one_batch(steps)
            except RecordError as error:
                if self._forget_unbegun(steps.state):
                    raise
                reason = f"{error.reason}; {_advice(steps.state)}"
                raise RecordError(error.source, error.line, error.field, reason) from error
        return steps.state

    def _resumed(self, state: ImportState) -> None:
        self._earlier = Counts(state.added, state.updated, state.skipped)
        self.on_resume(state)

    def _done(self, source: ImportSource, place: str) -> ImportState | None:
        """Return the import of this very file where it is done: one may be killed before it can say
        so.
        """
        if self.restart or self.on_conflict != "error":
            return None
        state = self.database.read(
            lambda connection: ImportLog(connection, self.archive_id).finished(place)
        )
        if state is None or state.on_conflict != self.on_conflict:
            return None
        return state if Steps(source, state, Limits(BATCH)).is_whole() else None

    def _open(self, source: ImportSource, place: str) -> ImportState:
        """Return the import to go on with, or a new one."""
        with self.database.writing() as connection:
            ItemStore(connection, self.archive_id).lock_ties()
            log = ImportLog(connection, self.archive_id)
            state = log.unfinished()
            if state is not None and self.restart:
                log.forget(state)
                state = None
            if state is None:
                return log.begin(place, self.on_conflict, self.clock(), resumable=True)
        if state.source != place:
            raise StorageError(
                f"the import of {state.source} broke off and comes first: run import --resume with that "
                f"file, or --restart with {source.name} to leave it as far as it came"
            )
        if state.on_conflict != self.on_conflict:
            raise StorageError(
                f"the import of {source.name} was begun with --on-conflict {state.on_conflict}, and goes on "
                f"with the same; --restart begins anew with {self.on_conflict}, and leaves what was taken in"
            )
        return state

    def _forget_unbegun(self, state: ImportState) -> bool:
        """Forget an import of which nothing is done: there is nothing that could be gone on with."""
        if _is_begun(state):
            return False
        with self._going_on(state) as store:
            ImportLog(store.connection, self.archive_id).forget(state)
        return True

    def _find_place(self, steps: Steps) -> None:
        if not steps.find_place():
            raise StorageError(
                f"{steps.source.name} has changed in its first {steps.state.line} lines, which are done; "
                "put them back as they were to go on, or begin anew with --restart (and --on-conflict skip "
                "or update, as what was taken in stays)"
            )
        back = steps.go_back()
        if back is not None:
            with self._going_on(steps.state) as store:
                ImportLog(store.connection, self.archive_id).go_on(back)
            steps.state = back

    def _one_batch(self, steps: Steps) -> ImportState | None:
        lines = steps.read()
        with self.folder.staging() as staging:
            # before the transaction, which keeps other writers waiting
            contents = {
                line.number: contents_of(steps.source, line, staging.take, steps.errors)
                for line in lines
            }
            with self._going_on(steps.state) as store:
                after = steps.step(store, lines, contents)
                _keep(staging, contents)
        return after

    @contextmanager
    def _going_on(self, state: ImportState) -> Iterator[ItemStore]:
        """Return the items in a transaction in which nobody else goes on with the import."""
        with self.database.writing() as connection:
            store = ItemStore(connection, self.archive_id)
            store.lock_ties()
            if not ImportLog(connection, self.archive_id).is_at(state):
                raise StorageError(
                    f"another process goes on with the import of {state.source}; leave it to that one"
                )
            yield store


def _is_begun(state: ImportState) -> bool:
    return state.phase is not Phase.ITEMS or state.position > 0


def _keep(staging: Staging, contents: Mapping[int, Mapping[str, Content]]) -> None:
    for found in contents.values():
        for content in found.values():
            staging.keep(content)


def _advice(state: ImportState) -> str:
    """Return what to do about a line that stops an import that can be resumed."""
    if state.phase is Phase.ITEMS:
        return f"the lines up to {state.line} are done: mend this one and run import --resume again to go on"
    return (
        "all items are taken in: mend what this line says of others (nothing else of it is read again) and "
        "run import --resume again to go on"
    )


__all__ = ["BATCH", "ImportResult", "ImportSource", "Importer", "open_source", "work_of"]
