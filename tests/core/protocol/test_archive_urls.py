"""Tests the URLs of a running Archive, which must be those of the documented interface."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.protocol.url_list import ArchiveUrls

CASES = load("core/protocol_archive_urls.json")

REP, IBIP = "sid.inpe.br/mtc-m18@80/2009/07.21.13.23", "8JMKD3MGP8W/35MME4E"
BOTH = SimpleNamespace(rep=REP, ibip=IBIP)
ALONE = SimpleNamespace(rep=None, ibip=IBIP)
HTTP = ArchiveUrls("http://mtc-m16c.sid.inpe.br")


def test_a_url_contains_the_repository_name_or_else_the_ibip() -> None:
    assert HTTP.item(BOTH) == f"http://mtc-m16c.sid.inpe.br/col/{REP}/"
    assert HTTP.item(ALONE) == f"http://mtc-m16c.sid.inpe.br/col/{IBIP}/"


def test_every_address_is_that_of_the_interface() -> None:
    base = "https://a.example:8443"
    addresses = ArchiveUrls(base)
    assert addresses.service(BOTH) == f"{base}/{REP}"
    assert addresses.file_list(BOTH) == f"{base}/col/{REP}/files"
    assert addresses.statistics(BOTH) == f"{base}/col/{REP}/statistics"
    assert addresses.statistics(ALONE) == f"{base}/col/{IBIP}/statistics"
    assert addresses.archive_statistics() == f"{base}/ibi/statistics"
    assert addresses.metadata(BOTH) == f"{base}/col/{REP}/metadata"
    assert addresses.metadata(BOTH, "oai_dc") == f"{base}/col/{REP}/metadata?choice=oai_dc"


@pytest.mark.rule("R4-15", "R72-22")
@for_each(
    ("path", "written"),
    CASES["a path is utf8 with all but plain characters encoded"],
)
def test_a_path_is_utf8_with_all_but_plain_characters_encoded(path: str, written: str) -> None:
    assert HTTP.file(BOTH, path) == f"http://mtc-m16c.sid.inpe.br/col/{REP}/doc/{written}"


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_the_path_of_a_file_can_be_decoded_from_its_url(path: str) -> None:
    address = HTTP.file(BOTH, path)
    assert address.isascii()
    parts = urlsplit(address)
    assert (parts.query, parts.fragment) == ("", "")
    assert unquote(parts.path.partition("/doc/")[2]) == path


def test_a_host_chooses_the_address_of_each_page() -> None:
    """The path of the app precedes a path that does not begin with it ([R] 4.1 for the service)."""
    addresses = ArchiveUrls("https://a.example")
    addresses.find_root = lambda: "/repository"
    asked: list[tuple[str, str | None]] = []

    def find_address(page: str, item: object, name: str | None) -> str | None:
        assert item is BOTH
        asked.append((page, name))
        return {
            "item": "/items/7",
            "file": "/repository/files/7",
            "statistics": "https://figures.example/7",
        }.get(page)

    addresses.find_address = find_address
    assert addresses.item(BOTH) == "https://a.example/repository/items/7"
    assert addresses.file(BOTH, "a b.txt") == "https://a.example/repository/files/7"
    assert addresses.statistics(BOTH) == "https://figures.example/7"
    assert addresses.file_list(BOTH) == f"https://a.example/repository/col/{REP}/files"
    assert addresses.metadata(BOTH, "oai_dc").endswith(f"/col/{REP}/metadata?choice=oai_dc")
    assert addresses.service(BOTH) == f"https://a.example/{REP}"
    assert asked == [
        ("item", None),
        ("file", "a b.txt"),
        ("statistics", None),
        ("file_list", None),
        ("metadata", "oai_dc"),
    ]


@for_each("address", ["http://b.example/7", "https://b.example/7"])
def test_a_host_may_choose_a_whole_url(address: str) -> None:
    addresses = ArchiveUrls("https://a.example")
    addresses.find_address = lambda page, item, name: address
    assert addresses.item(BOTH) == addresses.file(BOTH, "a") == address


@for_each("address", ["items/7", "//b.example/7", "ftp://b.example/7", "", 7])
def test_an_address_that_is_neither_a_path_nor_a_url_is_refused(address: Any) -> None:
    addresses = ArchiveUrls("https://a.example")
    addresses.find_address = lambda page, item, name: address
    with pytest.raises(ValueError) as caught:
        addresses.item(BOTH)
    assert str(caught.value) == (
        f"the address function returned {address!r} for the page 'item' of the item {REP}; it "
        "should return a path that begins with '/', a URL that begins with http:// or https://, "
        "or None"
    )
