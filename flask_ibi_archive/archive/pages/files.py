"""Defines the views of the files of an item: the list of the files, and a file itself."""

from __future__ import annotations

import json
from pathlib import Path

from flask import Response, current_app, request
from flask.typing import ResponseReturnValue

from flask_ibi_archive.archive.items import item_pages
from flask_ibi_archive.archive.items.access import check_access, select_readable_files
from flask_ibi_archive.archive.pages.metadata import add_part_links, find_formats, negotiate, share
from flask_ibi_archive.archive.service.downloads import describe_version, send_content
from flask_ibi_archive.core.protocol.pairs import list_candidate_paths
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.server.web import negotiation, requests
from flask_ibi_archive.server.web.responses import hide_from_search, set_headers
from flask_ibi_archive.server.web.texts import gettext, set_language

#: The maximum number of files on a page.
LISTED_FILES = 100
#: The forms of the list, and their media types. The first form is the default.
FORMS = {"html": "text/html", "text": "text/plain", "json": "application/json"}


@item_pages.with_item
def files(item: ItemView) -> ResponseReturnValue:
    """Show the list of the files of an item, as a page, as text or as JSON.

    Long lists are divided into several pages. Text and JSON contain the complete list. If the owner
    of the item does not want the list to be shown, the answer says so.
    """
    access = check_access(item)
    if not access.is_allowed:
        return item_pages.restricted_page(item, access)
    readable = select_readable_files(item)
    form = _choose_form()
    if form is None:
        return item_pages.message(400, gettext("The list of files has no such form"), item=readable)
    response = _files_page(readable) if form == "html" else _send_list(readable, form)
    response.vary.add("Accept")
    return response


def _choose_form() -> str | None:
    """Return the format of the list: that of the parameter ``format``, or what the client accepts.

    :returns: None if the parameter has a wrong value.
    """
    stated = requests.read_query().get("format")
    if stated is not None:
        return stated if stated in FORMS else None
    types = list(FORMS.values())
    best = request.accept_mimetypes.best_match(types, types[0])
    return next(name for name, kind in FORMS.items() if kind == best)


def _files_page(item: ItemView) -> Response:
    count = len(item.record.files)
    numbers = {str(number + 1): number for number in range(-(-count // LISTED_FILES) or 1)}
    number = numbers.get(requests.read_query().get("page", "1"))
    if number is None:
        title = gettext("The list of files has no such page")
        return item_pages.message(404, title, item=item, links_files=True)
    first = number * LISTED_FILES
    shown = item.record.files[first : first + LISTED_FILES]
    return item_pages.page(
        "files", item=item, files=shown, first=first, number=number + 1, pages=len(numbers)
    )


def _send_list(item: ItemView, form: str) -> Response:
    """Return the complete list of the files of an item as text or JSON.

    If the list is not public, say so instead: in text, as a comment (text/uri-list, RFC 2483, 5);
    in JSON, as a message.
    """
    work = item_pages.describe_work(item)
    refusal = None
    if not item.record.list_files:
        refusal = gettext("The owner of the item does not allow its list of files to be shown.")
    if form == "text":
        lines = [f"# {refusal}"] if refusal else [file.url for file in work.files]
        text = "".join(f"{line}\n" for line in lines)
        response = Response(text, content_type="text/plain; charset=utf-8")
    else:
        listed = [
            {"name": file.name, "url": file.url, "type": file.media_type, "size": file.size}
            for file in work.files
        ]
        answer = {"files": None, "message": refusal} if refusal else {"files": listed}
        body = json.dumps({"ibi": work.ibi, **answer}, ensure_ascii=False, indent=2)
        response = Response(body, content_type="application/json")
    if refusal:
        set_language(response)
    return share(hide_from_search(set_headers(response)), item)


def _no_file_page(item: ItemView, title: str) -> Response:
    advice = gettext("See the list of files or the page of the item.")
    return item_pages.message(
        404, title, advice, item=select_readable_files(item), links_files=True
    )


@item_pages.with_item
def file(item: ItemView, path: str) -> ResponseReturnValue:
    """Send a file of an item, or redirect to the server that has the file.

    If the item has only one file, a persistent URL leads here. Therefore a program that accepts
    metadata, and not the type of the file, is redirected to the metadata.
    """
    # Flask decodes the argument ``path`` as UTF-8, but a file name may have another encoding
    prefix = f"/{(request.view_args or {})['ibi']}/doc/".encode()
    raw = requests.request_path().partition(prefix)[2]
    found = item.find_file(list_candidate_paths(raw.decode("utf-8", "surrogateescape")))
    access = check_access(item, found)
    if not access.is_allowed:
        return item_pages.restricted_page(item, access)
    if found is None:
        return _no_file_page(item, gettext("The item does not have this file"))
    file_type, formats = item_pages.find_media_type(found.path), find_formats(item)
    if negotiation.prefers_metadata(request.accept_mimetypes, file_type, formats):
        page_url = requests.current_archive().addresses.item(item)
        return negotiate(item) or item_pages.redirect_to(page_url, 303)
    if found.url is not None and not requests.is_request_url(
        found.url, requests.current_archive().config.archive_address
    ):
        return item_pages.redirect_to(found.url)
    if found.source is not None:
        name = found.path.rpartition("/")[2]
        changed = item.record.timestamp
        content = Path(found.source)
        try:
            etag = found.sha256 or describe_version(content)
            response = send_content(content, name, etag, changed, not item.is_open)
        except OSError as error:
            text = "the content of a file of the item %s can't be read: %s"
            current_app.logger.error(text, item.record.identifiers[0], error)
        else:
            response.vary.add("Accept")
            return add_part_links(response, item, "collection")
    text = gettext("The content of this file is not available here")
    return _no_file_page(item, text)
