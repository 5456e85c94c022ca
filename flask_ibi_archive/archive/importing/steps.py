"""The steps of an import: each reads a batch of lines and writes what they say, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from flask_ibi_archive.archive.importing.items import ItemBatch, rule_error
from flask_ibi_archive.archive.importing.reporting import Errors
from flask_ibi_archive.archive.importing.source import ImportSource, Limits, Line, LineReader
from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.storage.imports import NO_BYTES, ImportLog, ImportState, Phase
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.ties import Ties


@dataclass
class Steps:
    """An import on its way through a file: its items, then what others tell of them, then their
    ties.

    :param state: how far it is; the reader stands there.
    """

    source: ImportSource
    state: ImportState
    limits: Limits
    #: Whether the import is remembered when it is done.
    remembered: bool = False
    errors: Errors = field(default_factory=Errors)
    reader: LineReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = self._new_reader()

    def _new_reader(self) -> LineReader:
        return LineReader(self.source, self.errors.lines)

    def read(self) -> Sequence[Line]:
        """Return the next records whose items are to be taken in, none when all are.

        :raises RecordError: at the first line that holds no record.
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
                store.forget_mentions()
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
        """Put items back into the groups of translations that records of others put them in."""
        state = self.state
        pending = log.read_languages(state, self.limits.lines)
        if not pending:
            return self._next(Phase.TIES)
        for line, ibi in pending:
            for one in line.languages:
                try:
                    with self.errors.undoing(store.connection):
                        store.rejoin_translations(line.item_id, one, ibi)
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
        ties = Ties(store, pairs, self.state.started_at)
        for line, (item_id, record) in zip(lines, pairs, strict=True):
            if ties.known.get(record.identifiers[0], (0, ""))[0] != item_id:
                reader.line = line.number
                raise reader.error(None, "held another item when the file was taken in")
            try:
                ties.tie(item_id, record)
            except RuleBroken as error:
                self.errors.add(rule_error(self.source.name, line.number, error))
        ties.write()
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

    # --- going on with an import that broke off --------------------------------------------------

    def find_place(self) -> bool:
        """Bring the reader to where the import is.

        :returns: whether what is done of the file is what it was.
        """
        self.reader = LineReader(self.source)
        return self.reader.skip(self.state.position, self.state.line, self.state.digest)

    def is_whole(self) -> bool:
        """Tell whether the file is what it was when the import was done, and no more."""
        return self.find_place() and self.reader.at_end()

    def go_back(self) -> ImportState | None:
        """Return the state from which lines are taken in that came to the file after all its others
        were.

        The ties of the others are made once more then, which changes nothing. None: there are none
        such.
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
