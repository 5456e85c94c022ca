"""Operations in random order on three Archives of a database, compared with a small model.

After each step, Definition 3.1 and the eight rules hold, the database equals the model,
and a refused operation has changed nothing. IBI_STATEFUL_EXAMPLES sets the number of random walks.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from flask import Flask
from hypothesis import Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text
from support.archives import import_records
from support.operations import SERVICES, dump, group_of, make_archives

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.errors import RuleBroken, StorageError

FEW = 8
EXAMPLES = int(os.environ.get("IBI_STATEFUL_EXAMPLES", FEW))
STEPS = 30
LANGUAGES = (None, "en", "pt", "fr")
#: Identifiers for imports, which were not minted.
GIVEN = tuple(f"a.br/x/2000/01.01.00.{minute:02}" for minute in range(40))

#: The kinds of steps.
WANTED = {
    "deposit", "import", "import a copy", "edition", "translation", "edit",
    "link", "copy of nothing", "copy of Copy", "copy of Deleted",
    "transfer over nothing", "transfer over Copy", "transfer over Deleted",
    "transfer keeping a copy", "delete Original", "delete Copy",
}  # fmt: skip


@dataclass
class Known:
    """An item in the model."""

    rep: str
    ibip: str | None
    state: str = "Original"
    original: int | None = None
    transferable: bool = True
    language: str | None = None
    next: str | None = None
    reason: str | None = None


#: An Archive: its items by their repository names.
World = list[dict[str, Known]]
archive_numbers = st.integers(0, 2)
#: Distances between two Archives; 0 means the same Archive.
distances = st.sampled_from([1, 2, 1, 2, 1, 2, 0])
picks = st.integers(0, 999)


class Library(RuleBasedStateMachine):
    """Three Archives and their model; the class counts which steps a run has reached."""

    archives: ClassVar[list[Archive]]
    reached: ClassVar[Counter[str]]

    @initialize()
    def begin(self) -> None:
        empty(self.archives[0])
        self.world: World = [{}, {}, {}]
        # start with a few items, so that a short run also uses Copies and tombstones
        for number in range(3):
            self.deposit(number, LANGUAGES[number])
        [first] = self.world[0]
        self.make_copy(0, 1, self.number_of(0, first), pull=False)
        for _ in range(2):
            self.make_copy(0, 2, self.number_of(0, first), pull=False)
            self.delete(2, self.number_of(2, first), "no room")

    # --- choosing items --------------------------------------------------------------------------

    def attempt(self, call: Callable[[], Any], refused: bool, maybe_rule: int | None = None) -> Any:
        """Run an operation; return its result (True for None), or False if it was refused."""
        database = self.archives[0].database
        before = dump(database)
        refusal = None
        try:
            result = call()
        except StorageError as error:
            refusal = error
        if refusal is None:
            assert not refused
            return True if result is None else result
        unforeseen = isinstance(refusal, RuleBroken) and refusal.rule == maybe_rule
        assert refused or unforeseen, refusal
        assert dump(database) == before
        self.reached["refused"] += 1
        return False

    def pick(self, number: int, pick: int) -> str:
        """Choose an item of an Archive, sometimes of another one, sometimes an unknown one."""
        names = sorted(self.world[number])
        if not names or pick % 12 == 11:
            names = sorted({name for one in self.world for name in one} | {GIVEN[-1], SERVICES[0]})
        return names[pick // 12 % len(names)]

    def number_of(self, number: int, name: str) -> int:
        """Return the number by which :meth:`pick` chooses an item."""
        return next(
            pick for pick in range(999) if self.pick(number, pick) == name and pick % 12 != 11
        )

    def known(self, number: int, name: str, *states: str) -> Known | None:
        """Return an item of an Archive if it has one of the states, otherwise None."""
        item = self.world[number].get(name)
        return item if item is not None and item.state in states else None

    def used_languages(self, number: int, name: str) -> set[str | None]:
        """Return the languages of an item's group in an Archive."""
        return {language for language, _ in group_of(self.archives[number], name)}

    def breaks_chain(self, number: int, name: str, following: str | None) -> bool:
        """Return whether a next edition would break rule 7 (chains without circles)."""
        items = self.world[number]
        if following is None:
            return False
        if any(one.next == following and one.rep != name for one in items.values()):
            return True
        step: str | None = following
        while step is not None:
            if step == name:
                return True
            step = items[step].next if step in items else None
        return False

    # --- new items -------------------------------------------------------------------------------

    def add(self, number: int, minted: Minted, **fields: Any) -> None:
        self.world[number][minted.rep] = Known(minted.rep, minted.ibip, **fields)

    @rule(number=archive_numbers, language=st.sampled_from(LANGUAGES))
    def deposit(self, number: int, language: str | None) -> None:
        minted = self.attempt(lambda: self.archives[number].deposit(language=language), False)
        self.add(number, minted, language=language)
        self.reached["deposit"] += 1

    @rule(number=archive_numbers, pick=picks)
    def new_edition(self, number: int, pick: int) -> None:
        name = self.pick(number, pick)
        item = self.known(number, name, "Original", "Deleted")
        done = self.attempt(
            lambda: self.archives[number].new_edition(name, ItemRecord()),
            refused=item is None or item.next is not None,
        )
        if done and item is not None:
            item.next = done.rep
            self.add(number, done)
            self.reached["edition"] += 1

    @rule(number=archive_numbers, pick=picks, language=st.sampled_from(LANGUAGES))
    def add_translation(self, number: int, pick: int, language: str | None) -> None:
        name = self.pick(number, pick)
        item = self.known(number, name, "Original", "Copy")
        record = ItemRecord(language=language)
        done = self.attempt(
            lambda: self.archives[number].add_translation(name, record),
            refused=language is None
            or item is None
            or language == item.language
            or language in self.used_languages(number, name),
        )
        if done:
            self.add(number, done, language=language)
            assert (language, done.rep) in group_of(self.archives[number], name)
            self.reached["translation"] += 1

    @rule(number=archive_numbers, pick=picks, transferable=st.booleans())
    def import_an_original(self, number: int, pick: int, transferable: bool) -> None:
        name = GIVEN[pick % 20] if pick % 3 else self.pick(number, pick)
        done = self.attempt(
            lambda: import_records(
                self.archives[number], [{"rep": name, "transferable": transferable}]
            ),
            refused=name in SERVICES
            or name in self.world[number]
            or any(self.known(other, name, "Original") for other in range(3)),
        )
        if done:
            self.world[number][name] = Known(name, None, transferable=transferable)
            self.reached["import"] += 1

    @rule(number=archive_numbers, source=archive_numbers, pick=picks)
    def import_a_copy(self, number: int, source: int, pick: int) -> None:
        name = self.pick(source, pick)
        record = {"rep": name, "state": "Copy", "original_archive": SERVICES[source]}
        done = self.attempt(
            lambda: import_records(self.archives[number], [record]),
            refused=number == source
            or name in self.world[number]
            or (name in SERVICES)
            or self.known(source, name, "Original") is None,
        )
        if done:
            self.world[number][name] = Known(name, None, "Copy", source)
            self.reached["import a copy"] += 1

    # --- changes ---------------------------------------------------------------------------------

    @rule(
        number=archive_numbers,
        pick=picks,
        language=st.sampled_from(LANGUAGES[1:]),
        transferable=st.sampled_from([True, True, False]),
    )
    def edit(self, number: int, pick: int, language: str, transferable: bool) -> None:
        name = self.pick(number, pick)
        item = self.known(number, name, "Original")
        others = self.used_languages(number, name) - {item.language if item else None}
        done = self.attempt(
            lambda: self.archives[number].edit(name, language=language, transferable=transferable),
            refused=item is None or language in others,
        )
        if done and item is not None:
            item.language, item.transferable = language, transferable
            self.reached["edit"] += 1

    @rule(number=archive_numbers, pick=picks, other=picks)
    def link(self, number: int, pick: int, other: int) -> None:
        name = self.pick(number, pick)
        following = None if other % 3 == 0 else self.pick(number, other * 12 + 1)
        item = self.known(number, name, "Original")
        done = self.attempt(
            lambda: self.archives[number].edit(name, next_edition=following),
            refused=item is None or self.breaks_chain(number, name, following),
        )
        if done and item is not None:
            item.next = following
            self.reached["link"] += 1

    # --- between Archives ------------------------------------------------------------------------

    @rule(source=archive_numbers, distance=distances, pick=picks, pull=st.booleans())
    def make_copy(self, source: int, distance: int, pick: int, pull: bool) -> None:
        goal = (source + distance) % 3
        # the target Archive already has an item that is updated or returned
        name = self.pick(goal if pull else source, pick)
        item = self.known(source, name, "Original")
        if pull:
            holders = [one for one in range(3) if self.known(one, name, "Original")]
            source = holders[0] if holders else goal
            item = self.known(source, name, "Original")
            archive, to = self.archives[goal], None
        else:
            archive, to = self.archives[source], SERVICES[goal]
        there = self.world[goal].get(name)
        done = self.attempt(
            lambda: archive.make_copy(name, to),
            refused=item is None or source == goal or self.breaks_chain(goal, name, item.next),
            maybe_rule=8,
        )
        if done and item is not None:
            self.world[goal][name] = replace(item, state="Copy", original=source, reason=None)
            self.reached[f"copy of {there.state if there else 'nothing'}"] += 1

    @rule(source=archive_numbers, distance=distances, pick=picks, keep_copy=st.booleans())
    def transfer(self, source: int, distance: int, pick: int, keep_copy: bool) -> None:
        goal = (source + distance) % 3
        name = self.pick(source, pick)
        item = self.known(source, name, "Original")
        there = self.world[goal].get(name)
        done = self.attempt(
            lambda: self.archives[source].transfer(name, SERVICES[goal], keep_copy=keep_copy),
            refused=item is None
            or not item.transferable
            or source == goal
            or self.breaks_chain(goal, name, item.next),
            maybe_rule=8,
        )
        if done and item is not None:
            self.world[goal][name] = replace(item)
            if keep_copy:
                item.state, item.original = "Copy", goal
                self.reached["transfer keeping a copy"] += 1
            else:
                self.write_tombstone(item, f"transferred to {SERVICES[goal]}")
            for items in self.world:
                copy = items.get(name)
                if copy is not None and copy.state == "Copy":
                    copy.original = goal
            self.reached[f"transfer over {there.state if there else 'nothing'}"] += 1

    @rule(number=archive_numbers, pick=picks, reason=st.sampled_from(["gone", "a mistake", ""]))
    def delete(self, number: int, pick: int, reason: str) -> None:
        name = self.pick(number, pick)
        item = self.known(number, name, "Original", "Copy")
        copies = [one for one in range(3) if self.known(one, name, "Copy")]
        done = self.attempt(
            lambda: self.archives[number].delete(name, reason),
            refused=not reason or item is None or (item.state == "Original" and bool(copies)),
        )
        if done and item is not None:
            self.reached[f"delete {item.state}"] += 1
            self.write_tombstone(item, reason)

    def write_tombstone(self, item: Known, reason: str) -> None:
        item.state, item.original, item.reason = "Deleted", None, reason

    # --- invariants -----------------------------------------------------------------------

    @invariant()
    def the_database_equals_the_model(self) -> None:
        assert read_world(self.archives) == self.world

    @invariant()
    def the_eight_rules_hold(self) -> None:
        with self.archives[0].database.reading() as connection:
            for what, statement in NOTHING.items():
                assert connection.execute(text(statement)).all() == [], what


