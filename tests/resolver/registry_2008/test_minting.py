"""The identifiers that the document registry mints ([G] 6, Algorithm 4)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import pairwise
from threading import Barrier

import pytest
from support.clocks import Clock
from support.document_registries import (
    MINT_HOST,
    PASSWORD,
    PREFIX,
    a_document_registry,
    a_sender,
    actor_request,
    register,
)
from support.registries import NOON

from flask_ibi_archive.core.identifiers import decode_identifier, parse_identifier
from flask_ibi_archive.core.protocol.registry_2008.model import Credentials
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.registry_2008.new_identifiers import MAX_WAIT, mint
from flask_ibi_archive.server.database.database import Database

#: The date in which each test begins, in an identifier.
FIRST = f"{PREFIX}/2026/03.01.12.00"


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


def a_minter(database: Database, clock: Clock) -> Callable[[], str]:
    return partial(mint, database, MINT_HOST, 2008, clock, clock.wait)


def test_identifiers_are_minted_in_the_order_of_their_dates(
    database: Database, clock: Clock
) -> None:
    minter = a_minter(database, clock)
    minted = [minter() for _ in range(3)]
    assert minted == [FIRST, f"{FIRST}.00.001", f"{FIRST}.00.002"]
    # an identifier is not returned before its date
    assert clock() == NOON + timedelta(milliseconds=2)
    clock.wait(3600)
    assert minter() == f"{PREFIX}/2026/03.01.13.00"


def test_no_transaction_is_open_during_the_wait(database: Database, clock: Clock) -> None:
    def wait(seconds: float) -> None:
        clock.wait(seconds)
        with database.writing(lock_timeout=1):
            waits.append(seconds)

    waits: list[float] = []
    minter = partial(mint, database, MINT_HOST, 2008, clock, wait)
    minter()
    minter()
    assert waits == [0.001]


@pytest.mark.rule("P4-04")
def test_given_identifiers_are_not_minted(database: Database, clock: Clock) -> None:
    registry = a_document_registry(database, clock=clock)
    given = [FIRST, f"{FIRST}.00.001", f"{FIRST}.00.002"]
    registry.register_actor(actor_request(given[0]), a_sender())
    actor = Credentials(given[0], PASSWORD)
    register(registry, actor, given[1])
    assert register(registry, actor) == given[2]
    # an identifier that was minted and deleted is not minted again
    assert register(registry, actor) == f"{FIRST}.00.003"


@pytest.mark.rule("P4-04")
def test_a_clock_that_was_set_back_never_leads_to_the_same_identifier(
    database: Database, clock: Clock
) -> None:
    minter = a_minter(database, clock)
    clock.wait(30)
    assert minter() == f"{FIRST}.30"
    clock.now = NOON + timedelta(seconds=30 - MAX_WAIT + 1)
    assert minter() == f"{FIRST}.30.001"
    assert clock() == NOON + timedelta(seconds=30, milliseconds=1)
    clock.now = NOON - timedelta(days=1)
    for _ in range(2):
        with pytest.raises(DocumentRegistryError, match="clock of the resolver was set back") as no:
            minter()
        assert (no.value.code, no.value.retry_after) == ("unavailable", 86431)
    clock.now = NOON + timedelta(seconds=31)
    assert minter() == f"{FIRST}.31"


@pytest.mark.postgresql
def test_several_minters_never_mint_the_same_identifier(database: Database) -> None:
    start = Barrier(4)

    def mint_ten(number: int) -> list[str]:
        minter = a_minter(database, Clock(NOON - timedelta(milliseconds=number)))
        start.wait()
        return [minter() for _ in range(10)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(mint_ten, range(4)))
    dates = [[decode_identifier(parse_identifier(one)).date for one in minted] for minted in found]
    assert len({one for minted in found for one in minted}) == 40
    for ordered in dates:
        assert all(one < other for one, other in pairwise(ordered))
