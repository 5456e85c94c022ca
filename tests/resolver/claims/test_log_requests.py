"""Many logs are read at the same time, with few connections and little memory."""

from __future__ import annotations

from typing import Any

import pytest
from support.archive_servers import Servers
from support.claim_logs import ClaimLog
from support.loopback import PATIENCE
from support.registries import a_config

from flask_ibi_archive.resolver.asking import MAX_HOST_CONNECTIONS, Engine
from flask_ibi_archive.resolver.old_claims.log_reader import KnownLog, read_log
from flask_ibi_archive.resolver.old_claims.log_requests import LogRequests

COUNT, BUNDLES = 4, 4 * MAX_HOST_CONNECTIONS


def test_a_log_is_read_to_its_end_before_further_ones_begin(
    hosts: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was received of a log stays in memory until its batch is complete."""
    log = ClaimLog().add(*[b"x"] * 256 * BUNDLES)
    #: The beginnings of the URLs of the requests for entries, in their order.
    sent: list[str] = []
    add = Engine.add

    def note(engine: Engine, url: str, *rest: Any) -> None:
        base, found, _ = url.partition("tile/entries/")
        if found:
            sent.append(base)
        add(engine, url, *rest)

    monkeypatch.setattr(Engine, "add", note)
    requests = LogRequests(a_config(IBI_RESOLVER_FOLLOW_CONNECTIONS=MAX_HOST_CONNECTIONS))
    for number in range(COUNT):
        base = f"http://{hosts.add(log.answer).address}/ibi/claims/"
        key = log.signer.verifier
        requests.start(number, base, key, read_log(KnownLog(key), log.clock(), 300))
    done: dict[int, int] = {}
    while len(done) < COUNT:
        done |= {number: len(read.entries) for number, read in requests.wait(PATIENCE)}
    requests.close()
    assert set(done.values()) == {log.size}
    assert len(sent) == COUNT * BUNDLES
    in_progress = [set(sent[:end]) & set(sent[end:]) for end in range(len(sent))]
    assert max(map(len, in_progress)) <= 2


def test_slow_logs_leave_connections_to_others(hosts: Servers) -> None:
    """Archives that did not answer hold their connections until the time is over."""
    hanging, good = ClaimLog(), ClaimLog().add(b"x")
    hanging.replaced["checkpoint"] = lambda: None
    requests = LogRequests(
        a_config(IBI_RESOLVER_FOLLOW_CONNECTIONS=2, IBI_RESOLVER_ARCHIVE_TIMEOUT=PATIENCE)
    )
    for number, log in enumerate([hanging, hanging, hanging, good]):
        base = f"http://{hosts.add(log.answer).address}/ibi/claims/"
        key = log.signer.verifier
        reading = read_log(KnownLog(key), log.clock(), 300)
        requests.start(number, base, key, reading, is_slow=log is hanging)
    done: dict[int, int] = {}
    while not done:
        done |= {number: len(read.entries) for number, read in requests.wait(PATIENCE)}
    requests.close()
    assert done == {3: 1}
