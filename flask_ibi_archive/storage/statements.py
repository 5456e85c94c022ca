"""The SQL statement for a urlRequest: it reads an item and the items that its relations lead to.

A urlRequest asks for the URLs of an item. Relations such as ``.lastedition`` lead from the item to
other items; :class:`.catalogue.StoredCatalogue` runs the statement and evaluates them.

The relations that a request needs are passed as shapes: each letter of a shape is one step (see
``_STEPS``), so "ut" are the translations of the last edition, and "" is the item itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    Connection,
    Dialect,
    Select,
    String,
    and_,
    bindparam,
    case,
    cast,
    func,
    null,
    or_,
    select,
    union,
    union_all,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from flask_ibi_archive.storage.dialects import Key
from flask_ibi_archive.storage.models import File, Item, ItemIdentifier, TombstoneRow
from flask_ibi_archive.storage.states import ELSEWHERE, State


class Fetched(NamedTuple):
    """A row of the result: an item, with a requested file or the target file of the item.

    ``base_id`` is the id of the requested item, and None in the rows of the other items. The fields
    after ``file_url`` are only read if the request follows relations.
    """

    base_id: int | None
    id: int
    state: str
    rep: str | None
    ibip: str | None
    timestamp: str
    content_type: str
    is_service: bool
    target_path: str | None
    access_networks: str | None
    access_others: str | None
    metadata_item_id: int | None
    metadata_url: str | None
    has_dublin_core: bool
    file_path: str | None
    file_url: str | None
    language: str | None = None
    edition_series_id: int | None = None
    edition_no: int | None = None
    translation_group_id: int | None = None
    metadata_formats: dict[str, str] | None = None
    metadata_timestamp: str | None = None
    formats: dict[str, str] | None = None


# tables instead of ORM classes, because SQLAlchemy builds statements with tables faster
ITEM: Any = Item.__table__
FILE: Any = File.__table__
IDENTIFIER: Any = ItemIdentifier.__table__
TOMBSTONE: Any = TombstoneRow.__table__

#: The fields that are only read if the request follows relations.
FOLLOWING = Fetched._fields[-len(Fetched._field_defaults) :]

#: Above this number of relations, many lead to the same items, and it is faster to remove
#: duplicates.
MANY = 4


class WireTimestamp(FunctionElement[str]):
    """An SQL function that formats a time as ``YYYY-MM-DDThh:mm:ssZ``."""

    type = String()
    inherit_cache = True


class JSONRow(FunctionElement[str]):
    """An SQL function that joins columns to a JSON list: drivers read one column faster than 20."""

    type = String()
    inherit_cache = True


class JSONValue(FunctionElement[str]):
    """An SQL function that makes a JSON column a value in a JSONRow."""

    type = String()
    inherit_cache = True


TEMPLATES = {
    (WireTimestamp, "sqlite"): "strftime('%Y-%m-%dT%H:%M:%SZ', {})",
    (
        WireTimestamp,
        "postgresql",
    ): """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')""",
    (JSONRow, "sqlite"): "json_array({})",
    (JSONRow, "postgresql"): "CAST(json_build_array({}) AS text)",
    (JSONValue, "sqlite"): "json({})",
    (JSONValue, "postgresql"): "{}",
}


@compiles(WireTimestamp)
@compiles(JSONRow)
@compiles(JSONValue)
def _compile(element: FunctionElement[str], compiler: Any, **options: Any) -> str:
    template = TEMPLATES[type(element), compiler.dialect.name]
    if compiler.preparer._double_percents:  # the placeholders of the driver begin with %
        template = template.replace("%", "%%")
    return template.format(compiler.process(element.clauses, **options))


