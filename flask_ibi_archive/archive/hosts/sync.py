"""Compares the rows of a model with their items, and repairs the differences.

Bulk statements, deletions by the database, and restores of single tables change rows without their
items. Rows that are older than the identifier columns have no items. ``compare`` looks at all rows,
and then at the items whose rows are missing. ``adopt`` looks only at the rows without identifiers,
and always repairs them.

The rows are read in batches, in the order of their primary keys. A batch is one transaction. Rows
that differ are read again and locked before they are repaired: until the end of the batch, no
session can change or delete them. If an item has the key of a row without identifiers, the row gets
back the identifier of this item, unless another row has this identifier now. Otherwise the row gets
a new identifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Mapper, Session

from flask_ibi_archive.archive.hosts import flush, models
from flask_ibi_archive.archive.hosts.models import IdentifiedItem, inspect_row, name_row
from flask_ibi_archive.archive.hosts.row_writer import Removal, RowWriter
from flask_ibi_archive.archive.items import ownership, write
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations import OperationContext
from flask_ibi_archive.archive.items.sessions import HostSession, WritingSession, where_written
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.core.records.record import Tombstone
from flask_ibi_archive.errors import IBIError, NotReady, RowError, StorageError, one_line
from flask_ibi_archive.server.commands.group import CheckFailed
from flask_ibi_archive.server.database.database import is_write_conflict
from flask_ibi_archive.server.database.dialects import batched, is_one_of

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

# The kinds of differences.
NO_IDENTIFIER = "no identifier"
LOST = "lost identifier"
NO_ITEM = "no item"
NO_ROW = "no row"
RECORD = "record"
WRONG = "wrong row"

#: The number of rows of a batch.
BATCH = 200
#: The number of values in one statement.
VALUES = 1000
#: The number of rows of a model that ``flask ibi check`` compares with their items.
CHECKED_ROWS = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """A row and an item that differ, or a row without an item, or an item without a row.

    :param kind: one of the kinds above.
    :param row: the class and the primary key of the row, or the key of a missing row.
    :param ibi: the identifier of the item; None if the row has no item.
    :param text: the difference in words.
    :param repaired: whether the difference was repaired.
    :param reason: why it could not be repaired, or None.
    """

    kind: str
    row: str
    ibi: str | None
    text: str
    repaired: bool = False
    reason: str | None = None


def refresh(row: IdentifiedItem) -> None:
    """Write the item of a row again; see :meth:`IBIArchive.refresh`."""
    session = flush.find_session(row)
    session.flush()
    if row.ibi is None:
        context = models.bind(session)
        for item in find_lost(context, session, [row]).values():
            advice = f"run: flask ibi adopt {models.name_model(inspect_row(row).mapper)}"
            reason = f"the row has lost its identifier {item.ibi}; to give it back, {advice}"
            raise RowError(name_row(row), None, reason)
        write_identifiers(session, [row], flush.mint(context, 1))
    session.refresh(row)
    flush.write_rows(session, [row])


# --- identifiers of stored rows ------------------------------------------------------------------


def connect(session: Session, mapper: Mapper[Any]) -> sa.Connection:
    """Return the connection of a session to the table with the identifiers of a model."""
    return session.connection(bind_arguments=where_written(mapper))


def has_no_identifiers(host_table: Any) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a row has no identifiers.

    :param host_table: a table or a model of the host.
    """
    columns = getattr(host_table, "c", host_table)
    return sa.and_(columns.ibi_rep.is_(None), columns.ibi_ibip.is_(None))


def find_lost(
    context: OperationContext, session: Session, rows: Iterable[IdentifiedItem]
) -> dict[int, ownership.KeyHolder]:
    """Find the items and reservations of rows that have lost their identifiers, by their keys.

    If another row has the identifiers now, the item or reservation is left out.

    :param rows: rows without identifiers.
    :returns: the items and reservations by the ``id()`` of the row.
    """
    by_key = {models.find_row_key(row): row for row in rows}
    with context.reading() as store:
        holders = ownership.find_holders(store.connection, store.archive_id, by_key)
    of_mapper: dict[Mapper[Any], list[ownership.KeyHolder]] = {}
    for key, holder in holders.items():
        of_mapper.setdefault(inspect_row(by_key[key]).mapper, []).append(holder)
    return {
        id(by_key[holder.key]): holder
        for mapper, candidates in of_mapper.items()
        for holder in find_uncarried(session, mapper, candidates)
    }


