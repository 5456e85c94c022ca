"""While a database server is silent, requests do not wait for it, but for one test a second."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import inf

import pytest

from flask_ibi_archive.server.database.breaker import Breaker, ServerSilent


@pytest.fixture
def other_request() -> Iterator[ThreadPoolExecutor]:
    """The thread of another request."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_one_request_a_second_tests_a_silent_server(other_request: ThreadPoolExecutor) -> None:
    breaker, now = Breaker(), 1000.0
    breaker.clock = lambda: now
    breaker.check()
    breaker.note_timeout(breaker.answers)
    for _ in range(2):
        now += 1
        other_request.submit(breaker.check).result()
        with pytest.raises(ServerSilent):
            breaker.check()
    # the test has failed: its request may not try again
    breaker.note_timeout(breaker.answers)
    with pytest.raises(ServerSilent):
        other_request.submit(breaker.check).result()
    now += 1
    breaker.check()
    breaker.note_answer()
    other_request.submit(breaker.check).result()
    assert breaker.patience == inf


def test_a_server_that_answers_others_is_not_silent() -> None:
    breaker = Breaker()
    answers = breaker.answers
    breaker.note_answer()
    breaker.note_timeout(answers)
    assert breaker.patience == inf
