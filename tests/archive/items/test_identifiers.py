"""The commands mint and decode."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.cases import for_each
from support.commands import command
from support.vectors import load

from flask_ibi_archive.core.identifiers import Form, decode_identifier, parse_identifier

NewApp = Callable[..., Flask]
VECTORS = load("identifiers.json")


def bare() -> Flask:
    raise AssertionError("decode needs no app")


def decode(text: str) -> dict[str, str]:
    """Return what decode prints, by name."""
    return dict(line.split(" ", 1) for line in command(bare, "decode", text).lines)


# --- mint ----------------------------------------------------------------------------------------


def test_mint_prints_the_two_forms_separated_by_a_tab(app: Flask) -> None:
    [line] = command(app, "mint").lines
    rep, ibip = map(parse_identifier, line.split("\t"))
    assert (rep.form, ibip.form) == (Form.REP, Form.IBIP)
    assert decode_identifier(rep).date == decode_identifier(ibip).date
    assert decode_identifier(rep).host == "mtc-m16c.sid.inpe.br"
    assert decode_identifier(ibip).ip == "150.163.34.243"


@pytest.mark.parametrize(
    ("ip", "is_private"), [("10.1.2.3", True), ("fd00::1", True), ("203.0.113.7", False)]
)
def test_commands_that_mint_warn_of_a_private_address(
    new_app: NewApp, report: Path, ip: str, is_private: bool
) -> None:
    app = new_app(IBI_ARCHIVE_IP=ip)
    for words in (("init",), ("list",), ("export",)):
        outcome = command(app, *words)
        assert (outcome.status, outcome.err) == (0, "")
    for words in (("mint",), ("reserve",), ("add", str(report))):
        outcome = command(app, *words)
        assert (outcome.status, len(outcome.out.split("\t"))) == (0, 2)
        warning = f"Warning: IBI_ARCHIVE_IP is {ip}, a private address that other networks can use"
        assert outcome.err.startswith(warning) == is_private
        assert outcome.err.count("Warning") == is_private


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"IBI_ARCHIVE_IP": None}, "IBI_ARCHIVE_IP is not set"),
        ({"IBI_MINT_HOST": "localhost"}, "IBI_MINT_HOST is 'localhost'"),
        ({"IBI_MINT_HOST": "150.163.34.243"}, "IBI_MINT_HOST is '150.163.34.243'"),
        ({"IBI_GRANULARITY": "60", "IBI_MINT_MAX_WAIT": 0}, "IBI_MINT_MAX_WAIT allows only 0 s"),
    ],
)
def test_mint_names_the_setting_that_prevents_it(
    new_app: NewApp, settings: dict[str, Any], message: str
) -> None:
    app = new_app(**settings)
    command(app, "init")
    assert message in command(app, "mint", "-n", 5).error


def test_mint_names_the_persistent_url_on_standard_error(new_app: NewApp) -> None:
    app = new_app(IBI_PERSISTENT_URL_BASE="https://urlib.example")
    command(app, "init")
    one = command(app, "mint")
    ibip = one.out.split()[1]
    assert (one.status, one.err) == (0, f"persistent URL: https://urlib.example/{ibip}\n")
    several = command(app, "mint", "-n", 3)
    assert several.err == "persistent URLs: https://urlib.example/IDENTIFIER\n"
    assert len(several.out.splitlines()) == 3


@pytest.mark.parametrize("count", [1, 3])
def test_mint_prints_identifiers_and_persistent_urls_as_json(app: Flask, count: int) -> None:
    outcome = command(app, "mint", "-n", count, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    minted = json.loads(outcome.out)
    assert len(minted) == count
    for one in minted:
        assert set(one) == {"rep", "ibip", "persistent_url"}
        assert one["persistent_url"] == f"http://urlib.net/{one['ibip']}"
        assert decode(one["rep"])["date"] == decode(one["ibip"])["date"]


# --- decode --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "sid.inpe.br/mtc-m18@80/2009/02.16.17.46",
            "form rep, host mtc-m18.sid.inpe.br, port 80, date 2009-02-16T17:46:00Z",
        ),
        (
            "SID.inpe.br/mtc-m18.8080/2009/02.16.17.46.05.25",
            "form rep, host mtc-m18.sid.inpe.br, port 8080, date 2009-02-16T17:46:05.25Z",
        ),
        (
            "8JMKD3MGP8W/34PGRBS",
            "form ibip, ip 150.163.34.243, port 800, date 2009-02-16T17:46:00Z",
        ),
        (
            "8jmkd3mgp8w34m/34pgrc4wt",
            "form ibip, ip 150.163.34.243, port 802, date 2009-02-16T17:46:05.25Z",
        ),
        (
            "7URMDHLL9SSN2D89MX/34PGRBSW27",
            "form ibip, ip 2001:252:0:1::2008:6, port 800, date 2009-02-16T17:46:00.05Z",
        ),
    ],
)
def test_decode_prints_a_line_each_for_form_address_port_and_date(text: str, facts: str) -> None:
    assert command(bare, "decode", text).lines == facts.split(", ")


@for_each("text", VECTORS["legacy"])
def test_decode_of_a_legacy_identifier_prints_only_its_form(text: str) -> None:
    assert command(bare, "decode", text).data == "form legacy\n"
    assert json.loads(command(bare, "decode", text, "--json").data) == {"form": "legacy"}


@for_each("text", VECTORS["invalid"])
def test_decode_of_an_invalid_text_is_an_error_of_one_line(text: str) -> None:
    assert " is not an IBI: " in command(bare, "decode", "--", text).error


@for_each("case", VECTORS["generated"])
def test_decode_prints_the_same_as_json(case: dict[str, str]) -> None:
    for text in (case["rep"], case["ibip"]):
        values = json.loads(command(bare, "decode", text, "--json").data)
        assert {name: str(value) for name, value in values.items()} == decode(text)
        assert isinstance(values["port"], int)
