"""The page of figures is written from the measurements, and its formulas are right."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.documentation import DOCS, read

from benchmarks.capacity import derive
from benchmarks.figures import Figures, format_table
from benchmarks.page import GROWTH, REQUESTS, SERVICES, WRITING, write_page
from benchmarks.targets import OURS, TARGETS, TOGETHER, check, judge

ALL = (*REQUESTS, *WRITING, *SERVICES, *GROWTH)


@pytest.fixture(scope="module")
def committed() -> dict[str, Any]:
    """The figures of the documentation."""
    found: dict[str, Any] = json.loads((DOCS / "figures.json").read_text(encoding="utf-8"))
    return found


def run(*figures: dict[str, Any], databases: tuple[str, ...] = ("sqlite",)) -> dict[str, Any]:
    """Return the output of a run of the benchmarks."""
    return {
        "date": "2026-11-22",
        "cores": 2,
        "Python": "3.11.7",
        "databases": dict.fromkeys(databases, "3"),
        "packages": {},
        "comparable": {},
        "quick": False,
        "figures": [{"system": OURS, "database": databases[0], **figure} for figure in figures],
    }


def test_the_page_is_written_from_the_committed_figures(committed: dict[str, Any]) -> None:
    assert read("figures.rst") == write_page(committed), "run: python -m benchmarks.page"


def test_each_table_is_measured_on_both_databases(committed: dict[str, Any]) -> None:
    figures = Figures(committed)
    for table in ALL:
        for name, _ in table.columns:
            for database in ("sqlite", "postgresql"):
                assert figures.find(table.row, OURS, database, name) is not None, (table.row, name)


def test_the_conditions_name_no_machine(committed: dict[str, Any]) -> None:
    keys = {"date", "cores", "Python", "databases", "packages", "comparable", "quick", "figures"}
    assert set(committed) == keys
    assert set(committed["databases"]) == {"sqlite", "postgresql"}


def test_a_system_that_is_not_installed_is_named() -> None:
    page = write_page(run({"row": "url_request", "ratio": 4.0, "instruction_ratio": 3.0}))
    [line] = [line for line in page.splitlines() if line.startswith("arklet") and "not" in line][:1]
    assert line.split() == ["arklet", "not", "installed", "not", "installed"]


def test_the_formulas_of_a_large_system() -> None:
    found = run(
        {"row": "server", "microseconds": 700.0},
        {"row": "size", "items": 1000, "bytes": 1200.0},
        {"row": "import", "per_second": 5000.0},
        {"row": "growth", "few": 1000, "many": 100_000, "instruction_ratio": 1.1},
        {"row": "acknowledgments", "per_second": 400.0},
    )
    lines = [*derive(Figures(found), "sqlite")]
    assert [line.rpartition("= ")[2] for line in lines[:4]] == [
        "10 cores.",
        # five steps of a hundredth: 100,000,000 is 1,000 * 100 ** 2.5
        "1.269 times the instructions.",
        "120 GB.",
        "5.6 hours.",
    ]
    assert "4.00 % of 10,000 requests" in lines[4]
    assert [*derive(Figures(found), "postgresql")] == []


def test_targets_are_compared_in_the_right_direction() -> None:
    found = run(
        {"row": "url_request", "ratio": 4.3},
        {"row": "url_list", "ratio": 12.0},
        {"row": "deposits", "per_second": 999.0},
        {"row": "import", "per_second": 5000.0, "megabytes": 200.0},
    )
    assert [(one.row, one.name, one.word) for one in judge(found["figures"])] == [
        ("url_request", "ratio", "missed"),
        ("url_list", "ratio", "reached"),
        ("deposits", "per_second", "missed"),
        ("import", "per_second", "reached"),
        ("import", "megabytes", "reached"),
    ]
    assert [line.split()[0] for line in check(found["figures"])] == [
        "missed",
        "reached",
        "missed",
        "reached",
        "reached",
    ]


@pytest.mark.parametrize(
    ("ours", "arklet", "three", "words"),
    [
        (3500.0, 3499.0, 3501.0, ["reached", "reached"]),
        (3500.0, 3500.0, 3500.0, ["reached", "reached"]),
        (3499.0, 3500.0, 3498.0, ["missed", "missed"]),
    ],
)
def test_minting_is_compared_with_arklet_and_with_three_processes(
    ours: float, arklet: float, three: float, words: list[str]
) -> None:
    found = run(
        {"row": "minting", "per_second": ours},
        {"row": "minting", "per_second": arklet, "system": "arklet"},
        {"row": "minting", "per_second": three, "system": TOGETHER},
        # the other database does not matter
        {"row": "minting", "per_second": 9999.0, "system": "arklet", "database": "postgresql"},
    )
    assert [one.word for one in judge(found["figures"])] == words


def test_a_target_that_was_not_measured_is_neither_reached_nor_missed() -> None:
    found = run({"row": "url_request", "ratio": 4.2}, {"row": "minting", "per_second": 3500.0})
    assert [one.word for one in judge(found["figures"])] == [
        "reached",
        "not measured",
        "not measured",
    ]
    lines = [line for line in write_page(found).splitlines() if "Targets" in line]
    assert lines == [
        "- Targets for SQLite: CPU time at most 4.20: **reached**",
        "- Targets for SQLite: per second at least that of arklet: **not measured**; "
        f"{TOGETHER}, per second at least that of {OURS}: **not measured**",
    ]


def test_the_page_states_each_target(committed: dict[str, Any]) -> None:
    page = write_page(committed)
    for verdict in judge(committed["figures"]):
        assert verdict.word != "not measured"
    tables = {table.row: dict(table.columns) for table in ALL}
    for (row, _), targets in TARGETS.items():
        assert set(targets) <= set(tables[row]), "a target of a figure that the page does not show"
    assert page.count("- Targets for ") == len(TARGETS)


def test_the_columns_of_a_table_are_as_wide_as_their_cells() -> None:
    assert [*format_table(["a", "b"], [["long", ""], ["c", "1"]])] == [
        "====  =",
        "a     b",
        "====  =",
        "long",
        "c     1",
        "====  =",
        "",
    ]