def find_uncarried(
    session: Session, mapper: Mapper[Any], holders: Iterable[ownership.KeyHolder]
) -> list[ownership.KeyHolder]:
    """Return those items and reservations whose identifiers are in no row of the host's table."""
    forms = [models.get_table(mapper).c[name] for name in models.FORMS]
    uncarried: list[ownership.KeyHolder] = []
    for part in batched(holders, VALUES):
        texts = [text for holder in part for text in holder.identifiers]
        is_carrier = sa.or_(*(is_one_of(form, texts) for form in forms))
        rows = connect(session, mapper).execute(sa.select(*forms).where(is_carrier))
        carried = {text for row in rows for text in row}
        uncarried += [holder for holder in part if carried.isdisjoint(holder.identifiers)]
    return uncarried


def write_identifiers(
    session: Session, rows: Sequence[IdentifiedItem], forms: Sequence[Minted | ownership.KeyHolder]
) -> None:
    """Write identifiers into stored rows that have none, without a flush.

    Columns that an UPDATE would set automatically, such as the time of the last change, keep their
    values, because the content of the rows does not change.

    :raises RowError: if another transaction has changed or deleted a row.
    """
    for row, form in zip(rows, forms, strict=True):
        mapper = inspect_row(row).mapper
        table = models.get_table(mapper)
        values: dict[str, Any] = {
            column.name: column for column in table.columns if column.onupdate is not None
        }
        key = models.get_key_attributes(mapper).items()
        is_row = (column == getattr(row, name) for name, column in key)
        statement = (
            sa.update(table)
            .where(*is_row, has_no_identifiers(table))
            .values({**values, "ibi_rep": form.rep, "ibi_ibip": form.ibip})
        )
        if connect(session, mapper).execute(statement).rowcount != 1:
            reason = "another transaction has changed or deleted the row; try again"
            raise RowError(name_row(row), None, reason)
        flush.set_identifiers(row, form.rep, form.ibip)
        flush.remember(session, row)


# --- the comparison ------------------------------------------------------------------------------


