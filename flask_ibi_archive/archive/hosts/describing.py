"""Reads the descriptions of rows, and names rows in error messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import InstanceState, Mapper

from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem
from flask_ibi_archive.archive.items.operations.description import Identified, name_field
from flask_ibi_archive.archive.items.rules import find_broken_rule
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.fields import FieldError, quoted
from flask_ibi_archive.core.records.record import Tombstone
from flask_ibi_archive.errors import IdentifierError, RowError, StorageError

#: The reason of a tombstone if the host states none.
DEFAULT_REASON = "removed by the repository"
STATES = (State.ORIGINAL.value, "Reserved", State.DELETED.value)


@dataclass(frozen=True, slots=True)
class DescribedRow:
    """A row and the description of its item.

    :param name: the class and the primary key of the row, for messages.
    :param ibi: an identifier of the row.
    :param given: the fields of the ItemRecord, without state and tombstone.
    """

    row: IdentifiedItem
    name: str
    ibi: str
    given: Mapping[str, Any]
    state: str
    tombstone: Any = None

    @property
    def identifiers(self) -> list[str]:
        """The identifiers of the row."""
        return [text for text in (self.row.ibi_rep, self.row.ibi_ibip) if text is not None]


def inspect_row(row: IdentifiedItem) -> InstanceState[Any]:
    """Return the state of a row in its session."""
    state: InstanceState[Any] = inspect(row)
    return state


def name_row(row: IdentifiedItem) -> str:
    """Return the class and the primary key of a row, such as ``Thesis 5``."""
    mapper: Mapper[Any] = inspect_row(row).mapper
    values = mapper.primary_key_from_instance(row)
    key = ", ".join("new" if value is None else str(value) for value in values)
    return f"{type(row).__name__} {key}"


def describe(row: IdentifiedItem) -> DescribedRow:
    """Return the description of a row that has an identifier.

    :raises RowError: if the method ``ibi_record`` returns a wrong value.
    """
    name = name_row(row)
    given: Any = row.ibi_record()
    if given is None:
        given = {"state": "Reserved"}
    if not isinstance(given, Mapping):
        raise RowError(
            name, None, f"ibi_record() returned {quoted(given)}; it should return an ItemRecord"
        )
    state = given.get("state", State.ORIGINAL.value)
    if state not in STATES:
        raise RowError(name, "state", f"{quoted(state)} is not one of {', '.join(STATES)}")
    tombstone = given.get("tombstone")
    if (state == State.DELETED) != (tombstone is not None):
        expected = "tombstone=Tombstone(reason='...') and state='Deleted' belong together"
        raise RowError(name, "tombstone", expected)
    fields = {key: value for key, value in given.items() if key not in ("state", "tombstone")}
    for form in (row.ibi_rep, row.ibi_ibip):
        if form is not None and form != parse_identifier(form).text:
            reason = f"{form} should be written {parse_identifier(form).text}"
            raise RowError(name, "ibi_rep" if form == row.ibi_rep else "ibi_ibip", reason)
    return DescribedRow(row, name, str(row.ibi_rep or row.ibi_ibip), fields, state, tombstone)


def find_references(given: Mapping[str, Any]) -> Iterator[tuple[str, IdentifiedItem]]:
    """Yield the rows that a description refers to, with the names of the fields."""
    for name in ("previous_edition", "translation_of"):
        if isinstance(given.get(name), IdentifiedItem):
            yield name, given[name]


def build_tombstone(tombstone: Any) -> Tombstone:
    """Return the tombstone that a host describes.

    :param tombstone: a Tombstone, or a mapping with its fields. The successor may be a row.
    """
    if isinstance(tombstone, Mapping):
        tombstone = Tombstone(
            tombstone.get("reason", ""),
            tombstone.get("citation"),
            tombstone.get("successor"),
            discard_description=bool(tombstone.get("discard_description")),
        )
    if not isinstance(tombstone, Tombstone):
        raise StorageError(f"tombstone: {quoted(tombstone)} is not a Tombstone(reason='...')")
    successor: str | Identified | None = tombstone.successor
    if successor is not None and not isinstance(successor, str):
        successor = successor.ibi
    return replace(tombstone, successor=successor)


@contextmanager
def naming(name: str, ibi: str | None = None) -> Iterator[None]:
    """Replace errors about an item by errors that name the row of the item.

    :param name: the class and the primary key of the row.
    :param ibi: an identifier of the item, for messages about rules.
    """
    try:
        yield
    except RowError:
        raise
    except IntegrityError as error:
        reason = find_broken_rule(error, ibi) or f"the database refuses the item: {error.orig}"
        raise RowError(name, None, str(reason)) from error
    except IdentifierError as error:
        raise RowError(name, None, str(error)) from error
    except StorageError as error:
        cause = error.__cause__
        if isinstance(cause, FieldError):
            raise RowError(name, name_field(cause.field), cause.reason) from error
        text = str(error)
        raise RowError(name, None, text.removeprefix(f"{name}: ")) from error
