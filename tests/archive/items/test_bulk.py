"""Many rows are inserted and updated as one row would be, with every value and every rule."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError
from support.archives import archive_of
from support.stores import rep_of

from flask_ibi_archive.archive.items import relations as bulk
from flask_ibi_archive.archive.items.relations import (
    DRIVERS,
    MANY_ROWS,
    insert_rows,
    insert_with_ids,
    update_rows,
)
from flask_ibi_archive.archive.items.rules import find_constraint
from flask_ibi_archive.archive.items.tables import File, Item, ItemIdentifier
from flask_ibi_archive.server.database.dialects import is_one_of

pytestmark = pytest.mark.postgresql

WHEN = datetime(2009, 7, 21, 13, 23, 45, tzinfo=timezone.utc)
#: Texts with a meaning in the text format of COPY.
TEXTS = ("\\N", "a\tb", "a\nb", "a\\tb", "é", "")


def items(archive_id: int, count: int) -> list[dict[str, Any]]:
    """Return rows of items with values of every type."""
    return [
        {
            "archive_id": archive_id,
            "state": "Original",
            "rep": rep_of(number),
            "timestamp": WHEN,
            "transferable": number % 2 == 0,
            "access_networks": TEXTS[number % len(TEXTS)],
            "access_others": "none",
            "dublin_core": {"title": [TEXTS[number % len(TEXTS)]]} if number % 3 else None,
            "embargo": date(2027, 3, 1) if number % 2 else None,
        }
        for number in range(count)
    ]


def insert_items(connection: Connection, archive_id: int, count: int) -> list[int]:
    ids = insert_with_ids(connection, Item, items(archive_id, count))
    insert_rows(
        connection,
        ItemIdentifier,
        [
            {
                "text": rep_of(number),
                "archive_id": archive_id,
                "item_id": item_id,
                "state": "Original",
                "form": "rep",
            }
            for number, item_id in enumerate(ids)
        ],
    )
    return ids


@pytest.mark.parametrize(
    ("count", "drivers"),
    [(1, DRIVERS), (MANY_ROWS - 1, DRIVERS), (MANY_ROWS, DRIVERS), (1, ()), (MANY_ROWS, ())],
)
def test_rows_get_their_ids_in_order_and_keep_their_values(
    app: Flask, count: int, drivers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "DRIVERS", drivers)
    archive = archive_of(app)
    given = items(archive.served().id, count)
    with archive.database.writing() as connection:
        ids = insert_items(connection, archive.served().id, count)
    columns = [getattr(Item, name) for name in given[0]]
    with archive.database.reading() as connection:
        rows = connection.execute(select(*columns).where(is_one_of(connection, Item.id, ids)))
        assert sorted(map(repr, rows.mappings().all())) == sorted(map(repr, given))
        for number, item_id in enumerate(ids):
            rep = connection.scalar(select(Item.rep).where(Item.id == item_id))
            assert rep == rep_of(number)


def test_the_constraint_that_refuses_one_of_many_rows_is_known(app: Flask) -> None:
    archive = archive_of(app)
    with archive.database.writing() as connection:
        ids = insert_items(connection, archive.served().id, MANY_ROWS)
        file = {"path": "a", "position": 0, "url": None, "sha256": None, "size": None}
        rows = [{"item_id": item_id, **file} for item_id in ids]
        with pytest.raises(IntegrityError) as refused, connection.begin_nested():
            insert_rows(connection, File, [*rows[:-1], {**rows[0], "path": "b", "size": 1}])
        assert find_constraint(refused.value) == "ck_ibi_file_stored"
        insert_rows(connection, File, rows)
    with archive.database.reading() as connection:
        assert len(connection.scalars(select(File.path)).all()) == MANY_ROWS


def test_an_item_has_more_rows_than_one_statement_can_insert(app: Flask) -> None:
    archive = archive_of(app)
    file = {"url": None, "sha256": None, "size": None}
    count = 11_000  # 66 000 parameters; PostgreSQL accepts 65 535
    with archive.database.writing() as connection:
        [item_id] = insert_items(connection, archive.served().id, 1)
        rows = [{"item_id": item_id, "path": f"{n}", "position": n, **file} for n in range(count)]
        insert_rows(connection, File, rows)
        found = connection.scalars(select(File.path).order_by(File.position)).all()
    assert found == [row["path"] for row in rows]


def test_many_rows_are_updated_with_their_own_values(app: Flask) -> None:
    archive = archive_of(app)
    with archive.database.writing() as connection:
        ids = insert_items(connection, archive.served().id, MANY_ROWS)
        languages = ["en", None] * (MANY_ROWS // 2)
        rows = [
            {"id": one, "language": language, "embargo": date(2027, 3, 1) if language else None}
            for one, language in zip(ids, languages, strict=True)
        ]
        update_rows(connection, Item, rows)
        found = connection.execute(
            select(Item.id, Item.language, Item.embargo)
            .where(is_one_of(connection, Item.id, ids))
            .order_by(Item.id)
        )
        assert [dict(row) for row in found.mappings()] == rows


def test_times_are_updated_only_with_a_time_zone(app: Flask) -> None:
    archive = archive_of(app)
    with archive.database.writing() as connection:
        [item_id] = insert_items(connection, archive.served().id, 1)
        later = WHEN.astimezone(timezone(timedelta(hours=-3))) + timedelta(days=1)
        update_rows(connection, Item, [{"id": item_id, "timestamp": later}])
        with pytest.raises(StatementError, match="has no time zone"):
            update_rows(connection, Item, [{"id": item_id, "timestamp": datetime(2009, 7, 21)}])
        found = connection.scalar(select(Item.timestamp).where(Item.id == item_id))
    assert found == later


def test_a_value_of_another_type_is_not_stored(app: Flask) -> None:
    archive = archive_of(app)
    with archive.database.writing() as connection:
        [item_id] = insert_items(connection, archive.served().id, 1)
        with pytest.raises((TypeError, DBAPIError)):
            update_rows(connection, Item, [{"id": item_id, "language": object()}])


@pytest.mark.parametrize("values", [[], ["a"], ["\\", '"', "{}", "a,b", "é"]])
def test_a_column_is_compared_with_many_values(app: Flask, values: list[str]) -> None:
    archive = archive_of(app)
    with archive.database.writing() as connection:
        [item_id] = insert_items(connection, archive.served().id, 1)
        for number, path in enumerate(["a", "b", "\\", '"', "{}", "a,b", "é", "a\nb"]):
            insert_rows(connection, File, [{"item_id": item_id, "path": path, "position": number}])
        found = connection.scalars(
            select(File.path).where(is_one_of(connection, File.path, values))
        )
        assert sorted(found) == sorted(values)


def test_a_text_that_is_longer_than_the_column_is_not_cut(app: Flask) -> None:
    archive = archive_of(app)
    with archive.database.writing() as connection:
        [item_id] = insert_items(connection, archive.served().id, 1)
        update_rows(connection, Item, [{"id": item_id, "language": "pt-BR"}])
        for text, found in (("pt-BR", [item_id]), ("pt-BRA", [])):
            condition = is_one_of(connection, Item.language, [text])
            assert connection.scalars(select(Item.id).where(condition)).all() == found
