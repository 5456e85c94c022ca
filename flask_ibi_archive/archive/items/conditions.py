"""The SQL conditions for the items that lists, searches, harvesters and crawlers may see.

:mod:`flask_ibi_archive.core.protocol.access` states the rule of access for one item and one user.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, String, and_, exists, func, or_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from flask_ibi_archive.archive.items.tables import Item, ItemIdentifier
from flask_ibi_archive.core.protocol.access import HIDDEN
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State

#: The conditions for items that are listed and exported. Stubs and the service are not listed.
LISTED = (Item.state != ELSEWHERE, ~Item.is_service)


def shows_description(item: Any = Item) -> ColumnElement[bool]:
    """Return the SQL condition that all users may see the description of an item.

    :param item: the table of items, or an alias of the table.
    """
    is_shown: ColumnElement[bool] = func.coalesce(item.access_others, "") != HIDDEN
    return is_shown


def describes(metadata: Any) -> ColumnElement[bool]:
    """Return the SQL condition that a metadata item is shown to all users in other items.

    A metadata item contains the description of other items. The condition is false if the metadata
    item is removed, or if its own description is hidden.

    :param metadata: the alias of the table of items that selects the metadata item.
    """
    return and_(metadata.state != State.DELETED.value, shows_description(metadata))


def is_public() -> ColumnElement[bool]:
    """Return the condition for the items that harvesters and crawlers see.

    They do not see the service, which is no document. They do not see items that contain the
    metadata of other items (content type Metadata), because these metadata are part of the other
    items. The function :func:`.viewing.is_public_record` is the same rule for a record.
    """
    return and_(
        Item.state.in_((State.ORIGINAL.value, State.COPY.value)),
        ~Item.is_service,
        Item.content_type == "Data",
        shows_description(),
    )


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
        search = search.lower()
        about = func.lower(TitlesAndCreators(Item.dublin_core))
        identified = exists().where(
            ItemIdentifier.item_id == Item.id,
            func.lower(ItemIdentifier.text).contains(search, autoescape=True),
        )
        conditions.append(or_(about.contains(search, autoescape=True), identified))
    return tuple(conditions)
