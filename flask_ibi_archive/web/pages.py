"""Defines the views of an item: landing page, files, metadata, and tombstone.

A tombstone is the page of a removed item. The module ``routing`` registers the views.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path

from flask import Response, current_app, request
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException

from flask_ibi_archive.archive.viewing import ItemView, find_metadata_url
from flask_ibi_archive.errors import ConfigError, IBIError, IdentifierError, NotReady
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.pairs import encode_word
from flask_ibi_archive.protocol.query import decode_query_string, list_candidate_paths
from flask_ibi_archive.protocol.relations import Step, StepKind
from flask_ibi_archive.records.dublin_core import format_oai_dc
from flask_ibi_archive.records.record import DublinCoreMetadata, MetadataItem
from flask_ibi_archive.web.access import AccessDecision, check_access, select_readable_files
from flask_ibi_archive.web.downloads import describe_version, send_content
from flask_ibi_archive.web.requests import (
    UNKNOWN_USER,
    current_archive,
    is_request_url,
    request_path,
    user_address,
)
from flask_ibi_archive.web.responses import RETRY_AFTER, render_page, set_headers
from flask_ibi_archive.web.texts import format_day, page_language, texts

#: The name of the metadata format "Dublin Core in XML".
OAI_DC = "oai_dc"


def page(template: str, status: int = 200, **values: object) -> Response:
    """Return a page of the Archive in the reader's language.

    :param template: the name of the template.
    :param values: variables of the template.
    """
    archive = current_archive()
    return render_page(
        template,
        status,
        addresses=archive.addresses,
        persistent_url_base=archive.config.persistent_url_base,
        **values,
    )


def message(status: int, title: str, advice: str = "", **values: object) -> Response:
    """Return a page that explains an error.

    :param title: the name in :mod:`.texts` of the text that describes the error.
    :param advice: the name in :mod:`.texts` of the text that tells the reader what to do next.
    :param values: variables of the template.
    """
    return page("message", status, heading=title, advice=advice, **values)


def unavailable_page(error: IBIError) -> Response:
    """Return the page that says that the Archive is not ready, and log the reason."""
    current_app.logger.error("the Archive can't answer: %s", error)
    response = message(503, "not_ready", "not_ready_advice")
    response.headers["Retry-After"] = RETRY_AFTER
    return response


def restricted_page(item: ItemView, access: AccessDecision) -> ResponseReturnValue:
    """Return the page that says that the user has no access to an item.

    If the policy of the host has its own response, return or raise that response.
    """
    if isinstance(access.refusal, HTTPException):
        raise access.refusal
    if access.refusal is not None:
        return access.refusal
    visible = None if item.is_hidden else item
    return message(403, "restricted", item=visible, notices=list_notices(item, access))


def list_notices(item: ItemView, access: AccessDecision) -> list[str]:
    """Return the texts that say until when, and why, the user may not read the files of an item."""
    language = page_language()
    t, is_inside = texts(language), item.is_inside(user_address())
    notices = []
    if item.embargo is not None and (is_inside or not item.is_hidden):
        notices.append(t["embargo"].format(day=format_day(item.embargo, language)))
    if not access.is_allowed:
        if access.by_policy:
            notices.append(t["restricted_reader"])
        elif not is_inside:
            notices.append(t["restricted_advice"])
    return notices


def tombstone(item: ItemView) -> Response:
    """Return the page of a removed item.

    The page shows the reason of the removal and the item that replaces the removed item. For
    programs, the Link header contains the URL of the replacement (RFC 8288; RFC 5829,
    "successor-version").
    """
    is_visible = item.shows_itself(user_address())
    facts = item.record.tombstone
    instead = (facts.successor if facts else None) or item.record.next_edition
    stated_title = item.stated_title if is_visible else None
    response = page("tombstone", 410, item=item, stated_title=stated_title)
    if instead:
        url = f"{current_archive().config.persistent_url_base}/{instead}"
        response.headers["Link"] = f'<{url}>; rel="successor-version"'
    return response


def view_item(ibi: str) -> ItemView | None:
    """Return an item with the access rule for the current user.

    An access rule lists the networks whose users may read the files. An unknown user belongs to no
    network, not even to 0.0.0.0/0. For an unknown user, the access rule of the returned item lists
    no networks.

    :returns: None if the Archive does not have the item.
    """
    item = current_archive().get(ibi)
    if item is None or item.record.access is None or user_address() != UNKNOWN_USER:
        return item
    rule = replace(item.record.access, networks=())
    return replace(item, record=replace(item.record, access=rule))


def with_item(
    view: Callable[..., ResponseReturnValue],
) -> Callable[..., ResponseReturnValue]:
    """Decorate a view that needs an item.

    The decorated view finds the item with the IBI in the path, and passes the item to the view. If
    the Archive does not have the item, the decorated view returns an error page. If the item was
    removed, the decorated view returns the tombstone.
    """

    @wraps(view)
    def find_and_view(ibi: str, **rest: str) -> ResponseReturnValue:
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
            return unavailable_page(error)

    return find_and_view


@with_item
def landing(item: ItemView) -> ResponseReturnValue:
    """Show the landing page of an item, with a description of the item and links to its files."""
    access = check_access(item)
    if item.is_hidden and not access.is_allowed:
        return restricted_page(item, access)
    readable = select_readable_files(item)
    if readable.record.files:
        access = replace(access, is_allowed=True)
    return page("landing", item=readable, notices=list_notices(item, access))


@with_item
def file(item: ItemView, path: str) -> ResponseReturnValue:
    """Send a file of an item, or redirect to the server that has the file."""
    # Flask decodes the argument ``path`` as UTF-8, but a file name may have another encoding
    prefix = f"/{(request.view_args or {})['ibi']}/doc/".encode()
    raw = request_path().partition(prefix)[2]
    found = item.find_file(list_candidate_paths(raw.decode("utf-8", "surrogateescape")))
    access = check_access(item, found)
    if not access.is_allowed:
        return restricted_page(item, access)
    if found is None:
        return message(404, "no_file", "no_file_advice", item=item)
    if found.url is not None and not is_request_url(
        found.url, current_archive().config.archive_address
    ):
        return _redirect(found.url)
    if found.source is not None:
        name = found.path.rpartition("/")[2]
        is_closed = item.record.access is not None or item.embargo is not None
        changed = item.record.timestamp
        content = Path(found.source)
        try:
            etag = found.sha256 or describe_version(content)
            return send_content(content, name, etag, changed, is_closed)
        except OSError as error:
            ibi = item.record.identifiers[0]
            current_app.logger.error(
                "the content of a file of the item %s can't be read: %s", ibi, error
            )
    return message(404, "not_here", "no_file_advice", item=item)


@with_item
def files(item: ItemView) -> ResponseReturnValue:
    """Show the list of files of an item; the owner of the item can forbid the list.

    If the list is forbidden, the page says this.
    """
    access = check_access(item)
    if not access.is_allowed:
        return restricted_page(item, access)
    return page("files", item=select_readable_files(item))


@with_item
def metadata(item: ItemView) -> ResponseReturnValue:
    """Show the metadata of an item as a page; send XML if the query contains ``choice=oai_dc``.

    Networks and embargoes do not restrict the metadata of an item. The policy of the host restricts
    them if the access rule hides the description.
    """
    if item.is_hidden:
        access = check_access(item)
        if access.by_policy and not access.is_allowed:
            return restricted_page(item, access)
    # request.args would raise an exception for bytes that are not UTF-8
    choice = dict(decode_query_string(request.query_string)).get("choice") or None
    try:
        step = Step(StepKind.METADATA, choice)
    except ValueError:
        return message(404, "no_format", item=item)
    found = item.record.metadata
    if not isinstance(found, DublinCoreMetadata):
        return _linked_metadata(item, step)
    if choice is None:
        return page("metadata", item=item)
    if choice == OAI_DC:
        text = format_oai_dc(found.elements)
        return set_headers(Response(text, content_type="text/xml; charset=utf-8"))
    return message(404, "no_format", item=item)


def _linked_metadata(item: ItemView, step: Step) -> ResponseReturnValue:
    """Redirect to the metadata of an item, which are another item or have a URL."""
    archive, user = current_archive(), user_address()
    # an item that is metadata and has no metadata describes itself
    target = item if item.record.content_type == "Metadata" else None
    if isinstance(item.record.metadata, MetadataItem):
        ibi = item.record.metadata.ibi
        target = view_item(ibi)
        if target is None:
            modifier = f":({step.parameter})" if step.parameter else ""
            return _redirect(f"{archive.config.persistent_url_base}/{ibi}{modifier}")
    access = AccessDecision(True) if target is None else check_access(target)
    if target is not None and access.by_policy and not access.is_allowed:
        return restricted_page(target, access)
    # find_metadata_url would treat UNKNOWN_USER like the address of a known user
    url = None
    if access.is_allowed or user != UNKNOWN_USER:
        identifier = parse_identifier(item.record.identifiers[0])
        facts, is_open = archive.facts(), access.by_policy
        url = archive.read_catalogue(
            lambda catalogue: find_metadata_url(catalogue, facts, identifier, user, step, is_open)
        )
    if url is not None:
        return _redirect(url)
    if target is not None and not access.is_allowed:
        return restricted_page(target, access)
    return message(404, "no_format" if step.parameter else "metadata_none", item=item)


def _redirect(url: str) -> Response:
    """Redirect to a URL, in which the %XX sequences stay unchanged."""
    return set_headers(Response(status=302, headers={"Location": encode_word(url)}))
