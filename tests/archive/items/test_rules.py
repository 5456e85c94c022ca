"""The database itself enforces the eight rules, also for statements in plain SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DataError, IntegrityError
from support.databases import new_database

from flask_ibi_archive.archive.items.rules import (
    CONSTRAINTS,
    EXPLANATIONS,
    RULES,
    find_broken_rule,
    find_constraint,
)
from flask_ibi_archive.server.database.database import Database

pytestmark = pytest.mark.postgresql

REP = "sid.inpe.br/mtc-m19/2013/09.04.12.27.57"
IBIP = "8JMKD3MGP7W/3EPGUE5"
OTHER_REP = "sid.inpe.br/mtc-m18@80/2009/07.21.13.23"
OTHER_IBIP = "8JMKD3MGP8W/35MME4E"
LEGACY = "kLwpN6zZ/kfnE"
SERVICE = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
SERVICE_IBIP = "J8LNKB5R7W/3FUQHC5"
SECOND_SERVICE = "dpi.inpe.br/banon/1999/01.09.22.14"
THIRD_SERVICE = "iconet.com.br/banon/2009/09.09.22.01"


class Rows:
    """Writes rows in the transaction of a connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def run(self, sql: str, **values: Any) -> Any:
        """Run a statement and return the first column of its first row, None without rows."""
        result = self.connection.execute(text(sql), values)
        return result.scalar() if result.returns_rows else None

    def insert(self, table: str, **values: Any) -> Any:
        """Insert a row and return its id, None if the table has no id."""
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        returning = " RETURNING id" if table not in ("ibi_identifier", "ibi_file") else ""
        return self.run(f"INSERT INTO {table} ({names}) VALUES ({marks}){returning}", **values)

    def archive(self, rep: str = SERVICE, ibip: str | None = None) -> int:
        """Insert an Archive with its service item and return its id."""
        archive = self.insert(
            "ibi_archive",
            service_item_id=0,
            address="mtc-m16c.sid.inpe.br",
            platform_version="1",
            database="1",
        )
        service = self.item(archive, rep, ibip, is_service=True, transferable=False)
        self.run("UPDATE ibi_archive SET service_item_id = :s WHERE id = :a", s=service, a=archive)
        return int(archive)

    def service_of(self, archive: int) -> int:
        """Return the service item of an Archive."""
        return int(self.run("SELECT service_item_id FROM ibi_archive WHERE id = :a", a=archive))

    def item(
        self,
        archive: int,
        rep: str | None = REP,
        ibip: str | None = None,
        state: str = "Original",
        aliases: tuple[str, ...] = (),
        **columns: Any,
    ) -> int:
        """Insert an item with its identifiers and return its id."""
        moment = "2013-09-04 12:27:57+00:00"
        if self.connection.dialect.name == "sqlite":
            moment = "2013-09-04 12:27:57.000000"
        item = self.insert(
            "ibi_item",
            archive_id=archive,
            rep=rep,
            ibip=ibip,
            state=state,
            timestamp=moment,
            **columns,
        )
        for form, name in (("rep", rep), ("ibip", ibip)):
            if name is not None:
                self.identifier(item, name, form)
        for number, alias in enumerate(aliases, 1):
            self.identifier(item, alias, form_of(alias), number)
        return int(item)

    def archive_of(self, item: int) -> int:
        """Return the Archive of an item."""
        return int(self.run("SELECT archive_id FROM ibi_item WHERE id = :i", i=item))

    def member(self, archive: int, ibi: str, language: str | None, head: str | None = None) -> None:
        """Insert a member of a group of translations.

        :param head: the head of the group; None: the member itself.
        """
        self.run(
            "INSERT INTO ibi_translation (archive_id, ibi, head, language)"
            " VALUES (:archive, :ibi, :head, :language)",
            archive=archive,
            ibi=ibi,
            head=head or ibi,
            language=language,
        )

    def copy(self, archive: int, of: str = SERVICE, **columns: Any) -> int:
        """Insert a Copy that names an Archive."""
        return self.item(archive, state="Copy", original_archive=of, **columns)

    def identifier(self, item: int, name: Any, form: str = "rep", alias_no: int = 0) -> None:
        """Insert an identifier of an item."""
        self.run(
            "INSERT INTO ibi_identifier (text, archive_id, item_id, state, form, alias_no)"
            " SELECT :name, archive_id, id, state, :form, :alias_no FROM ibi_item WHERE id = :item",
            item=item,
            name=name,
            form=form,
            alias_no=alias_no,
        )

    def set(self, item: int, **values: Any) -> None:
        """Update columns of an item."""
        columns = ", ".join(f"{name} = :{name}" for name in values)
        self.run(f"UPDATE ibi_item SET {columns} WHERE id = :item_", item_=item, **values)

    def delete(self, item: int) -> None:
        """Delete an item physically."""
        self.run("DELETE FROM ibi_item WHERE id = :item", item=item)

    def hold(self) -> None:
        """Check the deferred constraints now."""
        if self.connection.dialect.name == "sqlite":
            assert self.connection.execute(text("PRAGMA foreign_key_check")).all() == []
        else:
            self.run("SET CONSTRAINTS ALL IMMEDIATE")
            self.run("SET CONSTRAINTS ALL DEFERRED")


