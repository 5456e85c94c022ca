"""The mixin :class:`IdentifiedItem` for models of the host, and the descriptions of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from msgspec.structs import replace
from sqlalchemy import String, inspect
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import (
    InstanceState,
    Mapped,
    MappedColumn,
    Mapper,
    MapperProperty,
    column_property,
    declared_attr,
    mapped_column,
)

from flask_ibi_archive.archive.hosts.current_archive import get_archive
from flask_ibi_archive.archive.hosts.row_keys import find_row_key
from flask_ibi_archive.archive.items.operations import Identified, name_field
from flask_ibi_archive.archive.items.rules import explain_refusal
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import Tombstone
from flask_ibi_archive.core.records.values import FieldError, quoted
from flask_ibi_archive.errors import IdentifierError, RowError, StorageError

if TYPE_CHECKING:
    from flask_ibi_archive.archive.items.operations import ItemRecord

#: The reason of a tombstone if the host states none.
DEFAULT_REASON = "removed by the repository"
#: The mappers of the models with IdentifiedItem.
identified_models: WeakSet[Mapper[Any]] = WeakSet()
#: The states that a host may give an item; a row of a draft is "Reserved".
RECORD_STATES = (State.ORIGINAL.value, "Reserved", State.DELETED.value)


def _make_column(model: Any, name: str) -> MapperProperty[str | None] | MappedColumn[str | None]:
    """Return the column of a model for one form of the identifier."""
    table = getattr(model, "__table__", None)
    if table is not None and name in table.columns:
        # another class of the same table (single table inheritance) has added the column
        return column_property(table.columns[name], active_history=True)
    # Unlike a constraint, an index always has a name, which SQLite needs in migrations.
    # With active_history, a change of an identifier is noticed even if the row was not loaded.
    return mapped_column(String, nullable=True, index=True, unique=True, active_history=True)


class IdentifiedItem:
    """A mixin for the models of a host. Each row of the model is an item of the Archive.

    ::

        class Thesis(IdentifiedItem, db.Model):
            id: Mapped[int] = mapped_column(primary_key=True)
            title: Mapped[str]
            author: Mapped[str]
            pdf: Mapped[str]

            def ibi_record(self) -> ItemRecord:
                pdf = UPLOADS / self.pdf
                return ItemRecord(title=self.title, creators=[self.author], files=[pdf])

        thesis = Thesis(title="On rain", author="Silva, Ana", pdf="silva.pdf")
        db.session.add(thesis)
        db.session.commit()
        thesis.ibi               # "8JMKD3MGP8W/4GR7C9G"
        thesis.persistent_url    # "http://urlib.net/8JMKD3MGP8W/4GR7C9G"

    The mixin works with models of Flask-SQLAlchemy, with plain declarative models of SQLAlchemy and
    with dataclass models. The session of the model must be the session that
    :class:`~flask_ibi_archive.IBIArchive` got (``IBIArchive(session=db.session)``).

    A flush of the session changes the items in the same transaction:

    - A new row gets an identifier, and its item is deposited.
    - If a row changes, its item is edited. The timestamp of the item changes only if the record of
      the item differs.
    - If a row is deleted, its item becomes a tombstone; see
      :meth:`~flask_ibi_archive.IBIArchive.removing`.

    Statements such as ``session.execute(update(Thesis)...)``, bulk inserts and changes of other
    rows do not change items. Call :meth:`~flask_ibi_archive.IBIArchive.refresh` afterwards, or run
    ``flask ibi compare``. Rows that are older than the two columns, and rows that have lost their
    identifiers, get identifiers with ``flask ibi adopt``.
    """

    if TYPE_CHECKING:
        #: Both forms of the identifier. Only the Archive changes these columns.
        ibi_rep: Mapped[str | None]
        ibi_ibip: Mapped[str | None]
    else:
        # Without annotations, a dataclass model does not make these columns parameters of __init__.
        ibi_rep = declared_attr(lambda cls: _make_column(cls, "ibi_rep"))
        ibi_ibip = declared_attr(lambda cls: _make_column(cls, "ibi_ibip"))

    def ibi_record(self) -> ItemRecord | None:
        """Return the description of the item of this row. Each model must define this method.

        :returns: the description. A field that the description omits keeps its present value. None,
            or a description with the state "Reserved", means that the row is not public yet: an
            identifier is reserved, but resolvers do not know the item. A description with the state
            "Deleted" and a ``tombstone`` withdraws the item while the row remains.
            ``previous_edition`` and ``translation_of`` may be other rows. With
            ``previous_edition=None``, the item is not an edition of another item any more. But
            ``translation_of=None`` keeps the translations, because the first item of a group of
            translations states it, too. To remove a translation, edit the ``translations`` of the
            first item: ``ibi.archive.edit(first, translations={"pt": portuguese.ibi})``.
        """
        name = type(self).__name__
        raise TypeError(
            f"{name} has no method ibi_record; define ibi_record(self) in the class {name}, which "
            "returns an ItemRecord such as ItemRecord(title=self.title)"
        )

    @property
    def ibi(self) -> str | None:
        """The short form of the identifier (ibip); None before the first flush of the row."""
        return self.ibi_ibip or self.ibi_rep

    @property
    def persistent_url(self) -> str | None:
        """The persistent URL of the item; None before the first flush of the row."""
        return None if self.ibi is None else get_archive().persistent_url(self.ibi)


@dataclass(frozen=True, slots=True)
class DescribedRow:
    """A row and the description of its item.

    :param name: the class and the primary key of the row, for messages.
    :param ibi: an identifier of the row.
    :param given: the fields that ``ibi_record()`` has returned, without state and tombstone.
    :param tombstone: the tombstone that ``ibi_record()`` has returned, or None.
    :param key: the key of the row.
    """

    row: IdentifiedItem
    name: str
    ibi: str
    given: Mapping[str, Any]
    state: str
    tombstone: Any = None
    key: str | None = None

    @property
    def identifiers(self) -> list[str]:
        """The identifiers of the row."""
        return list_identifiers(self.row)


def list_identifiers(row: IdentifiedItem) -> list[str]:
    """Return both forms of the identifier of a row, if it has both."""
    return [text for text in (row.ibi_rep, row.ibi_ibip) if text is not None]


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
    if state not in RECORD_STATES:
        raise RowError(name, "state", f"{quoted(state)} is not one of {', '.join(RECORD_STATES)}")
    tombstone = given.get("tombstone")
    if (state == State.DELETED) != (tombstone is not None):
        expected = "tombstone=Tombstone(reason='...') and state='Deleted' belong together"
        raise RowError(name, "tombstone", expected)
    fields = {key: value for key, value in given.items() if key not in ("state", "tombstone")}
    for form in filter(None, (row.ibi_rep, row.ibi_ibip)):
        with naming(name):
            canonical = parse_identifier(form).text
        if form != canonical:
            reason = f"{form} should be written {canonical}"
            raise RowError(name, "ibi_rep" if form == row.ibi_rep else "ibi_ibip", reason)
    if "key" in fields:
        raise RowError(name, "key", "a row has its key by itself; omit this field")
    ibi = str(row.ibi_rep or row.ibi_ibip)
    return DescribedRow(row, name, ibi, fields, state, tombstone, find_row_key(row))


def find_references(given: Mapping[str, Any]) -> Iterator[tuple[str, IdentifiedItem]]:
    """Yield the rows that a description refers to, with the names of the fields."""
    for name in ("previous_edition", "translation_of"):
        if isinstance(given.get(name), IdentifiedItem):
            yield name, given[name]


def build_tombstone(tombstone: Any) -> Tombstone:
    """Return the tombstone that a host describes, with an identifier as its successor.

    :param tombstone: a Tombstone, or a mapping with its fields. The successor may be a row.
    :raises StorageError: if the value is not a tombstone.
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
        raise RowError(name, None, str(explain_refusal(error, ibi))) from error
    except IdentifierError as error:
        raise RowError(name, None, str(error)) from error
    except StorageError as error:
        cause = error.__cause__
        if isinstance(cause, FieldError):
            raise RowError(name, name_field(cause.field), cause.reason) from error
        text = str(error)
        raise RowError(name, None, text.removeprefix(f"{name}: ")) from error


def describe_error(error: Exception) -> str:
    """Return the reason why a row cannot be described."""
    return f"ibi_record() raised {type(error).__name__}: {' '.join(str(error).split())}"
