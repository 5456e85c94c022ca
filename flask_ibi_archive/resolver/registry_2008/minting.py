"""Mint the identifiers of actors and documents that were registered without an identifier.

The identifiers are repository names with the prefix of the document registry. The temporal
distributor issues each date only once ([G] 6, Algorithm 4). The last date is in the database.
Therefore several processes never mint the same identifier, even if the clock was set back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from math import ceil

from sqlalchemy import Connection, select, update

from flask_ibi_archive.core import identifiers
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.config import MINT_GRANULARITY
from flask_ibi_archive.resolver.registry_2008.tables import MintedPrefix, UsedIdentifier
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update

#: The maximum number of seconds to wait for the date of an identifier.
MAX_WAIT = 10

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class RegistryMinter:
    """Mints identifiers with the prefix of a document registry.

    :param host: the host name in the identifiers.
    :param port: the port in the identifiers.
    :param now: returns the current date.
    :param wait: waits for a number of seconds.
    """

    database: Database
    host: str
    port: int
    now: Callable[[], datetime]
    wait: Callable[[float], None]

    def mint(self) -> str:
        """Return a new identifier, and wait until its date is reached.

        No transaction is open during the wait.

        :raises DocumentRegistryError: "unavailable" if the wait would be too long, because the
            clock was set back. No date is used up.
        :raises NotReady: if the database is not available.
        """
        with self.database.writing() as connection:
            identifier, moment = self._issue(connection)
        identifiers.wait_until(moment, MAX_WAIT, self._read_clock, self.wait)
        return identifier

    def _issue(self, connection: Connection) -> tuple[str, Fraction]:
        """Return a new identifier, and the time from which it may be used."""
        prefix = identifiers.build_repository_prefix(self.host, self.port)
        last = _lock_last_date(connection, prefix)
        now = self._read_clock()
        while True:
            last, delay = identifiers.next_suffix_date(now, last, MINT_GRANULARITY)
            if delay > MAX_WAIT:
                raise DocumentRegistryError(
                    "unavailable",
                    "no identifier can be made now, because the clock of the resolver was set back",
                    ceil(delay),
                )
            identifier = identifiers.build_repository_name(self.host, self.port, last).text
            # an actor may have chosen this identifier
            if not _is_used(connection, identifier):
                _store_last_date(connection, prefix, last)
                return identifier, now + delay

    def _read_clock(self) -> Fraction:
        return Fraction((self.now() - EPOCH) // timedelta(microseconds=1), 10**6)


def _lock_last_date(connection: Connection, prefix: str) -> Fraction | None:
    """Lock a prefix and return the last date that was issued under the prefix, or None."""
    statement = insert_or_update(connection, MintedPrefix).values(prefix=prefix, last_date="")
    # the update changes nothing, but locks the row and returns the present value
    last_date = connection.execute(
        statement.on_conflict_do_update(
            index_elements=["prefix"], set_={"last_date": MintedPrefix.last_date}
        ).returning(MintedPrefix.last_date)
    ).scalar_one()
    return identifiers.parse_decimal(last_date) if last_date else None


def _store_last_date(connection: Connection, prefix: str, date: Fraction) -> None:
    """Store a date as the last date that was issued under a prefix."""
    connection.execute(
        update(MintedPrefix)
        .where(MintedPrefix.prefix == prefix)
        .values(last_date=identifiers.format_decimal(date))
    )


def _is_used(connection: Connection, identifier: str) -> bool:
    """Return True if an actor or a document has this identifier."""
    found = select(UsedIdentifier).where(UsedIdentifier.identifier == identifier)
    return connection.execute(found).first() is not None
