"""The database of a resolver, and its registry of Archives."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from functools import cache
from typing import Any

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.core.protocol.inclusion import INCLUSION_REQUEST, RegistrationRequest
from flask_ibi_archive.errors import TransportError
from flask_ibi_archive.resolver.archives import Registry
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER
from flask_ibi_archive.server.http.transport import HttpResponse
from support.clocks import Clock
from support.loopback import HERE

#: The Archive of [R] Examples 5.1 to 5.4.
SERVICE = "dpi.inpe.br/banon/1999/01.09.22.14"
KEY = "1234567890"
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
#: The cost of a fast hash; OpenSSL refuses less than 2**7.
CHEAP = 2**7


@contextmanager
def resolver_database(uri: str) -> Iterator[Database]:
    """Yield a database with the tables of a resolver.

    :param uri: the URL of a PostgreSQL database with the tables, or of any SQLite database, which
        gets them.
    """
    database = Database(uri, RESOLVER)
    try:
        if uri.startswith("sqlite:"):
            copy_tables(database)
        yield database
    finally:
        database.close()


def copy_tables(database: Database) -> None:
    """Copy the tables of a resolver to an SQLite database; to migrate it takes longer."""
    database.create()
    with closing(database.engine.raw_connection()) as connection:
        migrated_sqlite().backup(connection.driver_connection)


@cache
def migrated_sqlite() -> sqlite3.Connection:
    """Return an SQLite database in memory with the tables of a resolver."""
    found = sqlite3.connect(":memory:", check_same_thread=False)
    database = Database("sqlite://", RESOLVER)
    with database.writing() as connection:
        migrate.upgrade(connection, history=RESOLVER)
    with closing(database.engine.raw_connection()) as connection:
        connection.driver_connection.backup(found)
    database.close()
    return found


def a_config(**config: Any) -> ResolverConfig:
    """Return the settings of a resolver that allows Archives on this machine."""
    return ResolverConfig.from_mapping({"IBI_INNER_HOSTS": HERE, **config}, "/nowhere")


def a_request(subject: str = INCLUSION_REQUEST, **values: Any) -> RegistrationRequest:
    """Return an inclusion request of the Archive of the examples."""
    facts = {
        "address": "banon-pc2.dpi.inpe.br",
        "service_ibi": SERVICE,
        "ip": "150.163.2.166",
        "platform_version": "2014:11.09.02.16.15",
        "admin_email": "banon@dpi.inpe.br",
        "key": KEY,
        **values,
    }
    return RegistrationRequest(
        subject=subject, **{**facts, "service_ibi": parse_identifier(facts["service_ibi"])}
    )


def confirms(body: str = "confirmation yes", status: int = 200, **headers: str) -> HttpResponse:
    """Return the answer of an Archive to the confirmation call."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(status, {"content-type": "text/plain", **named}, body.encode())


class Calls:
    """Replaces the HTTP client: stores the calls, and returns a prepared answer.

    :param answer: an answer, an error, or a function that returns an answer.
    :ivar key: the answer to a request for the key of claims: by default, there are no claims.
    """

    def __init__(self, answer: HttpResponse | TransportError | Callable[[], HttpResponse]) -> None:
        self.answer = answer
        self.made: list[tuple[str, str, float, int]] = []
        self.key = HttpResponse(404, {}, b"")

    def __call__(
        self, url: str, query: str = "", *, seconds: float, limit: int, inner_hosts: InnerHosts
    ) -> HttpResponse:
        """Answer as :func:`~flask_ibi_archive.server.http.transport.fetch`."""
        if url.endswith("/ibi/claims/key"):
            return self.key
        self.made.append((url, query, seconds, limit))
        if isinstance(self.answer, TransportError):
            raise self.answer
        return self.answer if isinstance(self.answer, HttpResponse) else self.answer()


def a_registry(database: Database, calls: Any = None, **options: Any) -> Registry:
    """Return a registry whose Archives confirm their inclusion, unless ``calls`` says otherwise."""
    config = options.pop("config", None) or a_config()
    calls = calls or Calls(confirms())
    return Registry(database, config, fetch=calls, now=Clock(NOON, step=1), cost=CHEAP, **options)


def included(registry: Registry, count: int = 1) -> Sequence[int]:
    """Include Archives, and return their ids."""
    for number in range(count):
        service = f"a.br/archive{number}/2001/01.01.00.00" if number else SERVICE
        registry.register(service, KEY)
        registry.process(a_request(service_ibi=service, address=f"a{number}.example.org:80"))
    return [one.id for one in registry.list()]
