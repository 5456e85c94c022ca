"""The commands reserve, release and add --reserved."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.commands import command, show, unchanged
from support.web import NOBODY


def reserve(app: Flask, *words: object) -> tuple[str, str]:
    """Reserve an identifier and return both of its forms."""
    [line] = command(app, "reserve", *words).lines
    ibi, ibip = line.split("\t")
    return ibi, ibip


def listed(app: Flask, *reps: str) -> list[dict[str, Any]]:
    """Return what reserve --list prints about some identifiers."""
    found = json.loads(command(app, "reserve", "--list", "--json").data)
    return [one for one in found if one["rep"] in reps]


def statuses(app: Flask, *reps: str) -> list[str]:
    """Return the statuses of some reservations."""
    return [one["status"] for one in listed(app, *reps)]


def test_reserve_prints_both_forms_and_the_list_has_them(here: Flask) -> None:
    ibi, ibip = reserve(here, "--note", "Thesis of\tAna")
    line = command(here, "reserve", "--list").lines[-1]
    rep, other, status, date, note = line.split("\t")
    assert (rep, other, status, note) == (ibi, ibip, "held", "Thesis of Ana")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", date)
    held = {"rep": ibi, "ibip": ibip, "status": "held", "note": "Thesis of\tAna"}
    assert listed(here, ibi) == [{**held, "reserved_at": date, "settled_at": None}]
    # several at once
    lines = command(here, "reserve", "-n", "5").lines
    assert len({form for line in lines for form in line.split("\t")}) == 10
    more = json.loads(command(here, "reserve", "-n", "2", "--json").data)
    given = [line.split("\t") for line in lines] + [[one["rep"], one["ibip"]] for one in more]
    told = listed(here, *(rep for rep, _ in given))
    assert sorted([one["rep"], one["ibip"]] for one in told) == sorted(given)
    for words in (("-n", "2"), ("--note", "Thesis")):
        said = command(here, "reserve", "--list", *words).usage
        assert "--list cannot be used with" in said


@pytest.mark.parametrize("form", [0, 1])
def test_add_uses_a_reserved_identifier(here: Flask, report: Path, form: int) -> None:
    both = reserve(here)
    assert command(here, "add", report, "--reserved", both[form].upper()).lines == ["\t".join(both)]
    assert statuses(here, both[0]) == ["used"]
    assert show(here, both[0])["ibip"] == both[1]
    with unchanged(here):
        assert both[form] in command(here, "add", report, "--reserved", both[form]).error
        assert both[0] in command(here, "release", both[0]).error


def test_a_released_identifier_is_never_used(here: Flask, report: Path) -> None:
    first, second, third = (reserve(here) for _ in range(3))
    with unchanged(here):
        assert command(here, "release", *first, "--dry-run").lines == [f"would release {first[0]}"]
        assert NOBODY in command(here, "release", first[0], NOBODY, "--dry-run").error
    # both forms are one release
    released = command(here, "release", first[1].lower(), first[0], second[0]).lines
    assert released == [f"released {first[0]}", f"released {second[0]}"]
    assert statuses(here, first[0], second[0]) == ["released", "released"]
    assert all(one["settled_at"] for one in listed(here, first[0], second[0]))
    assert statuses(here, third[0]) == ["held"]
    with unchanged(here):
        for text, reason in (
            (first[0], first[0]),
            (NOBODY, NOBODY),
            ("report", "'report' is not an IBI"),
            ("", "is not an IBI"),
        ):
            assert reason in command(here, "add", report, "--reserved", text).error
            assert reason in command(here, "release", third[0], text).error
