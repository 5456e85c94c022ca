"""Defines the views of an item: landing page, list of files, files, tombstone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from flask import Response, current_app, request
from flask.typing import ResponseReturnValue
from markupsafe import Markup
from msgspec import structs

from flask_ibi_archive.archive.items import pages
from flask_ibi_archive.archive.items.access import (
    AccessDecision,
    cannot_write,
    check_access,
    find_refusal,
    logging_failure,
    select_readable_files,
)
from flask_ibi_archive.archive.items.operations import Identified
from flask_ibi_archive.archive.pages import labels
from flask_ibi_archive.archive.pages import metadata as machine_readable
from flask_ibi_archive.archive.pages import zip as zip_files
from flask_ibi_archive.archive.service.downloads import describe_version, send_content
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.query_strings import list_candidate_paths
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.description import AccessRight, Name, Organisation, Text
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.core.records.formats.abnt import cite
from flask_ibi_archive.core.records.record import ItemView, RelatedItem
from flask_ibi_archive.core.records.values import name_licence
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, format_persistent_target
from flask_ibi_archive.errors import HostFunctionFailed, IdentifierError
from flask_ibi_archive.server.pages.negotiation import prefers_metadata
from flask_ibi_archive.server.pages.requests import (
    current_archive,
    current_request,
    is_request_url,
    read_query,
    request_path,
    user_address,
)
from flask_ibi_archive.server.pages.responses import (
    find_static_url,
    hide_from_search,
    render_part,
    set_headers,
)
from flask_ibi_archive.server.pages.texts import gettext, page_language, set_language

# --- record page -------------------------------------------------------------------------------


#: The maximum number of files on the page.
SHOWN_FILES = 50
#: The formats of reference managers.
CITATION_FORMATS = ("bibtex", "ris", "csl-json")


@dataclass(frozen=True, slots=True)
class Shown:
    """An item as one reader sees it.

    :param item: the item.
    :param readable: the item without the files that the reader may not read.
    :param work: the description of the readable item.
    """

    item: ItemView
    readable: ItemView
    work: Work


def show(item: ItemView) -> Shown:
    """Return an item as the user of the request sees it."""
    readable = select_readable_files(item)
    return Shown(item, readable, pages.describe_work(readable))


def describe_parts(shown: Shown) -> dict[str, Any]:
    """Return the variables of the parts of the page, except the numbers of accesses."""
    item, readable, work = shown.item, shown.readable, shown.work
    access = check_access(item)
    if readable.record.files:
        access = replace(access, is_allowed=True)
    return {
        "item": readable,
        "work": work,
        "labels": labels,
        "access": find_access(item, work, access),
        "links_metadata": item.allows(user_address()),
        "notices": pages.list_notices(item, access),
        "original_url": find_original_url(item),
        "type_name": labels.name_type(work),
        "degree_name": labels.name_degree(work.degree) if work.degree else "",
        "newest_edition": find_newest_edition(item),
        "contributors": group_contributors(work.contributors),
        "affiliations": list_affiliations(work.creators),
        "abstracts": sort_texts(work.abstracts),
        "shown_files": SHOWN_FILES,
        "shown_authors": pages.SHOWN_AUTHORS,
        "zip": zip_files.offer_zip(readable),
        "licence": name_licence(work.licence_url) if work.licence_url else "",
        "citation_formats": CITATION_FORMATS,
        "citation": cite(work, item.today),
        "citations": list_citations(readable, work),
        **machine_readable.describe_head(
            readable, structs.replace(work, files=work.files[:SHOWN_FILES])
        ),
    }


def list_citations(item: ItemView, work: Work) -> list[tuple[MetadataFormat, str]]:
    """Return each format of reference managers, and the work in this format.

    A format that the host has replaced is left out if its function fails.
    """
    citations: list[tuple[MetadataFormat, str]] = []
    if not item.dublin_core:
        return citations
    for format in filter(None, map(current_archive().formats.get, CITATION_FORMATS)):
        failure = cannot_write(work.ibi, format.name)
        with suppress(HostFunctionFailed), logging_failure(failure):
            text = pages.write_metadata(format, work).decode().strip("\r\n")
            citations.append((format, text))
    return citations


def find_access(item: ItemView, work: Work, access: AccessDecision) -> AccessRight:
    """Return who may read the files; of an item without files, what its description states."""
    if work.access in ("embargoed", "restricted"):
        return work.access
    if item.record.files:
        return "open" if access.is_allowed else "restricted"
    return work.access_right or "metadata only"


def find_newest_edition(item: ItemView) -> RelatedItem | None:
    """Return the newest later edition that was not removed; None if there is no such edition."""
    later = (other for other in reversed(item.related) if other.kind == "later_edition")
    return next((edition for edition in later if not edition.is_removed), None)


def find_original_url(item: ItemView) -> str:
    """Return the persistent URL that leads to the Original, not to a Copy ([R] 6.2)."""
    ibi = parse_identifier(item.record.identifiers[0])
    target = format_persistent_target(PersistentUrl(ibi, requires_original=True))
    return current_archive().config.persistent_url_base + target


def group_contributors(names: Sequence[Name]) -> list[tuple[str, list[Name]]]:
    """Return the name of each role in the language of the page, and its contributors."""
    groups: dict[str, list[Name]] = {}
    for name in names:
        label = gettext(labels.ROLES[name.role or "other"])
        groups.setdefault(label, []).append(name)
    return list(groups.items())


def list_affiliations(names: Sequence[Name]) -> list[Organisation]:
    """Return the affiliations of the authors, each of them once."""
    return list(dict.fromkeys(one for name in names for one in name.affiliations))


def sort_texts(texts: Sequence[Text]) -> list[Text]:
    """Return texts in the order of the languages: that of the reader first."""
    language = page_language().partition("-")[0]
    return sorted(texts, key=lambda text: (text[1] or "").partition("-")[0] != language)


# --- item pages --------------------------------------------------------------------------------


#: The number of months whose accesses the landing page shows.
MONTHS = 12
#: The maximum number of files on a page.
LISTED_FILES = 100
#: The forms of the list, and their media types. The first form is the default.
FORMS = {"html": "text/html", "text": "text/plain", "json": "application/json"}


@pages.with_item
def files(item: ItemView) -> ResponseReturnValue:
    """Show the list of the files of an item, as a page, as text or as JSON.

    Long lists are divided into several pages. Text and JSON contain the complete list. If the owner
    of the item forbids the list, all forms say this.
    """
    access = check_access(item)
    if not access.is_allowed:
        return pages.restricted_page(item, access)
    readable = select_readable_files(item)
    form = _choose_form()
    if form is None:
        return pages.message(400, gettext("The list of files has no such form"), item=readable)
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
    numbers = {str(number + 1): number for number in range(-(-count // LISTED_FILES) or 1)}
    number = numbers.get(read_query().get("page", "1"))
    if number is None:
        title = gettext("The list of files has no such page")
        return pages.message(404, title, item=item, links_files=True)
    first = number * LISTED_FILES
    shown = item.record.files[first : first + LISTED_FILES]
    return pages.page(
        "files", item=item, files=shown, first=first, number=number + 1, pages=len(numbers)
    )


def _send_list(item: ItemView, form: str) -> Response:
    """Return the complete list of the files of an item as text or JSON.

    If the list is not public, the text is a comment as in text/uri-list (RFC 2483, 5), and JSON
    contains a message instead of files.
    """
    work = pages.describe_work(item)
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
    return machine_readable.share(hide_from_search(set_headers(response)), item)


def _no_file_page(item: ItemView, title: str) -> Response:
    advice = gettext("See the list of files or the page of the item.")
    return pages.message(404, title, advice, item=select_readable_files(item), links_files=True)


@pages.with_item
@pages.describing
def landing(item: ItemView) -> ResponseReturnValue:
    """Show the landing page of an item, with a description of the item and links to its files.

    A program that prefers a metadata format to HTML is redirected to the metadata.
    """
    shown = show(item)
    return add_record_links(machine_readable.negotiate(item) or landing_page(shown), shown)


def add_record_links(response: Response, shown: Shown) -> Response:
    """Add the typed links to a page of an item or to the answer to a program, and return it."""
    response.vary.add("Accept")
    return machine_readable.add_item_links(response, shown.readable, shown.work)


def landing_page(shown: Shown) -> Response:
    """Return the landing page of an item."""
    counts = current_archive().count_views(shown.item)
    return pages.page(
        "landing",
        counts=counts,
        months=list(counts.list_recent_months(shown.item.today, MONTHS)),
        **describe_parts(shown),
    )


@pages.with_item
def file(item: ItemView, path: str) -> ResponseReturnValue:
    """Send a file of an item, or redirect to the server that has the file.

    A persistent URL leads to the only file of an item. Therefore a program that accepts metadata,
    and not the type of the file, is redirected to the metadata.
    """
    # Flask decodes the argument ``path`` as UTF-8, but a file name may have another encoding
    prefix = f"/{(request.view_args or {})['ibi']}/doc/".encode()
    raw = request_path().partition(prefix)[2]
    found = item.find_file(list_candidate_paths(raw.decode("utf-8", "surrogateescape")))
    access = check_access(item, found)
    if not access.is_allowed:
        return pages.restricted_page(item, access)
    if found is None:
        return _no_file_page(item, gettext("The item does not have this file"))
    file_type, formats = pages.find_media_type(found.path), machine_readable.find_formats(item)
    if prefers_metadata(request.accept_mimetypes, file_type, formats) and (
        chosen := machine_readable.negotiate(item)
    ):
        return chosen
    if found.url is not None and not is_request_url(
        found.url, current_archive().config.archive_address
    ):
        return pages.redirect_to(found.url)
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
            response.vary.add("Accept")
            return machine_readable.add_part_links(response, item, "collection")
    text = gettext("The content of this file is not available here")
    return _no_file_page(item, text)


# --- host pages --------------------------------------------------------------------------------


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
    return add_record_links(machine_readable.negotiate(found) or response, shown)


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
        return {**pages.page_values(), **describe_parts(shown)}

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
    return _once("shown", id(item), lambda: show(item))


def _once(kind: str, key: object, read: Callable[[], Value]) -> Value:
    """Return a value that is read once in a request: all parts of a page use it."""
    found: dict[tuple[str, object], Value] = current_request().environ.setdefault(ONCE, {})
    if (kind, key) not in found:
        found[kind, key] = read()
    return found[kind, key]
