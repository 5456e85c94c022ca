"""Assigns identifiers and items to stored rows that have no identifiers.

These rows are older than the identifier columns of their table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, func, inspect, literal_column, select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Mapper, Session

from flask_ibi_archive.archive.hosts.assigning import assign_stored
from flask_ibi_archive.archive.hosts.current_archive import bind, check_model, connect_to_items
from flask_ibi_archive.archive.hosts.identified_item import (
    IdentifiedItem,
    describe_error,
    name_row,
)
from flask_ibi_archive.archive.hosts.measuring_staging import MeasuringStaging
from flask_ibi_archive.archive.hosts.orphans import read_orphans
from flask_ibi_archive.archive.hosts.row_keys import (
    build_key,
    build_prefix,
    find_uncarried,
    get_key_attributes,
    has_no_identifiers,
    name_model,
)
from flask_ibi_archive.archive.hosts.row_locks import begin_locking, read_batches, read_rows
from flask_ibi_archive.archive.hosts.row_writer import RowWriter
from flask_ibi_archive.archive.items.files import Staging
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations import OperationContext
from flask_ibi_archive.archive.items.write import count_holders, find_holders, renew_plans
from flask_ibi_archive.errors import IBIError, RowError, StorageError, one_line
from flask_ibi_archive.server.database.database import is_write_conflict

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The number of rows that are adopted together.
BATCH = 1000


@dataclass(slots=True)
class Adoption:
    """The result of an adoption.

    :param adopted: the number of rows that got new identifiers.
    :param reconnected: the number of rows that got back the identifiers of their items.
    :param refused: the number of rows that could not be adopted.
    """

    adopted: int = 0
    reconnected: int = 0
    refused: int = 0


def explain_read(
    archive: Archive, model: type[IdentifiedItem], error: DBAPIError, others: str = ""
) -> IBIError:
    """Return the error to raise if the rows of a model cannot be read.

    :param others: what else the user should check, besides the columns.
    """
    if is_write_conflict(error):
        return archive.database.explain(error)
    return StorageError(
        f"the rows of {model.__name__} can't be selected: {one_line(error.orig)}; check {others}"
        "that the table has the columns ibi_rep and ibi_ibip"
    )


@dataclass
class Adopter:
    """Adopts the rows of a model that have no identifiers.

    Rows that have lost their identifiers get them back first: the keys of their items name them.

    :param where: an SQL condition that selects rows; None selects all rows.
    :param dry_run: if true, everything is rolled back, no identifier is minted, and no file is
        written.
    :param resume: if true, each batch is committed. Otherwise the adoption is one transaction.
    :param report: called with the error of each row that cannot be adopted.
    :param progress: called with the number of rows that are done, and the total number of rows.
    """

    archive: Archive
    session: Session
    model: type[IdentifiedItem]
    where: str | None = None
    dry_run: bool = False
    resume: bool = False
    report: Callable[[RowError], None] = lambda error: None
    progress: Callable[[int, int], None] = lambda done, total: None
    result: Adoption = field(default_factory=Adoption)
    _invented: Iterator[Minted] = field(init=False)
    _context: OperationContext = field(init=False)
    _mapper: Mapper[Any] = field(init=False)

    def __post_init__(self) -> None:
        self._mapper = inspect(self.model)
        self._context = bind(self.archive.context, self.session)
        self._invented = self._invent()

    def run(self) -> Adoption:
        """Adopt the rows.

        Rows to which adopted rows refer as previous editions or translations are adopted too.

        :raises StorageError: if the condition is wrong, if the table has no identifier columns, or
            if items have lost their rows. Nothing was changed; with ``resume``, the rows that have
            lost their identifiers have got them back.
        :raises NotReady: if other transactions lock the database for too long.
        :raises MintingError: if no identifiers can be minted. With ``resume``, the batches before
            the error are committed.
        """
        check_model(self._context, self.model)
        self._context.get_minter()  # reports wrong settings before anything is read
        done, total = 0, self._count()
        try:
            for rows in self._read_all():
                self.write_batch(rows)
                done += len(rows)
                if self.resume:
                    self.session.commit()
                self.session.expunge_all()
                self.progress(done, max(done, total))
            if self.dry_run:
                self.session.rollback()
            else:
                self.session.commit()
        except OperationalError as error:
            self.session.rollback()
            raise self.archive.database.explain(error) from error
        except BaseException:
            self.session.rollback()
            raise
        return self.result

    # --- reading ---------------------------------------------------------------------------------

    def _read_all(self) -> Iterator[Sequence[IdentifiedItem]]:
        """Yield the rows that have lost their identifiers, then the rows to adopt, in batches.

        :raises StorageError: if rows that have lost their identifiers may be among the rows to
            adopt, because their primary keys have changed.
        """
        archive_id, prefix = self._context.archive.id, build_prefix(self._mapper)
        if not count_holders(connect_to_items(self._context), archive_id, prefix):
            yield from self._read_batches(lambda keys: keys)
            return
        yield from self._read_batches(self._find_lost)
        is_checked = False
        for rows in self._read_batches(lambda keys: keys - self._find_lost(keys)):
            if not is_checked:
                self._check_orphans(rows[0])
                is_checked = True
            yield rows

    def _find_lost(self, keys: set[str]) -> set[str]:
        """Return the keys of rows that have lost their identifiers."""
        connection = connect_to_items(self._context)
        holders = find_holders(connection, self._context.archive.id, keys).values()
        return {holder.key for holder in find_uncarried(self.session, self._mapper, holders)}

    def _check_orphans(self, row: IdentifiedItem) -> None:
        for orphans in read_orphans(self._context, self._mapper):
            orphan = next((one for one in orphans if not one.is_deleted), None)
            if orphan is not None:
                raise StorageError(
                    f"the Archive has items whose rows are missing, such as {orphan.ibi} of the "
                    f"row {orphan.key}, and {name_row(row)} has no item; if this is the same row "
                    "with another primary key, write the identifiers of the item into ibi_rep and "
                    "ibi_ibip; if the rows were deleted, run: flask ibi compare "
                    f"{name_model(self._mapper)} --repair"
                )

    def _select(self, *columns: Any) -> Select[Any]:
        """Select columns of the rows to adopt: they have no identifiers and fulfil ``where``."""
        statement = select(*columns).select_from(self.model).where(has_no_identifiers(self.model))
        return (
            statement if self.where is None else statement.where(literal_column(f"({self.where})"))
        )

    def _count(self) -> int:
        """Return the number of rows to adopt.

        :raises StorageError: if the condition is wrong, or if the identifier columns are missing.
        """
        statement = self._select(func.count())
        try:
            return int(self.session.execute(statement).scalar_one())
        except DBAPIError as error:
            self.session.rollback()
            raise explain_read(self.archive, self.model, error, "--where, and ") from error

    def _read_batches(
        self, choose: Callable[[set[str]], set[str]]
    ) -> Iterator[Sequence[IdentifiedItem]]:
        """Lock rows and yield them in batches, in the order of their primary keys.

        Until the end of the transaction, nobody else can change or delete the rows of a batch, or
        assign identifiers. Rows that could not be adopted are not selected again.

        :param choose: returns the keys of the rows to yield.
        """
        mapper, key = self._mapper, self._mapper.primary_key
        statement = self._select(*key, *get_key_attributes(mapper).values())
        locking = statement.with_for_update(of=mapper.columns["ibi_rep"])

        def read(batch: Select[Any]) -> Sequence[Any]:
            begin_locking(self.session, mapper)
            return self.session.execute(batch).all()

        for found in read_batches(read, locking, key, BATCH):
            by_key = {build_key(mapper, row[len(key) :]): tuple(row[: len(key)]) for row in found}
            chosen = choose(set(by_key))
            keys = [primary_key for row_key, primary_key in by_key.items() if row_key in chosen]
            if keys:
                yield read_rows(self.session, mapper, keys)

    # --- writing ---------------------------------------------------------------------------------

    def write_batch(self, rows: Sequence[IdentifiedItem]) -> None:
        """Adopt rows together. If this fails, adopt them one by one, to find the wrong rows.

        The caller has locked the rows. The items of rows that have identifiers are written, too.
        """
        try:
            self._adopt(rows)
        except RowError:
            for row in rows:
                try:
                    self._adopt([row])
                except RowError as error:
                    self.result.refused += 1
                    self.report(error)

    def _adopt(self, rows: Sequence[IdentifiedItem]) -> None:
        """Assign identifiers to rows, and write their items.

        :raises RowError: if a row cannot be adopted. Then no row is adopted.
        """
        minted: list[Minted] = []

        def mint(context: OperationContext, number: int) -> list[Minted]:
            invented = islice(self._invented, number)
            new = list(invented) if self.dry_run else _mint(context, number)
            minted.extend(new)
            return new

        renew_plans(self.session.connection())
        with self.session.begin_nested(), self._staging() as staging:
            reconnected = assign_stored(self._context, rows, mint, reconnect=True)
            writer = RowWriter(self._context, staging, mint, reconnect=True)
            try:
                writer.write(rows)
            except IBIError:
                raise
            except Exception as error:
                if isinstance(error, DBAPIError) and is_write_conflict(error):
                    raise
                raise RowError(name_row(rows[0]), None, describe_error(error)) from error
        self.result.adopted += len(minted)
        self.result.reconnected += reconnected + writer.reconnected

    def _staging(self) -> AbstractContextManager[Staging]:
        if self.dry_run:
            return nullcontext(MeasuringStaging(self.archive.files_folder))
        return self._context.staging()

    def _invent(self) -> Iterator[Minted]:
        """Yield identifiers for a dry run. They are never issued."""
        yield from self._context.get_minter().invent()


def _mint(context: OperationContext, number: int) -> list[Minted]:
    """Return new identifiers, almost without a wait."""
    return context.mint_many(number, context.get_minter().for_many(number))
