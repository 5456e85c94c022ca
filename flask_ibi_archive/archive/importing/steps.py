"""The steps of an import; each step reads a batch of lines and stores it in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from flask_ibi_archive.archive.importing.items import ItemBatch, rule_error
from flask_ibi_archive.archive.importing.reporting import Errors
from flask_ibi_archive.archive.importing.source import ImportSource, Limits, Line, LineReader
from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.storage.imports import NO_BYTES, ImportLog, ImportState, Phase
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.relations import RelationBatch


@dataclass
class Steps:
    """The steps of the import of a file, in three phases.

    1. Store the items without their relations to other items.
    2. Add items that replaced stubs to the groups of translations of these stubs. (A stub is a row
       for an item of another Archive that items of this Archive refer to.)
    3. Store the relations of the items.

    :param state: the progress of the import; the reader is at the same position.
    :param remembered: whether the log still contains the import when it is complete.
    """

    source: ImportSource
    state: ImportState
    limits: Limits
    remembered: bool = False
    errors: Errors = field(default_factory=Errors)
    reader: LineReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = LineReader(self.source, self.errors.lines)

    def read(self) -> Sequence[Line]:
        """Return the next lines whose items must be stored; none if all items are stored.

        :raises RecordError: if a line is not a valid record.
        """
        return self.reader.batch(self.limits) if self.state.phase is Phase.ITEMS else ()

    def step(self, store: ItemStore, log: ImportLog, lines: Sequence[Line]) -> ImportState | None:
        """Do the next step in the caller's transaction.

        :param lines: the lines that :meth:`read` returned, with the contents of their files.
        :returns: the progress of the import; None: the import is complete.
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
            return self._next(Phase.LANGUAGES, lines=reader.line)
        batch = ItemBatch(store, log, state, self.source.name, lines, self.errors)
        batch.write()
        return replace(
            state,
            position=reader.position,
            line=reader.line,
            digest=reader.digest,
            added=state.added + batch.added,
            updated=state.updated + batch.updated,
            skipped=state.skipped + batch.skipped,
        )

    def _languages(self, store: ItemStore, log: ImportLog) -> ImportState:
        """Add items to the groups of translations of the stubs that they have replaced."""
        state = self.state
        pending = log.read_languages(state, self.limits.lines)
        if not pending:
            return self._next(Phase.TIES)
        for line, ibi in pending:
            for language in line.languages:
                try:
                    with self.errors.undoing(store.connection):
                        store.relations.translations.rejoin(line.item_id, language, ibi)
                except RuleBroken as error:
                    self.errors.add(rule_error(self.source.name, line.line, error, "language"))
        return replace(state, line=pending[-1][0].line)

    def _relations(self, store: ItemStore, log: ImportLog) -> ImportState | None:
        """Store the relations of the next lines; return None if there are no such lines."""
        reader = self.reader
        wanted = log.read_references(self.state, self.limits.lines)
        if not wanted:
            return None
        lines = reader.read_lines(wanted)
        pairs = [(wanted[line.number], line.record) for line in lines]
        batch = RelationBatch(store.connection, store.archive_id, pairs, self.state.started_at)
        for line, (item_id, record) in zip(lines, pairs, strict=True):
            if batch.known.get(record.identifiers[0], (0, ""))[0] != item_id:
                reader.line = line.number
                raise reader.error(None, "contained another item when the file was imported")
            try:
                batch.add(item_id, record)
            except RuleBroken as error:
                self.errors.add(rule_error(self.source.name, line.number, error))
        batch.write()
        return replace(self.state, position=reader.position, line=reader.line, digest=reader.digest)

    def _next(self, phase: Phase, lines: int | None = None) -> ImportState:
        """Return the state at the beginning of a phase, and start again at the first line."""
        if phase is Phase.TIES:  # the phase before it does not read the file
            self.reader = LineReader(self.source, self.errors.lines)
        return replace(
            self.state,
            phase=phase,
            position=0,
            line=0,
            digest=NO_BYTES,
            lines=self.state.lines if lines is None else lines,
        )

    # --- resuming an import ----------------------------------------------------------------------

    def find_place(self) -> bool:
        """Move the reader to the position of the import.

        :returns: whether the lines before that position are unchanged.
        """
        self.reader = LineReader(self.source)
        return self.reader.skip(self.state.position, self.state.line, self.state.digest)

    def is_whole(self) -> bool:
        """Return whether the file is unchanged since the import was completed."""
        return self.find_place() and self.reader.at_end()

    def go_back(self) -> ImportState | None:
        """Return the state from which to import lines that were appended to the file.

        Later the relations of all lines are stored again, which does not change relations that
        were already stored.

        :returns: None if no lines were appended.
        """
        if self.state.lines is None or self.state.phase is Phase.ITEMS:
            return None
        reader = LineReader(self.source)
        reader.skip_lines(self.state.lines)
        if reader.at_end():
            self.find_place()
            return None
        self.reader = reader
        return replace(
            self.state,
            phase=Phase.ITEMS,
            position=reader.position,
            line=reader.line,
            digest=reader.digest,
        )
