"""What people see of an item: its page, its files, its metadata."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path

from flask import Response, current_app, request

from flask_ibi_archive.archive.viewing import ItemView, find_metadata_url
from flask_ibi_archive.errors import ConfigError, IBIError, IdentifierError, NotReady
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.pairs import encode_word
from flask_ibi_archive.protocol.paths import path_candidates
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.protocol.relations import Step, StepKind
from flask_ibi_archive.records.dublin_core import format_oai_dc
from flask_ibi_archive.records.record import DublinCoreMetadata, MetadataItem
from flask_ibi_archive.web.context import current_archive
from flask_ibi_archive.web.downloads import send_content
from flask_ibi_archive.web.requests import (
    UNKNOWN_USER,
    is_request_url,
    request_path,
    user_address,
)
from flask_ibi_archive.web.responses import RETRY_AFTER, render_page, set_headers

OAI_DC = "oai_dc"


def page(template: str, status: int = 200, **values: object) -> Response:
    """Return a page about something of the Archive, in the reader's language."""
    archive = current_archive()
    return render_page(
        template,
        status,
        addresses=archive.addresses,
        persistent_url_base=archive.config.persistent_url_base,
        **values,
    )


def message(status: int, title: str, advice: str = "", **values: object) -> Response:
    """Return a page that says why there is nothing else to show, and what to do next."""
    return page("message", status, title=title, advice=advice, **values)


def view_item(ibi: str) -> ItemView | None:
    """Return an item as the current user may see it; None if the Archive has no such item.

    An unknown user is outside every network that an access rule allows, even 0.0.0.0/0.
    """
    item = current_archive().view(ibi)
    if item is None or item.record.access is None or user_address() != UNKNOWN_USER:
        return item
    closed = replace(item.record.access, networks=())
    return replace(item, record=replace(item.record, access=closed))


def of_item(view: Callable[..., Response]) -> Callable[..., Response]:
    """Look up the item that a path names; answer in the view's place where there is nothing to see."""

    @wraps(view)
    def look_up(ibi: str, **rest: str) -> Response:
        try:
            text = parse_identifier(ibi).text
        except IdentifierError as error:
            return message(404, "no_item", "no_item_advice", ibi=error.suggestion)
        try:
            item = view_item(text)
            if item is None:
                return message(404, "no_item", "no_item_advice", ibi=text)
            if item.record.state == "Deleted":
                return tombstone(item)
            return view(item, **rest)
        except (NotReady, ConfigError) as error:
            return unavailable(error)

    return look_up


def unavailable(error: IBIError) -> Response:
    """Say that the Archive can't answer now; why is for its log alone."""
    current_app.logger.error("the Archive can't answer: %s", error)
    response = message(503, "not_ready", "not_ready_advice")
    response.headers["Retry-After"] = RETRY_AFTER
    return response


def tombstone(item: ItemView) -> Response:
    """Say that an item was removed, why, and what to read instead.

    Programs find the latter in a Link header (RFC 8288; "successor-version" is RFC 5829's).
    """
    shown = item.shows_itself(user_address())
    left = item.record.tombstone
    instead = (left.successor if left else None) or item.record.next_edition
    response = page("tombstone", 410, item=item, title=item.stated_title if shown else None)
    if instead:
        url = f"{current_archive().config.persistent_url_base}/{instead}"
        response.headers["Link"] = f'<{url}>; rel="successor-version"'
    return response


def restricted(item: ItemView) -> Response:
    """Answer a user from outside the networks that may have an item."""
    shown = item if item.shows_itself(user_address()) else None
    return message(403, "restricted", "restricted_advice", item=shown)


@of_item
def landing(item: ItemView) -> Response:
    """Show what an item is and lead to its files."""
    user = user_address()
    if not item.shows_itself(user):
        return restricted(item)
    return page("landing", item=item, open=item.allows(user))


@of_item
def file(item: ItemView, path: str) -> Response:
    """Send a file of an item, or lead to where it is served."""
    if not item.allows(user_address()):
        return restricted(item)
    # the bytes of the path as they came: a name may be in another encoding than UTF-8
    before = f"/{(request.view_args or {})['ibi']}/doc/".encode()
    raw = request_path().partition(before)[2]
    found = item.find_file(path_candidates(raw.decode("utf-8", "surrogateescape")))
    if found is None:
        return message(404, "no_file", "no_file_advice", item=item)
    if found.url is not None and not is_request_url(
        found.url, current_archive().config.archive_address
    ):
        return _lead_to(found.url)
    if found.source is not None and found.sha256 is not None:
        name = found.path.rpartition("/")[2]
        closed = item.record.access is not None
        try:
            changed = item.record.timestamp
            return send_content(Path(found.source), name, found.sha256, changed, closed)
        except OSError as error:
            ibi = item.record.identifiers[0]
            current_app.logger.error("the content of a file of %s can't be read: %s", ibi, error)
    return message(404, "not_here", "no_file_advice", item=item)


@of_item
def files(item: ItemView) -> Response:
    """List the files of an item, unless its owner forbids it."""
    if not item.allows(user_address()):
        return restricted(item)
    return page("files", item=item)


@of_item
def metadata(item: ItemView) -> Response:
    """Show the metadata of an item, in free form or (``choice=oai_dc``) in a format."""
    # not request.args, which raises an exception at bytes that are no UTF-8
    choice = dict(decode_query_string(request.query_string)).get("choice") or None
    try:
        step = Step(StepKind.METADATA, choice)
    except ValueError:
        return message(404, "no_format", item=item)
    found = item.record.metadata
    if isinstance(found, DublinCoreMetadata):
        if choice is None:
            return page("metadata", item=item)
        if choice == OAI_DC:
            text = format_oai_dc(found.elements)
            return set_headers(Response(text, content_type="text/xml; charset=utf-8"))
        return message(404, "no_format", item=item)
    archive, user = current_archive(), user_address()
    # an item that is metadata and has none of its own is its own metadata
    described = item if item.record.content_type == "Metadata" else None
    if isinstance(found, MetadataItem):
        described = view_item(found.ibi)
        if described is None:
            modifier = f":({choice})" if choice else ""
            return _lead_to(f"{archive.config.persistent_url_base}/{found.ibi}{modifier}")
    if described is not None and user == UNKNOWN_USER and not described.allows(user):
        # a URL list would take the address for one that a rule may allow
        return restricted(described)
    ibi = parse_identifier(item.record.identifiers[0])
    url = find_metadata_url(archive.database, archive.served().id, archive.facts(), ibi, user, step)
    if url is not None:
        return _lead_to(url)
    if described is not None and not described.allows(user):
        return restricted(described)
    return message(404, "no_format" if choice else "metadata_none", item=item)


def _lead_to(url: str) -> Response:
    """Redirect to a URL, which is sent as URL lists give it: its %XX may be in any encoding."""
    return set_headers(Response(status=302, headers={"Location": encode_word(url)}))
