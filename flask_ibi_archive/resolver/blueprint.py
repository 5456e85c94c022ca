"""The routes of a resolver: its service, its front page, health; persistent URLs are all that is
left.
"""

from __future__ import annotations

from flask import Blueprint, Response, current_app, request
from flask.blueprints import BlueprintSetupState

from flask_ibi_archive.archive.log_keys import hide_keys
from flask_ibi_archive.errors import (
    NotReady,
    PeerProtocolError,
    RegistrationRefused,
    TooManyWrongKeys,
)
from flask_ibi_archive.protocol.messages import MAX_QUERY
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.protocol.registration import (
    format_registration_status,
    parse_registration_request,
)
from flask_ibi_archive.protocol.verbs import NO_VERBS
from flask_ibi_archive.resolution.languages import LanguageRange
from flask_ibi_archive.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.resolver.front_page import show_at_root
from flask_ibi_archive.resolver.persistent_urls import resolve
from flask_ibi_archive.resolver.service import current_resolver
from flask_ibi_archive.web import health
from flask_ibi_archive.web.context import current_user
from flask_ibi_archive.web.health import say_ready, say_unready
from flask_ibi_archive.web.persistent_urls import begins_like_one, fall_back_to
from flask_ibi_archive.web.service import RETRY_AFTER, alert, answer

NAME = "ibi_resolver"
#: Who writes requests down, query and all, where no server in front does.
REQUEST_LOGGERS = ("werkzeug", "gunicorn.access")


def _resolve_or_register(
    wanted: PersistentUrl,
    persistent_url: str,
    addresses: tuple[str, ...],
    ranges: tuple[LanguageRange, ...],
) -> Response:
    """Resolve a persistent URL, or answer a request to the service's address in another case."""
    is_service = wanted.ibi.text == current_resolver().config.service_ibi
    if is_service and wanted.verbs == NO_VERBS and not wanted.path:
        return service()
    return resolve(wanted, persistent_url, addresses, ranges)


def create_resolver_blueprint(service_ibi: str) -> Blueprint:
    """Return the blueprint with all routes of a resolver; its endpoints are
    ``ibi_resolver.<name>``.

    :param service_ibi: in canonical case.
    """
    blueprint = Blueprint(NAME, "flask_ibi_archive.web", template_folder="templates")
    blueprint.add_url_rule("/ibi-resolver/health", "health", ready)
    blueprint.add_url_rule("/ibi-resolver/health/ready", "health_ready", ready)
    blueprint.add_url_rule("/ibi-resolver/health/live", "health_live", health.live)

    def add_service(state: BlueprintSetupState) -> None:
        # a rule without methods: the view itself answers those that it doesn't take
        app, endpoint = state.app, f"{NAME}.service"
        path = f"{state.url_prefix or ''}/{service_ibi}"
        app.url_map.add(app.url_rule_class(path, endpoint=endpoint, methods=None))
        app.view_functions[endpoint] = service

    hide_keys(REQUEST_LOGGERS)
    blueprint.record(add_service)
    blueprint.before_app_request(show_at_root)
    blueprint.before_app_request(fall_back_to(_resolve_or_register, begins_like_one))
    return blueprint


def ready() -> Response:
    """Say whether the database answers, with the tables of this version."""
    try:
        current_resolver().database.check()
    except NotReady as error:
        return say_unready("the resolver", error)
    return say_ready()


def service() -> Response:
    """Answer an inclusionRequest or exclusionRequest; what is in it stands in no log.

    HEAD tells whether it would be taken, and nothing comes of it (RFC 9110, 9.3.2).
    """
    if request.method not in ("GET", "HEAD"):
        return alert(
            405, f"{request.method} is not answered here, only GET and HEAD", Allow="GET, HEAD"
        )
    query = request.query_string
    if len(query) > MAX_QUERY:
        return alert(414, f"the query has {len(query)} bytes, more than {MAX_QUERY}")
    try:
        asked = parse_registration_request(decode_query_string(query))
        registry = current_resolver().registry
        if request.method == "HEAD":
            registry.check(asked, current_user())
            return answer("")
        status = registry.take(asked, current_user())
    except PeerProtocolError as error:
        return alert(400, str(error))
    except TooManyWrongKeys as error:
        return alert(error.status, str(error), Retry_After=str(error.retry_after))
    except RegistrationRefused as error:
        return alert(error.status, str(error))
    except NotReady as error:
        current_app.logger.error("the resolver can't answer: %s", error)
        return alert(503, error.summary, Retry_After=RETRY_AFTER)
    return answer(format_registration_status(status))
