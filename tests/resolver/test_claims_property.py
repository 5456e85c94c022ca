"""A resolution that asks the claimants has the outcome of one that asks all Archives."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from support.claimed_networks import (
    FOUNDED,
    ClaimedNetwork,
    FindPlace,
    MemoryServers,
    read_claims,
)
from support.federations import DELAYS, Federation, Wanted
from support.networks import service_of
from support.registries import a_config
from support.stores import make_facts

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.relations import NO_VERBS, SHAPES
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_target
from flask_ibi_archive.resolver.old_claims.tables import CURRENT
from flask_ibi_archive.resolver.rounds import GRACE

#: The number of resolutions; IBI_TEST_RESOLUTIONS sets another one.
RESOLUTIONS = int(os.environ.get("IBI_TEST_RESOLUTIONS", "600"))
#: The seed of the first federation, so that a long test can be split: IBI_TEST_FIRST_SEED.
FIRST_SEED = int(os.environ.get("IBI_TEST_FIRST_SEED", "0"))
#: Stands for the question that led to a redirect, which nobody sees.
NO_QUESTION = Question(parse_identifier("a.br/b/2001/01.01.00.00"), NO_VERBS)
#: The number of random orders of the answers that are tried. Usually the first one is enough.
ORDERS = 1000
#: The number of resolvers of a federation, and of requests to each of them.
RESOLVERS, REQUESTS = 3, 16
#: The number of resolutions after which the progress is printed.
PROGRESS = 10_000


def summarise(outcome: Redirect | Alert, is_slow: bool) -> object:
    """Return what the reader sees of an outcome, and what the acknowledgment contains.

    Two details of an alert are left out if Archives are slow: the resolver does not wait for all
    other parts of an item, nor for the date of a removal that is claimed.
    """
    if isinstance(outcome, Redirect):
        return replace(outcome, question=NO_QUESTION)
    alert = replace(outcome, asked=0, sources=())
    if is_slow:
        alert = replace(alert, alternatives=(), timestamp=None)
    return alert, frozenset(outcome.sources)


def is_told_by_claims(found: Redirect | Alert, network: ClaimedNetwork) -> bool:
    """Return whether an alert names only Archives that claim the same Original.

    The resolver does not wait until slow ones among them say whether they have a URL (CL-9).
    """
    if isinstance(found, Redirect) or found.kind is not AlertKind.SUSPECTS or found.ibi is None:
        return False
    states = network.look_up([found.ibi])[found.ibi].states
    sources = network.servers.sources
    claimants = [sources[number - 1] for number in states if states[number] is State.ORIGINAL]
    return set(claimants).issuperset(found.sources)


class OutcomesOfAll:
    """The outcomes that asking all Archives can have, if they answer in some order.

    :param everybody: the resolver that asks all Archives.
    """

    def __init__(self, everybody: ClaimedNetwork, wanted: Wanted) -> None:
        self._everybody, self._wanted = everybody, wanted
        #: The outcomes so far, of Archives that answer at once, and of those that may be slow.
        self._known: dict[bool, list[Redirect | Alert]] = {False: [], True: []}

    def contain(self, found: Redirect | Alert, network: ClaimedNetwork) -> bool:
        """Return whether asking all Archives has the same outcome.

        :param network: the Archives as the resolver with claims has asked them.
        """
        is_slow = bool(network.delays)
        if is_slow and is_told_by_claims(found, network):
            return True
        expected = summarise(found, is_slow)
        known = self._known[is_slow]
        if any(summarise(outcome, is_slow) == expected for outcome in known):
            return True
        wanted, everybody = self._wanted, self._everybody
        for everybody.find_place, everybody.delays in list_orders(network):
            known.append(everybody.resolve(wanted.url, wanted.ranges, wanted.addresses))
            if summarise(known[-1], is_slow) == expected:
                return True
        return False


def list_orders(network: ClaimedNetwork) -> Iterator[tuple[FindPlace, Sequence[float]]]:
    """Yield orders in which all Archives may answer, and after how many seconds each answers.

    In the first order, the Archives that a resolver has asked answer before the others. A random
    order is only needed if the order in which several rounds ask is important. If the Archives were
    slow for this resolver, they may also be slow for the one that asks all.
    """
    yield lambda sent: network.answered.get(sent, math.inf), ()
    random_ = random.Random(0)
    for number in range(ORDERS):
        delays = [random_.choice(DELAYS) for _ in network.delays] if number else network.delays
        yield lambda sent: random_.random(), delays


def test_claims_do_not_change_the_outcome() -> None:
    asked = needed = done = 0
    kinds: Counter[str] = Counter()
    shapes = set()
    differences = []
    seed = FIRST_SEED
    while done < RESOLUTIONS:
        federation = Federation(seed)
        resolvers = {
            requires_original: [
                federation.make_resolver(requires_original) for _ in range(RESOLVERS)
            ]
            for requires_original in (False, True)
        }
        for _ in range(REQUESTS):
            wanted = federation.make_request()
            outcomes = OutcomesOfAll(federation.everybody, wanted)
            for resolver in resolvers[wanted.url.requires_original]:
                hinted = federation.make_hint()
                found = resolver.resolve(wanted.url, wanted.ranges, wanted.addresses, hinted)
                if not outcomes.contain(found, resolver):
                    differences.append((seed, wanted, resolver.states, hinted, found))
                    print("difference:", *differences[-1], flush=True)
                asked += resolver.asked
                needed += federation.everybody.asked
                kinds["redirect" if isinstance(found, Redirect) else found.kind.value] += 1
                done += 1
                if done % PROGRESS == 0:
                    print(f"{done} resolutions, {len(differences)} differences", flush=True)
            shapes.add(wanted.url.verbs.relation.shape)
        seed += 1
    print(f"seeds {FIRST_SEED} to {seed - 1}, {done} resolutions, {dict(kinds)}")
    assert not differences, (len(differences), differences[0])
    assert asked < needed
    assert shapes == SHAPES


def test_the_last_claimant_of_an_original_is_awaited() -> None:
    services = [service_of(number) for number in range(2)]
    facts = [
        make_facts(f"archive{number}.example", service, None)
        for number, service in enumerate(services)
    ]
    item = {"rep": "a.br/b/2001/01.01.00.00", "timestamp": FOUNDED}
    parts = [[item], [{**item, "files": [{"path": "a.txt"}]}]]
    claims = [*map(read_claims, parts, services)]
    servers = MemoryServers(parts, facts)
    network = ClaimedNetwork(servers, a_config(), [CURRENT] * 2, claims, delays=(0, 2 * GRACE))
    required = "?ibiurl.requireditemstatus=Original"
    wanted = parse_persistent_target(f"/{item['rep']}/a.txt{required}")
    outcome = network.resolve(wanted, (), ("192.0.2.1",))
    assert isinstance(outcome, Redirect)
    assert outcome.source.service == services[1]
    # two claims are enough for an alert
    outcome = network.resolve(parse_persistent_target(f"/{item['rep']}{required}"), (), ("::1",))
    assert isinstance(outcome, Alert)
    assert (outcome.kind, network.now) == (AlertKind.SUSPECTS, GRACE)
