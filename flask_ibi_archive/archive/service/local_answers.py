"""Answers persistent URLs on the host of an Archive.

The reader is redirected to an item of the Archive, or to the resolver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Flask, Response, current_app, request
from werkzeug.exceptions import BadHost
from werkzeug.routing import RequestRedirect

from flask_ibi_archive.archive.items.pages import tombstone
from flask_ibi_archive.archive.service.local_resolution import (
    Removed,
    answer_question,
    create_local_acknowledgment,
    resolve_locally,
)
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.hosts import normalize_host
from flask_ibi_archive.core.protocol.languages import LanguageRange
from flask_ibi_archive.core.protocol.messages import Agents
from flask_ibi_archive.core.protocol.pairs import encode_word
from flask_ibi_archive.core.resolution.answer import ArchiveSource, Question
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.server.pages.alerts import (
    VARY,
    alert_response,
    prefers_page,
    redirect_response,
    unready_response,
)
from flask_ibi_archive.server.pages.persistent_urls import (
    begins_with_ibi,
    create_fallback_hook,
    is_plausible_ibi,
    refuse_registration_key,
)
from flask_ibi_archive.server.pages.requests import (
    RESOLVER_EXTENSION,
    current_archive,
    is_message,
    is_request_url,
    request_host,
    request_root,
    request_target,
)
from flask_ibi_archive.server.pages.responses import set_headers

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


def answer_persistent_url() -> Response | None:
    """Answer a persistent URL if the app has no route for the URL.

    If the app also has a resolver, the resolver answers persistent URLs. A message to the service
    of another Archive looks like a persistent URL with a query. Such a message is not answered
    here.

    :returns: None if this function does not answer the request.
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
    """Answer a persistent URL without asking other Archives.

    If this Archive has the item, the response redirects to the item. The access is counted in the
    same way as an access that the resolver acknowledges. If this Archive does not have the item,
    the response redirects to the resolver.

    :param wanted: the parsed persistent URL.
    :param persistent_url: the complete requested URL, with host and port.
    :param addresses: the IP address of the reader, followed by the IP addresses of the proxies.
    :param ranges: the languages that the reader prefers.
    :returns: None if the URL may be a page of the host.
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
    archive: Archive,
    redirect: Redirect,
    wanted: PersistentUrl,
    persistent_url: str,
    addresses: tuple[str, ...],
) -> Response:
    """Return the redirect to an item of this Archive, and count the access.

    If the redirect leads back to the requested URL, the response is an alert about this loop.
    """
    if is_request_url(redirect.url, archive.config.archive_address):
        return alert_response(Alert(AlertKind.LOOP, wanted.ibi))
    response = redirect_response(redirect, wanted)
    if request.method == "GET":
        count_after_response(response, archive, redirect, addresses, persistent_url)
    return response


class OwnArchive:
    """The Archive of an app that may also have a resolver. The resolver asks it without HTTP.

    The object is in ``app.extensions``, so that both can be added to an app in any order.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def find_service(self) -> str | None:
        """Return the IBI of the service; None if the Archive is not ready."""
        try:
            return self._archive.served().service_ibi
        except (NotReady, ConfigError):
            return None

    def answer(
        self, question: Question, client_addresses: tuple[str, ...]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the pairs that the resolver would read from the response of the Archive.

        :raises NotReady: if the database does not respond.
        """
        return answer_question(self._archive, question, client_addresses)

    def resolve(
        self,
        wanted: PersistentUrl,
        persistent_url: str,
        addresses: tuple[str, ...],
        ranges: tuple[LanguageRange, ...],
    ) -> Response | None:
        """Return a redirect to an item of the Archive, which need not be included.

        The parameters are the same as those of :func:`resolve`.

        :returns: None if the resolver must ask all included Archives.
        """
        archive = self._archive
        if not archive.config.local_resolution or self.find_service() is None:
            return None
        try:
            outcome = resolve_locally(archive, wanted, ranges, addresses)
        except NotReady:
            return None
        except Exception:  # the other Archives may still answer
            current_app.logger.exception("the Archive of this app can't resolve %s", wanted.ibi)
            return None
        if not isinstance(outcome, Redirect):
            return None
        return redirect_and_count(archive, outcome, wanted, persistent_url, addresses)


def _removed_response(archive: Archive, removed: Removed) -> Response:
    """Return the page of a removed item for browsers, or a list of pairs for programs."""
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


def _find_resolver_url(archive: Archive) -> str | None:
    """Return the same persistent URL at the resolver.

    :returns: None if this host is also the host of the resolver. In this case, a redirect would be
        an endless loop.
    """
    base = urlsplit(archive.config.persistent_url_base)
    own = {normalize_host(host) for host in (request_host(), archive.config.archive_address)}
    if normalize_host(base.netloc) in own and base.path.rstrip("/") == request_root():
        return None
    return archive.config.persistent_url_base + request_target()


def count_after_response(
    response: Response,
    archive: Archive,
    redirect: Redirect,
    addresses: tuple[str, ...],
    persistent_url: str,
) -> None:
    """Count the access after the response is sent; the reader does not wait for the counting."""
    acknowledgment = create_local_acknowledgment(redirect, addresses, persistent_url)
    if acknowledgment is None:
        return
    agents = Agents(None, request.headers.get("User-Agent"))
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined]

    def count() -> None:
        try:
            with app.app_context():  # the catalogue of a host may need it
                archive.take_acknowledgment(acknowledgment, agents)
        except Exception:  # the response is already sent
            app.logger.exception("an access could not be counted")

    response.call_on_close(count)
