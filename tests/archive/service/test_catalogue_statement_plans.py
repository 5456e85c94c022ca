"""The statement of a urlRequest searches by keys, however few items an Archive has."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy import text
from support.archives import archive_of, close, make_app
from support.cases import for_each
from support.databases import new_database
from support.stores import rep_of

from flask_ibi_archive.archive.items.relations import insert_rows, insert_with_ids
from flask_ibi_archive.archive.items.tables import File, Item, ItemIdentifier
from flask_ibi_archive.archive.service.catalogue import build_statement
from flask_ibi_archive.core.protocol.relation_targets import add_prefixes
from flask_ibi_archive.core.protocol.relations import SHAPES

#: So few items that PostgreSQL would rather read the whole table than search for 100 rows.
ITEMS = 5000
WHEN = datetime(2009, 7, 21, 13, 23, 45, tzinfo=timezone.utc)


@for_each("has_statistics", [False, True])
def test_postgresql_does_not_read_whole_tables(has_statistics: bool, tmp_path: Path) -> None:
    with new_database("postgresql", tmp_path, ready=True) as uri:
        app = make_app(uri, tmp_path)
        archive = archive_of(app)
        archive.init()
        served = archive.served().id
        with archive.database.writing() as connection:
            same = {"archive_id": served, "state": "Original"}
            reps = [rep_of(number) for number in range(ITEMS)]
            rows = [{**same, "rep": rep, "timestamp": WHEN, "target_path": "a"} for rep in reps]
            ids = insert_with_ids(connection, Item, rows)
            named = list(zip(ids, reps, strict=True))
            insert_rows(
                connection,
                ItemIdentifier,
                [{**same, "text": rep, "item_id": key, "form": "rep"} for key, rep in named],
            )
            insert_rows(
                connection, File, [{"item_id": key, "path": "a", "position": 0} for key in ids]
            )
            if has_statistics:
                connection.execute(text("ANALYZE"))
        dialect = archive.database.engine.dialect
        for shapes in (add_prefixes({""}), add_prefixes({"um"}), SHAPES):
            statement = build_statement(dialect, shapes, True, 2, True).compile(dialect=dialect)
            given = {"archive_id": served, "ibi": reps[0], "path_0": "a", "path_1": "a.html"}
            with archive.database.reading() as connection:
                plan = "\n".join(
                    row[0]
                    for row in connection.exec_driver_sql(
                        f"EXPLAIN {statement}", {**statement.params, **given}
                    )
                )
            # an empty table may be read
            assert "Seq Scan" not in plan.replace("Seq Scan on ibi_tombstone", ""), plan
        close(app)
