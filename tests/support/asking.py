"""Short functions that send concurrent requests and read their results, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from flask_ibi_archive.resolver.archive_rows import IncludedArchive
from flask_ibi_archive.resolver.concurrent_requests import (
    Failure,
    FanOut,
    Reply,
    ReplyQueue,
    Target,
)
from support.archive_servers import Server
from support.loopback import PATIENCE

MakeFanOut: TypeAlias = Callable[..., FanOut]

#: Maximum size of an answer in bytes.
LIMIT = 1000
#: Seconds until a hanging Archive times out in a test.
SHORT = 0.1
#: A part of each request, which must not appear in messages.
SECRET = "clientinformation.ipaddress=150.163.2.175"
KNOWN = "state Original\r\nurl http://a.br/b"


def at(address: str, target: str = f"/a/b?{SECRET}", tag: object = None) -> Target:
    """Return a request to the Archive at an address."""
    return Target(IncludedArchive(1, "a/b", address), f"http://{address}{target}", tag)


def all_of(replies: ReplyQueue) -> list[Reply | Failure]:
    """Return all results."""
    found = []
    while (result := replies.get(PATIENCE)) is not None:
        found.append(result)
    assert not replies.pending
    return found


def one_of(replies: ReplyQueue) -> Reply | Failure:
    """Return the only result."""
    (found,) = all_of(replies)
    return found


def reason_of(replies: ReplyQueue) -> str:
    """Return the reason of the only result, a failure."""
    found = one_of(replies)
    assert isinstance(found, Failure)
    assert SECRET not in found.reason
    assert "\n" not in found.reason
    return found.reason


def ask_and_hear(asks: FanOut, *hosts: Server) -> None:
    """Send a request to some servers and check that each answers."""
    for result in all_of(asks.ask([at(one.address) for one in hosts], PATIENCE)):
        assert isinstance(result, Reply), result
