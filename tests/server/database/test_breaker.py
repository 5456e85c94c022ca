"""While a database server is silent, requests do not wait for it, but for one test a second."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy import text
from support.database_servers import relaying
from support.databases import new_database
from support.loopback import PATIENCE

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.server.database.breaker import Breaker, ServerSilent
from flask_ibi_archive.server.database.database import Database


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


def test_no_request_connects_to_a_silent_server(
    tmp_path: Path, other_request: ThreadPoolExecutor
) -> None:
    limit, now = 0.2, 1000.0
    with (
        new_database("postgresql", tmp_path, ready=True) as direct,
        relaying(direct) as (relay, uri),
    ):
        database = Database(uri, find_limit=lambda: limit)
        database.breaker.clock = lambda: now

        def read() -> int:
            return database.read(lambda connection: int(connection.scalar(text("SELECT 1")) or 0))

        relay.hangs = True
        with pytest.raises(NotReady, match=r"did not answer within 0\.2 s"):
            read()
        limit = PATIENCE
        with pytest.raises(NotReady, match=r"did not answer within 0\.5 s"):
            read()
        with pytest.raises(NotReady, match="did not answer earlier requests"):
            read()
        # nor does a request that has waited for a free connection
        with pytest.raises(ServerSilent):
            database.engine.connect()
        relay.hangs = False
        end = monotonic() + PATIENCE
        while database.breaker.patience < inf and monotonic() < end:
            now += 1
            with suppress(NotReady):
                read()
        assert read() == 1
        database.close()
