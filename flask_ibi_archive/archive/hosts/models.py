"""The mixin :class:`IdentifiedItem` for models of the host, and its rows: description and key.

The two identifier columns of a row say which item belongs to the row. The *key* of a row, such as
``thesis:7``, consists of the name of the table and the primary key. It is stored with the item. If
the identifier columns are lost, for example after a restore of the table, the commands ``adopt``
and ``compare`` find the item by the key. A flush never does, because another work may be in the row
now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

import msgspec
import sqlalchemy as sa
from flask import current_app, has_app_context
from sqlalchemy import orm
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, Mapper

from flask_ibi_archive.archive.items import item_record, operations
from flask_ibi_archive.archive.items.rules import explain_refusal
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import Tombstone
from flask_ibi_archive.core.records.values import FieldError, quoted
from flask_ibi_archive.errors import ConfigError, IdentifierError, RowError, StorageError
from flask_ibi_archive.server.config import EXTENSION
from flask_ibi_archive.server.web.requests import current_archive

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.items.item_record import ItemRecord
    from flask_ibi_archive.archive.items.sessions import HostSession

#: The reason of a tombstone if the host states none.
DEFAULT_REASON = "removed by the repository"
#: The mappers of the models with IdentifiedItem.
identified_models: WeakSet[Mapper[Any]] = WeakSet()
#: The states that a host may give an item; a row of a draft is "Reserved".
RECORD_STATES = (State.ORIGINAL.value, "Reserved", State.DELETED.value)
#: The attributes with the two forms of the identifier.
FORMS = ("ibi_rep", "ibi_ibip")
#: The characters that are escaped in the name of a table and in the values of a primary key.
SPECIAL_IN_NAME = re.compile("[%:\x00-\x1f\x7f]")
SPECIAL_IN_VALUE = re.compile("[%,\x00-\x1f\x7f]")


def find_current_archive() -> Archive:
    """Return the Archive of the current app.

    :raises RuntimeError: outside of an app context, or if the current app has no Archive.
    """
    if not has_app_context():
        raise RuntimeError(
            "ibi.archive and the rows of models with IdentifiedItem need an application context; "
            "use: with app.app_context(): ..."
        )
    if EXTENSION not in current_app.extensions:
        raise RuntimeError("the current app has no IBIArchive; call ibi.init_app(app) first")
    return current_archive()


def bind(session: orm.Session) -> operations.OperationContext:
    """Return a context for operations in a session of the host, even while the session is flushing.

    :param session: a session of the host, which need not be its current session.
    :raises ConfigError: if the Archive of the current app does not use the session of the host.
    :raises StorageError: if the session uses another database than the items.
    """
    archive = find_current_archive()
    return replace(archive.context, session=require_session(archive).bind_flush(session))


def require_session(archive: Archive) -> HostSession:
    """Return the session of the host.

    :raises ConfigError: if the Archive has none.
    """
    if archive.session is None:
        raise ConfigError(
            "session",
            None,
            "the session of the models with IdentifiedItem, such as "
            "IBIArchive(session=db.session), so that a row and its item are saved together",
        )
    return archive.session


# --- the mixin -----------------------------------------------------------------------------------


def _make_column(model: Any, name: str) -> Any:
    """Return the column of a model for one of the two identifiers, ``ibi_rep`` or ``ibi_ibip``."""
    table = getattr(model, "__table__", None)
    if table is not None and name in table.columns:
        # another class of the same table (single table inheritance) has added the column
        return orm.column_property(table.columns[name], active_history=True)
    # Unlike a constraint, an index always has a name, which SQLite needs in migrations.
    # With active_history, a change of an identifier is noticed even if the row was not loaded.
    return orm.mapped_column(sa.String, nullable=True, index=True, unique=True, active_history=True)


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
    - If a column of a row changes that ``ibi_record()`` uses, its item is edited. The timestamp of
      the item changes only if the record of the item differs.
    - If a row is deleted, its item becomes a tombstone; see
      :meth:`~flask_ibi_archive.IBIArchive.removing`.

    If ``ibi_record()`` uses related rows, ``ibi_depends_on`` names the relationships::

        ibi_depends_on = ("files", "author")

    Then a related row that is added, changed or deleted edits the item, too.

    Statements such as ``session.execute(update(Thesis)...)`` and bulk inserts do not change items.
    Call :meth:`~flask_ibi_archive.IBIArchive.refresh` afterwards, or run ``flask ibi compare``.
    Stored rows without identifiers, which are older than the two columns or have lost them, get
    identifiers with ``flask ibi adopt``.
    """

    #: The names of the relationships whose rows ``ibi_record()`` uses.
    ibi_depends_on: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:
        #: Both forms of the identifier. Only the Archive changes these columns.
        ibi_rep: Mapped[str | None]
        ibi_ibip: Mapped[str | None]
    else:
        # Without annotations, a dataclass model does not make these columns parameters of __init__.
        ibi_rep = orm.declared_attr(lambda cls: _make_column(cls, "ibi_rep"))
        ibi_ibip = orm.declared_attr(lambda cls: _make_column(cls, "ibi_ibip"))

    def ibi_record(self) -> ItemRecord | None:
        """Return the description of the item of this row. Each model must define this method.

        After a change, the method is also called for copies of the row, to find out whether it uses
        the changed columns. Therefore it must not change anything.

        :returns: the description. A field that the description omits keeps its present value. None,
            or a description with the state "Reserved", means that the row is not public yet: an
            identifier is reserved, but resolvers do not know the item. A description with the state
            "Deleted" and a ``tombstone`` withdraws the item while the row remains.
            ``previous_edition`` and ``translation_of`` may be other rows. With
            ``previous_edition=None``, the item is not an edition of another item any more. But
            ``translation_of=None`` keeps the translations, because also the first item of a group
            of translations, which translates no other item, has this value. To remove a
            translation, edit the ``translations`` of the first item: ``ibi.archive.edit(first,
            translations={"pt": portuguese.ibi})``.
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
        return None if self.ibi is None else find_current_archive().persistent_url(self.ibi)


def inspect_row(row: object) -> orm.InstanceState[Any]:
    """Return what SQLAlchemy knows about a row: its session, and whether it is stored."""
    state: orm.InstanceState[Any] = sa.inspect(row)
    return state


def name_row(row: IdentifiedItem) -> str:
    """Return the class and the primary key of a row, such as ``Thesis 5``."""
    state = inspect_row(row)
    values = state.identity or state.mapper.primary_key_from_instance(row)
    key = ", ".join("new" if value is None else str(value) for value in values)
    return f"{type(row).__name__} {key}"


def list_models(module: ModuleType) -> dict[str, type[IdentifiedItem]]:
    """Return the models with IdentifiedItem in a module, by their names."""
    return {
        name: value
        for name, value in vars(module).items()
        if any(mapper.class_ is value for mapper in identified_models)
    }


def name_model(mapper: Mapper[Any]) -> str:
    """Return the name of a model for commands, such as ``myapp.models:Thesis``."""
    return f"{mapper.class_.__module__}:{mapper.class_.__qualname__}"


# --- keys ----------------------------------------------------------------------------------------


def get_table(mapper: Mapper[Any]) -> sa.Table:
    """Return the table with the identifier columns of a model."""
    return mapper.columns["ibi_rep"].table


@lru_cache
def get_key_attributes(mapper: Mapper[Any]) -> dict[str, sa.Column[Any]]:
    """Return the primary key of the table that has the identifier columns of a model.

    :returns: the columns of the primary key, by the names of the attributes of rows.
    """
    columns = get_table(mapper).primary_key.columns
    return {mapper.get_property_by_column(column).key: column for column in columns}


@lru_cache
def build_prefix(mapper: Mapper[Any]) -> str:
    """Return the beginning of the keys of all rows of a table, such as ``thesis:``."""
    return f"{_escape(SPECIAL_IN_NAME, str(get_table(mapper).fullname))}:"


def build_key(mapper: Mapper[Any], values: Iterable[Any]) -> str:
    """Return the key of a row, such as ``thesis:7``.

    :param values: the primary key: the values of the columns of :func:`get_key_attributes`.
    """
    parts = (value.hex() if isinstance(value, bytes) else str(value) for value in values)
    return build_prefix(mapper) + ",".join(_escape(SPECIAL_IN_VALUE, part) for part in parts)


def find_row_key(row: IdentifiedItem) -> str:
    """Return the key of a stored row, such as ``thesis:7``."""
    mapper = inspect_row(row).mapper
    return build_key(mapper, [getattr(row, name) for name in get_key_attributes(mapper)])


def _escape(special: re.Pattern[str], text: str) -> str:
    return special.sub(lambda match: f"%{ord(match[0]):02X}", text)


# --- descriptions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DescribedRow:
    """A stored row with an identifier, and the description of its item.

    :param name: the class and the primary key of the row, for messages.
    :param ibi: an identifier of the row.
    :param given: the fields that ``ibi_record()`` has returned, without state and tombstone.
    :param tombstone: the tombstone that ``ibi_record()`` has returned, or None.
    """

    row: IdentifiedItem
    name: str
    ibi: str
    given: dict[str, Any]
    state: str
    tombstone: Any
    key: str

    @property
    def identifiers(self) -> list[str]:
        """The identifiers of the row: the repository name, the IBIp, or both in this order."""
        return [text for text in (self.row.ibi_rep, self.row.ibi_ibip) if text is not None]


def describe(row: IdentifiedItem) -> DescribedRow:
    """Return the description of a stored row that has an identifier.

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
    state, tombstone = given.get("state", State.ORIGINAL.value), given.get("tombstone")
    if state not in RECORD_STATES:
        raise RowError(name, "state", f"{quoted(state)} is not one of {', '.join(RECORD_STATES)}")
    if (state == State.DELETED) != (tombstone is not None):
        expected = "tombstone=Tombstone(reason='...') and state='Deleted' belong together"
        raise RowError(name, "tombstone", expected)
    for field in FORMS:
        form = getattr(row, field)
        with naming(name):
            canonical = form and parse_identifier(form).text
        if form != canonical:
            raise RowError(name, field, f"{form} should be written {canonical}")
    if "key" in given:
        raise RowError(name, "key", "a row has its key by itself; omit this field")
    for field, other in find_references(given):
        if other.ibi is None:
            advice = "the row is not in the session; add it to the session first"
            if inspect_row(other).persistent:
                model = name_model(inspect_row(other).mapper)
                advice = f"the row has no identifier; run: flask ibi adopt {model}"
            raise RowError(name, field, f"{name_row(other)}: {advice}")
    fields = {key: value for key, value in given.items() if key not in ("state", "tombstone")}
    ibi = str(row.ibi_rep or row.ibi_ibip)
    return DescribedRow(row, name, ibi, fields, state, tombstone, find_row_key(row))


