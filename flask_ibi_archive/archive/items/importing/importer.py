"""Imports the records of a file in one transaction.

The command import uses :class:`Importer`. A record is a line with the JSON description of an item.
Records may refer to each other in any order. Therefore the file is read twice, in batches: first,
the items are stored without their relations to other items, then the relations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from itertools import chain

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.items.bulk import examine_tables, prepare_for_many_rows
from flask_ibi_archive.archive.items.claim_changes import begin_change
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.importing.items import (
    Counts,
    ItemBatch,
    StoredLines,
    rule_error,
)
from flask_ibi_archive.archive.items.importing.source import (
    Errors,
    ImportSource,
    Limits,
    Line,
    LineReader,
    measure_file,
    open_source,
)
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.operations.context import name_archives
from flask_ibi_archive.archive.items.relations import RelationBatch
from flask_ibi_archive.archive.items.rules import explain_refusal
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.archive.items.translations import AssignedLanguage
from flask_ibi_archive.errors import RecordError, RuleBroken
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.signals import NOBODY, Notifier

#: The maximum number of lines that are stored together.
BATCH = 2000


class _Rollback(Exception):
    """Raised at the end of a dry run to roll back the transaction."""


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


@dataclass
class Importer:
    """Imports the records of one file.

    :param files: the folder of stored files.
    :param on_conflict: what is done if an item already exists: error, skip or update.
    :param take_back: whether a line may make an item an Original again whose Original is in another
        Archive.
    :param dry_run: if true, the file is only checked and nothing is changed.
    :param progress: a function that is called with the number of units of work that are done, and
        with the total number of units. None means that the progress is not reported.
    :param clock: a function that returns the timestamp for items whose records have no timestamp.
    :param on_error: a function that is called with each error of a dry run. The dry run then
        continues with the next line. None means that the first error ends the dry run.
    :param notifier: sends the signals after the commit.
    """

    database: Database
    archive_id: int
    files: FileStore
    on_conflict: str = "error"
    take_back: bool = False
    dry_run: bool = False
    progress: Callable[[int, int], None] | None = None
    clock: Callable[[], datetime] = _now
    on_error: Callable[[RecordError], None] | None = None
    notifier: Notifier = NOBODY
    _errors: Errors = field(init=False)

    def __post_init__(self) -> None:
        self._errors = Errors(self.on_error if self.dry_run else None)

    def run(self, source: ImportSource) -> Counts:
        """Import the file.

        :raises RecordError: if a record is wrong. The error names the line and the field. Nothing
            was changed.
        """
        self._report(source, 0)
        try:
            with self.files.staging() as staging:
                add_file = measure_file if self.dry_run else staging.add_stream
                reader = LineReader(source)
                read = partial(reader.read_batch, Limits(BATCH), self._errors, add_file)
                # the first files are copied before the transaction, which blocks other writers
                first = read()
                with self.database.writing() as connection:
                    begin_change(connection)
                    store = ItemStore(connection, self.archive_id)
                    store.lock_relations(limited=False)
                    counts = self._store(store, source, chain([first], iter(read, [])))
                    if self.dry_run:
                        raise _Rollback
                    staging.move_all_to_store()
                    notices = name_archives(store, {})
            self.notifier.send(notices)
        except _Rollback:
            pass
        except IntegrityError as error:
            raise explain_refusal(error) from error
        if counts.added + counts.updated >= BATCH and not self.dry_run:
            with self.database.writing() as connection:
                examine_tables(connection)
        self._report(source, 3 * source.size)
        return counts

    def _report(self, source: ImportSource, done: int) -> None:
        """Report the progress. Items take about twice as much time as their relations."""
        if self.progress is not None:
            self.progress(done, 3 * source.size)

    def _store(
        self, store: ItemStore, source: ImportSource, batches: Iterable[list[Line]]
    ) -> Counts:
        """Store the items of batches of lines and their relations."""
        counts, now = Counts(), self.clock()
        newest = store.connection.execute(select(func.max(Item.id))).scalar() or 0
        stored = StoredLines(newest)
        for lines in batches:
            prepare_for_many_rows(store.connection)
            ItemBatch(
                store,
                stored,
                counts,
                source.name,
                lines,
                self._errors,
                self.on_conflict,
                self.take_back,
                now,
            ).write()
            self._report(source, 2 * source.stream.tell())
        self._store_languages(store, source, stored)
        self._store_relations(store, source, stored, now)
        if self.on_conflict == "update":
            store.relations.delete_unused_stubs()
        return counts

    def _store_languages(self, store: ItemStore, source: ImportSource, stored: StoredLines) -> None:
        """Put replaced items back into the groups of translations that records of others define.

        Only now, because two items of the file may swap their languages.
        """
        numbers = iter(stored.grouped)
        columns = zip(numbers, numbers, numbers, stored.languages, strict=True)
        for line, item_id, group, language in columns:
            ibi, _ = store.get_name_and_state(item_id)
            try:
                with self._errors.rolling_back_on_error(store.connection):
                    assigned = AssignedLanguage(group, language)
                    store.relations.translations.rejoin(item_id, assigned, ibi)
            except RuleBroken as error:
                self._errors.add(rule_error(source.name, line, error, "language"))

    def _store_relations(
        self, store: ItemStore, source: ImportSource, stored: StoredLines, now: datetime
    ) -> None:
        """Store next editions, translations and metadata items, and read the file again for it."""
        reader = LineReader(source)
        for start in range(0, len(stored.related), 2 * BATCH):
            prepare_for_many_rows(store.connection)
            pairs = stored.related[start : start + 2 * BATCH]
            lines = pairs[::2]
            items = list(zip(pairs[1::2], reader.read_references(lines), strict=True))
            batch = RelationBatch(store.connection, store.archive_id, items, now)
            for line, (item_id, references) in zip(lines, items, strict=True):
                if batch.known[references.identifiers[0]][0] != item_id:
                    reason = "the line was changed during the import; run the import again"
                    raise RecordError(source.name, line, None, reason)
                try:
                    batch.add(item_id, references)
                except RuleBroken as error:
                    self._errors.add(rule_error(source.name, line, error))
            batch.write()
            self._report(source, 2 * source.size + source.stream.tell())


__all__ = ["BATCH", "Counts", "ImportSource", "Importer", "open_source"]
