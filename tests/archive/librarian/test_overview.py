"""The page of the librarian shows what needs attention, with a bounded number of statements."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event, update
from support.accesses import insert_counts
from support.archives import archive_of, import_records
from support.commands import command
from support.librarians import Librarian
from support.web import rep

from flask_ibi_archive import Archive
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.archive.joining.registration_state import store_failure, store_status


def section(page: str, name: str) -> str:
    """Return the section of the page with a heading."""
    return page.partition(f">{name}</h2>")[2].partition("</section>")[0]


def test_an_empty_archive_has_nothing_that_needs_attention(librarian: Librarian) -> None:
    page = librarian.get()
    assert "The Archive is not registered." in page
    assert "flask ibi verify" in section(page, "Damaged files")
    assert "None." in section(page, "Embargoes that end in the next 90 days")
    assert "No access has been counted" in page


@pytest.mark.parametrize(
    ("store", "text"),
    [
        ({"included": True, "confirmed": True}, "The resolver includes the Archive.<"),
        ({"included": True, "confirmed": False}, "but could not call it back."),
        ({"included": False, "confirmed": False}, "The resolver has excluded the Archive."),
        (None, "HTTP 500 from the resolver"),
    ],
    ids=["confirmed", "not confirmed", "excluded", "failed"],
)
def test_the_registration_is_that_of_the_last_answer(
    archive: Archive, librarian: Librarian, store: dict[str, bool] | None, text: str
) -> None:
    config, now = archive.config, archive.clock()
    with archive.database.writing() as connection:
        place: tuple[Any, ...] = (connection, archive.served().id, config.resolver_url)
        if store is None:
            store_failure(*place, "HTTP 500 from the resolver", now)
        else:
            store_status(*place, config.archive_address, "203.0.113.7", now=now, **store)
    assert text in section(librarian.get(), "Registration at the resolver")


def test_damaged_files_are_those_of_the_last_check(
    app: Flask, archive: Archive, librarian: Librarian
) -> None:
    item = archive.deposit(title="Rain", files=[("rain.csv", BytesIO(b"1,2"))])
    stored = archive.get(item)
    assert stored is not None
    path = Path(str(stored.record.files[0].source))
    content = path.read_bytes()
    path.unlink()
    assert "have not been checked yet" in section(librarian.get(), "Damaged files")
    assert command(app, "verify").status == 1
    damaged = section(librarian.get(), "Damaged files")
    assert "1 file is damaged." in damaged
    assert "rain.csv" in damaged
    assert ">Rain</a>" in damaged
    path.write_bytes(content)
    assert command(app, "verify").status == 0
    assert "rain.csv" not in section(librarian.get(), "Damaged files")


@pytest.mark.parametrize(("days", "is_shown"), [(0, False), (1, True), (90, True), (91, False)])
def test_embargoes_are_shown_if_they_end_in_ninety_days(
    archive: Archive, librarian: Librarian, days: int, is_shown: bool
) -> None:
    archive.deposit(title="Rain", embargo=archive.today + timedelta(days=days))
    page = section(librarian.get(), "Embargoes that end in the next 90 days")
    assert ("Rain" in page) is is_shown


@pytest.mark.postgresql
def test_most_read_items_are_those_of_the_last_year(archive: Archive, librarian: Librarian) -> None:
    import_records(
        archive,
        [{"rep": rep(no), "metadata": {"dc": {"title": [f"Item {no}"]}}} for no in range(1, 15)],
    )
    counts = [
        {
            "ibi": rep(number),
            "day": archive.today - timedelta(days=400 if number == 14 else number),
            "content_type": kind,
            "accesses": number * (2 if kind == "Data" else 1),
            "double_clicks": 0,
            "robots": 0,
        }
        for number in range(1, 15)
        for kind in ("Data", "Metadata")
    ]
    insert_counts(archive, counts)
    page = section(librarian.get(), "Most read items of the last 12 months")
    shown = [number for number in range(1, 15) if f">Item {number}</a>" in page]
    assert shown == [*range(4, 14)]
    assert page.index(">Item 13<") < page.index(">Item 4<")
    assert "<td>13</td><td>26</td>" in page


def test_a_search_finds_items_and_offers_to_withdraw_those_that_are_not_removed(
    archive: Archive, librarian: Librarian
) -> None:
    kept, removed = archive.deposit(title="Rain 2025"), archive.deposit(title="Rain 2024")
    archive.delete(removed, "An error.")
    page = section(librarian.get("?q=rain"), "Withdraw an item")
    assert f"/care?withdraw={kept.ibi}" in page
    assert ">Rain 2024</a>" in page
    assert removed.ibi not in page.replace(f"/col/{removed.ibi}", "").replace(str(removed.rep), "")
    assert "No item has this text" in librarian.get("?q=snow")


def count_statements(archive: Archive, work: Callable[[], object]) -> int:
    """Return the number of SQL statements that run during some work."""
    found: list[str] = []

    def note(*parts: object) -> None:
        found.append(str(parts[2]))

    engines = {archive.database.engine, archive.database.reader}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", note)
    return len(found)


def test_the_number_of_statements_does_not_depend_on_the_number_of_items(
    app: Flask, archive: Archive, librarian: Librarian
) -> None:
    def add(first: int, last: int) -> None:
        numbers = range(first, last)
        import_records(
            archive,
            [
                {
                    "rep": rep(number),
                    "metadata": {"dc": {"title": ["Rain"]}},
                }
                for number in numbers
            ],
        )
        day = archive.today + timedelta(days=5)
        with archive.database.writing() as connection:
            connection.execute(update(Item).where(~Item.is_service).values(embargo=day))
        for number in numbers:
            if number % 3 == 0:
                archive.delete(rep(number), "An error.")

    add(1, 4)
    assert command(app, "verify").status == 0
    librarian.get()
    few = count_statements(archive, librarian.get)
    add(4, 60)
    assert count_statements(archive, librarian.get) == few
    assert few <= 14
    assert "The first 20 of" in librarian.get()


def test_the_page_is_kept_by_no_cache_and_by_no_search_engine(librarian: Librarian) -> None:
    headers = librarian.client.get("/care").headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Robots-Tag"] == "noindex"
    assert archive_of(librarian.client.application).items.records is None
