"""Compares the rows of a model with their items, and repairs the differences.

Bulk statements, deletions by the database, and restores of single tables change rows without their
items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, func, inspect, literal, or_, select, true, tuple_
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Mapper, Session

from flask_ibi_archive.archive.hosts.adopting import Adopter, MeasuringStaging, describe_error
from flask_ibi_archive.archive.hosts.assigning import (
    begin_locking,
    bind,
    clear_identifiers,
    find_lost,
    is_key_in,
)
from flask_ibi_archive.archive.hosts.identified_item import (
    DEFAULT_REASON,
    DescribedRow,
    IdentifiedItem,
    describe,
    inspect_row,
    name_row,
)
from flask_ibi_archive.archive.hosts.row_edits import (
    NO_ITEM,
    Owners,
    RowEdits,
    check_owner,
    find_changed_links,
    remove_orphans,
)
from flask_ibi_archive.archive.hosts.row_keys import (
    ForeignIdentifier,
    build_prefix,
    get_table,
    has_no_identifiers,
    read_orphans,
)
from flask_ibi_archive.archive.items.identifiers import find_held
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.keys import KeyHolder, clear_keys, count_holders
from flask_ibi_archive.archive.items.operations.context import (
    OperationContext,
    find_changed_fields,
)
from flask_ibi_archive.archive.items.operations.updating import UpdateBatch
from flask_ibi_archive.core.protocol.states import ELSEWHERE
from flask_ibi_archive.core.records.record import Tombstone
from flask_ibi_archive.errors import RowError, StorageError

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The number of rows that are compared together.
BATCH = 500

# The kinds of differences.
LOST = "lost identifier"
NO_ITEM_OF_ROW = "no item"
NO_ROW = "no row"
RECORD = "record"
FOREIGN = "identifier of another row"
WRONG = "wrong row"


@dataclass(frozen=True, slots=True)
class Difference:
    """A row and an item that differ, or one of them without the other.

    :param kind: one of the kinds above.
    :param row: the class and the primary key of the row, or the key of a missing row.
    :param ibi: the identifier of the item; None if the row has no item.
    :param text: the difference in words.
    :param repaired: whether the difference was repaired.
    """

    kind: str
    row: str
    ibi: str | None
    text: str
    repaired: bool = False


@dataclass
class Comparer:
    """Compares the rows of a model with their items, in batches.

    :param repair: if true, the differences are repaired, and each batch is committed. Otherwise
        nothing is written.
    :param reason: the reason in the tombstones of items whose rows are missing.
    :param progress: called with the number of rows and items that are done, and their total number.
    :ivar rows: the number of rows that were compared.
    :ivar items: the number of items and reservations of the table.
    """

    archive: Archive
    session: Session
    model: type[IdentifiedItem]
    repair: bool = False
    reason: str = DEFAULT_REASON
    progress: Callable[[int, int], None] = lambda done, total: None
    rows: int = 0
    items: int = 0
    _context: OperationContext = field(init=False)
    _mapper: Mapper[Any] = field(init=False)

    def __post_init__(self) -> None:
        self._mapper = inspect(self.model)
        self._context = bind(self.archive.context, self.session)

    def run(self) -> Iterator[Difference]:
        """Compare all rows and items, and yield the differences.

        :raises NotReady: if other transactions lock the database for too long.
        :raises MintingError: if a row needs an identifier, and none can be minted.
        """
        assert self._context.session is not None
        self._context.session.check_model(self.session, self.model)
        prefix = build_prefix(self._mapper)
        self.items = count_holders(self._connect(), self._context.archive.id, prefix)
        rows = self.session.scalar(select(func.count()).select_from(self.model)) or 0
        try:
            for batch in self._read_batches():
                yield from self._compare(batch)
                self.rows += len(batch)
                self._end_batch()
                self.progress(self.rows, max(rows, self.rows) + self.items)
            for orphans in read_orphans(self._context, self.session, self._mapper):
                yield from self._compare_orphans(orphans)
                self._end_batch()
            self.progress(self.rows + self.items, self.rows + self.items)
        except OperationalError as error:
            raise self.archive.database.explain(error) from error
        finally:
            self.session.rollback()

    def count(self) -> tuple[int, int, int]:
        """Return the numbers of rows without identifiers, of rows with identifiers, and of items.

        Each row that has an identifier has an item or a reservation with its key.
        """
        table = get_table(self._mapper)
        has_identifier = or_(table.c.ibi_rep.is_not(None), table.c.ibi_ibip.is_not(None))
        count = select(func.count())
        connection = self.session.connection(bind_arguments={"mapper": self._mapper})
        with_identifier = select(func.count()).select_from(table).where(has_identifier)
        return (
            self.session.scalar(count.where(has_no_identifiers(self.model))) or 0,
            connection.scalar(with_identifier) or 0,
            count_holders(self._connect(), self._context.archive.id, build_prefix(self._mapper)),
        )

    def sample(self, count: int) -> list[Difference]:
        """Return the differences of the rows with the highest primary keys, except their files."""
        keys = [column.desc() for column in self._mapper.primary_key]
        rows = self.session.scalars(select(self.model).order_by(*keys).limit(count)).unique().all()
        return [one for _, one in self._find(rows, with_files=False)]

    def _connect(self) -> Any:
        assert self._context.session is not None
        return self._context.session.connection()

    def _end_batch(self) -> None:
        if self.repair:
            self.session.commit()
        else:
            self.session.rollback()
        self.session.expunge_all()

    # --- rows ------------------------------------------------------------------------------------

    def _read_batches(self) -> Iterator[Sequence[IdentifiedItem]]:
        """Yield the rows in the order of their primary keys."""
        key = self._mapper.primary_key
        unread: ColumnElement[bool] = true()
        while True:
            statement = select(self.model).where(unread).order_by(*key).limit(BATCH)
            rows = self.session.scalars(statement).unique().all()
            if not rows:
                return
            last = [
                literal(value, column.type)
                for value, column in zip(inspect_row(rows[-1]).identity or (), key, strict=True)
            ]
            yield rows
            unread = tuple_(*key) > tuple_(*last)

    def _compare(self, rows: Sequence[IdentifiedItem]) -> Iterator[Difference]:
        """Compare rows, and repair them."""
        different = [row for row, _ in self._find(rows)]
        if not different:
            return
        # read these rows again, because another transaction may have changed them and their items
        rows = self._read_again(different)
        found = self._find(rows)
        if not self.repair or not found:
            yield from (difference for _, difference in found)
            return
        foreign = [row for row, difference in found if difference.kind == FOREIGN]
        clear_identifiers(self.session, foreign)
        errors: dict[str, RowError] = {}
        adopter = Adopter(
            self.archive, self.session, self.model, report=lambda one: errors.update({one.row: one})
        )
        adopter.write_batch(self._context, [row for row, _ in found])
        remaining = {id(row) for row, _ in self._find([row for row, _ in found])}
        for row, difference in found:
            error = errors.get(name_row(row))
            if id(row) not in remaining:
                yield replace(difference, repaired=True)
            elif error is None:
                yield difference
            else:
                reason = f"{error.field}: {error.reason}" if error.field else error.reason
                yield replace(difference, text=f"{difference.text}; not repaired: {reason}")

    def _read_again(self, rows: Sequence[IdentifiedItem]) -> Sequence[IdentifiedItem]:
        """Read rows again in a new transaction; to repair them, lock them."""
        keys = [inspect_row(row).identity for row in rows]
        self.session.rollback()
        self.session.expunge_all()
        statement = select(self.model).where(is_key_in(self._mapper, keys))
        if self.repair:
            begin_locking(self.session, self._mapper)
            lock = select(*self._mapper.primary_key).where(is_key_in(self._mapper, keys))
            locked = self._mapper.columns["ibi_rep"]
            self.session.execute(
                lock.order_by(*self._mapper.primary_key).with_for_update(of=locked)
            )
        return self.session.scalars(statement.order_by(*self._mapper.primary_key)).unique().all()

    def _find(
        self, rows: Sequence[IdentifiedItem], with_files: bool = True
    ) -> list[tuple[IdentifiedItem, Difference]]:
        """Return the rows that differ from their items. Nothing is written."""
        found: list[tuple[IdentifiedItem, Difference]] = []
        described: list[DescribedRow] = []
        lost = find_lost(self._context, [row for row in rows if row.ibi is None])
        for row in rows:
            holder = lost.get(id(row))
            if holder is not None:
                text = f"the row has lost its identifier {holder.ibi}"
                found.append((row, Difference(LOST, name_row(row), holder.ibi, text)))
            elif row.ibi is None:
                text = "the row has no identifier and no item"
                found.append((row, Difference(NO_ITEM_OF_ROW, name_row(row), None, text)))
            else:
                try:
                    one = _describe(row)
                except RowError as error:
                    found.append((row, _make_wrong(row, error)))
                    continue
                if not with_files:
                    given = {name: one.given[name] for name in one.given if name not in FILES}
                    one = replace(one, given=given)
                described.append(one)
        with self._context.reading() as store:
            found += self._find_described(store, described)
        return found

    def _find_described(
        self, store: ItemStore, described: Sequence[DescribedRow]
    ) -> Iterator[tuple[IdentifiedItem, Difference]]:
        """Yield the rows that have identifiers, but differ from their items."""
        texts = [text for one in described for text in one.identifiers]
        owners = store.find_all_owners(texts)
        unknown = [text for text in texts if owners.get(text, NO_ITEM)[1] == ELSEWHERE]
        held = find_held(store.connection, store.archive_id, unknown)
        existing = []
        for one in described:
            if owners.get(one.ibi, NO_ITEM)[1] != ELSEWHERE:
                existing.append(one)
                continue
            try:
                check_owner(self.session, one, held.get(one.ibi))
            except ForeignIdentifier as error:
                yield one.row, _make_wrong(one.row, error)
                continue
            if one.state != "Reserved" or one.ibi not in held:
                text = f"the identifier {one.row.ibi} of the row has no item"
                yield one.row, Difference(NO_ITEM_OF_ROW, one.name, one.row.ibi, text)
        yield from self._find_changed(store, existing, owners)

    def _find_changed(
        self, store: ItemStore, existing: Sequence[DescribedRow], owners: Owners
    ) -> Iterator[tuple[IdentifiedItem, Difference]]:
        """Yield the rows whose items would change if the rows were written."""
        staging = MeasuringStaging(self.archive.files_folder)
        edits = RowEdits(self.session, store, staging, self._context.now())
        try:
            updates = UpdateBatch(store, edits.find(existing, (), owners)).updates
            links, _ = find_changed_links(store, list(edits.links.values()))
        except StorageError as error:
            if len(existing) == 1:
                yield existing[0].row, _make_wrong(existing[0].row, error)
            else:
                for one in existing:
                    yield from self._find_changed(store, [one], owners)
            return
        linked = {link.item_id for link in links}
        for one in existing:
            item_id, _ = owners[one.ibi]
            names = ["relations"] if item_id in linked else []
            if item_id in updates:
                update = updates[item_id]
                names += find_changed_fields(update.before, update.record)
            names = [name for name in names if name != "timestamp"]
            if names:
                text = f"the item {one.row.ibi} differs in: {', '.join(names)}"
                yield one.row, Difference(RECORD, one.name, one.row.ibi, text)

    # --- items -----------------------------------------------------------------------------------

    def _compare_orphans(self, orphans: Sequence[KeyHolder]) -> Iterator[Difference]:
        """Yield the items whose rows are missing; with ``repair``, delete them."""
        public = [one for one in orphans if not one.is_deleted]
        if self.repair:
            # a new row may get the primary key of a missing row
            deleted = [one.key for one in orphans if one.is_deleted]
            clear_keys(self._connect(), self._context.archive.id, deleted)
        errors = self._remove(public) if self.repair else {}
        for one in public:
            item = "the reserved identifier" if one.item_id is None else "the item"
            text = f"the row of {item} {one.ibi} is missing"
            if one.key in errors:
                text += f"; not repaired: {errors[one.key]}"
            is_repaired = self.repair and one.key not in errors
            yield Difference(NO_ROW, one.key, one.ibi, text, is_repaired)

    def _remove(self, orphans: Sequence[KeyHolder]) -> dict[str, StorageError]:
        """Delete items whose rows are missing.

        :returns: the errors of the items that cannot be deleted, by the keys of their rows.
        """
        if not orphans:
            return {}
        context, tombstone = self._context, Tombstone(self.reason)
        try:
            with context.staging() as staging, context.transaction() as store:
                remove_orphans(self.session, store, staging, orphans, tombstone, context.now())
            return {}
        except StorageError as error:
            if len(orphans) == 1:
                return {orphans[0].key: error}
        errors = {}
        for one in orphans:
            errors.update(self._remove([one]))
        return errors


#: The fields of a description whose comparison may take long.
FILES = ("files", "target_file")


def _describe(row: IdentifiedItem) -> DescribedRow:
    """Return the description of a row.

    :raises RowError: also if the method of the host raises another exception.
    """
    try:
        return describe(row)
    except RowError:
        raise
    except Exception as error:
        raise RowError(name_row(row), None, describe_error(error)) from error


def _make_wrong(row: IdentifiedItem, error: StorageError) -> Difference:
    """Return the difference of a row that cannot be compared with its item."""
    kind = FOREIGN if isinstance(error, ForeignIdentifier) else WRONG
    name = name_row(row)
    return Difference(kind, name, row.ibi, str(error).removeprefix(f"{name}: "))
