"""Statistics: views, downloads, double clicks and robots, by day, month and year."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from typing import Any

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from support.accesses import acknowledge, forget_accesses, insert_accesses, set_time, stored
from support.archives import FAR_SERVICE, SERVICE, archive_of, import_records, open_app
from support.commands import command
from support.statements import count_statements
from support.web import ask, rep

from flask_ibi_archive.archive.accesses import rows
from flask_ibi_archive.archive.accesses.rows import get_utc_day, start_of_day
from flask_ibi_archive.archive.accesses.statistics import Statistics
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.stored_relations import COUNTING
from flask_ibi_archive.core.protocol.hosts import anonymise
from flask_ibi_archive.core.protocol.messages import NO_AGENTS, Agents

A, B = (f"a.br/x/{year}/01.01.00.00" for year in (2001, 2002))
NOON = start_of_day(date(2026, 3, 1)) + 43_200
MIDNIGHT = start_of_day(date(2026, 3, 2))
Row = dict[str, Any]
#: The numbers of a naive count, by item, day, content type and name.
Counts = Counter[tuple[str, date, str, str]]


@pytest.fixture(scope="module")
def counted(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """An Archive with two items."""
    folder = tmp_path_factory.mktemp("statistics")
    with open_app(backend, folder) as app:
        import_records(archive_of(app), [{"rep": ibi} for ibi in (A, B)])
        yield archive_of(app)


@pytest.fixture
def archive(counted: Archive) -> Archive:
    """The Archive, without accesses and counts."""
    forget_accesses(counted)
    return counted


def clicks(archive: Archive, *seconds: int, **more: Any) -> list[Row]:
    return [{"ibi": A, "second": second, **more} for second in seconds]


def test_double_clicks_and_periods(archive: Archive) -> None:
    # only the last click within 30 seconds counts
    for seconds, downloads, double_clicks in [
        ((0,), 1, 0),
        ((0, 0), 1, 1),
        ((0, 30), 1, 1),
        ((0, 31), 2, 0),
        ((0, 30, 60), 1, 2),  # each click makes the previous click a double click
    ]:
        forget_accesses(archive)
        insert_accesses(archive, clicks(archive, *(NOON + second for second in seconds)))
        found = archive.statistics(A, "day")
        assert (found.downloads, found.double_clicks) == (downloads, double_clicks)
    # periods have no gaps and without accesses there are none
    forget_accesses(archive)
    assert archive.statistics() == Statistics(None, "month", ())
    assert archive.statistics(A, "day") == Statistics(A, "day", ())
    insert_accesses(
        archive,
        clicks(archive, *(start_of_day(day) for day in (date(2023, 11, 30), date(2025, 2, 1)))),
    )
    assert [one.label for one in archive.statistics(by="year").periods] == ["2023", "2024", "2025"]
    months = archive.statistics(A).periods
    assert len(months) == 16
    assert [one.downloads for one in months] == [1, *[0] * 14, 1]
    assert (months[1].start, months[1].label) == (date(2023, 12, 1), "2023-12")
    assert len(archive.statistics(A, "day").periods) == 430  # the sum includes a leap year
    # json and csv contain the same numbers
    forget_accesses(archive)
    insert_accesses(archive, clicks(archive, NOON, NOON + 5))
    insert_accesses(archive, clicks(archive, NOON, content_type="Metadata"))
    whole = archive.statistics(by="year")
    assert list(whole.csv_rows()) == [
        ["period", "views", "downloads", "double_clicks", "robots"],
        ["2026", "1", "1", "1", "0"],
    ]
    numbers = {"views": 1, "downloads": 1, "double_clicks": 1, "robots": 0}
    period = {"start": "2026-01-01", "label": "2026", **numbers}
    assert whole.to_json() == {"ibi": None, "by": "year", **numbers, "periods": [period]}


# --- the counts ----------------------------------------------------------------------------------


def count_naively(accesses: list[Row]) -> Counts:
    """Count accesses one after the other, as the COUNTER Code of Practice requires."""
    expected: Counts = Counter()
    for place, row in enumerate(accesses):
        followed = any(
            not other["robot"]
            and all(other[name] == row[name] for name in ("ibi", "content_type", "visitor"))
            and (other["second"], number) > (row["second"], place)
            and other["second"] - row["second"] <= 30
            and get_utc_day(other["second"]) == get_utc_day(row["second"])
            for number, other in enumerate(accesses)
        )
        name = "robots" if row["robot"] else "double_clicks" if followed else "accesses"
        expected[row["ibi"], get_utc_day(row["second"]), row["content_type"], name] += 1
    return expected


def check_counts(archive: Archive, expected: Counts) -> None:
    """Compare the stored counts of each item and of the Archive with expected ones."""
    stored_counts, whole = Counts(), Counts()
    for (_, day, content_type, name), number in expected.items():
        whole["", day, content_type, name] += number
    with archive.database.snapshot() as connection:
        for ibi in (A, B, ""):
            counts = rows.read_counts(connection, archive.served().id, [ibi] if ibi else None)
            for day, content_type, *numbers in counts:
                for name, number in zip(rows.NUMBERS, numbers, strict=True):
                    stored_counts[ibi, day, content_type, name] += number
    assert stored_counts == expected + whole


EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "ibi": st.sampled_from([A, B]),
            "second": st.integers(-50, 50).map(lambda second: MIDNIGHT + second)
            | st.integers(0, 3).map(lambda day: MIDNIGHT + day * 86_400),
            "visitor": st.sampled_from(["x", "x", "y"]),
            "robot": st.sampled_from([False, False, True]),
            "content_type": st.sampled_from(["Data", "Metadata"]),
        }
    ),
    max_size=25,
)
STEPS = st.lists(EVENTS | st.tuples(st.just("purge"), st.integers(-1, 5)), max_size=7)


@pytest.mark.postgresql
@settings(max_examples=settings().max_examples // 8)  # 2, in thorough runs 12
@given(steps=STEPS)
def test_stored_counts_equal_a_naive_count_of_all_accesses(
    counted: Archive, steps: list[Any]
) -> None:
    """Accesses are stored in any order and purged; the statistics stay the same."""
    forget_accesses(counted)
    present: list[Row] = []
    purged: Counts = Counter()
    for step in steps:
        if isinstance(step, list):
            insert_accesses(counted, step)
            present += step
        else:
            set_time(counted, MIDNIGHT + (step[1] + 1) * 86_400 + 50_000)
            before = counted.purge(0).before
            counts = count_naively(present)
            purged.update({key: counts[key] for key in counts if key[1] < before})
            present = [event for event in present if event["second"] >= start_of_day(before)]
            assert len(stored(counted)) == len(present)
        check_counts(counted, count_naively(present) + purged)


@pytest.mark.postgresql
def test_counts_are_exact_if_accesses_are_stored_at_the_same_time(archive: Archive) -> None:
    """The accesses of a user are double clicks of each other, whoever stores them."""

    def store(seed: int) -> None:
        chance = random.Random(seed)
        for number in range(12):
            values = {
                "archive_id": archive.served().id,
                "url_key": f"{seed}-{number}",
                "ibi": A,
                "second": MIDNIGHT + chance.randrange(-60, 60),
                "visitor": chance.choice("ab"),
                "address": "192.0.2.0",
                "robot": chance.random() < 0.1,
                "content_type": "Data",
                "url": "",
            }
            with archive.database.writing(60, COUNTING) as connection:
                rows.lock_visitors(connection, str(values["visitor"]))
                assert rows.insert_access(connection, values)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(store, range(3)))
    accesses = stored(archive)
    assert len(accesses) == 3 * 12
    check_counts(archive, count_naively(accesses))


@pytest.mark.postgresql
def test_the_counts_of_an_item_are_those_of_all_its_identifiers(app: Flask) -> None:
    archive = archive_of(app)
    ibip = "8JMKD3MGP8W/35MME4E"
    import_records(archive, [{"rep": A, "ibip": ibip}])
    insert_accesses(archive, [{"ibi": ibi, "second": NOON} for ibi in (A, ibip)])
    with archive.database.writing():  # reading does not wait for a writer
        assert archive.statistics(A).downloads == archive.statistics(ibip).downloads == 2
    exported = json.loads(command(app, "export", "--with-counts").data)
    assert exported["counts"] == [["2026-03-01", "Data", 2, 0, 0]]
    # reading statistics writes nothing
    for target in ("/ibi/statistics", f"/col/{A}/statistics?format=csv&by=day"):
        for statement in count_statements(app, partial(ask, app, target)):
            assert statement.split()[0].upper() in ("BEGIN", "PRAGMA", "SELECT", "WITH"), target


def test_archives_of_one_database_have_separate_counts(new_app: Callable[..., Flask]) -> None:
    archives = [archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=ibi)) for ibi in (SERVICE, FAR_SERVICE)]
    for number, archive in enumerate(archives, 1):
        archive.init()
        import_records(archive, [{"rep": rep(number)}])
        insert_accesses(
            archive, [{"ibi": rep(number), "second": NOON + 60 * place} for place in range(number)]
        )
    assert [archive.statistics().downloads for archive in archives] == [1, 2]
    assert archives[1].statistics(rep(2)).downloads == 2


# --- users and robots ----------------------------------------------------------------------------


def test_robots_are_recognised_and_addresses_shortened() -> None:
    # robots are recognised by the user agent
    for sender, reader, robot in [
        (None, None, False),
        ("python-requests/2.31", None, False),  # the User-Agent of the resolver
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", None, True),
        ("python-requests/2.31", "curl/8.1", True),  # the User-Agent of the reader is a program
        ("Googlebot/2.1", "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Firefox/120.0", False),
    ]:
        assert rows.is_robot_access(sender, reader) is robot
    # the last octet or the last 80 bits are not stored
    for address, kept in [
        ("150.163.2.175", "150.163.2.0"),
        ("::ffff:150.163.2.175", "150.163.2.0"),
        ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8:ffff::"),
        ("::1", "::"),
    ]:
        assert anonymise(address) == kept


def take(archive: Archive, second: int, user: str, agents: Agents = NO_AGENTS) -> None:
    set_time(archive, second)
    acknowledgment = acknowledge(archive, A, user=user)
    assert archive.take_acknowledgment(acknowledgment, agents)


def test_users_of_one_network_have_different_pseudonyms_for_a_day(app: Flask) -> None:
    archive = archive_of(app)
    import_records(archive, [{"rep": A}])
    for second, user in (
        (NOON, "150.163.2.1"),
        (NOON + 5, "150.163.2.2"),
        (NOON + 6, "150.163.2.1"),
        (NOON + 86_400, "150.163.2.1"),
        (NOON + 3 * 86_400, "150.163.2.1"),
    ):
        take(archive, second, user)
    names = [row["visitor"] for row in stored(archive)]
    assert names[0] == names[2]
    assert len(set(names)) == 4
    assert {row["address"] for row in stored(archive)} == {"150.163.2.0"}
    assert archive.statistics().double_clicks == 1
    with archive.database.reading() as connection:
        days = connection.exec_driver_sql("SELECT day FROM ibi_visitor_salt").scalars().all()
    assert [str(day) for day in days] == [str(get_utc_day(NOON + 3 * 86_400))]


def test_robots_are_counted_separately_and_whole_addresses_stored_on_request(new_app: Any) -> None:
    archive = archive_of(new_app(IBI_ANONYMISE_IPS=False))
    archive.init()
    import_records(archive, [{"rep": A}])
    take(archive, NOON, "150.163.2.1", Agents("Tcl http", "Googlebot/2.1"))
    take(archive, NOON + 5, "150.163.2.1", Agents("Tcl http"))
    found = archive.statistics()
    assert (found.downloads, found.double_clicks, found.robots) == (1, 0, 1)
    assert [row["address"] for row in stored(archive)] == ["150.163.2.1"] * 2


@pytest.fixture
def read(app: Flask) -> Flask:
    """An app with two items and accesses of past years."""
    archive = archive_of(app)
    import_records(archive, [{"rep": A}, {"rep": B}])
    day = start_of_day(date(2024, 1, 31))
    insert_accesses(
        archive,
        [
            {"ibi": A, "second": day},
            {"ibi": A, "second": day + 9},
            {"ibi": A, "second": day + 86_400, "content_type": "Metadata"},
            {"ibi": A, "second": day + 86_400, "robot": True},
            {"ibi": B, "second": day},
        ],
    )
    return app


def test_stats_prints_a_table_or_json(read: Flask) -> None:
    # stats prints a table
    assert command(read, "stats").lines == [
        "period   views  downloads  double clicks  robots",
        "2024-01      0          2              1       0",
        "2024-02      1          0              0       1",
        "total        1          2              1       1",
    ]
    assert command(read, "stats", A, "--by", "year").lines == [
        "period  views  downloads  double clicks  robots",
        "2024        1          1              1       1",
        "total       1          1              1       1",
    ]
    # stats as json
    told = json.loads(command(read, "stats", A.upper(), "--by", "day", "--json").data)
    assert (told["ibi"], told["by"]) == (A, "day")
    assert [one["label"] for one in told["periods"]] == ["2024-01-31", "2024-02-01"]
    # stats of an unknown item end with status 1
    assert command(read, "stats", "a.br/x/1999/01.01.00.00").error.startswith("no item of this")
    assert "is not an IBI" in command(read, "stats", "x").error
    assert "week" in command(read, "stats", "--by", "week").usage


def test_purge_prints_nothing_without_a_terminal_and_keeps_the_counts(read: Flask) -> None:
    before = command(read, "stats", A, "--by", "day").data
    assert command(read, "purge", "--dry-run").data.startswith("would purge 5 accesses before 2")
    assert command(read, "purge").data == ""
    assert command(read, "stats", A, "--by", "day").data == before
