"""The command adopt beside a running host: six writers add, change and delete rows all the time.

After ``compare --repair``, each row has the item that it describes, and no committed identifier was
replaced.
IBI_ADOPTION_SECONDS sets how long the writers work.
"""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event, Timer
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm.exc import ObjectDeletedError, StaleDataError
from support.host_app import Host

from flask_ibi_archive.archive.hosts.sync import Sync
from flask_ibi_archive.errors import IBIError, NotReady

SECONDS = float(os.environ.get("IBI_ADOPTION_SECONDS", 3))
WRITERS = 6
#: The longest pause of a writer after a transaction, in seconds. Writers are hosts, not benchmarks.
PAUSE = 0.05

NOTE_REPLACED = {
    "sqlite": (
        "CREATE TRIGGER note_replaced AFTER UPDATE ON host_thesis"
        " WHEN OLD.ibi_rep IS NOT NULL AND NEW.ibi_rep IS NOT OLD.ibi_rep"
        " BEGIN INSERT INTO replaced VALUES (OLD.ibi_rep); END",
    ),
    "postgresql": (
        "CREATE FUNCTION note_replaced() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO replaced VALUES (OLD.ibi_rep); RETURN NULL; END $$",
        "CREATE TRIGGER note_replaced AFTER UPDATE ON host_thesis FOR EACH ROW"
        " WHEN (OLD.ibi_rep IS NOT NULL AND NEW.ibi_rep IS DISTINCT FROM OLD.ibi_rep)"
        " EXECUTE FUNCTION note_replaced()",
    ),
}


class Writer:
    """One user of the host, whose transactions read rows first and write them later."""

    def __init__(self, host: Host, number: int, stop: Event) -> None:
        self.host, self.stop = host, stop
        self.random = Random(number)
        self.done: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        """Write until the end, and return the numbers of operations and errors."""
        with self.host.app.app_context():
            while not self.stop.wait(self.random.uniform(0, PAUSE)):
                name = self.random.choice(("insert", "add", "change", "touch", "delete", "link"))
                try:
                    getattr(self, name)()
                    self.host.session.commit()
                    self.done[name] += 1
                except (IBIError, DBAPIError, StaleDataError, ObjectDeletedError) as error:
                    self.host.session.rollback()
                    code = getattr(getattr(error, "orig", None), "sqlstate", "") or ""
                    self.done[f"{type(error).__name__} {code}".strip()] += 1
                finally:
                    self.host.session.remove()
        return self.done

    def pick(self, count: int) -> list[Any]:
        """Return random rows, which other writers may change before this one writes."""
        thesis = self.host.Thesis
        last = self.host.session.scalar(select(func.max(thesis.id))) or 1
        keys = [self.random.randint(1, last) for _ in range(count)]
        rows = list(self.host.session.scalars(select(thesis).where(thesis.id.in_(keys))))
        self.stop.wait(self.random.uniform(0, PAUSE / 5))
        return rows

    def insert(self) -> None:
        """Insert rows without identifiers, and delete one without its item, as old code does."""
        thesis, session = self.host.Thesis, self.host.session
        titles = [{"title": f"bulk {self.random.random()}", "state": "Original"} for _ in range(20)]
        session.execute(insert(thesis), titles)
        key = select(func.max(thesis.id)).where(thesis.ibi_rep.is_(None)).scalar_subquery()
        session.execute(delete(thesis).where(thesis.id == key, thesis.ibi_rep.is_(None)))

    def add(self) -> None:
        self.host.session.add(self.host.Thesis(title=f"added {self.random.random()}"))

    def change(self) -> None:
        for row in self.pick(5):
            row.title = f"changed {self.random.random()}"

    def touch(self) -> None:
        for row in self.pick(5):
            row.views += 1

    def delete(self) -> None:
        """Delete a row to which no row refers."""
        for row in self.pick(2):
            self.host.session.delete(row)

    def link(self) -> None:
        for row in self.pick(1):
            self.host.session.add(self.host.Thesis(title="next edition", previous=row))


def adopt(host: Host, stop: Event) -> Counter[str]:
    done: Counter[str] = Counter()
    with host.app.app_context():
        while not stop.is_set():
            try:
                for difference in Sync(host.archive, host.Thesis, adopt=True).run():
                    done["adopted" if difference.repaired else "refused"] += 1
            except NotReady as error:
                done[f"adopt: {error.detail or error}"[:60]] += 1
            finally:
                host.session.remove()
            stop.wait(PAUSE)
    return done


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:DELETE statement on table")  # two writers delete one row
def test_adoptions_beside_six_writers_leave_no_difference(new_host: Any) -> None:
    host: Host = new_host()
    with host.engine.begin() as connection:
        connection.execute(text("CREATE TABLE replaced (ibi_rep text)"))
        for statement in NOTE_REPLACED[host.engine.dialect.name]:
            connection.execute(text(statement))
    stop = Event()
    timer = Timer(SECONDS, stop.set)
    timer.start()
    done: Counter[str] = Counter()
    with ThreadPoolExecutor(WRITERS + 1) as threads:
        works = [threads.submit(Writer(host, number, stop).run) for number in range(WRITERS)]
        works.append(threads.submit(adopt, host, stop))
        for work in works:
            done += work.result()
    last = list(Sync(host.archive, host.Thesis, adopt=True).run())
    # a race of two sessions may leave an item behind
    behind = list(Sync(host.archive, host.Thesis, repair=True).run())
    rows = {row.ibi: row.title for row in host.session.scalars(select(host.Thesis))}
    items = {item.ibi: item for item in host.archive.find()}
    public = {ibi: item.title for ibi, item in items.items() if item.record.state == "Original"}
    replaced = host.session.scalar(text("SELECT count(*) FROM replaced"))
    print(
        f"\n{host.engine.dialect.name}, {SECONDS:.0f} s: {len(rows)} rows, {len(public)} public "
        f"items, {len(items) - len(public)} tombstones, {len(rows.items() ^ public.items())} "
        f"differences, {replaced} replaced identifiers; "
        f"repaired: {dict(Counter(one.kind for one in behind))}; {dict(done)}"
    )
    assert done["adopted"] > 0
    assert [one for one in (*last, *behind) if not one.repaired] == []
    assert replaced == 0
    assert rows == public
