"""The routes of a resolver: its service, its front page, health; persistent URLs are all that is
left.
"""

from __future__ import annotations

from flask import Blueprint
from flask.blueprints import BlueprintSetupState

from flask_ibi_archive.archive.log_keys import hide_keys
from flask_ibi_archive.resolver import health_page as health
from flask_ibi_archive.resolver.front_page import show_at_root
from flask_ibi_archive.resolver.persistent_urls import resolve
from flask_ibi_archive.resolver.registration_requests import service
from flask_ibi_archive.web import health as archive_health
from flask_ibi_archive.web.persistent_urls import create_fallback_hook, is_like_persistent_url

NAME = "ibi_resolver"
#: Who writes requests down, query and all, where no server in front does.
REQUEST_LOGGERS = ("werkzeug", "gunicorn.access")


def create_resolver_blueprint(service_ibi: str) -> Blueprint:
    """Return the blueprint with all routes of a resolver; its endpoints are
    ``ibi_resolver.<name>``.

    :param service_ibi: in canonical case.
    """
    blueprint = Blueprint(NAME, "flask_ibi_archive.web", template_folder="templates")
    blueprint.add_url_rule("/ibi-resolver/health", "health", health.ready)
    blueprint.add_url_rule("/ibi-resolver/health/ready", "health_ready", health.ready)
    blueprint.add_url_rule("/ibi-resolver/health/live", "health_live", archive_health.live)

    def add_service(state: BlueprintSetupState) -> None:
        # a rule without methods: the view itself answers those that it doesn't take
        app, endpoint = state.app, f"{NAME}.service"
        path = f"{state.url_prefix or ''}/{service_ibi}"
        app.url_map.add(app.url_rule_class(path, endpoint=endpoint, methods=None))
        app.view_functions[endpoint] = service

    hide_keys(REQUEST_LOGGERS)
    blueprint.record(add_service)
    blueprint.before_app_request(show_at_root)
    blueprint.before_app_request(create_fallback_hook(resolve, is_like_persistent_url))
    return blueprint
