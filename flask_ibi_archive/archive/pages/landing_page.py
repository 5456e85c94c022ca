"""Defines the views of an item: landing page, files, and tombstone.

A tombstone is the page of a removed item. The module ``routing`` registers the views.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flask import Response, current_app, request
from flask.typing import ResponseReturnValue

from flask_ibi_archive.archive.items.access import check_access, select_readable_files
from flask_ibi_archive.archive.items.pages import (
    describe_work,
    describing,
    draw_recent_months,
    list_notices,
    message,
    page,
    redirect_to,
    restricted_page,
    with_item,
)
from flask_ibi_archive.archive.pages.downloads import describe_version, send_content
from flask_ibi_archive.archive.pages.item_pages import (
    CITATION_FORMATS,
    SHOWN_FILES,
    SWATCHES,
    find_newest_edition,
    find_original_url,
    list_citations,
    name_type,
)
from flask_ibi_archive.archive.pages.machine_readable import (
    add_item_links,
    add_part_links,
    choose_format,
    describe_head,
    find_formats,
)
from flask_ibi_archive.core.protocol.query import list_candidate_paths
from flask_ibi_archive.core.records.formats.abnt import cite
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_values import name_licence
from flask_ibi_archive.server.pages.requests import current_archive, is_request_url, request_path
from flask_ibi_archive.server.pages.texts import gettext


def _no_file_page(item: ItemView, title: str) -> Response:
    advice = gettext("See the list of files or the page of the item.")
    return message(404, title, advice, item=select_readable_files(item), links_files=True)


@with_item
@describing
def landing(item: ItemView) -> ResponseReturnValue:
    """Show the landing page of an item, with a description of the item and links to its files.

    A program that prefers a metadata format to HTML is redirected to the metadata.
    """
    readable = select_readable_files(item)
    work = describe_work(readable)
    chosen = choose_format(request.accept_mimetypes, find_formats(item))
    if chosen is None:
        response = message(406, gettext("The item is not available in this form"), item=readable)
    elif chosen:
        response = redirect_to(current_archive().addresses.metadata(item, chosen), 303)
    else:
        response = landing_page(item, readable, work)
    response.vary.add("Accept")
    return add_item_links(response, readable, work)


def landing_page(
    item: ItemView, readable: ItemView, work: Work, *, shows_metadata: bool = False
) -> Response:
    """Return the landing page of an item.

    :param readable: the item without the files that the user may not read.
    :param work: the description of the readable item.
    :param shows_metadata: True to show all metadata on the page, instead of a link to them.
    """
    access = check_access(item)
    if readable.record.files:
        access = replace(access, is_allowed=True)
    counts = current_archive().count_views(item)
    return page(
        "landing",
        item=readable,
        notices=list_notices(item, access),
        work=work,
        shows_metadata=shows_metadata,
        original_url=find_original_url(item),
        type_name=name_type(work),
        newest_edition=find_newest_edition(item),
        shown_files=SHOWN_FILES,
        licence=name_licence(work.licence_url) if work.licence_url else "",
        citation=cite(work, item.today),
        citations=list_citations(readable, work),
        citation_formats=CITATION_FORMATS,
        counts=counts,
        chart=draw_recent_months(counts, item.today),
        swatches=SWATCHES,
        **describe_head(readable, replace(work, files=work.files[:SHOWN_FILES])),
    )


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
        return _no_file_page(item, gettext("The item does not have this file"))
    if found.url is not None and not is_request_url(
        found.url, current_archive().config.archive_address
    ):
        return redirect_to(found.url)
    if found.source is not None:
        name = found.path.rpartition("/")[2]
        changed = item.record.timestamp
        content = Path(found.source)
        try:
            etag = found.sha256 or describe_version(content)
            response = send_content(content, name, etag, changed, not item.is_open)
        except OSError as error:
            ibi = item.record.identifiers[0]
            current_app.logger.error(
                "the content of a file of the item %s can't be read: %s", ibi, error
            )
        else:
            url = current_archive().addresses.file(item, found.path)
            return add_part_links(response, item, "collection", url)
    text = gettext("The content of this file is not available here")
    return _no_file_page(item, text)
