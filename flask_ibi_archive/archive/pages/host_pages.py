"""What the record page of a host gets: the head, the headers, and parts of our landing page."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from flask import Response
from flask.typing import ResponseReturnValue
from markupsafe import Markup

from flask_ibi_archive.archive.items import pages
from flask_ibi_archive.archive.items.access import find_refusal
from flask_ibi_archive.archive.items.operations.description import Identified
from flask_ibi_archive.archive.pages import item_pages, machine_readable, record_page
from flask_ibi_archive.archive.pages.record_page import Shown
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.errors import IdentifierError
from flask_ibi_archive.server.pages.requests import current_request
from flask_ibi_archive.server.pages.responses import find_static_url, render_part

#: The key of what the parts of a page share, in the WSGI environment of the request.
ONCE = "ibi.host_page"
Value = TypeVar("Value")
#: An item as a host has it: a row, an ItemView, or an identifier.
HostItem = str | Identified


def respond(item: HostItem, response: Response) -> ResponseReturnValue:
    """Return the response to a request for the page of an item; see ``IBIArchive.respond``."""
    found = _find_item(item)
    if found is None:
        return response
    if found.record.state == State.DELETED:
        return pages.tombstone(found)
    refusal = find_refusal(found)
    if refusal is not None:
        return pages.restricted_page(found, refusal)
    shown = _show(found)
    return item_pages.add_record_links(machine_readable.negotiate(found) or response, shown)


def _visible(write: Callable[[Shown], str]) -> Callable[[HostItem], Markup]:
    """Decorate a function that writes a part of a page about an item that the user may see.

    The decorated function returns nothing for a draft, and for a removed or hidden item.
    """

    @wraps(write)
    def write_if_visible(item: HostItem) -> Markup:
        found = _find_item(item)
        if found is None or found.record.state == State.DELETED or find_refusal(found) is not None:
            return Markup()
        return Markup(write(_show(found)))

    return write_if_visible


@_visible
def write_head(shown: Shown) -> str:
    """Return the elements of the ``head``: links, meta tags, JSON-LD, the style sheet."""
    values = machine_readable.describe_head(shown.readable, shown.work)
    return render_part(
        "head", stylesheet=find_static_url("ibi.css"), script=find_static_url("ibi.js"), **values
    )


@_visible
def write_citation(shown: Shown) -> str:
    """Return the box with the citation, and with the formats of reference managers."""
    return _write_part("citation", shown)


@_visible
def write_versions(shown: Shown) -> str:
    """Return the box with the editions and translations."""
    return _write_part("versions", shown)


@_visible
def write_files(shown: Shown) -> str:
    """Return the list of the files, with the ZIP file."""
    return _write_part("item_files", shown)


@_visible
def write_details(shown: Shown) -> str:
    """Return the list of all that the description states."""
    return _write_part("details", shown)


#: The functions that templates of hosts call, by name.
TEMPLATE_FUNCTIONS = {
    "ibi_head": write_head,
    "ibi_citation": write_citation,
    "ibi_versions": write_versions,
    "ibi_files": write_files,
    "ibi_details": write_details,
}


def _write_part(name: str, shown: Shown) -> str:
    def describe() -> dict[str, Any]:
        return {**pages.page_values(), **record_page.describe_parts(shown)}

    return render_part("part", name=name, **_once("parts", id(shown), describe))


def _find_item(item: HostItem) -> ItemView | None:
    """Return the item; None if it is a draft, or has no identifier yet, or is not here."""
    if isinstance(item, ItemView):
        return item
    ibi = item if isinstance(item, str) else item.ibi
    if ibi is None:
        return None
    try:
        text = parse_identifier(ibi).text
    except IdentifierError:
        return None
    return _once("item", text, lambda: pages.view_item(text))


def _show(item: ItemView) -> Shown:
    return _once("shown", id(item), lambda: record_page.show(item))


def _once(kind: str, key: object, read: Callable[[], Value]) -> Value:
    """Return a value that is read once in a request: all parts of a page use it."""
    found: dict[tuple[str, object], Value] = current_request().environ.setdefault(ONCE, {})
    if (kind, key) not in found:
        found[kind, key] = read()
    return found[kind, key]
