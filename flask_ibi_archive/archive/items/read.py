"""Reads items as records and views, and finds items by identifiers."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import structs
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import aliased
from sqlalchemy.sql.functions import FunctionElement

from flask_ibi_archive.archive.items.files import FileStore
from flask_ibi_archive.archive.items.tables import (
    ARCHIVE,
    File,
    Item,
    ItemIdentifier,
    SameAs,
    TombstoneRow,
    Translation,
    primary_form,
)
from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import HIDDEN
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.description import parse_description
from flask_ibi_archive.core.records.record import (
    FIELDS,
    AccessRule,
    DublinCore,
    DublinCoreMetadata,
    FileRecord,
    ItemView,
    MetadataAddress,
    MetadataItem,
    Record,
    RelatedItem,
    RelationKind,
    Tombstone,
    describe_work,
)
from flask_ibi_archive.core.records.rich_text import TAGS, to_plain
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work
from flask_ibi_archive.server.database import dialects
from flask_ibi_archive.server.database.database import Database

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


# --- conditions --------------------------------------------------------------------------------


def shows_description(item: Any = Item) -> sa.ColumnElement[bool]:
    """Return the SQL condition that all users may see the description of an item.

    :param item: the table of items, or an alias of the table.
    """
    is_shown: sa.ColumnElement[bool] = sa.func.coalesce(item.access_others, "") != HIDDEN
    return is_shown


def describes(metadata: Any) -> sa.ColumnElement[bool]:
    """Return the SQL condition that the description in a metadata item may be shown to all users.

    A metadata item contains the description of other items. The condition is false if the metadata
    item is removed, or if its own description is hidden.

    :param metadata: the alias of the table of items that selects the metadata item.
    """
    return sa.and_(metadata.state != State.DELETED.value, shows_description(metadata))


def is_public(item: Any = Item) -> Any:
    """Return whether harvesters and crawlers see an item; for a table, return the SQL condition.

    They do not see the service, which is no document. They do not see items that contain the
    metadata of other items (content type Metadata), because these metadata are part of the other
    items.

    :param item: a record, or the table of items.
    """
    if isinstance(item, Record):
        is_shown: Any = not item.is_hidden
    else:
        is_shown = shows_description(item) & ~item.is_service
    is_live = (item.state == State.ORIGINAL.value) | (item.state == State.COPY.value)
    return is_live & (item.content_type == "Data") & is_shown


#: The items that contain the metadata of other items.
METADATA = aliased(Item)


class SearchedTexts(FunctionElement[str]):
    """An SQL function that returns titles, creators and subjects as one text, one in each line.

    Its argument is a column with Dublin Core.
    """

    type: sa.String = sa.String()
    inherit_cache: bool | None = True
    elements: tuple[str, ...] = ("title", "creator", "subject")


class Titles(SearchedTexts):
    """An SQL function as :class:`SearchedTexts`, for titles only."""

    inherit_cache: bool | None = True
    elements: tuple[str, ...] = ("title",)


class Types(SearchedTexts):
    """An SQL function as :class:`SearchedTexts`, for types only."""

    inherit_cache: bool | None = True
    elements: tuple[str, ...] = ("type",)


@compiles(SearchedTexts, "sqlite")
def _compile_for_sqlite(element: SearchedTexts, compiler: Any, **options: Any) -> str:
    are_chosen = " OR ".join(f"fullkey LIKE '$.{name}[%'" for name in element.elements)
    return (
        "(SELECT group_concat(atom, char(10))"
        f" FROM json_tree({compiler.process(element.clauses, **options)})"
        f" WHERE type = 'text' AND key IS NOT 'lang' AND ({are_chosen}))"
    )


@compiles(SearchedTexts, "postgresql")
def _compile_for_postgresql(element: SearchedTexts, compiler: Any, **options: Any) -> str:
    are_chosen = " || ".join(f'@.key == "{name}"' for name in element.elements)
    return (
        "(SELECT string_agg(coalesce(one ->> 'value', one #>> '{}'), chr(10))"
        f" FROM jsonb_path_query(CAST({compiler.process(element.clauses, **options)} AS jsonb),"
        f" '$.keyvalue() ? ({are_chosen}).value[*]') AS one)"
    )


#: The maximum number of words of a search; the others are ignored.
MAX_WORDS = 10
#: The markup of titles that a search does not read, and the plain text for it.
_MARKUP = {f"<{slash}{tag}>": "" for slash in ("", "/") for tag in sorted(TAGS)} | {"&amp;": "&"}


def select_items(
    archive_id: int, state: str | None = None, search: str | None = None
) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the SQL conditions of a search.

    :param state: the search finds only items with this state; None: items with any state.
    :param search: the search finds only items with each of these words in a title, a creator, a
        subject or an identifier, without markup. The titles may be those of the metadata item.
        Upper and lower case are the same, as far as the database knows it. None: all items.
    """

    def contains(text: Any, word: str) -> sa.ColumnElement[bool]:
        plain = sa.func.lower(text)
        for mark, letter in _MARKUP.items():
            plain = sa.func.replace(plain, mark, letter)
        return plain.contains(word, autoescape=True)

    conditions = [] if state is None else [Item.state == state]
    for word in (search or "").lower().split()[:MAX_WORDS]:
        name, other = aliased(ItemIdentifier), aliased(Item)
        is_named = sa.exists().where(name.item_id == Item.id, contains(name.text, word))
        describing = sa.select(primary_form(other)).where(
            other.archive_id == archive_id,
            describes(other),
            contains(SearchedTexts(other.dublin_core), word),
        )
        is_described = Item.metadata_ibi.in_(describing)
        about = contains(SearchedTexts(Item.dublin_core), word)
        conditions.append(sa.or_(about, is_described, is_named))
    return tuple(conditions)


