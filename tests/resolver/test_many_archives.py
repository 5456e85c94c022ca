"""Resolutions with fifty Archives, half of which are dead, hanging or hostile."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.loopback import PATIENCE
from support.many_archives import REQUIRED, Case, ManyArchives, many_archives
from support.registries import KEY, a_config, a_registry, a_request, resolver_database

from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST, INCLUSION_REQUEST
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_url
from flask_ibi_archive.resolver.resolving import ResolutionRequest
from flask_ibi_archive.resolver.service import ResolverService

#: The number of resolutions in the quick test and in the long one.
QUICK, LONG = 30, 500
THREADS = 6
EXCLUDED = "a.br/left/2000/01.01.00.00"
ADDRESS = "150.163.2.175"
#: Seconds for one Archive, and for a resolution: enough for the good Archives on a slow machine.
ARCHIVE_TIMEOUT = 2.0
DEADLINE = 60.0


@contextmanager
def resolver_of(archives: ManyArchives, folder: Path) -> Iterator[ResolverService]:
    """Yield a resolver that has included all of these Archives."""
    uri = f"sqlite:///{folder / 'resolver.sqlite'}"
    config = a_config(
        IBI_RESOLVER_DATABASE_URI=uri,
        IBI_RESOLVER_INNER_HOSTS="127.0.0.1",
        IBI_RESOLVER_ARCHIVE_TIMEOUT=ARCHIVE_TIMEOUT,
        IBI_RESOLVER_DEADLINE=DEADLINE,
    )
    with resolver_database(uri) as database:
        registry = a_registry(database)
        for service, address in archives.included:
            registry.register(service, KEY)
            registry.process(a_request(service_ibi=service, address=address))
        # an excluded Archive
        registry.register(EXCLUDED, KEY)
        for subject in (INCLUSION_REQUEST, EXCLUSION_REQUEST):
            address = archives.forbidden.address
            registry.process(a_request(subject, service_ibi=EXCLUDED, address=address))
        resolver = ResolverService(config, database)
        try:
            yield resolver
        finally:
            resolver.close()


def resolve_all(
    resolver: ResolverService, cases: Sequence[Case]
) -> list[tuple[Case, Redirect | Alert]]:
    """Resolve persistent URLs in several threads, then close the resolver."""

    def resolve(case: Case) -> tuple[Case, Redirect | Alert]:
        wanted = parse_persistent_url(case.persistent_url)
        request = ResolutionRequest(wanted, case.persistent_url, (ADDRESS,))
        return case, resolver.resolve(request)

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(resolve, cases))
    resolver.close(PATIENCE)  # waits for the acknowledgments
    return found


def is_right(case: Case, outcome: Redirect | Alert) -> bool:
    if isinstance(outcome, Redirect):
        return outcome.url in case.urls
    if case.suspects:
        named = {source.address for source in outcome.sources}
        return outcome.kind is AlertKind.SUSPECTS and named == case.suspects
    return not case.urls and outcome.kind is AlertKind.SILENT


@pytest.mark.slow
@pytest.mark.rule("R62-05", "R62-13")
@pytest.mark.parametrize("number", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)])
def test_fifty_archives_of_which_half_are_bad(number: int, tmp_path: Path) -> None:
    chance = random.Random(1)
    with many_archives(1) as archives, resolver_of(archives, tmp_path) as resolver:
        asked = [chance.choice(archives.cases) for _ in range(number)]
        check(archives, resolve_all(resolver, asked))
        # Archives that answer are always asked; those that fail are skipped, except for an Original
        counts = [len(one.server.asked) for one in archives.hostile]
        assert max(counts[:3]) < min(counts[3:])
        assert min(counts[3:]) >= sum(REQUIRED in case.persistent_url for case in asked) > 0


def check(archives: ManyArchives, found: list[tuple[Case, Redirect | Alert]]) -> None:
    """Check all results, and that only the right Archives received acknowledgments."""
    for case, outcome in found:
        assert is_right(case, outcome), (case, outcome)
    assert archives.forbidden.accepted == 0
    # each redirect is acknowledged once, to the Archive that returned the URL
    thanked = Counter((one.address, thanks.url) for one in archives.good for thanks in one.thanks)
    assert thanked == Counter(
        (outcome.source.address, outcome.url)
        for _, outcome in found
        if isinstance(outcome, Redirect)
    )
    bad = [*(one.server for one in archives.hostile), *archives.hanging]
    assert not [target for one in bad for target in one.asked if "urlRequest" not in target]
