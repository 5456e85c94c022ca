"""Defines the views of an item: landing page, files, and tombstone.

A tombstone is the page of a removed item. The module ``routing`` registers the views.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from urllib.parse import quote

from flask import Response, current_app, request
from flask.typing import ResponseReturnValue
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from flask_ibi_archive.errors import ConfigError, IBIError, IdentifierError, NotReady
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.pairs import encode_word
from flask_ibi_archive.protocol.query import list_candidate_paths
from flask_ibi_archive.protocol.states import State
from flask_ibi_archive.records.formats.abnt import cite
from flask_ibi_archive.records.item_view import ItemView
from flask_ibi_archive.records.work import Work
from flask_ibi_archive.records.work_values import name_licence
from flask_ibi_archive.web import item_pages, machine_readable
from flask_ibi_archive.web.access import (
    AccessDecision,
    check_access,
    find_refusal,
    select_readable_files,
)
from flask_ibi_archive.web.downloads import describe_version, send_content
from flask_ibi_archive.web.requests import (
    UNKNOWN_USER,
    current_archive,
    is_request_url,
    request_path,
    user_address,
)
from flask_ibi_archive.web.responses import RETRY_AFTER, render_page, set_headers
from flask_ibi_archive.web.translations import format_date, gettext


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
        formats=archive.formats,
        **values,
    )


def message(status: int, title: str, advice: str = "", **values: object) -> Response:
    """Return a page that explains an error.

    :param title: the text that describes the error, in the language of the page.
    :param advice: the text that tells the reader what to do next, in the language of the page.
    :param values: variables of the template.
    """
    return page("message", status, heading=title, advice=advice, **values)


def no_item_page(ibi: str | None) -> Response:
    """Return the page that says that the Archive does not have an item.

    :param ibi: an identifier that the reader can search in all Archives.
    """
    return message(
        404,
        gettext("No item of this Archive has this identifier"),
        gettext("Check the identifier. The item may be in another Archive."),
        ibi=ibi,
    )


def _no_file_page(item: ItemView, title: str) -> Response:
    advice = gettext("See the list of files or the page of the item.")
    return message(404, title, advice, item=select_readable_files(item), links_files=True)


def unavailable_page(error: IBIError) -> Response:
    """Return the page that says that the Archive is not ready, and log the reason."""
    current_app.logger.error("the Archive can't answer: %s", error)
    response = message(
        503,
        gettext("The Archive is temporarily unavailable"),
        gettext("Try again in a moment."),
    )
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
    visible = None if item.is_hidden else select_readable_files(item)
    return message(
        403,
        gettext("Access to this item is restricted"),
        item=visible,
        notices=list_notices(item, access),
    )


def list_notices(item: ItemView, access: AccessDecision) -> list[str]:
    """Return the texts that say until when, and why, the user may not read the files of an item."""
    is_inside = item.is_inside(user_address())
    notices = []
    if item.embargo is not None and (is_inside or not item.is_hidden):
        day = format_date(item.embargo)
        notices.append(gettext("Content under embargo: available from {day}.", day=day))
    if not access.is_allowed:
        if access.by_policy:
            notices.append(gettext("You do not have permission to read the files of this item."))
        elif not is_inside:
            notices.append(
                gettext(
                    "The files can be read only from certain networks. If your institution has "
                    "access, connect from its network."
                )
            )
        config = current_archive().config
        contact, url = config.archive_admin_email, f"{config.persistent_url_base}/{item.ibi}"
        if contact is not None:
            link = Markup('<a href="mailto:{}?subject={}">{}</a>').format(
                quote(contact, safe="@"), quote(url, safe=""), contact
            )
            notices.append(gettext("To ask for access, write to {address}.", address=link))
    return notices


def tombstone(item: ItemView) -> Response:
    """Return the page of a removed item.

    The page shows the reason of the removal and the item that replaces the removed item. For
    programs, the Link header contains the URL of the replacement (RFC 8288; RFC 5829,
    "successor-version").
    """
    is_visible = find_refusal(item) is None
    facts = item.record.tombstone
    instead = (facts.successor if facts else None) or item.record.next_edition
    stated_title = item.stated_title if is_visible else None
    stated = facts.citation if facts else None
    response = page(
        "tombstone",
        410,
        item=item,
        is_described=is_visible and bool(item.dublin_core),
        stated_title=stated_title,
        stated_citation=stated,
        # the words of citations in the style of ABNT are Portuguese
        citation_language="pt" if stated is None else None,
        citation=cite(item_pages.describe_work(item), has_address=False) if stated_title else (),
        replacing=[one for one in item.related if one.ibi in (instead, item.record.next_edition)],
    )
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
    view: Callable[..., ResponseReturnValue], shows_description: bool = False
) -> Callable[..., ResponseReturnValue]:
    """Decorate a view that needs an item.

    The decorated view finds the item with the IBI in the path, and passes the item to the view. If
    the Archive does not have the item, the decorated view returns an error page. If the item was
    removed, the decorated view returns the tombstone.

    :param shows_description: True: the view also shows the description of a removed item.
    """

    @wraps(view)
    def find_and_view(ibi: str, **rest: str) -> ResponseReturnValue:
        try:
            text = parse_identifier(ibi).text
        except IdentifierError as error:
            return no_item_page(error.suggestion)
        try:
            item = view_item(text)
            if item is None:
                return no_item_page(text)
            if item.record.state == State.DELETED and not (
                shows_description and item.dublin_core and find_refusal(item) is None
            ):
                return tombstone(item)
            return view(item, **rest)
        except (NotReady, ConfigError) as error:
            return unavailable_page(error)

    return find_and_view


def describing(
    view: Callable[..., ResponseReturnValue],
) -> Callable[..., ResponseReturnValue]:
    """Decorate a view that shows the description of an item.

    The decorated view refuses users who must not see the description.
    """

    @wraps(view)
    def check_and_view(item: ItemView, *rest: object) -> ResponseReturnValue:
        refusal = find_refusal(item)
        return view(item, *rest) if refusal is None else restricted_page(item, refusal)

    return check_and_view


@with_item
@describing
def landing(item: ItemView) -> ResponseReturnValue:
    """Show the landing page of an item, with a description of the item and links to its files.

    A program that prefers a metadata format to HTML is redirected to the metadata.
    """
    readable = select_readable_files(item)
    work = item_pages.describe_work(readable)
    chosen = machine_readable.choose_format(
        request.accept_mimetypes, machine_readable.find_formats(item)
    )
    if chosen is None:
        response = message(406, gettext("The item is not available in this form"), item=readable)
    elif chosen:
        response = redirect_to(current_archive().addresses.metadata(item, chosen), 303)
    else:
        response = landing_page(item, readable, work)
    response.vary.add("Accept")
    return machine_readable.add_item_links(response, readable, work)


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
        original_url=item_pages.find_original_url(item),
        type_name=item_pages.name_type(work),
        newest_edition=item_pages.find_newest_edition(item),
        shown_files=item_pages.SHOWN_FILES,
        licence=name_licence(work.licence_url) if work.licence_url else "",
        citation=cite(work, item.today),
        citations=item_pages.list_citations(readable, work),
        citation_formats=item_pages.CITATION_FORMATS,
        counts=counts,
        chart=item_pages.draw_recent_months(counts, item.today),
        swatches=item_pages.SWATCHES,
        **machine_readable.describe_head(
            readable, replace(work, files=work.files[: item_pages.SHOWN_FILES])
        ),
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
            return machine_readable.add_part_links(response, item, "collection", url)
    text = gettext("The content of this file is not available here")
    return _no_file_page(item, text)


def redirect_to(url: str, status: int = 302) -> Response:
    """Redirect to a URL, in which the %XX sequences stay unchanged."""
    return set_headers(Response(status=status, headers={"Location": encode_word(url)}))
