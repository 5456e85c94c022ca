"""The steps of an import. Each step stores a batch of lines in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from flask_ibi_archive.archive.items.bulk import prepare_for_many_rows
from flask_ibi_archive.archive.items.importing.items import ItemBatch, rule_error
from flask_ibi_archive.archive.items.importing.progress import (
    NO_BYTES,
    Errors,
    ImportLog,
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
)
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.relations import RelationBatch
from flask_ibi_archive.errors import RuleBroken


@dataclass
class Steps:
    """The steps of the import of a file. An import has three phases:

    1. The items are stored without their relations to other items.
    2. If an item has replaced a stub, the item is added to the stub's group of translations.
       (A stub is a row for an item of another Archive. Items of this Archive refer to the stub.)
    3. The relations of the items are stored.

    :param state: the progress of the import. The reader has the same position.
    :param remembered: whether the import remains in the log after it is complete.
    """

    source: ImportSource
    state: ImportState
    limits: Limits
    remembered: bool = False
    errors: Errors = field(default_factory=Errors)
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
        state, reader = self.state, self.reader
        if not lines:
            return self._begin_phase(Phase.LANGUAGES, lines=reader.line)
        prepare_for_many_rows(store.connection)
        batch = ItemBatch(store, log, state, self.source.name, lines, self.errors)
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
        wanted = log.read_references(self.state, self.limits.lines)
        if not wanted:
            return self._find_added_lines()
        items = list(zip(wanted.values(), reader.read_references(wanted), strict=True))
        batch = RelationBatch(store.connection, store.archive_id, items, self.state.started_at)
        for number, (item_id, references) in zip(wanted, items, strict=True):
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
        """Return the state before lines that were added to the file during the last phases.

        The items of these lines are stored next. Then the relations of all lines are stored again.
        Relations that are already stored do not change.

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
