"""A resolution that asks the claimants has the outcome of one that asks all Archives."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

import pytest
from support.claimed_networks import Claimed, ClaimedNetwork, MemoryServers, read_claims
from support.networks import (
    PREFERENCES,
    make_records,
    service_of,
    split,
    state_everything,
)
from support.registries import a_config
from support.scattered_items import ScatteredItems, is_hidden
from support.stores import (
    FORMATS,
    LANGUAGES,
    PATHS,
    RELATIONS,
    REMOTE_SERVICE,
    USERS,
    Json,
    ibip_of,
    identifiers_of,
    make_facts,
    make_store,
    rep_of,
)

from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.languages import LanguageRange, parse_accept_language
from flask_ibi_archive.core.protocol.relations import NO_VERBS, SHAPES
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.core.resolution.outcome import Alert, Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, parse_persistent_target
from flask_ibi_archive.resolver.archives import MAX_RECENT

#: The settings of resolvers; some follow only few rounds.
CONFIGS = (a_config(), a_config(), a_config(), a_config(IBI_RESOLVER_MAX_ROUNDS=3))
#: The seconds after which slow Archives answer: before and after the ends of the periods.
DELAYS = (0.0, 0.0, 0.1, 0.3, 0.6)
#: The sign and the verb for each letter of a shape.
SIGNS = {"u": "!", "t": "+", "m": ":"}
VERBS = {"u": "GetLastEdition", "t": "GetTranslation", "m": "GetMetadata"}
#: The prefix of items that no Archive has.
ELSEWHERE = "elsewhere.org/there"


@dataclass(frozen=True)
class Wanted:
    """What a reader requests.

    :param target: the requested target, as the browser sends it.
    :param addresses: the addresses of the reader and of proxies.
    """

    target: str
    url: PersistentUrl
    ranges: Sequence[LanguageRange]
    addresses: tuple[str, ...]


class Federation:
    """A random federation; the same seed makes the same one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        size, count = self.random.choice((6, 9, 12)), self.random.choice((3, 4, 5, 6))
        self.is_tidy = self._chance(0.5)
        if self.is_tidy:
            whole = state_everything(make_records(seed, size))
            network = split(whole, self.random, count)
            self.parts, follows = network.parts, network.follows
        else:
            whole = make_store(seed, size)
            self.parts = [[] for _ in range(count)]
            follows = [self._chance(0.7) for _ in range(count)]
        items = ScatteredItems(self.random, self.parts)
        if not self.is_tidy:
            items.scatter(whole)
            items.make_cycle()
        items.claim_twice()
        self._services = [service_of(number) for number in range(count)]
        facts = [
            make_facts(
                f"archive{number}.example",
                service,
                self.random.choice(RELATIONS) if self._chance(0.2) else None,
                filter_url_list=self._chance(0.7),
                follow_editions=follows[number],
            )
            for number, service in enumerate(self._services)
        ]
        self._servers = MemoryServers(self.parts, facts)
        self._config = self.random.choice(CONFIGS)
        self._items = [record for part in self.parts for record in part]
        self._others = self._list_others()
        self._languages = [record["language"] for record in self._items if "language" in record]
        self._readers = [
            tuple(self.random.sample(USERS, self.random.choice((1, 1, 2)))) for _ in range(2)
        ]
        self._claims = [*map(read_claims, self.parts, self._services)]

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _list_others(self) -> list[str]:
        """Return further identifiers: those that items refer to, of services, and unknown ones."""
        referenced = [
            name
            for part in self.parts
            for record in part
            for name in (record.get("next_edition"), *record.get("translations", {}).values())
            if name
        ]
        elsewhere = [rep_of(1, ELSEWHERE), rep_of(2, ELSEWHERE), ibip_of(2, "8JMKD3MGP3W")]
        unknown = [rep_of(999), ibip_of(999), REMOTE_SERVICE]
        return [*referenced, *elsewhere, *unknown, *self._services]

    # --- resolvers and readers --------------------------------------------------------------------

    def make_resolver(self) -> ClaimedNetwork:
        """Return a resolver that has read the claims of some Archives."""
        trusted, claims = [], []
        hidden: dict[str, list[int]] = {}
        recent: dict[str, list[int]] = {}
        for number, (part, claimed) in enumerate(zip(self.parts, self._claims, strict=True), 1):
            trusted.append(self._chance(0.7))
            stated = claimed if trusted[-1] else self._distort(claimed)
            claims.append([claim._replace(since=self.random.random()) for claim in stated])
            for prefix in _list_prefixes(record for record in part if is_hidden(record)):
                hidden.setdefault(prefix, []).append(number)
            if self._chance(0.3):
                for prefix in _list_prefixes(part):
                    recent.setdefault(prefix, []).append(number)
        return ClaimedNetwork(
            self._servers,
            self._config,
            trusted,
            claims,
            hidden,
            {prefix: numbers[:MAX_RECENT] for prefix, numbers in recent.items()},
            [self.random.choice(DELAYS) for _ in trusted] if self._chance(0.2) else (),
            self.random.randint(1, len(trusted)) if self._chance(0.2) else None,
            lambda sent: self.random.random(),
        )

    def _distort(self, claimed: Sequence[Claimed]) -> list[Claimed]:
        """Return what an Archive claimed that is always asked: something may be wrong."""
        others = self.random.choice(self._claims)
        claims = [
            self.random.choice(others) if self._chance(0.3) else claim
            for claim in claimed
            if self._chance(0.7)
        ]
        if self._chance(0.5):
            lost = rep_of(self.random.choice((1, 2, 999)), ELSEWHERE)
            claims.append(Claimed([lost], State.ORIGINAL))
        by_name = {name: claim for claim in claims for name in claim.names}
        return [claim._replace(names=[name]) for name, claim in by_name.items()]

    def make_request(self) -> Wanted:
        """Return a random request of a reader."""
        random_ = self.random
        item = random_.choice(self._items)
        ibi = random_.choice(identifiers_of(item) if self._chance(0.9) else self._others)
        if parse_identifier(ibi).form is not Form.LEGACY:
            ibi = random_.choice((ibi, ibi, ibi, ibi.upper(), ibi.lower(), ibi.title()))
        steps = [self._make_step(letter) for letter in random_.choice(sorted(SHAPES))]
        has_modifier = self._chance(0.9)
        modifier = "".join([sign for sign, _ in steps]) if has_modifier else ""
        verbs = [] if has_modifier else [verb for _, verb in steps]
        target = f"/{ibi}{modifier}{self._make_path(item)}{self._make_query(verbs)}"
        return Wanted(
            target,
            parse_persistent_target(target),
            parse_accept_language(random_.choice(PREFERENCES)),
            random_.choice(self._readers),
        )

    def _make_step(self, letter: str) -> tuple[str, str]:
        """Return a sign and a verb, often with a language or a format that is in use."""
        parameter = ""
        if letter == "t" and self._chance(0.35):
            parameter = f"({self.random.choice((*self._languages, *LANGUAGES, 'it'))})"
        if letter == "m" and self._chance(0.35):
            parameter = f"({self.random.choice(('oai_dc', *FORMATS, 'unknown'))})"
        return SIGNS[letter] + parameter, VERBS[letter] + parameter

    def _make_path(self, item: Json) -> str:
        """Return the path of a file, often of one that the item has."""
        if self._chance(0.7):
            return ""
        has_files = "files" in item and self._chance(0.7)
        path = self.random.choice(item["files"])["path"] if has_files else self.random.choice(PATHS)
        return "/" + self.random.choice(
            (
                quote(path),
                quote(path),
                quote(path, safe="/+=@"),
                quote(quote(path)),
                quote(path, encoding="iso-8859-1", errors="replace"),
            )
        )

    def _make_query(self, verbs: Sequence[str]) -> str:
        pairs = ["ibiurl.requireditemstatus=Original"] if self._chance(0.3) else []
        if self._chance(0.1):
            verbs = [*verbs, "GetFileList"]
        if verbs:
            pairs.append(f"ibiurl.verblist={'+'.join(verbs)}")
        if self._chance(0.05):
            pairs.append("page=2")
        return "?" + "&".join(pairs) if pairs else ""

    def make_hint(self) -> int | None:
        """Return the number of the Archive where an item was last found, or None."""
        return self.random.randint(1, len(self.parts)) if self._chance(0.4) else None


def _list_prefixes(records: Iterable[Json]) -> list[str]:
    names = [name for record in records for name in identifiers_of(record)]
    return sorted({parse_identifier(name).prefix for name in names})


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
