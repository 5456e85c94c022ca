"""The public list of conflicts as page, JSON and Atom feed, and the page of each conflict.

Source: federation CF-1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, current_app, request

from flask_ibi_archive import errors
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.records.formats.xml_text import DECLARATION, element
from flask_ibi_archive.resolver.current import current_resolver
from flask_ibi_archive.resolver.old_claims.conflict_alerts import PATH
from flask_ibi_archive.resolver.old_claims.conflicts import (
    IS_ENDED,
    IS_OPEN,
    FoundConflict,
    list_conflicts,
)
from flask_ibi_archive.resolver.old_claims.tables import Conflict
from flask_ibi_archive.server.pages import responses
from flask_ibi_archive.server.pages.alerts import VARY
from flask_ibi_archive.server.pages.app_hooks import NUMBER, add_page
from flask_ibi_archive.server.pages.requests import read_query, request_root
from flask_ibi_archive.server.pages.texts import gettext

#: The number of conflicts on a page.
PAGE = 50
#: The choices of conflicts, with their conditions. The first one is the default.
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "open": (IS_OPEN,),
    "ended": (IS_ENDED,),
    "all": (),
}
#: The media types of the formats. The first one is the default.
FORMATS = {"html": "text/html", "json": "application/json", "atom": "application/atom+xml"}


def add_conflict_pages(blueprint: Blueprint) -> None:
    """Add the routes of the pages to a blueprint."""
    add_page(blueprint, "conflicts", PATH, show_conflicts)
    add_page(blueprint, "conflict", f"{PATH}/<{NUMBER}:number>", show_conflict)


def describe_conflict(conflict: FoundConflict, base: str | None) -> dict[str, Any]:
    """Return a conflict for JSON, without the e-mail addresses of the administrators.

    :param base: the scheme and host of the resolver's URLs. None if they are unknown.
    """
    return {
        "id": conflict.id,
        "url": None if base is None else f"{base}{PATH}/{conflict.id}",
        "ibi": conflict.ibi,
        "other_ibi": conflict.other_ibi,
        "state": "open" if conflict.ended_at is None else "ended",
        "found_at": format_timestamp(conflict.found_at),
        "ended_at": format_timestamp(conflict.ended_at),
        "told_at": format_timestamp(conflict.told_at),
        "archives": [
            {"service": one.service_ibi, "address": one.address} for one in conflict.claimants
        ],
    }


def show_conflicts() -> Response:
    """Show conflicts, the newest first: ``?state=open|ended|all``, ``?format=html|json|atom``."""
    values = read_query()
    format = _read_format(values)
    # a feed also reports the end of a conflict
    choice = values.get("state", "all" if format == "atom" else "open")
    before = values.get("before", "")
    if format is None or choice not in CHOICES or not (before.isdecimal() or before == ""):
        expected = "state=open|ended|all, format=html|json|atom, before=NUMBER"
        return responses.error_response(400, f"the query is wrong; it may contain {expected}")
    below = int(before[:18]) if before else None
    try:
        found = current_resolver().database.read(
            lambda connection: list_conflicts(
                connection, *CHOICES[choice], below=below, limit=PAGE + 1
            )
        )
    except errors.NotReady as error:
        return _unavailable_response(error, format)
    shown, base = found[:PAGE], _find_base()
    after = {"state": choice, "before": str(shown[-1].id)} if len(found) > PAGE else None
    if format == "json":
        query = None if after is None else urlencode({**after, "format": "json"})
        next_url = None if query is None else f"{base}{PATH}?{query}"
        listed = [describe_conflict(conflict, base) for conflict in shown]
        return _data_response(format, _dump({"conflicts": listed, "next": next_url}))
    if format == "atom":
        return _data_response(format, _write_feed(shown, base))
    return _page(
        "conflicts",
        choice=choice,
        conflicts=shown,
        next=None if after is None else urlencode(after),
        is_continued=below is not None,
    )


def show_conflict(number: int) -> Response:
    """Show one conflict as page or JSON.

    :param number: the id of the conflict.
    """
    format = _read_format(read_query())
    if format not in ("html", "json"):
        return responses.error_response(400, "the format is unknown; use format=html or json")
    try:
        found = current_resolver().database.read(
            lambda connection: list_conflicts(connection, Conflict.id == number)
        )
    except errors.NotReady as error:
        return _unavailable_response(error, format)
    if format == "json":
        if not found:
            return responses.error_response(404, "there is no conflict with this number")
        return _data_response(format, _dump(describe_conflict(found[0], _find_base())))
    if not found:
        return _page(
            "message",
            404,
            heading=gettext("There is no conflict with this number"),
            advice=gettext("Look it up in the list of all conflicts."),
        )
    return _page("conflict", conflict=found[0], base=_find_base())


def _read_format(values: Mapping[str, str]) -> str | None:
    """Return the format in the URL, or else the one that the client prefers; None if unknown."""
    if "format" in values:
        return values["format"] if values["format"] in FORMATS else None
    accepted = request.accept_mimetypes.best_match(list(FORMATS.values()), FORMATS["html"])
    return next(name for name, media_type in FORMATS.items() if media_type == accepted)


def _find_base() -> str:
    base = current_resolver().config.base_url or f"{request.scheme}://{request.host}"
    return base + request_root()


def _page(template: str, status: int = 200, **values: object) -> Response:
    root = request_root()
    response = responses.render_page(
        template,
        status,
        root=root,
        conflicts_path=f"{root}{PATH}",
        iso_moment=format_timestamp,
        **values,
    )
    response.headers["Vary"] = VARY
    return response


def _data_response(format: str, text: str) -> Response:
    response = Response(text, content_type=f"{FORMATS[format]}; charset=utf-8")
    response.headers["Vary"] = VARY
    responses.allow_origins(response)
    return responses.make_conditional(responses.set_headers(response, private=False))


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _unavailable_response(error: errors.NotReady, format: str) -> Response:
    current_app.logger.error("the list of conflicts can't be read: %s", error)
    if format != "html":
        return responses.error_response(503, error.summary, Retry_After=responses.RETRY_AFTER)
    response = _page(
        "message",
        503,
        heading=gettext("No answer is possible at the moment"),
        advice=gettext("Try again in a moment."),
    )
    response.headers["Retry-After"] = responses.RETRY_AFTER
    return response


def _write_feed(conflicts: Sequence[FoundConflict], base: str) -> str:
    """Return the Atom feed of some conflicts (RFC 4287), in the reader's language.

    :param base: the beginning of the resolver's URLs.
    """
    address = f"{base}{PATH}?format=atom"
    updated = max((one.ended_at or one.found_at for one in conflicts), default=None)
    lines = [
        f'{DECLARATION}<feed xmlns="http://www.w3.org/2005/Atom">',
        element("id", address),
        element("title", gettext("Conflicts between Archives")),
        # an empty feed has never changed
        element("updated", format_timestamp(updated) or "1970-01-01T00:00:00Z"),
        f"<author>{element('name', base)}</author>",
        element("link", "", {"rel": "self", "href": address}),
        element("link", "", {"rel": "alternate", "href": f"{base}{PATH}"}),
        *(line for conflict in conflicts for line in _write_entry(conflict, f"{base}{PATH}")),
        "</feed>",
    ]
    return "\n".join([*lines, ""])


def _write_entry(conflict: FoundConflict, path: str) -> Iterator[str]:
    url = f"{path}/{conflict.id}"
    title = (
        gettext("Two Archives claim to have the original of {identifier}", identifier=conflict.ibi)
        if conflict.ended_at is None
        else gettext("The conflict about {identifier} has ended", identifier=conflict.ibi)
    )
    yield "<entry>"
    yield element("id", url)
    yield element("title", title)
    yield element("updated", format_timestamp(conflict.ended_at or conflict.found_at))
    yield element("published", format_timestamp(conflict.found_at))
    yield element("link", "", {"rel": "alternate", "href": url})
    yield element("summary", ", ".join(f"{one.address}" for one in conflict.claimants))
    yield "</entry>"
