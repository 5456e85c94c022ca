"""The Archive of an app that runs a resolver as well: it is asked in the process, not by HTTP."""

from __future__ import annotations

from flask import Response, current_app

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.local_resolution import resolve_locally
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.protocol.messages import parse_request
from flask_ibi_archive.protocol.pairs import Pair, parse_pairs
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.protocol.response import build_response
from flask_ibi_archive.resolution.languages import LanguageRange
from flask_ibi_archive.resolution.outcome import Redirect
from flask_ibi_archive.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.resolver.rounds import OwnArchive
from flask_ibi_archive.web.context import EXTENSION, current_archive
from flask_ibi_archive.web.local_resolution import redirect_and_count


def find_own_archive() -> ArchiveService | None:
    """Return the app's Archive, None where it has none, or one that can't answer now."""
    if EXTENSION not in current_app.extensions:
        return None
    archive = current_archive()
    try:
        archive.served()
    except (NotReady, ConfigError):
        return None
    return archive


def lead_to_own(
    archive: ArchiveService,
    wanted: PersistentUrl,
    persistent_url: str,
    addresses: tuple[str, ...],
    ranges: tuple[LanguageRange, ...],
) -> Response | None:
    """Lead to what the app's Archive has, included or not; None: all Archives are to be asked.

    The parameters are those of :func:`~flask_ibi_archive.resolver.persistent_urls.resolve`.
    """
    if not archive.config.local_resolution:
        return None
    try:
        outcome = resolve_locally(archive, wanted, ranges, addresses)
    except NotReady:
        return None
    except Exception:  # the other Archives are asked all the same
        current_app.logger.exception("the Archive of this app can't resolve %s", wanted.ibi)
        return None
    if not isinstance(outcome, Redirect):
        return None
    return redirect_and_count(archive, outcome, wanted, persistent_url, addresses)


def as_own(archive: ArchiveService) -> OwnArchive:
    """Return the app's Archive as a resolution asks it."""

    def ask(query: str) -> list[Pair]:
        message = parse_request(decode_query_string(query.encode("ascii")))
        return parse_pairs(build_response(message, archive.list_urls))

    return OwnArchive(archive.served().service_ibi, ask)
