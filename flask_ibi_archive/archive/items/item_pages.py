"""The parts of pages and answers about an item that several subjects share."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from mimetypes import MimeTypes
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from flask import Response, current_app
from flask.typing import ResponseReturnValue
from markupsafe import Markup
from msgspec.structs import replace
from werkzeug.exceptions import HTTPException

from flask_ibi_archive.archive.items.access import (
    AccessDecision,
    find_policy,
    find_refusal,
    select_readable_files,
)
from flask_ibi_archive.archive.items.served_archives import find_address, is_included
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.hosts import normalize_host
from flask_ibi_archive.core.protocol.pairs import encode_word
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.core.records.formats.brazilian import cite
from flask_ibi_archive.core.records.record import FileRecord, ItemView
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work
from flask_ibi_archive.core.resolution.persistent_url import MOVED_FROM, add_query
from flask_ibi_archive.errors import ConfigError, IBIError, IdentifierError, NotReady
from flask_ibi_archive.server.web import requests
from flask_ibi_archive.server.web.responses import RETRY_AFTER, render_page, set_headers
from flask_ibi_archive.server.web.texts import format_date, gettext, page_language

#: What a view returns.
Answer = TypeVar("Answer", bound=ResponseReturnValue)
#: The maximum number of authors at the beginning of a page; the others are folded.
SHOWN_AUTHORS = 10

#: The content types for the endings of file names. Types that the operating system defines are not
#: included.
TYPES = MimeTypes()

#: The content types of compressed files.
COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}

#: Matches characters that the name of a downloaded file must not contain.
NOT_IN_NAME = re.compile("[^A-Za-z0-9.-]+")


def find_media_type(name: str) -> str:
    """Guess the media type of a file from its name, and return it without parameters."""
    guessed, encoding = TYPES.guess_type(name)
    if encoding is not None:
        guessed = COMPRESSED.get(encoding)
    return guessed or "application/octet-stream"


def set_file_name(response: Response, disposition: str, name: str, ending: str) -> None:
    """Set the name under which a browser saves a file.

    :param disposition: ``inline`` or ``attachment``.
    :param name: the name; characters that a file name must not contain become hyphens.
    :param ending: the end of the name, such as ``.pdf``.
    """
    file_name = f"{NOT_IN_NAME.sub('-', name)}{ending}"
    response.headers["Content-Disposition"] = f'{disposition}; filename="{file_name}"'


def write_metadata(format: MetadataFormat, work: Work) -> bytes:
    """Write the metadata of a work in a format.

    The writer of the format may be a function of the host, which may raise any exception. Therefore
    call this function in a block of ``logging_failure``.

    :raises TypeError: if the writer returns neither a text nor bytes.
    """
    body = format.write(hide_access(work))
    if isinstance(body, bytes):
        return body
    if not isinstance(body, str):
        raise TypeError(f"the writer of {format.name} returned {type(body)}, not str or bytes")
    return body.encode()


def hide_access(work: Work) -> Work:
    """Remove the statement that the files of a work are open, if the host has an access policy.

    The policy may close the files.
    """
    is_decided = work.access != "open" or find_policy() is None
    return work if is_decided else replace(work, access=None)


def describe_work(item: ItemView) -> Work:
    """Return the description of an item as a Work, which pages and formats show.

    :param item: the item without the files that the reader may not see.
    """
    archive = requests.current_archive()
    return make_work(
        item.record,
        item.dublin_core,
        archive.persistent_url_base,
        description=item.description,
        page_url=archive.addresses.item(item),
        files=[_describe_file(item, file) for file in item.record.files],
        title=item.title,
        metadata_language=item.metadata_language,
        previous_edition=next(
            (other.ibi for other in reversed(item.related) if other.kind == "earlier_edition"), None
        ),
        translation_of=item.original,
        archive_name=archive.config.archive_name,
        publisher=archive.config.publisher,
        today=item.today,
    )


def _describe_file(item: ItemView, file: FileRecord) -> WorkFile:
    url = requests.current_archive().addresses.file(item, file.path)
    size = item.sizes.get(file.path)
    return WorkFile(file.path, url, find_media_type(file.path), size, file.sha256)


def page(template: str, status: int = 200, **values: object) -> Response:
    """Return a page of the Archive in the reader's language.

    :param template: the name of the template.
    :param values: variables of the template.
    """
    return render_page(template, status, **page_values(), **values)


def page_values() -> dict[str, object]:
    """Return the template variables that all pages of the Archive need, by name."""
    archive = requests.current_archive()
    return {
        # on another host than IBI_ARCHIVE_ADDRESS, links lead to pages on this host
        "addresses": archive.addresses.relative,
        "persistent_url_base": archive.persistent_url_base,
        "persistent_link_base": requests.find_path(archive.persistent_url_base),
        "find_path": requests.find_path,
        "is_included": is_included(archive),
        "resolver_base": archive.resolver_base,
        "formats": archive.formats,
        "contact": archive.config.archive_admin_email,
    }


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


def unavailable_page(error: IBIError) -> Response:
    """Log why the Archive is not ready, and return the page that says so."""
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

    If the access policy of the host has its own response, return this response, or raise it if it
    is an exception.
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
    """Return sentences that tell the user why, and until when, the files can't be read."""
    is_inside = item.is_inside(requests.user_address())
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
        archive = requests.current_archive()
        contact, url = archive.config.archive_admin_email, archive.persistent_url(item)
        if contact is not None:
            link = Markup('<a href="mailto:{}?subject={}">{}</a>').format(
                quote(contact, safe="@"), quote(url, safe=""), contact
            )
            notices.append(gettext("To ask for access, write to {address}.", address=link))
    return notices


