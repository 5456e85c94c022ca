"""Builds the SQL conditions of a search for items."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, String, exists, func, or_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from flask_ibi_archive.archive.items.tables import Item, ItemIdentifier


class TitlesAndCreators(FunctionElement[str]):
    """An SQL function that returns the titles and creators in a column, one per line.

    The column contains Dublin Core.
    """

    type = String()
    inherit_cache = True


@compiles(TitlesAndCreators, "sqlite")
def _compile_for_sqlite(element: TitlesAndCreators, compiler: Any, **options: Any) -> str:
    return (
        "(SELECT group_concat(atom, char(10))"
        f" FROM json_tree({compiler.process(element.clauses, **options)})"
        " WHERE type = 'text' AND key IS NOT 'lang'"
        " AND (fullkey LIKE '$.title[%' OR fullkey LIKE '$.creator[%'))"
    )


@compiles(TitlesAndCreators, "postgresql")
def _compile_for_postgresql(element: TitlesAndCreators, compiler: Any, **options: Any) -> str:
    return (
        "(SELECT string_agg(coalesce(one ->> 'value', one #>> '{}'), chr(10))"
        f" FROM jsonb_path_query(CAST({compiler.process(element.clauses, **options)} AS jsonb),"
        """ '$.keyvalue() ? (@.key == "title" || @.key == "creator").value[*]') AS one)"""
    )


def select_items(
    state: str | None = None, search: str | None = None
) -> tuple[ColumnElement[bool], ...]:
    """Return the SQL conditions of a search.

    :param state: the search finds only items with this state; None: items with any state.
    :param search: the search finds only items with this text in a title, a creator or an
        identifier. Upper and lower case are the same. None: all items.
    """
    conditions: list[ColumnElement[bool]] = []
    if state is not None:
        conditions.append(Item.state == state)
    if search is not None:
        wanted = search.lower()
        about = func.lower(TitlesAndCreators(Item.dublin_core))
        identified = exists().where(
            ItemIdentifier.item_id == Item.id,
            func.lower(ItemIdentifier.text).contains(wanted, autoescape=True),
        )
        conditions.append(or_(about.contains(wanted, autoescape=True), identified))
    return tuple(conditions)
