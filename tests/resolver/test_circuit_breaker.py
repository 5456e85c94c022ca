"""An Archive that fails repeatedly is skipped for a while and tried again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.cases import for_each
from support.clocks import Clock

from flask_ibi_archive.resolver.circuit_breaker import (
    FIRST_PAUSE,
    MAX_FAILURES,
    MAX_PAUSE,
    CircuitBreaker,
)

ONE, OTHER = 1, 2


#: The steps of each case: "x" the Archive fails, "o" it answers, "?" a request is allowed, "-" it
#: is not allowed, a number: seconds pass.
STEPS = {
    "an unknown Archive is asked": "?",
    "two failures are tolerated": "x x ?",
    "the third failure starts the pause": "x x x -",
    "an answer resets the count": "x x o x x ? x -",
    "it is skipped for ten seconds": "x x x 9.9 - 0.1 ?",
    "only one request is the probe": "x x x 10 ? - - 5 -",
    "an answer ends the pause": "x x x 10 ? o ? ?",
    "after an answer failures are counted again": "x x x 10 ? o x x ? x -",
    "a failed probe doubles the pause": "x x x 10 ? x 19.9 - 0.1 ? -",
    "each failed probe doubles the pause": "x x x 10 ? x 20 ? x 40 ? x 79 - 1 ? x 159 - 1 ?",
    "the maximum is five minutes": (
        "x x x 10 ? x 20 ? x 40 ? x 80 ? x 160 ? x 299 - 1 ? x 299 - 1 ?"
    ),
    "failures of earlier requests change nothing": "x x x x x x 10 ? -",
    "an answer to an earlier request ends the pause": "x x x o ? ?",
    "a probe without a result is followed by another": "x x x 10 ? 9 - 1 ? - x 20 ?",
}


@pytest.mark.rule("R62-05")
@for_each("steps", STEPS.values())
def test_a_failing_archive_is_skipped_and_probed_later(steps: str) -> None:
    clock = Clock(1000.0)
    breaker = CircuitBreaker(clock)
    for number, step in enumerate(steps.split()):
        if step in "xo":
            breaker.record_result(ONE, ok=step == "o")
        elif step in "?-":
            assert breaker.allows_request(ONE) is (step == "?"), (number, step)
        else:
            clock.now += float(step)
        assert breaker.allows_request(OTHER), "Archives are independent"


def test_only_one_of_many_threads_sends_the_probe() -> None:
    clock = Clock(1000.0)
    breaker = CircuitBreaker(clock)
    for _ in range(MAX_FAILURES):
        breaker.record_result(ONE, ok=False)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            clock.now += MAX_PAUSE
            assert sum(pool.map(breaker.allows_request, [ONE] * 8)) == 1


class SkippedArchives(RuleBasedStateMachine):
    """Random sequences: an Archive that answers is asked, and none is skipped for ever."""

    archives = st.integers(1, 3)

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock(1000.0)
        self.breaker = CircuitBreaker(self.clock)
        #: Failures since the last answer, including those of probes.
        self.failures = dict.fromkeys(range(1, 4), 0)
        #: When an Archive was last asked or failed.
        self.last_contact = dict.fromkeys(range(1, 4), self.clock.now)

    @rule(archive=archives)
    def fail(self, archive: int) -> None:
        self.breaker.record_result(archive, ok=False)
        self.failures[archive] += 1
        self.last_contact[archive] = self.clock.now

    @rule(archive=archives)
    def answer(self, archive: int) -> None:
        self.breaker.record_result(archive, ok=True)
        self.failures[archive] = 0
        assert self.breaker.allows_request(archive)
        self.last_contact[archive] = self.clock.now

    @rule(archive=archives)
    def ask(self, archive: int) -> None:
        if self.breaker.allows_request(archive):
            if self.failures[archive] >= MAX_FAILURES:
                assert not self.breaker.allows_request(archive), "one probe at a time"
            self.last_contact[archive] = self.clock.now
        else:
            assert self.failures[archive] >= MAX_FAILURES
            assert self.clock.now - self.last_contact[archive] < MAX_PAUSE

    @rule(seconds=st.sampled_from([0.5, FIRST_PAUSE / 2, FIRST_PAUSE, 70.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(archive=archives)
    def wait_long(self, archive: int) -> None:
        self.clock.now += MAX_PAUSE
        assert self.breaker.allows_request(archive)
        self.last_contact[archive] = self.clock.now

    @precondition(lambda self: any(count < MAX_FAILURES for count in self.failures.values()))
    @invariant()
    def an_archive_with_few_failures_is_asked(self) -> None:
        for archive, count in self.failures.items():
            assert count >= MAX_FAILURES or self.breaker.allows_request(archive)


TestSkippedArchives = SkippedArchives.TestCase
TestSkippedArchives.settings = settings(stateful_step_count=20)
