"""What programs find at the landing page of an item: typed links, meta tags, other formats.

A program that prefers a metadata format to HTML is redirected to the metadata in this format. If
the landing page answered with the metadata itself, it would also need the access rules and the
caching of the metadata pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import Response, request
from markupsafe import Markup

from flask_ibi_archive.archive.items.pages import find_media_type, hide_access, redirect_to
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import page_head
from flask_ibi_archive.core.records.formats.json_ld import write_json_ld
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.page_head import list_meta_tags
from flask_ibi_archive.core.records.record import MetadataAddress
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.server.pages.negotiation import choose_format
from flask_ibi_archive.server.pages.requests import current_archive, is_request_url
from flask_ibi_archive.server.pages.responses import allow_origins, set_headers

PDF = "application/pdf"


def find_formats(item: ItemView) -> dict[str, str | None]:
    """Return the formats in which the metadata of an item have an address.

    :returns: the media type of each format by name; None if the media type is unknown.
    """
    known: dict[str, str | None] = {
        format.name: format.media_type for format in current_archive().formats
    }
    if item.dublin_core:
        return known
    found = item.record.metadata
    names = found.formats if isinstance(found, MetadataAddress) else item.record.formats
    return {name: known.get(name) for name in names}


def negotiate(item: ItemView) -> Response | None:
    """Return the redirect to the metadata that the client prefers to a page.

    :returns: None if the client prefers a page. If it accepts nothing that the Archive has, the
        response lists what it has (406).
    """
    formats = find_formats(item)
    chosen = choose_format(request.accept_mimetypes, formats)
    if chosen == "":
        return None
    if chosen is None:
        response = _list_forms(item, formats)
    else:
        url = current_archive().addresses.metadata(item, chosen)
        response = share(redirect_to(url, 303), item)
    response.vary.add("Accept")
    return response


def _list_forms(item: ItemView, formats: dict[str, str | None]) -> Response:
    """Return the media types in which an item is available, and their addresses (406)."""
    addresses = current_archive().addresses
    lines = [f"The item {item.ibi} is not available in the requested form. It is available as:"]
    lines.append(f"text/html {addresses.item(item)}")
    lines += [
        f"{media_type or name} {addresses.metadata(item, name)}"
        for name, media_type in formats.items()
    ]
    text = "".join(f"{line}\n" for line in lines)
    return set_headers(Response(text, 406, content_type="text/plain; charset=utf-8"))


def list_descriptions(item: ItemView) -> tuple[page_head.Description, ...]:
    """Return the addresses of the metadata of an item in all formats."""
    addresses = current_archive().addresses
    return tuple(
        page_head.Description(addresses.metadata(item, name), media_type)
        for name, media_type in find_formats(item).items()
    )


def add_item_links(response: Response, item: ItemView, work: Work) -> Response:
    """Add the typed links of an item to its landing page, and return the response."""
    return add_links(response, page_head.list_item_links(work, list_descriptions(item)))


def add_part_links(response: Response, item: ItemView, relation: str) -> Response:
    """Add the typed links of a file or of metadata of an item, and return the response.

    :param relation: the relation to the landing page: ``collection`` or ``describes``.
    """
    archive = current_archive()
    persistent_url = f"{archive.config.persistent_url_base}/{item.ibi}"
    page_url = archive.addresses.item(item)
    return add_links(response, page_head.list_part_links(relation, persistent_url, page_url))


def add_links(response: Response, links: Iterable[page_head.Link]) -> Response:
    """Add a Link header to a response, and return the response."""
    response.headers.add("Link", page_head.format_link_header(links))
    return response


def describe_head(item: ItemView, work: Work) -> dict[str, Any]:
    """Return the variables for the ``head`` element of the landing page.

    :param item: the item without the files that the reader may not see.
    """
    is_described = bool(work.dublin_core)
    return {
        # the original of a copy is in another Archive
        "canonical_url": work.url if work.state == State.COPY else work.page_url,
        "head_links": [
            link
            for link in page_head.list_item_links(work, list_descriptions(item))
            if link.relation in ("cite-as", "describedby", "license")
        ],
        "meta_tags": list(list_meta_tags(work, _find_pdf_url(item))) if is_described else [],
        "json_ld": Markup(write_json_ld(hide_access(work), indent=None)) if is_described else None,
    }


def _find_pdf_url(item: ItemView) -> str | None:
    """Return the URL of a PDF that the Archive itself sends; None if there is none."""
    archive, target = current_archive(), item.record.target_path
    for file in sorted(item.record.files, key=lambda file: file.path != target):
        is_here = file.url is None or is_request_url(file.url, archive.config.archive_address)
        if file.source is not None and is_here and find_media_type(file.path) == PDF:
            return archive.addresses.file(item, file.path)
    return None


def share(response: Response, item: ItemView) -> Response:
    """Let programs in browsers read a response from any site, and return the response (CORS).

    What depends on the reader's network is not shared: another site that the reader visits could
    read it. Browsers send no cookies with these requests.
    """
    if item.record.access is None:
        allow_origins(response)
    return response
