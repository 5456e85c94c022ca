"""Measure OAI-PMH with a million items: the first, middle and last part of a list, and Identify.

Run: ``python -m benchmarks.harvest_of_a_million [--postgresql URL] [--items N]``. Each
request is measured with a thousand items, and again after the other items have been added by SQL.
The times must not depend on the number of items. The plans of all statements are printed with
``--plans``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from flask import Flask
from itsdangerous import URLSafeSerializer
from sqlalchemy import event, text
from support.archives import archive_of, close, import_records, make_app

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.harvest.oai_messages import Selection, dump_selection
from flask_ibi_archive.archive.items.tables import Item

FEW, BLOCK, CALLS = 1000, 100_000, 11
BEGIN = datetime(2020, 1, 1, tzinfo=timezone.utc)
#: The number of changes with the same datestamp.
AT_ONCE = 50
#: The columns of the table of items that an added item has in common with the first item.
SAME = ", ".join(
    f'"{column.name}"' for column in Item.__table__.columns if column.name not in ("id", "rep")
)
NUMBERS = {
    "sqlite": (
        "(WITH RECURSIVE c(n) AS (SELECT :start UNION ALL SELECT n + 1 FROM c WHERE n < :end)"
        " SELECT n FROM c)"
    ),
    "postgresql": "generate_series(CAST(:start AS bigint), CAST(:end AS bigint)) AS numbers(n)",
}
ADD = (
    f"INSERT INTO ibi_item (id, rep, {SAME}) SELECT :first + n, 'a.br/y' || n"
    f" || '/2000/01.01.00.00', {SAME} FROM ibi_item, {{numbers}} WHERE id = :first",
    "INSERT INTO ibi_identifier (text, archive_id, item_id, state, form, alias_no)"
    " SELECT i.rep, i.archive_id, i.id, o.state, o.form, 0 FROM ibi_item i JOIN ibi_identifier o"
    " ON o.item_id = :first WHERE i.id BETWEEN :first + :start AND :first + :end",
    "DELETE FROM ibi_changed_item",
)


def rep(number: int) -> str:
    """Return the repository name of an item."""
    return f"a.br/x/{1000 + number}/01.01.00.00"


def add_items(archive: Archive, items: int) -> None:
    """Copy the first item, so that there are so many items, and write the harvest log."""
    engine = archive.database.engine
    with archive.database.reading() as connection:
        first = connection.scalar(text("SELECT min(id) FROM ibi_item WHERE NOT is_service"))
    for start in range(FEW, items, BLOCK):
        numbers = {"start": start, "end": min(start + BLOCK, items) - 1}
        with archive.database.writing() as connection:
            for statement in ADD:
                whole = text(statement.format(numbers=NUMBERS[engine.dialect.name]))
                given = {"first": first, **numbers}
                connection.execute(whole, {name: given[name] for name in whole.compile().params})
            archive_id = connection.scalar(
                text("SELECT archive_id FROM ibi_item WHERE id = :id"), {"id": first}
            )
            connection.exec_driver_sql(
                "INSERT INTO ibi_harvest (item_id, archive_id, change_no, datestamp)"
                + (
                    " VALUES (?, ?, ?, ?)"
                    if engine.dialect.name == "sqlite"
                    else " VALUES (%s, %s, %s, %s)"
                ),
                [
                    (first + n, archive_id, n + 1, format_moment(engine.dialect.name, n))
                    for n in range(numbers["start"], numbers["end"] + 1)
                ],
            )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")


def moment(number: int) -> datetime:
    """Return the datestamp of a change."""
    return BEGIN + timedelta(seconds=number // AT_ONCE)


def format_moment(dialect: str, number: int) -> Any:
    """Return the datestamp of a change as the database stores it."""
    return (
        str(moment(number).replace(tzinfo=None)) + ".000000"
        if dialect == "sqlite"
        else moment(number)
    )


class Statements:
    """The statements of the last request."""

    def __init__(self, archive: Archive) -> None:
        self.found: list[tuple[str, Any]] = []
        self._engine = archive.database.reader
        event.listen(self._engine, "before_cursor_execute", self._note)

    def _note(self, *given: Any) -> None:
        self.found.append((given[2], given[3]))

    def print_plans(self) -> None:
        """Print the plans of the statements."""
        is_sqlite = self._engine.dialect.name == "sqlite"
        explain = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN "
        for statement, values in list(self.found):
            with self._engine.connect() as connection:
                rows = connection.exec_driver_sql(explain + statement, values).all()
            print("   ", " ".join(statement.split())[:150])
            print(*(f"        {row[-1]}" for row in rows), sep="\n")


def measure(app: Flask, statements: Statements, items: int, plans: bool) -> None:
    """Print the times of the requests."""
    sign = URLSafeSerializer("a secret for tests", salt="ibi-oai-pmh").dumps
    client = app.test_client()

    def after(number: int) -> str:
        position = (moment(number), number)
        token = sign(dump_selection(Selection("oai_dc", after=position)))
        return f"verb=ListRecords&resumptionToken={token}"

    requests = {
        "Identify": "verb=Identify",
        "first part": "verb=ListRecords&metadataPrefix=oai_dc",
        "middle part": after(items // 2),
        "last part": after(items - 100),
        "from the last second": "verb=ListRecords&metadataPrefix=oai_dc&from="
        + moment(items - 1).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    for name, query in requests.items():
        times = []
        for _ in range(CALLS):
            statements.found.clear()
            start = time.perf_counter()
            answer = client.get(f"/ibi/oai?{query}")
            times.append(1000 * (time.perf_counter() - start))
            assert answer.status_code == 200
            assert "<error" not in answer.text
        median, count = statistics.median(times), len(statements.found)
        print(f"{items:9} items  {median:7.1f} ms  {count} statements  {name}", flush=True)
        if plans:
            statements.print_plans()


def main() -> None:
    """Measure on SQLite, or on the database of ``--postgresql``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database to measure on")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--plans", action="store_true", help="print the plans of the statements")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = make_app(given.postgresql or f"sqlite:///{folder / 'ibi.sqlite'}", folder)
        archive = archive_of(app)
        archive.init()
        import_records(
            archive,
            [
                {"rep": rep(number), "metadata": {"dc": {"title": [f"Rain {number}"]}}}
                for number in range(FEW)
            ],
        )
        app.test_client().get("/ibi/oai?verb=Identify")
        with archive.database.writing() as connection:
            connection.execute(text("DELETE FROM ibi_changed_item"))
        statements = Statements(archive)
        print("requests with few items, then with many")
        measure(app, statements, FEW, plans=False)
        add_items(archive, given.items)
        measure(app, statements, given.items, given.plans)
        close(app)


if __name__ == "__main__":
    main()