@dataclass
class Sync:
    """Compares the rows of a model with their items.

    :param adopt: whether only the rows without identifiers are compared; they are repaired.
    :param repair: whether differences are repaired. Each batch is committed.
    :param dry_run: whether the repairs are tried and rolled back at the end. No identifier is
        minted, and no file is stored.
    :param where: an SQL condition that selects rows; None selects all rows.
    :param reason: the reason in the tombstones of items whose rows are missing.
    :param progress: called with the number of rows that are done, and their total number.
    :ivar rows: the number of rows that were compared.
    :ivar items: the number of items and reservations of the table.
    """

    archive: Archive
    model: type[IdentifiedItem]
    adopt: bool = False
    repair: bool = False
    dry_run: bool = False
    where: str | None = None
    reason: str = models.DEFAULT_REASON
    progress: Callable[[int, int], None] = lambda done, total: None
    rows: int = 0
    items: int = 0
    _invented: Iterator[Minted] | None = None

    def __post_init__(self) -> None:
        self.repair = self.repair or self.adopt
        self.host: Session = models.require_session(self.archive).current()
        self.session: WritingSession = WritingSession(self.host)
        self.context: OperationContext = models.bind(self.session)
        self.mapper: Mapper[Any] = sa.inspect(self.model)
        if self.adopt:
            self.context.get_minter()  # reports wrong settings first

    def run(self) -> Iterator[Difference]:
        """Compare the rows, and yield the differences.

        :raises StorageError: if the rows cannot be read: the condition is wrong, or the table has
            no identifier columns.
        :raises NotReady: if other transactions lock the database for too long. Also after other
            errors, the batches before the error are committed.
        :raises MintingError: if a row needs an identifier, and none can be minted.
        """
        assert self.context.session is not None
        self.context.session.check_model(self.session, self.model)
        try:
            total = self._count()
            for keys in self._read_keys():
                yield from self._compare(keys)
                self.rows += len(keys)
                self._end_batch()
                self.progress(self.rows, max(total, self.rows))
            if not self.adopt:
                yield from self._compare_items()
        except DBAPIError as error:
            raise self.archive.database.explain(error) from error
        finally:
            self.session.close()

    def count(self) -> tuple[int, int, int]:
        """Return three numbers: rows without identifiers, rows with identifiers, and items.

        The items include reservations. If all is right, the second number equals the third.
        """
        table, count = models.get_table(self.mapper), sa.select(sa.func.count())
        without = count.select_from(self.model).where(has_no_identifiers(self.model))
        having = count.select_from(table).where(sa.not_(has_no_identifiers(table)))
        rows = connect(self.session, self.mapper).scalar(having)
        return self.session.scalar(without) or 0, rows or 0, self._count_items()

    def sample(self) -> list[Difference]:
        """Compare the rows with the highest primary keys, without files; return the differences."""
        keys = [column.desc() for column in self.mapper.primary_key]
        statement = sa.select(self.model).order_by(*keys).limit(CHECKED_ROWS)
        rows = self.session.scalars(statement).unique().all()
        return [difference for _, difference in self._examine(rows, with_files=False)]

    # --- rows ------------------------------------------------------------------------------------

    def _select(self, *columns: Any) -> sa.Select[Any]:
        statement = sa.select(*columns).select_from(self.model)
        if self.adopt:
            statement = statement.where(has_no_identifiers(self.model))
        if self.where is not None:
            statement = statement.where(sa.literal_column(f"({self.where})"))
        return statement

    def _count(self) -> int:
        """Return the number of rows, and store the number of items in this object.

        :raises StorageError: if the condition is wrong, or if the identifier columns are missing.
        """
        try:
            form = self.mapper.columns["ibi_rep"]
            rows = self.session.execute(self._select(sa.func.count(), sa.func.max(form))).one()
        except DBAPIError as error:
            if is_write_conflict(error):
                raise
            others = "--where, and " if self.where else ""
            raise StorageError(
                f"the rows of {self.model.__name__} can't be selected: {one_line(error.orig)}; "
                f"check {others}that the table has the columns ibi_rep and ibi_ibip"
            ) from error
        self.items = 0 if self.adopt else self._count_items()
        return int(rows[0])

    def _count_items(self) -> int:
        """Return the number of items and reservations whose keys name the table."""
        with self.context.reading() as store:
            prefix = models.build_prefix(self.mapper)
            return ownership.count_holders(store.connection, store.archive_id, prefix)

    def _read_keys(self) -> Iterator[list[Any]]:
        """Yield batches of the primary keys of the rows, in ascending order.

        Each batch begins after the last key of the batch before. Therefore the caller may commit
        between batches, and rows that could not be repaired are not selected again.
        """
        key = self.mapper.primary_key
        statement = self._select(*key).order_by(*key).limit(BATCH)
        batch = statement
        while keys := [tuple(row) for row in self.session.execute(batch)]:
            yield keys
            batch = statement.where(sa.tuple_(*key) > keys[-1])

    def _load(self, keys: Sequence[Any], lock: bool = False) -> Sequence[IdentifiedItem]:
        """Return the rows with some primary keys.

        :param lock: whether the rows are locked until the end of the batch.
        """
        key, form = self.mapper.primary_key, self.mapper.columns["ibi_rep"]
        statement = sa.select(self.model).where(sa.tuple_(*key).in_(keys)).order_by(*key)
        if lock:
            # SQLite has no locks of rows: a statement that changes nothing waits for other writers
            nothing = sa.update(form.table).where(sa.false()).values({"ibi_rep": form})
            connect(self.session, self.mapper).execute(nothing)
            statement = statement.with_for_update(of=form)
        statement = statement.execution_options(populate_existing=True)
        return self.session.scalars(statement).unique().all()

    def _end_batch(self) -> None:
        self.host.rollback()  # on SQLite, its reading would block the commit
        if self.dry_run:
            return
        if self.repair:
            self.session.commit()
        else:
            self.session.rollback()
        self.session.expunge_all()

    def _compare(self, keys: Sequence[Any]) -> Iterator[Difference]:
        """Compare rows with their items, repair them if asked, and yield the differences."""
        if not self.adopt:
            found = self._examine(self._load(keys))
            keys = [inspect_row(row).identity for row, _ in found]
            if not keys:
                return
        if not self.dry_run:
            self.session.rollback()
            self.session.expunge_all()
        # another transaction may have changed these rows and their items
        found = self._examine(self._load(keys, lock=True))
        if self.repair:
            yield from self._repair([(row, one) for row, one in found if one.kind != WRONG])
            yield from (one for _, one in found if one.kind == WRONG)
        else:
            yield from (one for _, one in found)

    def _examine(
        self, rows: Sequence[IdentifiedItem], with_files: bool = True
    ) -> list[tuple[IdentifiedItem, Difference]]:
        """Return each row that differs from its item, with the difference."""
        found: list[tuple[IdentifiedItem, Difference]] = []
        lost = find_lost(self.context, self.session, [row for row in rows if row.ibi is None])
        for row in rows:
            if id(row) in lost:
                ibi = lost[id(row)].ibi
                text = f"the row has lost its identifier {ibi}"
                found.append((row, Difference(LOST, name_row(row), ibi, text)))
            elif row.ibi is None:
                text = "the row has no identifier and no item"
                found.append((row, Difference(NO_IDENTIFIER, name_row(row), None, text)))
        if not self.adopt:
            found += self._plan([row for row in rows if row.ibi is not None], with_files)
        return found

    def _plan(
        self, rows: Sequence[IdentifiedItem], with_files: bool
    ) -> Iterator[tuple[IdentifiedItem, Difference]]:
        """Yield each row that has identifiers and differs from its item, with the difference."""
        try:
            with (
                as_row_error(rows),
                self.context.folder.staging() as staging,
                self.context.reading() as store,
            ):
                writer = RowWriter(self.context, store, staging)
                writer.plan(rows, with_files=with_files)
                differences = [*writer.find_differences()]
        except RowError as error:
            if len(rows) > 1:
                for row in rows:
                    yield from self._plan([row], with_files)
                return
            [row] = rows
            yield row, Difference(WRONG, name_row(row), row.ibi, explain(row, error))
            return
        for described, names in differences:
            kind, text = NO_ITEM, f"the identifier {described.row.ibi} of the row has no item"
            if names is not None:
                is_item = described.ibi in writer.items
                item = "the item" if is_item else "the reserved identifier"
                kind, text = RECORD, f"{item} {described.row.ibi} differs in: {names}"
            yield described.row, Difference(kind, described.name, described.row.ibi, text)

    # --- repairs ---------------------------------------------------------------------------------

    def _repair(self, found: Sequence[tuple[IdentifiedItem, Difference]]) -> Iterator[Difference]:
        """Repair locked rows together, or one by one if this fails, and yield the differences."""
        rows, differences = [row for row, _ in found], [one for _, one in found]
        if not rows:
            return
        try:
            others = self._write(rows)
        except RowError as error:
            if len(rows) > 1:
                for pair in found:
                    yield from self._repair([pair])
                return
            yield replace(differences[0], reason=explain(rows[0], error))
            return
        yield from (replace(one, repaired=True) for one in (*differences, *others))

    def _write(self, rows: Sequence[IdentifiedItem]) -> list[Difference]:
        """Assign identifiers to rows, and write the items of the rows.

        If a row refers to another row without identifiers, that row gets identifiers and an item,
        too.

        :returns: the differences of the other rows.
        :raises RowError: if a row cannot be repaired. Then no row is.
        """
        without: list[IdentifiedItem] = []
        with self.context.reading() as store:
            write.renew_plans(store.connection)
        try:
            with as_row_error(rows), self.session.begin_nested(), self.context.staging() as staging:
                others = self._find_referenced(rows)
                rows = [*rows, *others]
                without = [row for row in rows if row.ibi is None]
                others_found = self._examine(others)
                lost = find_lost(self.context, self.session, without)
                count = len(without) - len(lost)
                minted = self._mint(count) if count else []
                new = iter(minted)
                forms = [lost.get(id(row)) or next(new) for row in without]
                write_identifiers(self.session, without, forms)
                with self.context.transaction() as store:
                    reps = {forms.rep for forms in minted}
                    writer = RowWriter(self.context, store, staging, reps)
                    writer.plan(rows)
                    writer.write()
                if not self.dry_run:
                    writer.move_files()
                return [one for _, one in others_found]
        except BaseException:
            for row in without:
                flush.set_identifiers(row, None, None)
            raise

    def _find_referenced(self, rows: Sequence[IdentifiedItem]) -> list[IdentifiedItem]:
        """Return and lock the other rows to which rows refer, if they have no identifiers."""
        found: dict[int, IdentifiedItem] = {id(row): row for row in rows}
        for row in (waiting := list(rows)):
            for _, other in models.find_references(row.ibi_record()):
                if other.ibi is None and id(other) not in found and inspect_row(other).persistent:
                    self.session.refresh(other, with_for_update={"of": type(other)})
                    found[id(other)] = other
                    waiting.append(other)
        return [*found.values()][len(rows) :]

    def _mint(self, count: int) -> list[Minted]:
        minter = self.context.get_minter()
        if self.dry_run:  # invented identifiers are never issued
            self._invented = self._invented or minter.invent()
            return list(islice(self._invented, count))
        return self.context.mint_many(count, minter.for_many(count))

    # --- items -----------------------------------------------------------------------------------

    def _compare_items(self) -> Iterator[Difference]:
        """Yield the items and reservations without rows. With ``repair``, delete or release them.

        An item whose key is that of a row without identifiers has a row: it has lost the
        identifiers.
        """
        archive_id, prefix = self.context.archive.id, models.build_prefix(self.mapper)
        for holders in ownership.read_holders(self._connect_to_items, archive_id, prefix):
            orphans = find_uncarried(self.session, self.mapper, holders)
            if orphans:
                lost = self._read_keys_without_identifiers()
                keys = [orphan.key for orphan in orphans if orphan.key not in lost]
                # another transaction may have deleted a row and its item in the meantime
                present = {*ownership.list_holders(self._connect_to_items(), archive_id, keys)}
                orphans = [orphan for orphan in orphans if orphan in present]
            if self.repair:
                deleted = [orphan for orphan in orphans if orphan.is_deleted]
                ownership.free_keys(self._connect_to_items(), archive_id, deleted)
            public = [orphan for orphan in orphans if not orphan.is_deleted]
            errors = self._remove(public) if self.repair else {}
            for orphan in public:
                item = "the reserved identifier" if orphan.item_id is None else "the item"
                text = f"the row of {item} {orphan.ibi} is missing"
                reason = errors.get(orphan.key)
                is_repaired = self.repair and reason is None
                yield Difference(NO_ROW, orphan.key, orphan.ibi, text, is_repaired, reason)
            self._end_batch()

    def _connect_to_items(self) -> sa.Connection:
        assert self.context.session is not None
        return self.context.session.connection()

    def _read_keys_without_identifiers(self) -> set[str]:
        """Return the keys of all rows of the table that have no identifiers."""
        key = models.get_key_attributes(self.mapper).values()
        statement = sa.select(*key).where(has_no_identifiers(models.get_table(self.mapper)))
        rows = connect(self.session, self.mapper).execute(statement)
        return {models.build_key(self.mapper, row) for row in rows}

    def _remove(self, orphans: Sequence[ownership.KeyHolder]) -> dict[str, str]:
        """Delete items whose rows are missing, and release such reservations.

        :returns: the reason for each item that cannot be deleted, by the key of its row; empty if
            all were deleted.
        """
        removals = [Removal(one.key, one.ibi, Tombstone(self.reason)) for one in orphans]
        try:
            with self.context.staging() as staging, self.context.transaction() as store:
                writer = RowWriter(self.context, store, staging)
                writer.plan((), removals)
                writer.write()
        except StorageError as error:
            if len(orphans) == 1:
                return {orphans[0].key: str(error)}
            return {key: text for one in orphans for key, text in self._remove([one]).items()}
        return {}