def tombstone(item: ItemView) -> Response:
    """Return the page of a removed item.

    The page shows the reason of the removal. If there is another item in place of the removed item,
    or if the item has moved to another Archive, the page has a link to it. For programs, the Link
    header contains the URL of the replacement (RFC 8288; RFC 5829, "successor-version").
    """
    is_visible = find_refusal(item) is None
    facts = item.record.tombstone
    instead = (facts.successor if facts else None) or item.record.next_edition
    stated_title = item.stated_title if is_visible else None
    work = describe_work(item) if is_visible and item.dublin_core else None
    response = page(
        "tombstone",
        410,
        item=item,
        new_place=find_new_place(item, f"/{item.ibi}"),
        work=work,
        shown_authors=SHOWN_AUTHORS,
        stated_title=stated_title,
        stated_citation=facts.citation if facts else None,
        citation=cite(work, None, page_language(), has_address=False)
        if work and stated_title
        else (),
        replacing=[
            other
            for other in item.related
            if other.kind == "successor" or other.ibi == item.record.next_edition
        ],
    )
    if instead:
        url = f"{requests.current_archive().persistent_url_base}/{instead}"
        response.headers["Link"] = f'<{url}>; rel="successor-version"'
    return response


def find_resolver_url(target: str) -> str | None:
    """Return the same persistent URL at the resolver.

    :param target: the persistent URL without host.
    :returns: None if this host is also the host of the resolver. In this case, a redirect would be
        an endless loop.
    """
    archive = requests.current_archive()
    url, address = archive.resolver_base, archive.config.archive_address
    base = urlsplit(url)
    own = {normalize_host(host) for host in (requests.request_host(), address)}
    if normalize_host(base.netloc) in own and base.path.rstrip("/") == requests.request_root():
        return None
    return url + target


def find_new_place(item: ItemView, target: str) -> str | None:
    """Return the URL at which readers find an item whose Original is in another Archive.

    If a resolver has confirmed that it includes this Archive, this is a URL of the resolver, since
    the resolver asks all Archives. Otherwise it is a URL of the other Archive. Source: federation
    CL-8b.

    :param target: a persistent URL of the item without host.
    :returns: None if the Original is not in another Archive, or if neither URL is known.
    """
    archive, resolver_url = requests.current_archive(), find_resolver_url(target)
    own, other = archive.served(), item.record.original_elsewhere
    if other is None:
        return None
    if resolver_url is not None and is_included(archive):
        return resolver_url
    with archive.database.reading() as connection:
        address = find_address(connection, own.id, other)
    marker = f"{MOVED_FROM}={own.service_ibi}"
    return None if address is None else add_query(f"http://{address}{target}", marker)


def view_item(ibi: str) -> ItemView | None:
    """Return an item, with the access rule that counts for the user of the request.

    An access rule lists the networks whose users may read the files. A user whose network is
    unknown belongs to no network, not even to 0.0.0.0/0. For this user, the access rule of the
    returned item lists no networks.

    :returns: None if the Archive does not have the item.
    """
    item = requests.current_archive().get(ibi)
    if (
        item is None
        or item.record.access is None
        or requests.user_address() != requests.UNKNOWN_USER
    ):
        return item
    rule = replace(item.record.access, networks=())
    return replace(item, record=replace(item.record, access=rule))


def answering(view: Callable[..., Answer]) -> Callable[..., Answer | Response]:
    """Decorate a view, so that it answers with status 503 if the Archive is not ready."""

    @wraps(view)
    def answer(**parameters: Any) -> Answer | Response:
        try:
            return view(**parameters)
        except (NotReady, ConfigError) as error:
            return unavailable_page(error)

    return answer


def page_instead(item: ItemView) -> ResponseReturnValue | None:
    """Return the page to show instead of the description of an item, if there must be one.

    :returns: the tombstone of a removed item; the page that says that the user has no access; None
        if the user may see the description.
    """
    if item.record.state == State.DELETED:
        return tombstone(item)
    refusal = find_refusal(item)
    return None if refusal is None else restricted_page(item, refusal)


def with_item(
    view: Callable[..., ResponseReturnValue],
    shows_description: bool = False,
    needs_description: bool = False,
) -> Callable[..., ResponseReturnValue]:
    """Decorate a view, so that it gets the item with the IBI in the path.

    If the Archive does not have the item, the decorated view returns an error page. If the item was
    removed, the decorated view returns the tombstone.

    :param shows_description: True: the view also shows the description of a removed item.
    :param needs_description: True: users who must not see the description are refused.
    """

    @answering
    @wraps(view)
    def find_and_view(ibi: str, **rest: str) -> ResponseReturnValue:
        try:
            text = parse_identifier(ibi).text
        except IdentifierError as error:
            return no_item_page(error.suggestion)
        item = view_item(text)
        if item is None:
            return no_item_page(text)
        if item.record.state == State.DELETED and not (
            shows_description and item.dublin_core and find_refusal(item) is None
        ):
            return tombstone(item)
        instead = page_instead(item) if needs_description else None
        return view(item, **rest) if instead is None else instead

    return find_and_view


def redirect_to(url: str, status: int = 302) -> Response:
    """Return a redirect to a URL. The %XX sequences in the URL are not changed."""
    location = requests.find_path(encode_word(url))
    return set_headers(Response(status=status, headers={"Location": location}))
