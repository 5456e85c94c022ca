"""The list of included Archives for mirrors, and its web address ``/ibi/archives``.

The list contains nothing about administrators. Its ETag depends on the Archives alone, so that a
mirror that asks each minute hardly ever receives a list. Source: federation RS-1.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timezone
from hashlib import sha256

from flask import Blueprint, Response, current_app, request
from sqlalchemy import Connection, func, select

from flask_ibi_archive import errors
from flask_ibi_archive.core.claims.archive_list import ListedArchive, format_archives, sign_list
from flask_ibi_archive.core.claims.keys import VerifierKey, parse_key
from flask_ibi_archive.resolver.claims.resolver_key import read_key
from flask_ibi_archive.resolver.claims.tables import PinnedKey, ResolverState
from flask_ibi_archive.resolver.current import current_resolver
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.pages.app_hooks import add_page
from flask_ibi_archive.server.pages.responses import (
    RETRY_AFTER,
    error_response,
    set_headers,
    summarise_error,
)

PATH = "/ibi/archives"


def add_archive_list(blueprint: Blueprint) -> None:
    """Add the route of the list to a blueprint."""
    add_page(blueprint, "archives", PATH, send_archives)


class ListedArchives:
    """The lines of the list. They are only made again if the list has changed. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._made: tuple[object, str] = None, ""

    def read(self) -> str:
        """Return the lines of the included Archives.

        :raises NotReady: if the database does not answer.
        """
        with self._database.snapshot() as connection:
            state = tuple(connection.execute(_STATE).one())
            made, lines = self._made
            if made != state:
                lines = format_archives(list_archives(connection))
                self._made = state, lines
        return lines


#: Each change of the list, by a request of an Archive or by a mirror, changes one of these values.
_STATE = select(
    select(ResolverState.version).scalar_subquery(),
    select(func.sum(RegisteredArchive.written)).scalar_subquery(),
    select(func.count(RegisteredArchive.included_at)).scalar_subquery(),
    select(func.count(PinnedKey.pinned_at)).scalar_subquery(),
    select(func.max(PinnedKey.pinned_at)).scalar_subquery(),
)


def list_archives(connection: Connection) -> tuple[ListedArchive, ...]:
    """Return the included Archives with their keys, in the order of their services."""
    keys: dict[int, list[tuple[datetime, VerifierKey]]] = defaultdict(list)
    pinned = select(PinnedKey.archive_id, PinnedKey.pinned_at, PinnedKey.key)
    for archive_id, pinned_at, key in connection.execute(pinned.order_by(PinnedKey.pinned_at)):
        keys[archive_id].append((pinned_at, parse_key(key)))
    table = RegisteredArchive
    rows = connection.execute(
        select(table).where(table.included_at.is_not(None)).order_by(table.service_ibi)
    )
    return tuple(
        ListedArchive(
            row.service_ibi,
            row.address,
            row.ip,
            row.platform_version,
            row.included_at,
            row.confirmed_at,
            tuple(keys.get(row.id, ())),
        )
        for row in rows
    )


def send_archives() -> Response:
    """Send the signed list; 404 if the resolver has no key."""
    resolver = current_resolver()
    try:
        key = read_key(resolver.config)
        if key is None:
            return error_response(404, "this resolver has no key; run: flask ibi-resolver init")
        lines = resolver.listed_archives.read()
    except errors.StorageError as error:
        current_app.logger.error("the list of Archives can't be sent: %s", error)
        return error_response(503, summarise_error(error), Retry_After=RETRY_AFTER)
    response = Response(content_type="text/plain; charset=utf-8")
    response.set_etag(sha256(f"{key.verifier.format()}\n{lines}".encode()).hexdigest()[:32])
    response.headers["Cache-Control"] = "no-cache"
    response.make_conditional(request)
    if response.status_code == 200:
        response.set_data(sign_list(lines, datetime.now(timezone.utc), key))
    return set_headers(response)