@contextmanager
def as_row_error(rows: Sequence[IdentifiedItem]) -> Iterator[None]:
    """In the ``with`` block, replace errors about rows or of ``ibi_record()`` by a RowError."""
    try:
        yield
    except Exception as error:
        is_other = isinstance(error, IBIError) and not isinstance(error, StorageError)
        if is_other or isinstance(error, RowError | NotReady | DBAPIError):
            raise
        raise RowError(name_row(rows[0]), None, explain(rows[0], error)) from error


def explain(row: IdentifiedItem, error: Exception) -> str:
    """Return the reason why a row cannot be stored as an item."""
    if isinstance(error, IBIError):
        return str(error).removeprefix(f"{name_row(row)}: ")
    return f"ibi_record() raised {type(error).__name__}: {' '.join(str(error).split())}"


# --- flask ibi check -----------------------------------------------------------------------------


def find_models(host: HostSession) -> list[type[IdentifiedItem]]:
    """Return one model with IdentifiedItem for each table in the database of the host's session."""
    found: dict[str, type[IdentifiedItem]] = {}
    session = host.current()
    for mapper in sorted(models.identified_models, key=lambda one: len([*one.iterate_to_root()])):
        with suppress(SQLAlchemyError):  # the session has no database for this model
            connection, table = connect(session, mapper), models.get_table(mapper)
            if sa.inspect(connection).has_table(table.name, table.schema):
                found.setdefault(table.fullname, mapper.class_)
    return [found[name] for name in sorted(found)]


