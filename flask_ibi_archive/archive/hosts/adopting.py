"""Assigns identifiers and items to stored rows that have no identifiers.

These rows are older than the identifier columns of their table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Select,
    func,
    inspect,
    literal,
    literal_column,
    select,
    true,
    tuple_,
)
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Mapper, Session

from flask_ibi_archive.archive.hosts.assigning import assign_stored, begin_locking, bind, is_key_in
from flask_ibi_archive.archive.hosts.flushes import RowWriter
from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem, name_row
from flask_ibi_archive.archive.items.bulk import renew_plans
from flask_ibi_archive.archive.items.file_io import Content, Readable, copy_and_measure
from flask_ibi_archive.archive.items.file_store import FileStore, Staging
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations.context import OperationContext
from flask_ibi_archive.errors import IBIError, RowError, StorageError
from flask_ibi_archive.server.database.database_errors import is_write_conflict

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The number of rows that are adopted together.
BATCH = 1000
#: The date of the first identifier of a dry run, in POSIX seconds: the year 2999. These identifiers
#: are never stored.
DRY_RUN_DATE = 32_472_144_000


@dataclass(slots=True)
class Adoption:
    """The result of an adoption.

    :param adopted: the number of rows that got identifiers.
    :param refused: the number of rows that could not be adopted.
    """

    adopted: int = 0
    refused: int = 0


@dataclass
class Adopter:
    """Adopts the rows of a model that have no identifiers.

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
    _dates: Iterator[int] = field(default_factory=partial(count, DRY_RUN_DATE))

    def run(self) -> Adoption:
        """Adopt the rows.

        Rows to which adopted rows refer as previous editions or translations are adopted too.

        :raises StorageError: if the condition is wrong, or if the table has no identifier columns.
            Nothing was changed.
        :raises NotReady: if other transactions lock the database for too long.
        :raises MintingError: if no identifiers can be minted. With ``resume``, the batches before
            the error are committed.
        """
        context = bind(self.archive.context, self.session)
        assert context.session is not None
        context.session.check_model(self.session, self.model)
        context.get_minter()  # reports wrong settings before anything is read
        done, total = 0, self._count()
        try:
            for rows in self._read_batches():
                self._adopt_batch(context, rows)
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

    def _select(self, *columns: Any) -> Select[Any]:
        """Select columns of the rows to adopt: they have no identifiers and fulfil ``where``."""
        statement = (
            select(*columns)
            .select_from(self.model)
            .where(self.model.ibi_rep.is_(None), self.model.ibi_ibip.is_(None))
        )
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
            if is_write_conflict(error):
                raise self.archive.database.explain(error) from error
            reason = " ".join(str(error.orig).split())
            raise StorageError(
                f"the rows of {self.model.__name__} can't be selected: {reason}; check --where, "
                "and that the table has the columns ibi_rep and ibi_ibip"
            ) from error

    def _read_batches(self) -> Iterator[Sequence[IdentifiedItem]]:
        """Lock rows and yield them in batches, in the order of their primary keys.

        Until the end of the transaction, nobody else can change or delete the rows of a batch, or
        assign identifiers. Each batch begins after the last key of the batch before, because rows
        that could not be adopted would be selected again.
        """
        mapper: Mapper[Any] = inspect(self.model)
        key = mapper.primary_key
        unread: ColumnElement[bool] = true()
        while True:
            begin_locking(self.session, mapper)
            keys = self.session.execute(
                self._select(*key)
                .where(unread)
                .order_by(*key)
                .limit(BATCH)
                .with_for_update(of=mapper.columns["ibi_rep"])
            ).all()
            if not keys:
                return
            yield (
                self.session.scalars(
                    select(self.model).where(is_key_in(mapper, map(tuple, keys))).order_by(*key)
                )
                .unique()
                .all()
            )
            last = [
                literal(value, column.type) for value, column in zip(keys[-1], key, strict=True)
            ]
            unread = tuple_(*key) > tuple_(*last)

    # --- writing ---------------------------------------------------------------------------------

    def _adopt_batch(self, context: OperationContext, rows: Sequence[IdentifiedItem]) -> None:
        """Adopt rows together. If this fails, adopt them one by one, to find the wrong rows."""
        try:
            self._adopt(context, rows)
        except RowError:
            for row in rows:
                if row.ibi is not None:
                    continue  # an earlier row refers to this row
                try:
                    self._adopt(context, [row])
                except RowError as error:
                    self.result.refused += 1
                    self.report(error)

    def _adopt(self, context: OperationContext, rows: Sequence[IdentifiedItem]) -> None:
        """Assign identifiers to rows, and write their items.

        :raises RowError: if a row cannot be adopted. Then no row is adopted.
        """
        minted: list[Minted] = []

        def mint(context: OperationContext, number: int) -> list[Minted]:
            minted.extend(new := (self._invent if self.dry_run else _mint)(context, number))
            return new

        renew_plans(self.session.connection())
        with self.session.begin_nested(), self._staging(context) as staging:
            assign_stored(context, rows, mint)
            try:
                RowWriter(context, staging, mint).write(rows)
            except IBIError:
                raise
            except Exception as error:
                if isinstance(error, DBAPIError) and is_write_conflict(error):
                    raise
                raise RowError(name_row(rows[0]), None, _describe_error(error)) from error
        self.result.adopted += len(minted)

    def _staging(self, context: OperationContext) -> AbstractContextManager[Staging]:
        if self.dry_run:
            return nullcontext(MeasuringStaging(self.archive.files_folder))
        return context.staging()

    def _invent(self, context: OperationContext, number: int) -> list[Minted]:
        """Return identifiers for a dry run. They are never issued."""
        minter = context.get_minter()
        return [minter.build(Fraction(next(self._dates))) for _ in range(number)]


class MeasuringStaging(Staging):
    """A staging folder for a dry run, which only reads the files."""

    def __init__(self, store: FileStore) -> None:
        super().__init__(store, lambda sha256: None)

    def add_stream(self, stream: Readable) -> Content:
        """Return the checksum and the size of a stream.

        :raises OSError: if the stream cannot be read.
        """
        return copy_and_measure(stream, None)

    def move_to_store(self, content: Content) -> None:
        """Do nothing."""


def _mint(context: OperationContext, number: int) -> list[Minted]:
    """Return new identifiers, almost without a wait, as :meth:`Minter.for_flush` does.

    But if a wait is necessary, it may be as long as outside of a flush.
    """
    minter = context.get_minter()
    fast_minter = minter.for_flush(number)
    fast_minter.max_wait = minter.max_wait
    return context.mint_many(number, fast_minter)


def _describe_error(error: Exception) -> str:
    return f"ibi_record() raised {type(error).__name__}: {' '.join(str(error).split())}"
