"""The SQL conditions for the items that lists, harvesters and crawlers may see.

:mod:`flask_ibi_archive.core.protocol.access` states the rule of access for one item and one user.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, func

from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.core.protocol.access import HIDDEN
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State

#: The conditions for items that are listed and exported. Stubs and the service are not listed.
LISTED = (Item.state != ELSEWHERE, ~Item.is_service)


def shows_description(item: Any = Item) -> ColumnElement[bool]:
    """Return the condition that all users may see the description of an item.

    :param item: the table of items, or an alias of it.
    """
    is_shown: ColumnElement[bool] = func.coalesce(item.access_others, "") != HIDDEN
    return is_shown


def describes(metadata: Any) -> ColumnElement[bool]:
    """Return the condition that all users may see a metadata item in the items it describes.

    A removed metadata item describes only itself.

    :param metadata: an alias of the table of items.
    """
    return and_(metadata.state != State.DELETED.value, shows_description(metadata))


def is_public() -> ColumnElement[bool]:
    """Return the condition for the items that harvesters and crawlers see.

    The service is no document. An item that contains the metadata of other items has no description
    of its own: it is part of the descriptions of these items. The function
    :func:`.public_works.is_public_record` is the same rule for a record.
    """
    return and_(
        Item.state.in_((State.ORIGINAL.value, State.COPY.value)),
        ~Item.is_service,
        Item.content_type == "Data",
        shows_description(),
    )
