"""What programs can do with the identification server.

"The server ... executes Algorithms 1, 2 and 3 and returns the identifier of the item" ([G] 6). The
operations are those of the Archive. This module adds what a program needs: it sees and changes only
what it made, and a request that it repeats is carried out once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, or_, select

from flask_ibi_archive.archive.identification.api_keys import KnownKey
from flask_ibi_archive.archive.identification.issued import (
    AlreadyAnswered,
    Repeatable,
    find_answer,
    store_issued,
)
from flask_ibi_archive.archive.identification.stated import (
    get_stated,
    list_related,
    naming_record,
    parse_stated,
)
from flask_ibi_archive.archive.identification.tables import ApiKey, IssuedIdentifier
from flask_ibi_archive.archive.items.minting import Minted, StoreMinted
from flask_ibi_archive.archive.items.operations import (
    OperationContext,
    canonicalize,
    delete,
    deposit,
    edit,
    release,
    reserve,
)
from flask_ibi_archive.archive.items.read import HELD, RELEASED, find_held, find_status
from flask_ibi_archive.archive.items.tables import Item, ReservationRow
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.values import FieldError
from flask_ibi_archive.errors import StorageError, UnknownItem

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


@dataclass(frozen=True, slots=True)
class Identification:
    """An identifier that a program asks about, and its item.

    :param status: ``issued``, ``held``, ``released``, or the state of the item.
    :param record: the record of the item; None if there is none.
    """

    minted: Minted
    status: str
    record: Record | None = None


@dataclass(frozen=True)
class _Operations:
    """The context of an operation, in the form that the operations of an Archive expect."""

    context: OperationContext

    @property
    def own_context(self) -> OperationContext:
        return self.context


@dataclass(frozen=True)
class IdentificationServer:
    """The operations of a program on an Archive.

    :param key: the key of the program. The caller checks its scopes.
    """

    archive: Archive
    key: KnownKey

    # --- new identifiers -------------------------------------------------------------------------

    def issue(self, count: int, repeatable: Repeatable | None = None) -> list[Minted]:
        """Issue identifiers; see :meth:`.Archive.mint`."""

        def work(store: StoreMinted) -> None:
            self.archive.mint(count, store)

        return self._once(repeatable, work)

    def reserve(self, note: str | None, repeatable: Repeatable | None = None) -> list[Minted]:
        """Reserve an identifier for a work that is deposited later; see :meth:`.Archive.reserve`.

        :returns: a list with one identifier.
        """

        def work(store: StoreMinted) -> None:
            context = self.archive.without_session().own_context
            reserve(_storing(context, ReservationRow, store), note)

        return self._once(repeatable, work)

    def deposit(self, record: object, repeatable: Repeatable | None = None) -> list[Minted]:
        """Deposit an item whose files are on other servers; see :meth:`.Archive.deposit`.

        :param record: the record of the item as a JSON object, in the format of imports.
        :returns: a list with one identifier.
        :raises FieldError: if a field is wrong.
        """
        fields = self._read_fields(record, None)

        def work(store: StoreMinted) -> None:
            context = self.archive.without_session().context
            deposit(_storing(context, Item, store), fields)  # type: ignore[arg-type]

        return self._once(repeatable, work)

    def _once(
        self, repeatable: Repeatable | None, work: Callable[[StoreMinted], None]
    ) -> list[Minted]:
        """Carry out a request, unless it was carried out before, and return its identifiers.

        :param work: carries out the request. Its argument stores the new identifiers.
        :raises KeyReused: if another request had the same ``Idempotency-Key``.
        """
        database, now = self.archive.database, self.archive.clock()
        new: list[Minted] = []

        def find() -> list[Minted] | None:
            return database.read(
                lambda connection: find_answer(connection, self.key.id, repeatable, now)
            )

        def store(connection: Connection, minted: list[Minted]) -> None:
            new[:] = minted
            store_issued(connection, self.key.id, repeatable, minted, now)

        issued = find()
        if issued is not None:
            return issued
        try:
            work(store)
        except AlreadyAnswered:
            return find() or []
        return new

    # --- identifiers that exist ------------------------------------------------------------------

    def describe(self, ibi: str) -> Identification:
        """Return what the program may see of an identifier.

        :raises UnknownItem: if the program has not requested the identifier, or if there is none.
        """
        text = canonicalize(ibi)
        context = self.archive.own_context
        with context.reading() as store:
            record = _find_record(store, text)
            # an alias may be an identifier of another program
            names = [text] if record is None else [record.rep or text, record.ibip or text]
            issued = self._find_issued(store.connection, names)
            if record is not None and self.key.may("all"):
                issued = Minted(record.rep or text, record.ibip or text)
            if issued is None:
                raise UnknownItem(text)
            if record is not None:
                return Identification(issued, record.state, record)
            return Identification(issued, find_status(store.connection, issued.rep) or "issued")

    def list_issued(self, after: int, limit: int) -> list[tuple[int, Minted, datetime]]:
        """Return identifiers that the program may see, in the order of their issue.

        :param after: return only identifiers after the one with this number.
        :returns: the number, the identifiers and the time of each issue.
        """
        row = IssuedIdentifier
        statement = (
            select(row.id, row.rep, row.ibip, row.issued_at)
            .where(row.id > after, self._is_visible())
            .order_by(row.id)
            .limit(limit)
        )

        def read(connection: Connection) -> list[tuple[int, Minted, datetime]]:
            return [
                (number, Minted(rep, ibip), issued_at)
                for number, rep, ibip, issued_at in connection.execute(statement)
            ]

        return self.archive.database.read(read)

    def put(self, ibi: str, record: object) -> tuple[Minted, bool]:
        """Replace the description of an item, or deposit the item of a reserved identifier.

        If this was done before, nothing changes: a program may repeat the request.

        :param record: the complete record of the item as a JSON object.
        :returns: the identifiers, and whether the item is new.
        :raises FieldError: if a field is wrong.
        """
        found = self.describe(ibi)
        minted = found.minted
        context = _Operations(self.archive.without_session().context)
        _check_no_row(found)
        fields = self._read_fields(record, found.record)
        if found.record is None:
            _check_reserved(found)
            deposit(context, fields, reserved=minted.rep)  # type: ignore[arg-type]
        elif fields != get_stated(found.record):
            edit(context, minted.rep, **fields)
        return minted, found.record is None

    def withdraw(self, ibi: str, reason: str | None, successor: str | None = None) -> None:
        """Delete an item, or release a reserved identifier.

        If this was done before, nothing changes: a program may repeat the request.

        :param reason: the reason, which the tombstone of an item shows. A reserved identifier needs
            none.
        :raises FieldError: if the reason is missing.
        """
        found = self.describe(ibi)
        archive = self.archive.without_session()
        _check_no_row(found)
        if found.status in (State.DELETED.value, RELEASED):
            return
        if found.record is None:
            _check_reserved(found)
            release(_Operations(archive.own_context), found.minted.rep)
        elif reason is None:
            raise FieldError("reason", "the parameter is missing; write why the item is withdrawn")
        else:
            operations = _Operations(archive.context)
            delete(operations, found.minted.rep, reason, successor=successor)

    def _find_issued(
        self, connection: Connection, names: Sequence[str], *, of_all: bool = False
    ) -> Minted | None:
        """Return the identifiers with some names that the program may see.

        :param of_all: whether those that other programs requested are also returned.
        """
        row = IssuedIdentifier
        is_named = or_(row.rep.in_(names), row.ibip.in_(names))
        found = connection.execute(
            select(row.rep, row.ibip).where(is_named, self._is_visible(of_all))
        ).first()
        return None if found is None else Minted(found.rep, found.ibip)

    def _read_fields(self, data: object, before: Record | None) -> dict[str, Any]:
        """Return the fields of an item that a program states, for a deposit or an edit.

        What the Archive sets (identifiers, state, timestamp) may be in the record of an existing
        item, so that a program can send back what it got. It must not differ.

        :param before: the present record of the item; None if the item is new.
        :raises FieldError: if a field is wrong.
        """
        with naming_record():
            record = parse_stated(data, before)
            if not self.key.may("all"):
                self._check_references(record, before)
        return get_stated(record)

    def _check_references(self, record: Record, before: Record | None) -> None:
        """Check that a record changes nothing that belongs to others.

        An alias would lead readers of another identifier to the item, and a relation would appear
        on the page of the other item, also if that item is deposited later. Relations to items of
        other Archives are allowed.

        :raises FieldError: if a new reference is neither to an identifier of the program nor to
            another Archive.
        """
        known = () if before is None else (*before.aliases, *list_related(before).values())
        for number, alias in enumerate(record.aliases):
            if alias not in known:
                raise FieldError(f"aliases[{number}]", "only a key that may all can add an alias")
        related = {name: ibi for name, ibi in list_related(record).items() if ibi not in known}
        with self.archive.own_context.reading() as store:
            for field, ibi in related.items():
                if self._find_issued(store.connection, [ibi]) is None and (
                    ibi in store.find_owners([ibi])
                    or find_held(store.connection, store.archive_id, [ibi])
                    or self._find_issued(store.connection, [ibi], of_all=True)
                ):
                    raise FieldError(field, f"{ibi} belongs to others; the scope all allows it")

    def _is_visible(self, of_all: bool = False) -> ColumnElement[bool]:
        """Return the condition for the identifiers that the program may see.

        :param of_all: whether these are those of all programs, as with the scope ``all``.
        """
        if not of_all and not self.key.may("all"):
            return IssuedIdentifier.key_id == self.key.id
        of_archive = select(ApiKey.id).where(ApiKey.archive_id == self.archive.served().id)
        return IssuedIdentifier.key_id.in_(of_archive)


def _storing(context: OperationContext, model: Any, store: StoreMinted) -> _Operations:
    """Return operations that also store the identifiers of the new row in their transaction.

    :param model: the table of the row, which has both forms of the identifiers.
    """

    def store_new(items: ItemStore) -> None:
        rep = str(items.ibi)
        ibip = items.connection.scalar(
            select(model.ibip).where(model.rep == rep, model.archive_id == items.archive_id)
        )
        store(items.connection, [Minted(rep, str(ibip))])

    return _Operations(replace(context, before_commit=store_new))


def _find_record(store: ItemStore, ibi: str) -> Record | None:
    """Return the record of the item that has an identifier; None for the service of the Archive."""
    owner = store.find_owners([ibi]).get(ibi)
    if owner is None or owner.is_service:
        return None
    return store.reader.read_record(owner.id)


def _check_reserved(found: Identification) -> None:
    if found.status != HELD:
        raise StorageError(
            f"{found.minted.rep} was {found.status}; only a reserved identifier can be given to an "
            "item, or be released"
        )


def _check_no_row(found: Identification) -> None:
    """Check that the item does not follow a row of the repository.

    Otherwise the row and the item would differ.

    :raises StorageError: if the item has a key of the repository.
    """
    if found.record is not None and found.record.key is not None:
        raise StorageError(
            f"the item follows {found.record.key} of the repository; change it there"
        )
