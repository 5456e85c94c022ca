"""Why a persistent URL leads nowhere: as a page for people, as a list of pairs for programs ([R]
6.2).
"""

from __future__ import annotations

from dataclasses import replace

from flask import Response, current_app, request
from werkzeug.datastructures import Headers

from flask_ibi_archive.errors import ConfigError, IBIError, MalformedPersistentUrl, NotReady
from flask_ibi_archive.protocol.messages import PERSISTENT_URL, format_ibi_forms
from flask_ibi_archive.protocol.pairs import ALERT, encode_word, format_pairs
from flask_ibi_archive.protocol.relations import StepKind
from flask_ibi_archive.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.resolution.persistent_url import (
    PersistentUrl,
    add_query,
    format_persistent_target,
    parse_persistent_target,
)
from flask_ibi_archive.web.asked import asked_root, asked_target, asked_url
from flask_ibi_archive.web.context import RESOLVER_EXTENSION
from flask_ibi_archive.web.reasons import translate_reason
from flask_ibi_archive.web.rendering import render_page
from flask_ibi_archive.web.texts import page_language

#: Seconds after which one may ask again.
RETRY_AFTER = "10"
VARY = "Accept, Accept-Language"
EXAMPLE = "http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)"
HEADERS = [
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Vary", VARY),
]

Pairs = list[tuple[str, "str | tuple[str, ...]"]]


def prefers_page() -> bool:
    """Tell whether the client wants a page rather than a list of pairs; what takes anything does
    not.
    """
    accepted = request.accept_mimetypes
    page, pairs = accepted.quality("text/html"), accepted.quality("text/plain")
    if page != pairs:
        return page > pairs
    # of two that are as good, the one that is named: "text/html, */*" comes from a browser
    named = {kind.lower() for kind in accepted.values()}
    return page > 0 and "text/html" in named and "text/plain" not in named


def redirect_response(redirect: Redirect, wanted: PersistentUrl) -> Response:
    """Return the redirect to what a persistent URL leads to, with the query that belongs to the
    item.

    Source: [R] 6.2.
    """
    response = Response(status=302)
    response.headers["Location"] = add_query(encode_word(redirect.url), wanted.passed_query)
    response.headers["Cache-Control"] = "private"
    if redirect.by_language:
        response.headers["Vary"] = "Accept-Language"
    return response


def alert_response(alert: Alert, name: str = "", elsewhere: str | None = None) -> Response:
    """Return an alert: the page for people or the list of pairs for programs, by Accept.

    :param name: which texts it has, such as ``unknown_here``; "": those of its kind.
    :param elsewhere: where else the same may be looked for, as a URL.
    """
    name = name or alert.kind.value
    retries = alert.kind is AlertKind.SILENT
    if not prefers_page():
        pairs: Pairs = [(ALERT, _say(alert, name)), *_facts(alert)]
        if elsewhere is not None:
            pairs.append((PERSISTENT_URL, elsewhere))
        return _list_response(pairs, alert.kind.status, retries)
    values: dict[str, object] = {"alert": alert, "elsewhere": elsewhere, "example": EXAMPLE}
    if alert.kind is AlertKind.MALFORMED:
        values["meant"] = f"{asked_root()}/{alert.suggestion}" if alert.suggestion else None
        values["reason"] = translate_reason(alert.reason, page_language())
    else:
        values.update(_other_ways(name, alert))
    return _page_response(name, alert.kind.status, retries, **values)


def malformed_response(error: MalformedPersistentUrl) -> Response:
    """Return the alert about a text that is no persistent URL."""
    alert = Alert(AlertKind.MALFORMED, None, reason=error.rule, suggestion=error.suggestion)
    return alert_response(alert)


def method_response() -> Response:
    """Say that persistent URLs are only read."""
    if prefers_page():
        response = _page_response("method", 405)
    else:
        text = f"{request.method} is not answered here, only GET and HEAD"
        response = _list_response([(ALERT, text)], 405)
    response.headers["Allow"] = "GET, HEAD"
    return response


