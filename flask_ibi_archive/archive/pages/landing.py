"""The landing page of an item, and its parts, which templates of hosts write in their own pages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from flask import Response, request
from flask.typing import ResponseReturnValue
from markupsafe import Markup
from msgspec import structs

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
from flask_ibi_archive.archive.items.item_record import Identified
from flask_ibi_archive.archive.pages import labels
from flask_ibi_archive.archive.pages.metadata import add_links, describe_head, list_links, negotiate
from flask_ibi_archive.archive.pages.zip import offer_zip
from flask_ibi_archive.archive.service.local_resolution import count_after_response
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.description import AccessRight, Name, Text
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.core.records.formats.brazilian import cite
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.core.records.values import name_licence
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, format_persistent_target
from flask_ibi_archive.errors import IdentifierError
from flask_ibi_archive.server.web.requests import (
    current_archive,
    request_addresses,
    user_address,
)
from flask_ibi_archive.server.web.responses import find_static_url, render_part
from flask_ibi_archive.server.web.texts import gettext, page_language

#: The maximum number of files on the page.
SHOWN_FILES = 50
#: The number of months whose accesses the page shows.
MONTHS = 12
#: The formats of reference managers.
CITATION_FORMATS = ("bibtex", "ris", "csl-json")
#: The key of the items of the page of a host, in the WSGI environment of the request.
ENVIRON_KEY = "ibi.shown"


class Shown:
    """An item as the user of the request sees it, with the variables for its page.

    Each variable is computed when a part of the page needs it for the first time.
    """

    def __init__(self, item: ItemView) -> None:
        self.item = item

    @cached_property
    def readable(self) -> ItemView:
        """The item, without those files that the user may not read."""
        return select_readable_files(self.item)

    @cached_property
    def work(self) -> Work:
        """The description of the item, with those files that the user may read."""
        return item_pages.describe_work(self.readable)

    @cached_property
    def head(self) -> dict[str, Any]:
        """The template variables of the ``head`` element, by name."""
        work = structs.replace(self.work, files=self.work.files[:SHOWN_FILES])
        return describe_head(self.readable, work)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The template variables of all parts of the page, except the numbers of accesses."""
        item, readable, work = self.item, self.readable, self.work
        access = check_access(item)
        if readable.record.files:
            access = replace(access, is_allowed=True)
        later = [other for other in reversed(item.related) if other.kind == "later_edition"]
        ibi = parse_identifier(item.record.identifiers[0])
        original = format_persistent_target(PersistentUrl(ibi, requires_original=True))
        return {
            "item": readable,
            "work": work,
            "access": find_access(item, work, access),
            "links_metadata": item.allows(user_address()),
            "notices": item_pages.list_notices(item, access),
            # it leads to the Original, not to a Copy ([R] 6.2)
            "original_url": item_pages.find_new_place(item, original)
            or item_pages.find_resolver_url(original),
            "type_name": labels.name_type(work),
            "newest_edition": next((one for one in later if not one.is_removed), None),
            "contributors": group_contributors(work.contributors),
            "affiliations": [*dict.fromkeys(one for n in work.creators for one in n.affiliations)],
            "abstracts": sort_texts(work.stated.abstracts),
            "shown_files": SHOWN_FILES,
            "shown_authors": item_pages.SHOWN_AUTHORS,
            "zip": offer_zip(readable),
            "licence": name_licence(work.licence_url) if work.licence_url else "",
            "citation_formats": CITATION_FORMATS,
            "citation": cite(work, item.today, page_language()),
            "citations": list_citations(readable, work),
            **self.head,
        }


def list_citations(item: ItemView, work: Work) -> list[tuple[MetadataFormat, str]]:
    """Write a work in the formats of reference managers; return each format with its text.

    A format that the host has replaced is left out if the function of the host fails.
    """
    citations: list[tuple[MetadataFormat, str]] = []
    if not item.dublin_core:
        return citations
    for format in filter(None, map(current_archive().formats.get, CITATION_FORMATS)):
        with suppress(HostFunctionFailed), logging_failure(cannot_write(work.ibi, format.name)):
            text = item_pages.write_metadata(format, work).decode().strip("\r\n")
            citations.append((format, text))
    return citations


