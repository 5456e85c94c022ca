from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.identifier_strategies import addresses
from support.vectors import load

from flask_ibi_archive.core.identifiers.forms import (
    canonical_address,
    check_port,
    is_private_address,
)

CASES = load("core/identifiers_addresses.json")


@pytest.mark.rule("G7-07")
@for_each(
    ("text", "canonical"),
    CASES["every spelling has one canonical text"],
)
def test_every_spelling_has_one_canonical_text(text: str, canonical: str) -> None:
    assert canonical_address(text) == canonical


@given(addresses)
def test_the_canonical_text_of_canonical_text_is_the_same(text: str) -> None:
    canonical = canonical_address(text)
    assert canonical_address(canonical) == canonical
    assert canonical == canonical.lower()
    assert ":" not in canonical or "." not in canonical
    address = ipaddress.ip_address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    assert ipaddress.ip_address(canonical) == (mapped or address)


@given(st.integers(0, 2**128 - 1))
def test_a_long_spelling_has_the_canonical_text_of_a_short_one(number: int) -> None:
    address = ipaddress.IPv6Address(number)
    assert canonical_address(address.exploded.upper()) == canonical_address(str(address))


@pytest.mark.parametrize("text", ["fe80::1%eth0", "fe80::1%1"])
def test_a_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="zone"):
        canonical_address(text)


@for_each(
    "text",
    ["", "1.2.3", "1.2.3.256", "001.2.3.4", "1.2.3.4\n", " 1.2.3.4", "[::1]", "1::2::3", "١.2.3.4"],
)
def test_other_texts_are_not_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="is not an IP address such as"):
        canonical_address(text)


@pytest.mark.parametrize("text", ["192.168.1.100", "fd00::1", "::ffff:127.0.0.1"])
def test_addresses_of_local_networks_are_private(text: str) -> None:
    assert is_private_address(text)


@for_each(
    "text",
    [
        "150.163.34.243", "2001:252:0:1::2008:6", "::ffff:150.163.2.174",
        # addresses for documentation
        "192.0.2.1", "198.51.100.255", "203.0.113.7", "::ffff:203.0.113.7",
        "2001:db8::7", "3fff::1",
    ],
)  # fmt: skip
def test_addresses_of_the_internet_are_not_private(text: str) -> None:
    assert not is_private_address(text)


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_a_port_outside_its_range_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match=f"port {port} is not a number from 1 to 65535"):
        check_port(port)


@pytest.mark.parametrize("port", [1, 65535])
def test_the_first_and_the_last_number_of_the_range_are_ports(port: int) -> None:
    check_port(port)
