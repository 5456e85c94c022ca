"""What people see of an item: its page, its files, its metadata."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path

from flask import Response, current_app, make_response, redirect, render_template, request

from flask_ibi_archive.errors import ConfigError, IdentifierError, NotReady
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.messages import UrlRequest
from flask_ibi_archive.protocol.paths import path_candidates
from flask_ibi_archive.protocol.verbs import parse_verb_list
from flask_ibi_archive.records.dublin_core import format_oai_dc
from flask_ibi_archive.records.record import DublinCoreMetadata, MetadataItem
from flask_ibi_archive.service.viewing import ItemView
from flask_ibi_archive.web.context import current_archive, current_user
from flask_ibi_archive.web.downloads import send_content
from flask_ibi_archive.web.texts import page_language, texts

OAI_DC = "oai_dc"


def page(template: str, status: int = 200, **values: object) -> Response:
    """Give a page in the reader's language."""
    language = page_language()
    archive = current_archive()
    response = make_response(
        render_template(
            f"ibi_archive/{template}.html",
            lang=language,
            t=texts(language),
            addresses=archive.addresses,
            resolver=archive.config.persistent_url_base,
            **values,
        ),
        status,
    )
    response.headers["Vary"] = "Accept-Language"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "default-src 'self'; style-src 'unsafe-inline'"
    return response


def message(status: int, title: str, advice: str = "", **values: object) -> Response:
    """Give a page that says why there is nothing else to show, and what to do next."""
    return page("message", status, title=title, advice=advice, **values)


def of_item(view: Callable[..., Response]) -> Callable[..., Response]:
    """Look up the item that a path names; answer in the view's place where there is nothing to see."""

    @wraps(view)
    def look_up(ibi: str, **rest: str) -> Response:
        try:
            item = current_archive().view(ibi)
        except IdentifierError as error:
            suggestion = error.suggestion
            return message(404, "no_item", "no_item_advice", ibi=suggestion or None)
        except (NotReady, ConfigError) as error:
            current_app.logger.error("the Archive can't answer: %s", error)
            response = message(503, "not_ready", "not_ready_advice")
            response.headers["Retry-After"] = "10"
            return response
        if item is None:
            return message(404, "no_item", "no_item_advice", ibi=parse_identifier(ibi).text)
        if item.record.state == "Deleted":
            return page("tombstone", 410, item=item)
        return view(item, **rest)

    return look_up


def restricted(item: ItemView) -> Response:
    """Answer a user from outside the networks that may have an item."""
    shown = item if item.shows_itself(current_user()) else None
    return message(403, "restricted", "restricted_advice", item=shown)


@of_item
def landing(item: ItemView) -> Response:
    """Show what an item is and lead to its files."""
    user = current_user()
    if not item.shows_itself(user):
        return restricted(item)
    return page("landing", item=item, open=item.allows(user))


@of_item
def file(item: ItemView, path: str) -> Response:
    """Send a file of an item, or lead to where it is served."""
    if not item.allows(current_user()):
        return restricted(item)
    # the bytes of the path as they came: a name may be in another encoding than UTF-8
    raw = request.environ["PATH_INFO"].encode("latin-1").partition(b"/doc/")[2]
    found = item.find_file(path_candidates(raw.decode("utf-8", "surrogateescape")))
    if found is None:
        return message(404, "no_file", "no_file_advice", item=item)
    if found.url is not None and found.url != request.base_url:
        return _lead_to(found.url)
    if found.source is None or found.sha256 is None or not Path(found.source).is_file():
        return message(404, "not_here", "no_file_advice", item=item)
    name = found.path.rpartition("/")[2]
    return send_content(
        Path(found.source), name, found.sha256, restricted=item.record.access is not None
    )


@of_item
def files(item: ItemView) -> Response:
    """List the files of an item, unless its owner forbids it."""
    if not item.allows(current_user()):
        return restricted(item)
    return page("files", item=item)


@of_item
def metadata(item: ItemView) -> Response:
    """Show the metadata of an item, in free form or (``choice=oai_dc``) in a format."""
    choice = request.args.get("choice", "")
    found = item.record.metadata
    if isinstance(found, DublinCoreMetadata):
        if not choice:
            return page("metadata", item=item)
        if choice == OAI_DC:
            return Response(format_oai_dc(found.elements), content_type="text/xml; charset=utf-8")
        return message(404, "no_format", item=item)
    if isinstance(found, MetadataItem) and current_archive().view(found.ibi) is None:
        modifier = f":({choice})" if choice else ""
        return _lead_to(f"{current_archive().config.persistent_url_base}/{found.ibi}{modifier}")
    url = _metadata_url(item, choice)
    if url is None:
        return message(404, "no_format" if choice else "metadata_none", item=item)
    return _lead_to(url)


def _metadata_url(item: ItemView, choice: str) -> str | None:
    """Give where the metadata of an item are, as a URL list would tell this user."""
    try:
        verbs = parse_verb_list(f"GetMetadata({choice})" if choice else "GetMetadata")
    except ValueError:
        return None
    ibi = parse_identifier(item.record.identifiers[0])
    pairs = current_archive().list_urls(UrlRequest(ibi, (current_user(),), verbs=verbs))
    for name, value in pairs:
        if name.startswith("url.") and isinstance(value, str):
            return value
    return None


def _lead_to(url: str) -> Response:
    """Redirect to a URL, which is sent as it is: its bytes may be in an encoding of their own."""
    response = redirect("/", 302)
    response.headers["Location"] = url
    response.autocorrect_location_header = False
    response.headers["Cache-Control"] = "no-cache"
    return make_response(response)
