"""Conditions that select items: by state, by a text in title, creator or identifiers."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, String, exists, func, or_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from flask_ibi_archive.storage.models import Item, ItemIdentifier


class TitlesAndCreators(FunctionElement[str]):
    """The titles and creators in a column of Dublin Core, a line each."""

    type = String()
    inherit_cache = True


@compiles(TitlesAndCreators, "sqlite")
def _in_sqlite(element: TitlesAndCreators, compiler: Any, **options: Any) -> str:
    return (
        f"(SELECT group_concat(atom, char(10)) FROM json_tree({compiler.process(element.clauses, **options)})"
        " WHERE type = 'text' AND key IS NOT 'lang'"
        " AND (fullkey LIKE '$.title[%' OR fullkey LIKE '$.creator[%'))"
    )


@compiles(TitlesAndCreators, "postgresql")
def _in_postgresql(element: TitlesAndCreators, compiler: Any, **options: Any) -> str:
    return (
        "(SELECT string_agg(coalesce(one ->> 'value', one #>> '{}'), chr(10)) FROM jsonb_path_query("
        f"CAST({compiler.process(element.clauses, **options)} AS jsonb),"
        """ '$.keyvalue() ? (@.key == "title" || @.key == "creator").value[*]') AS one)"""
    )


def select_items(
    state: str | None = None, search: str | None = None
) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that items must meet.

    :param state: their state.
    :param search: a text that is part of a title, a creator or an identifier, in either case.
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
