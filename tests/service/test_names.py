"""Hosts are asked by their names: none waits for another's, and what is known is used on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest
from support.archive_servers import Servers, http, says
from support.asking import KNOWN, SHORT, MakeFanOut, all_of, at, one_of, reason_of
from support.loopback import PATIENCE

from flask_ibi_archive.service.resolver import names
from flask_ibi_archive.service.resolver.fan_out import Failure, Reply
from flask_ibi_archive.service.resolver.names import FRESH, USABLE, Names, look_up, split_name

HERE = ("127.0.0.1",)
NO_NAME = "can't be reached: its name is not known"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://a.br/x?y:z", ("a.br", "80")),
        ("http://A.br:8080?x", ("a.br", "8080")),
        ("http://a.br", ("a.br", "80")),
        ("http://3com.br/x", ("3com.br", "80")),
        ("http://1.2.3.4.br:81", ("1.2.3.4.br", "81")),
        ("http://150.163.2.175", None),
        ("http://150.163.2.175/x", None),
        ("http://150.163.2.175:80/x", None),
        ("http://[::1]:8080/x", None),
        ("http://[2001:db8::1]?x", None),
    ],
)
def test_a_name_is_told_from_an_address(url: str, name: tuple[str, str] | None) -> None:
    assert split_name(url) == name


def test_addresses_come_once_each_and_none_with_a_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(host: str, port: None, type: int) -> list[Any]:
        addresses = ["2001:db8::1", "150.163.2.175", "fe80::1%eth0", "150.163.2.175"]
        return [(0, type, 6, "", (one, 0)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    assert look_up("a.br") == ("[2001:db8::1]", "150.163.2.175")


@pytest.mark.parametrize(
    "error", [socket.gaierror(-2, "not known"), OSError(5), UnicodeError("too long")]
)
def test_a_name_that_is_not_known_has_no_address(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert look_up("a.br") == ()


class Directory:
    """Names whose addresses a test tells when it likes, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.answers: list[tuple[str, ...]] = []
        self.may_answer, self.told = Event(), Event()
        self.names = Names(self.told.set, self.search, lambda: self.now)

    def search(self, host: str) -> tuple[str, ...]:
        self.asked += 1
        assert self.may_answer.wait(PATIENCE)
        return self.answers.pop(0)

    def answer(self, *addresses: str) -> None:
        """Let the search that is under way end."""
        self.answers.append(addresses)
        self.may_answer.set()
        assert self.told.wait(PATIENCE)
        self.may_answer.clear()
        self.told.clear()
        assert self.names.found
        assert self.names.take() == [("a.br", addresses)]
        assert not self.names.found


def test_addresses_are_looked_up_once_and_used_while_they_are_looked_up_again() -> None:
    directory = Directory()
    find = directory.names.find
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


def test_addresses_are_used_on_for_a_while_when_they_can_t_be_looked_up() -> None:
    directory = Directory()
    find = directory.names.find
    find("a.br")
    directory.answer("1.2.3.4")
    directory.now = USABLE
    assert find("a.br") == ("1.2.3.4",)
    directory.answer()
    assert find("a.br") == ("1.2.3.4",)
    directory.now = USABLE + 1
    assert find("a.br") is None
    directory.answer()
    assert find("a.br") is None
    directory.answer("1.2.3.4")
    assert find("a.br") == ("1.2.3.4",)


def test_where_there_are_no_threads_a_name_is_not_known_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", start)
    directory = Directory()
    assert directory.names.find("a.br") is None
    assert directory.told.is_set()
    assert directory.names.take() == [("a.br", ())]


# --- asked by name ---------------------------------------------------------------------------------------


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Lets ``hangs...`` hang till the event, ``unknown`` be unknown, and any other name be this machine."""
    end = Event()

    def search(host: str) -> tuple[str, ...]:
        if host.startswith("hangs"):
            end.wait(PATIENCE)
        return () if host.startswith("unknown") else HERE

    monkeypatch.setattr(names, "look_up", search)
    yield end
    end.set()


def named(address: str, name: str) -> str:
    return f"{name}:{address.rpartition(':')[2]}"


def test_names_that_hang_keep_nobody_waiting(
    hosts: Servers, make_fan_out: MakeFanOut, hanging: Event
) -> None:
    server = hosts.add(says(http(KNOWN)))
    good = [at(named(server.address, f"good{number}.br"), tag=number) for number in range(3)]
    bad = [at(f"hangs{number}.br") for number in range(40)]
    exchange = make_fan_out(PATIENCE).ask([*bad, *good], PATIENCE)
    found = [exchange.next(PATIENCE) for _ in good]
    assert {one.target.tag for one in found if isinstance(one, Reply)} == {0, 1, 2}
    assert exchange.pending == len(bad)


def test_a_name_that_hangs_takes_too_long(make_fan_out: MakeFanOut, hanging: Event) -> None:
    assert reason_of(make_fan_out(SHORT).ask([at("hangs.br")], PATIENCE)) == "took too long"


def test_a_name_that_comes_late_is_asked_in_what_time_is_left(
    hosts: Servers, make_fan_out: MakeFanOut, hanging: Event
) -> None:
    server = hosts.add(says(http(KNOWN)))
    exchange = make_fan_out(PATIENCE).ask([at(named(server.address, "hangs.br"))], PATIENCE)
    hanging.set()
    found = one_of(exchange)
    assert isinstance(found, Reply)
    assert "Host: hangs.br:" in server.heads[0]


def test_a_name_that_is_unknown_is_a_failure_of_its_own(
    make_fan_out: MakeFanOut, hanging: Event
) -> None:
    asks = make_fan_out()
    for _ in range(2):
        found = all_of(asks.ask([at("unknown1.br"), at("unknown2.br")], PATIENCE))
        assert [one.reason for one in found if isinstance(one, Failure)] == [NO_NAME] * 2


def test_what_is_sent_by_name_arrives_and_the_rest_is_given_up_at_the_end(
    hosts: Servers, make_fan_out: MakeFanOut, hanging: Event
) -> None:
    server = hosts.add(says(http(KNOWN)))
    asks = make_fan_out(PATIENCE)
    assert asks.send(f"http://{named(server.address, 'good.br')}/x", {})
    server.wait()
    assert asks.send("http://hangs.br/x", {})
    exchange = asks.ask([at("hangs.br")], PATIENCE)
    asks.close(0.0)
    assert reason_of(exchange) == "was given up: the resolver ends"


def test_two_archives_of_one_host_and_handles_that_were_another_s(
    hosts: Servers, make_fan_out: MakeFanOut, hanging: Event
) -> None:
    servers = [hosts.add(says(http(KNOWN))) for _ in range(2)]
    asks = make_fan_out()
    for turn in range(3):
        targets = [at(named(one.address, f"good{turn % 2}.br")) for one in servers]
        found = all_of(asks.ask([*targets, at(servers[0].address)], PATIENCE))
        assert [type(one) for one in found] == [Reply] * 3