#: Statements that return no rows as long as the rules hold and no unused rows remain. (The tests of
#: the rules show what constraints refuse.)
NOTHING = {
    "4: the Archive that a Copy names does not have its Original": """
        SELECT copy.id FROM ibi_item copy WHERE copy.state = 'Copy' AND NOT EXISTS (
            SELECT 1 FROM ibi_identifier service
            JOIN ibi_archive archive ON archive.service_item_id = service.item_id
            JOIN ibi_identifier original ON original.archive_id = archive.id
            WHERE service.text = copy.original_archive AND original.state = 'Original'
            AND original.text IN (copy.rep, copy.ibip) AND archive.id <> copy.archive_id)""",
    "5: an item has no form of IBI, or is not found by it": """
        SELECT id FROM ibi_item WHERE (rep IS NULL AND ibip IS NULL) OR NOT EXISTS (
            SELECT 1 FROM ibi_identifier WHERE item_id = id AND text IN (rep, ibip))""",
    "8: a group of translations has one member": """
        SELECT head FROM ibi_translation GROUP BY archive_id, head HAVING count(*) < 2""",
    "the head of a group is not an item, or no member of the group": """
        SELECT head FROM ibi_translation one WHERE NOT EXISTS (
            SELECT 1 FROM ibi_translation own
            WHERE own.archive_id = one.archive_id AND own.ibi = one.head AND own.head = one.head)
        OR NOT EXISTS (
            SELECT 1 FROM ibi_identifier WHERE text = one.head AND archive_id = one.archive_id)""",
}


