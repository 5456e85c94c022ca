"""Defines the views of the metadata of an item: the page and the formats."""

from __future__ import annotations

from functools import partial

from flask import Response, request
from flask.typing import ResponseReturnValue

from flask_ibi_archive.archive.items import pages
from flask_ibi_archive.archive.items.access import (
    AccessDecision,
    cannot_write,
    check_access,
    find_refusal,
    logging_failure,
    select_readable_files,
)
from flask_ibi_archive.archive.items.viewing import find_metadata_url
from flask_ibi_archive.archive.pages.machine_readable import (
    add_part_links,
    negotiate,
    share,
)
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.relations import Step, StepKind
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.record import DublinCoreMetadata, MetadataItem
from flask_ibi_archive.errors import HostFunctionFailed
from flask_ibi_archive.server.pages.negotiation import choose_media_type
from flask_ibi_archive.server.pages.requests import (
    UNKNOWN_USER,
    current_archive,
    read_query,
    user_address,
)
from flask_ibi_archive.server.pages.responses import (
    hide_from_search,
    make_conditional,
    set_headers,
)
from flask_ibi_archive.server.pages.texts import gettext


@partial(pages.with_item, shows_description=True)
def metadata(item: ItemView) -> ResponseReturnValue:
    """Show the metadata of an item as a page, or in the format that ``?choice=`` names.

    If the metadata are another item or on another server, the access rule of this item does not
    apply to them.
    """
    choice = read_query().get("choice") or None
    if choice is None and find_refusal(item) is None and (chosen := negotiate(item)):
        return chosen
    try:
        step = Step(StepKind.METADATA, choice)
    except ValueError:
        return _no_metadata_page(item, choice)
    format = None if choice is None else current_archive().formats.get(choice)
    # resolvers do not ask for the metadata of a removed item, but readers may
    is_own = (
        isinstance(item.record.metadata, DublinCoreMetadata) or item.record.state == State.DELETED
    )
    is_listed = format is None or format.name in current_archive().facts().own_formats
    # a metadata item itself has the page of its metadata, and their Dublin Core
    if not is_own and (is_listed or not item.dublin_core):
        return _linked_metadata(item, step, format)
    if choice is None:
        return _metadata_page(item)
    if format is None:
        return _no_metadata_page(item, choice)
    return _send_metadata(item, format)


@pages.describing
def _no_metadata_page(item: ItemView, choice: str | None) -> Response:
    in_format = gettext("The item has no metadata in this format")
    title = in_format if choice else gettext("The item has no metadata.")
    return pages.message(404, title, item=select_readable_files(item))


@pages.describing
def _metadata_page(item: ItemView) -> Response:
    """Return the page of the metadata.

    If the network of the user or an embargo closes the files, the persistent URL of the item leads
    to this address. Then the user is redirected to the landing page, which states the reason, and
    which the host may have replaced by its own.
    """
    if item.record.state == State.DELETED or item.allows(user_address()):
        response = hide_from_search(pages.page("metadata", item=select_readable_files(item)))
    else:
        response = pages.redirect_to(current_archive().addresses.item(item))
    response.vary.add("Accept")
    return add_part_links(response, item, "describes")


@pages.describing
def _send_metadata(item: ItemView, format: MetadataFormat) -> Response:
    """Return the metadata of an item in a format; an error page if the format can't be written."""
    readable = select_readable_files(item)
    work = pages.describe_work(readable)
    try:
        with logging_failure(cannot_write(work.ibi, format.name)):
            body = pages.write_metadata(format, work)
    except HostFunctionFailed:
        return pages.message(
            500, gettext("The metadata can't be shown in this format"), item=readable
        )
    # JSON has no charset, because it is always UTF-8 (RFC 8259, 8.1)
    media_type = choose_media_type(request.accept_mimetypes, format.name, format.media_type)
    charset = "" if media_type.endswith("json") else "; charset=utf-8"
    response = Response(body, content_type=f"{media_type}{charset}")
    response.vary.add("Accept")
    pages.set_file_name(response, "inline", item.ibi, f".{format.extension}")
    share(hide_from_search(make_conditional(set_headers(response))), item)
    return add_part_links(response, item, "describes")


def _linked_metadata(
    item: ItemView, step: Step, format: MetadataFormat | None
) -> ResponseReturnValue:
    """Redirect to the metadata of an item that are another item or have a URL.

    If these metadata have no URL in the format, the Archive writes their Dublin Core.
    """
    archive, user = current_archive(), user_address()
    # an item that is metadata and has no metadata describes itself
    target = item if item.record.content_type == "Metadata" else None
    if isinstance(item.record.metadata, MetadataItem):
        ibi = item.record.metadata.ibi
        target = pages.view_item(ibi)
        if target is None:
            modifier = f":({step.parameter})" if step.parameter else ""
            return pages.redirect_to(f"{archive.config.persistent_url_base}/{ibi}{modifier}")
    access = AccessDecision(True) if target is None else check_access(target)
    if target is not None and access.by_policy and not access.is_allowed:
        return pages.restricted_page(target, access)
    # find_metadata_url would treat UNKNOWN_USER like the address of a known user
    url = None
    if access.is_allowed or user != UNKNOWN_USER:
        identifier = parse_identifier(item.record.identifiers[0])
        facts, is_open = archive.facts(), access.by_policy
        url = archive.read_catalogue(
            lambda catalogue: find_metadata_url(catalogue, facts, identifier, user, step, is_open)
        )
    if format is not None and url == archive.addresses.metadata(item, format.name):
        return _send_metadata(item, format)
    if url is not None:
        return pages.redirect_to(url)
    if target is not None and not access.is_allowed:
        return pages.restricted_page(target, access)
    if format is not None and item.dublin_core:
        return _send_metadata(item, format)
    return _no_metadata_page(item, step.parameter)
