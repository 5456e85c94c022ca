"""Checks of hosts, URLs and IP addresses."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from hypothesis import example, given
from hypothesis import strategies as st
from werkzeug.urls import iri_to_uri

from flask_ibi_archive.core.protocol.hosts import find_client, is_host, is_public_ip


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


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_an_ipv6_address_with_an_internal_ipv4_address_is_internal(ip: IPv4Address) -> None:
    assert is_public_ip(IPv6Address(f"::ffff:{ip}")) == is_public_ip(ip)
    if not is_public_ip(ip):
        for hidden in (2 << 112 | 2 << 124 | int(ip) << 80, 0x64FF9B << 96 | int(ip)):
            assert not is_public_ip(IPv6Address(hidden))


def test_the_user_is_the_first_address() -> None:
    assert find_client(("150.163.34.243", "192.0.2.1"), anonymises=True) == "150.163.34.0"
    assert find_client(("150.163.34.243",), anonymises=False) == "150.163.34.243"
    assert find_client((), anonymises=True) is find_client(None, anonymises=False) is None
