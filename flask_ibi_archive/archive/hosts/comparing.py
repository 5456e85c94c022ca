"""Compares the rows of a model with their items, and repairs the differences.

Bulk statements, deletions by the database, and restores of single tables change rows without their
items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, inspect, or_, select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Mapper, Session

from flask_ibi_archive.archive.hosts.adopting import Adopter, explain_read
from flask_ibi_archive.archive.hosts.assigning import clear_identifiers
from flask_ibi_archive.archive.hosts.current_archive import bind, check_model, connect_to_items
from flask_ibi_archive.archive.hosts.differences import (
    FOREIGN,
    NO_ROW,
    Difference,
    find_differences,
)
from flask_ibi_archive.archive.hosts.identified_item import (
    DEFAULT_REASON,
    IdentifiedItem,
    inspect_row,
    name_row,
)
from flask_ibi_archive.archive.hosts.orphans import read_orphans, remove_orphans
from flask_ibi_archive.archive.hosts.row_keys import (
    build_prefix,
    connect_to_rows,
    get_table,
    has_no_identifiers,
)
from flask_ibi_archive.archive.hosts.row_locks import lock_keys, read_batches, read_rows
from flask_ibi_archive.archive.items.operations import OperationContext
from flask_ibi_archive.archive.items.write import KeyHolder, count_holders, free_keys
from flask_ibi_archive.errors import RowError, StorageError

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The number of rows that are compared together.
BATCH = 500


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
        :raises StorageError: if the rows cannot be read, for example because the identifier columns
            are missing.
        """
        check_model(self._context, self.model)
        try:
            self.session.execute(select(get_table(self._mapper)).limit(1))
        except DBAPIError as error:
            self.session.rollback()
            raise explain_read(self.archive, self.model, error) from error
        self.items = self._count_items()
        rows = self.session.scalar(select(func.count()).select_from(self.model)) or 0
        try:
            for batch in self._read_batches():
                yield from self._compare(batch)
                self.rows += len(batch)
                self._end_batch()
                self.progress(self.rows, max(rows, self.rows) + self.items)
            for orphans in read_orphans(self._context, self._mapper):
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
        connection = connect_to_rows(self.session, self._mapper)
        with_identifier = select(func.count()).select_from(table).where(has_identifier)
        return (
            self.session.scalar(count.where(has_no_identifiers(self.model))) or 0,
            connection.scalar(with_identifier) or 0,
            self._count_items(),
        )

    def sample(self, count: int) -> list[Difference]:
        """Return the differences of the rows with the highest primary keys, except their files."""
        keys = [column.desc() for column in self._mapper.primary_key]
        rows = self.session.scalars(select(self.model).order_by(*keys).limit(count)).unique().all()
        return [one for _, one in find_differences(self._context, rows, with_files=False)]

    def _count_items(self) -> int:
        """Return the number of items and reservations of the table."""
        connection, prefix = connect_to_items(self._context), build_prefix(self._mapper)
        return count_holders(connection, self._context.archive.id, prefix)

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
        statement = select(*key).select_from(self.model)
        for keys in read_batches(
            lambda batch: self.session.execute(batch).all(), statement, key, BATCH
        ):
            yield read_rows(self.session, self._mapper, [tuple(one) for one in keys])

    def _compare(self, rows: Sequence[IdentifiedItem]) -> Iterator[Difference]:
        """Compare rows, and repair them."""
        different = [row for row, _ in find_differences(self._context, rows)]
        if not different:
            return
        # read these rows again, because another transaction may have changed them and their items
        found = find_differences(self._context, self._read_again(different))
        if self.repair and found:
            yield from self._repair(found)
        else:
            yield from (difference for _, difference in found)

    def _read_again(self, rows: Sequence[IdentifiedItem]) -> Sequence[IdentifiedItem]:
        """Read rows again in a new transaction; to repair them, lock them."""
        keys = [inspect_row(row).identity for row in rows]
        self.session.rollback()
        self.session.expunge_all()
        if self.repair:
            lock_keys(self.session, self._mapper, keys)
        return read_rows(self.session, self._mapper, keys)

    def _repair(self, found: Sequence[tuple[IdentifiedItem, Difference]]) -> Iterator[Difference]:
        """Repair rows that :meth:`_read_again` has locked, and yield their differences."""
        foreign = [row for row, difference in found if difference.kind == FOREIGN]
        clear_identifiers(self.session, foreign)
        rows = [row for row, _ in found]
        errors: list[RowError] = []
        Adopter(self.archive, self.session, self.model, report=errors.append).write_batch(rows)
        errors_by_row = {error.row: error for error in errors}
        remaining = {id(row) for row, _ in find_differences(self._context, rows)}
        for row, difference in found:
            error = errors_by_row.get(name_row(row))
            if id(row) not in remaining:
                yield replace(difference, repaired=True)
            elif error is None:
                yield difference
            else:
                reason = f"{error.field}: {error.reason}" if error.field else error.reason
                yield replace(difference, text=f"{difference.text}; not repaired: {reason}")

    # --- items -----------------------------------------------------------------------------------

    def _compare_orphans(self, orphans: Sequence[KeyHolder]) -> Iterator[Difference]:
        """Yield the items whose rows are missing; with ``repair``, delete them."""
        public = [one for one in orphans if not one.is_deleted]
        if self.repair:
            # a new row may get the primary key of a missing row
            deleted = [one for one in orphans if one.is_deleted]
            free_keys(connect_to_items(self._context), self._context.archive.id, deleted)
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
        try:
            with self._context.staging() as staging, self._context.transaction() as store:
                remove_orphans(self._context, store, staging, orphans, self.reason)
            return {}
        except StorageError as error:
            if len(orphans) == 1:
                return {orphans[0].key: error}
        errors = {}
        for one in orphans:
            errors.update(self._remove([one]))
        return errors
