"""Redirects foreign identifiers and former addresses to the Archive that claims them.

Archives that know the text of 2015 alone are not asked about them, so only claims tell where an
item with an alias is. The Archive then leads to the item (archive/service/former_links.py).
Source: federation FI-4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from flask import Response, request

from flask_ibi_archive.core.identifiers.foreign import ForeignKind
from flask_ibi_archive.core.protocol.hosts import normalize_host
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.former_links import (
    FormerLink,
    find_former_links,
    is_at_host,
    is_named,
)
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_target
from flask_ibi_archive.errors import MalformedPersistentUrl, NotReady
from flask_ibi_archive.resolver.archives import ArchiveList, Known
from flask_ibi_archive.server.pages.alerts import (
    alert_response,
    method_response,
    unready_response,
)
from flask_ibi_archive.server.pages.requests import (
    current_resolver,
    request_host,
    request_root,
    request_target,
)


def answer_former_link() -> Response | None:
    """Answer a foreign identifier, or a former address that is no persistent URL.

    :returns: a redirect to the same link at the Archive that claims it, 404 for a foreign
        identifier that nobody claims, or None for another URL.
    """
    target = request_target()
    is_meant = is_named(target)
    if not is_meant and _is_persistent_url(target):
        return None
    resolver = current_resolver()
    # a former address is asked for at its own host, but never at that of the resolver; without
    # SERVER_NAME, each host may be that of the resolver
    own_host = resolver.config.server_name or request_host()
    links = [
        link
        for link in find_former_links(target, [] if is_meant else [_find_base()])
        if not is_at_host(str(link.alias), own_host)
    ]
    if not links:
        return None
    names = [link.alias.folded for link in links]
    try:
        archives, known = resolver.database.read(
            lambda connection: resolver.archive_list.read(connection, names, [""] * len(names))
        )
    except NotReady as error:
        return unready_response(error) if is_meant else None
    location = _find_location(links, archives, known, target)
    if location is None and not is_meant:
        return None
    if request.method not in ("GET", "HEAD"):
        return method_response()
    if location is None:
        return _report_unknown(_find_bare_alias(links))
    return Response(status=302, headers={"Location": location, "Cache-Control": "private"})


def find_written_link(target: str) -> str | None:
    """Return the foreign identifier or the former address that is written in a malformed target.

    The identifier may be malformed. The result is None if there is neither.
    """
    if is_named(target):
        return unquote(target.partition("?")[0].lstrip("/"))
    links = find_former_links(target, [])
    return str(links[0].alias) if links else None


def _is_persistent_url(target: str) -> bool:
    try:
        parse_persistent_target(target)
    except MalformedPersistentUrl:
        return False
    return True


def _report_unknown(alias: str) -> Response:
    current_resolver().hint_writer.add_failed_url(alias, AlertKind.UNKNOWN.value)
    return alert_response(Alert(AlertKind.UNKNOWN, None, alias=alias))


def _find_bare_alias(links: Sequence[FormerLink]) -> str:
    """Return the alias that was probably meant: the longest without a modifier behind it."""
    aliases = [str(link.alias) for link in links]
    return next((alias for alias in aliases if "!" not in alias and "+" not in alias), aliases[0])


def _find_base() -> str:
    """Return what precedes the target in the address of this request."""
    return f"http://{normalize_host(request_host())}{request_root()}"


def _find_location(
    links: Sequence[FormerLink], archives: ArchiveList, known: Mapping[str, Known], target: str
) -> str | None:
    """Return the address of the first link that an Archive claims, at this Archive."""
    for link in links:
        if claimants := known[link.alias.folded].claimants:
            best = claimants[0]
            moved_to = best.original_id if best.state is State.DELETED else None
            place = f"http://{archives.archives[moved_to or best.archive_id].address}"
            if link.alias.kind is ForeignKind.ADDRESS:
                return f"{place}/{link.alias}{link.rest}"
            return place + target
    return None