# --- item parts --------------------------------------------------------------------------------


def _is_named(name: Any, ibi: Any) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a row of identifiers is the one to which a reference refers.

    :param name: the table of identifiers, or an alias of it.
    :param ibi: the column with the reference.
    """
    return sa.and_(name.text == ibi, name.archive_id == ARCHIVE)


def _with_metadata_items(statement: sa.Select[Any]) -> sa.Select[Any]:
    """Add joins to a statement on items: with the metadata items that describe them.

    The joins follow each other: SQLite would read the whole table for a join within a join.
    """
    name = aliased(ItemIdentifier)
    return statement.outerjoin(name, _is_named(name, Item.metadata_ibi)).outerjoin(
        METADATA, METADATA.id == name.item_id
    )


#: The columns of related items, without titles and with them; see :func:`_relate`. A hidden
#: description is for its own page to show, after a check of the access.
_FORMS: tuple[Any, ...] = (Item.id, Item.state, Item.rep, Item.ibip)
_RELATED = (
    *_FORMS,
    Item.language.label("item_language"),
    sa.cast(
        sa.case(
            (
                shows_description(),
                sa.func.coalesce(
                    Item.dublin_core, sa.case((describes(METADATA), METADATA.dublin_core))
                ),
            )
        ),
        sa.Text,
    ).label("description"),
)

_ALIASES = (
    sa.select(ItemIdentifier.item_id, ItemIdentifier.text)
    .where(dialects.is_listed(ItemIdentifier.item_id, "ids"), ItemIdentifier.alias_no > 0)
    .order_by(ItemIdentifier.alias_no)
)
_SAME_AS = (
    sa.select(SameAs.item_id, SameAs.text)
    .where(dialects.is_listed(SameAs.item_id, "ids"))
    .order_by(SameAs.position)
)
_FILES = (
    sa.select(*File.__table__.c)
    .where(dialects.is_listed(File.item_id, "ids"))
    .order_by(File.position)
)


def _select_members(*columns: Any) -> sa.Select[Any]:
    """Return a statement that reads the members of groups of translations, sorted by language.

    :param columns: the columns of the items.
    """
    return (
        sa.select(Translation.head, Translation.language, Translation.ibi, *columns)
        .outerjoin(ItemIdentifier, _is_named(ItemIdentifier, Translation.ibi))
        .outerjoin(Item, Item.id == ItemIdentifier.item_id)
        .where(Translation.archive_id == ARCHIVE, dialects.is_listed(Translation.head, "heads"))
        .order_by(Translation.language)
    )


_MEMBERS = _select_members(*_FORMS)
_MEMBERS_WITH_TITLES = _with_metadata_items(_select_members(*_RELATED))
_SUCCESSORS = _with_metadata_items(
    sa.select(ItemIdentifier.text, ItemIdentifier.text.label("ibi"), *_RELATED)
    .join(Item, Item.id == ItemIdentifier.item_id)
    .where(
        dialects.is_listed(ItemIdentifier.text, "successors"), ItemIdentifier.archive_id == ARCHIVE
    )
)


def _select_editions() -> sa.Select[Any]:
    """Return a statement that reads the earlier and later editions of items, in their order."""
    edition, name = aliased(Item), ItemIdentifier
    first = sa.select(
        Item.id.label("base"), primary_form().label("ibi"), sa.literal(0).label("position")
    ).where(dialects.is_listed(Item.id, "ids"))
    earlier = first.cte("earlier", recursive=True)
    earlier = earlier.union_all(
        sa.select(earlier.c.base, primary_form(edition), earlier.c.position - 1).where(
            edition.next_edition == earlier.c.ibi, edition.archive_id == ARCHIVE
        )
    )
    later = (
        first.with_only_columns(
            Item.id.label("base"), Item.next_edition.label("ibi"), sa.literal(1).label("position")
        )
        .where(Item.next_edition.is_not(None))
        .cte("later", recursive=True)
    )
    later = later.union_all(
        sa.select(later.c.base, edition.next_edition, later.c.position + 1)
        .join(name, _is_named(name, later.c.ibi))
        .join(edition, edition.id == name.item_id)
        .where(edition.next_edition.is_not(None))
    )
    every = sa.union_all(
        sa.select(earlier).where(earlier.c.position < 0), sa.select(later)
    ).subquery("editions")
    return _with_metadata_items(
        sa.select(every, *_RELATED)
        .outerjoin(name, _is_named(name, every.c.ibi))
        .outerjoin(Item, Item.id == name.item_id)
        .order_by(every.c.base, every.c.position)
    )


_EDITIONS = _select_editions()


#: The parts of an item that other statements read: the statement with titles of related items, and
#: that without titles; the column that names the item; and the list of values that must not be
#: empty. Without titles, the only related items are translations.
_PARTS: dict[str, tuple[Any, Any, str, str]] = {
    "aliases": (_ALIASES, _ALIASES, "item_id", "ids"),
    "same_as": (_SAME_AS, _SAME_AS, "item_id", "ids"),
    "files": (_FILES, _FILES, "item_id", "ids"),
    "members": (_MEMBERS_WITH_TITLES, _MEMBERS, "head", "heads"),
    "editions": (_EDITIONS, None, "base", "ids"),
    "successors": (_SUCCESSORS, None, "text", "successors"),
}
#: The columns of an item that are fields of its record.
_COPIED = [name for name in FIELDS if name in Item.__table__.c and name != "formats"]
#: The rows of the parts, by the part and by the item.
Parts = Mapping[str, Mapping[Any, Sequence[sa.Row[Any]]]]


def _list_related(row: sa.Row[Any], parts: Parts) -> Iterator[RelatedItem]:
    """Yield the related items of an item: editions, then translations, then the successor.

    :param parts: what was read for several items.
    """
    for edition in parts["editions"].get(row.id, ()):
        yield _relate("later_edition" if edition.position > 0 else "earlier_edition", edition)
    for member in parts["members"].get(row.head, ()):
        if member.ibi != (row.rep or row.ibip) and member.language is not None:
            # the other items are translations of the head of their group
            is_original = member.ibi == row.head
            yield structs.replace(_relate("translation", member), is_original=is_original)
    if row.successor is not None:
        successor = next(iter(parts["successors"].get(row.successor, ())), None)
        if successor is None:
            yield RelatedItem("successor", row.successor)
        elif successor.id != row.id:
            yield _relate("successor", successor)


def _relate(kind: RelationKind, row: sa.Row[Any]) -> RelatedItem:
    """Convert a row to a related item.

    :param row: the identifier by which the item is named; if the item is in this Archive, also the
        columns of the item.
    """
    values = row._mapping
    titles = parse_elements(json.loads(values.get("description") or "{}")).get("title")
    form = parse_identifier(row.ibi).form
    return RelatedItem(
        kind,
        row.rep or row.ibip or row.ibi,
        row.rep or (row.ibi if row.id is None and form is Form.REP else None),
        row.ibip or (row.ibi if row.id is None and form is not Form.REP else None),
        (to_plain(titles[0][0]), titles[0][1]) if titles else None,
        values.get("language", values.get("item_language")),
        is_here=row.state in (State.ORIGINAL.value, State.COPY.value),
        is_removed=row.state == State.DELETED.value,
    )


def parse_elements(stored: Mapping[str, list[Any]]) -> DublinCore:
    """Return the Dublin Core that is stored in a column: (text, language) pairs by element.

    :raises ValueError: if the column is malformed.
    """
    return {
        element: tuple(
            (value, None) if isinstance(value, str) else (value["value"], value.get("lang"))
            for value in values
        )
        for element, values in stored.items()
    }


def find_needed_checksums(connection: sa.Connection, checksums: Sequence[str]) -> set[str]:
    """Return those of the given checksums that belong to a file of an item of any Archive.

    :param checksums: at most some thousand checksums.
    """
    statement = sa.select(File.sha256).where(File.sha256.in_(checksums), File.size.is_not(None))
    return {str(sha256) for sha256 in connection.scalars(statement.distinct())}


def count_newer_files(connection: sa.Connection, files: FileStore) -> int:
    """Return the number of stored files that were added after the last change in the database.

    There are such files if an older database was restored beside the present files.
    """
    changed = connection.scalars(sa.select(sa.func.max(Item.timestamp))).one()
    last = changed.timestamp() + 60  # timestamps are whole seconds, and clocks differ a little
    newer = {file.sha256: file.modified for file in files.walk() if file.modified > last}
    for part in dialects.batched(newer):
        # an imported item may have an older timestamp than its files
        needed = find_needed_checksums(connection, part)
        last = max([last, *(newer[sha256] for sha256 in needed)])
    return sum(modified > last for modified in newer.values())


def remove_unneeded(
    connection: sa.Connection, files: FileStore, checksums: Sequence[str], before: float
) -> None:
    """Delete the stored files that no item of any Archive needs.

    A lock prevents new rows for the files until the end of the transaction.

    :param checksums: the checksums of the files that may be deleted.
    :param before: only files that were last modified before this time are deleted. The time is in
        POSIX seconds.
    """
    dialects.run_on_postgresql(connection, f"LOCK TABLE {File.__tablename__} IN SHARE MODE")
    needed = find_needed_checksums(connection, checksums)
    for sha256 in checksums:
        if sha256 not in needed:
            files.remove(sha256, before)


def find_files(
    connection: sa.Connection, item_ids: list[int], paths: list[str]
) -> list[tuple[int, str, str | None]]:
    """Return those files of items that have one of the paths, or have a URL (on another server).

    :returns: for each file, the row ID of the item, the path, and the URL or None.
    """
    rows = connection.execute(
        sa.select(File.item_id, File.path, File.url).where(
            File.item_id.in_(item_ids), sa.or_(File.path.in_(paths), File.url.is_not(None))
        )
    )
    return [(row[0], row[1], row[2]) for row in rows]


# --- reading -----------------------------------------------------------------------------------


#: The number of items that are read with one statement.
EXPORT_BATCH = 500


@dataclass(frozen=True, slots=True)
class ItemReader:
    """Reads the items of one Archive.

    :param get_source: a function that returns the path of the stored file with a checksum. The path
        becomes the field ``source`` of the file. None: the field is empty.
    :param today: the current day (UTC), on which embargoes depend. By default, no embargo has
        ended.
    :param with_descriptions: True: also read descriptions from other items: that of the metadata
        item, and the titles of the related items. Exports do not need them.
    """

    connection: sa.Connection
    archive_id: int
    get_source: Callable[[str], str] | None = None
    today: date = date.min
    with_descriptions: bool = False

    def count_records(self) -> int:
        """Return the number of items except the service."""
        return self.connection.scalars(
            sa.select(sa.func.count()).where(Item.archive_id == self.archive_id, ~Item.is_service)
        ).one()

    def find_item(self, ibi: str) -> ItemView | None:
        """Return the item that has an identifier; None if this Archive does not have the item.

        :param ibi: the identifier in canonical case.
        """
        statement = _select_items(self.with_descriptions, by_name=True)
        return next(iter(self._read(statement, ibi=ibi).values()), None)

    def read_record(self, item_id: int) -> Record:
        """Return the record of one item. The item may be the service of the Archive."""
        return self.read_items([item_id])[item_id].record

    def read_items(
        self, item_ids: Collection[int], *where: sa.ColumnElement[bool]
    ) -> dict[int, ItemView]:
        """Return items by their row IDs, in ascending order. Unknown IDs are missing.

        :param where: more SQL conditions; see :func:`.select_items`.
        """
        statement = _select_items(self.with_descriptions)
        return self._read(statement.where(*where) if where else statement, ids=item_ids)

    def read_listed(
        self, after: int, limit: int, where: Iterable[sa.ColumnElement[bool]] = ()
    ) -> dict[int, ItemView]:
        """Return the next items by their row IDs, in ascending order, without the service.

        :param after: only items whose ID is higher than this number are read.
        :param limit: the largest number of items.
        :param where: more SQL conditions; see :func:`.select_items`.
        """
        ids = sa.select(Item.id).where(
            Item.archive_id == self.archive_id, Item.id > after, ~Item.is_service, *where
        )
        return self.read_items(self.connection.scalars(ids.order_by(Item.id).limit(limit)).all())

    def _read(self, statement: sa.Select[Any], **values: Any) -> dict[int, ItemView]:
        """Return the items that a statement of :func:`_select_items` finds, by row ID.

        :param values: the SQL parameters.
        """
        values["archive_id"] = self.archive_id
        rows = self.connection.execute(statement, values).all()
        lists: dict[str, Any] = {
            "archive_id": self.archive_id,
            "ids": [row.id for row in rows],
            "heads": {row.head for row in rows} - {None},
            "successors": {row.successor for row in rows} - {None},
        }
        parts: dict[str, dict[Any, list[sa.Row[Any]]]] = {
            name: defaultdict(list) for name in _PARTS
        }
        for name, (with_titles, plain, key, needed) in _PARTS.items():
            reading = with_titles if self.with_descriptions else plain
            if reading is not None and lists[needed]:
                for part in self.connection.execute(reading, lists):
                    parts[name][part._mapping[key]].append(part)
        return {row.id: self._make_item(row, parts) for row in rows}

    def _make_item(self, row: sa.Row[Any], parts: Parts) -> ItemView:
        related = tuple(_list_related(row, parts))
        stored = parts["files"].get(row.id, ())
        files = tuple(
            FileRecord(
                part.path,
                part.url,
                None if part.size is None else self.get_source and self.get_source(part.sha256),
                part.sha256,
            )
            for part in stored
        )
        is_head = row.head == (row.rep or row.ibip)
        record = Record(
            **{name: getattr(row, name) for name in _COPIED},
            aliases=tuple(part.text for part in parts["aliases"].get(row.id, ())),
            same_as=tuple(part.text for part in parts["same_as"].get(row.id, ())),
            # only the record of the head of a group lists the translations; an item without a
            # language cannot be listed in the records of other items
            translations={
                str(other.language): other.ibi
                for other in related
                if (is_head or row.language is None) and other.kind == "translation"
            },
            metadata=_read_metadata(row),
            formats=dict(row.formats or {}),
            files=files,
            target_file=None if files and row.target_path == files[0].path else row.target_path,
            access=None
            if row.access_networks is None
            else AccessRule(tuple(row.access_networks.split()), row.access_others),
            tombstone=None
            if row.reason is None
            else Tombstone(row.reason, row.citation, row.successor, row.removed_to),
            key=row.host_key,
        )
        described = row.described if self.with_descriptions else None
        return ItemView(
            record,
            row.is_service,
            self.today,
            None if described is None else _read_stored(described, row.described_work),
            row.described_language if self.with_descriptions else None,
            related,
            {file.path: file.size for file in stored if file.size is not None},
            row.id,
            None if is_head else row.head,
        )


@cache
def _select_items(with_descriptions: bool, by_name: bool = False) -> sa.Select[Any]:
    """Return a statement that reads items, with tombstones and the heads of their translations.

    :param by_name: True: the statement reads the item with the identifier "ibi" (an SQL parameter).
        False: those whose row IDs are in the list "ids".
    """
    owner = sa.select(ItemIdentifier.item_id).where(_is_named(ItemIdentifier, sa.bindparam("ibi")))
    statement = (
        sa.select(
            *Item.__table__.c,
            Translation.head,
            TombstoneRow.reason,
            TombstoneRow.citation,
            TombstoneRow.successor,
            TombstoneRow.original_archive.label("removed_to"),
        )
        .outerjoin(
            Translation,
            sa.and_(Translation.archive_id == Item.archive_id, Translation.ibi == primary_form()),
        )
        .outerjoin(TombstoneRow, TombstoneRow.item_id == Item.id)
        .where(
            Item.archive_id == ARCHIVE,
            Item.id == owner.scalar_subquery() if by_name else dialects.is_listed(Item.id, "ids"),
        )
        .order_by(Item.id)
    )
    if not with_descriptions:
        return statement
    return _with_metadata_items(
        statement.add_columns(
            sa.case((describes(METADATA), METADATA.dublin_core)).label("described"),
            sa.case((describes(METADATA), METADATA.work)).label("described_work"),
            sa.case((describes(METADATA), METADATA.language)).label("described_language"),
        )
    )


def _read_metadata(row: Any) -> MetadataItem | DublinCoreMetadata | MetadataAddress | None:
    if row.metadata_ibi is not None:
        return MetadataItem(row.metadata_ibi)
    if row.dublin_core is not None:
        return _read_stored(row.dublin_core, row.work)
    if row.metadata_url is not None:
        return MetadataAddress(row.metadata_url, row.metadata_formats or {}, row.metadata_timestamp)
    return None


def _read_stored(dublin_core: Any, work: Any) -> DublinCoreMetadata:
    """Return the metadata of an item from the two columns for metadata.

    :param dublin_core: the column with Dublin Core.
    :param work: the column with a description of a work; None if there is only Dublin Core.
    """
    if work is not None:  # the rules by which Dublin Core is made may be newer than what is stored
        return describe_work(parse_description("work", work))
    return DublinCoreMetadata(parse_elements(dublin_core))


def export_records(
    database: Database,
    archive_id: int,
    files: FileStore,
    where: Sequence[sa.ColumnElement[bool]] = (),
    limit: int | None = None,
) -> Generator[Record, None, None]:
    """Yield the records of all items except the service, in the order of their creation.

    All items are read in one transaction. In the records, the ``source`` of a stored file is the
    absolute path of the file.

    :param where: conditions that the items must satisfy, as for :func:`.select_items`.
    :param limit: the maximum number of items; None returns all items.
    """
    with database.snapshot() as connection:
        reader = ItemReader(
            connection, archive_id, lambda sha256: str(files.path(sha256).absolute())
        )
        last_id, left = 0, sys.maxsize if limit is None else limit
        while items := reader.read_listed(last_id, min(EXPORT_BATCH, left), where):
            for item in items.values():
                yield item.record
            last_id, left = max(items), left - len(items)


# --- viewing -----------------------------------------------------------------------------------


def view_item(
    connection: sa.Connection, archive_id: int, folder: FileStore, ibi: str, today: date
) -> ItemView | None:
    """Return the item that has an identifier; None if this Archive does not have the item.

    :param ibi: the identifier in canonical case.
    :param today: the current day (UTC), on which the embargo depends.
    """
    return ItemReader(
        connection,
        archive_id,
        lambda sha256: str(folder.path(sha256)),
        today=today,
        with_descriptions=True,
    ).find_item(ibi)


def view_host_item(record: Record, metadata: Record | None, today: date) -> ItemView:
    """Return an item of a host's own catalogue in the form that pages and commands use.

    :param metadata: the record of the item that contains the metadata, or None.
    """
    described = language = None
    if metadata is not None and not metadata.is_hidden:
        language = metadata.language
        if isinstance(metadata.metadata, DublinCoreMetadata):
            described = metadata.metadata
    related = [
        RelatedItem("translation", ibi, language=language)
        for language, ibi in record.translations.items()
    ]
    if record.next_edition is not None:
        related.insert(0, RelatedItem("later_edition", record.next_edition))
    if record.tombstone is not None and record.tombstone.successor is not None:
        related.append(RelatedItem("successor", record.tombstone.successor))
    return ItemView(record, False, today, described, language, tuple(related))


def read_works(
    archive: Archive, connection: sa.Connection, item_ids: Sequence[int]
) -> dict[int, Work]:
    """Return the descriptions of those items that are public, by row ID, in the given order."""
    reader = ItemReader(
        connection, archive.served().id, today=archive.today, with_descriptions=True
    )
    items = reader.read_items(item_ids, is_public())
    return {one: _describe(archive, items[one]) for one in item_ids if one in items}


def describe_host_item(
    archive: Archive, find_record: Callable[[str], Record | None], record: Record
) -> Work:
    """Return the description of an item in the catalogue of a host.

    :param find_record: returns the record of the item with an identifier.
    """
    named = record.metadata
    metadata = find_record(named.ibi) if isinstance(named, MetadataItem) else None
    return _describe(archive, view_host_item(record, metadata, archive.today))


def _describe(archive: Archive, item: ItemView) -> Work:
    """Return the description of an item as a reader sees it who is in no network."""
    record, elements = item.record, item.dublin_core
    # a harvested record must lead to the item
    url = archive.persistent_url(item)
    identifiers = elements.get("identifier", ())
    if url not in [text for text, _ in identifiers]:
        elements = {**elements, "identifier": (*identifiers, (url, None))}
    return make_work(
        record,
        elements,
        archive.persistent_url_base,
        description=item.description,
        page_url=archive.addresses.item(record),
        # the files that all readers may read
        files=[
            WorkFile(
                file.path,
                file.url or archive.addresses.file(record, file.path),
                guess_type(file.path)[0],
                sha256=file.sha256,
            )
            for file in record.files
            if item.is_open and record.list_files
        ],
        metadata_language=item.metadata_language,
        translation_of=None if record.language is None else item.head,
        archive_name=archive.config.archive_name,
        publisher=archive.config.publisher,
        today=item.today,
    )


# --- identifiers -------------------------------------------------------------------------------
