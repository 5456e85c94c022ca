"""A resolution that asks the claimants has the outcome of one that asks all Archives."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from dataclasses import replace

import pytest
from support.claimed_networks import ClaimedNetwork
from support.federations import DELAYS, Federation, Wanted

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.relations import NO_VERBS, SHAPES
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.core.resolution.outcome import Alert, Redirect

#: The number of resolutions in the quick test, and in the long one: IBI_TEST_RESOLUTIONS.
QUICK, LONG = 48, int(os.environ.get("IBI_TEST_RESOLUTIONS", "600"))
#: The seed of the first federation, so that a long test can be split: IBI_TEST_FIRST_SEED.
FIRST_SEED = int(os.environ.get("IBI_TEST_FIRST_SEED", "0"))
#: Stands for the question that led to a redirect, which nobody sees.
NO_QUESTION = Question(parse_identifier("a.br/b/2001/01.01.00.00"), NO_VERBS)
#: The number of random orders of the answers that are tried. Usually the first one is enough.
ORDERS = 300
#: The number of resolvers of a federation, and of requests to each of them.
RESOLVERS, REQUESTS = 3, 16
#: The number of resolutions after which the progress is printed.
PROGRESS = 10_000


def summarise(outcome: Redirect | Alert, is_slow: bool) -> object:
    """Return what the reader sees of an outcome, and what the acknowledgment contains.

    If Archives are slow, the resolver does not wait for all other parts of an item.
    """
    if isinstance(outcome, Redirect):
        return replace(outcome, question=NO_QUESTION)
    alert = replace(outcome, asked=0, sources=())
    if is_slow:
        alert = replace(alert, alternatives=())
    return alert, frozenset(outcome.sources)


def is_outcome_of_all(
    found: Redirect | Alert, network: ClaimedNetwork, wanted: Wanted
) -> tuple[bool, int]:
    """Return whether asking all Archives has the same outcome, if they answer in some order.

    The other result is the number of questions that were sent to all Archives.

    In the first order, the Archives that the resolver has asked answer before the others. A random
    order is only needed if the order in which Archives answer that claim nothing is important.
    """
    is_slow, random_ = bool(network.delays), random.Random(0)
    expected, everybody = summarise(found, is_slow), network.ask_all()
    for number in range(ORDERS):
        everybody.find_place = lambda sent: network.answered.get(sent, math.inf)
        if number:
            everybody.own = None  # which would always answer first
            everybody.find_place = lambda sent: random_.random()
            everybody.delays = [random_.choice(DELAYS) for _ in network.delays]
        outcome = everybody.resolve(wanted.url, wanted.ranges, wanted.addresses)
        if summarise(outcome, is_slow) == expected:
            return True, everybody.asked
    return False, everybody.asked


@pytest.mark.parametrize("number", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)])
def test_claims_do_not_change_the_outcome(number: int) -> None:
    asked = needed = done = 0
    kinds: Counter[str] = Counter()
    shapes = set()
    differences = []
    seed = FIRST_SEED
    while done < number:
        federation = Federation(seed)
        resolvers = [federation.make_resolver() for _ in range(RESOLVERS)]
        for _ in range(REQUESTS):
            wanted = federation.make_request()
            for resolver in resolvers:
                hinted = federation.make_hint()
                found = resolver.resolve(wanted.url, wanted.ranges, wanted.addresses, hinted)
                is_right, asked_all = is_outcome_of_all(found, resolver, wanted)
                asked += resolver.asked
                needed += asked_all
                if not is_right:
                    differences.append((seed, wanted, resolver.trusted, hinted, found))
                    print("difference:", *differences[-1], flush=True)
                kinds["redirect" if isinstance(found, Redirect) else found.kind.value] += 1
                done += 1
                if done % PROGRESS == 0:
                    print(f"{done} resolutions, {len(differences)} differences", flush=True)
            shapes.add(wanted.url.verbs.relation.shape)
        seed += 1
    print(f"seeds {FIRST_SEED} to {seed - 1}, {done} resolutions, {dict(kinds)}")
    assert not differences, (len(differences), differences[0])
    assert asked < needed
    assert number < LONG or shapes == SHAPES