class DriverStatement:
    """A statement that is compiled once and then sent to the driver as text."""

    def __init__(self, statement: Select[Any], dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._order = compiled.positiontup

    def run(self, connection: Connection, parameters: dict[str, Any]) -> list[Fetched]:
        """Return the rows of the statement."""
        values = {**self._fixed, **parameters}
        ordered = values if self._order is None else tuple([values[name] for name in self._order])
        rows = connection.exec_driver_sql(self.text, ordered).all()
        return [Fetched(*json.loads(row[0])) for row in rows]


@lru_cache(maxsize=256)
def driver_statement(
    dialect: Dialect,
    shapes: frozenset[str],
    next_edition: bool,
    paths: int,
    follow_editions: bool,
) -> DriverStatement:
    """Return the compiled statement; the parameters are those of :func:`build_statement`."""
    statement = build_statement(shapes, next_edition, paths, follow_editions)
    return DriverStatement(statement, dialect)


def build_statement(
    shapes: frozenset[str], next_edition: bool, paths: int, follow_editions: bool
) -> Select[Any]:
    """Return the statement of a urlRequest; each row is a JSON list with the fields of Fetched.

    The parameters of the statement are archive_id, ibi, path_0, path_1 and so on. An item may be in
    several rows: one per file, and one per relation that leads to the item. For an item with an
    access rule, the metadata item is read too, because some users get the metadata instead.

    :param shapes: the relations to follow, as described in the docstring of this module.
    :param next_edition: whether to read the next edition of the requested item too.
    :param paths: the number of paths that the requested file may have.
    :param follow_editions: whether to follow editions in this Archive to the last one.
    """
    parts = _select_reached(shapes, next_edition, follow_editions)
    found = _unite(parts, many=len(shapes) > MANY).subquery("found")
    item = ITEM.alias()
    is_wanted: ColumnElement[bool] = FILE.c.path == item.c.target_path
    if paths:
        named: list[Any] = [bindparam(f"path_{number}") for number in range(paths)]
        is_wanted = or_(is_wanted, FILE.c.path.in_(named))
    return (
        select(_row(found.c.base_id, item, followed=len(parts) > 1))
        .select_from(found)
        .join(item, item.c.id.in_([found.c.id, found.c.instead]))
        .outerjoin(FILE, and_(FILE.c.item_id == item.c.id, is_wanted))
    )


def _select_reached(
    shapes: frozenset[str], next_edition: bool, follow_editions: bool
) -> list[Select[Any]]:
    """Return one SELECT for the requested item and one for each relation to follow."""
    item = ITEM.alias()
    requested: Any = (
        select(item.c.id, _instead(item), item.c.id.label("base_id"))
        .select_from(IDENTIFIER)
        .join(item, item.c.id == IDENTIFIER.c.item_id)
        .where(
            IDENTIFIER.c.text == bindparam("ibi"),
            IDENTIFIER.c.archive_id == bindparam("archive_id"),
        )
    )
    if shapes == {""} and not next_edition:
        return [requested]
    reached: dict[str, CTE] = {"": requested.cte("base")}
    for shape in sorted(shapes, key=len):
        if shape:
            steps = _STEPS[shape[-1]](reached[shape[:-1]], follow_editions)
            reached[shape] = _unite(steps, len(shapes) > MANY).cte(f"reached_{shape}")
    parts = [select(part) for part in reached.values()]
    return [*parts, *_next_edition(reached[""])] if next_edition else parts


def _unite(parts: list[Select[Any]], many: bool) -> Select[Any] | CompoundSelect[Any]:
    """Return the rows of all parts; with many relations, without duplicates."""
    if len(parts) == 1:
        return parts[0].distinct() if many else parts[0]
    return union(*parts) if many else union_all(*parts)


def _instead(item: Any) -> ColumnElement[int | None]:
    """Return the id of the metadata item of an item with an access rule, otherwise NULL."""
    return case((item.c.access_networks.is_not(None), item.c.metadata_item_id)).label("instead")


def _reached(item: Any, target: Any, parent: CTE, on: ColumnElement[bool]) -> Select[Any]:
    """Select the items that one step leads to from the items of the step before."""
    return (
        select(target.c.id, _instead(target), cast(null(), Key).label("base_id"))
        .select_from(parent)
        .join(item, item.c.id == parent.c.id)
        .join(target, on)
    )


def _row(base_id: Any, item: Any, followed: bool) -> JSONRow:
    """Return a column with the fields of Fetched as a JSON list."""
    special = {
        "base_id": base_id,
        "timestamp": WireTimestamp(item.c.timestamp),
        "metadata_timestamp": WireTimestamp(item.c.metadata_timestamp),
        "has_dublin_core": item.c.dublin_core.is_not(None),
        "metadata_formats": JSONValue(item.c.metadata_formats),
        "formats": JSONValue(item.c.formats),
        "file_path": FILE.c.path,
        "file_url": FILE.c.url,
    }
    if followed:
        moved = and_(base_id.is_distinct_from(item.c.id), _is_moved(item))
        special["state"] = case((moved, ELSEWHERE), else_=item.c.state)
    names = Fetched._fields if followed else Fetched._fields[: -len(FOLLOWING)]
    return JSONRow(*[special[name] if name in special else item.c[name] for name in names])


def _is_moved(item: Any) -> ColumnElement[bool]:
    """Return the condition that an item was transferred: its tombstone names another Archive."""
    # a scalar subquery reads one row by its key; with EXISTS, PostgreSQL may read the whole table
    archive = select(TOMBSTONE.c.original_archive).where(TOMBSTONE.c.item_id == item.c.id)
    return and_(item.c.state == State.DELETED.value, archive.scalar_subquery().is_not(None))


def _next_edition(parent: CTE) -> list[Select[Any]]:
    """Select the next edition of each item, or the item itself."""
    item, later, target = ITEM.alias(), ITEM.alias(), ITEM.alias()
    following = (
        select(later.c.id)
        .where(
            later.c.edition_series_id == item.c.edition_series_id,
            later.c.edition_no > item.c.edition_no,
        )
        .order_by(later.c.edition_no)
        .limit(1)
        .scalar_subquery()
    )
    return [_reached(item, target, parent, target.c.id == func.coalesce(following, item.c.id))]


def _last_edition(parent: CTE, follow_editions: bool) -> list[Select[Any]]:
    """Select the last edition of each item, or the item itself.

    Deleted editions are skipped, except those that were transferred to another Archive. If the
    request does not follow editions, the next edition is selected: only its existence matters.
    """
    if not follow_editions:
        return _next_edition(parent)
    item, later, target = ITEM.alias(), ITEM.alias(), ITEM.alias()
    last = (
        select(later.c.id)
        .where(
            later.c.edition_series_id == item.c.edition_series_id,
            later.c.edition_no > item.c.edition_no,
            or_(later.c.state != State.DELETED.value, _is_moved(later)),
        )
        .order_by(later.c.edition_no.desc())
        .limit(1)
        .scalar_subquery()
    )
    return [_reached(item, target, parent, target.c.id == func.coalesce(last, item.c.id))]


def _translations(parent: CTE, follow_editions: bool) -> list[Select[Any]]:
    """Select each item and the other members of its group of translations."""
    item, member = ITEM.alias(), ITEM.alias()
    return [
        select(parent.c.id, parent.c.instead, cast(null(), Key).label("base_id")),
        _reached(
            item, member, parent, member.c.translation_group_id == item.c.translation_group_id
        ),
    ]


def _metadata(parent: CTE, follow_editions: bool) -> list[Select[Any]]:
    """Select the metadata item of each item, or the item itself."""
    item, target = ITEM.alias(), ITEM.alias()
    own = func.coalesce(item.c.metadata_item_id, item.c.id)
    return [_reached(item, target, parent, target.c.id == own)]


_STEPS: dict[str, Callable[[CTE, bool], list[Select[Any]]]] = {
    "u": _last_edition,
    "t": _translations,
    "m": _metadata,
}
