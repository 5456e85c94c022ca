"""The pages of a resolver: persistent URLs, the service for Archives, front page, health checks.

An app may have both a resolver and an Archive. If this Archive has the requested item, the app
redirects to the item immediately. Otherwise, the resolver asks all included Archives.

Foreign identifiers and former addresses are redirected to the Archive that claims them. Only claims
tell which Archive this is: no Archive is asked, because the standard of 2015 has no question about
them. The Archive then redirects to the item (archive/service/local_resolution.py).

Source: federation FI-4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from flask import Blueprint, Response, current_app, request
from flask.blueprints import BlueprintSetupState
from werkzeug.exceptions import NotFound

from flask_ibi_archive import errors
from flask_ibi_archive.core.identifiers.foreign import ForeignKind
from flask_ibi_archive.core.protocol import inclusion
from flask_ibi_archive.core.protocol.hosts import normalize_host
from flask_ibi_archive.core.protocol.pairs import decode_query_string, hide_keys
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution import former_links
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.core.resolution.persistent_url import (
    ResolutionRequest,
    format_persistent_target,
    parse_persistent_target,
    read_persistent_url,
)
from flask_ibi_archive.errors import MalformedPersistentUrl, NotReady
from flask_ibi_archive.errors import translatable as _
from flask_ibi_archive.resolver.archives import (
    ArchiveList,
    Known,
    RegistrationRefused,
    find_clashes,
)
from flask_ibi_archive.resolver.conflicts import find_open_conflict, show_conflicts
from flask_ibi_archive.resolver.resolving import LocalArchive, ResolverService
from flask_ibi_archive.server.config import OWN_ARCHIVE, RESOLVER_EXTENSION
from flask_ibi_archive.server.web import alerts, hooks, request_log, requests, responses
from flask_ibi_archive.server.web.texts import gettext, translate_reason

#: Loggers of web servers. They log the query of each request. A query may contain a key.
REQUEST_LOGGERS = ("werkzeug", "gunicorn.access")


def create_resolver_blueprint(resolver: ResolverService) -> Blueprint:
    """Return the blueprint with all routes of a resolver.

    The names of the endpoints are ``ibi_resolver.<name>``.
    """
    config = resolver.config
    blueprint = Blueprint(
        RESOLVER_EXTENSION, "flask_ibi_archive.server.web", template_folder="templates"
    )
    blueprint.record_once(hooks.prepare_app)
    hooks.add_static_files(blueprint)
    hooks.add_page(blueprint, "health", "/ibi-resolver/health", show_readiness)
    hooks.add_page(blueprint, "health_ready", "/ibi-resolver/health/ready", show_readiness)
    hooks.add_page(blueprint, "health_live", "/ibi-resolver/health/live", responses.health_response)
    hooks.add_page(blueprint, "conflicts", alerts.CONFLICTS, show_conflicts)
    path = f"{alerts.CONFLICTS}/<{hooks.NUMBER}:number>"
    hooks.add_page(blueprint, "conflict", path, show_conflicts)

    def add_service(state: BlueprintSetupState) -> None:
        path = f"/{config.service_ibi}"
        hooks.add_rule_for_all_methods(state, "service", path, answer_registration_request)

    hide_keys(REQUEST_LOGGERS)
    blueprint.record(add_service)
    if config.registry:
        from flask_ibi_archive.resolver.registry_2008 import views

        hooks.add_page(blueprint, "registry", views.PATH, views.answer_verb, ("GET", "POST"))
    if config.follow:
        # A process that serves no requests, such as the parent of the processes of a web server,
        # does not read claims.
        blueprint.before_app_request(resolver.follower_thread.start)
    blueprint.before_app_request(show_at_root)
    blueprint.teardown_app_request(lambda error: resolver.metrics.flush_if_due())
    answer = partial(hooks.answer_unrouted, _resolve_or_register, hooks.is_like_persistent_url)
    blueprint.record_once(lambda state: hooks.answer_first(state.app, answer_former_link, answer))
    blueprint.record_once(lambda state: state.app.extensions.update({hooks.RESOLVE: resolve}))
    return blueprint


def show_readiness() -> Response:
    """Return status 200 if the resolver is ready, otherwise status 503 with the reason.

    The resolver is ready if the database is available and its tables are up to date.
    """
    return responses.health_response({"database": requests.current_resolver().database.check})


# --- persistent URLs ------------------------------------------------------------------------------


def resolve(requested: ResolutionRequest) -> Response:
    """Return a redirect to the requested item, or a page that explains why no item was found.

    After a HEAD request, no acknowledgment is sent. Source: [R] 6.2.
    """
    if refusal := hooks.refuse_registration_key():
        return refusal
    archive: LocalArchive | None = current_app.extensions.get(OWN_ARCHIVE)
    resolver = requests.current_resolver()
    wanted = requested.wanted
    if archive is not None and not wanted.requires_original:
        response = archive.resolve(requested)
        if response is not None:
            return response
    try:
        outcome = resolver.resolve(requested, acknowledges=request.method == "GET", own=archive)
    except errors.NotReady as error:
        return alerts.unready_response(error)
    if isinstance(outcome, Redirect):
        return alerts.redirect_response(outcome, wanted)
    if outcome.is_conflict and outcome.ibi is not None:
        number = find_open_conflict(resolver.database, outcome.ibi.text)
        outcome = replace(outcome, conflict=number)
    return alerts.alert_response(outcome)


def _resolve_or_register(requested: ResolutionRequest) -> Response:
    """Resolve a persistent URL, or answer a request to the service of the resolver.

    The URL rule of the service only matches an IBI in canonical case. If a request contains the
    service IBI in another case, this function answers the request.
    """
    wanted = requested.wanted
    is_service = wanted.ibi.text == requests.current_resolver().config.service_ibi
    if is_service and wanted.verbs == NO_VERBS and not wanted.path:
        return answer_registration_request()
    return resolve(requested)


# --- foreign identifiers and former addresses -----------------------------------------------------


@request_log.logged(request_log.FORMER_LINK)
def answer_former_link() -> Response | None:
    """Answer a foreign identifier or a former address, which is not a persistent URL.

    :returns: a redirect to the same link at the Archive that claims it; a 404 response for a
        foreign identifier that no Archive claims; None for any other URL.
    """
    target = requests.request_target()
    is_meant = former_links.is_named(target)
    if not is_meant:
        with suppress(MalformedPersistentUrl):
            parse_persistent_target(target)
            return None
    resolver = requests.current_resolver()
    # a former address is asked for at its own host, but never at that of the resolver; without
    # SERVER_NAME, each host may be that of the resolver
    host = requests.request_host()
    own_host = resolver.config.server_name or host
    base = f"http://{normalize_host(host)}{requests.request_root()}"
    links = [
        link
        for link in former_links.find_former_links(target, [] if is_meant else [base])
        if not former_links.is_at_host(str(link.alias), own_host)
    ]
    if not links:
        return None
    names = [link.alias.folded for link in links]
    try:
        archives, known = resolver.database.read(
            lambda connection: resolver.archive_list.read(connection, names, [""] * len(names))
        )
    except NotReady as error:
        return alerts.unready_response(error) if is_meant else None
    location = _find_location(links, archives, known, target)
    if location is None and not is_meant:
        return None
    if request.method not in ("GET", "HEAD"):
        return alerts.method_response()
    if location is None:
        # the longest alias without a modifier behind it was probably meant
        aliases = [str(link.alias) for link in links]
        alias = next((one for one in aliases if "!" not in one and "+" not in one), aliases[0])
        return alerts.alert_response(Alert(AlertKind.UNKNOWN, None, alias=alias))
    return Response(status=302, headers={"Location": location, "Cache-Control": "private"})


def _find_location(
    links: Sequence[former_links.FormerLink],
    archives: ArchiveList,
    known: Mapping[str, Known],
    target: str,
) -> str | None:
    """Return the URL of the first claimed link at the Archive that claims it; or None."""
    for link in links:
        if claimants := known[link.alias.folded].claimants:
            best = claimants[0]
            moved_to = best.original_id if best.state is State.DELETED else None
            place = f"http://{archives.archives[moved_to or best.archive_id].address}"
            if link.alias.kind is ForeignKind.ADDRESS:
                return f"{place}/{link.alias}{link.rest}"
            return place + target
    return None


# --- the service for Archives ---------------------------------------------------------------------


@request_log.logged(request_log.MESSAGE)
def answer_registration_request() -> Response:
    """Answer an inclusionRequest, exclusionRequest or clashRequest of an Archive ([R] 5.2).

    The registration key in the request is not logged. A HEAD request is checked, but changes
    nothing (RFC 9110, 9.3.2).
    """
    if (refusal := responses.refuse_request()) is not None:
        return refusal
    try:
        pairs = decode_query_string(request.query_string)
        registry = requests.current_resolver().registry
        if inclusion.CLASH_REQUEST in pairs:
            clashes = find_clashes(registry.database, dict(pairs).get(inclusion.SERVICE_IBI, ""))
            return responses.pairs_response(inclusion.format_clash("; ".join(clashes)))
        message = inclusion.parse_registration_request(pairs)
        if request.method == "HEAD":
            registry.authenticate(message, requests.user_address())
            return responses.pairs_response("")
        status = registry.process(message, requests.user_address())
    except errors.PeerProtocolError as error:
        return responses.error_response(400, str(error))
    except RegistrationRefused as error:
        wait = {} if error.retry_after is None else {"Retry_After": str(error.retry_after)}
        return responses.error_response(error.status, str(error), **wait)
    except errors.NotReady as error:
        current_app.logger.error("the resolver can't answer: %s", error)
        return responses.error_response(503, error.summary, Retry_After=responses.RETRY_AFTER)
    return responses.pairs_response(inclusion.format_registration_status(status))


# --- the front page -------------------------------------------------------------------------------

#: The maximum number of characters of the entered text that the form shows again.
MAX_SHOWN = 2048
EXAMPLES = (
    "8JMKD3MGP8W/35MMLL8",
    "sid.inpe.br/mtc-m18/2009/02.16.17.46",
    "http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)",
)
#: The modifiers that the page explains, each with an explanation in English. A modifier follows
#: the IBI in a persistent URL. For example, a modifier requests the metadata of the item or a
#: translation of the item.
MODIFIERS = (
    ("", _("the item itself")),
    (":", _("the metadata")),
    (":(oai_dc)", _("the metadata in a format")),
    ("!", _("the last edition")),
    ("+", _("the translation into your browser's language")),
    ("+(pt-BR)", _("the translation into a language")),
    ("/data/table.csv", _("a file of the item")),
)


def show_at_root() -> Response | None:
    """Show the front page at "/", unless the app itself has a page there.

    This function is a ``before_app_request`` hook.

    :returns: None if the app handles the request.
    """
    if request.path != "/" or not isinstance(request.routing_exception, NotFound):
        return None
    if request.method not in ("GET", "HEAD"):
        return alerts.method_response()
    return front()


def front() -> Response:
    """Answer a request for the front page: with the form, or with a redirect."""
    values = requests.read_query()
    if "ibi" not in values:
        return _show_form("")
    text = values["ibi"].strip()
    if not text:
        return _show_fault("", gettext("Enter an IBI or a persistent URL."))
    try:
        wanted = read_persistent_url(text)
    except errors.MalformedPersistentUrl as error:
        return _show_fault(text, gettext("This is not a persistent URL"), error)
    target = requests.request_root() + format_persistent_target(wanted)
    return responses.set_headers(Response(status=302, headers={"Location": target}))


def _show_fault(
    text: str, message: str, error: errors.MalformedPersistentUrl | None = None
) -> Response:
    """Return the page that says why a text is not accepted, and what was probably meant."""
    fault = {"text": message, "suggestion": error.suggestion if error else None}
    reason = translate_reason(error.reason) if error else ""
    return _show_form(text, 400, fault=fault, reason=reason)


def _show_form(text: str, status: int = 200, **values: object) -> Response:
    """Return the page with the text that the user has entered."""
    return responses.render_page(
        "front",
        status,
        root=requests.request_root(),
        text=text[:MAX_SHOWN].encode("utf-8", "replace").decode("utf-8"),
        examples=EXAMPLES,
        modifiers=MODIFIERS,
        has_registry=f"{RESOLVER_EXTENSION}.registry" in current_app.view_functions,
        **values,
    )
