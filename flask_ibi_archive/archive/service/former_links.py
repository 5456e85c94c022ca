"""Answers links that are older than the Archive: foreign identifiers and former addresses.

The aliases of an item (the field ``same_as``) lead to the item as its persistent URL does.
"""

from __future__ import annotations

from dataclasses import replace

from flask import Response, current_app, request
from werkzeug.exceptions import NotFound

from flask_ibi_archive.archive.service.local_resolution import resolve
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.hosts import normalize_host
from flask_ibi_archive.core.protocol.languages import parse_accept_language
from flask_ibi_archive.core.resolution.former_links import find_former_links, is_named
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_target
from flask_ibi_archive.errors import ConfigError, MalformedPersistentUrl, NotReady
from flask_ibi_archive.server.pages import alerts
from flask_ibi_archive.server.pages.negotiation import add_metadata_step
from flask_ibi_archive.server.pages.persistent_urls import RESOLVE, Resolve, is_plausible_ibi
from flask_ibi_archive.server.pages.requests import (
    RESOLVER_EXTENSION,
    current_archive,
    is_message,
    request_addresses,
    request_host,
    request_origin,
    request_root,
    request_target,
)


def answer_unrouted_link() -> Response | None:
    """Answer a former link if the app has no route for it, or only one for all paths.

    With a route for all paths, the pages of the app have precedence over former addresses at the
    same host.

    :returns: None if the app answers the request.
    """
    failure = request.routing_exception
    if failure is None:
        is_meant = is_named(request_target()) or _is_former_host()
        return answer_former_link() if is_meant else None
    if type(failure) is not NotFound or _is_for_resolver():
        return None
    failure.__traceback__ = failure.__context__ = None  # as in create_fallback_hook()
    return answer_former_link()


def answer_former_link() -> Response | None:
    """Answer a foreign identifier or a former address, whatever route the app has for it.

    The response is that to the persistent URL of the item.

    :returns: None if no item of this Archive has this alias.
    """
    archive = current_archive()
    if not archive.config.local_resolution or is_message():
        return None
    target = request_target()
    links = find_former_links(target, _list_bases())
    if not links:
        return None
    aliases = [link.alias for link in links]
    is_meant = is_named(target) or _is_former_host()
    try:
        # a page of the app that does not exist must not wait for the database
        if not (is_meant or archive.config.former_hosts or archive.items.may_have_addresses()):
            return None
        found = archive.database.read(
            lambda connection: archive.items.find_by_alias(connection, aliases)
        )
    except (NotReady, ConfigError) as error:
        return alerts.unready_response(error) if is_meant else None
    if found is None:
        return None
    if request.method not in ("GET", "HEAD"):
        return alerts.method_response()
    alias, ibi = found
    link = links[aliases.index(alias)]
    answer: Resolve = current_app.extensions.get(RESOLVE, resolve)
    return answer(
        add_metadata_step(replace(link.wanted, ibi=parse_identifier(ibi))),
        f"{request_origin()}/{ibi}{link.rest}",
        request_addresses(),
        parse_accept_language(",".join(request.headers.getlist("Accept-Language"))),
    )


def _is_former_host() -> bool:
    return normalize_host(request_host()) in current_archive().config.former_hosts


def _list_bases() -> list[str]:
    """Return what precedes the target in addresses of this request.

    A proxy may add the path under which the app is mounted to the path of a former address.

    :returns: no text if the host is neither that of the Archive nor a former one.
    """
    host = normalize_host(request_host())
    if host != normalize_host(current_archive().config.archive_address) and not _is_former_host():
        return []
    return [f"http://{host}{root}" for root in sorted({"", request_root()})]


def _is_for_resolver() -> bool:
    """Return whether the resolver of the same app answers, since the URL is a persistent URL."""
    if RESOLVER_EXTENSION not in current_app.extensions:
        return False
    target = request_target()
    try:
        return is_plausible_ibi(parse_persistent_target(target).ibi, target)
    except MalformedPersistentUrl:
        return False
