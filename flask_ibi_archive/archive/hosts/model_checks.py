"""Checks the rows of the host's own models, for ``flask ibi check``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import inspect
from sqlalchemy.exc import SQLAlchemyError

from flask_ibi_archive.archive.hosts.comparing import Comparer
from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem, identified_models
from flask_ibi_archive.archive.hosts.row_keys import connect_to_rows, get_table, name_model
from flask_ibi_archive.archive.items.sessions import HostSession
from flask_ibi_archive.errors import one_line
from flask_ibi_archive.server.commands.group import CheckFailed

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The number of rows of a model that are compared with their items.
CHECKED_ROWS = 100


def find_models(host: HostSession) -> list[type[IdentifiedItem]]:
    """Return a model with IdentifiedItem for each table in the database of the host's session."""
    models: dict[str, type[IdentifiedItem]] = {}
    session = host.current()
    for mapper in sorted(identified_models, key=lambda mapper: len(list(mapper.iterate_to_root()))):
        with suppress(SQLAlchemyError):  # the session has no database for this model
            connection = connect_to_rows(session, mapper)
            table = get_table(mapper)
            if inspect(connection).has_table(table.name, table.schema):
                models.setdefault(table.fullname, mapper.class_)
    return [models[name] for name in sorted(models)]


def check_rows(archive: Archive, host: HostSession, model: type[IdentifiedItem]) -> str:
    """Count the rows and the items of a model, and compare some rows with their items."""
    session = host.current()
    name = name_model(inspect(model))
    try:
        comparer = Comparer(archive, session, model)
        without, rows, items = comparer.count()
        differences = comparer.sample(CHECKED_ROWS)
    except SQLAlchemyError as error:
        reason = one_line(getattr(error, "orig", error))  # without the statement
        raise CheckFailed(f"the rows of {name} can't be read: {reason}") from error
    finally:
        session.rollback()
    advice = f"run: flask ibi compare {name}"
    if without:
        # adopt refuses rows if the items of other rows may be theirs
        command = "adopt" if items <= rows + without else "compare"
        raise CheckFailed(
            f"{without} rows of {name} have no identifiers; run: flask ibi {command} {name}"
        )
    if rows != items:
        raise CheckFailed(f"{name} has {rows} rows, but {items} items; {advice}")
    if differences:
        raise CheckFailed(f"{differences[0].row} of {name}: {differences[0].text}; {advice}")
    compared = min(rows, CHECKED_ROWS)
    return f"{name} has {rows} rows and items; last rows that were compared: {compared}"
