"""Checks the addresses on other servers that items use for files and metadata."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import func, or_, select

from flask_ibi_archive.archive.items.tables import File, Item
from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import batched
from flask_ibi_archive.server.http.link_check import find_link_error

#: The number of addresses that are checked at the same time.
THREADS = 8
#: After so many consecutive links to a host that can't be reached, its other links fail, too.
MAX_FAILURES = 3


class BrokenLink(NamedTuple):
    """An address that does not work, and the identifiers of the items that use it."""

    url: str
    error: str
    items: list[str]


def read_links(database: Database, archive_id: int) -> dict[str, list[str]]:
    """Return the addresses of files, metadata and formats, with the items that use them."""
    ibi, links = func.coalesce(Item.rep, Item.ibip).label("ibi"), defaultdict(list)
    # the others show no links to readers
    shown = Item.archive_id == archive_id, Item.state.not_in((State.DELETED.value, ELSEWHERE))
    files = select(File.url, ibi).join(Item, Item.id == File.item_id)
    of_url = files.where(*shown, File.url.is_not(None)).order_by(Item.id, File.position)
    for row in database.read_rows(of_url):
        links[row.url].append(row.ibi)
    metadata = select(Item.metadata_url, Item.metadata_formats, Item.formats, ibi).where(
        *shown, or_(Item.metadata_url.is_not(None), Item.formats.is_not(None))
    )
    for row in database.read_rows(metadata.order_by(Item.id)):
        formats = {**(row.metadata_formats or {}), **(row.formats or {})}
        for url in filter(None, (row.metadata_url, *formats.values())):
            links[url].append(row.ibi)
    return links


def find_broken(
    links: dict[str, list[str]],
    base_url: str,
    inner_hosts: InnerHosts,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[BrokenLink]:
    """Check addresses, and yield those that do not work. A host gets one request at a time.

    :param links: the result of :func:`read_links`.
    :param base_url: the address of the Archive, which the requests name.
    :param inner_hosts: the internal hosts to which requests may be sent.
    :param progress: called with the number of addresses that were checked, and of all.
    """
    locks = {urlsplit(url).netloc: Lock() for url in links}
    failures: Counter[str] = Counter()

    def check(url: str) -> tuple[str, str | None]:
        host = urlsplit(url).netloc
        with locks[host]:
            if failures[host] >= MAX_FAILURES:
                return url, "the host can't be reached"
            error = find_link_error(url, base_url, inner_hosts)
            failures[host] = failures[host] + 1 if error and error.is_of_host else 0
            return url, error and error.reason

    with ThreadPoolExecutor(THREADS) as pool:
        results = (result for part in batched(links) for result in pool.map(check, part))
        for done, (url, error) in enumerate(results, 1):
            progress(done, len(links))
            if error is not None:
                yield BrokenLink(url, error, links[url])
