"""Warns of bulk statements, which change rows of identified models without their items."""

from __future__ import annotations

from logging import getLogger
from typing import Any
from weakref import WeakSet

from sqlalchemy.orm import Mapper, ORMExecuteState

from flask_ibi_archive.archive.hosts.current_archive import get_archive
from flask_ibi_archive.archive.hosts.row_keys import name_model
from flask_ibi_archive.errors import StorageError

log = getLogger("flask_ibi_archive.host")

#: The mappers of the models with IdentifiedItem.
identified_models: WeakSet[Mapper[Any]] = WeakSet()
#: The execution option of a statement that changes nothing that a record contains.
UNAFFECTED = "ibi_unaffected"


def check_statement(state: ORMExecuteState) -> None:
    """Log or refuse a bulk statement on an identified model.

    :raises StorageError: if the app has the setting IBI_REFUSE_BULK.
    """
    if state.is_select or not (state.is_insert or state.is_update or state.is_delete):
        return
    if state.execution_options.get(UNAFFECTED):
        return
    statement: Any = state.statement
    table = statement.entity_description["table"]
    mappers = [mapper for mapper in identified_models if table in mapper.tables]
    if not mappers:
        return
    # the model of the statement, or else any model of the table
    model = name_model(state.bind_mapper if state.bind_mapper in mappers else mappers[0])
    kind = "INSERT" if state.is_insert else "UPDATE" if state.is_update else "DELETE"
    reason = f"a bulk {kind} on {table.name} does not change the items of its rows"
    if _refuses_bulk():
        raise StorageError(
            f"{reason}; add, change or delete the rows one by one, or give the statement the "
            f"execution option {UNAFFECTED}=True if it changes nothing that the records contain "
            "(IBI_REFUSE_BULK is set)"
        )
    log.warning("%s; afterwards run: flask ibi compare %s --repair", reason, model)


def _refuses_bulk() -> bool:
    try:
        return get_archive().config.refuse_bulk
    except RuntimeError:  # the statement runs outside of an app with an Archive
        return False
