"""Build the responses to persistent URLs: redirects and alerts ([R] 6.2).

An alert explains to the reader why there is no redirect. Browsers get the alert as a page. Programs
get the alert as a list of pairs. Archives and resolvers use this module.
"""

from __future__ import annotations

from dataclasses import replace

from flask import Response, current_app, request

from flask_ibi_archive.core.identifiers.dates import format_date
from flask_ibi_archive.core.identifiers.grammar import Identifier
from flask_ibi_archive.core.identifiers.parse import decode_identifier
from flask_ibi_archive.core.protocol.messages import PERSISTENT_URL, name_form
from flask_ibi_archive.core.protocol.pairs import ALERT, encode_word, format_pairs
from flask_ibi_archive.core.protocol.relations import StepKind
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution import persistent_url as persistent_urls
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.errors import (
    ConfigError,
    IdentifierError,
    MalformedPersistentUrl,
    NotReady,
    Reason,
)
from flask_ibi_archive.server.config import RESOLVER_EXTENSION
from flask_ibi_archive.server.web import requests, responses
from flask_ibi_archive.server.web.texts import get_language_name, gettext, translate_reason

#: The path of the page about conflicts at a resolver.
CONFLICTS = "/ibi/conflicts"
VARY = "Accept, Accept-Language, Cookie"
EXAMPLE = "http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)"

Pairs = list[tuple[str, "str | tuple[str, ...]"]]


def redirect_response(redirect: Redirect, requested: persistent_urls.PersistentUrl) -> Response:
    """Return the redirect to the URL of the item.

    The query pairs of the persistent URL that are not meant for the resolver are added to the URL
    of the item.

    Source: [R] 6.2.
    """
    url = persistent_urls.add_query(encode_word(redirect.url), requested.passed_query)
    # about Accept, see negotiation.add_metadata_step()
    vary = "Accept, Accept-Language" if redirect.depends_on_language else "Accept"
    headers = {"Location": url, "Cache-Control": "private", "Vary": vary}
    response = Response(status=302, headers=headers)
    responses.allow_origins(response)
    return response


def alert_response(alert: Alert, name: str = "", resolver_url: str | None = None) -> Response:
    """Return an alert as a page or as a list of pairs, according to the Accept header.

    :param name: the key of the texts of the page, such as ``unknown_here``. The default is the kind
        of the alert.
    :param resolver_url: the same persistent URL at the resolver, which the alert shows as a link.
    """
    name = name or alert.kind.value
    retries = alert.kind is AlertKind.SILENT
    summary = alert.summary
    if name == "unknown_here":
        summary = (
            f"this Archive does not have the item {alert.ibi}, or the item does not have the "
            "requested part in this Archive"
        )
    pairs: Pairs = [(ALERT, summary), *_create_pairs(alert)]
    if resolver_url is not None:
        pairs.append((PERSISTENT_URL, resolver_url))
    return _respond(name, alert.kind.status, pairs, retries, alert, resolver_url)


def malformed_response(error: MalformedPersistentUrl) -> Response:
    """Return the alert for a malformed persistent URL."""
    alert = Alert(AlertKind.MALFORMED, None, reason=error.reason, suggestion=error.suggestion)
    return alert_response(alert)


def method_response() -> Response:
    """Return the 405 response for methods other than GET and HEAD."""
    text = f"the method {request.method} is not allowed; use GET or HEAD"
    response = _respond("method", 405, [(ALERT, text)])
    response.headers["Allow"] = "GET, HEAD"
    return response


def unready_response(error: NotReady | ConfigError) -> Response:
    """Log an error, and return a 503 response that does not contain the details of the error."""
    current_app.logger.error("no answer is possible: %s", error)
    return _respond("unready", 503, [(ALERT, responses.summarise_error(error))], retries=True)


def _respond(
    name: str,
    status: int,
    pairs: Pairs,
    retries: bool = False,
    alert: Alert | None = None,
    resolver_url: str | None = None,
) -> Response:
    """Return a page or a list of pairs, whichever the client prefers.

    :param name: the key of the texts of the page.
    :param retries: whether the client may try again.
    """
    if requests.prefers_page():
        has_front = RESOLVER_EXTENSION in current_app.extensions
        response = responses.render_page(
            "alert",
            status,
            name=name,
            asked=requests.request_url(),
            # browsers read the text after two slashes at the beginning as another host
            again=f"{requests.request_root()}/{requests.request_target().lstrip('/')}"
            if retries
            else None,
            front=f"{requests.request_root()}/" if has_front else None,
            alert=alert,
            resolver_url=resolver_url,
            example=EXAMPLE,
            **({} if alert is None else _describe_alert(name, alert)),
        )
    else:
        response = responses.pairs_response(format_pairs(pairs), status)
    response.headers["Vary"] = VARY
    if retries:
        response.headers["Retry-After"] = responses.RETRY_AFTER
    return response


