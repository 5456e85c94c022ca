"""Minting: the temporal distributor with its state in a database ([G] 6, Algorithm 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from support.archives import archive_of, import_records
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.items.minting import Minted, Minter, store_last_date
from flask_ibi_archive.archive.items.read import add_reservation
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.core.identifiers import (
    build_ibip_prefix,
    build_repository_prefix,
    format_decimal,
    next_suffix_dates,
    parse_decimal,
    parse_granularity,
    parse_identifier,
)
from flask_ibi_archive.errors import MintingError, NotReady, RuleBroken
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database

PREFIXES = REP, IBIP = "sid.inpe.br/mtc-m18", "8JMKD3MGP8W"
NOW = Fraction("1287588115.5")
TABLE_6_2 = load("distributor.json")
CHANGES = load("distributor_changes.json")["calls"]


class Time:
    """A clock that the test sets, and that waiting advances."""

    def __init__(self, now: Fraction = NOW) -> None:
        self.now = now
        self.waited: list[float] = []
        self.meanwhile: Callable[[], Any] | None = None

    def __call__(self) -> Fraction:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        if self.meanwhile is not None:
            self.meanwhile, meanwhile = None, self.meanwhile
            meanwhile()
        self.now += Fraction(seconds).limit_denominator(10**9)


@pytest.fixture
def database(uri: str) -> Iterator[Database]:
    database = Database.at(uri)
    with database.writing() as connection:
        migrate.upgrade(connection)
    yield database
    database.close()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def new_minter(database: Database, time: Time) -> Callable[..., Minter]:
    def make(
        granularity: str = "1",
        max_wait: float = 10,
        prefixes: tuple[str, str] = PREFIXES,
        **parts: Any,
    ) -> Minter:
        return Minter(
            parts.get("database", database),
            prefixes,
            parse_granularity(granularity),
            max_wait,
            time,
            time.wait,
        )

    return make


def stored(database: Database) -> dict[str, str]:
    """Return the last date of each prefix."""
    with database.reading() as connection:
        rows = connection.execute(text("SELECT prefix, last_date FROM ibi_prefix"))
        return {row.prefix: row.last_date for row in rows}


def empty(database: Database, time: Time) -> None:
    """Forget all dates that were issued, and set the clock to its first time."""
    with database.writing() as connection:
        connection.execute(text("DELETE FROM ibi_prefix"))
    time.now = NOW
    time.waited.clear()


def suffixes(minted: list[Minted]) -> list[str]:
    return [one.rep.removeprefix(f"{REP}/") for one in minted]


@pytest.mark.rule("G6-21", "G6-22")
def test_table_6_2_is_reproduced_with_the_database(
    database: Database, new_minter: Callable[..., Minter], time: Time
) -> None:
    for row in TABLE_6_2["rows"]:
        time.now = parse_decimal(row["now"])
        # another process each time
        [minted] = new_minter(TABLE_6_2["granularity"]).mint()
        assert minted.rep == f"{REP}/{row['suffix']}"
        assert stored(database) == {REP: row["date"], IBIP: row["date"]}
        assert time.now >= parse_decimal(row["creation"])


@for_each("calls", CHANGES)
def test_the_granularity_may_change_between_two_calls(
    database: Database, new_minter: Callable[..., Minter], time: Time, calls: list[dict[str, str]]
) -> None:
    empty(database, time)
    for call in calls:
        time.now = parse_decimal(call["now"])
        new_minter(call["granularity"], max_wait=60).mint()
        assert stored(database)[REP] == call["date"]


@pytest.mark.rule("G5-04")
@for_each("case", load("identifiers.json")["generated"])
def test_both_forms_have_one_date(
    database: Database, new_minter: Callable[..., Minter], time: Time, case: dict[str, Any]
) -> None:
    empty(database, time)
    prefixes = (
        build_repository_prefix(case["host"], case["port"]),
        build_ibip_prefix(case["ip"], case["ip_port"]),
    )
    time.now = parse_decimal(case["unix"])
    granularity = "0.01" if "." in case["unix"] else "1"
    for step in range(60):  # shorter identifiers are issued first
        [minted] = new_minter(granularity, prefixes=prefixes).mint()
        time.now = parse_decimal(case["unix"])
        if minted.rep == case["rep"]:
            break
        assert step < 59
    assert minted == Minted(case["rep"], case["ibip"])
    assert len(set(stored(database).values())) == 1


def test_two_Archives_on_one_IP_share_the_last_date(
    database: Database, new_minter: Callable[..., Minter], time: Time
) -> None:
    [first] = new_minter().mint()
    [second] = new_minter(prefixes=("sid.inpe.br/mtc-m19", IBIP)).mint()
    assert first.ibip != second.ibip
    assert second.rep.removeprefix("sid.inpe.br/mtc-m19/") > suffixes([first])[0]
    dates = stored(database)
    assert dates[IBIP] == dates["sid.inpe.br/mtc-m19"] > dates[REP]
    # the later date counts, under either prefix
    [third] = new_minter().mint()
    assert parse_decimal(stored(database)[REP]) > parse_decimal(dates[IBIP])
    assert len({first.ibip, second.ibip, third.ibip}) == 3


@for_each("granularity", ["60", "1", "0.1", "0.001", "0." + "0" * 60 + "1"])
@for_each("count", [1, 2, 7])
def test_many_identifiers_at_once_are_the_same_as_with_single_calls(
    database: Database, new_minter: Callable[..., Minter], time: Time, granularity: str, count: int
) -> None:
    empty(database, time)
    at_once = new_minter(granularity, max_wait=1000).mint(count)
    remembered = stored(database)
    with database.writing() as connection:
        connection.execute(text("DELETE FROM ibi_prefix"))
    one_by_one = []
    for _ in range(count):
        time.now = NOW
        one_by_one += new_minter(granularity, max_wait=1000).mint()
    assert at_once == one_by_one
    assert stored(database) == remembered
    for one in at_once:
        assert parse_identifier(one.rep).text == one.rep
        assert parse_identifier(one.ibip).text == one.ibip


@pytest.mark.postgresql
@given(
    seconds=st.lists(st.integers(-2, 1200).map(lambda tenths: Fraction(tenths, 10)), max_size=12)
)
def test_processes_that_take_turns_issue_the_dates_of_one_distributor(
    database: Database, new_minter: Callable[..., Minter], time: Time, seconds: list[Fraction]
) -> None:
    empty(database, time)
    minters = [new_minter("0.1", max_wait=1000) for _ in range(2)]
    last: Fraction | None = None
    for number, passed in enumerate(seconds):
        time.now += passed
        [expected], _ = next_suffix_dates(time.now, last, Fraction(1, 10), 1)
        [minted] = minters[number % 3 % 2].mint()
        assert minted == minters[0].build(expected)
        assert stored(database) == dict.fromkeys((REP, IBIP), format_decimal(expected))
        last = expected


@pytest.mark.postgresql
def test_threads_that_share_a_minter_never_issue_the_same_date(database: Database) -> None:
    minter = Minter(database, PREFIXES, Fraction(1, 10**6))
    with ThreadPoolExecutor(4) as threads:
        minted = [new for batch in threads.map(minter.mint, [1, 2, 1, 3] * 10) for new in batch]
    assert len(set(suffixes(minted))) == len(minted) == 70


@pytest.mark.postgresql
@for_each("prefix", [REP, IBIP])
def test_a_minter_notices_that_others_have_issued_a_later_date_under_one_prefix(
    database: Database, new_minter: Callable[..., Minter], time: Time, prefix: str
) -> None:
    empty(database, time)
    minter = new_minter("0.1")
    for _ in range(4):
        minter.mint()
    later = time.now + 1
    with database.writing() as connection:
        store_last_date(connection, (prefix, prefix), later, [])
    before = stored(database)
    minter.max_wait = 0
    with pytest.raises(MintingError):
        minter.mint()
    assert stored(database) == before
    minter.max_wait = 10
    assert minter.mint() == [minter.build(later + Fraction(1, 10))]


@for_each("fault", ["DELETE FROM ibi_prefix", "UPDATE ibi_prefix SET last_date = ''"])
def test_a_minter_whose_last_dates_are_lost_issues_later_dates(
    database: Database, new_minter: Callable[..., Minter], time: Time, fault: str
) -> None:
    empty(database, time)
    minter = new_minter("0.1")
    minter.mint()
    with database.writing() as connection:
        connection.execute(text(fault))
    time.now += 60
    assert suffixes(minter.mint()) == ["2010/10.20.15.22.55.5"]
    assert suffixes(minter.mint()) == ["2010/10.20.15.22.55.6"]


@for_each("count", [0, -1])
def test_a_count_below_one_issues_nothing(
    database: Database, new_minter: Callable[..., Minter], count: int
) -> None:
    assert new_minter().mint(count) == []
    assert stored(database) == {}


@pytest.mark.rule("G6-19")
def test_an_identifier_is_issued_when_its_date_has_come(
    new_minter: Callable[..., Minter], time: Time
) -> None:
    new_minter().mint(2)
    time.waited.clear()
    new_minter().mint(3)
    assert sum(time.waited) == 3
    assert time.now == Fraction(1287588119)


@pytest.mark.rule("G6-23")
@pytest.mark.postgresql
def test_others_can_mint_while_one_waits(
    uri: str, new_minter: Callable[..., Minter], time: Time
) -> None:
    other = Database.at(uri)
    others: list[Minted] = []
    minter = new_minter()
    minter.mint(2)
    time.meanwhile = lambda: others.extend(new_minter(database=other).mint(2))
    mine = minter.mint()
    other.close()
    assert len(others) == 2
    assert len({one.rep for one in [*mine, *others]}) == 3


def test_a_clock_that_is_set_back_while_one_waits_is_not_waited_for(
    new_minter: Callable[..., Minter], time: Time
) -> None:
    new_minter().mint(2)

    def set_back() -> None:
        time.now -= 3600

    time.waited.clear()
    time.meanwhile = set_back
    new_minter().mint(3)
    assert sum(time.waited) == 3


@pytest.mark.rule("G6-19")
@for_each("seconds", [20, 3600, 10**8])
def test_a_clock_that_was_set_back_is_an_error_that_uses_no_date(
    database: Database, new_minter: Callable[..., Minter], time: Time, seconds: int
) -> None:
    empty(database, time)
    new_minter().mint(2)
    before = stored(database)
    time.now -= seconds
    time.waited.clear()
    with pytest.raises(MintingError) as refusal:
        new_minter().mint()
    assert "2010-10-20T15:21:56Z, is later than the time of the clock" in str(refusal.value)
    assert "but IBI_MINT_MAX_WAIT allows only 10 s; " in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert time.waited == []
    assert stored(database) == before
    time.now += seconds
    assert suffixes(new_minter().mint()) == ["2010/10.20.15.21.57"]


@for_each(("granularity", "count"), [("1", 50), ("60", 3), ("0.1", 5000), ("60", 1)])
@for_each("ahead", [None, "1", "9.9", "10"])
def test_an_error_about_too_many_identifiers_names_a_finer_granularity(
    database: Database,
    new_minter: Callable[..., Minter],
    time: Time,
    granularity: str,
    count: int,
    ahead: str | None,
) -> None:
    empty(database, time)
    if ahead is not None:
        new_minter().mint()
        date = format_decimal(NOW + Fraction(ahead))
        with database.writing() as connection:
            connection.execute(text("UPDATE ibi_prefix SET last_date = :date"), {"date": date})
    before = stored(database)
    last = parse_decimal(before[REP]) if before else None
    if next_suffix_dates(NOW, last, parse_granularity(granularity), count)[1] <= 10:
        assert len(new_minter(granularity).mint(count)) == count
        return
    with pytest.raises(MintingError) as refusal:
        new_minter(granularity).mint(count)
    assert stored(database) == before
    advice = str(refusal.value).partition("; ")[2]
    assert ("mint fewer" in advice) == (count > 1 and ahead != "10")
    if ahead == "10":
        assert advice == "wait, or increase IBI_MINT_MAX_WAIT"
        return
    finer = advice.rpartition("IBI_GRANULARITY to ")[2]
    assert parse_granularity(finer) < parse_granularity(granularity)
    assert len({one.rep for one in new_minter(finer).mint(count)}) == count


def test_without_waiting_only_past_dates_are_issued(
    database: Database, new_minter: Callable[..., Minter], time: Time
) -> None:
    time.now -= 60
    assert suffixes(new_minter("60", 0).mint()) == ["2010/10.20.15.20"]
    time.now += 60
    assert suffixes(new_minter("0.1", 0).mint()) == ["2010/10.20.15.21"]
    assert suffixes(new_minter("0.1", 0).mint()) == ["2010/10.20.15.21.55"]
    assert suffixes(new_minter("0.1", 0).mint()) == ["2010/10.20.15.21.55.5"]
    before = stored(database)
    with pytest.raises(MintingError, match="wait, or increase IBI_MINT_MAX_WAIT"):
        new_minter("0.1", 0).mint()
    assert stored(database) == before


@for_each("now", [0, 807235199, -(10**12), 10**12])
def test_an_impossible_date_of_the_clock_is_an_error(
    database: Database, new_minter: Callable[..., Minter], time: Time, now: int
) -> None:
    time.now = Fraction(now)
    with pytest.raises(MintingError, match="the clock of the server is wrong") as refusal:
        new_minter().mint()
    assert "\n" not in str(refusal.value)
    assert stored(database) == {}


@pytest.mark.no_tables
def test_a_database_without_tables_is_an_error(uri: str, time: Time) -> None:
    database = Database.at(uri)
    minter = Minter(database, PREFIXES, Fraction(1), 10, time, time.wait)
    with pytest.raises(NotReady, match="run: flask ibi init"):
        minter.mint()
    database.close()


# --- existing labels, and lost labels -------------------------------------------------


def minter_with_items(app: Flask, identifiers: list[dict[str, Any]]) -> Minter:
    """Return a minter for a database in which items already have some identifiers."""
    archive = archive_of(app)
    with archive.database.writing() as connection:
        connection.execute(text("DELETE FROM ibi_prefix"))
    import_records(archive, identifiers)
    time = Time(NOW - 60)
    Minter(archive.database, PREFIXES, Fraction(60), 10, time, time.wait).mint()
    time.now = NOW
    return Minter(archive.database, PREFIXES, Fraction(1, 10), 10, time, time.wait)


@for_each("bearer", ["rep", "ibip"])
@for_each("is_reserved", [False, True])
def test_an_identifier_that_appears_between_two_calls_is_skipped(
    app: Flask, bearer: str, is_reserved: bool
) -> None:
    minter = minter_with_items(app, [])
    minter.mint(3)
    taken = minter.build(NOW + Fraction(1, 10))
    archive = archive_of(app)
    if is_reserved:
        with archive.database.writing() as connection:
            now = datetime.now(timezone.utc)
            pair = (taken.rep, "X/2") if bearer == "rep" else ("x.y/z/2001/01.01.00.00", taken.ibip)
            add_reservation(connection, archive.served().id, *pair, None, now)
    else:
        import_records(archive, [{bearer: getattr(taken, bearer)}])
    assert suffixes(minter.mint()) == ["2010/10.20.15.21.55.7"]


@pytest.mark.postgresql
@for_each("bearer", ["rep", "ibip"])
def test_an_identifier_that_exists_is_skipped_while_others_mint(app: Flask, bearer: str) -> None:
    minter = minter_with_items(app, [])
    minter.mint()
    other = Minter(minter.database, PREFIXES, Fraction(1, 10), 10, minter.clock, minter.wait)
    other.mint()
    taken = minter.build(NOW)
    import_records(archive_of(app), [{bearer: getattr(taken, bearer)}])
    assert suffixes(minter.mint()) == ["2010/10.20.15.21.55.6"]


@pytest.mark.rule("D3-03")
@pytest.mark.parametrize(
    "bearer",
    [
        {"rep": f"{REP}/2010/10.20.15.21"},
        {"ibip": f"{IBIP}/3896D9J"},
        {"rep": "a.br/b/2010/10.20.15.21", "aliases": [f"{REP}/2010/10.20.15.21"]},
        {"rep": f"{REP}/2010/10.20.15.21", "state": "Deleted", "timestamp": "2010-10-20T15:21:00Z"},
        {"rep": "a.br/b/2010/10.20.15.21", "next_edition": f"{REP}/2010/10.20.15.21"},
    ],
    ids=["rep", "ibip", "alias", "Deleted", "mention"],
)  # fmt: skip
def test_an_identifier_that_exists_is_skipped_in_both_forms(
    app: Flask, bearer: dict[str, Any]
) -> None:
    if "ibip" in bearer:
        from flask_ibi_archive.core.identifiers import build_ibip_suffix

        bearer = {"ibip": f"{IBIP}/{build_ibip_suffix(Fraction(1287588060))}"}
    assert suffixes(minter_with_items(app, [bearer]).mint(4)) == [
        "2010/10.20.15.21.55",
        "2010/10.20.15.21.55.5",
        "2010/10.20.15.21.55.6",
        "2010/10.20.15.21.55.7",
    ]


def test_skipped_identifiers_count_for_the_maximum_wait(app: Flask) -> None:
    names = [f"{REP}/2010/10.20.15.21", f"{REP}/2010/10.20.15.21.55"]
    names += [
        f"{REP}/2010/10.20.15.{21 + (55 + n) // 60}.{(55 + n) % 60:02}.{d}"
        for n in range(12)
        for d in range(1, 10)
    ]
    names += [f"{REP}/2010/10.20.15.{21 + (55 + n) // 60}.{(55 + n) % 60:02}" for n in range(1, 12)]
    names = [name.replace(".22.00", ".22") if name.endswith(".22.00") else name for name in names]
    minter = minter_with_items(app, [{"rep": name} for name in names])
    with pytest.raises(MintingError):
        minter.mint()
    assert stored(archive_of(app).database)[REP] == "1287588000"


@pytest.mark.rule("G4-01", "G6-21")
@pytest.mark.postgresql
@pytest.mark.parametrize("fault", [RuleBroken, RuntimeError, KeyboardInterrupt])
def test_an_identifier_whose_deposit_failed_is_never_issued_again(
    app: Flask, fault: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(app)
    time = Time()
    archive.minter.clock, archive.minter.wait = time, time.wait
    taken = archive.deposit(ItemRecord())
    archive.deposit(ItemRecord(next_edition=taken.rep))
    # The next identifier needs no wait. If its date were not stored, it would be issued again,
    # because the clock stands still.
    time.now += 60
    lost: list[Minted] = []
    build = archive.minter.build

    def remember(date: Fraction) -> Minted:
        lost.append(build(date))
        return lost[-1]

    monkeypatch.setattr(archive.minter, "build", remember)
    # an item cannot be the next edition of two items: only the database checks this
    record = ItemRecord(next_edition=taken.rep if fault is RuleBroken else None)
    if fault is not RuleBroken:

        def fail(*parts: Any, **options: Any) -> None:
            raise fault("the host's record can't be saved")

        monkeypatch.setattr(ItemStore, "insert", fail)
    with pytest.raises(fault):
        archive.deposit(record)
    monkeypatch.undo()
    later = [archive.deposit(ItemRecord()) for _ in range(3)]
    assert len(lost) == 1
    assert not {lost[0].rep, lost[0].ibip} & {text for one in later for text in (one.rep, one.ibip)}
    assert archive.get(lost[0].rep) is None
