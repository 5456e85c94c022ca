"""Host names: lookups in threads, cached addresses, internal addresses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Event, Thread
from time import monotonic
from typing import Any

import pytest
from support.archive_servers import THE_END, Servers, hangs, http, says
from support.asking import KNOWN, SHORT, MakeFanOut, all_of, ask_and_hear, at, one_of, reason_of
from support.cases import for_each
from support.internal import OTHERS, THIS_MACHINE, Names
from support.loopback import PATIENCE

from flask_ibi_archive.archive.guarded_http import InternalAddress
from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, parse_inner_hosts
from flask_ibi_archive.resolver import dns_cache
from flask_ibi_archive.resolver.concurrent_requests import Failure, Reply
from flask_ibi_archive.resolver.dns_cache import (
    FRESH,
    INTERNAL,
    UNKNOWN_NAME,
    USABLE,
    DnsCache,
    LookupResult,
    is_valid_url,
    split_host,
)

HERE = "127.0.0.1"


@for_each(
    ("url", "host", "port"),
    [
        ("http://a.br/x?y:z", "a.br", "80"),
        ("http://A.br:8080?x", "a.br", "8080"),
        ("http://a.br", "a.br", "80"),
        ("http://150.163.2.175:81/x", "150.163.2.175", "81"),
        ("http://2130706433/x", "2130706433", "80"),
        ("http://0X7f.1:82", "0x7f.1", "82"),
        ("http://[::1]:8080/x", "::1", "8080"),
        ("http://[2001:DB8::1]?x", "2001:db8::1", "80"),
    ],
)
def test_host_and_port_of_a_url(url: str, host: str, port: str) -> None:
    assert is_valid_url(url)
    assert split_host(url) == (host, port)


class Directory:
    """A DNS cache whose lookups and clock are controlled by the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.answers: list[tuple[str, ...] | Exception] = []
        self.may_answer, self.notified = Event(), Event()
        self.cache = DnsCache(self.notified.set, self.search, lambda: self.now)

    def search(self, host: str) -> tuple[str, ...]:
        self.asked += 1
        assert self.may_answer.wait(PATIENCE)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(self, *addresses: str, fails: Exception | None = None) -> None:
        """Finish the running lookup."""
        self.answers.append(fails or addresses)
        self.may_answer.set()
        assert self.notified.wait(PATIENCE)
        self.may_answer.clear()
        self.notified.clear()
        assert self.cache.finished
        reason = INTERNAL if isinstance(fails, InternalAddress) else UNKNOWN_NAME
        assert self.cache.collect_results() == {"a.br": LookupResult(addresses, reason)}
        assert not self.cache.finished


def test_cached_addresses_are_used_during_a_new_lookup() -> None:
    directory = Directory()
    find = directory.cache.find
    assert find("a.br") is find("a.br") is None
    directory.answer("1.2.3.4")
    assert find("a.br") == ("1.2.3.4",)
    directory.now = FRESH
    assert find("a.br") == ("1.2.3.4",)
    assert directory.asked == 1
    directory.now = FRESH + 1
    assert find("a.br") == find("a.br") == ("1.2.3.4",)
    directory.answer("5.6.7.8")
    assert find("a.br") == ("5.6.7.8",)
    assert directory.asked == 2


@for_each("failure", [socket.gaierror(-2, "not known"), OSError(5), UnicodeError("too long")])
def test_cached_addresses_are_used_for_a_while_if_a_lookup_fails(
    failure: Exception,
) -> None:
    directory = Directory()
    find = directory.cache.find
    find("a.br")
    directory.answer("1.2.3.4")
    directory.now = USABLE
    assert find("a.br") == ("1.2.3.4",)
    directory.answer(fails=failure)
    assert find("a.br") == ("1.2.3.4",)
    directory.now = USABLE + 1
    assert find("a.br") is None
    directory.answer(fails=failure)
    assert find("a.br") is None
    directory.answer("1.2.3.4")
    assert find("a.br") == ("1.2.3.4",)


def test_cached_addresses_are_dropped_if_the_new_one_is_internal() -> None:
    directory = Directory()
    find = directory.cache.find
    find("a.br")
    directory.answer("1.2.3.4")
    directory.now = FRESH + 1
    assert find("a.br") == ("1.2.3.4",)
    directory.answer(fails=InternalAddress("a.br"))
    assert find("a.br") is None
    directory.answer("1.2.3.4")
    assert find("a.br") == ("1.2.3.4",)