def unready_response(error: NotReady | ConfigError) -> Response:
    """Say that there is no answer now; why is for the log, and for programs without what is secret."""
    current_app.logger.error("a persistent URL can't be answered: %s", error)
    if prefers_page():
        return _page_response("unready", 503, retries=True)
    return _list_response([(ALERT, summarise(error))], 503, retries=True)


def summarise(error: IBIError) -> str:
    """Return what everybody may know of an error."""
    return error.summary if isinstance(error, NotReady) else str(error)


def _page_response(name: str, status: int, retries: bool = False, **values: object) -> Response:
    has_front = RESOLVER_EXTENSION in current_app.extensions
    response = render_page(
        "alert",
        status,
        name=name,
        asked=asked_url(),
        # two slashes would lead to another host
        again=f"{asked_root()}/{asked_target().lstrip('/')}" if retries else None,
        front=f"{asked_root()}/" if has_front else None,
        **values,
    )
    response.headers["Vary"] = VARY
    return _allow_retry(response, retries)


def _list_response(pairs: Pairs, status: int, retries: bool = False) -> Response:
    text = format_pairs(pairs)
    response = Response(text, status, Headers(HEADERS), content_type="text/plain")
    return _allow_retry(response, retries)


def _allow_retry(response: Response, retries: bool) -> Response:
    if retries:
        response.headers["Retry-After"] = RETRY_AFTER
    return response


def _other_ways(name: str, alert: Alert) -> dict[str, object]:
    """Return addresses of this host that may help: the item itself, or what there is of it."""
    try:
        wanted = parse_persistent_target(asked_target())
    except MalformedPersistentUrl:
        return {}
    if name == "suspects":
        return {"any_copy": _address(replace(wanted, requires_original=False))}
    if name == "too_long" and alert.ibi is not None:
        return {"reached": _address(PersistentUrl(alert.ibi))}
    if name == "missing" and alert.ibi is not None:
        item = PersistentUrl(alert.ibi)
        found = [(_address(url), *_describe(url)) for url in alert.found if url != wanted]
        return {"bare": None if wanted == item else _address(item), "found": found}
    if name == "unknown" and wanted != PersistentUrl(wanted.ibi):
        return {"bare": _address(PersistentUrl(wanted.ibi))}
    return {}


def _describe(url: PersistentUrl) -> tuple[str, str | None]:
    """Return the name of the text for something that there is of an item, and its language or
    format.
    """
    if url.verbs.file_list:
        return "alert_has_files", None
    step = url.verbs.relation.steps[-1]
    if step.kind is StepKind.METADATA and step.parameter is not None:
        return "alert_has_format", step.parameter
    return f"alert_has_{step.kind.value}", step.parameter


def _address(url: PersistentUrl) -> str:
    return asked_root() + format_persistent_target(url)


def _say(alert: Alert, name: str) -> str:
    """Return an alert in one line of English."""
    ibi = alert.ibi
    if name == "unknown_here":
        return f"this Archive has no item {ibi}, or not what this persistent URL asks of it"
    return alert.summary


def _facts(alert: Alert) -> Pairs:
    """Return what is known beside the text, by the names that messages have for it."""
    pairs: Pairs = []
    if alert.ibi is not None:
        pairs.append(("ibi", format_ibi_forms([alert.ibi])))
    if alert.suggestion:
        pairs.append(("suggestion", alert.suggestion))
    if alert.kind in (AlertKind.REMOVED, AlertKind.SILENT) and alert.sources:
        pairs.append(("state", "Deleted"))
        if alert.timestamp:
            pairs.append(("timestamp", alert.timestamp))
    if alert.sources:
        pairs.append(("archiveaddress", tuple(source.address for source in alert.sources)))
        pairs.append(("archiveserviceibi", tuple(source.service for source in alert.sources)))
    if alert.found:
        pairs.append(("alternatives", tuple(map(_address, alert.found))))
    if alert.silent:
        pairs.append(("archives.asked", str(alert.asked)))
        pairs.append(("archives.silent", str(alert.silent)))
    return pairs
