"""A random sample of identifiers, and the share of them that leads to a page."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import comb
from pathlib import Path

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from support.archive_servers import Servers, http
from support.claim_logs import a_claim
from support.commands import Outcome, command
from support.resolving import Table, app_over, archives_of, leads, resolver_of

from flask_ibi_archive.core.claims.claim import Claim, format_claim
from flask_ibi_archive.core.claims.tiles import WIDTH
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.failures.sampling import (
    Sample,
    choose_sample,
    find_interval,
)

GOOD, BROKEN, LOST, BUSY = (a_claim(number).rep or "" for number in range(4))


def run(app: Flask, *words: object) -> Outcome:
    return command(app, "sample", *words, group=ibi_resolver)


@pytest.fixture
def app(hosts: Servers, tmp_path: Path) -> Iterator[Flask]:
    """A resolver with two Archives, whose items lead to a server with three pages."""

    def answer(target: str, head: str) -> bytes:
        status = {"/good": "200 OK", "/busy": "429 Later", "/moved": "302 Found"}.get(
            target, "404 Not Found"
        )
        return http("page", status, **({"Location": "/good"} if target == "/moved" else {}))

    server = hosts.add(answer)
    pages: Table = {
        GOOD: leads(f"http://{server.address}/moved"),
        BROKEN: leads(f"http://{server.address}/lost"),
        BUSY: leads(f"http://{server.address}/busy"),
    }
    with app_over(archives_of(hosts, pages, {}), tmp_path) as app:
        yield app


def keep(app: Flask, archive_id: int, *claims: Claim) -> None:
    logs = KeptLogs(resolver_of(app).config.claims_folder / "logs")
    entries = [format_claim(claim) for claim in claims]
    for number in range((len(entries) + WIDTH - 1) // WIDTH):
        logs.write_bundle(archive_id, 1, number, entries[number * WIDTH : (number + 1) * WIDTH])


def test_the_share_and_the_failures(app: Flask) -> None:
    keep(app, 1, *[a_claim(number) for number in range(3)])
    result = json.loads(run(app, 10, "--seed", 1, "--json").data)
    low, high = find_interval(1, 3)
    failures = {one.pop("identifier"): one for one in result.pop("failures")}
    assert result == {
        "identifiers": 3,
        "pages": 1,
        "share": 1 / 3,
        "low": low,
        "high": high,
        "postponed": 0,
        "seed": 1,
    }
    assert failures[LOST] == {"url": None, "error": f"no Archive has {LOST}"}
    assert failures[BROKEN]["url"].endswith("/lost")
    assert failures[BROKEN]["error"] == "answers 404 (Not Found)"
    lines = run(app, 10, "--seed", 1).lines
    assert lines[0] == (
        "1 of 3 identifiers lead to a page "
        "(95 % confidence interval of the share: 6.1% to 79.2%; seed 1)"
    )
    assert sorted(line.partition("\t")[0] for line in lines[1:]) == sorted([BROKEN, LOST])


def test_a_server_that_wants_no_requests_says_nothing_about_the_share(app: Flask) -> None:
    keep(app, 1, a_claim(0), a_claim(3))
    # the order of the two requests to the same host is that of the sample
    result = json.loads(run(app, 10, "--seed", 1, "--json").data)
    assert result["identifiers"] + result["postponed"] == 2
    assert result["postponed"] >= 1
    assert result["failures"] == []


def test_without_claims_the_hints_are_sampled(app: Flask) -> None:
    resolver = resolver_of(app)
    resolver.hint_writer.add_hint(GOOD, 1)
    resolver.hint_writer.flush()
    assert run(app, 5).lines[0].startswith("1 of 1 identifiers lead to a page")


def test_nothing_to_sample(app: Flask) -> None:
    result = json.loads(run(app, 5, "--json").data)
    assert (result["identifiers"], result["share"]) == (0, None)
    assert (result["low"], result["high"]) == (0, 1)
    assert "Invalid value" in run(app, 0).usage


def test_removed_items_are_not_in_the_sample(app: Flask) -> None:
    deleted = [a_claim(number, State.DELETED) for number in range(50)]
    keep(app, 1, *[a_claim(number) for number in range(100)], *deleted)
    keep(app, 2, a_claim(0), a_claim(1, State.DELETED))
    chosen = choose_sample(resolver_of(app), 100, 1)
    existing = {a_claim(number).rep for number in (0, *range(50, 100))}
    assert set(chosen) == existing
    assert len(chosen) == len(existing)
    assert choose_sample(resolver_of(app), 20, 1) == chosen[:20]


def test_the_service_of_an_archive_is_not_in_the_sample(app: Flask) -> None:
    resolver = resolver_of(app)
    [service] = {one.service_ibi for one in resolver.registry.list() if one.id == 1}
    keep(app, 1, a_claim(0), replace(a_claim(1), rep=service))
    assert choose_sample(resolver, 10, 1) == [GOOD]


def test_each_identifier_has_the_same_chance() -> None:
    names = [str(number) for number in range(20)]
    counts: Counter[str] = Counter()
    random_ = random.Random(1)
    for seed in range(2000):
        sample = Sample(5, seed)
        sample._size = 8
        for name in random_.sample(names, len(names)):
            for _ in range(1 + int(name) % 3):  # some are claimed several times
                sample.add(name, 1, True)
        counts.update(sample.choose())
    # the standard deviation is 19
    assert all(400 < count < 600 for count in counts.values())
    assert counts.total() == 10_000


@given(st.integers(0, 10), st.integers(1, 60), st.randoms())
def test_the_sample_does_not_depend_on_the_order(
    seed: int, count: int, chance: random.Random
) -> None:
    names = [str(number) for number in range(500)]
    samples = []
    for _ in range(2):
        chance.shuffle(names)
        sample = Sample(count, seed)
        for name in names:
            sample.add(name, 1, True)
        samples.append(sample.choose())
    assert samples[0] == samples[1]
    assert len(set(samples[0])) == count


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    # Newcombe (1998), Statistics in Medicine 17, table I: method 3
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_intervals(successes: int, count: int, low: float, high: float) -> None:
    assert find_interval(successes, count) == pytest.approx((low, high), abs=0.0001)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_about_95_percent_of_the_intervals_contain_the_share(share: float) -> None:
    count = 200
    chance = 0.0
    for successes in range(count + 1):
        low, high = find_interval(successes, count)
        if low <= share <= high:
            rest = count - successes
            chance += comb(count, successes) * share**successes * (1 - share) ** rest
    assert 0.92 < chance < 0.98
