"""Requests for persistent URLs at a resolver.

An app may have both a resolver and an Archive. If this Archive has the requested item, the app
redirects to the item immediately. Otherwise, the resolver asks all included Archives.
"""

from __future__ import annotations

from flask import Response, request

from flask_ibi_archive.core.protocol.languages import LanguageRange
from flask_ibi_archive.core.resolution.outcome import Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver.resolution_context import (
    find_own_archive,
    open_own_archive,
)
from flask_ibi_archive.resolver.resolving import ResolutionRequest
from flask_ibi_archive.resolver.service import current_resolver
from flask_ibi_archive.server.pages.alerts import (
    alert_response,
    redirect_response,
    unready_response,
)
from flask_ibi_archive.server.pages.persistent_urls import refuse_registration_key


def resolve(
    wanted: PersistentUrl,
    persistent_url: str,
    addresses: tuple[str, ...],
    ranges: tuple[LanguageRange, ...],
) -> Response:
    """Return a redirect to the requested item, or a page that explains why no item was found.

    :param wanted: the parsed persistent URL.
    :param persistent_url: the persistent URL as text. The acknowledgment contains this text. After
        a HEAD request, no acknowledgment is sent.
    :param addresses: the IP address of the user, followed by the IP addresses of the proxies.
    :param ranges: the languages that the user prefers.
    Source: [R] 6.2.
    """
    if refusal := refuse_registration_key():
        return refusal
    archive = find_own_archive()
    if archive is not None and not wanted.requires_original:
        response = archive.resolve(wanted, persistent_url, addresses, ranges)
        if response is not None:
            return response
    resolution_request = ResolutionRequest(
        wanted, persistent_url, addresses, ranges, request.headers.get("User-Agent")
    )
    try:
        outcome = current_resolver().resolve(
            resolution_request, acknowledges=request.method == "GET", own=open_own_archive()
        )
    except NotReady as error:
        return unready_response(error)
    if isinstance(outcome, Redirect):
        return redirect_response(outcome, wanted)
    return alert_response(outcome)
