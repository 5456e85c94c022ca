"""The rate limit of wrong registration keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier

import pytest
from sqlalchemy import func, select
from support.registries import KEY, NOON, SERVICE, a_registry, a_request, resolver_database

from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.errors import RegistrationRefused
from flask_ibi_archive.resolver import archives
from flask_ibi_archive.resolver.archives import MAX_OF_SENDER, WINDOW, Registry, matches_hash
from flask_ibi_archive.resolver.archives import MAX_OF_TARGET as MAX_OF_ARCHIVE
from flask_ibi_archive.resolver.tables import KeyAttempt
from flask_ibi_archive.server.database.database import Database

WRONG_KEY = "9876543210"
OTHER = "a.br/other/2001/01.01.00.00"
UNKNOWN = "a.br/unknown/2001/01.01.00.00"
#: The Archive's own IP address, and the addresses of other senders.
ITS_OWN = "150.163.2.166"
SENDERS = [f"8.8.4.{number}" for number in range(50)]


class Desk:
    """Registries on one database, as in several processes, with a fixed clock."""

    def __init__(self, database: Database) -> None:
        self.time: datetime = NOON
        self.registries = [a_registry(database) for _ in range(2)]
        for registry in self.registries:
            registry.now = lambda: self.time
        for service in (SERVICE, OTHER):
            self.registries[0].register(service, KEY)

    def send(self, key: str = WRONG_KEY, sender: str = SENDERS[0], service: str = SERVICE) -> int:
        """Return the status of the answer; each call uses the next registry."""
        self.registries.reverse()
        request = a_request(EXCLUSION_REQUEST, service_ibi=service, key=key)
        try:
            self.registries[0].process(request, sender)
        except RegistrationRefused as error:
            return error.status
        return 200

    def wait_of(self, **values: str) -> int:
        """Return the seconds after which another key may be sent."""
        with pytest.raises(RegistrationRefused) as refusal:
            self.registries[0].authenticate(a_request(key=values.pop("key", WRONG_KEY)), **values)
        return refusal.value.retry_after

    def count(self) -> int:
        """Return how many attempts are stored."""
        with self.registries[0].database.reading() as connection:
            return connection.scalar(select(func.count()).select_from(KeyAttempt)) or 0


@pytest.fixture
def desk(uri: str) -> Iterator[Desk]:
    with resolver_database(uri) as database:
        yield Desk(database)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that were hashed."""
    found: list[str] = []

    def count(key: str, kept: str) -> bool:
        found.append(key)
        return matches_hash(key, kept)

    monkeypatch.setattr(archives, "matches_hash", count)
    return found


def test_a_key_for_an_unknown_archive_is_neither_hashed_nor_counted(
    desk: Desk, hashed: list[str]
) -> None:
    for _ in range(MAX_OF_SENDER + 1):
        assert desk.send(service=UNKNOWN) == 403
    assert desk.count() == len(hashed) == 0


@pytest.mark.postgresql
def test_wrong_keys_of_a_sender_are_limited_for_all_archives_and_processes(
    desk: Desk, hashed: list[str]
) -> None:
    for number in range(MAX_OF_SENDER):
        assert desk.send(service=(SERVICE, OTHER)[number % 2]) == 403
        desk.time += timedelta(seconds=1)
    for service in (SERVICE, OTHER):
        assert desk.send(service=service) == 429
        # the right key is not compared either: the sender could continue to guess
        assert desk.send(KEY, service=service) == 429
    assert len(hashed) == MAX_OF_SENDER
    assert desk.count() == MAX_OF_SENDER
    # other senders are not affected
    assert desk.send(sender=SENDERS[1]) == 403
    assert desk.send(KEY, sender=SENDERS[1]) == 200
    # the limit does not reveal which Archives exist
    assert desk.send(service=UNKNOWN) == 403
    wait = desk.wait_of(sender=SENDERS[0])
    assert 0 < wait <= WINDOW.total_seconds()
    desk.time += timedelta(seconds=wait)
    assert desk.send() == 403
    assert desk.send() == 429
    desk.time += WINDOW
    assert desk.send(KEY) == 200


def test_many_wrong_keys_do_not_lock_out_the_archives_own_address(
    desk: Desk, hashed: list[str]
) -> None:
    registry = desk.registries[0]
    registry.process(a_request(ip=ITS_OWN), ITS_OWN)
    hashed.clear()
    came = [desk.send(sender=sender) for sender in SENDERS]
    assert came == [403] * MAX_OF_ARCHIVE + [429] * (len(SENDERS) - MAX_OF_ARCHIVE)
    assert len(hashed) == desk.count() == MAX_OF_ARCHIVE
    assert desk.send(KEY, sender=SENDERS[-1]) == 429
    assert desk.send(KEY, sender=ITS_OWN) == 200
    # the limit of a sender applies to this address too
    assert [desk.send(sender=ITS_OWN) for _ in range(MAX_OF_SENDER + 1)][-2:] == [403, 429]
    # other Archives are not affected
    assert desk.send(KEY, sender=SENDERS[-1], service=OTHER) == 200
    desk.time += WINDOW
    assert desk.send(KEY, sender=SENDERS[-1]) == 200
    assert desk.count() == 0


def test_concurrent_keys_are_limited(desk: Desk, hashed: list[str]) -> None:
    services = [SERVICE, OTHER, *[f"a.br/more/2001/01.01.00.{number:02}" for number in range(14)]]
    for service in services[2:]:
        desk.registries[0].register(service, KEY)
    start = Barrier(8)

    def send(number: int) -> list[int]:
        registry = desk.registries[number % 2]
        statuses = []
        start.wait()
        for service in (*services[number::8], SERVICE, SERVICE, SERVICE):
            with pytest.raises(RegistrationRefused) as refusal:
                registry.authenticate(a_request(service_ibi=service, key=WRONG_KEY), SENDERS[0])
            statuses.append(refusal.value.status)
        return statuses

    with ThreadPoolExecutor(8) as pool:
        statuses = [status for found in pool.map(send, range(8)) for status in found]
    assert statuses.count(403) == len(hashed) == MAX_OF_SENDER
    assert statuses.count(429) == len(statuses) - MAX_OF_SENDER


def test_an_archive_removed_during_the_check_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_first(registry: Registry, service_ibi: str) -> object:
        found = find(registry, service_ibi)
        registry.remove(service_ibi)
        return found

    find: Callable[..., object] = Registry.find
    monkeypatch.setattr(Registry, "find", remove_first)
    assert desk.send(KEY) == 403
    assert desk.count() == 0
