"""The commands mint, decode, reserve and release, and add --reserved."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.commands import command, show, unchanged
from support.vectors import load
from support.web import NOBODY

from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier

NewApp = Callable[..., Flask]
VECTORS = load("identifiers.json")


def bare() -> Flask:
    raise AssertionError("decode needs no app")


def decode(text: str) -> dict[str, str]:
    """Return what decode prints, by name."""
    return dict(line.split(" ", 1) for line in command(bare, "decode", text).lines)


@pytest.mark.parametrize(
    ("ip", "is_private"), [("10.1.2.3", True), ("fd00::1", True), ("203.0.113.7", False)]
)
def test_commands_that_mint_warn_of_a_private_address(
    new_app: NewApp, report: Path, ip: str, is_private: bool
) -> None:
    app = new_app(IBI_ARCHIVE_IP=ip)
    for name in ("init", "list", "export"):
        outcome = command(app, name)
        assert (outcome.status, outcome.err) == (0, "")
    for words in (("mint",), ("reserve",), ("add", str(report))):
        outcome = command(app, *words)
        assert (outcome.status, len(outcome.out.split("\t"))) == (0, 2)
        warning = f"Warning: IBI_ARCHIVE_IP is {ip}, a private address that other networks can use"
        assert outcome.err.startswith(warning) == is_private
        assert outcome.err.count("Warning") == is_private


def test_mint_prints_both_forms_and_names_the_persistent_urls(new_app: NewApp) -> None:
    app = new_app(IBI_PERSISTENT_URL_BASE="https://urlib.example")
    command(app, "init")
    one = command(app, "mint")
    rep, ibip = map(parse_identifier, one.out.removesuffix("\n").split("\t"))
    assert (rep.form, ibip.form) == (Form.REP, Form.IBIP)
    assert decode_identifier(rep).date == decode_identifier(ibip).date
    assert decode_identifier(rep).host == "mtc-m16c.sid.inpe.br"
    assert decode_identifier(ibip).ip == "150.163.34.243"
    assert (one.status, one.err) == (0, f"persistent URL: https://urlib.example/{ibip.text}\n")
    several = command(app, "mint", "-n", 3)
    assert several.err == "persistent URLs: https://urlib.example/IDENTIFIER\n"
    assert len(several.out.splitlines()) == 3
    for count in (1, 3):
        outcome = command(app, "mint", "-n", count, "--json")
        assert (outcome.status, outcome.err) == (0, "")
        minted = json.loads(outcome.out)
        assert len(minted) == count
        for pair in minted:
            assert set(pair) == {"rep", "ibip", "persistent_url"}
            assert pair["persistent_url"] == f"https://urlib.example/{pair['ibip']}"
            assert decode(pair["rep"])["date"] == decode(pair["ibip"])["date"]


# --- decode --------------------------------------------------------------------------------------


def test_decode_prints_the_same_as_json() -> None:
    for case in VECTORS["generated"]:
        for text in (case["rep"], case["ibip"]):
            values = json.loads(command(bare, "decode", text, "--json").data)
            assert {name: str(value) for name, value in values.items()} == decode(text)
            assert isinstance(values["port"], int)
    for text in VECTORS["legacy"]:
        assert command(bare, "decode", text).data == "form legacy\n"
        assert json.loads(command(bare, "decode", text, "--json").data) == {"form": "legacy"}
    for text in VECTORS["invalid"]:
        assert " is not an IBI: " in command(bare, "decode", "--", text).error


# --- reserve and release -------------------------------------------------------------------------


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
    ibi, ibip = reserve(here, "--note", "Thesis of Ana")
    heading, *_, line = command(here, "reserve", "--list").lines
    assert heading == "rep\tibip\tstatus\treserved_at\tsettled_at\tnote"
    assert line.startswith(f"{ibi}\t{ibip}\theld\t")
    date = line.split("\t")[3]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", date)
    held = {"rep": ibi, "ibip": ibip, "status": "held", "note": "Thesis of Ana"}
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
