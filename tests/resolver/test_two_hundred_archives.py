"""Two hundred Archives of which a tenth is dead, hanging or lying: what is said of items is true.

The truth is that each item has its Original in one Archive, and Copies in others. Three of four
Archives publish claims. Liars claim Originals of others, later than the Archives that have them, or
claim what they do not have. The time is simulated.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from support.resolving import NEVER, NONSENSE, ORIGINAL, Habits, Network, leads

from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.resolver.archives import Claimant

ARCHIVES, ITEMS, QUESTIONS = 200, 60, 30
FAULTS = ("dead", "hangs", "claims Originals of others", "has not what it claims")


def name(item: int) -> str:
    return f"a.br/items/2001/01.01.{item // 60:02}.{item % 60:02}"


class Federation:
    """The Archives by their numbers from 1, their faults, and where items are.

    :ivar originals: the number of the Archive with the Original of each item.
    :ivar copies: the numbers of those with a Copy.
    :ivar claimants: who claims each item, in the order of the claims.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        numbers = range(1, ARCHIVES + 1)
        faulty = self.random.sample(numbers, ARCHIVES // 10)
        self.faults = {number: self.random.choice(FAULTS) for number in faulty}
        self.claiming = {one for one in numbers if self.random.random() < 0.75}
        self.originals = {item: self.random.choice(numbers) for item in range(ITEMS)}
        self.copies = {item: self.random.sample(numbers, 2) for item in range(ITEMS)}
        self.claimants = {item: self._list_claimants(item) for item in range(ITEMS)}
        self.network = Network(*(self._answer(number) for number in numbers))

    def _list_claimants(self, item: int) -> list[Claimant]:
        original, copies = self.originals[item], self.copies[item]
        # whoever does not answer, or claims nothing, cannot contradict a liar
        is_safe = original in self.claiming and original not in self.faults
        liars = [one for one in self._with_fault(FAULTS[2]) if one in self.claiming]
        rivals = self.random.sample(liars, 1) if is_safe and liars else []
        states = dict.fromkeys(copies, State.COPY) | {original: State.ORIGINAL}
        states |= {one: State.ORIGINAL for one in rivals if one != original}
        claims = [Claimant(one, state) for one, state in states.items() if one in self.claiming]
        # a rival has claimed the item after the Archive that has it
        claims.sort(key=lambda one: (one.state is not State.ORIGINAL, one.archive_id != original))
        return claims

    def _with_fault(self, fault: str) -> list[int]:
        return [number for number, its in self.faults.items() if its == fault]

    def _answer(self, number: int) -> Habits:
        fault = self.faults.get(number)
        habits = {}
        for item in range(ITEMS):
            states = dict.fromkeys(self.copies[item], "Copy") | {self.originals[item]: "Original"}
            state, took = states.get(number), self.random.choice((0.0, 0.1, 0.4))
            if fault == FAULTS[2] and any(one.archive_id == number for one in self.claimants[item]):
                state = "Original"
            text = leads(f"http://a{number}.br/{item}", state) if state else ""
            if fault == "dead":
                habits[name(item)] = (0.0, NONSENSE)
            elif fault == "hangs":
                habits[name(item)] = (NEVER, "")
            elif fault != FAULTS[3]:
                habits[name(item)] = (took, text)
        return habits


@pytest.mark.parametrize("seed", [1, pytest.param(range(2, 60), marks=pytest.mark.slow)], ids=str)
def test_what_is_said_of_items_is_true(seed: int | range) -> None:
    kinds: Counter[object] = Counter()
    for one in [seed] if isinstance(seed, int) else seed:
        federation = Federation(one)
        for _ in range(QUESTIONS):
            item = federation.random.randrange(ITEMS + 5)
            requires_original = federation.random.random() < 0.5
            claimants = federation.claimants.get(item, [])
            text = name(item) + (ORIGINAL if requires_original else "")
            silent = {n for n, fault in federation.faults.items() if fault in FAULTS[:2]}
            found = federation.network.resolve(
                text, claimants=claimants, claiming=federation.claiming
            )
            original = federation.originals.get(item)
            if isinstance(found, Redirect):
                kinds[found.state] += 1
                number = int(found.source.address[1:-3])
                holders = {original, *federation.copies.get(item, [])}
                assert number in holders, found
                if requires_original:
                    assert number == original, found
            elif found.kind is AlertKind.UNKNOWN:
                kinds[found.kind] += 1
                assert original is None or federation.faults.get(original) == FAULTS[3], found
            else:
                kinds[found.kind] += 1
                assert isinstance(found, Alert)
                assert found.kind is not AlertKind.SILENT or silent
                assert found.kind is not AlertKind.SUSPECTS or requires_original
    assert kinds["Original"]
    assert kinds[AlertKind.UNKNOWN] or kinds[AlertKind.SILENT]
