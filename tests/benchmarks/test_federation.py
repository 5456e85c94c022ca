"""The simulated federation answers, claims and fails as real Archives do."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.loopback import PATIENCE

from benchmarks.federation import ROWS, Scope, bench_of
from benchmarks.federation_items import (
    DEAD,
    DENIES,
    EDITION,
    FIRST_COPIED,
    FORGES,
    FORKS,
    HANGING,
    REMOVED,
    RIVAL,
    ROLES,
    Federation,
    Holding,
    Item,
    find_item,
    service_of,
)
from benchmarks.federation_server import Control, serving_federation
from benchmarks.targets import check_federation
from flask_ibi_archive.core.claims.checkpoint import OpenedCheckpoint, open_checkpoint
from flask_ibi_archive.core.claims.claim import parse_claim
from flask_ibi_archive.core.claims.keys import parse_key
from flask_ibi_archive.core.claims.merkle import Frontier, compute_root, hash_leaf
from flask_ibi_archive.core.claims.tiles import TileHashes, decode_entries, list_bundles
from flask_ibi_archive.core.protocol.messages import UrlRequest, format_request
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_url
from flask_ibi_archive.errors import ClaimError

#: Each way to fail, and good Archives; bundles of several sizes.
SMALL = Federation(40, 300, dead=0.1, hanging=0.1, lying=0.1)


@pytest.fixture(scope="module")
def control() -> Iterator[Control]:
    """Yield the control of a federation that does not fail."""
    with serving_federation(SMALL) as control:
        yield control


def get(federation: Federation, archive: int, target: str, timeout: float = PATIENCE) -> bytes:
    """Return the body of an Archive's response."""
    connection = http.client.HTTPConnection(federation.address(archive), timeout=timeout)
    try:
        connection.request("GET", target)
        return connection.getresponse().read()
    finally:
        connection.close()


def read_checkpoint(federation: Federation, archive: int) -> OpenedCheckpoint:
    """Return the checkpoint of an Archive's log, checked with the key of the Archive."""
    text = get(federation, archive, "/ibi/claims/checkpoint").decode()
    return open_checkpoint(text, federation.signing_key(archive).verifier)


def query_of(target: str) -> str:
    """Return the query of the question about a persistent URL."""
    wanted = parse_persistent_url(f"http://urlib.net/{target}")
    return format_request(UrlRequest(wanted.ibi, ("10.0.0.1",), "", wanted.verbs))


@pytest.mark.parametrize("number", [*range(ROLES), 59, 60, 40_320, 483_839, 483_840])
def test_an_item_is_found_by_its_identifiers(number: int) -> None:
    item = Item(70_000, number)
    assert find_item(item.rep) == item
    assert find_item(item.ibip) == item


def test_foreign_identifiers_name_no_item() -> None:
    assert find_item("sid.inpe.br/mtc-m18@80/2009/02.16.17.46") is None
    assert find_item("8JMKD3MGP8W/34PGRBS") is None


@pytest.mark.parametrize("role", range(ROLES))
@pytest.mark.parametrize("modifier", ["", "!", "+(pt)", ":"])
def test_an_archive_answers_as_its_records_say(control: Control, role: int, modifier: str) -> None:
    federation, item = control.federation, Item(5, role)
    holders = [5, *([] if (copying := federation.copying(item)) is None else [copying])]
    for archive in holders:
        query = query_of(f"{item.rep}{modifier}")
        answer = get(federation, archive, f"/{service_of(archive)}?{query}").decode()
        assert answer == federation.answer_by_records(archive, item, query)
        if not modifier:
            assert ("state Deleted" in answer) is (role == REMOVED)
            assert ("state Copy" in answer) is (archive != 5)
    assert get(federation, 6, f"/{service_of(6)}?{query_of(item.rep)}") == b"" or 6 in holders


def test_last_editions_and_copies_exist() -> None:
    item = Item(5, EDITION)
    assert f"rep {Item(5, EDITION + 1).rep}" in SMALL.answer(5, item.rep, query_of(f"{item.rep}!"))
    copied = Item(5, FIRST_COPIED)
    copying = SMALL.copying(copied)
    assert copying is not None
    assert Holding(copied, State.COPY) in list(SMALL.list_holdings(copying))


