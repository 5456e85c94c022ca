"""Host names: lookups in threads, known addresses, internal addresses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import pytest
from support.archive_servers import (
    KNOWN,
    SHORT,
    THE_END,
    MakeFanOut,
    Servers,
    all_of,
    at,
    hangs,
    http,
    one_of,
    reason_of,
    says,
)
from support.cases import for_each
from support.internal import OTHERS, THIS_MACHINE, Names
from support.loopback import PATIENCE

from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS, parse_inner_hosts
from flask_ibi_archive.resolver import host_names
from flask_ibi_archive.resolver.concurrent_requests import Failure, Reply
from flask_ibi_archive.resolver.host_names import (
    FRESH,
    INTERNAL,
    UNKNOWN_NAME,
    USABLE,
    HostNames,
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
    """Host names whose lookups and clock are controlled by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.asked = 0
        self.answers: SimpleQueue[str | Exception] = SimpleQueue()
        self.names = HostNames(NO_INNER_HOSTS, lambda: self.now)
        monkeypatch.setattr(socket, "getaddrinfo", self.search)

    def search(self, host: str, *rest: object, **more: object) -> list[Any]:
        self.asked += 1
        answer = self.answers.get(timeout=PATIENCE)
        if isinstance(answer, Exception):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, 0))]

    def find(self) -> object:
        """Return what is known without waiting: addresses, or None."""
        lookup = self.names.find("a.br")
        return lookup.result() if lookup.done() else None

    def answer(self, answer: str | Exception) -> object:
        """Finish the running lookup, and return its result."""
        lookup = self.names._running["a.br"]
        self.answers.put(answer)
        return lookup.result(PATIENCE)


ONE, OTHER = "150.163.2.175", "150.163.2.176"


def test_known_addresses_are_used_during_a_new_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Directory(monkeypatch)
    find = directory.find
    assert find() is find() is None
    assert directory.answer(ONE) == (ONE,)
    assert find() == (ONE,)
    directory.now = FRESH
    assert find() == (ONE,)
    assert directory.asked == 1
    directory.now = FRESH + 1
    assert find() == find() == (ONE,)
    directory.answer(OTHER)
    assert find() == (OTHER,)
    assert directory.asked == 2


@for_each("failure", [socket.gaierror(-2, "not known"), OSError(5), UnicodeError("too long")])
def test_known_addresses_are_used_for_a_while_if_a_lookup_fails(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Directory(monkeypatch)
    find = directory.find
    find()
    directory.answer(ONE)
    directory.now = USABLE
    assert find() == (ONE,)
    assert directory.answer(failure) == UNKNOWN_NAME
    assert find() == (ONE,)
    directory.answer(failure)
    directory.now = USABLE + 1
    assert find() is None
    assert directory.answer(failure) == UNKNOWN_NAME
    assert find() is None
    directory.answer(ONE)
    assert find() == (ONE,)


def test_known_addresses_are_dropped_if_the_new_one_is_internal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = Directory(monkeypatch)
    find = directory.find
    find()
    directory.answer(ONE)
    directory.now = FRESH + 1
    assert find() == (ONE,)
    assert directory.answer(HERE) == INTERNAL
    assert find() is None
    directory.answer(ONE)
    assert find() == (ONE,)


def test_a_lookup_fails_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Directory(monkeypatch)

    def start(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", start)
    assert directory.find() == UNKNOWN_NAME


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
    good = [at(named(server.address, f"good{number}.br"), number=number) for number in range(3)]
    bad = [at(f"hangs{number}.br") for number in range(40)]
    replies = make_fan_out(PATIENCE).ask([*bad, *good], PATIENCE)
    found = [replies.get(PATIENCE) for _ in good]
    assert {one.target.archive.id for one in found if isinstance(one, Reply)} == {0, 1, 2}
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


@pytest.fixture
def always_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request looks its host up."""
    monkeypatch.setattr(host_names, "FRESH", -1.0)
    monkeypatch.setattr(host_names, "USABLE", -1.0)


@for_each("end", [b"", THE_END])
@pytest.mark.usefixtures("always_new")
def test_a_transfer_uses_the_current_address_of_its_host(
    hosts: Servers, make_fan_out: MakeFanOut, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hosts.add(says(http("contenttype 1") + end))
    others = [
        hosts.add(says(http(f"contenttype {ip}") + end), place=(ip, first.port))
        for ip in ("127.0.0.2", "127.0.0.3")
    ]
    places = {"127.0.0.1": "1", **{one.address.partition(":")[0]: "" for one in others}}
    names = Names({})
    monkeypatch.setattr(socket, "getaddrinfo", names)
    asks = make_fan_out()
    steps = [
        *([HERE], ["127.0.0.2"], [HERE], ["127.0.0.3", "127.0.0.2"], ["127.0.0.2"], [HERE]),
        *(["127.0.0.3"], [HERE], ["127.0.0.2"], ["127.0.0.2", "127.0.0.3"]),
    ]
    for number, addresses in enumerate(steps):
        names.addresses["a.br"] = [addresses]
        # each of these requests uses another curl handle
        for count in (1 + number % 4, 3):
            targets = [at(f"a.br:{first.port}") for _ in range(count)]
            found = all_of(asks.ask(targets, PATIENCE))
            came = {one.pairs[0].text for one in found if isinstance(one, Reply)}
            assert came <= {places[one] or one for one in addresses}, (number, addresses)
            assert len(came) == 1


@pytest.mark.usefixtures("always_new")
def test_a_transfer_uses_the_current_address_while_another_uses_an_old_one(
    hosts: Servers, make_fan_out: MakeFanOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hosts.add(says(http(KNOWN) + THE_END))
    second = hosts.add(hangs, place=("127.0.0.2", first.port))
    names = Names({"a.br": [[HERE]]})
    monkeypatch.setattr(socket, "getaddrinfo", names)
    asks = make_fan_out(20)
    target = at(f"a.br:{first.port}")
    assert len(all_of(asks.ask([target, target], PATIENCE))) == 2
    names.addresses["a.br"] = [["127.0.0.2"]]
    replies = asks.ask([target], PATIENCE)
    second.wait()
    # the other one of the two handles has used this address before
    names.addresses["a.br"] = [[HERE]]
    asks.ask([target], PATIENCE, replies)
    assert isinstance(replies.get(PATIENCE), Reply)
    assert (first.accepted, second.accepted) == (3, 1)
    hosts.release(second, http(KNOWN))
    assert isinstance(one_of(replies), Reply)


def test_connections_are_shared_by_names_with_one_address(
    hosts: Servers, make_fan_out: MakeFanOut, hanging: Event
) -> None:
    server = hosts.add(says(http(KNOWN)))
    asks = make_fan_out()
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
    monkeypatch.setattr(host_names, "FRESH", -1.0)  # each use starts another lookup
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
