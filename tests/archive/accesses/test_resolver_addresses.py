"""The IP addresses of the resolver, which alone may acknowledge accesses if a setting says so."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import pytest
from support.cases import for_each

from flask_ibi_archive.archive.accesses import visitors
from flask_ibi_archive.archive.accesses.visitors import (
    MAX_AGE,
    RETRY_AFTER,
    ResolverAddresses,
    find_network,
    look_up_networks,
)
from flask_ibi_archive.server.setting_values import parse_networks


def networks(*addresses: str) -> frozenset[Any]:
    return frozenset(map(find_network, addresses))


@for_each(
    ("address", "is_included"),
    [
        ("150.163.34.243", True),
        ("150.163.34.1", True),
        ("150.163.35.243", False),
        ("2001:db8:1:2::1", True),
        ("2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:3::1", False),
        ("0.0.0.0", False),
        ("::", False),
    ],
)
def test_an_address_of_the_dns_stands_for_its_network(address: str, is_included: bool) -> None:
    found = networks("150.163.34.243", "2001:db8:1:2::1")
    assert (
        ResolverAddresses("urlib.net", look_up=lambda host: found).contain(address) is is_included
    )


@for_each(
    ("address", "is_included"),
    [("10.1.2.3", True), ("10.2.0.1", False), ("192.0.2.7", True), ("192.0.2.8", False)],
)
def test_the_networks_of_the_setting_replace_the_dns(address: str, is_included: bool) -> None:
    def fail(host: str) -> None:
        raise AssertionError

    set_networks = parse_networks(["10.1.0.0/16", "192.0.2.7"])
    assert ResolverAddresses("urlib.net", set_networks, fail).contain(address) is is_included


def test_the_host_is_looked_up_again_after_some_minutes() -> None:
    now, asked = [0.0], []
    answers: list[frozenset[Any] | None] = [
        None,
        networks("150.163.34.1"),
        networks("192.0.2.1"),
        None,
        networks("198.51.100.1"),
    ]

    def look_up(host: str) -> frozenset[Any] | None:
        asked.append((now[0], host))
        return answers[len(asked) - 1]

    addresses = ResolverAddresses("urlib.net", look_up=look_up, clock=lambda: now[0])

    def included(*expected: str) -> bool:
        all_addresses = ("150.163.34.9", "192.0.2.9", "198.51.100.9")
        return [one for one in all_addresses if addresses.contain(one)] == list(expected)

    assert included()
    now[0] = RETRY_AFTER - 1
    assert included()
    now[0] = RETRY_AFTER
    assert included("150.163.34.9")
    now[0] += MAX_AGE - 1
    assert included("150.163.34.9")
    now[0] += 1
    assert included("192.0.2.9")
    now[0] += MAX_AGE
    assert included("192.0.2.9")  # the DNS does not answer
    now[0] += RETRY_AFTER
    assert included("198.51.100.9")
    assert [host for _, host in asked] == ["urlib.net"] * 5


def test_all_addresses_of_a_host_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, inner_hosts: None) -> Sequence[str]:
        if host == "unknown":
            raise socket.gaierror
        return "150.163.34.1", "2001:db8::1"

    monkeypatch.setattr(visitors, "look_up", look_up)
    assert look_up_networks("urlib.net") == networks("150.163.34.9", "2001:db8::9")
    assert look_up_networks("unknown") is None
