"""Minting: the temporal distributor with its state in a database ([G] 6, Algorithm 4)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any
from unittest.mock import Mock

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from support.archives import archive_of, import_records
from support.commands import ROOT
from support.vectors import load

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.items.minting import Minted, Minter, store_last_date
from flask_ibi_archive.archive.items.ownership import add_reservation
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.core.identifiers.dates import (
    format_decimal,
    next_suffix_dates,
    parse_decimal,
    parse_granularity,
)
from flask_ibi_archive.core.identifiers.grammar import (
    build_ibip_prefix,
    build_ibip_suffix,
    build_repository_prefix,
)
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier
from flask_ibi_archive.errors import MintingError, RuleBroken
from flask_ibi_archive.server.database.database import Database

PREFIXES = REP, IBIP = "sid.inpe.br/mtc-m18", "8JMKD3MGP8W"
NOW = Fraction("1287588115.5")
TAKEN = f"{REP}/2010/10.20.15.21"
TABLE_6_2 = load("distributor.json")


class Bench:
    """A database, and a clock that the test sets, and that waiting advances."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.now = NOW
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

    def minter(
        self,
        granularity: str = "1",
        max_wait: float = 10,
        prefixes: tuple[str, str] = PREFIXES,
        database: Database | None = None,
    ) -> Minter:
        """Return a new minter, as another process has it."""
        step = parse_granularity(granularity)
        return Minter(database or self.database, prefixes, step, max_wait, self, self.wait)

    def stored(self) -> dict[str, str]:
        """Return the last date of each prefix."""
        with self.database.reading() as connection:
            rows = connection.execute(text("SELECT prefix, last_date FROM ibi_prefix"))
            return {row.prefix: row.last_date for row in rows}

    def run(self, statement: str, **values: str) -> None:
        """Run a statement that changes the last dates."""
        with self.database.writing() as connection:
            connection.execute(text(statement), values)

    def empty(self) -> None:
        """Forget all dates that were issued, and set the clock to its first time."""
        self.run("DELETE FROM ibi_prefix")
        self.now = NOW
        self.waited.clear()


@pytest.fixture
def bench(uri: str) -> Iterator[Bench]:
    database = Database(uri)
    yield Bench(database)
    database.close()


def suffixes(minted: list[Minted]) -> list[str]:
    return [one.rep.removeprefix(f"{REP}/") for one in minted]


@pytest.mark.rule("G6-21", "G6-22")
def test_table_6_2_is_reproduced_with_the_database(bench: Bench) -> None:
    for row in TABLE_6_2["rows"]:
        bench.now = parse_decimal(row["now"])
        # another process each time
        [minted] = bench.minter(TABLE_6_2["granularity"]).mint()
        assert minted.rep == f"{REP}/{row['suffix']}"
        assert bench.stored() == {REP: row["date"], IBIP: row["date"]}
        assert bench.now >= parse_decimal(row["creation"])


@pytest.mark.rule("G5-04")
def test_both_forms_have_one_date(bench: Bench) -> None:
    for case in load("identifiers.json")["generated"]:
        bench.empty()
        prefixes = (
            build_repository_prefix(case["host"], case["port"]),
            build_ibip_prefix(case["ip"], case["ip_port"]),
        )
        bench.now = parse_decimal(case["unix"])
        granularity = "0.01" if "." in case["unix"] else "1"
        for step in range(60):  # shorter identifiers are issued first
            [minted] = bench.minter(granularity, prefixes=prefixes).mint()
            bench.now = parse_decimal(case["unix"])
            if minted.rep == case["rep"]:
                break
            assert step < 59
        assert minted == Minted(case["rep"], case["ibip"])
        assert len(set(bench.stored().values())) == 1


tenths = st.integers(-2, 1200).map(lambda number: Fraction(number, 10))


@pytest.mark.postgresql
@given(steps=st.lists(st.tuples(tenths, st.integers(1, 4)), max_size=12))
def test_processes_that_take_turns_issue_the_dates_of_one_distributor(
    bench: Bench, steps: list[tuple[Fraction, int]]
) -> None:
    bench.empty()
    minters = [bench.minter("0.1", max_wait=1000) for _ in range(2)]
    last: Fraction | None = None
    for number, (passed, count) in enumerate(steps):
        bench.now += passed
        expected, _ = next_suffix_dates(bench.now, last, Fraction(1, 10), count)
        minted = minters[number % 3 % 2].mint(count)
        assert minted == [minters[0].build(date) for date in expected]
        last = expected[-1]
        assert bench.stored() == dict.fromkeys((REP, IBIP), format_decimal(last))


