"""Random changes of rows by sessions, bulk statements, lost columns and restores of the table.

After each ``compare --repair``, the rows and the items agree, and no row has got a second
identifier while its first item is public. A rollback, also to a savepoint, leaves nothing, and its
identifiers are never issued again. IBI_STATEFUL_EXAMPLES sets the number of random walks.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from sqlalchemy import delete, func, insert, select, text, update
from support.databases import new_database
from support.host_app import Host
from support.operations import dump

from flask_ibi_archive.archive.hosts.sync import Sync
from flask_ibi_archive.errors import RowError

picks = st.integers(0, 999)
titles = st.sampled_from("ABC")
states = st.sampled_from(("Original", "Original", "Draft", "Deleted"))
#: What no repair can change: the state of an item that is public or was withdrawn.
PERMANENT = ("can't be published again", "can't return None or the state Reserved any more")

#: The reserved identifiers, and the keys of the rows that are the drafts.
HELD = text("SELECT ibip, host_key FROM ibi_reservation WHERE status = 'held'")


class Repository(RuleBasedStateMachine):
    """A table of a host. The column ``views`` is the name of a row, which it never loses."""

    backend: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        with ExitStack() as opened:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            uri = opened.enter_context(new_database(self.backend, folder, ready=True))
            self.host = Host(uri, folder)
            opened.callback(self.host.close)
            self.open = opened.pop_all()
        self.session = self.host.session()
        self.thesis = self.host.Thesis
        self.names = count(1)
        self.dump: list[dict[str, Any]] = []
        #: The last identifier of each row, by its name.
        self.known: dict[int, str] = {}
        #: The identifiers that were rolled back.
        self.dead: set[str] = set()

    def teardown(self) -> None:
        with self.open:  # otherwise a folder that stays open fails later tests
            self.repair()

    # --- sessions --------------------------------------------------------------------------------

    def commit(self) -> None:
        try:
            self.session.commit()
        except RowError:  # the state of the item forbids the change
            self.session.rollback()

    def pick(self, number: int) -> Any:
        keys = list(self.session.scalars(select(self.thesis.id).order_by(self.thesis.id)))
        return keys[number % len(keys)] if keys else 0

    def get(self, number: int) -> Any:
        return self.session.get(self.thesis, self.pick(number))

    @rule(title=titles, state=states, key=st.none() | st.integers(1, 20))
    def add(self, title: str, state: str, key: int | None) -> None:
        if key is None or self.session.get(self.thesis, key) is None:
            if key is None and self.backend == "postgresql":  # keys that are free, as on SQLite
                key = (self.session.scalar(select(func.max(self.thesis.id))) or 0) + 1
            row = self.thesis(id=key, title=title, state=state, views=next(self.names))
            self.session.add(row)
            self.commit()

    @rule(number=picks, title=titles)
    def change(self, number: int, title: str) -> None:
        row = self.get(number)
        if row is not None:
            row.title = title
            self.commit()

    @rule(number=picks)
    def publish_or_withdraw(self, number: int) -> None:
        row = self.get(number)
        if row is not None:
            row.state = "Original" if row.state == "Draft" else "Deleted"
            self.commit()

    @rule(number=picks)
    def remove(self, number: int) -> None:
        row = self.get(number)
        if row is not None:
            self.session.delete(row)
            self.commit()

    @rule(number=picks, title=titles, state=states, keeps_outer=st.booleans())
    def roll_back(self, number: int, title: str, state: str, keeps_outer: bool) -> None:
        """Add and change rows in a savepoint, and roll it back, or the whole transaction."""
        self.session.rollback()
        before = dump(self.host.archive.database), self.host.stored()
        savepoint = self.session.begin_nested()
        pdf = self.host.write(f"{title}.pdf", title)
        row = self.thesis(title=title, state=state, views=0, pdf=pdf)
        self.session.add(row)
        changed = self.get(number)
        if changed is not None and changed.state != "Deleted":
            changed.title = title
        self.session.flush()
        self.dead.add(row.ibi)
        (savepoint if keeps_outer else self.session).rollback()
        self.session.commit()
        assert (dump(self.host.archive.database), self.host.stored()) == before
        assert row.ibi is None

    # --- statements that no session sees ---------------------------------------------------------

    def run(self, *statements: Any) -> None:
        self.session.rollback()
        self.session.expunge_all()
        with self.host.engine.begin() as connection:
            for statement in statements:
                connection.execute(statement)

    @rule(title=titles, state=states, key=st.integers(1, 20))
    def insert_in_bulk(self, title: str, state: str, key: int) -> None:
        if self.session.get(self.thesis, key) is None:
            values = {"id": key, "title": title, "state": state, "views": next(self.names)}
            self.run(insert(self.thesis.__table__).values(values))

    @rule(number=picks, title=titles)
    def update_in_bulk(self, number: int, title: str) -> None:
        changed = self.thesis.id >= self.pick(number)
        self.run(update(self.thesis.__table__).where(changed).values(title=title))

    @rule(number=picks)
    def delete_in_bulk(self, number: int) -> None:
        self.run(delete(self.thesis.__table__).where(self.thesis.id == self.pick(number)))

    @rule(number=picks)
    def lose_columns(self, number: int) -> None:
        lost = self.thesis.id >= self.pick(number)
        empty = {"ibi_rep": None, "ibi_ibip": None}
        self.run(update(self.thesis.__table__).where(lost).values(empty))

    @rule(number=picks)
    def renumber(self, number: int) -> None:
        """Change a primary key. The columns must not be lost before the next comparison.

        Nor may an older copy of the table be restored without its columns.
        """
        self.repair()
        self.dump = []
        key = self.pick(number)
        free = (self.session.scalar(select(func.max(self.thesis.id))) or 0) + 1
        self.run(update(self.thesis.__table__).where(self.thesis.id == key).values(id=free))
        self.repair()

    @rule()
    def save_table(self) -> None:
        rows = self.session.execute(select(self.thesis.__table__)).mappings()
        self.dump = [dict(row) for row in rows]

    @rule(with_columns=st.booleans())
    def restore_table(self, with_columns: bool) -> None:
        empty = {} if with_columns else {"ibi_rep": None, "ibi_ibip": None}
        table = self.thesis.__table__
        rows = [insert(table).values({**row, **empty}) for row in self.dump]
        self.run(delete(table), *rows)

    # --- commands --------------------------------------------------------------------------------

    @rule()
    def adopt(self) -> None:
        self.session.rollback()
        self.session.expunge_all()
        list(Sync(self.host.archive, self.thesis, adopt=True).run())
        self.check_identifiers()

    @rule()
    def compare(self) -> None:
        rows, records = self.read_rows(), [item.record for item in self.host.archive.find()]
        self.session.rollback()
        list(Sync(self.host.archive, self.thesis).run())
        assert self.read_rows() == rows
        assert [item.record for item in self.host.archive.find()] == records

    @rule()
    def repair(self) -> None:
        """Repair, and check that the rows and the items agree."""
        self.session.rollback()
        self.session.expunge_all()
        found = list(Sync(self.host.archive, self.thesis, repair=True).run())
        permanent = [one for one in found if not one.repaired]
        reasons = [f"{one.text} {one.reason}" for one in permanent]
        assert [one for one in reasons if not any(text in one for text in PERMANENT)] == []
        again = list(Sync(self.host.archive, self.thesis).run())
        assert [one.row for one in again] == [one.row for one in permanent]
        self.check_identifiers()
        excepted = {one.row for one in permanent}
        items = {item.ibi: item for item in self.host.archive.find()}
        with self.host.engine.connect() as connection:
            held = {one.ibip: one.host_key for one in connection.execute(HELD)}
        for row in self.read_rows():
            item = items.pop(row["ibi_ibip"], None)
            if f"Thesis {row['id']}" in excepted:
                continue
            assert row["ibi_ibip"] is not None
            if row["state"] == "Draft":
                assert item is None
                assert held.pop(row["ibi_ibip"]) == f"host_thesis:{row['id']}"
            else:
                assert item is not None
                assert (item.record.state, item.record.key) == (
                    row["state"],
                    f"host_thesis:{row['id']}",
                )
                assert row["state"] == "Deleted" or item.title == row["title"]
        public = {ibi for ibi, item in items.items() if item.record.state != "Deleted"}
        assert public <= {one.ibi for one in permanent}
        assert not held

    def read_rows(self) -> list[dict[str, Any]]:
        self.session.rollback()
        with self.host.engine.connect() as connection:
            rows = connection.execute(select(self.thesis.__table__).order_by(self.thesis.id))
            return [dict(row) for row in rows.mappings()]

    def check_identifiers(self) -> None:
        """Check that rows keep their identifiers while their items are public."""
        items = {item.ibi: item.record.state for item in self.host.archive.find()}
        held = {one.ibip for one in self.host.archive.reservations() if one.status == "held"}
        assert self.dead.isdisjoint({*items, *held})
        for row in self.read_rows():
            name, ibi = row["views"], row["ibi_ibip"]
            if ibi is None:
                continue
            before = self.known.get(name, ibi)
            assert before == ibi or (items.get(before) != "Original" and before not in held)
            self.known[name] = ibi


@pytest.mark.slow
@pytest.mark.postgresql
def test_rows_and_items_agree_after_repairs(backend: str) -> None:
    machine = type("Repository", (Repository,), {"backend": backend})
    examples = int(os.environ.get("IBI_STATEFUL_EXAMPLES", 6))
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=25)
    )
