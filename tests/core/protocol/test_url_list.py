"""Compares the URL lists of random stores with lists that are built from the records."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace

import pytest
from support.stores import (
    ALWAYS_NEEDED,
    RELATIONS,
    MemoryCatalogue,
    StoreMaker,
    expect_url_list,
    filter_url_list,
    identifiers_of,
    make_facts,
    make_request,
)

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue import Scope
from flask_ibi_archive.core.protocol.messages import UrlRequest, list_ibi_words
from flask_ibi_archive.core.protocol.relations import (
    Relation,
    parse_relation,
    parse_verb_list,
    step_matches,
)
from flask_ibi_archive.core.protocol.url_list import (
    NEXT_EDITION,
    URL_PAIR_NAMES,
    ArchiveFacts,
    UrlPair,
    answer_url_request,
    list_target_urls,
    list_url_pairs,
)

ADDRESS, SERVICE, KEY = "archive.example:8080", "archive.example/a/2008/03.17.15.17", "1234567890-0"


def seeds(normal: int, thorough: int) -> pytest.MarkDecorator:
    """Run a test with a few seeds, and with more seeds in the slow runs."""
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(normal, thorough)]
    return pytest.mark.parametrize("seed", [*range(normal), *slow])


def build_url_list(
    world: MemoryCatalogue, request: UrlRequest, facts: ArchiveFacts
) -> Collection[UrlPair]:
    """Return the URL list that is not filtered."""
    return answer_url_request(
        world, request, replace(facts, filter_url_list=False), lambda item: KEY
    )


def in_order(pairs: Collection[UrlPair]) -> list[UrlPair]:
    """Check that no name is repeated, and return the pairs sorted by name."""
    assert len({name for name, _ in pairs}) == len(pairs)
    return sorted(pairs)


@pytest.mark.rule("R72-12")
@seeds(2, 6)
def test_the_whole_list_has_each_relation_of_the_item(seed: int) -> None:
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


@pytest.mark.rule("R72-29")
@seeds(2, 10)
def test_the_direct_answer_equals_the_filtered_whole_list(seed: int) -> None:
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
        whole = answer_url_request(
            world, request, replace(facts, filter_url_list=False), lambda item: KEY
        )
        filtered = filter_url_list(whole, request.verbs)
        assert in_order(answered) == in_order(filtered), (seed, request, facts)


@seeds(1, 4)
def test_an_unfiltered_list_may_have_only_the_requested_relations(seed: int) -> None:
    maker = StoreMaker(seed, 150)
    world = MemoryCatalogue(maker.records)
    random_ = random.Random(seed)
    for _ in range(120):
        ibi = random_.choice(identifiers_of(random_.choice(maker.records)))
        request = make_request(random_, maker.in_any_case(ibi))
        facts = make_facts(
            ADDRESS,
            SERVICE,
            random_.choice(RELATIONS),
            filter_url_list=False,
            follow_editions=random_.random() < 0.7,
        )
        given = answer_url_request(world, request, facts, lambda item: KEY, requested_only=True)
        whole = answer_url_request(
            world, request, replace(facts, filter_url_list=False), lambda item: KEY
        )
        expected = [pair for pair in whole if is_requested(pair[0], request.verbs.relation)]
        assert in_order(given) == in_order(expected), (seed, request, facts)


def is_requested(name: str, relation: Relation) -> bool:
    """Return whether a list needs a pair for the steps of a relation or for its first steps."""
    prefix, dot, rest = name.partition(".")
    if name == NEXT_EDITION:
        return "u" in relation.shape
    if prefix not in (*URL_PAIR_NAMES, "ibi") or name in ALWAYS_NEEDED:
        return True
    steps = parse_relation(dot + rest).steps
    return len(steps) <= len(relation.steps) and all(map(step_matches, relation.steps, steps))


@seeds(1, 4)
def test_the_targets_of_an_item_have_the_urls_of_the_whole_list(seed: int) -> None:
    maker = StoreMaker(seed, 150)
    world = MemoryCatalogue(maker.records)
    random_ = random.Random(seed)
    for _ in range(60):
        request = UrlRequest(
            parse_identifier(identifiers_of(random_.choice(maker.records))[0]),
            (random_.choice(["150.163.2.175", "192.0.2.1"]),),
            verbs=parse_verb_list(random_.choice(["", "GetFileList"])),
        )
        facts = make_facts(ADDRESS, SERVICE, random_.choice(RELATIONS), filter_url_list=False)
        whole = answer_url_request(
            world, request, replace(facts, filter_url_list=False), lambda item: KEY
        )
        item = world.find(request.ibi.text, Scope(facts.shapes))
        if item is None or item.state == "Deleted":
            continue
        described = list_target_urls(item, request, facts)
        for _, (target, words, _) in described:
            identifiers = list_ibi_words(target.item.rep, target.item.ibip)
            assert words == (identifiers if target.own is None else None)
        found = list_url_pairs(described)
        listed = [pair for pair in whole if pair[0].partition(".")[0] in URL_PAIR_NAMES]
        assert in_order(found) == in_order(listed), (seed, request, facts)
