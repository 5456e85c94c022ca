"""Each part of the benchmarks measures what the page of figures shows."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from flask import Flask

from benchmarks.measurements import PARTS, Bench, Scope
from benchmarks.page import GROWTH, REQUESTS, SERVICES, WRITING
from benchmarks.targets import OURS, judge
from benchmarks.worker import requests_to

TINY = Scope(rounds=1, requests=3, items=48, growth=1010, editions=3, accesses=20)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_part_adds_the_figures_of_its_tables(part: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path, None, TINY, {}, sys.executable, print)
    # to count takes too long
    with (
        patch(
            "benchmarks.measurements.can_count_instructions",
            return_value=part in ("growth", "aliases"),
        ),
        patch("benchmarks.measurements.count_instructions", return_value=1),
    ):
        PARTS[part](bench)
    measured = {figure["row"]: figure for figure in bench.figures if figure["system"] == OURS}
    assert measured
    for table in (*REQUESTS, *WRITING, *SERVICES, *GROWTH):
        if table.row in measured:
            names = {name for name, _ in table.columns} - {"instruction_ratio"}
            assert all(measured[table.row][name] > 0 for name in names)
    for verdict in judge(bench.figures):
        assert verdict.name == "instruction_ratio" or verdict.value is not None, verdict


def test_a_wrong_answer_is_not_measured() -> None:
    work = requests_to(Flask("without views").wsgi_app, "/")
    with pytest.raises(SystemExit, match="404"):
        work(1)