def _describe_alert(name: str, alert: Alert) -> dict[str, object]:
    """Return the template variables of an alert, in addition to those of all pages."""
    if alert.kind is AlertKind.MALFORMED:
        return _describe_fault(alert.reason, alert.suggestion)
    values = _find_links(name, alert)
    if alert.kind is AlertKind.UNKNOWN and alert.ibi is not None:
        values.update(_describe_origin(alert.ibi))
    return values


def _describe_fault(reason: Reason | str | None, suggestion: str | None) -> dict[str, object]:
    """Return the template variables with the fault of an identifier, and with a suggestion."""
    meant = f"{requests.request_root()}/{suggestion}" if suggestion else None
    return {"reason": translate_reason(reason), "suggestion": suggestion, "meant": meant}


def _describe_origin(ibi: Identifier) -> dict[str, object]:
    """Return the template variables with the server and the date that an identifier contains.

    If the identifier cannot be decoded, somebody has mistyped it. The variables then say what is
    wrong.
    """
    try:
        decoded = decode_identifier(ibi)
        minted_on = None if decoded.date is None else format_date(decoded.date)[:10]
    except IdentifierError as error:
        return _describe_fault(error.reason, error.suggestion)
    return {"minted_by": decoded.host or decoded.ip, "minted_on": minted_on}


def _find_links(name: str, alert: Alert) -> dict[str, object]:
    """Find helpful links on this host, such as links to the item and to other parts of the item.

    :returns: the variables of the template that contain the links.
    """
    try:
        requested = persistent_urls.parse_persistent_target(requests.request_target())
    except MalformedPersistentUrl:
        return {}
    if name == "suspects":
        any_copy = _find_path(replace(requested, requires_original=False))
        conflicts = _find_conflicts(alert) if alert.is_conflict else None
        return {"any_copy": any_copy, "conflicts": conflicts}
    if name == "too_long" and alert.ibi is not None:
        return {"reached": _find_path(persistent_urls.PersistentUrl(alert.ibi))}
    if name == "missing" and alert.ibi is not None:
        item = persistent_urls.PersistentUrl(alert.ibi)
        parts = [
            (_find_path(url), _describe_part(url)) for url in alert.alternatives if url != requested
        ]
        return {"bare": None if requested == item else _find_path(item), "found": parts}
    if name == "unknown" and requested != persistent_urls.PersistentUrl(requested.ibi):
        return {"bare": _find_path(persistent_urls.PersistentUrl(requested.ibi))}
    return {}


def _describe_part(url: persistent_urls.PersistentUrl) -> str:
    """Return the text of the link to a part of an item, in the language of the page."""
    if url.verbs.file_list:
        return gettext("The list of files")
    step = url.verbs.relation.steps[-1]
    if step.kind is StepKind.TRANSLATION and step.parameter is not None:
        return gettext("The version in {language}", language=get_language_name(step.parameter))
    if step.parameter is not None:
        return gettext("The metadata in {format}", format=step.parameter)
    return gettext("The metadata")


def _find_path(url: persistent_urls.PersistentUrl) -> str:
    return requests.request_root() + persistent_urls.format_persistent_target(url)


def _find_conflicts(alert: Alert) -> str:
    """Return the path of the page of the conflict, or of the list of conflicts.

    The list is used if the number of the conflict is unknown.
    """
    path = f"{requests.request_root()}{CONFLICTS}"
    return path if alert.conflict is None else f"{path}/{alert.conflict}"


def _create_pairs(alert: Alert) -> Pairs:
    """Return the details of an alert as pairs.

    A detail has the same name as in the protocol, if the protocol has a name for the detail.
    """
    pairs: Pairs = []
    if alert.ibi is not None:
        pairs.append(("ibi", (name_form(alert.ibi), alert.ibi.text)))
    if alert.suggestion:
        pairs.append(("suggestion", alert.suggestion))
    if alert.kind in (AlertKind.REMOVED, AlertKind.SILENT) and alert.sources:
        pairs.append(("state", State.DELETED.value))
        if alert.timestamp:
            pairs.append(("timestamp", alert.timestamp))
    if alert.sources:
        pairs.append(("archiveaddress", tuple(source.address for source in alert.sources)))
        pairs.append(("archiveserviceibi", tuple(source.service for source in alert.sources)))
    if alert.claimants:
        pairs.append(("archives.claimants", tuple(each.service for each in alert.claimants)))
    if alert.is_conflict:
        pairs.append(("conflicts", _find_conflicts(alert)))
    if alert.alternatives:
        pairs.append(("alternatives", tuple(map(_find_path, alert.alternatives))))
    if alert.silent:
        pairs.append(("archives.asked", str(alert.asked)))
        pairs.append(("archives.silent", str(alert.silent)))
    return pairs
