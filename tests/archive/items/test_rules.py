"""The database itself enforces the eight rules, also for statements in plain SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DataError, IntegrityError
from support.databases import new_database
from support.rows import (
    IBIP,
    LEGACY,
    OTHER_IBIP,
    OTHER_REP,
    REP,
    SECOND_SERVICE,
    SERVICE,
    SERVICE_IBIP,
    THIRD_SERVICE,
    Rows,
)

from flask_ibi_archive.archive.items.rules import (
    CONSTRAINTS,
    EXPLANATIONS,
    RULES,
    find_broken_rule,
    find_constraint,
)
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database

pytestmark = pytest.mark.postgresql

#: Statements that are allowed, a yield, and statements that the database must refuse.
Attempt = Callable[[Rows], Iterator[None]]
REFUSED: list[tuple[str, Attempt]] = []


@pytest.fixture(scope="module")
def shared(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database with the tables; each test rolls back its transaction."""
    folder: Path = tmp_path_factory.mktemp("rules")
    with new_database(backend, folder, ready=True) as uri:
        database = Database.at(uri)
        with database.writing() as connection:
            migrate.upgrade(connection)
        yield database
        database.close()


@pytest.fixture
def rows(shared: Database) -> Iterator[Rows]:
    with shared.engine.connect() as connection:
        yield Rows(connection)
        connection.rollback()


def refused_by(constraint: str) -> Callable[[Attempt], Attempt]:
    """Register an attempt that a constraint must refuse."""

    def register(attempt: Attempt) -> Attempt:
        REFUSED.append((constraint, attempt))
        return attempt

    return register


def finish(rows: Rows, steps: Iterator[None]) -> None:
    """Run the statements after the yield, which must fail, and commit."""
    for _ in steps:
        raise AssertionError("one yield is enough")
    rows.connection.commit()


def find_refusal(rows: Rows, attempt: Attempt) -> IntegrityError | None:
    """Return the error of an attempt; the statements before the yield must be allowed."""
    steps = attempt(rows)
    next(steps)
    rows.hold()
    try:
        finish(rows, steps)
    except IntegrityError as error:
        return error
    return None


@pytest.mark.rule(
    "G4-01", "G6-08", "R2-01", "R2-02", "R3-03", "R3-04", "R3-05", "R3-06", "R3-07", "R5-03"
)
def test_the_database_alone_refuses(shared: Database) -> None:
    for constraint, attempt in REFUSED:
        name = attempt.__name__
        with shared.engine.connect() as connection:
            refusal = find_refusal(Rows(connection), attempt)
            connection.rollback()
        assert refusal is not None, name
        if constraint.startswith("fk_") and shared.engine.dialect.name == "sqlite":
            # SQLite does not name the constraint
            assert str(refusal.orig) == "FOREIGN KEY constraint failed", name
            continue
        assert find_constraint(refusal) == constraint, name
        broken = find_broken_rule(refusal, REP)
        assert broken is not None, name
        assert (broken.rule, broken.ibi) == (CONSTRAINTS[constraint], REP), name
        assert EXPLANATIONS.get(constraint, RULES[broken.rule]) in str(broken), name


def test_every_rule_and_every_constraint_is_tested() -> None:
    tried = {constraint for constraint, _ in REFUSED}
    # the primary key already refuses an item that has an identifier twice
    assert tried == set(CONSTRAINTS) - {"uq_ibi_identifier_item"}
    assert {CONSTRAINTS[name] for name in tried} == set(range(1, 9))


# --- rule 1: at most one item has an identifier, independently of its state -----------------------


def _add_second_items() -> None:
    """Register attempts to give an identifier of an item in each state to a second item."""

    def make(state: str, place: str) -> Attempt:
        def attempt(rows: Rows) -> Iterator[None]:
            archive = rows.archive()
            columns = {"original_archive": SECOND_SERVICE} if state == "Copy" else {}
            rows.item(archive, REP, IBIP, state, aliases=(LEGACY,), **columns)
            yield
            if place == "rep":
                rows.item(archive, REP, OTHER_IBIP, "Deleted")
            elif place == "ibip":
                rows.item(archive, OTHER_REP, IBIP, "Deleted")
            else:
                alias = {"alias": LEGACY, "alias_is_rep": REP, "alias_is_ibip": IBIP}[place]
                rows.item(archive, OTHER_REP, OTHER_IBIP, "Deleted", aliases=(alias,))

        attempt.__name__ = f"a_second_item_with_the_{place}_of_an_item_that_is_{state}"
        return attempt

    for state in ("Original", "Copy", "Deleted"):
        for place in ("rep", "ibip", "alias", "alias_is_rep", "alias_is_ibip"):
            refused_by("ibi_identifier_pkey")(make(state, place))