ITEMS = """
    SELECT item.archive_id, item.id, item.rep, item.ibip, item.state, item.original_archive,
        item.transferable, item.language, tombstone.reason,
        item.next_edition AS following
    FROM ibi_item item LEFT JOIN ibi_tombstone tombstone ON tombstone.item_id = item.id
    WHERE NOT item.is_service"""


def read_world(archives: list[Archive]) -> World:
    """Return the contents of the database in the form of the model."""
    places = {archive.served().id: number for number, archive in enumerate(archives)}
    found: World = [{}, {}, {}]
    with archives[0].database.reading() as connection:
        for row in connection.execute(text(ITEMS)):
            found[places[row.archive_id]][row.rep] = Known(
                row.rep,
                row.ibip,
                row.state,
                None if row.original_archive is None else SERVICES.index(row.original_archive),
                bool(row.transferable),
                row.language,
                row.following,
                row.reason,
            )
    return found


def empty(archive: Archive) -> None:
    """Delete everything except the Archives and their services."""
    with archive.database.writing() as connection:
        for statement in (
            "DELETE FROM ibi_tombstone",
            "DELETE FROM ibi_translation",
            "DELETE FROM ibi_item WHERE state = 'Copy'",
            "DELETE FROM ibi_item WHERE NOT is_service",
        ):
            connection.execute(text(statement))