@pytest.mark.postgresql
def test_a_minter_notices_a_later_date_under_one_prefix(bench: Bench) -> None:
    for prefix in [REP, IBIP]:
        bench.empty()
        minter = bench.minter("0.1")
        for _ in range(4):
            minter.mint()
        later = bench.now + 1
        with bench.database.writing() as connection:
            store_last_date(connection, (prefix, prefix), later, [])
        before = bench.stored()
        minter.max_wait = 0
        with pytest.raises(MintingError):
            minter.mint()
        assert bench.stored() == before
        minter.max_wait = 10
        assert minter.mint() == [minter.build(later + Fraction(1, 10))]


@pytest.mark.rule("G6-23")
@pytest.mark.postgresql
def test_others_can_mint_while_one_waits(uri: str, bench: Bench) -> None:
    other = Database(uri)
    others: list[Minted] = []
    minter = bench.minter()
    minter.mint(2)
    bench.meanwhile = lambda: others.extend(bench.minter(database=other).mint(2))
    mine = minter.mint()
    other.close()
    assert len(others) == 2
    assert len({one.rep for one in [*mine, *others]}) == 3


@pytest.mark.rule("G6-19")
def test_a_clock_that_was_set_back_is_an_error(bench: Bench) -> None:
    for seconds in [20, 3600, 10**8]:
        bench.empty()
        bench.minter().mint(2)
        before = bench.stored()
        bench.now -= seconds
        bench.waited.clear()
        with pytest.raises(MintingError) as refusal:
            bench.minter().mint()
        assert "2010-10-20T15:21:56Z, is later than the time of the clock" in str(refusal.value)
        assert "but IBI_MINT_MAX_WAIT allows only 10 s; " in str(refusal.value)
        assert "\n" not in str(refusal.value)
        assert bench.waited == []
        assert bench.stored() == before
        bench.now += seconds
        assert suffixes(bench.minter().mint()) == ["2010/10.20.15.21.57"]


def test_an_error_about_too_many_identifiers_names_a_finer_granularity(bench: Bench) -> None:
    for granularity, count, ahead, advice in [
        ("60", 3, "1", "mint fewer at a time, or set IBI_GRANULARITY to 1"),
        ("60", 1, "9.9", "mint fewer at a time, or set IBI_GRANULARITY to 0.1"),
    ]:
        bench.empty()
        bench.minter().mint()
        date = format_decimal(NOW + Fraction(ahead))
        bench.run("UPDATE ibi_prefix SET last_date = :date", date=date)
        before = bench.stored()
        with pytest.raises(MintingError) as refusal:
            bench.minter(granularity).mint(count)
        assert bench.stored() == before
        assert str(refusal.value).partition("; ")[2] == advice
        finer = advice.partition("IBI_GRANULARITY to ")[2]
        assert len({one.rep for one in bench.minter(finer).mint(count)}) == count


def test_an_impossible_date_of_the_clock_is_an_error(bench: Bench) -> None:
    for now in [0, 807235199, -(10**12), 10**12]:
        bench.now = Fraction(now)
        with pytest.raises(MintingError, match="the clock of the server is wrong") as refusal:
            bench.minter().mint()
        assert "\n" not in str(refusal.value)
        assert bench.stored() == {}


def minter_with_items(app: Flask, identifiers: list[dict[str, Any]]) -> Minter:
    """Return a minter for a database in which items already have some identifiers."""
    archive = archive_of(app)
    bench = Bench(archive.database)
    bench.empty()
    import_records(archive, identifiers)
    bench.now -= 60
    bench.minter("60").mint()
    bench.now = NOW
    return bench.minter("0.1")


@pytest.mark.postgresql
@pytest.mark.parametrize("kind", ["item", "reservation"])
def test_an_identifier_that_appears_is_skipped(app: Flask, kind: str) -> None:
    for bearer in ["rep", "ibip"]:
        archive, minter = archive_of(app), minter_with_items(app, [])
        minter.mint(3)
        taken, following = minter.build(NOW + Fraction(1, 10)), "2010/10.20.15.21.55.7"
        if kind == "reservation":
            pair = (taken.rep, "X/2") if bearer == "rep" else ("x.y/z/2001/01.01.00.00", taken.ibip)
            with archive.database.writing() as connection:
                now = datetime.now(timezone.utc)
                add_reservation(connection, archive.served().id, *pair, None, now)
        else:
            import_records(archive, [{bearer: getattr(taken, bearer)}])
        assert suffixes(minter.mint()) == [following]


