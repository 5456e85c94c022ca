"""The keys of rows: the name of the table and the primary key, such as ``thesis:7``.

The two identifier columns say which item belongs to a row. The key says the same a second time, in
the table of items. If the columns are lost, the commands ``adopt`` and ``compare`` find the item by
its key. A flush never does, because the row may be another work. If the primary key of a row
changes, the columns lead to the item, and its key is corrected. The same applies to the reservation
of a row that is a draft.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    String,
    Table,
    and_,
    column,
    inspect,
    or_,
    select,
    table,
)
from sqlalchemy.orm import Mapper, Session

from flask_ibi_archive.archive.items.write import KeyHolder
from flask_ibi_archive.errors import RowError
from flask_ibi_archive.server.database.dialects import batched, is_one_of

if TYPE_CHECKING:
    from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem

#: The characters that are escaped in the name of a table and in the values of a primary key.
SPECIAL_IN_NAME = re.compile("[%:\x00-\x1f\x7f]")
SPECIAL_IN_VALUE = re.compile("[%,\x00-\x1f\x7f]")


def name_model(mapper: Mapper[Any]) -> str:
    """Return the name of a model for commands, such as ``myapp.models:Thesis``."""
    return f"{mapper.class_.__module__}:{mapper.class_.__qualname__}"


def get_table(mapper: Mapper[Any]) -> Table:
    """Return the table with the identifier columns of a model."""
    return mapper.columns["ibi_rep"].table


def connect_to_rows(session: Session, mapper: Mapper[Any]) -> Connection:
    """Return the connection of a session to the rows of a model."""
    return session.connection(bind_arguments={"mapper": mapper})


class ForeignIdentifier(RowError):
    """A row has the identifier of another row.

    :param key: the key of the other row.
    """

    def __init__(self, row: str, ibi: str | None, key: str) -> None:
        reason = (
            f"the identifier {ibi} belongs to the row {key}; set ibi_rep and ibi_ibip to None, so "
            "that this row gets an identifier of its own"
        )
        super().__init__(row, None, reason)


@lru_cache
def get_key_attributes(mapper: Mapper[Any]) -> dict[str, Column[Any]]:
    """Return the primary key of the table with the identifier columns, by attributes of rows."""
    return {
        mapper.get_property_by_column(one).key: one for one in get_table(mapper).primary_key.columns
    }


@lru_cache
def build_prefix(mapper: Mapper[Any]) -> str:
    """Return the beginning of the keys of all rows of a table, such as ``thesis:``."""
    return f"{_escape(SPECIAL_IN_NAME, str(get_table(mapper).fullname))}:"


def build_key(mapper: Mapper[Any], values: Iterable[Any]) -> str:
    """Return the key of a row.

    :param values: the values of the columns of :func:`get_key_attributes`.
    """
    parts = (value.hex() if isinstance(value, bytes) else str(value) for value in values)
    return build_prefix(mapper) + ",".join(_escape(SPECIAL_IN_VALUE, part) for part in parts)


def find_row_key(row: IdentifiedItem) -> str | None:
    """Return the key of a row; None if the database has not assigned its primary key yet."""
    mapper: Mapper[Any] = inspect(row).mapper
    values = [getattr(row, name) for name in get_key_attributes(mapper)]
    return None if None in values else build_key(mapper, values)


def _escape(special: re.Pattern[str], text: str) -> str:
    return special.sub(lambda match: f"%{ord(match[0]):02X}", text)


def find_uncarried(
    session: Session, mapper: Mapper[Any], holders: Iterable[KeyHolder]
) -> list[KeyHolder]:
    """Return the holders whose identifiers are in no row of the table of the host."""
    connection = connect_to_rows(session, mapper)
    uncarried: list[KeyHolder] = []
    for part in batched(holders, 1000):
        identifiers = [text for holder in part for text in holder.identifiers]
        rows = select_carriers(connection, get_table(mapper), identifiers)
        carried = {text for row in rows for text in row}
        uncarried += [holder for holder in part if carried.isdisjoint(holder.identifiers)]
    return uncarried


def has_no_identifiers(host_table: Any) -> ColumnElement[bool]:
    """Return the condition that a row has no identifiers.

    :param host_table: a table or a model with the identifier columns.
    """
    columns = getattr(host_table, "c", host_table)
    return and_(columns.ibi_rep.is_(None), columns.ibi_ibip.is_(None))


def select_carriers(
    connection: Connection, host_table: Any, identifiers: Sequence[str], *columns: Any
) -> Sequence[Any]:
    """Return columns of the rows of a table that have one of some identifiers.

    :param columns: the columns; by default, the identifier columns.
    """
    forms = host_table.c.ibi_rep, host_table.c.ibi_ibip
    is_carrier = or_(*(is_one_of(form, identifiers) for form in forms))
    return connection.execute(select(*(columns or forms)).where(is_carrier)).all()


def is_carried_by_another(
    session: Session, mapper: Mapper[Any], key: str, identifiers: Sequence[str]
) -> bool:
    """Return whether another row than that of a model has some identifiers.

    :param mapper: the model of the row.
    :param key: the key of the item with the identifiers. Its beginning is the name of the table
        that may have another row; if there is no such table, the host may have renamed it.
    """
    connection = connect_to_rows(session, mapper)
    own = key.startswith(build_prefix(mapper))
    name = re.sub("%([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), key.partition(":")[0])
    schema, _, name = name.rpartition(".")
    inspector = inspect(connection)
    if own:
        host_table: Any = get_table(mapper)
    elif inspector.has_table(name, schema or None):
        names = {one["name"] for one in inspector.get_columns(name, schema or None)}
        if not {"ibi_rep", "ibi_ibip"} <= names:
            return False
        host_table = table(
            name, column("ibi_rep", String), column("ibi_ibip", String), schema=schema or None
        )
    else:
        return False
    return len(select_carriers(connection, host_table, identifiers)) > own