def test_a_log_is_right(control: Control) -> None:
    federation = control.federation
    key = get(federation, 5, "/ibi/claims/key").decode().strip()
    assert parse_key(key) == federation.signing_key(5).verifier
    checkpoint = read_checkpoint(federation, 5).checkpoint
    entries = [
        entry
        for tile in list_bundles(0, checkpoint.size)
        for entry in decode_entries(get(federation, 5, f"/ibi/claims/{tile.path}"), tile.width)
    ]
    frontier = Frontier()
    for entry in entries:
        frontier.add(hash_leaf(entry))
    assert (frontier.size, frontier.root()) == (checkpoint.size, checkpoint.root)
    hashes = TileHashes(
        lambda tile: get(federation, 5, f"/ibi/claims/{tile.path}"), checkpoint.size
    )
    assert compute_root(checkpoint.size, hashes) == checkpoint.root
    claims = {claim.rep: claim for claim in map(parse_claim, entries)}
    assert len(claims) == checkpoint.size
    for holding in federation.list_holdings(5):
        claim = claims[holding.item.rep]
        assert (claim.ibip, claim.state) == (holding.item.ibip, holding.state)


def test_claims_are_added_and_archives_fail() -> None:
    with serving_federation(SMALL) as control:
        federation = control.federation
        kinds = {kind: archive for archive, kind in federation.faults.items()}
        sizes = {
            archive: read_checkpoint(federation, archive).checkpoint for archive in kinds.values()
        }
        good = next(one for one in range(SMALL.archives) if one not in federation.faults)
        before = read_checkpoint(federation, good).checkpoint.size
        control.claim(good, Item(kinds[DEAD], 0))
        assert read_checkpoint(federation, good).checkpoint.size == before + 1
        query = query_of(Item(kinds[DEAD], 0).rep)
        assert b"state Original" in get(federation, good, f"/{service_of(good)}?{query}")
        control.fail()
        with pytest.raises(ConnectionRefusedError):
            get(federation, kinds[DEAD], "/ibi/claims/checkpoint")
        with pytest.raises(TimeoutError):
            get(federation, kinds[HANGING], "/ibi/claims/checkpoint", timeout=0.05)
        denying, forking = kinds[DENIES], kinds[FORKS]
        query = query_of(Item(denying, 0).rep)
        assert get(federation, denying, f"/{service_of(denying)}?{query}") == b""
        with pytest.raises(ClaimError, match=r"false|not signed"):
            read_checkpoint(federation, kinds[FORGES])
        forked = read_checkpoint(federation, forking).checkpoint
        assert forked.size == sizes[forking].size
        assert forked.root != sizes[forking].root
        assert read_checkpoint(federation, kinds[RIVAL]).checkpoint.size > sizes[kinds[RIVAL]].size


TINY = Federation(20, 40, dead=0.1, hanging=0, lying=0)
SCOPE = Scope(8, 8, 2, conflicts=2, readers=12, instructions=5)
FOLLOWING = ("follow", "conflicts", "rivals", "follow with failures")
#: They take longer.
SLOW = ("mirrors", "instructions")


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[pytest.mark.slow] if row in SLOW else [])
        for row in ROWS
        if row not in FOLLOWING
    ],
)
def test_each_row_is_measured(row: str, tmp_path: Path) -> None:
    with bench_of(TINY, replace(SCOPE, stores_claims=True), tmp_path) as bench:
        bench.fail()
        ROWS[row](bench)
    figures = {name: value for _, name, value in bench.figures}
    assert figures
    assert figures.get("readers who fail", 0) == 0
    assert figures.get("share that is said to be unknown", 1) == 1
    assert figures.get("mean", 1) < 2


@pytest.mark.slow
@pytest.mark.parametrize("row", FOLLOWING)
def test_the_follower_reads_second_claims(row: str, tmp_path: Path) -> None:
    with bench_of(TINY, SCOPE, tmp_path) as bench:
        ROWS[row](bench)
    figures = {name: value for _, name, value in bench.figures}
    assert figures.get("share of alerts about two Originals", 1) == 1
    assert figures.get("second claims", 2) == 2


def test_figures_are_compared_with_targets() -> None:
    figures = [("rate", "per second", 1501.0), ("asked", "mean", 1.5), ("rate", "CPU ms", 0.5)]
    assert list(check_federation(figures)) == [
        "reached rate, per second: 1501, at least 1500",
        "missed  asked, mean: 1.5, at most 1.02",
        "        rate, CPU ms: 0.5",
    ]
