"""A catalogue over the database: whatever a request needs comes in one statement.

The rows fetched are the item, what the relations of the scope lead to, and nothing else; which of them is
whose last edition, translation or metadata is worked out here, from the numbers that they carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    func,
    literal,
    or_,
    select,
    union,
)
from sqlalchemy.orm import aliased

from flask_ibi_archive.protocol.catalogue import File, OwnMetadata, Scope
from flask_ibi_archive.storage.models import File as FileRow
from flask_ibi_archive.storage.models import Item as ItemRow
from flask_ibi_archive.storage.models import ItemIdentifier
from flask_ibi_archive.storage.states import ELSEWHERE, State

DELETED = State.DELETED.value


def format_timestamp(moment: datetime) -> str:
    """Give a moment in UTC as ``YYYY-MM-DDThh:mm:ssZ``."""
    return moment.replace(tzinfo=None, microsecond=0).isoformat() + "Z"


class StoredItem:
    """An item as one statement has brought it, with the others that came along."""

    __slots__ = ("_files", "_others", "_row", "_scope", "ibip", "key", "rep", "state")

    def __init__(self, row: Row[Any], others: Mapping[int, StoredItem], scope: Scope) -> None:
        self._row = row
        self._others = others
        self._scope = scope
        self._files: dict[str, str | None] = {}
        self.key: int = row.id
        self.rep: str | None = row.rep
        self.ibip: str | None = row.ibip
        self.state: str | None = None if row.state == ELSEWHERE else row.state

    @property
    def content_type(self) -> str:
        """Data or Metadata."""
        return str(self._row.content_type)

    @property
    def timestamp(self) -> str:
        """Of the last update or removal, ``YYYY-MM-DDThh:mm:ssZ``."""
        return format_timestamp(self._row.timestamp)

    @property
    def language(self) -> str | None:
        """``xx`` or ``xx-YY``, None: not stated."""
        language: str | None = self._row.language
        return language

    @property
    def is_service(self) -> bool:
        """Whether it is the Archive service itself."""
        return bool(self._row.is_service)

    @property
    def formats(self) -> Mapping[str, str]:
        """The formats that an item of content type Metadata carries, with the URL of each."""
        return self._row.formats or {}

    @property
    def shows_metadata(self) -> bool:
        """Whether its metadata are given to those who may not have its files."""
        return bool(self._row.access_others == "metadata")

    def allows(self, address: str) -> bool:
        """Tell whether a user at an IP address may have its files."""
        return networks_allow(self._row.access_networks, address)

    def add_file(self, path: str, url: str | None) -> None:
        """Take a file that came along."""
        self._files[path] = url

    def file(self) -> File | None:
        """Give the file that the scope asks for."""
        for path in self._scope.paths:
            if path in self._files:
                return File(path, self._files[path])
        return None if self._scope.paths else self.target()

    def target(self) -> File | None:
        """Give its target file."""
        path = self._row.target_path
        return None if path is None else File(path, self._files.get(path))

    def metadata(self) -> StoredItem | OwnMetadata | None:
        """Give its metadata, an item or not."""
        row = self._row
        if row.metadata_item_id is not None:
            return self._others.get(row.metadata_item_id)
        own = row.metadata_timestamp
        timestamp = None if own is None else format_timestamp(own)
        if row.metadata_url is not None:
            return OwnMetadata(row.metadata_url, row.metadata_formats or {}, timestamp)
        if row.has_dublin_core:
            return OwnMetadata(None, {"oai_dc": None}, timestamp)
        return None

    def _later_editions(self) -> list[StoredItem]:
        series, number = self._row.edition_series_id, self._row.edition_no
        if series is None:
            return []
        later = [
            other
            for other in self._others.values()
            if other._row.edition_series_id == series and other._row.edition_no > number
        ]
        later.sort(key=lambda other: int(other._row.edition_no))
        return later

    def next_edition(self) -> StoredItem | None:
        """Give its next edition, wherever it lives, deleted or not."""
        later = self._later_editions()
        return later[0] if later else None

    def last_edition(self) -> StoredItem | None:
        """Give the end of its chain of editions, itself included; None: unknown."""
        later = self._later_editions()
        if not later:
            return self
        if not self._scope.follow_editions or later[-1].state is None:
            return None
        return next((item for item in reversed(later) if item.state != DELETED), self)

    def translations(self) -> Mapping[str, StoredItem]:
        """Give the members of its group of translations that state a language, itself included."""
        group = self._row.translation_group_id
        if group is None:
            return {} if self.language is None else {self.language: self}
        return {
            other.language: other
            for other in self._others.values()
            if other._row.translation_group_id == group and other.language is not None
        }


class StoredCatalogue:
    """The items of one Archive in the database.

    :param connection: the connection to read on; each :meth:`find` is one statement.
    :param archive_id: the Archive's row.
    """

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id

    def find(self, ibi: str, scope: Scope) -> StoredItem | None:
        """Give the item that bears an identifier (canonical text), whatever its state, or None."""
        statement = find_statement(
            scope.shapes, scope.next_edition, len(scope.paths), scope.follow_editions
        )
        parameters: dict[str, Any] = {"archive_id": self.archive_id, "ibi": ibi}
        for number, path in enumerate(scope.paths):
            parameters[f"path_{number}"] = path
        items: dict[int, StoredItem] = {}
        found: StoredItem | None = None
        for row in self.connection.execute(statement, parameters):
            item = items.get(row.id)
            if item is None:
                item = items[row.id] = StoredItem(row, items, scope)
                if row.id == row.base_id:
                    found = item
            if row.file_path is not None:
                item.add_file(row.file_path, row.file_url)
        return found


def networks_allow(networks: str | None, address: str) -> bool:
    """Tell whether an address lies in one of some networks (CIDR, apart by spaces); None: any does."""
    if networks is None:
        return True
    user = ip_address(address)
    if isinstance(user, IPv6Address) and user.ipv4_mapped is not None:
        user = user.ipv4_mapped
    return any(user in ip_network(network) for network in networks.split())


@lru_cache(maxsize=256)
def find_statement(
    shapes: frozenset[str], next_edition: bool, paths: int, follow_editions: bool
) -> Select[Any]:
    """Give the statement that brings an item and all that a scope asks of it.

    Parameters: archive_id, ibi, and path_0, path_1 for as many paths. Every row names the item asked for
    as base_id; an item with several files comes in several rows.
    """
    base = (
        select(ItemIdentifier.item_id.label("id"))
        .where(
            ItemIdentifier.text == bindparam("ibi"),
            ItemIdentifier.archive_id == bindparam("archive_id"),
        )
        .cte("base")
    )
    reached: dict[str, CTE] = {"": base}
    for shape in sorted(shapes, key=len):
        if shape:
            parent = reached[shape[:-1]]
            reached[shape] = _STEPS[shape[-1]](parent, follow_editions).cte(f"reached_{shape}")
    ids = [select(part.c.id) for part in reached.values()]
    if next_edition and (follow_editions or "u" not in shapes):
        ids.append(_next_edition(base))
    everything = union(*ids).cte("everything") if len(ids) > 1 else base
    # who may not have an item gets its metadata
    restricted = aliased(ItemRow, name="restricted")
    instead = select(restricted.metadata_item_id.label("id")).join(
        everything,
        and_(everything.c.id == restricted.id, restricted.access_networks.is_not(None)),
    )
    wanted = union(select(everything.c.id), instead).subquery("wanted")

    wanted_path: ColumnElement[bool] = FileRow.path == ItemRow.target_path
    if paths:
        wanted_path = or_(
            wanted_path, FileRow.path.in_([bindparam(f"path_{number}") for number in range(paths)])
        )
    return (
        select(
            base.c.id.label("base_id"),
            ItemRow.id,
            ItemRow.state,
            ItemRow.rep,
            ItemRow.ibip,
            ItemRow.timestamp,
            ItemRow.content_type,
            ItemRow.language,
            ItemRow.is_service,
            ItemRow.edition_series_id,
            ItemRow.edition_no,
            ItemRow.translation_group_id,
            ItemRow.metadata_item_id,
            ItemRow.metadata_url,
            ItemRow.metadata_formats,
            ItemRow.metadata_timestamp,
            ItemRow.formats,
            ItemRow.target_path,
            ItemRow.access_networks,
            ItemRow.access_others,
            ItemRow.dublin_core.is_not(None).label("has_dublin_core"),
            FileRow.path.label("file_path"),
            FileRow.url.label("file_url"),
        )
        .select_from(base)
        .join(wanted, literal(True))
        .join(ItemRow, ItemRow.id == wanted.c.id)
        .outerjoin(FileRow, and_(FileRow.item_id == ItemRow.id, wanted_path))
    )


def _next_edition(parent: CTE) -> Select[Any]:
    item, later = aliased(ItemRow), aliased(ItemRow)
    following = (
        select(later.id)
        .where(
            later.edition_series_id == item.edition_series_id, later.edition_no > item.edition_no
        )
        .order_by(later.edition_no)
        .limit(1)
        .scalar_subquery()
    )
    return select(func.coalesce(following, item.id).label("id")).join(
        parent, parent.c.id == item.id
    )


def _last_edition(parent: CTE, follow_editions: bool) -> Select[Any]:
    """Select the last member of each item's chain that is not deleted, else the item itself.

    Where editions are not followed, the next edition: whether there is one is all that counts then.
    """
    if not follow_editions:
        return _next_edition(parent)
    item, later = aliased(ItemRow), aliased(ItemRow)
    last = (
        select(later.id)
        .where(
            later.edition_series_id == item.edition_series_id,
            later.edition_no > item.edition_no,
            later.state != DELETED,
        )
        .order_by(later.edition_no.desc())
        .limit(1)
        .scalar_subquery()
    )
    return select(func.coalesce(last, item.id).label("id")).join(parent, parent.c.id == item.id)


def _translations(parent: CTE, follow_editions: bool) -> Select[Any]:
    """Select every member of each item's group of translations; an item without one is alone in it."""
    item, member = aliased(ItemRow), aliased(ItemRow)
    return (
        select(func.coalesce(member.id, item.id).label("id"))
        .select_from(item)
        .join(parent, parent.c.id == item.id)
        .outerjoin(member, member.translation_group_id == item.translation_group_id)
    )


def _metadata(parent: CTE, follow_editions: bool) -> Select[Any]:
    """Select the metadata of each item that are items, else the item itself."""
    item = aliased(ItemRow)
    return select(func.coalesce(item.metadata_item_id, item.id).label("id")).join(
        parent, parent.c.id == item.id
    )


_STEPS = {"u": _last_edition, "t": _translations, "m": _metadata}