def check_session(host: HostSession) -> str:
    """Check that operations on items can write with the session of the host; return a message."""
    item = Item.__table__
    try:
        with host.savepoint() as connection:
            connection.execute(sa.update(Item).where(sa.false()).values(state=item.c.state))
    except (SQLAlchemyError, StorageError) as error:
        reason = one_line(getattr(error, "orig", None) or error)
        raise CheckFailed(
            f"the session can't write items: {reason}; a session that chooses between databases "
            "must choose the one for writing if get_bind() gets an UPDATE statement as its clause"
        ) from error
    finally:
        host.current().rollback()
    return "operations on items can write with the session of the app"


def check_rows(archive: Archive, model: type[IdentifiedItem]) -> str:
    """Compare the numbers of rows and items of a model, and some rows with their items.

    Return a message that everything is right.
    """
    name = models.name_model(sa.inspect(model))
    sync = Sync(archive, model)
    try:
        without, rows, items = sync.count()
        differences = sync.sample()
    except SQLAlchemyError as error:
        reason = one_line(getattr(error, "orig", error))  # without the statement
        raise CheckFailed(f"the rows of {name} can't be read: {reason}") from error
    finally:
        sync.session.close()
    advice = f"run: flask ibi compare {name}"
    if without and items > rows:
        raise CheckFailed(f"{without} rows of {name} have lost their identifiers; {advice}")
    if without:
        advice = f"run: flask ibi adopt {name}"
        raise CheckFailed(f"{without} rows of {name} have no identifiers; {advice}")
    if rows != items:
        raise CheckFailed(f"{name} has {rows} rows, but {items} items; {advice}")
    if differences:
        raise CheckFailed(f"{differences[0].row} of {name}: {differences[0].text}; {advice}")
    compared = min(rows, CHECKED_ROWS)
    return f"{name} has {rows} rows and items; last rows that were compared: {compared}"
