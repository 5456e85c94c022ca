"""Defines the view of the list of files of an item: a page, text, or JSON."""

from __future__ import annotations

import json

from flask import Response, request
from flask.typing import ResponseReturnValue

from flask_ibi_archive.archive.items.access import check_access, select_readable_files
from flask_ibi_archive.archive.items.pages import (
    describe_work,
    message,
    page,
    restricted_page,
    with_item,
)
from flask_ibi_archive.archive.pages.item_pages import SHOWN_FILES
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.server.pages.requests import read_query
from flask_ibi_archive.server.pages.responses import set_headers
from flask_ibi_archive.server.pages.texts import gettext, set_language

#: The forms of the list, and their media types. The first form is the default.
FORMS = {"html": "text/html", "text": "text/plain", "json": "application/json"}


@with_item
def files(item: ItemView) -> ResponseReturnValue:
    """Show the list of files of an item. The page has parts, the other forms are complete.

    The owner of the item can forbid the list. Then each form says this.
    """
    access = check_access(item)
    if not access.is_allowed:
        return restricted_page(item, access)
    readable = select_readable_files(item)
    form = _choose_form()
    if form is None:
        return message(400, gettext("The list of files has no such form"), item=readable)
    response = _files_page(readable) if form == "html" else _send_list(readable, form)
    response.vary.add("Accept")
    return response


def _choose_form() -> str | None:
    """Return the form of the list: the parameter ``format``, or what the client accepts.

    :returns: None if the parameter has a wrong value.
    """
    stated = read_query().get("format")
    if stated is not None:
        return stated if stated in FORMS else None
    types = list(FORMS.values())
    best = request.accept_mimetypes.best_match(types, types[0])
    return next(name for name, kind in FORMS.items() if kind == best)


def _files_page(item: ItemView) -> Response:
    count = len(item.record.files)
    pages = {str(number + 1): number for number in range(-(-count // SHOWN_FILES) or 1)}
    number = pages.get(read_query().get("page", "1"))
    if number is None:
        title = gettext("The list of files has no such page")
        return message(404, title, item=item, links_files=True)
    first = number * SHOWN_FILES
    shown = item.record.files[first : first + SHOWN_FILES]
    return page("files", item=item, files=shown, first=first, number=number + 1, pages=len(pages))


def _send_list(item: ItemView, form: str) -> Response:
    """Return the complete list of the files of an item as text or JSON.

    If the list is not public, the text is a comment as in text/uri-list (RFC 2483, 5), and JSON
    contains a message instead of files.
    """
    work = describe_work(item)
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
        found = {"files": None, "message": refusal} if refusal else {"files": listed}
        body = json.dumps({"ibi": work.ibi, **found}, ensure_ascii=False, indent=2)
        response = Response(body, content_type="application/json")
    if refusal:
        set_language(response)
    return set_headers(response)