def test_a_lookup_fails_if_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", start)
    directory = Directory()
    assert directory.cache.find("a.br") is None
    assert directory.notified.is_set()
    assert directory.cache.collect_results() == {"a.br": LookupResult()}


# --- requests to host names ----------------------------------------------------------------------


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Replace DNS: ``hangs...`` waits for this event, ``unknown...`` fails, others are HERE."""
    end = Event()

    def search(host: str, *rest: object, **more: object) -> list[Any]:
        if host.startswith("hangs"):
            end.wait(PATIENCE)
        if host.startswith("unknown"):
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (HERE, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", search)
    yield end
    end.set()


def named(address: str, name: str) -> str:
    return f"{name}:{address.rpartition(':')[2]}"


def test_hanging_lookups_do_not_delay_other_archives(
    hosts: Servers, make_fan_out: MakeFanOut, hanging: Event
) -> None:
    server = hosts.add(says(http(KNOWN)))
    good = [at(named(server.address, f"good{number}.br"), tag=number) for number in range(3)]
    bad = [at(f"hangs{number}.br") for number in range(40)]
    replies = make_fan_out(PATIENCE).ask([*bad, *good], PATIENCE)
    found = [replies.get(PATIENCE) for _ in good]
    assert {one.target.tag for one in found if isinstance(one, Reply)} == {0, 1, 2}
    assert replies.pending == len(bad)


def test_a_hanging_lookup_times_out(make_fan_out: MakeFanOut, hanging: Event) -> None:
    assert reason_of(make_fan_out(SHORT).ask([at("hangs.br")], PATIENCE)) == "took too long"


def test_a_late_lookup_leaves_the_rest_of_the_time_for_the_request(
    hosts: Servers, make_fan_out: MakeFanOut, hanging: Event
) -> None:
    server = hosts.add(says(http(KNOWN)))
    replies = make_fan_out(PATIENCE).ask([at(named(server.address, "hangs.br"))], PATIENCE)
    hanging.set()
    found = one_of(replies)
    assert isinstance(found, Reply)
    assert "Host: hangs.br:" in server.heads[0]


def test_an_unknown_name_is_a_failure(make_fan_out: MakeFanOut, hanging: Event) -> None:
    asks = make_fan_out()
    for _ in range(2):
        found = all_of(asks.ask([at("unknown1.br"), at("unknown2.br")], PATIENCE))
        assert [one.reason for one in found if isinstance(one, Failure)] == [UNKNOWN_NAME] * 2


def test_requests_that_wait_for_a_lookup_fail_on_close(
    hosts: Servers, make_fan_out: MakeFanOut, hanging: Event
) -> None:
    server = hosts.add(says(http(KNOWN)))
    asks = make_fan_out(PATIENCE)
    assert asks.send_acknowledgment(f"http://{named(server.address, 'good.br')}/x", {})
    server.wait()
    assert asks.send_acknowledgment("http://hangs.br/x", {})
    replies = asks.ask([at("hangs.br")], PATIENCE)
    asks.close(0.0)
    assert (
        reason_of(replies) == "did not get the complete request, because the resolver is stopping"
    )


def test_curl_handles_are_used_for_several_hosts(
    hosts: Servers, make_fan_out: MakeFanOut, hanging: Event
) -> None:
    servers = [hosts.add(says(http(KNOWN))) for _ in range(2)]
    asks = make_fan_out()
    for turn in range(3):
        targets = [at(named(one.address, f"good{turn % 2}.br")) for one in servers]
        found = all_of(asks.ask([*targets, at(servers[0].address)], PATIENCE))
        assert [type(one) for one in found] == [Reply] * 3


# --- only the addresses that were looked up ------------------------------------------------------


@for_each("end", [b"", THE_END])
def test_a_transfer_uses_the_current_address_of_its_host(
    hosts: Servers, make_fan_out: MakeFanOut, end: bytes
) -> None:
    first = hosts.add(says(http("contenttype 1") + end))
    others = [
        hosts.add(says(http(f"contenttype {ip}") + end), place=(ip, first.port))
        for ip in ("127.0.0.2", "127.0.0.3")
    ]
    places = {"127.0.0.1": "1", **{one.address.partition(":")[0]: "" for one in others}}
    asks = make_fan_out()
    # this starts the thread of the event loop
    ask_and_hear(asks, first)
    known = asks._loop._dns_cache._cache  # type: ignore[union-attr]
    steps = [
        *([HERE], ["127.0.0.2"], [HERE], ["127.0.0.3", "127.0.0.2"], ["127.0.0.2"], [HERE]),
        *(["127.0.0.3"], [HERE], ["127.0.0.2"], ["127.0.0.2", "127.0.0.3"]),
    ]
    for number, addresses in enumerate(steps):
        known["a.br"] = monotonic(), tuple(addresses)
        # each of these requests uses another curl handle
        for count in (1 + number % 4, 3):
            targets = [at(f"a.br:{first.port}") for _ in range(count)]
            found = all_of(asks.ask(targets, PATIENCE))
            came = {one.pairs[0].text for one in found if isinstance(one, Reply)}
            assert came <= {places[one] or one for one in addresses}, (number, addresses)
            assert len(came) == 1


def test_a_transfer_uses_the_current_address_while_another_uses_an_old_one(
    hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    first = hosts.add(says(http(KNOWN) + THE_END))
    second = hosts.add(hangs, place=("127.0.0.2", first.port))
    asks = make_fan_out(20)
    target = at(f"a.br:{first.port}")
    ask_and_hear(asks, first)
    known = asks._loop._dns_cache._cache  # type: ignore[union-attr]
    known["a.br"] = monotonic(), (HERE,)
    assert len(all_of(asks.ask([target, target], PATIENCE))) == 2
    known["a.br"] = monotonic(), ("127.0.0.2",)
    held = asks.ask([target], PATIENCE)
    second.wait()
    # the other one of the two handles has used this address before
    known["a.br"] = monotonic(), (HERE,)
    answer = asks.ask([target], PATIENCE)
    first.wait(4)
    assert isinstance(one_of(answer), Reply)
    assert second.accepted == 1
    hosts.release(second, http(KNOWN))
    assert isinstance(one_of(held), Reply)


def test_connections_are_shared_by_names_with_one_address(
    hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    server = hosts.add(says(http(KNOWN)))
    asks = make_fan_out()
    asks._get_loop()._dns_cache._cache.update(  # type: ignore[union-attr]
        {name: (monotonic(), (HERE,)) for name in ("a.br", "b.br")}
    )
    for name in ("a.br", "b.br", HERE) * 3:
        assert isinstance(one_of(asks.ask([at(named(server.address, name))], PATIENCE)), Reply)
    assert server.accepted == 3


# --- internal addresses --------------------------------------------------------------------------


@for_each("host", [*THIS_MACHINE, *OTHERS])
def test_an_internal_address_is_not_connected_to(
    host: str, hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    here = hosts.add(says(http(KNOWN)))
    asks = make_fan_out(inner_hosts=NO_INNER_HOSTS)
    url = f"{host}:{here.port}"
    for _ in range(2):
        assert reason_of(asks.ask([at(url)], PATIENCE)) == INTERNAL
    assert asks.send_acknowledgment(f"http://{url}/x", {})
    asks.close()
    assert here.accepted == 0


@for_each("host", [one for one in THIS_MACHINE if "[" not in one])
def test_inner_hosts_allows_internal_addresses(
    host: str, hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    here = hosts.add(says(http(KNOWN)))
    inner_hosts = parse_inner_hosts(["127.0.0.0/8", "0.0.0.0"])
    replies = make_fan_out(inner_hosts=inner_hosts).ask([at(f"{host}:{here.port}")], PATIENCE)
    assert isinstance(one_of(replies), Reply)


@pytest.mark.skipif(not socket.has_ipv6, reason="the system has no IPv6")
def test_an_ipv6_address_is_connected_to(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    here = hosts.add(says(http(KNOWN)), place=("::1", 0))
    asks = make_fan_out(inner_hosts=parse_inner_hosts(["::1"]))
    for _ in range(2):
        assert isinstance(one_of(asks.ask([at(here.address)], PATIENCE)), Reply)
    assert here.accepted == 1


def test_a_name_that_changes_to_an_internal_address_is_not_connected_to(
    hosts: Servers, make_fan_out: MakeFanOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = hosts.add(says(http(KNOWN)))
    inside = hosts.add(says(http(KNOWN)), place=("127.0.0.2", outside.port))
    monkeypatch.setattr(dns_cache, "FRESH", -1.0)  # each use starts another lookup
    looked_up = Names({"evil.br": [[HERE], ["127.0.0.2"]]})
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    asks = make_fan_out(inner_hosts=parse_inner_hosts([HERE]))
    target = at(f"evil.br:{outside.port}")
    found = one_of(asks.ask([target], PATIENCE))
    assert isinstance(found, Reply)
    while isinstance(found, Reply):  # the first address is used until the lookup ends
        found = one_of(asks.ask([target], PATIENCE))
    assert found.reason == INTERNAL
    assert inside.accepted == 0