_add_second_items()


@refused_by("ibi_identifier_pkey")
def an_identifier_changed_to_that_of_another_item(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    rows.item(archive, state="Deleted", aliases=(IBIP,))
    rows.item(archive, OTHER_REP, state="Deleted", aliases=(OTHER_IBIP,))
    yield
    rows.run("UPDATE ibi_identifier SET text = :a WHERE text = :b", a=IBIP, b=OTHER_IBIP)


# --- rule 2: Original, Copy or Deleted -----------------------------------------------------------


def _add_states() -> None:
    def make(state: str, name: str) -> Attempt:
        def attempt(rows: Rows) -> Iterator[None]:
            item = rows.item(rows.archive())
            yield
            rows.set(item, state=state)

        attempt.__name__ = f"a_state_{name}"
        return attempt

    states = {
        "in_lower_case": "original",
        "empty": "",
        "in_two_words": "Or Copy",
        "unknown": "Lost",
    }
    for name, state in states.items():
        refused_by("ck_ibi_item_state")(make(state, name))


_add_states()


@pytest.mark.rule("R2-01")
def test_an_item_without_a_state_is_refused(rows: Rows) -> None:
    item = rows.item(rows.archive())
    with pytest.raises(IntegrityError):
        rows.set(item, state=None)


@pytest.mark.rule("R3-07")
def test_an_identifier_never_has_another_state_than_its_item(rows: Rows) -> None:
    item = rows.item(rows.archive(), REP, IBIP, aliases=(LEGACY,))
    rows.set(item, state="Deleted")
    states = "SELECT count(*) FROM ibi_identifier WHERE item_id = :i AND state = 'Deleted'"
    assert rows.run(states, i=item) == 3
    with pytest.raises(IntegrityError):
        rows.run("UPDATE ibi_identifier SET state = 'Original' WHERE item_id = :i", i=item)


# --- rule 3: one Original in the database --------------------------------------------------------


def _add_originals() -> None:
    def make(name: str, values: dict[str, Any]) -> Attempt:
        def attempt(rows: Rows) -> Iterator[None]:
            rows.item(rows.archive(), REP, IBIP, aliases=(LEGACY,))
            second = rows.archive(SECOND_SERVICE)
            yield
            rows.item(second, **values)

        attempt.__name__ = f"a_second_Original_by_{name}"
        return attempt

    for name, values in {
        "rep": {"rep": REP},
        "ibip": {"rep": None, "ibip": IBIP},
        "both": {"rep": REP, "ibip": IBIP},
        "alias": {"rep": OTHER_REP, "aliases": (LEGACY,)},
        "alias_that_is_the_rep": {"rep": OTHER_REP, "aliases": (REP,)},
        "rep_in_another_pair": {"rep": REP, "ibip": OTHER_IBIP},
    }.items():
        refused_by("uq_ibi_identifier_original")(make(name, values))


_add_originals()


@refused_by("uq_ibi_identifier_original")
def a_Copy_that_becomes_a_second_Original(rows: Rows) -> Iterator[None]:
    rows.item(rows.archive())
    copy = rows.copy(rows.archive(SECOND_SERVICE))
    yield
    rows.set(copy, state="Original", original_archive=None)


@pytest.mark.rule("R3-07")
def test_a_deleted_Original_is_not_counted(rows: Rows) -> None:
    first = rows.item(rows.archive(), REP, IBIP)
    rows.set(first, state="Deleted")
    rows.item(rows.archive(SECOND_SERVICE), REP, IBIP)
    rows.item(rows.archive(THIRD_SERVICE), REP, IBIP, "Deleted")
    rows.hold()


# --- rule 4: no Copy without its Original --------------------------------------------------------


def _add_copies() -> None:
    def make(name: str, original: dict[str, Any], copy: dict[str, Any]) -> Attempt:
        def attempt(rows: Rows) -> Iterator[None]:
            first = rows.archive(SERVICE, SERVICE_IBIP)
            if original:
                rows.item(first, **original)
            second = rows.archive(SECOND_SERVICE)
            yield
            rows.copy(second, **copy)

        attempt.__name__ = f"a_Copy_of_{name}"
        return attempt

    deleted = {"rep": REP, "state": "Deleted"}
    copied = {"rep": REP, "state": "Copy", "original_archive": THIRD_SERVICE}
    for name, original, copy in (
        ("nothing", {}, {}),
        ("nothing_by_its_ibip", {}, {"rep": None, "ibip": IBIP}),
        ("nothing_in_an_Archive_named_by_its_other_form", {}, {"of": SERVICE_IBIP}),
        ("a_Deleted", deleted, {}),
        ("a_Copy", copied, {}),
        ("another_item", {"rep": OTHER_REP}, {}),
        ("an_alias_alone", {"rep": OTHER_REP}, {"aliases": (OTHER_REP,)}),
        ("an_Original_in_its_own_Archive", {"rep": REP}, {"of": SECOND_SERVICE}),
    ):
        refused_by("tr_ibi_item_copy")(make(name, original, copy))


_add_copies()


def _copied(rows: Rows) -> tuple[int, int]:
    """Return an Original, and its Copy in another Archive."""
    original = rows.item(rows.archive(), REP, IBIP, aliases=(LEGACY,))
    copy = rows.copy(rows.archive(SECOND_SERVICE), rep=REP, ibip=IBIP)
    return original, copy


@refused_by("tr_ibi_item_copy")
def an_Original_that_becomes_a_Copy_without_an_Original(rows: Rows) -> Iterator[None]:
    rows.archive()
    item = rows.item(rows.archive(SECOND_SERVICE))
    yield
    rows.set(item, state="Copy", original_archive=SERVICE)


@refused_by("tr_ibi_item_copy")
def a_Copy_that_names_an_Archive_without_the_Original(rows: Rows) -> Iterator[None]:
    _, copy = _copied(rows)
    rows.archive(THIRD_SERVICE)
    yield
    rows.set(copy, original_archive=THIRD_SERVICE)


@refused_by("tr_ibi_item_copy")
def a_Copy_of_a_remote_Original_that_names_an_Archive_of_the_database(rows: Rows) -> Iterator[None]:
    rows.archive()
    copy = rows.copy(rows.archive(SECOND_SERVICE), of=THIRD_SERVICE)
    yield
    rows.set(copy, original_archive=SERVICE)


@refused_by("tr_ibi_item_copy")
def a_Copy_that_gets_other_identifiers(rows: Rows) -> Iterator[None]:
    rows.item(rows.archive())
    copy = rows.copy(rows.archive(SECOND_SERVICE))
    yield
    rows.identifier(copy, OTHER_REP)
    rows.set(copy, rep=OTHER_REP)


@refused_by("ck_ibi_item_original_archive")
def a_Copy_that_names_no_Archive(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    yield
    rows.item(archive, state="Copy")


@refused_by("ck_ibi_item_original_archive")
def an_Original_that_names_an_Archive_of_its_Original(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    yield
    rows.item(archive, original_archive=SECOND_SERVICE)


def _add_leaving_originals() -> None:
    def make(name: str, leave: Callable[[Rows, int], None]) -> Attempt:
        def attempt(rows: Rows) -> Iterator[None]:
            original, _ = _copied(rows)
            rows.archive(THIRD_SERVICE)
            yield
            leave(rows, original)

        attempt.__name__ = f"an_Original_with_Copies_that_{name}"
        return attempt

    def move(rows: Rows, item: int) -> None:
        rows.run("UPDATE ibi_item SET archive_id = archive_id + 2 WHERE id = :i", i=item)

    for name, leave in {
        "is_marked_Deleted": lambda rows, item: rows.set(item, state="Deleted"),
        "is_deleted_physically": lambda rows, item: rows.delete(item),
        "is_moved_to_another_Archive": move,
    }.items():
        refused_by("tr_ibi_item_original")(make(name, leave))

    def rename(rows: Rows, item: int) -> None:
        rows.run("UPDATE ibi_identifier SET text = :a WHERE text = :b AND item_id = :i",
                 a=OTHER_IBIP, b=IBIP, i=item)  # fmt: skip

    def lose(rows: Rows, item: int) -> None:
        rows.set(item, ibip=None)
        rows.run("DELETE FROM ibi_identifier WHERE text = :b AND item_id = :i", b=IBIP, i=item)

    for name, leave in {
        "loses_the_identifier_of_the_Copy": lose,
        "gets_another_identifier": rename,
    }.items():
        refused_by("tr_ibi_identifier_original")(make(name, leave))


_add_leaving_originals()


@refused_by("tr_ibi_item_original")
def an_Original_with_Copies_that_becomes_a_Copy_of_a_remote_Original(rows: Rows) -> Iterator[None]:
    original, _ = _copied(rows)
    yield
    rows.set(original, state="Copy", original_archive=THIRD_SERVICE)


@pytest.mark.rule("R3-05", "R3-06")
def test_a_Copy_of_an_Original_in_another_Archive_of_the_database_is_accepted(rows: Rows) -> None:
    original = rows.item(rows.archive(SERVICE, SERVICE_IBIP), REP, IBIP)
    rows.copy(rows.archive(SECOND_SERVICE), of=SERVICE_IBIP, rep=None, ibip=IBIP)
    rows.copy(rows.archive(THIRD_SERVICE), of=SERVICE, rep=REP)
    rows.set(original, language="en")
    rows.run("DELETE FROM ibi_identifier WHERE text = :t", t=LEGACY)
    rows.hold()


def test_a_Copy_may_name_an_Archive_that_is_not_in_the_database(rows: Rows) -> None:
    copy = rows.copy(rows.archive(), of=SECOND_SERVICE)
    rows.set(copy, language="pt")
    rows.hold()


def test_an_Original_can_be_removed_after_its_Copies(rows: Rows) -> None:
    for ways in product(("mark", "remove"), repeat=2):
        for item, how in zip(reversed(_copied(rows)), ways, strict=True):
            if how == "mark":
                rows.set(item, state="Deleted", original_archive=None)
            else:
                rows.delete(item)
        rows.hold()
        rows.connection.rollback()


def test_an_Original_can_be_removed_if_Copies_name_another_Archive(rows: Rows) -> None:
    original = rows.item(rows.archive())
    rows.copy(rows.archive(SECOND_SERVICE), of=THIRD_SERVICE)
    rows.set(original, state="Deleted")
    rows.delete(original)
    rows.hold()


def test_Original_and_Copy_can_change_places_in_one_transaction(rows: Rows) -> None:
    original, copy = _copied(rows)
    rows.set(copy, state="Deleted", original_archive=None)
    rows.set(original, state="Deleted")
    rows.set(copy, state="Original")
    rows.set(original, state="Copy", original_archive=SECOND_SERVICE)
    rows.hold()


# --- rule 5: a form of IBI, each in its grammar --------------------------------------------------


@refused_by("ck_ibi_item_forms")
def an_item_without_a_form(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    yield
    rows.item(archive, None, None, aliases=(LEGACY,))


def _add_forms() -> None:
    def item(**values: Any) -> Attempt:
        def attempt(rows: Rows) -> Iterator[None]:
            archive = rows.archive()
            yield
            rows.item(archive, **values)

        return attempt

    def alias(name: str, form: str) -> Attempt:
        def attempt(rows: Rows) -> Iterator[None]:
            item = rows.item(rows.archive(), OTHER_REP)
            yield
            rows.identifier(item, name, form, 1)

        return attempt

    rows_of: dict[str, tuple[str, Attempt]] = {}
    columns = {
        "a_rep_in_upper_case": {"rep": REP.upper()},
        "an_ibip_in_lower_case": {"rep": None, "ibip": IBIP.lower()},
        "a_rep_with_a_line_break": {"rep": REP + "\n"},
        "an_Archive_of_an_Original_in_upper_case": {
            "state": "Copy",
            "original_archive": SECOND_SERVICE.upper(),
        },
        "an_Archive_of_an_Original_in_lower_case": {
            "state": "Copy",
            "original_archive": SERVICE_IBIP.lower(),
        },
    }
    for name, values in columns.items():
        rows_of[name] = ("ck_ibi_item_grammar", item(**values))
    aliases = {
        "a_rep_with_a_30_February": ("sid.inpe.br/mtc-m19/2010/02.30.12.38", "rep"),
        "an_alias_in_upper_case": (REP.upper(), "rep"),
        "an_ibip_called_a_rep": (IBIP, "rep"),
        "a_rep_called_an_ibip": (REP, "ibip"),
        "an_unknown_form": (REP, "name"),
        "a_legacy_identifier_with_a_line_break": (LEGACY + "\n", "legacy"),
    }
    for name, (text, form) in aliases.items():
        rows_of[name] = ("ck_ibi_identifier_grammar", alias(text, form))
    for name, (constraint, attempt) in rows_of.items():
        attempt.__name__ = name
        refused_by(constraint)(attempt)


_add_forms()


@refused_by("fk_ibi_item_rep")
def a_rep_that_is_not_an_identifier_of_its_item(rows: Rows) -> Iterator[None]:
    item = rows.item(rows.archive(), REP)
    yield
    rows.set(item, rep=OTHER_REP)


@refused_by("fk_ibi_item_ibip")
def an_ibip_that_is_not_an_identifier_of_its_item(rows: Rows) -> Iterator[None]:
    item = rows.item(rows.archive(), REP)
    yield
    rows.set(item, ibip=IBIP)


@pytest.mark.parametrize("value", [f"{REP}\0x", REP.encode(), f"{REP}\0x".encode()])
def test_a_value_that_is_not_text_or_contains_NUL_is_not_an_identifier(
    rows: Rows, value: Any
) -> None:
    item = rows.item(rows.archive(), OTHER_REP)
    with pytest.raises((IntegrityError, DataError)):
        rows.identifier(item, value, "rep", 1)


# --- rule 6: the service item --------------------------------------------------------------------


@refused_by("uq_ibi_item_service")
def a_second_service_item(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    yield
    rows.item(archive, is_service=True, transferable=False)


def _add_services() -> None:
    def make(name: str, change: Callable[[Rows, int], None]) -> Attempt:
        def attempt(rows: Rows) -> Iterator[None]:
            service = rows.service_of(rows.archive(SERVICE, SERVICE_IBIP))
            rows.archive(SECOND_SERVICE)
            yield
            change(rows, service)

        attempt.__name__ = f"a_service_item_{name}"
        return attempt

    def rename(rows: Rows, service: int) -> None:
        rows.identifier(service, REP)
        rows.set(service, rep=REP)

    for name, change in {
        "that_is_transferable": lambda rows, item: rows.set(item, transferable=True),
        "that_is_Deleted": lambda rows, item: rows.set(item, state="Deleted"),
        "that_is_a_Copy": lambda rows, item: rows.set(
            item, state="Copy", original_archive=THIRD_SERVICE
        ),
    }.items():
        refused_by("ck_ibi_item_service")(make(name, change))
    for name, change in {
        "that_is_deleted_physically": lambda rows, item: rows.delete(item),
        "that_gets_another_identifier": rename,
        "that_loses_its_ibip": lambda rows, item: rows.set(item, ibip=None),
        "that_becomes_an_ordinary_item": lambda rows, item: rows.set(item, is_service=False),
        "that_goes_to_another_Archive": lambda rows, item: rows.run(
            "UPDATE ibi_item SET archive_id = archive_id + 1 WHERE id = :i", i=item
        ),
    }.items():
        refused_by("tr_ibi_item_service")(make(name, change))


_add_services()


@refused_by("ck_ibi_item_service")
def an_Archive_whose_service_item_may_be_transferred(rows: Rows) -> Iterator[None]:
    yield
    archive = rows.insert(
        "ibi_archive", service_item_id=0, address="a", platform_version="1", database="1"
    )
    rows.item(archive, SERVICE, is_service=True, transferable=True)


@refused_by("fk_ibi_archive_service")
def an_Archive_without_a_service_item(rows: Rows) -> Iterator[None]:
    yield
    rows.insert("ibi_archive", service_item_id=0, address="a", platform_version="1", database="1")


@refused_by("tr_ibi_archive_service")
def an_Archive_whose_service_is_an_ordinary_item(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    item = rows.item(archive, transferable=False)
    yield
    rows.run("UPDATE ibi_archive SET service_item_id = :i WHERE id = :a", i=item, a=archive)


@refused_by("tr_ibi_archive_service")
def an_Archive_with_the_service_of_another_Archive(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    service = rows.service_of(rows.archive(SECOND_SERVICE))
    yield
    rows.run("UPDATE ibi_archive SET service_item_id = :i WHERE id = :a", i=service, a=archive)


@refused_by("tr_ibi_archive_service")
def an_Archive_that_loses_its_service_item(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    yield
    rows.run("UPDATE ibi_archive SET service_item_id = 0 WHERE id = :a", a=archive)


@refused_by("tr_ibi_archive_service")
def a_new_Archive_whose_service_is_an_ordinary_item(rows: Rows) -> Iterator[None]:
    yield
    rows.insert("ibi_archive", service_item_id=77, address="a", platform_version="1", database="1")


def test_an_Archive_with_items_cannot_be_deleted(rows: Rows) -> None:
    archive = rows.archive()
    with pytest.raises(IntegrityError):
        rows.run("DELETE FROM ibi_archive WHERE id = :a", a=archive)


# --- rule 7: editions ----------------------------------------------------------------------------


def _chain(rows: Rows) -> tuple[int, int, int]:
    """Return an Archive, an item, and its next edition."""
    archive = rows.archive()
    first = rows.item(archive, REP, next_edition=OTHER_REP)
    return archive, first, rows.item(archive, OTHER_REP)


@refused_by("uq_ibi_item_edition")
def two_items_with_one_next_edition(rows: Rows) -> Iterator[None]:
    archive, _, _ = _chain(rows)
    yield
    rows.item(archive, None, IBIP, next_edition=OTHER_REP)


@refused_by("tr_ibi_item_circle")
def a_circle_of_editions(rows: Rows) -> Iterator[None]:
    _, _, second = _chain(rows)
    yield
    rows.set(second, next_edition=REP)


@refused_by("tr_ibi_item_circle")
def an_item_that_is_its_own_next_edition(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    yield
    rows.item(archive, REP, next_edition=REP)


def test_a_chain_of_editions_belongs_to_one_Archive(rows: Rows) -> None:
    _chain(rows)
    rows.item(rows.archive(SECOND_SERVICE), None, IBIP, next_edition=OTHER_REP)
    rows.hold()


# --- rule 8: translations ------------------------------------------------------------------------


@refused_by("uq_ibi_translation_language")
def two_translations_into_one_language(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    rows.member(archive, REP, "pt")
    yield
    rows.member(archive, OTHER_REP, "pt", head=REP)


@refused_by("tr_ibi_translation_language")
def a_member_with_another_language_than_its_item(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    rows.item(archive, REP, language="pt")
    yield
    rows.member(archive, REP, "en")


@refused_by("tr_ibi_translation_language")
def an_item_whose_group_has_it_in_another_language(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    rows.member(archive, REP, "en")
    yield
    rows.item(archive, REP, language="pt")


@refused_by("tr_ibi_translation_language")
def a_member_that_gets_another_language(rows: Rows) -> Iterator[None]:
    archive = rows.archive()
    item = rows.item(archive, REP, language="pt")
    rows.member(archive, REP, "pt")
    yield
    rows.set(item, language=None)


def test_each_group_of_translations_has_each_language(rows: Rows) -> None:
    archive = rows.archive()
    for rep in (REP, OTHER_REP):
        rows.item(archive, rep, language="pt")
        rows.member(archive, rep, "pt")
    rows.hold()


# --- references: an item of the Archive is named by its primary form ------------------------------


REFERENCES: dict[str, Callable[[Rows, int], None]] = {
    "next_edition": lambda rows, item: rows.set(item, next_edition=IBIP),
    "metadata_ibi": lambda rows, item: rows.set(item, metadata_ibi=IBIP),
    "member": lambda rows, item: rows.member(rows.archive_of(item), IBIP, None),
    "head": lambda rows, item: rows.member(rows.archive_of(item), OTHER_REP, "pt", head=IBIP),
}


@pytest.mark.parametrize("refer", REFERENCES.values(), ids=REFERENCES)
def test_a_reference_to_an_item_of_the_Archive_has_the_primary_form(
    rows: Rows, refer: Callable[[Rows, int], None]
) -> None:
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
