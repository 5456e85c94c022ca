"""The views of the metadata of an item, and the links that programs find on its landing page."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from flask import Response, request
from flask.typing import ResponseReturnValue
from markupsafe import Markup

from flask_ibi_archive.archive.items import item_pages
from flask_ibi_archive.archive.items.access import (
    AccessDecision,
    HostFunctionFailed,
    cannot_write,
    check_access,
    find_refusal,
    logging_failure,
    select_readable_files,
)
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.relations import Step, StepKind
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import find_metadata_url
from flask_ibi_archive.core.records import page_head
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.core.records.formats.json_ld import write_json_ld
from flask_ibi_archive.core.records.record import (
    DublinCoreMetadata,
    ItemView,
    MetadataAddress,
    MetadataItem,
)
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.server.web import negotiation, requests, responses
from flask_ibi_archive.server.web.texts import gettext


def find_formats(item: ItemView) -> dict[str, str | None]:
    """Return the formats that have a URL of their own for this item.

    :returns: the media type of each format, by the name of the format; None if it is unknown.
    """
    known: dict[str, str | None] = {
        format.name: format.media_type for format in requests.current_archive().formats
    }
    if item.dublin_core:
        return known
    found = item.record.metadata
    names = found.formats if isinstance(found, MetadataAddress) else item.record.formats
    return {name: known.get(name) for name in names}


def negotiate(item: ItemView) -> Response | None:
    """Redirect a client that prefers metadata to a page.

    :returns: None if the client prefers a page. If it accepts nothing that the Archive has, the
        response lists what it has (406).
    """
    formats = find_formats(item)
    chosen = negotiation.choose_format(request.accept_mimetypes, formats)
    if chosen == "":
        return None
    if chosen is None:
        response = _list_forms(item, formats)
    else:
        url = requests.current_archive().addresses.metadata(item, chosen)
        response = share(item_pages.redirect_to(url, 303), item)
    response.vary.add("Accept")
    return response


def _list_forms(item: ItemView, formats: dict[str, str | None]) -> Response:
    """Return a response (406) that lists the available media types of an item with their URLs."""
    addresses = requests.current_archive().addresses
    text = f"The item {item.ibi} is not available in the requested form. It is available as:\n"
    text += f"text/html {addresses.item(item)}\n"
    for name, media_type in formats.items():
        text += f"{media_type or name} {addresses.metadata(item, name)}\n"
    return responses.set_headers(Response(text, 406, content_type="text/plain; charset=utf-8"))


def list_links(item: ItemView, work: Work) -> list[page_head.Link]:
    """Return the typed links that the landing page of an item has in its header Link.

    :param item: the item without the files that the reader may not see.
    """
    addresses = requests.current_archive().addresses
    formats = find_formats(item).items()
    metadata = {addresses.metadata(item, name): media_type for name, media_type in formats}
    return list(page_head.list_item_links(work, metadata))


def add_part_links(response: Response, item: ItemView, relation: str) -> Response:
    """Add typed links to the response with a file or metadata of an item, and return it.

    :param relation: the relation to the landing page: ``collection`` or ``describes``.
    """
    archive = requests.current_archive()
    page_url = archive.addresses.item(item)
    url = archive.persistent_url(item)
    return add_links(response, page_head.list_part_links(relation, url, page_url))


def add_links(response: Response, links: Iterable[page_head.Link]) -> Response:
    """Add a Link header to a response, and return the response."""
    response.headers.add("Link", page_head.format_link_header(links))
    return response


def describe_head(item: ItemView, work: Work) -> dict[str, Any]:
    """Return the template variables for the ``head`` element of the landing page, by name.

    :param item: the item without the files that the reader may not see.
    """
    tags: list[page_head.MetaTag] = []
    json_ld = None
    if work.dublin_core:
        tags = list(page_head.list_meta_tags(work, _find_pdf_url(item)))
        json_ld = Markup(write_json_ld(item_pages.hide_access(work), indent=None))
    return {
        # the original of a copy is in another Archive
        "canonical_url": work.url if work.state == State.COPY else work.page_url,
        "head_links": [
            link._replace(target=requests.find_path(link.target))
            if link.relation == "describedby"
            else link
            for link in list_links(item, work)
            if link.relation in ("cite-as", "describedby", "license")
        ],
        "meta_tags": tags,
        "json_ld": json_ld,
    }


def _find_pdf_url(item: ItemView) -> str | None:
    """Return the URL of a PDF that the Archive itself sends; None if there is none."""
    archive, target = requests.current_archive(), item.record.target_path
    for file in sorted(item.record.files, key=lambda file: file.path != target):
        is_here = file.url is None or requests.is_request_url(
            file.url, archive.config.archive_address
        )
        is_pdf = item_pages.find_media_type(file.path) == "application/pdf"
        if file.source is not None and is_here and is_pdf:
            return archive.addresses.file(item, file.path)
    return None


def share(response: Response, item: ItemView) -> Response:
    """Allow scripts of all sites to read a response (CORS), and return the response.

    If the response depends on the reader's network, do not allow it: another site that the reader
    visits could read what only this network may read. Browsers send no cookies with these requests.
    """
    if item.record.access is None:
        responses.allow_origins(response)
    return response


@partial(item_pages.with_item, shows_description=True)
def metadata(item: ItemView) -> ResponseReturnValue:
    """Show the metadata of an item as a page, or in the format that ``?choice=`` names.

    If the metadata are another item or on another server, redirect there. The access rule of this
    item does not apply to them.
    """
    choice = requests.read_query().get("choice") or None
    refusal = find_refusal(item)
    if choice is None and refusal is None and (chosen := negotiate(item)):
        return chosen
    format = None if choice is None else requests.current_archive().formats.get(choice)
    # resolvers do not ask for the metadata of a removed item, but readers may
    is_own = (
        isinstance(item.record.metadata, DublinCoreMetadata) or item.record.state == State.DELETED
    )
    is_listed = format is None or format.name in requests.current_archive().facts().own_formats
    # a metadata item itself has the page of its metadata, and their Dublin Core
    if not is_own and (is_listed or not item.dublin_core):
        linked = _find_linked(item, choice, format)
        if linked is not None:
            return linked
    if refusal is not None:
        return item_pages.restricted_page(item, refusal)
    if format is not None and (is_own or item.dublin_core):
        return _send_metadata(item, format)
    if is_own and choice is None:
        return _metadata_page(item)
    title = gettext("The item has no metadata in this format")
    if choice is None:
        title = gettext("The item has no metadata.")
    return item_pages.message(404, title, item=select_readable_files(item))


def _metadata_page(item: ItemView) -> Response:
    """Show the page of the metadata, or redirect to the landing page.

    If the network of the user or an embargo closes the files, the persistent URL of the item leads
    to this address. Then the user is redirected to the landing page, which states the reason, and
    which the host may have replaced by its own.
    """
    if item.record.state == State.DELETED or item.allows(requests.user_address()):
        response = responses.hide_from_search(
            item_pages.page("metadata", item=select_readable_files(item))
        )
    else:
        response = item_pages.redirect_to(requests.current_archive().addresses.item(item))
    response.vary.add("Accept")
    return add_part_links(response, item, "describes")


def _send_metadata(item: ItemView, format: MetadataFormat) -> Response:
    """Write the metadata of an item in a format; return an error page if this fails."""
    readable = select_readable_files(item)
    work = item_pages.describe_work(readable)
    try:
        with logging_failure(cannot_write(work.ibi, format.name)):
            body = item_pages.write_metadata(format, work)
    except HostFunctionFailed:
        return item_pages.message(
            500, gettext("The metadata can't be shown in this format"), item=readable
        )
    # JSON has no charset, because it is always UTF-8 (RFC 8259, 8.1)
    media_type = negotiation.choose_media_type(
        request.accept_mimetypes, format.name, format.media_type
    )
    charset = "" if media_type.endswith("json") else "; charset=utf-8"
    response = Response(body, content_type=f"{media_type}{charset}")
    response.vary.add("Accept")
    item_pages.set_file_name(response, "inline", item.ibi, f".{format.extension}")
    share(
        responses.hide_from_search(responses.make_conditional(responses.set_headers(response))),
        item,
    )
    return add_part_links(response, item, "describes")


def _find_linked(
    item: ItemView, choice: str | None, format: MetadataFormat | None
) -> ResponseReturnValue | None:
    """Redirect to metadata that this Archive does not write: in a metadata item, or at a URL.

    :param choice: the parameter ``choice`` of the request.
    :param format: the format with this name, or None.
    :returns: None if there are no such metadata, or if their URL is that of this item. Then the
        Archive writes the metadata.
    """
    try:
        step = Step(StepKind.METADATA, choice)
    except ValueError:
        return None
    archive, user = requests.current_archive(), requests.user_address()
    # an item that is metadata and has no metadata describes itself
    target, access = item, AccessDecision(True)
    if isinstance(item.record.metadata, MetadataItem):
        ibi = item.record.metadata.ibi
        other = item_pages.view_item(ibi)
        if other is None:
            modifier = f":({choice})" if choice else ""
            return item_pages.redirect_to(f"{archive.persistent_url(ibi)}{modifier}")
        target = other
    if target is not item or item.record.content_type == "Metadata":
        access = check_access(target)
    # find_metadata_url would treat UNKNOWN_USER like the address of a known user
    if not access.is_allowed and (access.by_policy or user == requests.UNKNOWN_USER):
        return item_pages.restricted_page(target, access)
    identifier = parse_identifier(item.record.identifiers[0])
    facts, is_open = archive.facts(), access.by_policy
    url = archive.read_catalogue(
        lambda catalogue: find_metadata_url(catalogue, facts, identifier, user, step, is_open)
    )
    if url is None:
        return None if access.is_allowed else item_pages.restricted_page(target, access)
    if format is not None and url == archive.addresses.metadata(item, format.name):
        return None
    return item_pages.redirect_to(url)