@pytest.mark.rule("D3-03")
@pytest.mark.parametrize(
    "bearer",
    [
        {"rep": TAKEN},
        {"ibip": f"{IBIP}/{build_ibip_suffix(Fraction(1287588060))}"},
        {"rep": "a.br/b/2010/10.20.15.21", "aliases": [TAKEN]},
        {"rep": TAKEN, "state": "Deleted", "timestamp": "2010-10-20T15:21:00Z"},
        {"rep": "a.br/b/2010/10.20.15.21", "next_edition": TAKEN},
    ],
)
def test_an_identifier_that_exists_is_skipped(app: Flask, bearer: dict[str, Any]) -> None:
    minted = suffixes(minter_with_items(app, [bearer]).mint(4))
    assert minted == [f"2010/10.20.15.21.55{rest}" for rest in ("", ".5", ".6", ".7")]


@pytest.mark.rule("G4-01", "G6-21")
@pytest.mark.postgresql
@pytest.mark.parametrize("fault", [RuleBroken, RuntimeError, KeyboardInterrupt])
def test_an_identifier_whose_deposit_failed_is_never_issued_again(
    app: Flask, fault: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(app)
    bench = Bench(archive.database)
    archive.minter.clock, archive.minter.wait = bench, bench.wait
    taken = archive.deposit()
    archive.deposit(next_edition=taken.rep)
    # The next identifier needs no wait. If its date were not stored, it would be issued again,
    # because the clock stands still.
    bench.now += 60
    build = Mock(wraps=archive.minter.build)
    monkeypatch.setattr(archive.minter, "build", build)
    # an item cannot be the next edition of two items: only the database checks this
    record = ItemRecord(next_edition=taken.rep if fault is RuleBroken else None)
    if fault is not RuleBroken:
        failing = Mock(side_effect=fault("the host's record can't be saved"))
        monkeypatch.setattr(ItemStore, "insert", failing)
    with pytest.raises(fault):
        archive.deposit(record)
    monkeypatch.undo()
    [call] = build.call_args_list
    lost = archive.minter.build(*call.args)
    later = [archive.deposit() for _ in range(3)]
    assert not {lost.rep, lost.ibip} & {text for one in later for text in (one.rep, one.ibip)}
    assert archive.get(lost.rep) is None


# --- several processes mint at once, and are killed ----------------------------------------------

#: Two Archives on one IP: they share the prefix of their IBIps.
HOSTS = ("mtc-m18.sid.inpe.br", "mtc-m19.sid.inpe.br")
#: Mints, and reports each identifier as soon as it is issued, for ever.
MINT = """
import sys
from fractions import Fraction
from flask_ibi_archive.archive.items.minting import Minter
from flask_ibi_archive.core.identifiers.grammar import build_repository_prefix
from flask_ibi_archive.server.database.database import Database
uri, host, count = sys.argv[1:]
prefixes = build_repository_prefix(host, 80), "8JMKD3MGP8W"
minter = Minter(Database(uri), prefixes, Fraction(1, 10**6), 60)
while True:
    for one in minter.mint(int(count)):
        print(one.rep, one.ibip, flush=True)
"""


def mint_and_die(uri: str, processes: int, lines: int) -> list[str]:
    """Return the labels that processes report until they are killed."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", MINT, uri, HOSTS[number % 2], str(1 + number % 3)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            text=True,
        )
        for number in range(processes)
    ]
    reported: list[str] = []
    for process in running:
        assert process.stdout is not None
        reported += [process.stdout.readline() for _ in range(lines)]
    for process in running:
        process.kill()
        with process:
            assert process.stdout is not None
            reported += process.stdout.readlines()
    # a killed process may leave a part of a line
    return [label for line in reported if line.endswith("\n") for label in line.split()]


@pytest.mark.slow
@pytest.mark.rule("G4-01", "G5-03", "G6-21")
@pytest.mark.postgresql
@pytest.mark.parametrize("processes", [2, 8])
def test_no_identifier_is_issued_twice_if_processes_are_killed(
    bench: Bench, uri: str, processes: int
) -> None:
    labels = [label for _ in range(3) for label in mint_and_die(uri, processes, 20)]
    assert len(labels) >= 2 * 3 * processes * 20
    assert len(set(labels)) == len(labels)
    stored = {prefix: parse_decimal(date) for prefix, date in bench.stored().items()}
    for rep, ibip in zip(labels[::2], labels[1::2], strict=True):
        found = [decode_identifier(parse_identifier(label)).date for label in (rep, ibip)]
        assert found[0] == found[1]
        assert found[0] is not None
        assert found[0] <= min(stored[parse_identifier(label).prefix] for label in (rep, ibip))
