"""Persistent URLs on an Archive's own host: redirects to the Archive's items or to the resolver."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Response, current_app, request
from werkzeug.exceptions import BadHost
from werkzeug.routing import RequestRedirect

from flask_ibi_archive.archive.accesses.acknowledgments import Agents
from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.local_resolution import (
    Removed,
    create_local_acknowledgment,
    resolve_locally,
)
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.hosts import normalize_host
from flask_ibi_archive.protocol.pairs import encode_word
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
from flask_ibi_archive.web.pages import tombstone
from flask_ibi_archive.web.persistent_urls import (
    begins_with_ibi,
    create_fallback_hook,
    is_plausible_ibi,
    refuse_registration_key,
)
from flask_ibi_archive.web.requests import (
    RESOLVER_EXTENSION,
    current_archive,
    is_message,
    is_request_url,
    request_host,
    request_root,
    request_target,
)
from flask_ibi_archive.web.responses import set_headers


def answer_persistent_url() -> Response | None:
    """Answer a persistent URL if the host has no route; a function for ``before_app_request``.

    If the app also has a resolver, the resolver answers persistent URLs. A message to the service
    of another Archive looks like a persistent URL with a query, but is not answered here.
    """
    failure = request.routing_exception
    if failure is None:
        return None
    resolves = current_archive().config.local_resolution
    others = RESOLVER_EXTENSION in current_app.extensions or is_message()
    if (others or not resolves) and not isinstance(failure, BadHost | RequestRedirect):
        return None
    return _answer_unrouted()


def resolve(
    wanted: PersistentUrl,
    persistent_url: str,
    addresses: tuple[str, ...],
    ranges: tuple[LanguageRange, ...],
) -> Response | None:
    """Answer a persistent URL with this Archive alone, or return None for a possible host page.

    If this Archive has the item, the response redirects to the item, and the access is counted as
    if the resolver had acknowledged it. Otherwise, the response redirects to the resolver.

    :param persistent_url: the requested URL, with host and port.
    :param addresses: the IP addresses of the reader, then of the proxies.
    :param ranges: the languages that the reader prefers.
    """
    if refusal := refuse_registration_key():
        return refusal
    archive = current_archive()
    try:
        outcome = resolve_locally(archive, wanted, ranges, addresses)
        if isinstance(outcome, Removed):
            return _removed_response(archive, outcome)
    except (NotReady, ConfigError) as error:
        return unready_response(error)
    if isinstance(outcome, Redirect):
        return redirect_and_count(archive, outcome, wanted, persistent_url, addresses)
    if isinstance(outcome, Alert):
        is_missing = outcome.kind is AlertKind.MISSING
        return alert_response(
            outcome, resolver_url=_find_resolver_url(archive) if is_missing else None
        )
    if not outcome.is_known and not is_plausible_ibi(wanted.ibi, request_target()):
        return None
    resolver_url = _find_resolver_url(archive)
    if resolver_url is None:
        return alert_response(Alert(AlertKind.UNKNOWN, wanted.ibi), "unknown_here")
    headers = {"Location": encode_word(resolver_url), "Vary": "Accept-Language"}
    return set_headers(Response(status=302, headers=headers))


_answer_unrouted = create_fallback_hook(resolve, begins_with_ibi)


def redirect_and_count(
    archive: ArchiveService,
    redirect: Redirect,
    wanted: PersistentUrl,
    persistent_url: str,
    addresses: tuple[str, ...],
) -> Response:
    """Return the redirect to an item of this Archive, and count the access.

    If the redirect leads to the requested URL itself, the response is an alert about the loop.
    """
    if is_request_url(redirect.url, archive.config.archive_address):
        return alert_response(Alert(AlertKind.LOOP, wanted.ibi))
    response = redirect_response(redirect, wanted)
    if request.method == "GET":
        count_after_response(response, archive, redirect, addresses, persistent_url)
    return response


def _removed_response(archive: ArchiveService, removed: Removed) -> Response:
    """Return the tombstone of an item as a page, or the alert as a list of pairs."""
    item = removed.item
    if prefers_page():
        response = tombstone(item)
        response.headers["Vary"] = VARY
        return response
    removed_at = item.record.timestamp
    alert = Alert(
        AlertKind.REMOVED,
        parse_identifier(item.record.identifiers[0]),
        (ArchiveSource(archive.served().service_ibi, archive.config.archive_address),),
        timestamp=None if removed_at is None else f"{removed_at:%Y-%m-%dT%H:%M:%SZ}",
    )
    return alert_response(alert, resolver_url=_find_resolver_url(archive))


def _find_resolver_url(archive: ArchiveService) -> str | None:
    """Return the same persistent URL at the resolver, or None if the resolver has this host.

    A redirect to this host would be an endless loop.
    """
    base = urlsplit(archive.config.persistent_url_base)
    own = ((request_host(), request_root()), (archive.config.archive_address, ""))
    for host, root in own:
        if normalize_host(base.netloc) == normalize_host(host) and base.path.rstrip("/") == root:
            return None
    return archive.config.persistent_url_base + request_target()


def count_after_response(
    response: Response,
    archive: ArchiveService,
    redirect: Redirect,
    addresses: tuple[str, ...],
    persistent_url: str,
) -> None:
    """Count the access after the response was sent, to keep the reader from waiting."""
    acknowledgment = create_local_acknowledgment(redirect, addresses, persistent_url)
    if acknowledgment is None:
        return
    agents = Agents(None, request.headers.get("User-Agent"))
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]

    def count() -> None:
        try:
            archive.take_acknowledgment(acknowledgment, agents)
        except Exception:  # the response is already sent
            app.logger.exception("an access could not be counted")

    response.call_on_close(count)
