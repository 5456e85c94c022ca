"""Builds the SQL statement that reads the items for a urlRequest.

A urlRequest asks for the URLs of an item. Relations such as ``.lastedition`` lead from the item to
other items. The statement reads the item and all items to which the requested relations lead.
:class:`.catalogue.StoredCatalogue` runs the statement and evaluates the relations.

In this module, a relation is written as a "shape", a text in which each letter is one step. The
letters are the keys of ``_STEPS``. For example, the shape "ut" leads to the translations of the
last edition, and the shape "" leads to the item itself.
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
    """A row of the result: an item with one of its files.

    The file is a requested file or the target file of the item. In the rows of the requested item,
    ``base_id`` is the id of this item. In the rows of other items, ``base_id`` is None. The fields
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
    embargo: str | None
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


# SQLAlchemy builds statements faster with tables than with ORM classes
ITEM: Any = Item.__table__
FILE: Any = File.__table__
IDENTIFIER: Any = ItemIdentifier.__table__
TOMBSTONE: Any = TombstoneRow.__table__

#: The fields that are only read if the request follows relations.
FOLLOWING = Fetched._fields[-len(Fetched._field_defaults) :]

#: If a request has more relations than this number, many relations lead to the same items. In this
#: case, the statement is faster if it removes duplicate rows.
MANY_RELATIONS = 4


class WireTimestamp(FunctionElement[str]):
    """An SQL function that formats a time as ``YYYY-MM-DDThh:mm:ssZ``."""

    type = String()
    inherit_cache = True


class JSONRow(FunctionElement[str]):
    """An SQL function that joins columns to one JSON list.

    A driver reads one column faster than 20 columns.
    """

    type = String()
    inherit_cache = True


class JSONValue(FunctionElement[str]):
    """An SQL function that inserts a JSON column into a JSONRow without quoting the JSON text."""

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
    if compiler.preparer._double_percents:  # the driver's placeholders begin with %
        template = template.replace("%", "%%")
    return template.format(compiler.process(element.clauses, **options))


