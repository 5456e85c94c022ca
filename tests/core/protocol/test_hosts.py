"""Tests the checks of hosts, URLs and IP addresses."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load
from werkzeug.urls import iri_to_uri

from flask_ibi_archive.core.protocol.hosts import (
    NO_INNER_HOSTS,
    check_url,
    extract_host,
    extract_port,
    find_client,
    group_sender,
    is_archive_address,
    is_host,
    is_host_and_port,
    is_like_ipv4,
    is_public_host,
    is_public_ip,
    normalize_host,
    parse_client_addresses,
    parse_inner_hosts,
)

CASES = load("core/hosts.json")


@for_each(
    "host",
    ["a", "a.br", "a.br.", "a_b.br", "127.0.0.1", "[::1]", "[2001:db8::1]", "a" * 63 + ".br", "-"],
)
def test_these_are_hosts(host: str) -> None:
    assert is_host(host)


@for_each("host", CASES["these are not hosts"])
def test_these_are_not_hosts(host: str) -> None:
    assert not is_host(host)


@for_each("url", CASES["these are urls"])
def test_these_are_urls(url: str) -> None:
    check_url(url)


@for_each(("url", "reason"), CASES["these are not urls"])
def test_these_are_not_urls_that_an_archive_can_give(url: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_url(url)
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)


@given(
    st.text(alphabet="ab-_.:[]%0", max_size=80) | st.text(max_size=20),
    st.integers(0, 65535).map(str) | st.just(""),
)
@example("a" * 63, "80")
@example("xn--a", "")
def test_a_redirect_to_every_accepted_host_works(host: str, port: str) -> None:
    url = f"http://{host}:{port}/x"
    if is_host(host):
        assert iri_to_uri(url).startswith("http://")


@for_each(("ip", "is_public"), CASES["an ip address is public or internal"])
def test_an_ip_address_is_public_or_internal(ip: str, is_public: bool) -> None:
    assert is_public_ip(ip_address(ip)) is is_public
    assert NO_INNER_HOSTS.allow("a.br", ip_address(ip)) is is_public
    if "%" not in ip:
        assert is_public_host(f"[{ip}]" if ":" in ip else ip) is is_public


@for_each(
    ("setting", "host", "ip", "is_allowed"),
    CASES["an internal address is allowed by its network or its host name"],
)
def test_an_internal_address_is_allowed_by_its_network_or_its_host_name(
    setting: str, host: str, ip: str, is_allowed: bool
) -> None:
    assert parse_inner_hosts([setting]).allow(host, ip_address(ip)) is is_allowed


@for_each(("host", "is_public"), CASES["a name with a top level name of the internet is public"])
def test_a_name_with_a_top_level_name_of_the_internet_is_public(host: str, is_public: bool) -> None:
    assert is_public_host(host) is is_public


@for_each("item", ["", " ", "a b", "a.1", "1.2.3", "10.0.0.0/33", "files.corp/8", " files.corp"])
def test_other_texts_are_not_internal_hosts(item: str) -> None:
    with pytest.raises(
        ValueError, match="is not a host name, an IP address or a network"
    ) as refusal:
        parse_inner_hosts(["files.corp", item])
    assert str(refusal.value).startswith(repr(item))


@for_each(("host", "normalized"), CASES["hosts are compared in lower case without default ports"])
def test_hosts_are_compared_in_lower_case_without_default_ports(host: str, normalized: str) -> None:
    assert normalize_host(host) == normalized


@for_each(("address", "is_right"), CASES["an archiveaddress is a host with or without a port"])
def test_an_archiveaddress_is_a_host_with_or_without_a_port(address: str, is_right: bool) -> None:
    assert is_archive_address(address) is is_right


def test_the_host_of_another_text_is_the_text() -> None:
    for text in ("", "a.br:port", "::1"):
        assert extract_host(text) == text


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_an_ipv6_address_with_an_internal_ipv4_address_is_internal(ip: IPv4Address) -> None:
    mapped = IPv6Address(f"::ffff:{ip}")
    assert is_public_ip(mapped) == is_public_ip(ip)
    if not is_public_ip(ip):
        for hidden in (2 << 112 | 2 << 124 | int(ip) << 80, 0x64FF9B << 96 | int(ip)):
            assert not is_public_ip(IPv6Address(hidden))


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("urlib.net", "urlib.net"),
        ("localhost:5000", "localhost"),
        ("150.163.2.166:80", "150.163.2.166"),
        ("[2001:db8::1]:8080", "2001:db8::1"),
    ],
)
def test_an_address_has_a_host(address: str, host: str) -> None:
    assert is_archive_address(address)
    assert extract_host(address) == host


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


@for_each(("address", "anonymous", "sender"), CASES["the address of a user is shortened"])
def test_the_address_of_a_user_is_shortened(address: str, anonymous: str, sender: str) -> None:
    assert find_client((address, "192.0.2.1"), anonymises=True) == anonymous
    assert find_client((address,), anonymises=False) == address
    assert group_sender(address) == sender


def test_a_request_without_addresses_has_no_user() -> None:
    assert find_client((), anonymises=True) is find_client(None, anonymises=False) is None


@pytest.mark.parametrize(("address", "port"), [("a.br", None), ("a.br:80", 80), ("[::1]:1", 1)])
def test_an_address_has_a_port_or_none(address: str, port: int | None) -> None:
    assert extract_port(address) == port


@for_each(("host", "is_ipv4"), [("a.br", False), ("1.2.3", True), ("a.0x7f", True)])
def test_browsers_read_a_last_label_that_is_a_number_as_an_ipv4_address(
    host: str, is_ipv4: bool
) -> None:
    assert is_like_ipv4(host) is is_ipv4


@for_each(
    ("host", "is_right"),
    [("a.br", True), ("a.br:80", True), ("[::1]:", True), ("a.br:65536", False), ("a.br:x", False)],
)
def test_a_host_header_is_a_host_and_a_port(host: str, is_right: bool) -> None:
    assert is_host_and_port(host) is is_right