def find_references(given: Any) -> Iterator[tuple[str, IdentifiedItem]]:
    """Yield (field, row) for each field whose value is a row, as in ("previous_edition", row).

    :param given: the description of an item.
    """
    for name in item_record.RELATED if isinstance(given, Mapping) else ():
        if isinstance(given.get(name), IdentifiedItem):
            yield name, given[name]


def build_tombstone(tombstone: Any, ibi: str) -> Tombstone:
    """Check the tombstone that a host describes, and return it in canonical form.

    :param tombstone: a Tombstone, whose successor may be a row or an identifier. In the result, it
        is an identifier.
    :param ibi: the identifier of the item, for messages.
    :raises StorageError: if the value is not a tombstone, or if a field is wrong.
    """
    if not isinstance(tombstone, Tombstone):
        raise StorageError(f"tombstone: {quoted(tombstone)} is not a Tombstone(reason='...')")
    successor: str | item_record.Identified | None = tombstone.successor
    if successor is not None and not isinstance(successor, str):
        successor = successor.ibi
    tombstone = msgspec.structs.replace(tombstone, successor=successor)
    return item_record.validate_tombstone(tombstone, ibi)


@contextmanager
def naming(name: str, ibi: str | None = None) -> Iterator[None]:
    """In the ``with`` block, replace an error about an item by an error that names its row.

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
            raise RowError(name, item_record.name_field(cause.field), cause.reason) from error
        raise RowError(name, None, str(error).removeprefix(f"{name}: ")) from error
