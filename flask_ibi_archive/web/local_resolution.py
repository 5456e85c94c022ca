"""Answers persistent URLs that were asked of an Archive's own host."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Response, current_app, request
from werkzeug.exceptions import BadHost
from werkzeug.routing import RequestRedirect

from flask_ibi_archive.archive.accesses.acknowledgments import Agents
from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.local_resolution import Removed, resolve_here
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.hosts import bare_host
from flask_ibi_archive.protocol.messages import Acknowledgment, format_request, parse_request
from flask_ibi_archive.protocol.pairs import encode_word
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.resolution.answer import ArchiveSource
from flask_ibi_archive.resolution.languages import LanguageRange
from flask_ibi_archive.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.web.alerts import (
    VARY,
    alert_response,
    prefers_page,
    redirect_response,
    unready_response,
)
from flask_ibi_archive.web.asked import asked_host, asked_root, asked_target, is_asked
from flask_ibi_archive.web.context import RESOLVER_EXTENSION, current_archive
from flask_ibi_archive.web.headers import set_headers
from flask_ibi_archive.web.pages import tombstone
from flask_ibi_archive.web.persistent_urls import (
    begins_with_ibi,
    fall_back_to,
    looks_meant,
    refuse_key,
)
from flask_ibi_archive.web.service import MESSAGE


def answer_if_ours() -> Response | None:
    """Answer persistent URLs where no route of the host is, as a hook for ``before_app_request``.

    A resolver in the same app answers them all, and asks us. A message to another service than ours
    is no persistent URL, though it is a query behind an IBI.
    """
    failure = request.routing_exception
    if failure is None:
        return None
    resolves = current_archive().config.local_resolution
    others = RESOLVER_EXTENSION in current_app.extensions or MESSAGE in request.query_string
    if (others or not resolves) and not isinstance(failure, (BadHost, RequestRedirect)):
        return None
    return _fall_back()


def answer_here(
    wanted: PersistentUrl,
    persistent_url: str,
    addresses: tuple[str, ...],
    ranges: tuple[LanguageRange, ...],
) -> Response | None:
    """Answer a persistent URL by what this Archive knows; None: the host has a page of its own for
    it.

    An item that is somewhere else is left to the resolver; one that is here is led to, and the
    access counts, as if the resolver had acknowledged it.

    :param persistent_url: as it is acknowledged.
    :param addresses: the user's, then the proxies'.
    :param ranges: the languages that the reader prefers.
    """
    if refusal := refuse_key():
        return refusal
    archive = current_archive()
    try:
        outcome = resolve_here(archive, wanted, ranges, addresses)
        if isinstance(outcome, Removed):
            return _removed(archive, outcome)
    except (NotReady, ConfigError) as error:
        return unready_response(error)
    if isinstance(outcome, Redirect):
        return lead_to(archive, outcome, wanted, persistent_url, addresses)
    elsewhere = _find_elsewhere(archive)
    if isinstance(outcome, Alert):
        is_missing = outcome.kind is AlertKind.MISSING
        return alert_response(outcome, elsewhere=elsewhere if is_missing else None)
    if not outcome.is_known and not looks_meant(wanted.ibi, asked_target()):
        return None
    if elsewhere is None:
        return alert_response(Alert(AlertKind.UNKNOWN, wanted.ibi), "unknown_here")
    headers = {"Location": encode_word(elsewhere), "Vary": "Accept-Language"}
    return set_headers(Response(status=302, headers=headers))


_fall_back = fall_back_to(answer_here, begins_with_ibi)


def lead_to(
    archive: ArchiveService,
    redirect: Redirect,
    wanted: PersistentUrl,
    persistent_url: str,
    addresses: tuple[str, ...],
) -> Response:
    """Lead to what is here, and count the access."""
    if is_asked(redirect.url, archive.config.archive_address):
        return alert_response(Alert(AlertKind.LOOP, wanted.ibi))
    response = redirect_response(redirect, wanted)
    if request.method == "GET":
        count_when_sent(response, archive, redirect, addresses, persistent_url)
    return response


def _removed(archive: ArchiveService, removed: Removed) -> Response:
    """Say that an item was removed: its tombstone for people, pairs for programs."""
    item = removed.item
    if prefers_page():
        response = tombstone(item)
        response.headers["Vary"] = VARY
        return response
    moment = item.record.timestamp
    alert = Alert(
        AlertKind.REMOVED,
        parse_identifier(item.record.identifiers[0]),
        (ArchiveSource(archive.served().service_ibi, archive.config.archive_address),),
        timestamp=None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}",
    )
    return alert_response(alert, elsewhere=_find_elsewhere(archive))


def _find_elsewhere(archive: ArchiveService) -> str | None:
    """Return the same persistent URL where all Archives are asked; None: that is this very host."""
    if _is_here(archive):
        return None
    return archive.config.persistent_url_base + asked_target()


def _is_here(archive: ArchiveService) -> bool:
    """Tell whether what persistent URLs begin with is this very host: to lead there would never
    end.
    """
    base = urlsplit(archive.config.persistent_url_base)
    ours = (
        (asked_host(), asked_root()),
        (archive.config.archive_address, ""),
    )
    return any(
        bare_host(base.netloc) == bare_host(host) and base.path.rstrip("/") == root
        for host, root in ours
    )


def count_when_sent(
    response: Response,
    archive: ArchiveService,
    redirect: Redirect,
    addresses: tuple[str, ...],
    persistent_url: str,
) -> None:
    """Count the access when the reader has the answer: nobody waits for it."""
    made = redirect.create_acknowledgment(addresses, persistent_url)
    if made is None:
        return
    # as it is read from the wire
    acknowledgment = parse_request(decode_query_string(format_request(made)))
    if not isinstance(acknowledgment, Acknowledgment):
        return
    agents = Agents(None, request.headers.get("User-Agent"))
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]

    def count() -> None:
        try:
            archive.take_acknowledgment(acknowledgment, agents)
        except Exception:  # the answer is out already
            app.logger.exception("an access could not be counted")

    response.call_on_close(count)
