"""Answers persistent URLs by what the Archives answer."""

from __future__ import annotations

from flask import Response, request

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.protocol.verbs import NO_VERBS
from flask_ibi_archive.resolution.languages import LanguageRange
from flask_ibi_archive.resolution.outcome import Redirect
from flask_ibi_archive.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.resolver.own_archive import as_own, find_own_archive, lead_to_own
from flask_ibi_archive.resolver.registration_requests import service
from flask_ibi_archive.resolver.resolving import ResolutionRequest
from flask_ibi_archive.resolver.web_context import current_resolver
from flask_ibi_archive.web.alerts import alert_response, redirect_response, unready_response
from flask_ibi_archive.web.persistent_urls import refuse_registration_key


def resolve(
    wanted: PersistentUrl,
    persistent_url: str,
    addresses: tuple[str, ...],
    ranges: tuple[LanguageRange, ...],
) -> Response:
    """Lead to what a persistent URL stands for, or say why there is nothing to lead to.

    :param persistent_url: as it is acknowledged; HEAD, which nobody reads, is not.
    :param addresses: the user's, then the proxies'.
    :param ranges: the languages that the reader prefers.
    Source: [R] 6.2.
    """
    resolver = current_resolver()
    if wanted.ibi.text == resolver.config.service_ibi and _asks_for_nothing(wanted):
        return service()  # its address in another case
    if refusal := refuse_registration_key():
        return refusal
    archive = find_own_archive()
    if archive is not None and not wanted.requires_original:
        led = lead_to_own(archive, wanted, persistent_url, addresses, ranges)
        if led is not None:
            return led
    asked = ResolutionRequest(
        wanted, persistent_url, addresses, ranges, request.headers.get("User-Agent")
    )
    acknowledges = request.method == "GET"
    own = None if archive is None else as_own(archive)
    try:
        outcome = resolver.resolve(asked, acknowledges=acknowledges, own=own)
    except NotReady as error:
        return unready_response(error)
    if isinstance(outcome, Redirect):
        return redirect_response(outcome, wanted)
    return alert_response(outcome)


def _asks_for_nothing(wanted: PersistentUrl) -> bool:
    return wanted.verbs == NO_VERBS and not wanted.path
