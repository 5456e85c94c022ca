"""The SQL statement for a urlRequest: the requested item and what its relations lead to."""

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
from sqlalchemy.orm import aliased
from sqlalchemy.sql.functions import FunctionElement

from flask_ibi_archive.storage.dialects import Key
from flask_ibi_archive.storage.models import File, Item, ItemIdentifier, TombstoneRow
from flask_ibi_archive.storage.states import ELSEWHERE, State


class Fetched(NamedTuple):
    """A row of the result: an item, and one of its files if it has a requested one.

    ``base_id`` is the row of the requested item; it is None in the rows of other items. The fields
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


FOLLOWING = Fetched._fields[-len(Fetched._field_defaults) :]


class WireTimestamp(FunctionElement[str]):
    """SQL function: a time as ``YYYY-MM-DDThh:mm:ssZ``."""

    type = String()
    inherit_cache = True


class JSONRow(FunctionElement[str]):
    """SQL function: columns as one JSON list; a driver reads one column faster than twenty."""

    type = String()
    inherit_cache = True


class JSONValue(FunctionElement[str]):
    """SQL function: a JSON column as a value in a JSONRow."""

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
    """A statement in the form of the driver, compiled only once."""

    def __init__(self, statement: Select[Any], dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._order = compiled.positiontup

    def run(self, connection: Connection, parameters: dict[str, Any]) -> list[Fetched]:
        """Return the rows of the statement."""
        values = {**self._fixed, **parameters}
        given = values if self._order is None else tuple([values[name] for name in self._order])
        rows = connection.exec_driver_sql(self.text, given).all()
        return [Fetched(*json.loads(row[0])) for row in rows]


@lru_cache(maxsize=256)
def driver_statement(
    dialect: Dialect,
    shapes: frozenset[str],
    next_edition: bool,
    paths: int,
    follow_editions: bool,
) -> DriverStatement:
    """Return the compiled statement for a scope; see :func:`build_statement`."""
    statement = build_statement(shapes, next_edition, paths, follow_editions)
    return DriverStatement(statement, dialect)


def build_statement(
    shapes: frozenset[str], next_edition: bool, paths: int, follow_editions: bool
) -> Select[Any]:
    """Return the statement for a scope; each row is a JSON list with the fields of Fetched.

    Its parameters are archive_id, ibi, and path_0, path_1 and so on. An item may be in several
    rows: one per file, and one per relation that leads to it. For an item with an access rule, its
    metadata are read too, because some users get these instead.
    """
    item = aliased(Item)
    asked: Any = (
        select(item.id, _instead(item), item.id.label("base_id"))
        .select_from(ItemIdentifier)
        .join(item, item.id == ItemIdentifier.item_id)
        .where(
            ItemIdentifier.text == bindparam("ibi"),
            ItemIdentifier.archive_id == bindparam("archive_id"),
        )
    )
    # many relations lead to the same items: remove duplicates; for a few that takes longer
    many = len(shapes) > 4
    parts: list[Select[Any]] = [asked]
    if shapes != {""} or next_edition:
        reached: dict[str, CTE] = {"": asked.cte("base")}
        for shape in sorted(shapes, key=len):
            if shape:
                steps = _STEPS[shape[-1]](reached[shape[:-1]], follow_editions)
                reached[shape] = _together(steps, many).cte(f"reached_{shape}")
        parts = [select(part) for part in reached.values()]
        if next_edition:
            parts += _next_edition(reached[""])
    found = _together(parts, many).subquery("found")
    wanted = aliased(Item)
    wanted_file: ColumnElement[bool] = File.path == wanted.target_path
    if paths:
        named: list[Any] = [bindparam(f"path_{number}") for number in range(paths)]
        wanted_file = or_(wanted_file, File.path.in_(named))
    return (
        select(_row(found.c.base_id, wanted, followed=len(parts) > 1))
        .select_from(found)
        .join(wanted, wanted.id.in_([found.c.id, found.c.instead]))
        .outerjoin(File, and_(File.item_id == wanted.id, wanted_file))
    )


def _together(parts: list[Select[Any]], many: bool) -> Select[Any] | CompoundSelect[Any]:
    if len(parts) == 1:
        return parts[0].distinct() if many else parts[0]
    return union(*parts) if many else union_all(*parts)


def _instead(item: Any) -> ColumnElement[int | None]:
    """Return the metadata item of an item that has an access rule."""
    return case((item.access_networks.is_not(None), item.metadata_item_id)).label("instead")


def _reached(item: Any, target: Any, parent: CTE, on: ColumnElement[bool]) -> Select[Any]:
    """Select the targets of one step from the items of another step."""
    return (
        select(target.id, _instead(target), cast(null(), Key).label("base_id"))
        .select_from(parent)
        .join(item, item.id == parent.c.id)
        .join(target, on)
    )


def _row(base_id: Any, item: Any, followed: bool) -> JSONRow:
    """Return the fields of Fetched as one column."""
    special = {
        "base_id": base_id,
        "timestamp": WireTimestamp(item.timestamp),
        "metadata_timestamp": WireTimestamp(item.metadata_timestamp),
        "has_dublin_core": item.dublin_core.is_not(None),
        "metadata_formats": JSONValue(item.metadata_formats),
        "formats": JSONValue(item.formats),
        "file_path": File.path,
        "file_url": File.url,
    }
    if followed:
        moved = and_(base_id.is_distinct_from(item.id), _is_moved(item))
        special["state"] = case((moved, ELSEWHERE), else_=item.state)
    names = Fetched._fields if followed else Fetched._fields[: -len(FOLLOWING)]
    return JSONRow(*[special[name] if name in special else getattr(item, name) for name in names])


def _is_moved(item: Any) -> ColumnElement[bool]:
    """Return the condition that an item is Deleted and its tombstone names another Archive."""
    # a scalar subquery reads one row by its key; with EXISTS, PostgreSQL may read the whole table
    archive = select(TombstoneRow.original_archive).where(TombstoneRow.item_id == item.id)
    return and_(item.state == State.DELETED.value, archive.scalar_subquery().is_not(None))


def _next_edition(parent: CTE) -> list[Select[Any]]:
    """Select the next edition of each item, or the item itself."""
    item, later, target = aliased(Item), aliased(Item), aliased(Item)
    following = (
        select(later.id)
        .where(
            later.edition_series_id == item.edition_series_id, later.edition_no > item.edition_no
        )
        .order_by(later.edition_no)
        .limit(1)
        .scalar_subquery()
    )
    return [_reached(item, target, parent, target.id == func.coalesce(following, item.id))]


def _last_edition(parent: CTE, follow_editions: bool) -> list[Select[Any]]:
    """Select the last edition of each item, or the item itself.

    Deleted editions are skipped, except those that moved to another Archive. If editions are not
    followed, select the next edition: then only its existence is important.
    """
    if not follow_editions:
        return _next_edition(parent)
    item, later, target = aliased(Item), aliased(Item), aliased(Item)
    last = (
        select(later.id)
        .where(
            later.edition_series_id == item.edition_series_id,
            later.edition_no > item.edition_no,
            or_(later.state != State.DELETED.value, _is_moved(later)),
        )
        .order_by(later.edition_no.desc())
        .limit(1)
        .scalar_subquery()
    )
    return [_reached(item, target, parent, target.id == func.coalesce(last, item.id))]


def _translations(parent: CTE, follow_editions: bool) -> list[Select[Any]]:
    """Select the members of the group of translations of each item, itself included."""
    item, member = aliased(Item), aliased(Item)
    return [
        select(parent.c.id, parent.c.instead, cast(null(), Key).label("base_id")),
        _reached(item, member, parent, member.translation_group_id == item.translation_group_id),
    ]


def _metadata(parent: CTE, follow_editions: bool) -> list[Select[Any]]:
    """Select the metadata item of each item, or the item itself."""
    item, target = aliased(Item), aliased(Item)
    own = func.coalesce(item.metadata_item_id, item.id)
    return [_reached(item, target, parent, target.id == own)]


_STEPS: dict[str, Callable[[CTE, bool], list[Select[Any]]]] = {
    "u": _last_edition,
    "t": _translations,
    "m": _metadata,
}
