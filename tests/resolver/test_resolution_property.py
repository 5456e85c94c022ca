"""Items split over several Archives are resolved as if one Archive had all of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from support.claimed_networks import ClaimedNetwork, MemoryServers
from support.networks import (
    PREFERENCES,
    WHOLE,
    Network,
    find_urls,
    make_records,
    make_wanted,
    service_of,
    split,
    state_everything,
    without_address,
)
from support.registries import a_config
from support.resolving import NEVER
from support.stores import USERS, Json, MemoryCatalogue, make_facts

from flask_ibi_archive.core.protocol.catalogue_items import Scope
from flask_ibi_archive.core.protocol.languages import parse_accept_language
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect

CONFIG = a_config()


def make_network(servers: MemoryServers, random_: random.Random, **more: Any) -> ClaimedNetwork:
    """Return a resolver that asks all Archives, which answer in random order."""
    asks_all = [False] * len(servers.sources)
    place = lambda sent: random_.random()  # noqa: E731
    return ClaimedNetwork(servers, CONFIG, asks_all, [], find_place=place, **more)


def make_servers(network: Network, random_: random.Random) -> MemoryServers:
    """Return an Archive in memory for each part of a network."""
    facts = [
        make_facts(
            f"archive{number}.example",
            service_of(number),
            None,
            filter_url_list=random_.random() < 0.7,
            follow_editions=follows,
        )
        for number, follows in enumerate(network.follows)
    ]
    return MemoryServers(network.parts, facts)


def check(
    whole: list[Json],
    networks: Sequence[ClaimedNetwork],
    random_: random.Random,
    count: int,
    user: str,
) -> int:
    """Compare the targets of persistent URLs; return how many have a target."""
    world = MemoryCatalogue(whole)
    led = 0
    for _ in range(count):
        wanted = make_wanted(random_, whole)
        ranges = parse_accept_language(random_.choice(PREFERENCES))
        expected = find_urls(world, wanted, ranges, user)
        led += expected != {None}
        item = world.find(wanted.ibi.text, Scope())
        is_removed = item is not None and item.state == "Deleted"
        for network in networks:
            found = network.resolve(wanted, ranges, (user,))
            if isinstance(found, Alert):
                assert expected >= {None}, (wanted, ranges, found)
                assert found.kind.status == (410 if is_removed else 404), (wanted, found)
            else:
                assert without_address(found.url) in expected, (wanted, ranges, found)
                assert not wanted.requires_original or found.state == "Original"
    return led


@pytest.mark.rule("R61-06", "R61-07", "R61-08", "R62-09", "R62-12")
@pytest.mark.parametrize(
    "seeds", [range(3), pytest.param(range(3, 100), marks=pytest.mark.slow)], ids=str
)
def test_several_archives_resolve_like_one_with_all_items(seeds: range) -> None:
    led = 0
    for number in seeds:
        random_ = random.Random(number)
        user = random_.choice(USERS)
        whole = state_everything(make_records(number, random_.choice((6, 9, 12))))
        facts = make_facts(WHOLE, service_of(9), None, filter_url_list=random_.random() < 0.7)
        alone = make_network(MemoryServers([whole], [facts]), random_)
        several = make_network(make_servers(split(whole, random_), random_), random_)
        led += check(whole, (alone, several), random_, 6, user)
    assert led > len(seeds)


@pytest.mark.slow
def test_a_silent_archive_never_changes_where_a_reader_is_led() -> None:
    led = 0
    for number in range(60):
        random_ = random.Random(number)
        whole = state_everything(make_records(number, random_.choice((6, 9, 12))))
        servers = make_servers(split(whole, random_), random_)
        delays = [0.0] * len(servers.sources)
        delays[random_.randrange(len(delays))] = NEVER
        network = make_network(servers, random_, delays=delays)
        world = MemoryCatalogue(whole)
        for _ in range(6):
            wanted = make_wanted(random_, whole)
            ranges = parse_accept_language(random_.choice(PREFERENCES))
            found = network.resolve(wanted, ranges, (USERS[0],))
            expected = find_urls(world, wanted, ranges, USERS[0])
            if isinstance(found, Redirect):
                led += 1
                assert without_address(found.url) in expected, (wanted, ranges, found)
            else:
                assert found.kind is AlertKind.SILENT, (wanted, found)
    assert led > 20
