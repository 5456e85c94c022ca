"""A resolver that follows the logs of Archives on real servers, with a clock for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select

from flask_ibi_archive.core.claims.claim import name_key
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.resolver.old_claims.follower import Follower
from flask_ibi_archive.resolver.old_claims.index import ClaimIndex
from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.old_claims.tables import FollowedLog, ResolverState
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.http.transport import HttpResponse
from support.archive_servers import Server, Servers
from support.claim_logs import ClaimLog, serving_last
from support.clocks import Clock
from support.registries import (
    KEY,
    NOON,
    SERVICE,
    Calls,
    a_config,
    a_registry,
    a_request,
    confirms,
)


class Following:
    """A resolver, its Archives and their servers.

    :param settings: settings of the resolver.
    :ivar clock: the clock of the resolver and of the logs.
    """

    def __init__(self, database: Database, servers: Servers, folder: Path, **settings: Any) -> None:
        self.database = database
        self.servers = servers
        self.config = a_config(IBI_RESOLVER_CLAIMS_FOLDER=folder, **settings)
        self.clock = Clock(NOON)
        self.index = ClaimIndex(database, folder / "index")
        self.kept = KeptLogs(folder / "logs")
        self.followers: list[Follower] = []
        self.calls = Calls(confirms())
        self.registry = a_registry(database, self.calls, config=self.config)
        #: The logs of each Archive: its server answers with the last one.
        self.logs: dict[int, list[ClaimLog]] = {}
        self.hosts: dict[int, Server] = {}

    def new_log(self, origin: str = SERVICE, **options: Any) -> ClaimLog:
        """Return an empty log that uses the clock of the resolver."""
        return ClaimLog(origin, clock=lambda: self.clock.now.timestamp(), **options)

    def include(self, log: ClaimLog | None = None, service: str = SERVICE, **values: Any) -> int:
        """Include an Archive, or include it again, and return its id.

        :param log: the log of the Archive. None if it publishes no claims.
        :param values: values of the inclusion request.
        """
        self.registry.register(service, KEY)
        known = {record.service_ibi: record.id for record in self.registry.list()}
        archive_id = known[service]
        if archive_id not in self.hosts:
            logs: list[ClaimLog] = []
            self.logs[archive_id] = logs
            self.hosts[archive_id] = self.servers.add(serving_last(logs))
        key = b"" if log is None else (log.find("key") or b"")
        if log is not None:
            self.logs[archive_id].append(log)
        self.calls.key = HttpResponse(200 if key else 404, {}, key)
        address = values.pop("address", self.hosts[archive_id].address)
        self.registry.process(a_request(service_ibi=service, address=address, **values))
        return archive_id

    def exclude(self, service: str) -> None:
        """Exclude an Archive at its request."""
        registry = replace(self.registry, now=self.clock)
        registry.process(a_request(EXCLUSION_REQUEST, service_ibi=service))

    def follower(self, **options: Any) -> Follower:
        """Return a new follower."""
        follower = Follower(self.config, self.database, self.index, now=self.clock, **options)
        self.followers.append(follower)
        return follower

    def follow(self, seconds: float = 0) -> None:
        """Read all logs that are due after some time."""
        self.clock.wait(seconds)
        follower = self.follower()
        assert follower.run_once()
        follower.close()

    def row(self, archive_id: int) -> Any:
        """Return the row of a log."""
        statement = select(*FollowedLog.__table__.columns).where(
            FollowedLog.archive_id == archive_id
        )
        [row] = self.database.read_rows(statement)
        return row

    def rows(self, table: Any) -> Sequence[Any]:
        """Return all rows of a table."""
        return self.database.read_rows(select(*table.__table__.columns))

    def version(self) -> int:
        """Return the version of the list of Archives."""
        [(version,)] = self.database.read_rows(select(ResolverState.version))
        return int(version)

    def holders(self, name: str) -> list[tuple[int, int]]:
        """Return the ids of the Archives that claim a name, with the numbers of the states."""
        key = name_key(name)
        found = self.database.read(lambda connection: self.index.find(connection, [key]))
        return [tuple(holding) for holding in found.get(key, ())]

    def advance(self, **period: float) -> None:
        """Advance the clock, such as ``hours=1``."""
        self.clock.wait(timedelta(**period).total_seconds())

    def close(self) -> None:
        """Close the connections."""
        for follower in self.followers:
            follower.close()
        self.index.close()
