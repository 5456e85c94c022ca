"""The URL list over stores made at random, read straight from their records."""

from __future__ import annotations

import random

import pytest
from support.cases import for_each
from support.stores import (
    RELATIONS,
    MemoryCatalogue,
    StoreMaker,
    expect_url_list,
    identifiers_of,
    make_facts,
    make_request,
)

from flask_ibi_archive.protocol.url_list import (
    UrlPair,
    answer_url_request,
    build_url_list,
    filter_url_list,
)

ADDRESS, SERVICE, KEY = "archive.example:8080", "archive.example/a/2008/03.17.15.17", "1234567890-0"


def in_order(pairs: list[UrlPair]) -> list[UrlPair]:
    """Return pairs in an order that says nothing; none may stand twice."""
    assert len({name for name, _ in pairs}) == len(pairs)
    return sorted(pairs)


@pytest.mark.parametrize("seed", range(6))
def test_the_whole_list_is_what_trying_every_relation_gives(seed: int) -> None:
    maker = StoreMaker(seed, 150)
    world = MemoryCatalogue(maker.records)
    random_ = random.Random(seed)
    for _ in range(60):
        record = random_.choice(maker.records)
        request = make_request(random_, maker.in_any_case(random_.choice(identifiers_of(record))))
        patterns, follow = random_.choice(RELATIONS), random_.random() < 0.7
        facts = make_facts(
            ADDRESS, SERVICE, patterns, filter_url_list=False, follow_editions=follow
        )
        expected = expect_url_list(
            world,
            request,
            address=ADDRESS,
            service=SERVICE,
            key=KEY,
            patterns=patterns,
            follow=follow,
        )
        given = answer_url_request(world, request, facts, lambda item: KEY)
        assert in_order(given) == in_order(expected), (seed, request, patterns, follow)


@for_each("seed", range(10))
def test_computing_what_survives_gives_what_filtering_the_whole_list_gives(seed: int) -> None:
    maker = StoreMaker(100 + seed, 200)
    world = MemoryCatalogue(maker.records)
    random_ = random.Random(seed)
    for _ in range(250):
        record = random_.choice(maker.records)
        request = make_request(random_, maker.in_any_case(random_.choice(identifiers_of(record))))
        facts = make_facts(
            ADDRESS, SERVICE, random_.choice(RELATIONS), follow_editions=random_.random() < 0.7
        )
        answered = answer_url_request(world, request, facts, lambda item: KEY)
        whole = build_url_list(world, request, facts, lambda item: KEY)
        filtered = filter_url_list(whole, request.verbs)
        assert in_order(answered) == in_order(filtered), (seed, request, facts)
