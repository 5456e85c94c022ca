"""Reads items from the database: the only place where rows become records.

Two statements read any number of items with all that belongs to them. The first selects the items
themselves. The second selects the parts of these items: aliases, files and related items. A
urlRequest reads less, with one statement (:mod:`.catalogue`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from functools import cache
from logging import getLogger
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    null,
    select,
    union_all,
)
from sqlalchemy.exc import DataError
from sqlalchemy.orm import aliased

from flask_ibi_archive.records.item_view import ItemView
from flask_ibi_archive.records.record import (
    AccessRule,
    DublinCore,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    RelatedItem,
    RelationKind,
    Tombstone,
)
from flask_ibi_archive.records.record import Text as LanguageText
from flask_ibi_archive.storage.dialects import Key, is_one_of
from flask_ibi_archive.storage.models import (
    File,
    Item,
    ItemIdentifier,
    TombstoneRow,
    TranslationGroup,
)
from flask_ibi_archive.storage.states import ELSEWHERE, State
from flask_ibi_archive.storage.visibility import LISTED, shows_description

#: The exceptions that are raised if a value in a row is malformed.
MALFORMED = (ValueError, TypeError, AttributeError, LookupError, DataError)
#: A function that gets the identifier of an item with a malformed row, and the error.
OnMalformed = Callable[[str, Exception], None]
log = getLogger("flask_ibi_archive.storage")


def log_malformed(ibi: str, error: Exception) -> None:
    """Log that an item is left out, because its row is malformed."""
    log.error("the row of the item %s is malformed: %s", ibi, error)


class ItemReader:
    """Reads the items of one Archive.

    :param get_source: a function that returns the path of the stored file with a checksum. The path
        becomes the field ``source`` of the file. None: the field is empty.
    :param on_malformed: called with each of several items that cannot be read.
    :param today: the current day (UTC), on which embargoes depend. By default, no embargo has
        ended.
    :param with_descriptions: True to read also the descriptions that are in other items: that of
        the metadata item, and the titles of the related items. A malformed row of one of these
        items must not prevent that the record itself is read and exported.
    """

    def __init__(
        self,
        connection: Connection,
        archive_id: int,
        get_source: Callable[[str], str] | None = None,
        on_malformed: OnMalformed = log_malformed,
        today: date = date.min,
        with_descriptions: bool = False,
    ) -> None:
        self.connection = connection
        self.archive_id = archive_id
        self.get_source = get_source
        self.on_malformed = on_malformed
        self.today = today
        self.with_descriptions = with_descriptions

    def count_records(self) -> int:
        """Return the number of items that can be listed: all except stubs and the service."""
        return self.connection.scalars(
            select(func.count()).where(Item.archive_id == self.archive_id, *LISTED)
        ).one()

    def find_item(self, ibi: str) -> ItemView | None:
        """Return the item that has an identifier; None if this Archive has no such item.

        :param ibi: the identifier in canonical case.
        """
        owner = select(ItemIdentifier.item_id).where(
            ItemIdentifier.text == ibi, ItemIdentifier.archive_id == self.archive_id
        )
        where = (Item.id == owner.scalar_subquery(), Item.state != ELSEWHERE)
        return next(self._read(where, 1), None)

    def read_record(self, item_id: int) -> Record:
        """Return the record of one item. The item may be the service of the Archive."""
        [item] = self._read((Item.id == item_id,), 1)
        return item.record

    def read_items(
        self, item_ids: Sequence[int], *where: ColumnElement[bool]
    ) -> dict[int, ItemView | None]:
        """Return the items with some ids; see :meth:`read_listed`."""
        return self._try_all((is_one_of(self.connection, Item.id, item_ids), *where), len(item_ids))

    def read_listed(
        self, after: int, limit: int, where: Iterable[ColumnElement[bool]] = ()
    ) -> dict[int, ItemView | None]:
        """Return items except the service by their ids, in the order of the ids.

        None is returned instead of an item whose row is malformed.

        :param after: the method reads only items whose id is higher than this number.
        :param limit: the largest number of items.
        :param where: more conditions; see :func:`..item_search.select_items`.
        """
        return self._try_all((Item.id > after, *LISTED, *where), limit)

    def _try_all(
        self, where: Sequence[ColumnElement[bool]], limit: int
    ) -> dict[int, ItemView | None]:
        try:
            return {int(item.id or 0): item for item in self._read(where, limit)}
        except MALFORMED:  # find the malformed row
            names = self.connection.execute(
                select(Item.id, func.coalesce(Item.rep, Item.ibip))
                .where(Item.archive_id == self.archive_id, *where)
                .order_by(Item.id)
                .limit(limit)
            ).all()
            return {item_id: self._try_one(item_id, ibi) for item_id, ibi in names}

    def _try_one(self, item_id: int, ibi: str) -> ItemView | None:
        try:
            [item] = self._read((Item.id == item_id,), 1)
            return item
        except MALFORMED as error:
            self.on_malformed(ibi, error)
            return None

    def _read(self, where: Iterable[ColumnElement[bool]], limit: int) -> Iterator[ItemView]:
        rows = self.connection.execute(
            _select_items(self.with_descriptions)
            .where(Item.archive_id == self.archive_id, *where)
            .order_by(Item.id)
            .limit(limit)
        ).all()
        if rows:
            parts = _Parts(self.connection, self.archive_id, rows, self.with_descriptions)
            yield from [self._make_item(row, parts) for row in rows]

    def _make_item(self, row: Row[Any], parts: _Parts) -> ItemView:
        related = tuple(parts.list_related(row))
        files = parts.files[row.id]
        record = _make_record(
            row,
            tuple(part.text for part in parts.aliases[row.id]),
            tuple(map(self._make_file, files)),
            related,
        )
        described = row.described if self.with_descriptions else None
        return ItemView(
            record,
            row.is_service,
            self.today,
            None if described is None else parse_elements(described),
            row.described_language if self.with_descriptions else None,
            related,
            {part.text: part.size for part in files if part.size is not None},
            row.id,
        )

    def _make_file(self, part: Row[Any]) -> FileRecord:
        source = None
        if part.size is not None and self.get_source is not None:
            source = self.get_source(part.sha256)
        return FileRecord(part.text, part.url, source, part.sha256)


class _Parts:
    """The aliases, the files and the related items of some items.

    :param rows: the rows of the items.
    """

    def __init__(
        self, connection: Connection, archive_id: int, rows: Sequence[Row[Any]], with_titles: bool
    ) -> None:
        self.aliases: dict[int, list[Row[Any]]] = defaultdict(list)
        self.files: dict[int, list[Row[Any]]] = defaultdict(list)
        self._editions: dict[int, list[Row[Any]]] = defaultdict(list)
        self._translations: dict[int, list[Row[Any]]] = defaultdict(list)
        self._successors: dict[str, Row[Any]] = {}
        parameters = {
            "archive_id": archive_id,
            "ids": [row.id for row in rows],
            "series": [*{row.edition_series_id for row in rows} - {None}],
            "groups": [*{row.translation_group_id for row in rows} - {None}],
            "successors": [*{row.successor for row in rows} - {None}],
        }
        lists = {
            "alias": self.aliases,
            "file": self.files,
            "edition": self._editions,
            "translation": self._translations,
        }
        for part in connection.execute(_select_parts(with_titles), parameters):
            if part.kind == "successor":
                self._successors[part.text] = part
            else:
                lists[part.kind][part.owner].append(part)

    def list_related(self, row: Row[Any]) -> Iterator[RelatedItem]:
        """Yield the editions, the translations and the successor of an item."""
        for edition in self._editions.get(row.edition_series_id, ()):
            is_later = edition.position > row.edition_no
            if edition.id != row.id:
                yield _relate("later_edition" if is_later else "earlier_edition", edition)
        members = self._translations.get(row.translation_group_id, ())
        for member in sorted(members, key=lambda member: str(member.language)):
            if member.id != row.id and member.language is not None:
                # the other items are translations of the head of their group
                is_original = member.id == row.head_item_id
                yield replace(_relate("translation", member), is_original=is_original)
        if row.successor is not None:
            successor = self._successors.get(row.successor)
            if successor is None or successor.id == row.id:
                yield RelatedItem("successor", row.successor)
            else:
                yield _relate("successor", successor)


def _relate(kind: RelationKind, part: Row[Any]) -> RelatedItem:
    title = None
    with suppress(*MALFORMED):  # the row of the other item must not prevent that this item is read
        title = parse_elements(json.loads(part.description or "{}"))["title"][0]
    return RelatedItem(
        kind,
        part.rep or part.ibip,
        part.rep,
        part.ibip,
        title,
        part.language,
        is_here=part.state in (State.ORIGINAL.value, State.COPY.value),
        is_removed=part.state == State.DELETED.value,
    )


# The statements are cached: SQLAlchemy needs more time to build them than to run them.


@cache
def _select_items(with_descriptions: bool) -> Select[Any]:
    """Select items, each with its tombstone and the name of its metadata item."""
    metadata = aliased(Item)
    # a removed metadata item describes only itself
    is_shown = and_(metadata.state != State.DELETED.value, shows_description(metadata))
    described = [
        case((is_shown, metadata.dublin_core)).label("described"),
        case((is_shown, metadata.language)).label("described_language"),
    ]
    return (
        select(
            Item.__table__,
            func.coalesce(metadata.rep, metadata.ibip).label("metadata_name"),
            TranslationGroup.head_item_id,
            TombstoneRow.reason,
            TombstoneRow.citation,
            TombstoneRow.successor,
            TombstoneRow.original_archive.label("removed_to"),
            *(described if with_descriptions else ()),
        )
        .outerjoin(metadata, metadata.id == Item.metadata_item_id)
        .outerjoin(TranslationGroup, TranslationGroup.id == Item.translation_group_id)
        .outerjoin(TombstoneRow, TombstoneRow.item_id == Item.id)
    )


@cache
def _select_parts(with_titles: bool) -> Any:
    """Select the aliases, the files and the related items of some items."""
    ids: Any = bindparam("ids", expanding=True)
    metadata, titles = aliased(Item), {}
    if with_titles:
        is_shown = and_(metadata.state != State.DELETED.value, shows_description(metadata))
        own = func.coalesce(Item.dublin_core, case((is_shown, metadata.dublin_core)))
        # a hidden description is for its own page to show, after a check of the access
        titles = {"description": cast(case((shows_description(), own)), Text)}
    other = {
        "id": Item.id,
        "state": Item.state,
        "rep": Item.rep,
        "ibip": Item.ibip,
        "language": Item.language,
        **titles,
    }
    by_metadata = (metadata, metadata.id == Item.metadata_item_id)
    return union_all(
        _part(
            "alias",
            owner=ItemIdentifier.item_id,
            position=ItemIdentifier.alias_no,
            text=ItemIdentifier.text,
        ).where(ItemIdentifier.item_id.in_(ids), ItemIdentifier.alias_no > 0),
        _part(
            "file",
            owner=File.item_id,
            position=File.position,
            text=File.path,
            url=File.url,
            sha256=File.sha256,
            size=File.size,
        ).where(File.item_id.in_(ids)),
        _part("edition", owner=Item.edition_series_id, position=Item.edition_no, **other)
        .outerjoin(*by_metadata)
        .where(Item.edition_series_id.in_(bindparam("series", expanding=True))),
        _part("translation", owner=Item.translation_group_id, **other)
        .outerjoin(*by_metadata)
        .where(Item.translation_group_id.in_(bindparam("groups", expanding=True))),
        _part("successor", text=ItemIdentifier.text, **other)
        .join(ItemIdentifier, ItemIdentifier.item_id == Item.id)
        .outerjoin(*by_metadata)
        .where(
            ItemIdentifier.text.in_(bindparam("successors", expanding=True)),
            ItemIdentifier.archive_id == bindparam("archive_id"),
        ),
    ).order_by("kind", "owner", "position")


def _part(kind: str, **columns: Any) -> Select[Any]:
    """Select one kind of parts. All kinds have the same columns, which may be NULL.

    The column ``owner`` is the id of the item, the series or the group to which the part belongs.
    """
    types: dict[str, Any] = {
        **dict.fromkeys(("id", "owner", "position", "size"), Key),
        **dict.fromkeys(("text", "url", "sha256", "state", "rep", "ibip"), Text),
        **dict.fromkeys(("language", "description"), Text),
    }
    return select(
        literal(kind).label("kind"),
        *(columns.get(name, cast(null(), type)).label(name) for name, type in types.items()),
    )


def _make_record(
    row: Any,
    aliases: tuple[str, ...],
    files: tuple[FileRecord, ...],
    related: Sequence[RelatedItem],
) -> Record:
    """Return the record of an item.

    :param row: the columns of the item.
    """
    access = tombstone = None
    if row.access_networks is not None:
        access = AccessRule(tuple(row.access_networks.split()), row.access_others)
    if row.reason is not None:
        tombstone = Tombstone(row.reason, row.citation, row.successor, row.removed_to)
    # only the record of the head of a group lists the translations; an item without a language
    # cannot be listed in the records of other items
    lists_translations = row.id == row.head_item_id or row.language is None
    first = files[0].path if files else None
    return Record(
        rep=row.rep,
        ibip=row.ibip,
        aliases=aliases,
        state=row.state,
        original_archive=row.original_archive,
        timestamp=row.timestamp,
        content_type=row.content_type,
        language=row.language,
        transferable=row.transferable,
        next_edition=next((one.ibi for one in related if one.kind == "later_edition"), None),
        translations={
            str(one.language): one.ibi
            for one in related
            if lists_translations and one.kind == "translation"
        },
        metadata=_find_metadata(row),
        formats=dict(row.formats or {}),
        files=files,
        target_file=None if row.target_path == first else row.target_path,
        list_files=row.list_files,
        access=access,
        embargo=row.embargo,
        tombstone=tombstone,
    )


def _find_metadata(row: Any) -> MetadataItem | DublinCoreMetadata | MetadataAddress | None:
    if row.metadata_name is not None:
        return MetadataItem(row.metadata_name)
    if row.dublin_core is not None:
        return DublinCoreMetadata(parse_elements(row.dublin_core))
    if row.metadata_url is not None:
        return MetadataAddress(row.metadata_url, row.metadata_formats or {}, row.metadata_timestamp)
    return None


def parse_elements(stored: Mapping[str, list[Any]]) -> DublinCore:
    """Return the Dublin Core that a column contains.

    :raises ValueError: if the column is malformed.
    """
    return {element: tuple(map(_parse_value, values)) for element, values in stored.items()}


def _parse_value(value: Any) -> LanguageText:
    text, language = (
        (value, None) if isinstance(value, str) else (value["value"], value.get("lang"))
    )
    if not isinstance(text, str) or not isinstance(language, str | None):
        raise ValueError(f"{text!r} is not a text")
    return text, language
