"""Random adds, changes, deletes, flushes, savepoints and rollbacks of a host's session.

After each commit, the rows and the items agree. After each rollback, the database is as before, and
no file of the transaction remains. IBI_STATEFUL_EXAMPLES sets the number of random walks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from sqlalchemy import inspect, select, text
from sqlalchemy.exc import IntegrityError
from support.host_machine import HostMachine
from support.operations import dump

from flask_ibi_archive.errors import RowError

STATES = ("Original", "Original", "Draft", "Reserved", "Deleted")
CONTENTS = ("rain", "snow", "hail", "ice")
picks = st.integers(0, 999)


def can_be_added(row: Any) -> bool:
    """Return whether SQLAlchemy can add a row that is new or was rolled back.

    SQLAlchemy may have forgotten the values, and does not write the new key of a previous edition.
    """
    state = inspect(row)
    named = any(state.attrs.previous.history.sum())
    return bool(state.transient and not state.expired_attributes and not named)


class Repository(HostMachine):
    """The session of a host. All rows that were ever created are in ``rows``."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Any] = []
        self.savepoints: list[Any] = []
        #: The contents of files of items that were committed.
        self.contents: set[str] = set()
        self.issued: set[str] = set()
        self.dead: set[str] = set()
        self.committed = dump(self.host.archive.database)

    # --- rows ------------------------------------------------------------------------------------

    def pick(self, number: int) -> Any:
        """Return one of the rows in the session; None if there is none."""
        rows = [row for row in self.rows if row in self.session and row not in self.session.deleted]
        return rows[number % len(rows)] if rows else None

    @rule(
        title=st.sampled_from(["A", "B"]),
        state=st.sampled_from(STATES),
        content=st.sampled_from([None, *CONTENTS]),
        previous=st.none() | picks,
    )
    def add(self, title: str, state: str, content: str | None, previous: int | None) -> None:
        row = self.host.Thesis(title=title, state=state, pdf=self.file(content))
        if previous is not None:
            row.previous = self.pick(previous)
        self.rows.append(row)
        self.session.add(row)

    @rule(number=picks)
    def add_again(self, number: int) -> None:
        rows = [row for row in self.rows if can_be_added(row)]
        if rows:
            row = rows[number % len(rows)]
            row.id = None  # another row may have this key now
            self.session.add(row)

    @rule(number=picks, name=st.sampled_from(["title", "views", "pdf", "state"]), value=picks)
    def change(self, number: int, name: str, value: int) -> None:
        row = self.pick(number)
        if row is None or not self.attempt(lambda: row.state):
            return
        if name == "state":
            row.state = {"Draft": "Original", "Reserved": "Original"}.get(row.state, "Deleted")
        else:
            values = {"title": "AB"[value % 2], "views": value, "pdf": None}
            values["pdf"] = self.file(CONTENTS[value % len(CONTENTS)])
            setattr(row, name, values[name])

    @rule(number=picks, announced=st.booleans())
    def delete(self, number: int, announced: bool) -> None:
        row = self.pick(number)
        if row is None:
            return
        if row in self.session.new:
            for other in self.rows:  # SQLAlchemy refuses to write a row that names a row outside
                if inspect(other).dict.get("previous") is row:
                    other.previous = None
            self.session.expunge(row)
            return
        if announced:
            self.host.ibi.removing(row, reason="retracted")
        self.session.delete(row)

    @rule(number=picks, language=st.sampled_from(["pt", "xx"]))
    def describe_wrongly(self, number: int, language: str) -> None:
        row = self.pick(number)
        if row is not None:
            row.language = language

    def file(self, content: str | None) -> str | None:
        return None if content is None else self.host.write(f"{content}.pdf", content)

    # --- the session -----------------------------------------------------------------------------

    def attempt(self, work: Any) -> bool:
        """Do something that flushes; if it is refused, roll back as a host must do."""
        try:
            work()
        except (RowError, IntegrityError):
            self.rollback()
            return False
        return True

    @rule()
    def flush(self) -> None:
        if self.attempt(self.session.flush):
            labels = {inspect(row).dict.get("ibi_ibip") for row in self.rows if row in self.session}
            assert not labels & self.dead
            self.issued |= labels - {None}

    @rule(number=picks)
    def refresh(self, number: int) -> None:
        row = self.pick(number)
        if row is not None:
            self.attempt(lambda: self.host.ibi.refresh(row))

    @rule()
    def begin_savepoint(self) -> None:
        self.attempt(lambda: self.savepoints.append(self.session.begin_nested()))

    @precondition(lambda self: self.savepoints)
    @rule(number=picks)
    def roll_back_to_savepoint(self, number: int) -> None:
        number %= len(self.savepoints)
        # SQLAlchemy keeps rows of inner savepoints if only the outer one is rolled back
        while len(self.savepoints) > number:
            self.savepoints.pop().rollback()

    @precondition(lambda self: self.savepoints)
    @rule()
    def release_savepoint(self) -> None:
        self.attempt(lambda: self.savepoints.pop().commit())

    @rule()
    def rollback(self) -> None:
        self.savepoints.clear()
        self.session.rollback()
        assert dump(self.host.archive.database) == self.committed
        assert set(self.host.stored()) <= self.contents
        self.check_labels()

    @rule()
    def commit(self) -> None:
        self.savepoints.clear()
        if self.attempt(self.session.commit):
            self.committed = dump(self.host.archive.database)
            self.check_labels()
            self.check_agreement()

    # --- what holds after each transaction -------------------------------------------------------

    def check_labels(self) -> None:
        """No label that was rolled back is issued again."""
        found = {row[0] for row in self.read("SELECT text FROM ibi_identifier WHERE form = 'ibip'")}
        found |= {row[0] for row in self.read("SELECT ibip FROM ibi_reservation")}
        assert not found & self.dead
        self.dead |= self.issued - found

    def teardown(self) -> None:
        with self.open:  # otherwise a folder that stays open fails later tests
            self.commit()

    def read(self, statement: str) -> list[Any]:
        with self.host.engine.connect() as connection:
            return list(connection.execute(text(statement)))

    def check_agreement(self) -> None:
        items = {item.ibi: item.record for item in self.host.archive.find()}
        titles = {item.ibi: item.title for item in self.host.archive.find()}
        held = {one.ibip for one in self.host.archive.reservations() if one.status == "held"}
        rows = list(self.session.scalars(select(self.host.Thesis)))
        self.issued |= {row.ibi for row in rows}
        for row in rows:
            assert row.ibi is not None
            if row.state in ("Draft", "Reserved"):
                assert row.ibi in held
                held.remove(row.ibi)
                assert row.ibi not in items
                continue
            record = items.pop(row.ibi)
            assert (record.rep, record.state) == (row.ibi_rep, row.state)
            if row.state == "Original":
                assert titles[row.ibi] == row.title
                paths = [Path(row.pdf).name] if row.pdf else []
                assert [file.path for file in record.files] == paths
            if row.previous is not None:
                previous = self.host.archive.get(row.previous.ibi)
                assert previous is not None
                assert previous.record.next_edition == row.ibi_rep
        assert not held
        assert {record.state for record in items.values()} <= {"Deleted"}
        if self.backend == "sqlite":  # where the host's connections do not check foreign keys
            broken = self.read("PRAGMA foreign_key_check")
            assert not [row for row in broken if row[0].startswith("ibi_")]
        needed = {row[0] for row in self.read("SELECT sha256 FROM ibi_file")}
        folder = self.host.archive.files_folder
        self.contents |= {folder.path(sha256).read_text() for sha256 in needed}
        assert set(self.host.stored()) <= self.contents
        self.session.commit()


@pytest.mark.slow
@pytest.mark.postgresql
def test_rows_and_items_agree(backend: str) -> None:
    Repository.run_on(backend, steps=30)