def form_of(name: str) -> str:
    """Return the form of one of the identifiers above."""
    if "Z" in name:
        return "legacy"
    return "rep" if name.count("/") > 1 else "ibip"


#: What is allowed before; it returns the number of the item or the Archive of the statement.
Before = Callable[[Rows], int]
Statement = Callable[[Rows, int], object]


@pytest.fixture(scope="module")
def shared(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database with the tables; each test rolls back its transaction."""
    with new_database(backend, tmp_path_factory.mktemp("rules"), ready=True) as uri:
        database = Database(uri)
        yield database
        database.close()


@pytest.fixture
def rows(shared: Database) -> Iterator[Rows]:
    with shared.engine.connect() as connection:
        yield Rows(connection)
        connection.rollback()


# --- what is allowed before


def nothing(rows: Rows) -> int:
    return 0


def item(*names: Any, **columns: Any) -> Before:
    """Return a function that adds an item to the first Archive, and returns the item."""
    return lambda rows: rows.item(rows.archive(), *names, **columns)


def beside(*names: Any, **columns: Any) -> Before:
    """Return a function that adds an item to the first Archive, and returns a second Archive."""

    def before(rows: Rows) -> int:
        first = rows.archive(SERVICE, SERVICE_IBIP)
        if names or columns:
            rows.item(first, *names, **columns)
        return rows.archive(SECOND_SERVICE)

    return before


def in_state(state: str, **columns: Any) -> Before:
    """Return a function that adds an item in a state, and returns its Archive."""

    def before(rows: Rows) -> int:
        first = rows.archive()
        rows.item(first, REP, IBIP, state, (LEGACY,), **columns)
        return first

    return before


def two_deleted(rows: Rows) -> int:
    first = rows.archive()
    rows.item(first, state="Deleted", aliases=(IBIP,))
    return rows.item(first, OTHER_REP, state="Deleted", aliases=(OTHER_IBIP,))


def original(rows: Rows) -> int:
    """Return an Original that has a Copy in another Archive."""
    found = rows.item(rows.archive(), REP, IBIP, aliases=(LEGACY,))
    rows.copy(rows.archive(SECOND_SERVICE), rep=REP, ibip=IBIP)
    return found


def copy(rows: Rows) -> int:
    """Return the Copy of an Original in another Archive."""
    rows.item(rows.archive(), REP, IBIP)
    return rows.copy(rows.archive(SECOND_SERVICE))


def copy_of_remote(rows: Rows) -> int:
    rows.archive()
    return rows.copy(rows.archive(SECOND_SERVICE), of=THIRD_SERVICE)


def item_of_second(rows: Rows) -> int:
    rows.archive()
    return rows.item(rows.archive(SECOND_SERVICE))


def service(rows: Rows) -> int:
    return rows.service_of(rows.archive(SERVICE, SERVICE_IBIP))


def chain(rows: Rows) -> int:
    """Return the second of two editions."""
    first = rows.archive()
    rows.item(first, REP, next_edition=OTHER_REP)
    return rows.item(first, OTHER_REP)


def member(stated: str, **columns: Any) -> Before:
    """Return a function that adds a member of a group of translations, perhaps with its item."""

    def before(rows: Rows) -> int:
        first = rows.archive()
        found = rows.item(first, REP, **columns) if columns else first
        rows.member(first, REP, stated)
        return found

    return before


# --- statements


def add(*names: Any, **columns: Any) -> Statement:
    return lambda rows, archive: rows.item(archive, *names, **columns)


def add_beside(*names: Any, **columns: Any) -> Statement:
    """Return a statement that adds an item to the Archive of another one."""
    return lambda rows, item: rows.item(rows.archive_of(item), *names, **columns)


def join(ibi: str, language: str | None, head: str | None = None) -> Statement:
    """Return a statement that adds a member to a group in the Archive of an item."""
    return lambda rows, item: rows.member(rows.archive_of(item), ibi, language, head)


def add_copy(**columns: Any) -> Statement:
    return lambda rows, archive: rows.copy(archive, **columns)


def change(**columns: Any) -> Statement:
    return lambda rows, item: rows.set(item, **columns)


def move(service: str) -> Statement:
    return lambda rows, item: rows.set(item, archive_id=rows.archive(service))


def alias(name: str, form: str) -> Statement:
    return lambda rows, item: rows.identifier(item, name, form, 1)


def take_identifier(old: str, new: str) -> Statement:
    sql = "UPDATE ibi_identifier SET text = :new WHERE text = :old AND item_id = :item"
    return lambda rows, item: rows.run(sql, new=new, old=old, item=item)


def lose_ibip(rows: Rows, item: int) -> None:
    rows.set(item, ibip=None)
    rows.run("DELETE FROM ibi_identifier WHERE text = :b AND item_id = :i", b=IBIP, i=item)


def rename(name: str) -> Statement:
    def statement(rows: Rows, item: int) -> None:
        rows.identifier(item, name)
        rows.set(item, rep=name)

    return statement


def name_third_archive(rows: Rows, item: int) -> None:
    rows.archive(THIRD_SERVICE)
    rows.set(item, original_archive=THIRD_SERVICE)


def add_archive(rows: Rows, service: int) -> int:
    columns = {"address": "a", "platform_version": "1", "database": "1"}
    return int(rows.insert("ibi_archive", service_item_id=service, **columns))


def add_transferable_service(rows: Rows, _: int) -> None:
    rows.item(add_archive(rows, 0), SERVICE, is_service=True, transferable=True)


def service_of_second(rows: Rows) -> int:
    return rows.service_of(rows.archive(SECOND_SERVICE))


def name_service(find: Statement) -> Statement:
    sql = "UPDATE ibi_archive SET service_item_id = :i WHERE id = :a"
    return lambda rows, archive: rows.run(sql, i=find(rows, archive), a=archive)


SECOND_ITEMS = [
    add(REP, OTHER_IBIP, "Deleted"),
    add(OTHER_REP, IBIP, "Deleted"),
    *(add(OTHER_REP, OTHER_IBIP, "Deleted", (alias,)) for alias in (LEGACY, REP, IBIP)),
]
STATES = [in_state(state) for state in ("Original", "Deleted")]
STATES.append(in_state("Copy", original_archive=SECOND_SERVICE))
SECOND_ORIGINALS = [
    *(add(*names) for names in ((REP,), (None, IBIP), (REP, IBIP), (REP, OTHER_IBIP))),
    *(add(OTHER_REP, aliases=(alias,)) for alias in (LEGACY, REP)),
]
#: The constraint, what is allowed before, and a statement that the constraint must then refuse.
REFUSED: list[tuple[str, Before, Statement]] = [
    # rule 1: at most one item has an identifier, independently of its state
    *(("ibi_identifier_pkey", state, second) for state in STATES for second in SECOND_ITEMS),
    ("ibi_identifier_pkey", two_deleted, take_identifier(OTHER_IBIP, IBIP)),
    # rule 2: Original, Copy or Deleted
    *(("ck_ibi_item_state", item(), change(state=s)) for s in ("original", "", "Or Copy", "Lost")),
    # rule 3: one Original in the database
    *(
        ("uq_ibi_identifier_original", beside(REP, IBIP, aliases=(LEGACY,)), second)
        for second in SECOND_ORIGINALS
    ),
    ("uq_ibi_identifier_original", copy, change(state="Original", original_archive=None)),
    # rule 4: no Copy without its Original
    ("tr_ibi_item_copy", beside(), add_copy()),
    ("tr_ibi_item_copy", beside(), add_copy(rep=None, ibip=IBIP)),
    ("tr_ibi_item_copy", beside(), add_copy(of=SERVICE_IBIP)),
    ("tr_ibi_item_copy", beside(state="Deleted"), add_copy()),
    ("tr_ibi_item_copy", beside(state="Copy", original_archive=THIRD_SERVICE), add_copy()),
    ("tr_ibi_item_copy", beside(OTHER_REP), add_copy()),
    ("tr_ibi_item_copy", beside(OTHER_REP), add_copy(aliases=(OTHER_REP,))),
    ("tr_ibi_item_copy", beside(REP), add_copy(of=SECOND_SERVICE)),
    ("tr_ibi_item_copy", item_of_second, change(state="Copy", original_archive=SERVICE)),
    ("tr_ibi_item_copy", copy, name_third_archive),
    ("tr_ibi_item_copy", copy, rename(OTHER_REP)),
    ("tr_ibi_item_copy", copy_of_remote, change(original_archive=SERVICE)),
    ("ck_ibi_item_original_archive", Rows.archive, add(state="Copy")),
    ("ck_ibi_item_original_archive", Rows.archive, add(original_archive=SECOND_SERVICE)),
    ("tr_ibi_item_original", original, change(state="Deleted")),
    ("tr_ibi_item_original", original, Rows.delete),
    ("tr_ibi_item_original", original, move(THIRD_SERVICE)),
    ("tr_ibi_item_original", original, change(state="Copy", original_archive=THIRD_SERVICE)),
    ("tr_ibi_identifier_original", original, lose_ibip),
    ("tr_ibi_identifier_original", original, take_identifier(IBIP, OTHER_IBIP)),
    # rule 5: a form of IBI, each in its grammar
    ("ck_ibi_item_forms", Rows.archive, add(None, None, aliases=(LEGACY,))),
    ("ck_ibi_item_grammar", Rows.archive, add(REP.upper())),
    ("ck_ibi_item_grammar", Rows.archive, add(None, IBIP.lower())),
    ("ck_ibi_item_grammar", Rows.archive, add(f"{REP}\n")),
    (
        "ck_ibi_item_grammar",
        Rows.archive,
        add_copy(of=SECOND_SERVICE.upper()),
    ),
    ("ck_ibi_item_grammar", Rows.archive, add_copy(of=SERVICE_IBIP.lower())),
    ("ck_ibi_identifier_grammar", item(OTHER_REP), alias("a.br/b/2010/02.30.12.38", "rep")),
    ("ck_ibi_identifier_grammar", item(OTHER_REP), alias(REP.upper(), "rep")),
    ("ck_ibi_identifier_grammar", item(OTHER_REP), alias(IBIP, "rep")),
    ("ck_ibi_identifier_grammar", item(OTHER_REP), alias(REP, "ibip")),
    ("ck_ibi_identifier_grammar", item(OTHER_REP), alias(REP, "name")),
    ("ck_ibi_identifier_grammar", item(OTHER_REP), alias(LEGACY + "\n", "legacy")),
    ("fk_ibi_item_rep", item(), change(rep=OTHER_REP)),
    ("fk_ibi_item_ibip", item(), change(ibip=IBIP)),
    # rule 6: the service item
    ("uq_ibi_item_service", Rows.archive, add(is_service=True, transferable=False)),
    ("ck_ibi_item_service", service, change(transferable=True)),
    ("ck_ibi_item_service", service, change(state="Deleted")),
    ("ck_ibi_item_service", service, change(state="Copy", original_archive=THIRD_SERVICE)),
    ("ck_ibi_item_service", nothing, add_transferable_service),
    ("tr_ibi_item_service", service, Rows.delete),
    ("tr_ibi_item_service", service, rename(REP)),
    ("tr_ibi_item_service", service, change(ibip=None)),
    ("tr_ibi_item_service", service, change(is_service=False)),
    ("tr_ibi_item_service", service, move(SECOND_SERVICE)),
    ("fk_ibi_archive_service", nothing, lambda rows, _: add_archive(rows, 0)),
    ("tr_ibi_archive_service", nothing, lambda rows, _: add_archive(rows, 77)),
    ("tr_ibi_archive_service", Rows.archive, name_service(add(transferable=False))),
    ("tr_ibi_archive_service", Rows.archive, name_service(lambda rows, _: service_of_second(rows))),
    ("tr_ibi_archive_service", Rows.archive, name_service(lambda rows, _: 0)),
    # rule 7: editions
    ("uq_ibi_item_edition", chain, add_beside(None, IBIP, next_edition=OTHER_REP)),
    ("tr_ibi_item_circle", chain, change(next_edition=REP)),
    ("tr_ibi_item_circle", Rows.archive, add(REP, next_edition=REP)),
    # rule 8: translations
    ("uq_ibi_translation_language", member("pt", language="pt"), join(OTHER_REP, "pt", REP)),
    ("tr_ibi_translation_language", item(language="pt"), join(REP, "en")),
    ("tr_ibi_translation_language", member("en"), add(REP, language="pt")),
    ("tr_ibi_translation_language", member("pt", language="pt"), change(language=None)),
]


def find_refusal(rows: Rows, before: Before, statement: Statement) -> IntegrityError | None:
    """Return the error of a statement; what happens before must be allowed."""
    number = before(rows)
    rows.hold()
    try:
        statement(rows, number)
        rows.connection.commit()
    except IntegrityError as error:
        return error
    return None


@pytest.mark.rule(
    "G4-01", "G6-08", "R2-01", "R2-02", "R3-03", "R3-04", "R3-05", "R3-06", "R3-07", "R5-03"
)
def test_the_database_alone_refuses(shared: Database) -> None:
    for row, (constraint, before, statement) in enumerate(REFUSED):
        with shared.engine.connect() as connection:
            refusal = find_refusal(Rows(connection), before, statement)
            connection.rollback()
        assert refusal is not None, row
        if constraint.startswith("fk_") and shared.engine.dialect.name == "sqlite":
            # SQLite does not name the constraint
            assert str(refusal.orig) == "FOREIGN KEY constraint failed", row
            continue
        assert find_constraint(refusal) == constraint, row
        broken = find_broken_rule(refusal, REP)
        assert broken is not None, row
        assert (broken.rule, broken.ibi) == (CONSTRAINTS[constraint], REP), row
        assert EXPLANATIONS.get(constraint, RULES[broken.rule]) in str(broken), row


def test_every_rule_and_every_constraint_is_tested() -> None:
    tried = {constraint for constraint, *_ in REFUSED}
    # the primary key already refuses an item that has an identifier twice
    assert tried == set(CONSTRAINTS) - {"uq_ibi_identifier_item"}
    assert {CONSTRAINTS[name] for name in tried} == set(range(1, 9))


@pytest.mark.rule("R2-01", "R3-07")
def test_an_item_and_its_identifiers_have_one_state(rows: Rows) -> None:
    item = rows.item(rows.archive(), REP, IBIP, aliases=(LEGACY,))
    with pytest.raises(IntegrityError), rows.connection.begin_nested():
        rows.set(item, state=None)
    rows.set(item, state="Deleted")
    states = "SELECT count(*) FROM ibi_identifier WHERE item_id = :i AND state = 'Deleted'"
    assert rows.run(states, i=item) == 3
    with pytest.raises(IntegrityError):
        rows.run("UPDATE ibi_identifier SET state = 'Original' WHERE item_id = :i", i=item)


@pytest.mark.parametrize("value", [f"{REP}\0x", REP.encode(), f"{REP}\0x".encode()])
def test_bytes_or_a_text_with_NUL_are_not_an_identifier(rows: Rows, value: Any) -> None:
    item = rows.item(rows.archive(), OTHER_REP)
    with pytest.raises((IntegrityError, DataError)):
        rows.identifier(item, value, "rep", 1)


# --- what is allowed


@pytest.mark.rule("R3-07")
def test_a_deleted_Original_is_not_counted(rows: Rows) -> None:
    first = rows.item(rows.archive(), REP, IBIP)
    rows.set(first, state="Deleted")
    rows.item(rows.archive(SECOND_SERVICE), REP, IBIP)
    rows.item(rows.archive(THIRD_SERVICE), REP, IBIP, "Deleted")
    rows.hold()


@pytest.mark.rule("R3-05", "R3-06")
def test_a_Copy_of_an_Original_in_another_Archive_of_the_database_is_accepted(rows: Rows) -> None:
    original = rows.item(rows.archive(SERVICE, SERVICE_IBIP), REP, IBIP)
    rows.copy(rows.archive(SECOND_SERVICE), of=SERVICE_IBIP, rep=None, ibip=IBIP)
    rows.copy(rows.archive(THIRD_SERVICE), of=SERVICE, rep=REP)
    rows.set(original, language="en")
    rows.run("DELETE FROM ibi_identifier WHERE text = :t", t=LEGACY)
    rows.hold()


# --- references: an item of the Archive is named by its primary form

REFERENCES: dict[str, Statement] = {
    "next_edition": change(next_edition=IBIP),
    "metadata_ibi": change(metadata_ibi=IBIP),
    "member": join(IBIP, None),
    "head": join(OTHER_REP, "pt", IBIP),
}


@pytest.mark.parametrize("refer", REFERENCES.values(), ids=REFERENCES)
def test_a_reference_within_the_Archive_has_the_primary_form(rows: Rows, refer: Statement) -> None:
    archive = rows.archive()
    rows.item(archive, REP, IBIP)
    other = rows.item(archive, OTHER_REP, language="pt")
    with pytest.raises(IntegrityError, match=r"tr_ibi_reference|reference is refused"):
        refer(rows, other)


def test_a_reference_is_rewritten_before_its_item_arrives(rows: Rows) -> None:
    archive = rows.archive()
    rows.item(archive, OTHER_REP, next_edition=IBIP)
    with pytest.raises(IntegrityError, match=r"tr_ibi_reference|reference is refused"):
        rows.item(archive, REP, IBIP)


# --- two transactions at the same time ------------------------------------------------------------

Leave = Callable[[Rows, int], None]
LEAVES: dict[str, Leave] = {
    "marked": lambda rows, item: rows.set(item, state="Deleted"),
    "removed": lambda rows, item: rows.delete(item),
}
STRAY = (
    "SELECT count(*) FROM ibi_item copy WHERE copy.state = 'Copy' AND NOT EXISTS"
    " (SELECT 1 FROM ibi_item o WHERE o.rep = copy.rep AND o.state = 'Original')"
)


@pytest.mark.rule("R3-05")
@pytest.mark.postgresql
def test_in_either_order_no_Copy_remains_without_its_Original(uri: str) -> None:
    database = Database(uri)
    names = [f"{REP}.{number:02}" for number in range(40)]
    with database.writing() as connection:
        rows = Rows(connection)
        first, second = rows.archive(), rows.archive(SECOND_SERVICE)
        originals = [rows.item(first, name) for name in names]
    outcomes: list[Future[None]] = []
    with ThreadPoolExecutor(2) as pool:
        for number, (name, original) in enumerate(zip(names, originals, strict=True)):
            barrier = Barrier(2)
            leave = LEAVES["marked" if number % 2 else "removed"]
            outcomes += [
                pool.submit(make_copy, database, second, name, barrier),
                pool.submit(remove_original, database, leave, original, barrier),
            ]
    failed = [error for error in (outcome.exception() for outcome in outcomes) if error]
    with database.reading() as connection:
        assert connection.scalar(text(STRAY)) == 0
    # one of each two transactions is refused, but never by a deadlock
    assert [type(error) for error in failed] == [IntegrityError] * len(names)
    database.close()


def make_copy(database: Database, archive: int, rep: str, barrier: Barrier) -> None:
    with database.writing() as connection:
        if connection.dialect.name == "postgresql":
            barrier.wait(30)
        Rows(connection).copy(archive, SERVICE, rep=rep)


def remove_original(database: Database, leave: Leave, original: int, barrier: Barrier) -> None:
    with database.writing() as connection:
        if connection.dialect.name == "postgresql":
            barrier.wait(30)
        leave(Rows(connection), original)
