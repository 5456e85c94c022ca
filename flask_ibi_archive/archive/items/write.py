"""Inserts, replaces and updates items in the database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items.files import Content, Source
from flask_ibi_archive.archive.items.ownership import (
    Owner,
    check_not_reserved,
    find_owners,
    forget_addresses,
)
from flask_ibi_archive.archive.items.read import ItemReader
from flask_ibi_archive.archive.items.stored_relations import Member, Relations, lock_relations
from flask_ibi_archive.archive.items.tables import (
    ARCHIVE,
    ArchiveRow,
    File,
    Item,
    ItemIdentifier,
    SameAs,
    TombstoneRow,
    metadata,
    primary_form,
)
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import (
    FIELDS,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    find_wrong_names,
    format_description,
    format_dublin_core,
)
from flask_ibi_archive.core.records.work import find_year
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.server.database import dialects
from flask_ibi_archive.signals import Notice

_ITEM: Any = Item.__table__.c


def keep_same_as(record: Record, before: Record) -> Record:
    """Add to a record the aliases that its item had before, and return the record.

    :param before: the present record of the item.
    """
    new = {parse_foreign(text).digest for text in record.same_as}
    old = [text for text in before.same_as if parse_foreign(text).digest not in new]
    return replace(record, same_as=(*record.same_as, *old))


def renew_plans(connection: sa.Connection) -> None:
    """Make PostgreSQL plan its statements anew, also those that check foreign keys.

    A plan for an empty table reads the whole table, and becomes slow while the table grows.
    """
    dialects.run_on_postgresql(connection, "DISCARD PLANS")


def examine_tables(connection: sa.Connection) -> None:
    """Let PostgreSQL examine its tables while many rows are inserted, and renew its plans.

    Until autovacuum has examined the tables, statements and triggers would read all rows.
    """
    dialects.run_on_postgresql(connection, f"ANALYZE {', '.join(metadata.tables)}")


# The statements are constant, because SQLAlchemy needs more time to make them than to run them.
_FILE = File.__table__.c
_CONTENTS = sa.select(
    *_FILE["item_id", "path", "sha256", "size", "source", "source_modified"]
).where(dialects.is_listed(_FILE.item_id, "ids"), _FILE.size.is_not(None))
_SET_SOURCE = (
    sa.update(File)
    .where(_FILE.item_id == sa.bindparam("item"), _FILE.path == sa.bindparam("name"))
    .values(source=sa.bindparam("new_path"), source_modified=sa.bindparam("new_modified"))
)
#: The tables of the parts of items, by the fields of records.
_PARTS: dict[str, Any] = {"tombstone": TombstoneRow, "files": File, "same_as": SameAs}
_DELETE = {
    model: sa.delete(model).where(dialects.is_listed(model.item_id, "ids"))
    for model in _PARTS.values()
}
_INSERT = {model: sa.insert(model) for model in (ItemIdentifier, *_PARTS.values())}
# The rows are returned in any order, because SQLite would insert them one by one otherwise.
_INSERT_ITEMS = sa.insert(Item).returning(Item.id, Item.rep, Item.ibip)
_UPDATE_ITEM = (
    sa.update(Item.__table__)  # type: ignore[arg-type]
    .where(_ITEM.id == sa.bindparam("row_id"))
    .values(
        {
            column.name: sa.bindparam(column.name)
            for column in _ITEM
            if column.name not in ("id", "archive_id", "is_service")
        }
    )
)

#: The Archives that have the Originals of identifiers.
_ORIGINALS = sa.select(ItemIdentifier.archive_id).where(
    dialects.is_listed(ItemIdentifier.text, "texts"), ItemIdentifier.state == State.ORIGINAL.value
)


def _select_copies() -> Any:
    """Return a statement that reads Copies: their row IDs, their Archives, and their Originals."""
    mine, theirs, service = (aliased(ItemIdentifier) for _ in range(3))
    is_own = sa.and_(ArchiveRow.service_item_id == service.item_id, ArchiveRow.id == ARCHIVE)
    return (
        sa.select(Item.id, Item.archive_id, mine.item_id)
        .join(theirs, theirs.item_id == Item.id)
        .join(mine, mine.text == theirs.text)
        .join(service, service.text == Item.original_archive)
        .join(ArchiveRow, is_own)
        .where(dialects.is_listed(mine.item_id, "ids"), theirs.state == State.COPY.value)
        .distinct()
        .order_by(Item.id)
    )


_COPIES = _select_copies()

#: The stored contents of the files of a record. The keys are the paths of the files.
Contents = Mapping[str, Content]


#: The fields of a record that contain identifiers of the item.
OWN_NAMES = {"rep", "ibip", "aliases"}
#: The fields of a record whose changes may also affect other items.
RELATING = OWN_NAMES | {"language", "next_edition", "translations", "metadata"}


def find_changed_fields(before: Record, after: Record) -> list[str]:
    """Return the names of the fields in which two records differ."""
    return [name for name in FIELDS if getattr(before, name) != getattr(after, name)]


@dataclass(slots=True)
class Update:
    """A change of an item: its present and its new record, and the contents of its new files.

    :param record: the new record. It has all identifiers of the item, except removed aliases.
    :ivar changed: the names of the fields that change. New contents change the field "files".
    :ivar relates: whether references, identifiers or the language change.
    """

    item_id: int
    before: Record
    record: Record
    contents: Contents
    changed: set[str] = field(init=False)
    relates: bool = field(init=False)

    def __post_init__(self) -> None:
        self.changed = {*find_changed_fields(self.before, self.record)}
        metadata = {type(self.before.metadata), type(self.record.metadata)}
        # a description is no relation
        relating = RELATING if MetadataItem in metadata else RELATING - {"metadata"}
        self.relates = not relating.isdisjoint(self.changed)
        if self.contents:
            self.changed.add("files")


@dataclass
class ItemStore:
    """The items of one Archive. The methods use the transaction of the caller.

    :param notices: the list of signals to send after the commit. If several Archives change in one
        transaction, their stores share one list, because signals are sent in the order of the
        changes.
    :param ibi: an identifier of the item that is changed, for messages.
    """

    connection: sa.Connection
    archive_id: int
    notices: list[Notice] = field(default_factory=list)
    ibi: str | None = None

    def __post_init__(self) -> None:
        #: Reads items as records.
        self.reader: ItemReader = ItemReader(self.connection, self.archive_id)
        #: Stores the relations between items.
        self.relations: Relations = Relations(self.connection, self.archive_id)

    def lock_relations(self, items: Collection[int] = (), limited: bool = True) -> None:
        """Lock relations and items of the Archive: :func:`.stored_relations.lock_relations`."""
        lock_relations(self.connection, [self.archive_id], items, limited)

    def find_owners(self, identifiers: Iterable[str]) -> dict[str, Owner]:
        """Return the items that have identifiers; see :func:`.ownership.find_owners`."""
        return find_owners(self.connection, self.archive_id, identifiers)

    def get_contents_of(self, items: Collection[int]) -> dict[int, dict[str, Content]]:
        """Return the contents of the stored files of items: by row ID, and then by path."""
        contents: dict[int, dict[str, Content]] = {}
        rows = self.connection.execute(_CONTENTS, {"ids": items})
        for item_id, path, sha256, size, source, modified in rows:
            origin = None if source is None else Source(source, modified)
            contents.setdefault(item_id, {})[path] = Content(sha256, size, origin)
        return contents

    # --- Originals and Copies in other Archives of the database ----------------------------------

    def find_archive_of_original(self, ibi: str) -> int | None:
        """Return the row ID of the Archive in this database that has the Original, or None."""
        return self.connection.scalar(_ORIGINALS, {"texts": [ibi]})

    def find_copies(self, items: Collection[int]) -> dict[int, dict[int, int]]:
        """Return the Copies of items in other Archives of this database.

        A Copy is only counted if it names this Archive as the Archive of its Original.

        :returns: for the row ID of each item with Copies, a dictionary: the row ID of each Copy,
            and that of its Archive.
        """
        copies: dict[int, dict[int, int]] = {}
        values = {"archive_id": self.archive_id, "ids": items}
        for copy_id, archive_id, original_id in self.connection.execute(_COPIES, values):
            copies.setdefault(original_id, {})[copy_id] = archive_id
        return copies

    def check_no_copies(self, item_id: int, record: Record) -> None:
        """Check that an item that is no longer an Original has no Copies in this database.

        :param record: the new record of the item.
        :raises RuleBroken: rule 4. The error names the Archives that have the Copies.
        """
        copies = None if record.state == State.ORIGINAL else self.find_copies([item_id])
        if not copies:
            return
        services = sa.select(primary_form()).where(
            Item.archive_id.in_(copies[item_id].values()), Item.is_service
        )
        holders = sorted(self.connection.scalars(services))
        raise RuleBroken(
            4,
            record.identifiers[0],
            f"this item is the Original of Copies in {', '.join(holders)}; delete these Copies "
            "first",
        )

    # --- new items -------------------------------------------------------------------------------

    def insert(
        self,
        records: Sequence[Record],
        contents: Sequence[Contents],
        now: datetime,
        is_service: bool = False,
        is_minted: bool = False,
    ) -> list[int]:
        """Insert new items with their relations, and return their row IDs in the same order.

        :param contents: the stored contents of the files, for each record in the same order.
        :param is_service: True if the item is the service of the Archive.
        :param is_minted: True if the identifiers were just minted. Then it is not checked whether
            they are reserved or referred to, because they cannot be.
        :raises RuleBroken: rule 1, if an identifier is reserved for a draft; rule 6, 7 or 8.
        """
        _check_names(records)
        named = [record for record in records if record.aliases or not is_minted]
        names = {own[0]: own for own in (record.identifiers for record in named)}
        records = self.resolve(records)
        if names:
            check_not_reserved(self.connection, [text for own in names.values() for text in own])
            languages = self.relations.rewrite(names)
            records = [_assign_language(record, languages) for record in records]
        shared = {"archive_id": self.archive_id, "is_service": is_service}
        rows = [{**shared, **_columns(record, now)} for record in records]
        stored = self.connection.execute(_INSERT_ITEMS, rows)
        ids = {(row.rep, row.ibip): int(row.id) for row in stored}
        items = [
            (ids[record.rep, record.ibip], record, its_contents)
            for record, its_contents in zip(records, contents, strict=True)
        ]
        self._insert_parts((*item, ("identifiers", *_PARTS)) for item in items)
        lists = {
            record.identifiers[0]: record.translations for record in records if record.translations
        }
        if lists:
            self.relations.join(lists)
        return [item_id for item_id, _, _ in items]

    def join(self, record: Record) -> None:
        """Put an item and the translations that its record lists into one group."""
        [resolved] = self.resolve([record])
        self.relations.join({record.identifiers[0]: resolved.translations})

    def resolve(self, records: Sequence[Record]) -> list[Record]:
        """Return records in which references to items of this Archive are primary forms.

        :raises RuleBroken: rule 6, if the service would be an edition or a translation.
        """
        texts = {
            text
            for record in records
            if record.has_references
            for text in (
                record.next_edition,
                *record.translations.values(),
                getattr(record.metadata, "ibi", None),
            )
            if text is not None
        }
        if not texts:
            return list(records)
        owners = self.find_owners(texts)
        primary = {text: owner.ibi for text, owner in owners.items()}
        for record in records:
            primary.update(dict.fromkeys(record.identifiers, record.identifiers[0]))
            for text in (record.next_edition, *record.translations.values()):
                if text in owners and owners[text].is_service:
                    raise RuleBroken(
                        6,
                        record.identifiers[0],
                        "the service of the Archive can't be an edition or a translation",
                    )
        return [_rename(record, primary) for record in records]

    def _insert_parts(self, items: Iterable[tuple[int, Record, Contents, Collection[str]]]) -> None:
        """Insert the rows for parts of items, such as identifiers and files.

        :param items: for each item, the row ID, the record, the contents of the files, and the
            names of the parts to insert: ``identifiers``, and fields in :data:`_PARTS`.
        """
        rows: dict[Any, list[dict[str, Any]]] = {model: [] for model in _INSERT}
        for item_id, record, contents, parts in items:
            if "identifiers" in parts:
                rows[ItemIdentifier] += self._list_identifiers(item_id, record)
            for position, file in enumerate(record.files if "files" in parts else ()):
                content = contents.get(file.path)
                source = content.source if content else None
                rows[File].append(
                    {
                        "item_id": item_id,
                        "path": file.path,
                        "position": position,
                        "url": file.url,
                        "sha256": content.sha256 if content else file.sha256,
                        "size": content.size if content else None,
                        "source": source.path if source else None,
                        "source_modified": source.modified if source else None,
                    }
                )
            for position, text in enumerate(record.same_as if "same_as" in parts else ()):
                rows[SameAs].append(
                    {
                        "digest": parse_foreign(text).digest,
                        "archive_id": self.archive_id,
                        "item_id": item_id,
                        "position": position,
                        "text": text,
                    }
                )
            if "tombstone" in parts and record.tombstone is not None:
                rows[TombstoneRow].append(
                    {
                        "item_id": item_id,
                        "archive_id": self.archive_id,
                        "state": State.DELETED.value,
                        **{name: getattr(record.tombstone, name) for name in TOMBSTONE_COLUMNS},
                    }
                )
        for model, values in rows.items():
            if values:
                self.connection.execute(_INSERT[model], values)
        if rows[SameAs]:
            forget_addresses()

    def _list_identifiers(self, item_id: int, record: Record) -> list[dict[str, Any]]:
        """Return the rows to insert for the identifiers of an item."""
        forms = {record.rep: Form.REP, record.ibip: Form.IBIP}
        return [
            {
                "text": text,
                "archive_id": self.archive_id,
                "item_id": item_id,
                "state": record.state,
                "form": (forms.get(text) or parse_identifier(text).form).value,
                "alias_no": record.aliases.index(text) + 1 if text in record.aliases else 0,
            }
            for text in record.identifiers
        ]

    # --- present items ---------------------------------------------------------------------------

    def replace(self, updates: Sequence[Update], now: datetime) -> None:
        """Replace the records of items, except their groups of translations.

        Only what changes is written. An item in a group stays in the group.

        :param now: the timestamp of records without a timestamp.
        :raises RuleBroken: if a rule does not allow a change.
        """
        if any(new.relates for new in updates):
            records = self.resolve([new.record for new in updates])
            updates = [
                Update(new.item_id, new.before, record, new.contents)
                for new, record in zip(updates, records, strict=True)
            ]
        if not updates:
            return
        _check_names(new.record for new in updates if {*OWN_NAMES, "same_as"} & new.changed)
        renamed = [new for new in updates if OWN_NAMES & new.changed]
        if renamed:
            texts = [
                text
                for new in renamed
                for text in new.record.identifiers
                if text not in new.before.identifiers
            ]
            check_not_reserved(self.connection, texts)
        # an item whose language changes leaves its group until it has the new language
        languages = {
            new.before.identifiers[0]: new.record.language
            for new in updates
            if "language" in new.changed
        }
        heads = self.relations.find_heads(languages) if languages else {}
        if heads:
            self.relations.remove(heads)
        # a tombstone must go before the state of its item
        parts = [new for new in updates if _PARTS.keys() & new.changed]
        stored: dict[int, dict[str, Content]] = {}
        for name, model in _PARTS.items() if parts else ():
            ids = [new.item_id for new in parts if name in new.changed]
            if ids:
                if model is File:
                    stored = self.get_contents_of(ids)
                self.connection.execute(_DELETE[model], {"ids": ids})
        self.connection.execute(
            _UPDATE_ITEM, [{"row_id": new.item_id, **_columns(new.record, now)} for new in updates]
        )
        if renamed:
            self.relations.rewrite(
                {new.record.identifiers[0]: new.record.identifiers for new in renamed}
            )
            for new in renamed:
                self._replace_identifiers(new)
        if parts:
            self._insert_parts(
                (
                    new.item_id,
                    new.record,
                    {
                        **find_unchanged(stored.get(new.item_id, {}), new.record.files),
                        **new.contents,
                    },
                    new.changed,
                )
                for new in parts
            )
        if heads:
            members = [Member(ibi, head, languages[ibi]) for ibi, head in heads.items()]
            self.relations.insert(members)

    def _replace_identifiers(self, new: Update) -> None:
        """Delete the rows of removed identifiers of an item, and insert the rows of new ones."""
        name = ItemIdentifier
        before, after = new.before.identifiers, new.record.identifiers
        is_own = name.item_id == new.item_id
        self.connection.execute(sa.delete(name).where(is_own, name.text.not_in(after)))
        for row in self._list_identifiers(new.item_id, new.record):
            if row["text"] not in before:
                self.connection.execute(_INSERT[name], [row])
                continue
            moved = sa.update(name).where(is_own, name.text == row["text"])
            self.connection.execute(moved.values(alias_no=row["alias_no"]))

    def set_sources(self, contents: Mapping[int, Contents]) -> None:
        """Store from which files of the host the stored files were copied. Nothing else changes.

        :param contents: the contents with the sources, by the row IDs of the items, then by path.
        """
        rows = [
            {
                "item": item_id,
                "name": path,
                "new_path": source.path,
                "new_modified": source.modified,
            }
            for item_id, of_item in contents.items()
            for path, content in of_item.items()
            if (source := content.source) is not None
        ]
        if rows:
            self.connection.execute(_SET_SOURCE, rows)

    def set_states(
        self, items: Collection[int], state: State, original_archive: str | None = None
    ) -> None:
        """Change the state of items.

        :param original_archive: for Copies: the service IBI of the Archive that has the Original.
        """
        self._update(items, state=state.value, original_archive=original_archive)

    def clear_languages(self, items: Collection[int]) -> None:
        """Remove the languages of items that are in no group of translations."""
        self._update(items, language=None)

    def _update(self, items: Collection[int], **values: str | None) -> None:
        if items:
            are_chosen = dialects.is_one_of(Item.id, items)
            self.connection.execute(sa.update(Item).where(are_chosen).values(**values))

    def set_timestamp(self, item_id: int, moment: datetime) -> None:
        """Set the timestamp of an item if the item is an Original.

        Other items keep their timestamps: that of a Deleted item is the time of its deletion.
        """
        self.connection.execute(
            sa.update(Item)
            .where(Item.id == item_id, Item.state == State.ORIGINAL.value)
            .values(timestamp=moment)
        )


def _check_names(records: Iterable[Record]) -> None:
    """Check the number and the lengths of other names, after names of several sources were joined.

    :raises StorageError: if there are too many, or if one is too long.
    """
    for record in records:
        for error in find_wrong_names(record) if record.aliases or record.same_as else ():
            raise StorageError(f"{record.identifiers[0]}: {error}")


def find_unchanged(stored: Contents, files: Iterable[FileRecord]) -> dict[str, Content]:
    """Return those stored contents that the new record keeps, by path.

    :param stored: the stored contents of the item, by path.
    :param files: the files of the new record.
    """
    return {
        file.path: stored[file.path]
        for file in files
        if file.path in stored
        and file.url is None
        and file.sha256 in (None, stored[file.path].sha256)
    }


def _rename(record: Record, primary: Mapping[str, str]) -> Record:
    """Return a record in which references are replaced by primary forms.

    :param primary: the primary forms, by the identifiers that they replace.
    """
    following, metadata = record.next_edition, record.metadata
    if isinstance(metadata, MetadataItem):
        metadata = MetadataItem(primary.get(metadata.ibi, metadata.ibi))
    return replace(
        record,
        next_edition=following and primary.get(following, following),
        translations={
            language: primary.get(text, text) for language, text in record.translations.items()
        },
        metadata=metadata,
    )


def _assign_language(record: Record, languages: Mapping[str, str | None]) -> Record:
    """Set the language of a new item that the records of other items list for it.

    :param languages: the languages of the items that are in groups, by primary form.
    :raises RuleBroken: rule 8, if the record states another language.
    """
    ibi = record.identifiers[0]
    if ibi not in languages or record.language == languages[ibi]:
        return record
    check_language(ibi, record.language, languages[ibi])
    return replace(record, language=languages[ibi])


def check_language(ibi: str, stated: str | None, listed: str | None) -> None:
    """Check that an item has no other language than the one that another record lists for it.

    :param stated: the language of the item, or None.
    :param listed: the language in the other record, or None.
    :raises RuleBroken: rule 8.
    """
    if stated not in (None, listed):
        raise RuleBroken(
            8,
            ibi,
            f"the item states the language {stated}, but the record of another item lists the item "
            f"as the translation into {listed}",
            "language",
        )


#: The columns of an item and of a tombstone with the names of attributes of a record.
ITEM_COLUMNS = [column.key for column in Item.__table__.columns if hasattr(Record, column.key)]
TOMBSTONE_COLUMNS = ("reason", "citation", "successor", "original_archive")


def _columns(record: Record, now: datetime) -> dict[str, Any]:
    """Return the values of the columns of an item, by the names of the columns."""
    metadata = record.metadata
    at_address = metadata if isinstance(metadata, MetadataAddress) else None
    stored = metadata if isinstance(metadata, DublinCoreMetadata) else None
    return {
        **{name: getattr(record, name) for name in ITEM_COLUMNS},
        "timestamp": record.timestamp or now,
        "metadata_ibi": metadata.ibi if isinstance(metadata, MetadataItem) else None,
        "metadata_url": at_address and at_address.url,
        "metadata_formats": at_address and (dict(at_address.formats) or None),
        "metadata_timestamp": at_address and at_address.timestamp,
        "dublin_core": stored and format_dublin_core(stored.elements),
        "work": format_description(stored.work) if stored and stored.work else None,
        "formats": dict(record.formats) or None,
        "access_networks": record.access and " ".join(record.access.networks),
        "access_others": record.access and record.access.others,
        "host_key": record.key,
        "issued_year": find_year(metadata) if isinstance(metadata, DublinCoreMetadata) else None,
    }
