"""Fixtures of resolvers: their databases, and concurrent requests to Archives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from support.archive_servers import LIMIT, MakeFanOut, Servers, servers
from support.loopback import LOOPBACK, PATIENCE
from support.registries import a_config, resolver_database
from support.resolving import Run, Table, TableArchive, archives_of, resolver_over

from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.resolver import claims
from flask_ibi_archive.resolver.asking import ArchiveResult, FanOut
from flask_ibi_archive.resolver.resolving import ResolverService
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER, History


@pytest.fixture(autouse=True)
def no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no resolution be followed by an audit of the claims by chance."""
    monkeypatch.setattr(claims, "SHARE", 0.0)


@pytest.fixture
def hosts() -> Iterator[Servers]:
    """Servers on the loopback interface."""
    with servers() as found:
        yield found


@pytest.fixture
def run(hosts: Servers) -> Iterator[Run]:
    """Create Archives that answer from tables, and a resolver that has included them."""
    with ExitStack() as stack:

        def make(*tables: Table, **config: Any) -> tuple[ResolverService, list[TableArchive]]:
            archives = archives_of(hosts, *tables)
            return stack.enter_context(resolver_over(archives, **config)), archives

        yield make


@pytest.fixture
def make_fan_out() -> Iterator[MakeFanOut]:
    """Create FanOut objects and close them after the test."""
    made: list[FanOut] = []

    def make(
        seconds: float = PATIENCE,
        on_result: Callable[[ArchiveResult], object] = lambda result: None,
        inner_hosts: InnerHosts = LOOPBACK,
    ) -> FanOut:
        config = replace(
            a_config(), archive_timeout=seconds, max_answer=LIMIT, inner_hosts=inner_hosts
        )
        made.append(FanOut(config, on_result))
        return made[-1]

    yield make
    for one in made:
        one.close(0)


@pytest.fixture(scope="session")
def history() -> History:
    """New databases have the tables of a resolver."""
    return RESOLVER


@pytest.fixture
def database(uri: str) -> Iterator[Database]:
    """The database of a resolver."""
    with resolver_database(uri) as database:
        yield database