def find_access(item: ItemView, work: Work, access: AccessDecision) -> AccessRight:
    """Return who may read the files; for an item without files, what its description says."""
    if work.access in ("embargoed", "restricted"):
        return work.access
    if item.record.files:
        return "open" if access.is_allowed else "restricted"
    return work.access_right or "metadata only"


def group_contributors(names: Sequence[Name]) -> list[tuple[str, list[Name]]]:
    """Group contributors by role: return the name of each role with the contributors in this role.

    The names of roles are in the language of the page.
    """
    groups: dict[str, list[Name]] = {}
    for name in names:
        label = gettext(labels.ROLES[name.role or "other"])
        groups.setdefault(label, []).append(name)
    return list(groups.items())


def sort_texts(texts: Sequence[Text]) -> list[Text]:
    """Sort texts by language: those in the language of the reader come first."""
    language = page_language().partition("-")[0]
    return sorted(texts, key=lambda text: (text[1] or "").partition("-")[0] != language)


@partial(item_pages.with_item, needs_description=True)
def landing(item: ItemView) -> ResponseReturnValue:
    """Show the landing page of an item, with a description of the item and links to its files.

    A program that prefers a metadata format to HTML is redirected to the metadata.
    """
    shown = Shown(item)
    response = negotiate(item)
    if response is None:
        counts = current_archive().statistics(item)
        months = list(counts.list_recent_months(item.today, MONTHS))
        response = item_pages.page("landing", counts=counts, months=months, **shown.values)
    return _add_item_links(response, shown)


def _add_item_links(response: Response, shown: Shown) -> Response:
    """Add typed links (the header Link) to the response for an item, and return the response.

    Count a view of the page if the client is a browser that shows the page now.
    """
    agent, is_prefetch = request.headers.get("User-Agent"), "Sec-Purpose" in request.headers
    if request.method == "GET" and response.status_code == 200 and agent and not is_prefetch:
        archive = current_archive()
        view = shown.item, archive.addresses.item(shown.item), request_addresses(), agent
        count_after_response(response, partial(archive.take_page_view, *view))
    response.vary.add("Accept")
    return add_links(response, list_links(shown.readable, shown.work))


def respond(item: str | Identified, response: Response) -> ResponseReturnValue:
    """Prepare the response of a host for the page of an item; see ``IBIArchive.respond``."""
    shown = _find_shown(item)
    if shown is None:
        return response
    instead = item_pages.page_instead(shown.item)
    if instead is not None:
        return instead
    return _add_item_links(negotiate(shown.item) or response, shown)


def write_part(name: str, item: str | Identified) -> Markup:
    """Write a part of the landing page as HTML, for a template of the host.

    The text is empty for a draft, and for a removed or hidden item.

    :param name: the name of the template of the part.
    """
    shown = _find_shown(item)
    if shown is None or shown.item.record.state == State.DELETED or find_refusal(shown.item):
        return Markup()
    if name == "head":
        links = {"stylesheet": find_static_url("ibi.css"), "script": find_static_url("ibi.js")}
        return Markup(render_part("head", **links, **shown.head))
    return Markup(render_part("part", name=name, **item_pages.page_values(), **shown.values))


#: The functions that templates of hosts call, by name.
TEMPLATE_FUNCTIONS = {
    "ibi_head": partial(write_part, "head"),
    "ibi_citation": partial(write_part, "citation"),
    "ibi_versions": partial(write_part, "versions"),
    "ibi_files": partial(write_part, "item_files"),
    "ibi_details": partial(write_part, "details"),
}


def _find_shown(item: str | Identified) -> Shown | None:
    """Find an item, and keep it for the request; return None for a draft or an unknown item."""
    try:
        text = parse_identifier((item if isinstance(item, str) else item.ibi) or "").text
    except IdentifierError:  # an empty identifier is that of a draft
        return None
    items: dict[str, Shown | None] = request.environ.setdefault(ENVIRON_KEY, {})
    if text not in items:
        view = item_pages.view_item(text)
        items[text] = None if view is None else Shown(view)
    return items[text]
