"""Tests for rules of the documents that no other module tests."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from hypothesis import given
from support.archives import archive_of, import_file, import_records
from support.identifier_strategies import repository_names
from support.vectors import FOLDER, load
from support.web import ask

from flask_ibi_archive.core.identifiers.dates import format_date, parse_decimal
from flask_ibi_archive.core.identifiers.grammar import build_repository_suffix, convert_from_decimal
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.errors import IdentifierError

IDENTIFIERS = load("identifiers.json")


# --- [G]: generation -----------------------------------------------------------------------------


@pytest.mark.rule("G5-05")
def test_an_identifier_is_parsed_without_the_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    """[G] 5, below Example 1."""

    def fail(*parts: Any, **options: Any) -> Any:
        raise AssertionError("a function of the network was called")

    for name in ("getaddrinfo", "gethostbyname", "gethostbyaddr", "getfqdn", "socket"):
        monkeypatch.setattr(socket, name, fail)
    old_name = "gone.example.invalid/long-ago/1998/08.02.08.56"
    for text in (old_name, *IDENTIFIERS["valid_rep"], *IDENTIFIERS["valid_ibip"]):
        assert decode_identifier(parse_identifier(text)).date is not None
    for text in IDENTIFIERS["invalid"]:
        with pytest.raises(IdentifierError):
            parse_identifier(text)


@pytest.mark.rule("G6-01")
@given(repository_names())
def test_a_repository_name_has_four_parts_that_can_be_directories(text: str) -> None:
    """[G] 6, a to d."""
    parts = parse_identifier(text).text.split("/")
    assert len(parts) == 4
    for part in parts:
        assert part not in ("", ".", "..")
        assert part == part.lower()


@pytest.mark.rule("G6-12")
@pytest.mark.skipif(
    not hasattr(time, "tzset"), reason="this system cannot set the time zone of a process"
)
@pytest.mark.parametrize("zone", ["BRT3BRST,M10.3.0/0,M2.3.0/0", "NZST-12NZDT,M9.5.0,M4.1.0/3"])
def test_a_suffix_is_in_utc_in_any_time_zone_of_the_server(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    """[G] 6, Algorithm 2: daylight saving time began and ended in these minutes in Brazil."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert time.localtime(0)[:5] != (1970, 1, 1, 0, 0)
        for decimal, suffix in (
            ("1234806360", "2009/02.16.17.46"),
            ("1234663199", "2009/02.15.01.59.59"),
            ("1234663200", "2009/02.15.02.00"),
            ("1255834800", "2009/10.18.03.00"),
            ("1246406400", "2009/07.01.00.00"),
        ):
            date = parse_decimal(decimal)
            assert build_repository_suffix(date) == suffix
            name = parse_identifier(f"sid.inpe.br/mtc-m18/{suffix}")
            assert decode_identifier(name).date == date
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.rule("G7-12")
def test_digits_of_tables_7_4_and_7_5_count_from_zero() -> None:
    """[G] Tables 7.4 and 7.5."""
    assert "".join(convert_from_decimal(number, 11) for number in range(11)) == "0123456789."
    assert "".join(convert_from_decimal(number, 17) for number in range(17)) == "0123456789abcdef:"


# --- [D] and [P]: the identifiers in the text ----------------------------------------------------


@pytest.mark.rule("D3-01")
def test_the_example_of_the_draft_is_parsed_and_its_persistent_url_is_shown(app: Flask) -> None:
    """[D] 3, Example 1; [P] 3."""
    text = "sid.inpe.br/md-m09@80/2008/04.14.11.53"
    identifier = parse_identifier(text)
    decoded = decode_identifier(identifier)
    assert (identifier.prefix, decoded.host, decoded.port) == (
        "sid.inpe.br/md-m09@80",
        "md-m09.sid.inpe.br",
        80,
    )
    assert decoded.date is not None
    assert format_date(decoded.date) == "2008-04-14T11:53:00Z"
    # the page of an unknown item links to the resolver
    answer = ask(app, f"/col/{text}/")
    assert answer.status == 404
    assert f'href="http://urlib.net/{text}"' in answer.text


@pytest.mark.rule("P0-01")
def test_the_three_identifiers_in_the_note_of_2008_identify_one_item(app: Flask) -> None:
    """[P] title page."""
    rep, ibip, legacy = "iconet.com.br/banon/2008/05.16.17.13", "LK47B6W/335L8GH", "APM77Z/UaJFT"
    import_records(archive_of(app), [{"rep": rep, "ibip": ibip, "aliases": [legacy]}])
    for text in (rep, ibip, legacy):
        pairs = url_list_of(app, text)
        assert pairs["ibi"] == ("rep", rep, "ibip", ibip)
        assert pairs["url"] == f"http://mtc-m16c.sid.inpe.br/col/{rep}/"
        assert ask(app, f"/col/{text}/").status == 200


# --- [R] 7.2: the URL list -----------------------------------------------------------------------


def url_list_of(app: Flask, ibi: str) -> dict[str, Any]:
    return dict(archive_of(app).list_urls(UrlRequest(parse_identifier(ibi), ("150.163.2.175",))))


@pytest.mark.rule("R72-33")
def test_the_answers_have_the_pairs_of_examples_7_4_7_6_7_8_and_7_10(
    new_app: Callable[..., Flask],
) -> None:
    """[R] 7.2: the examples of the routines, which all use one item."""
    folder = FOLDER / "archive/examples_7_8_to_7_12"
    config = load("archive/examples_7_8_to_7_12/case.json")["config"]
    app = new_app(**config, IBI_FILTER_URL_LIST=False)
    archive_of(app).init()
    import_file(archive_of(app), folder / "items.jsonl")
    pairs = url_list_of(app, "8JMKD3MGP7W/3EPGUE5")
    rep = "sid.inpe.br/mtc-m19/2013/09.04.12.27.57"
    assert pairs["state"] == "Original"
    assert pairs["ibi.lastedition"] == ("rep", rep, "ibip", "8JMKD3MGP7W/3EPGUE5")
    assert pairs["ibi.metadata"] == ("rep", "sid.inpe.br/mtc-m19/2013/09.04.12.27.58")
    assert pairs["url.metadata"] == (
        "http://mtc-m16d.sid.inpe.br/col/sid.inpe.br/mtc-m19/2013/09.04.12.27.58/doc/metadata.cgi"
    )
    assert not any("metadados" in name for name in pairs)