class DriverStatement:
    """A statement that SQLAlchemy compiles only once; each run sends the text to the driver."""

    def __init__(self, statement: Select[Any], dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._order = compiled.positiontup

    def run(self, connection: Connection, parameters: dict[str, Any]) -> list[Fetched]:
        """Run the statement with some parameters and return the rows."""
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
    """Return the statement of :func:`build_statement` in compiled form.

    The parameters are described there.
    """
    statement = build_statement(shapes, next_edition, paths, follow_editions)
    return DriverStatement(statement, dialect)


def build_statement(
    shapes: frozenset[str], next_edition: bool, paths: int, follow_editions: bool
) -> Select[Any]:
    """Return the statement of a urlRequest; each row is a JSON list with the fields of Fetched.

    The SQL parameters of the statement are archive_id, ibi, path_0, path_1 and so on.

    An item may appear in several rows: in one row for each file, and in one row for each relation
    that leads to the item. If an item has an access rule or an embargo, the statement also reads
    the metadata item, because some users get the metadata instead of the item.

    :param shapes: the relations to follow, as described in the docstring of this module.
    :param next_edition: True to read also the next edition of the requested item.
    :param paths: the number of possible paths of the requested file.
    :param follow_editions: True to select the last edition in this Archive; False to select only
        the next edition.
    """
    parts = _select_reached(shapes, next_edition, follow_editions)
    found = _unite_selects(parts, many=len(shapes) > MANY_RELATIONS).subquery("found")
    item = ITEM.alias()
    is_wanted: ColumnElement[bool] = FILE.c.path == item.c.target_path
    if paths:
        named: list[Any] = [bindparam(f"path_{number}") for number in range(paths)]
        is_wanted = or_(is_wanted, FILE.c.path.in_(named))
    return (
        select(_make_json_row(found.c.base_id, item, followed=len(parts) > 1))
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
        select(item.c.id, _find_metadata_id(item), item.c.id.label("base_id"))
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
            reached[shape] = _unite_selects(steps, len(shapes) > MANY_RELATIONS).cte(
                f"reached_{shape}"
            )
    parts = [select(part) for part in reached.values()]
    return [*parts, *_select_next_edition(reached[""])] if next_edition else parts


def _unite_selects(parts: list[Select[Any]], many: bool) -> Select[Any] | CompoundSelect[Any]:
    """Return one statement with the rows of all parts.

    :param many: True if the statement should remove duplicate rows.
    """
    if len(parts) == 1:
        return parts[0].distinct() if many else parts[0]
    return union(*parts) if many else union_all(*parts)


def _find_metadata_id(item: Any) -> ColumnElement[int | None]:
    """Return the id of the metadata item if some users may not read the files, otherwise NULL."""
    is_limited = or_(item.c.access_networks.is_not(None), item.c.embargo.is_not(None))
    return case((is_limited, item.c.metadata_item_id)).label("instead")


def _select_step(item: Any, target: Any, parent: CTE, on: ColumnElement[bool]) -> Select[Any]:
    """Select the items to which a step leads.

    :param item: the table of the items where the step starts.
    :param target: the table of the items where the step ends.
    :param parent: the result of the previous step.
    :param on: the condition that connects ``item`` and ``target``.
    """
    return (
        select(target.c.id, _find_metadata_id(target), cast(null(), Key).label("base_id"))
        .select_from(parent)
        .join(item, item.c.id == parent.c.id)
        .join(target, on)
    )


def _make_json_row(base_id: Any, item: Any, followed: bool) -> JSONRow:
    """Return a column that contains the fields of Fetched as a JSON list.

    :param followed: True if the request follows relations and needs all fields.
    """
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
    """Return the condition that an item was transferred to another Archive.

    The tombstone of a transferred item names the other Archive.
    """
    # A scalar subquery reads one row by its key. With EXISTS, PostgreSQL may read the whole table.
    archive = select(TOMBSTONE.c.original_archive).where(TOMBSTONE.c.item_id == item.c.id)
    return and_(item.c.state == State.DELETED.value, archive.scalar_subquery().is_not(None))


def _select_next_edition(parent: CTE) -> list[Select[Any]]:
    """Select the next edition of each item; select the item itself if it has no next edition."""
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
    return [_select_step(item, target, parent, target.c.id == func.coalesce(following, item.c.id))]


def _select_last_edition(parent: CTE, follow_editions: bool) -> list[Select[Any]]:
    """Select the last edition of each item; select the item itself if it has no later edition.

    Deleted editions are skipped. Editions that were transferred to another Archive are not skipped.

    :param follow_editions: False to select the next edition instead of the last. In this case, the
        caller only needs to know that a later edition exists.
    """
    if not follow_editions:
        return _select_next_edition(parent)
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
    return [_select_step(item, target, parent, target.c.id == func.coalesce(last, item.c.id))]


def _select_translations(parent: CTE, follow_editions: bool) -> list[Select[Any]]:
    """Select each item and the other members of its group of translations."""
    item, member = ITEM.alias(), ITEM.alias()
    return [
        select(parent.c.id, parent.c.instead, cast(null(), Key).label("base_id")),
        _select_step(
            item, member, parent, member.c.translation_group_id == item.c.translation_group_id
        ),
    ]


def _select_metadata(parent: CTE, follow_editions: bool) -> list[Select[Any]]:
    """Select the metadata item of each item; select the item itself if it has no metadata item."""
    item, target = ITEM.alias(), ITEM.alias()
    own = func.coalesce(item.c.metadata_item_id, item.c.id)
    return [_select_step(item, target, parent, target.c.id == own)]


#: The functions that select the items of a step, by the letter of the step.
_STEPS: dict[str, Callable[[CTE, bool], list[Select[Any]]]] = {
    "u": _select_last_edition,
    "t": _select_translations,
    "m": _select_metadata,
}