@pytest.fixture
def library(new_app: Callable[..., Flask]) -> type[Library]:
    """Three empty Archives, and no step reached yet."""
    archives_here = make_archives(new_app, 3)

    class Here(Library):
        archives = archives_here
        reached: ClassVar[Counter[str]] = Counter()

    return Here


@pytest.mark.postgresql
def test_every_kind_of_step_preserves_the_rules(library: type[Library]) -> None:
    """This walk does every kind of step, which a random walk may not."""
    walk = library()
    walk.begin()
    [first] = walk.world[0]
    [second], [third] = (walk.world[number].keys() - {first} for number in (1, 2))
    imported = GIVEN[1]
    steps: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (walk.make_copy, (0, 1, lambda: walk.number_of(0, first), False)),
        (walk.transfer, (0, 2, lambda: walk.number_of(0, first), False)),
        (walk.transfer, (2, 2, lambda: walk.number_of(2, first), True)),
        (walk.transfer, (1, 1, lambda: walk.number_of(1, second), False)),
        (walk.import_an_original, (0, 1, True)),
        (walk.import_a_copy, (1, 0, lambda: walk.number_of(0, imported))),
        (walk.add_translation, (0, lambda: walk.number_of(0, imported), "pt")),
        (walk.new_edition, (0, lambda: walk.number_of(0, imported))),
        (walk.edit, (0, lambda: walk.number_of(0, imported), "en", True)),
        (walk.link, (0, lambda: walk.number_of(0, imported), 0)),
        (walk.delete, (0, lambda: walk.number_of(0, imported), "gone")),  # it has a Copy
        (walk.delete, (2, lambda: walk.number_of(2, third), "gone")),
    ]
    for step, words in steps:
        step(*[word() if callable(word) else word for word in words])
        walk.the_database_equals_the_model()
        walk.the_eight_rules_hold()
    assert set(library.reached) == WANTED | {"refused"}


@pytest.mark.rule("R3-09")
@pytest.mark.slow
def test_operations_in_random_order_preserve_the_rules(library: type[Library]) -> None:
    run_state_machine_as_test(
        library,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=EXAMPLES == FEW,
            database=None,
            verbosity=Verbosity.normal,
        ),
    )
    # a random run reaches most kinds of steps
    assert "refused" in library.reached
    assert len(WANTED & set(library.reached)) > len(WANTED) * 3 / 4, WANTED - set(library.reached)
