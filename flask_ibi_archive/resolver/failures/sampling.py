"""Resolves a random sample of identifiers, to say which share of all of them leads to a page.

The sample is the identifiers with the smallest hash values, where the hash depends on the seed. So
each identifier has the same chance, however often it was claimed, and any number of identifiers
needs little memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import sqrt
from time import monotonic
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from flask_ibi_archive.core.protocol.languages import parse_accept_language
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.outcome import Alert
from flask_ibi_archive.core.resolution.persistent_url import read_persistent_url
from flask_ibi_archive.resolver.claims.bound_names import find_rejected
from flask_ibi_archive.resolver.claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.resolution_context import ResolutionRequest
from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive
from flask_ibi_archive.server.http.link_requests import (
    THREADS,
    HostLimits,
    LinkClient,
    StopEvent,
    clean_url,
    user_agent,
)

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.service import ResolverService

#: The quantile of the normal distribution for a confidence of 95 %.
QUANTILE = 1.959963984540054
#: The address of the reader in the questions to the Archives.
READER = ("127.0.0.1",)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result for an identifier of the sample.

    :param url: the URL to which the resolver redirects. None if it does not redirect.
    :param error: why the identifier does not lead to a page. None if it does.
    :param postponed: True if the server of the page wants no requests now, so that nothing is
        known.
    """

    ibi: str
    url: str | None = None
    error: str | None = None
    postponed: bool = False


class Sample:
    """Collects the identifiers with the smallest hash values.

    :param count: the number of identifiers of the sample.
    :param seed: determines the sample.
    """

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._seed = seed
        # more than the sample, because some of the items may turn out to be removed
        self._size = 4 * count + 100
        #: The hash values of the collected identifiers: the largest one first.
        self._heap: list[tuple[int, str]] = []
        #: Whether each Archive that claims an identifier still has the item.
        self._states: dict[str, dict[int, bool]] = {}

    def add(self, ibi: str, archive_id: int, exists: bool) -> None:
        """Add a claim; it replaces the one before of the same Archive.

        :param exists: whether the item was not removed.
        """
        states = self._states.get(ibi)
        if states is None:
            digest = sha256(f"{self._seed}:{ibi}".encode()).digest()
            entry = -int.from_bytes(digest[:8], "big"), ibi
            if len(self._heap) < self._size:
                heapq.heappush(self._heap, entry)
            elif entry < self._heap[0]:
                return
            else:
                del self._states[heapq.heapreplace(self._heap, entry)[1]]
            states = self._states[ibi] = {}
        states[archive_id] = exists

    def choose(self) -> list[str]:
        """Return the sample in a random order; it contains no items that all Archives removed."""
        in_order = (ibi for _, ibi in sorted(self._heap, reverse=True))
        return [ibi for ibi in in_order if any(self._states[ibi].values())][: self._count]


_INCLUDED = select(RegisteredArchive.id, RegisteredArchive.service_ibi).where(
    RegisteredArchive.included_at.is_not(None)
)


def choose_sample(service: ResolverService, count: int, seed: int) -> list[str]:
    """Return a random sample of the identifiers of items that the included Archives claim.

    If no claims are kept, the identifiers that were found lately are sampled.

    :raises NotReady: if the database does not answer.
    :raises ClaimError: if a file of a kept log is damaged.
    """
    sample = Sample(count, seed)
    logs = KeptLogs(service.config.claims_folder / "logs")
    with service.database.reading() as connection:
        services = {row.id: row.service_ibi for row in connection.execute(_INCLUDED)}
        kept = sorted(set(logs.list_archives()) & services.keys())
        for archive_id in kept:
            for claim in logs.read_claims(archive_id, find_rejected(connection, archive_id)):
                if services[archive_id] in claim.identifiers:
                    continue  # the service is no page
                for ibi in claim.identifiers:
                    sample.add(ibi, archive_id, claim.state is not State.DELETED)
        if not kept:
            for ibi in _read_hints(connection):
                sample.add(ibi, 0, True)
    return sample.choose()


def _read_hints(connection: Connection) -> Iterator[str]:
    hints = select(Hint.ibi).execution_options(yield_per=1000)
    yield from connection.scalars(hints)


def check_sample(
    service: ResolverService,
    ibis: list[str],
    delay: float,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Checked]:
    """Resolve identifiers, and request the pages to which they lead.

    :param delay: the seconds between two requests for pages to the same host.
    """
    stop = StopEvent()
    config = service.config
    client = LinkClient(
        HostLimits(delay, monotonic, stop.pause),
        user_agent(config.base_url or config.service_ibi),
        config.inner_hosts,
        inner_setting="IBI_RESOLVER_INNER_HOSTS",
    )
    checked = []
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            for result in pool.map(partial(_check, service, client), ibis):
                checked.append(result)
                on_progress(len(checked), len(ibis))
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return checked


def _check(service: ResolverService, client: LinkClient, ibi: str) -> Checked:
    url = f"{service.config.base_url or 'http://localhost'}/{ibi}"
    request = ResolutionRequest(read_persistent_url(ibi), url, READER, parse_accept_language(None))
    outcome = service.resolve(request, acknowledges=False)
    if isinstance(outcome, Alert):
        return Checked(ibi, error=outcome.summary)
    cleaned = clean_url(outcome.url)
    if cleaned is None:
        return Checked(ibi, outcome.url, "is neither http nor https")
    status = client.check(cleaned)
    return Checked(ibi, outcome.url, status.error, status.postponed)


def find_interval(successes: int, count: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share (Wilson's score interval).

    :param successes: how many of the sample succeeded.
    :param count: the size of the sample.
    """
    if not count:
        return 0.0, 1.0
    share, square = successes / count, QUANTILE**2
    middle = share + square / (2 * count)
    half = QUANTILE * sqrt(share * (1 - share) / count + square / (4 * count**2))
    scale = 1 + square / count
    return max((middle - half) / scale, 0.0), min((middle + half) / scale, 1.0)
