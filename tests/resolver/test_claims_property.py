"""A resolution that asks the claimants has the outcome of one that asks all Archives."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace

from support.claimed_networks import ClaimedNetwork, publish
from support.networks import (
    PREFERENCES,
    make_records,
    make_wanted,
    memory_archives,
    split,
    state_everything,
)
from support.stores import USERS, identifiers_of

from flask_ibi_archive.core.protocol.languages import LanguageRange, parse_accept_language
from flask_ibi_archive.core.resolution.outcome import Alert, Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl

#: The number of resolutions; IBI_TEST_RESOLUTIONS sets another one.
RESOLUTIONS = int(os.environ.get("IBI_TEST_RESOLUTIONS", "600"))
#: The number of orders of the answers that are tried.
ORDERS = 40
#: The number of resolutions with the same Archives.
SAME = 10


def summarise(outcome: Redirect | Alert) -> object:
    """Return what the reader sees of an outcome."""
    if isinstance(outcome, Redirect):
        return "redirect", outcome.url.partition("/col/")[2], outcome.depends_on_language
    return replace(outcome, asked=0, sources=()), frozenset(outcome.sources)


def is_outcome_of_all(
    found: Redirect | Alert,
    everybody: ClaimedNetwork,
    wanted: PersistentUrl,
    ranges: Sequence[LanguageRange],
) -> bool:
    """Return whether asking all Archives has the same outcome.

    Which of several missing parts an alert names can depend on the order of the answers.
    """
    for order in (None, *range(ORDERS)):
        everybody.order = None if order is None else random.Random(order)
        if summarise(everybody.resolve(wanted, ranges)) == summarise(found):
            return True
    return False


def test_claims_do_not_change_the_outcome() -> None:
    asked = needed = 0
    for seed in range(RESOLUTIONS // SAME):
        random_ = random.Random(seed)
        user = random_.choice(USERS)
        whole = state_everything(make_records(seed, random_.choice((6, 9, 12))))
        network = split(whole, random_, 5)
        for part in network.parts:
            for record in part:  # a second claim of an Original
                if record.get("state") == "Copy" and random_.random() < 0.2:
                    del record["state"], record["original_archive"]
        archives = memory_archives(network, random_, user)
        hidden = {
            name for record in whole if random_.random() < 0.2 for name in identifiers_of(record)
        }
        claimed = ClaimedNetwork(
            archives, network.parts, publish(5, random_), hidden=frozenset(hidden)
        )
        everybody = ClaimedNetwork(archives, network.parts, [None] * 5)
        for turn in range(SAME):
            wanted = make_wanted(random_, whole)
            ranges = parse_accept_language(random_.choice(PREFERENCES))
            hinted = random_.choice((None, None, 1, 2, 3, 4, 5))
            found = claimed.resolve(wanted, ranges, hinted)
            is_equal = is_outcome_of_all(found, everybody, wanted, ranges)
            assert is_equal, (seed, turn, wanted, ranges, found)
            asked += len(claimed.asked)
            needed += len(everybody.asked)
    assert asked < needed
