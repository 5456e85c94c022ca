"""The steps of an import: each one reads a batch of lines and stores it in one transaction."""

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
    """An import of a file in three phases: items, languages of replaced stubs, relations.

    :param state: the progress of the import; the reader is at the same position.
    """

    source: ImportSource
    state: ImportState
    limits: Limits
    #: Whether the progress remains in the database when the import is done.
    remembered: bool = False
    errors: Errors = field(default_factory=Errors)
    reader: LineReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = self._new_reader()

    def _new_reader(self) -> LineReader:
        return LineReader(self.source, self.errors.lines)

    def read(self) -> Sequence[Line]:
        """Return the next lines whose items are to be stored; none after the last one.

        :raises RecordError: at the first line that is not a valid record.
        """
        return self.reader.batch(self.limits) if self.state.phase is Phase.ITEMS else ()

    def step(self, store: ItemStore, lines: Sequence[Line]) -> ImportState | None:
        """Go one step on, inside the caller's transaction.

        :param lines: as :meth:`read` gave them, with the contents of their files.
        :returns: how far the import is then; None: it is done.
        :raises RecordError: at the first line that can't be taken in.
        """
        log = ImportLog(store.connection, store.archive_id)
        after: ImportState | None
        if self.state.phase is Phase.ITEMS:
            after = self._items(store, log, lines)
        elif self.state.phase is Phase.LANGUAGES:
            after = self._languages(store, log)
        else:
            after = self._ties(store, log)
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
        for _ in reader.lines():
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
        """Put items into the groups of translations that the stubs before them were in."""
        state = self.state
        pending = log.read_languages(state, self.limits.lines)
        if not pending:
            return self._next(Phase.TIES)
        for line, ibi in pending:
            for one in line.languages:
                try:
                    with self.errors.undoing(store.connection):
                        store.relations.translations.rejoin(line.item_id, one, ibi)
                except RuleBroken as error:
                    self.errors.add(rule_error(self.source.name, line.line, error, "language"))
        return replace(state, line=pending[-1][0].line)

    def _ties(self, store: ItemStore, log: ImportLog) -> ImportState | None:
        reader = self.reader
        wanted = log.read_references(self.state, self.limits.lines)
        if not wanted:
            return None
        lines = reader.chosen(wanted)
        pairs = [(wanted[line.number], line.record) for line in lines]
        batch = RelationBatch(store.connection, store.archive_id, pairs, self.state.started_at)
        for line, (item_id, record) in zip(lines, pairs, strict=True):
            if batch.known.get(record.identifiers[0], (0, ""))[0] != item_id:
                reader.line = line.number
                raise reader.error(None, "had another item when the file was imported")
            try:
                batch.add(item_id, record)
            except RuleBroken as error:
                self.errors.add(rule_error(self.source.name, line.number, error))
        batch.write()
        return replace(self.state, position=reader.position, line=reader.line, digest=reader.digest)

    def _next(self, phase: Phase, lines: int | None = None) -> ImportState:
        self.reader = self._new_reader()
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
        """Return whether the file is unchanged since the import was done."""
        return self.find_place() and self.reader.at_end()

    def go_back(self) -> ImportState | None:
        """Return the progress from which to import lines that were appended to the file.

        Afterwards the relations of all lines are stored again, which does not change the others.

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
