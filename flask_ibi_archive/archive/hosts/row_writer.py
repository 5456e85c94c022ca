"""Writes the items of rows, in one transaction: deposits, edits, withdrawals, deletions, relations.

:meth:`RowWriter.plan` reads the items of the rows, and finds out what differs. It changes nothing,
    so the command ``compare`` uses it, too. :meth:`RowWriter.write` then stores what differs. The
    number of statements does not depend on the number of rows, except for changed relations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import asdict, replace
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.hosts import models
from flask_ibi_archive.archive.hosts.models import DescribedRow, naming
from flask_ibi_archive.archive.items import item_record, operations, ownership, write
from flask_ibi_archive.archive.items.files import Content, Staging
from flask_ibi_archive.archive.items.minting import Minted, find_issued_prefixes
from flask_ibi_archive.archive.items.write import Contents, ItemStore
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import FileRecord, Record
from flask_ibi_archive.errors import RowError, StorageError, UnknownItem
from flask_ibi_archive.signals import item_deposited, item_minted

WITHDRAW = (
    "the item is public, so that ibi_record() can't return None or the state Reserved any more; "
    "to withdraw the item, return state='Deleted' with tombstone=Tombstone(reason='...'); to close "
    "its files for a time, return an embargo or access"
)
REPUBLISH = (
    "a withdrawn item can't be published again, because its tombstone is permanent; keep "
    "state='Deleted', or add a new row"
)
#: The fields of a description that a tombstone does not have.
FILE_FIELDS = ("files", "target_file", "list_files")


@dataclass(frozen=True, slots=True)
class Removal:
    """A deleted row, and the tombstone that the item of the row gets.

    :param name: the class and the primary key of the row, or the key of the row, for messages.
    :param ibi: an identifier of the item.
    """

    name: str
    ibi: str
    tombstone: Any


@dataclass(slots=True)
class Link:
    """The relations that a row describes, and which of them are not stored yet.

    :param edition_of: the identifier of the previous edition, or None.
    :param translation_of: the identifier of an item that is translated, or None.
    """

    row: DescribedRow
    edition_of: str | None
    translation_of: str | None
    changes_edition: bool = False
    changes_translation: bool = False


@dataclass
class RowWriter:
    """Writes the items of rows. If one row causes an error, the caller rolls back.

    :param context: the result of :func:`.models.bind` for the session of the rows.
    :param store: the items, in a transaction of the context.
    :param minted: the repository names that were minted for rows in the present transaction.
    :ivar new: the rows whose items are deposited, with their records and the contents of the files.
    :ivar drafts: the rows that are not public, and for whose keys nothing is reserved yet.
    :ivar links: the rows whose relations change.
    :ivar sources: the contents of stored files whose sources have changed: by the row ID of the
        item, and then by the name of the file.
    """

    context: operations.OperationContext
    store: ItemStore
    staging: Staging
    minted: Collection[str] = ()
    now: datetime = field(init=False)
    rows: list[DescribedRow] = field(default_factory=list)
    new: list[tuple[DescribedRow, Record, Contents]] = field(default_factory=list)
    drafts: list[DescribedRow] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    sources: dict[int, Contents] = field(default_factory=dict)
    batch: operations.UpdateBatch = field(init=False)
    _removals: Sequence[Removal] = ()
    #: The row IDs of the items, and the keys of the reservations, by identifiers.
    items: dict[str, int] = field(default_factory=dict)
    _held: dict[str, str | None] = field(default_factory=dict)
    #: The rows whose relations count, and the row IDs of the items between which relations change.
    _related: dict[str, DescribedRow] = field(default_factory=dict)
    _concerned: set[int] = field(default_factory=set)
    #: The stored contents, the files that were staged once (streams cannot be read twice), and the
    #: new contents.
    _stored: dict[int, dict[str, Content]] = field(default_factory=dict)
    _staged: dict[int, tuple[tuple[FileRecord, ...], Contents]] = field(default_factory=dict)
    _contents: list[Content] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now = self.context.now()

    # --- reading ---------------------------------------------------------------------------------

    def plan(
        self,
        rows: Iterable[models.IdentifiedItem],
        removals: Sequence[Removal] = (),
        with_files: bool = True,
    ) -> None:
        """Read the items of rows, and find out what :meth:`write` must store.

        :param rows: stored rows with identifiers.
        :param removals: the deleted rows.
        :param with_files: whether the files are compared, which may take long.
        :raises RowError: if the item of a row cannot be stored.
        """
        self.rows, self._removals = [models.describe(row) for row in rows], removals
        if not with_files:
            for row in self.rows:
                for name in FILE_FIELDS:
                    row.given.pop(name, None)
        texts = [text for row in self.rows for text in row.identifiers]
        texts += [removal.ibi for removal in removals]
        self.items = {text: owner.id for text, owner in self.store.find_owners(texts).items()}
        unknown = [text for text in texts if text not in self.items]
        self._held = ownership.find_held(self.store.connection, self.store.archive_id, unknown)
        existing = [row for row in self.rows if row.ibi in self.items]
        ids = {self.items[row.ibi] for row in existing if "files" in row.given}
        self._stored = self.store.get_contents_of(ids) if ids else {}
        edits: dict[int, operations.Edit] = {}
        for row in existing:
            edits[self.items[row.ibi]] = partial(self._edit, row)
        for removal in removals:
            if removal.ibi in self.items:
                edits[self.items[removal.ibi]] = partial(self._remove, removal)
        for row in self.rows:
            if row.ibi not in self.items:
                with naming(row.name, row.ibi):
                    self._prepare(row)
        self.batch = operations.UpdateBatch(self.store, edits)
        self._find_links()

    def find_differences(self) -> Iterator[tuple[DescribedRow, str | None]]:
        """Yield each row that differs from its item, with the names of the different fields.

        The names are one text, such as "title, relations". It is None if the row has no item.
        """
        yield from ((row, None) for row, _, _ in self.new)
        yield from ((row, "key" if row.ibi in self._held else None) for row in self.drafts)
        linked = {link.row.ibi for link in self.links}
        for row in self.rows:
            if row.ibi in self.items:
                names = ["relations"] if row.ibi in linked else []
                update = self.batch.updates.get(self.items[row.ibi])
                if update is not None:
                    names += write.find_changed_fields(update.before, update.record)
                names = [name for name in names if name != "timestamp"]
                if names:
                    yield row, ", ".join(names)

    def _prepare(self, row: DescribedRow) -> None:
        """Prepare the item or the reservation of a row that has no item."""
        if row.ibi not in self._held and row.row.ibi_rep not in self.minted:
            self._check_issued(row)
        if row.state == "Reserved":
            if None in (row.row.ibi_rep, row.row.ibi_ibip):
                raise StorageError("a row that is not public needs both forms of its identifier")
            if self._held.get(row.ibi) != row.key:
                self.drafts.append(row)
            return
        given = dict(row.given)
        if row.state == State.DELETED:  # a tombstone has no files
            given = {name: value for name, value in given.items() if name not in FILE_FIELDS}
        item_record.check_new(given)
        values = item_record.read_description(given)
        values |= {"rep": row.row.ibi_rep, "ibip": row.row.ibi_ibip, "key": row.key}
        files, contents = item_record.stage_files(self.staging, given.get("files", ()))
        self._contents += contents.values()
        record = item_record.validate_record(values, row.name, Record(files=files))
        if row.state == State.DELETED:
            tombstone = models.build_tombstone(row.tombstone, row.name)
            record, _ = operations.remove(record, row.ibi, tombstone, self.now)
        self.new.append((row, record, contents))
        self._related[row.ibi] = row

    def _check_issued(self, row: DescribedRow) -> None:
        """Check that the identifiers of a row without an item can come from this Archive.

        The host may instead have copied them from elsewhere, or a user may have typed them into a
        form.

        :raises RowError: if an identifier names another server, or a date in the future.
        """
        minter = self.context.get_minter()
        for name in models.FORMS:
            text = getattr(row.row, name)
            if text is None:
                continue
            identifier = parse_identifier(text)
            issued = find_issued_prefixes(self.store.connection, [identifier.prefix])
            if identifier.prefix not in {*minter.prefixes, *issued}:
                reason = "names another server"
            elif (decode_identifier(identifier).date or 0) > minter.clock():
                reason = "names a date in the future"
            else:
                continue
            advice = "import the item with its identifiers first: flask ibi import"
            raise RowError(
                row.name,
                name,
                f"this Archive has not issued {identifier}, which {reason}; set ibi_rep and "
                f"ibi_ibip to None, or {advice}",
            )

    def _edit(self, row: DescribedRow, before: Record) -> tuple[Record, Contents] | None:
        """Return the new record of an item, and the contents of its new files.

        This is the :data:`~.operations.Edit` for the item of a row. If the primary key of the row
        has changed, the record gets the new key, even if nothing else changes. The key is not
        public: the timestamp does not change.

        :param before: the present record of the item.
        :returns: None if the record does not change.
        """
        record = before
        contents: Contents = {}
        with naming(row.name, row.ibi):
            if before.original_elsewhere:
                pass  # the other Archive may edit the item
            elif before.state == State.DELETED.value:
                if row.state != State.DELETED:
                    raise StorageError(f"state: {REPUBLISH}")
            elif row.state == "Reserved":
                raise StorageError(f"state: {WITHDRAW}")
            elif row.state == State.DELETED:
                tombstone = models.build_tombstone(row.tombstone, row.name)
                record, contents = operations.remove(before, row.ibi, tombstone, self.now)
            else:
                self._related[row.ibi] = row
                record, contents = self._merge(row, before)
                stated = replace(before, target_file=before.target_path)
                if replace(record, target_file=record.target_path) == stated:
                    record, contents = before, {}
                else:
                    record = replace(record, timestamp=self.now)
        if record is before and before.key == row.key:
            return None
        return replace(record, key=row.key), contents

    def _merge(self, row: DescribedRow, before: Record) -> tuple[Record, Contents]:
        """Return the record that an item gets from its row, and the contents of its new files.

        :param before: the present record of the item.
        """
        values = item_record.read_description(row.given, before.metadata)
        contents: Contents = {}
        if "files" in row.given:
            item_id = self.items[row.ibi]
            values["files"], contents = self._stage(item_id, row.given["files"])
            if before.target_file not in [file.path for file in values["files"]]:
                values.setdefault("target_file", None)
        record = replace(before, **{"aliases": (), **values})
        record = operations.with_all_identifiers(record, before)
        return item_record.validate_record(asdict(record), row.name), contents

    def _stage(
        self, item_id: int, given: item_record.Files
    ) -> tuple[tuple[FileRecord, ...], Contents]:
        if item_id not in self._staged:
            stored = self._stored.get(item_id, {})
            files, contents = item_record.stage_files(self.staging, given, stored)
            same = {path: new for path, new in contents.items() if new == stored.get(path)}
            moved = {
                path: new
                for path, new in same.items()
                if new.source not in (None, stored[path].source)
            }
            if moved:
                self.sources[item_id] = moved
            self._contents += [new for path, new in contents.items() if path not in same]
            self._staged[item_id] = files, {**write.find_unchanged(stored, files), **contents}
        return self._staged[item_id]

    def _remove(self, removal: Removal, before: Record) -> tuple[Record, Contents] | None:
        """Return the new record of the item of a deleted row, without new files.

        The record has no key: a new row may get the primary key of the deleted row.

        :param before: the present record of the item.
        :returns: None if the record does not change.
        """
        record = before
        contents: Contents = {}
        with naming(removal.name, removal.ibi):
            tombstone = models.build_tombstone(removal.tombstone, removal.ibi)
            if before.state != State.DELETED.value or tombstone.discard_description:
                record, contents = operations.remove(before, removal.ibi, tombstone, self.now)
        if record is before and before.key is None:
            return None
        return replace(record, key=None), contents

    def _find_links(self) -> None:
        """Find the rows whose relations differ from those that are stored for their items."""
        links = []
        for row in self._related.values():
            with naming(row.name, row.ibi), _explaining():
                related = item_record.find_relations(row.given)
                names = {name: item_record.canonicalize(ibi) for name, ibi in related.items()}
            link = Link(row, names.get("previous_edition"), names.get("translation_of"))
            # only an existing item can have a previous edition that its row does not state any more
            is_left = "previous_edition" in row.given and row.ibi in self.items
            if names or is_left:
                links.append(link)
        if not links:
            return
        relations = self.store.relations
        texts = {text for link in links for text in (link.edition_of, link.translation_of) if text}
        owners = self.store.find_owners({*texts, *(link.row.ibi for link in links)})
        forms = {owner.ibi for owner in owners.values()}
        previous, heads = relations.find_previous(forms), relations.find_heads(forms)
        owners |= self.store.find_owners(previous.values())
        for link in links:
            item, edition_of, translation_of = (
                owners.get(text or "")
                for text in (link.row.ibi, link.edition_of, link.translation_of)
            )
            before = owners.get(previous.get(item.ibi, "")) if item else None
            if "previous_edition" in link.row.given:
                is_unknown = link.edition_of is not None and edition_of is None
                link.changes_edition = edition_of != before or is_unknown
            if link.translation_of is not None:
                group = heads.get(item.ibi) if item else None
                others = heads.get(translation_of.ibi) if translation_of else None
                link.changes_translation = group is None or group != others
            if link.changes_edition or link.changes_translation:
                self.links.append(link)
                concerned = (item, edition_of, translation_of, before)
                self._concerned |= {owner.id for owner in concerned if owner is not None}

    # --- writing ---------------------------------------------------------------------------------

    def write(self) -> None:
        """Store what :meth:`plan` has found: first all items, then the relations between them.

        :raises RowError: if the item of a row cannot be stored.
        """
        relates = any(record.has_references or record.aliases for _, record, _ in self.new)
        self.batch.lock(self._concerned.union(self.sources), relations=bool(self.links) or relates)
        self._settle()
        self._insert()
        self.batch.write(self.now)
        self.store.set_sources(self.sources)
        self._relate()

    def move_files(self) -> None:
        """Move the new files to the store."""
        for content in self._contents:
            self.staging.move_to_store(content)

    def _settle(self) -> None:
        """Store the reservations of drafts, and take needed keys from other items.

        An item may have a key that now belongs to another row: a bulk statement has deleted its
        row, or has changed the primary key of its row.
        """
        connection, archive_id = self.store.connection, self.store.archive_id
        new = [row for row, _, _ in self.new]
        for row in (*new, *self.drafts):
            if row.row.ibi_rep in self.minted and row.ibi not in self._held:
                operations.note_signal(self.store, item_minted, Minted(*row.identifiers))
        used = [(row.ibi, ownership.USED) for row in new]
        released = [(removal.ibi, ownership.RELEASED) for removal in self._removals]
        for ibi, status in (*used, *released):
            if ibi in self._held:
                ownership.settle_reservation(connection, archive_id, ibi, status, self.now)
        keys = {row.key: row.ibi for row in (*new, *self.drafts)}
        for update in self.batch.updates.values():
            if update.record.key and update.record.key != update.before.key:
                keys[update.record.key] = update.record.identifiers[0]
        holders = ownership.list_holders(connection, archive_id, keys) if keys else ()
        others = [one for one in holders if keys[one.key] not in one.identifiers]
        ownership.free_keys(connection, archive_id, others)
        for row in self.drafts:
            rep, ibip = row.identifiers
            draft = row.name, self.now, row.key
            if row.ibi in self._held:  # the primary key has changed
                ownership.set_reservation_key(connection, archive_id, rep, row.key)
            elif rep in self.minted or not ownership.renew_reservation(
                connection, archive_id, ibip, *draft
            ):
                ownership.add_reservation(connection, archive_id, rep, ibip, *draft)

    def _insert(self) -> None:
        """Insert all new items together. If this fails, insert them one by one to find the row."""
        if not self.new:
            return
        _, records, contents = zip(*self.new, strict=True)
        try:
            with self.store.connection.begin_nested():
                self.store.insert(records, contents, self.now)
        except (IntegrityError, StorageError):
            for row, record, its_contents in self.new:
                with naming(row.name, row.ibi):
                    self.store.insert([record], [its_contents], self.now)
        for record in records:
            operations.note_signal(self.store, item_deposited, record)

    def _relate(self) -> None:
        """Store the changed relations. First remove the old ones, which may contradict the new."""
        store, relations = self.store, self.store.relations
        items = store.find_owners(link.row.ibi for link in self.links)
        for link in self.links:
            ibi = items[link.row.ibi].ibi
            previous = relations.find_previous([ibi]).get(ibi) if link.changes_edition else None
            if previous is not None:
                self._set_next_edition(operations.find_item(store, previous).id, None)
            if link.changes_translation:
                relations.leave(ibi)
        for link in self.links:
            if link.changes_edition and link.edition_of is not None:
                with naming(link.row.name, link.row.ibi), _explaining():
                    other = operations.find_related(store, link.edition_of, None)
                    self._set_next_edition(other.id, items[link.row.ibi].ibi)
        waiting = {items[link.row.ibi].id: link for link in self.links if link.changes_translation}
        while waiting:
            self._join(waiting, next(iter(waiting)))

    def _join(self, waiting: dict[int, Link], item_id: int) -> None:
        """Make an item a translation of the item that its row names.

        If that other item is waiting too, it is joined to its own group first.

        :param waiting: the translations that are not stored yet, by the row IDs of their items. The
            stored one is removed.
        """
        link = waiting.pop(item_id)
        with naming(link.row.name, link.row.ibi), _explaining():
            item = operations.find_item(self.store, link.row.ibi)
            if item.language is None:
                advice = "a translation needs a language, for example language='pt'"
                raise StorageError(f"language: {advice}")
            other = operations.find_related(self.store, None, link.translation_of)
            if other.id in waiting:
                self._join(waiting, other.id)
            self.store.relations.add_translation(item.ibi, other.ibi, item.language)

    def _set_next_edition(self, item_id: int, following: str | None) -> None:
        self.store.relations.set_next_edition(item_id, following)
        self.store.set_timestamp(item_id, self.now)
        operations.note_changed_item(self.store, item_id, ["next_edition"])


@contextmanager
def _explaining() -> Iterator[None]:
    """In the ``with`` block, replace UnknownItem by an error that names the fields of relations."""
    try:
        yield
    except UnknownItem as error:
        raise StorageError(
            f"previous_edition and translation_of must be public items of this Archive, and "
            f"{error.ibi} is not; publish that item first"
        ) from error
