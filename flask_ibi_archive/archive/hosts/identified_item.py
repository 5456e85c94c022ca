"""The mixin :class:`IdentifiedItem` for the host's own models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlalchemy import String
from sqlalchemy.orm import (
    Mapped,
    MappedColumn,
    MapperProperty,
    column_property,
    declared_attr,
    mapped_column,
)

from flask_ibi_archive.errors import ConfigError

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.items.operations.description import ItemRecord

_find_archive: Callable[[], Archive] | None = None


def set_finder(find: Callable[[], Archive]) -> None:
    """Set the function that returns the Archive of the current app. The extension calls this."""
    global _find_archive
    _find_archive = find


def get_archive() -> Archive:
    """Return the Archive of the current app.

    :raises RuntimeError: if there is no current app, or if the app has no Archive.
    """
    if _find_archive is None:
        raise RuntimeError("no app has an IBIArchive; create one with IBIArchive(session=...)")
    return _find_archive()


def get_archive_with_session() -> Archive:
    """Return the Archive of the current app.

    :raises ConfigError: if the Archive does not use the session of the host.
    :raises RuntimeError: as for :func:`get_archive`.
    """
    archive = get_archive()
    if archive.session is None:
        raise ConfigError(
            "session",
            None,
            "the session of the models with IdentifiedItem, such as "
            "IBIArchive(session=db.session), so that a row and its item are saved together",
        )
    return archive


def _make_column(model: Any, name: str) -> MapperProperty[str | None] | MappedColumn[str | None]:
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
    rows do not change items. Call :meth:`~flask_ibi_archive.IBIArchive.refresh` afterwards. Rows
    that are older than the two columns get identifiers with ``flask ibi adopt``.
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
