"""The IP addresses in a request ([R] Table 6.10)."""

from __future__ import annotations

import pytest
from support.cases import for_each

from flask_ibi_archive.core.protocol.hosts import parse_client_addresses

EMPTY = "the list of IP addresses is empty; the IP address of the user is missing"


@for_each(
    ("text", "addresses"),
    [
        ("150.163.2.175", ("150.163.2.175",)),
        ("150.163.2.175 10.0.0.1", ("150.163.2.175", "10.0.0.1")),
        (" 0.0.0.0  255.255.255.255 ", ("0.0.0.0", "255.255.255.255")),
        ("2001:DB8:0::1 10.0.0.1", ("2001:db8::1", "10.0.0.1")),
    ],
)
def test_the_user_is_the_first_address(text: str, addresses: tuple[str, ...]) -> None:
    assert parse_client_addresses(text) == addresses


@for_each("text", ["", "  "])
def test_a_list_without_an_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_client_addresses(text)
    assert str(caught.value) == EMPTY


@for_each(
    "text", ["010.0.0.1", "1.2.3", "1.2.3.256", "fe80::1%eth0", "::1\t::2", "1.2.3.4,1.2.3.5", "a"]
)
def test_a_word_that_is_not_an_address_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an IP address|zone") as caught:
        parse_client_addresses(f"150.163.2.175 {text}")
    assert ascii(text)[1:-1] in str(caught.value)
    assert "150.163.2.175" not in str(caught.value)
