"""The check of an actor's IP address in the DNS ([P] 4.1)."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import IPv6Address
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each

from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS, InnerHosts, parse_inner_hosts
from flask_ibi_archive.core.protocol.registry_2008.model import RegisterActor
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.registry_2008.actor_address import (
    MAX_NAMED,
    check_actor_address,
    look_up_host,
)

HOST = "hermes.dpi.inpe.br"
IP = "150.163.34.243"
NETWORK = parse_inner_hosts(["10.0.0.0/8"])
NAME = parse_inner_hosts([".inpe.br"])


def check(
    ip: str, found: Sequence[str] | None, inner_hosts: InnerHosts = NO_INNER_HOSTS
) -> DocumentRegistryError | None:
    """Check the IP address of an actor, and return the error."""
    queried: list[str] = []
    request = RegisterActor("Hermes", ip, "dpi.inpe.BR", 80, "a@b.br", "password")
    try:
        check_actor_address(request, lambda host: queried.append(host) or found, inner_hosts)  # type: ignore[func-returns-value]
    except DocumentRegistryError as error:
        return error
    finally:
        assert queried in ([HOST], [])
    return None


@pytest.mark.rule("P4-03")
@for_each(
    ("ip", "found", "inner_hosts"),
    [
        (IP, [IP], NO_INNER_HOSTS),
        (IP, ["8.8.8.8", IP], NO_INNER_HOSTS),
        (IP, ["10.0.0.1", IP], NO_INNER_HOSTS),
        (IP, [f"::ffff:{IP}"], NO_INNER_HOSTS),
        (f"::ffff:{IP}", [IP], NO_INNER_HOSTS),
        ("2001:12f0:0:0:0:0:0:1", ["2001:12F0::1"], NO_INNER_HOSTS),
        ("10.0.0.1", ["10.0.0.1"], NETWORK),
        ("10.0.0.1", ["10.0.0.1"], NAME),
    ],
)
def test_an_ip_address_of_the_host_is_accepted(
    ip: str, found: list[str], inner_hosts: InnerHosts
) -> None:
    assert check(ip, found, inner_hosts) is None


@pytest.mark.rule("P4-03")
@for_each(
    ("ip", "found", "inner_hosts", "message"),
    [
        (IP, ["8.8.8.8"], NO_INNER_HOSTS, "which has 8.8.8.8 in the DNS"),
        (IP, ["8.8.8.8", "2001:12F0::1"], NO_INNER_HOSTS, "has 8.8.8.8, 2001:12f0::1 in the DNS"),
        (IP, [f"8.8.8.{n}" for n in range(MAX_NAMED)], NO_INNER_HOSTS, "8.8.8.4 in the DNS"),
        (IP, [f"8.8.8.{n}" for n in range(MAX_NAMED + 2)], NO_INNER_HOSTS, "8.8.8.4 and 2 more"),
        ("2001:12f0::1", [IP], NO_INNER_HOSTS, f"is not an IP address of {HOST} "),
        # the messages do not contain internal addresses
        (IP, ["8.8.8.8", "10.0.0.1"], NO_INNER_HOSTS, "which has 8.8.8.8 in the DNS"),
        (IP, ["10.0.0.1"], NO_INNER_HOSTS, "which has no public IP address in the DNS"),
        (IP, [], NO_INNER_HOSTS, "which has no public IP address in the DNS"),
        (IP, ["10.0.0.1"], NETWORK, "which has 10.0.0.1 in the DNS"),
        # only public addresses are accepted
        ("10.0.0.1", ["10.0.0.1"], NO_INNER_HOSTS, "is not a public IP address; send that of"),
        ("192.168.1.1", ["192.168.1.1"], NETWORK, "is not a public IP address"),
        ("127.0.0.1", ["127.0.0.1"], NO_INNER_HOSTS, "is not a public IP address"),
        ("::ffff:10.0.0.1", ["10.0.0.1"], NO_INNER_HOSTS, "is not a public IP address"),
        ("fe80::1", ["fe80::1%eth0"], NO_INNER_HOSTS, "is not a public IP address"),
    ],
)
def test_another_ip_address_is_refused(
    ip: str, found: list[str], inner_hosts: InnerHosts, message: str
) -> None:
    error = check(ip, found, inner_hosts)
    assert error is not None
    assert (error.code, error.status, error.retry_after) == ("wrong-address", 403, None)
    assert message in str(error)
    assert str(error).startswith(f"ip {ip} is not a")
    assert HOST in str(error)


def test_a_dns_that_does_not_answer_is_a_temporary_error() -> None:
    error = check(IP, None)
    assert error is not None
    assert (error.code, error.status, error.retry_after) == ("unavailable", 503, 60)
    assert f"the DNS does not answer for {HOST} " in str(error)


@given(st.ip_addresses(v=4), st.ip_addresses(v=6))
def test_all_texts_of_an_ip_address_are_equal(ipv4: object, ipv6: IPv6Address) -> None:
    everything = parse_inner_hosts(["0.0.0.0/0", "::/0"])
    for text, other in [(str(ipv4), f"::ffff:{ipv4}"), (ipv6.exploded, ipv6.compressed.upper())]:
        assert check(text, [other], everything) is None
        assert check(other, [text], everything) is None


# --- the look-up ---------------------------------------------------------------------------------


@for_each(
    ("answer", "addresses"),
    [
        ([IP, IP, "2001:12f0::1"], (IP, "2001:12f0::1")),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), ()),
        (UnicodeError("label too long"), ()),
        (socket.gaierror(socket.EAI_AGAIN, "no answer"), None),
        (OSError("too many open files"), None),
    ],
)
def test_a_look_up_distinguishes_unknown_hosts_and_temporary_errors(
    answer: list[str] | Exception,
    addresses: tuple[str, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find(*words: object, **options: object) -> list[tuple[object, ...]]:
        if isinstance(answer, Exception):
            raise answer
        return [(socket.AF_INET, 0, 0, "", (ip, 0)) for ip in answer]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    assert look_up_host(HOST) == addresses


def test_a_look_up_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Event()

    def find(*words: object, **options: object) -> list[tuple[object, ...]]:
        done.wait()
        return [(socket.AF_INET, 0, 0, "", (IP, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    try:
        assert look_up_host(HOST, seconds=0.01) is None
    finally:
        done.set()
