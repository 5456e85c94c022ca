"""The memory of a resolver does not grow with the number of its resolutions."""

from __future__ import annotations

import _sqlite3
import ctypes
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import insert
from support.archive_servers import http, says, servers
from support.registries import KEY, NOON, a_config, a_registry, a_request, resolver_database

from flask_ibi_archive.core.resolution.outcome import Redirect
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_url
from flask_ibi_archive.resolver.resolving import ResolutionRequest
from flask_ibi_archive.resolver.service import ResolverService
from flask_ibi_archive.resolver.tables import Hint

SERVICE = "a.br/service/2000/01.01.00.00"
KNOWN = "contenttype Data\r\nstate Original\r\nurl http://a.br/b.pdf\r\nurlkey 1234567890-1"
ADDRESS = "150.163.2.175"
HINTS, FIRST, MORE = 60_000, 50, 1500


@dataclass
class Memory:
    """The memory that this process uses: blocks of Python objects, and bytes of SQLite."""

    blocks: int
    sqlite: int

    @classmethod
    def used(cls) -> Memory:
        """Return the memory that is used now."""
        gc.collect()
        # the handle of the module also finds the functions of the library
        function = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
        function.restype = ctypes.c_longlong
        return cls(sys.getallocatedblocks(), function())


def item_of(number: int) -> str:
    """Return the IBI of an item; consecutive numbers are far from each other in the table."""
    day, minute = divmod(number * 7919 % HINTS, 1440)
    return f"a.br/x{day}/2001/01.01.{minute // 60:02}.{minute % 60:02}"


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[ResolverService]:
    uri = f"sqlite:///{tmp_path / 'resolver.sqlite'}"
    with servers() as found, resolver_database(uri) as database:
        server = found.add(says(http(KNOWN)), keeps_requests=False)
        registry = a_registry(database)
        registry.register(SERVICE, KEY)
        registry.process(a_request(service_ibi=SERVICE, address=server.address))
        hint = {"archive_id": registry.list()[0].id, "found_at": NOON}
        with database.writing() as connection:
            rows = [{"ibi": item_of(number), **hint} for number in range(HINTS)]
            connection.execute(insert(Hint), rows)
        database.close()
        yielded = ResolverService(a_config(IBI_RESOLVER_DATABASE_URI=uri), database)
        try:
            yield yielded
        finally:
            yielded.close()


@pytest.mark.slow
def test_the_memory_does_not_grow(resolver: ResolverService) -> None:
    numbers = count()

    def resolve(times: int) -> Memory:
        for _ in range(times):
            url = f"http://urlib.net/{item_of(next(numbers))}"
            request = ResolutionRequest(parse_persistent_url(url), url, (ADDRESS,))
            assert isinstance(resolver.resolve(request), Redirect)
        resolver.hint_writer.flush()
        return Memory.used()

    before = resolve(FIRST)
    after = resolve(MORE)
    # less than one object for each resolution, and much less than the pages that were read
    assert after.blocks - before.blocks < MORE
    assert after.sqlite - before.sqlite < 400_000
