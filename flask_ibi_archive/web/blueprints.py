"""The routes: the service at its IBI, what people see of items, health."""

from __future__ import annotations

from typing import Any, cast

from flask import Blueprint, Flask
from flask.blueprints import BlueprintSetupState

from flask_ibi_archive.web import health, pages, statistics
from flask_ibi_archive.web.context import EXTENSION
from flask_ibi_archive.web.converters import ITEM, SERVICE, IBIConverter, ServiceConverter
from flask_ibi_archive.web.local_resolution import answer_persistent_url
from flask_ibi_archive.web.routing import ServiceRoute
from flask_ibi_archive.web.service import service

NAME = "ibi_archive"


def create_blueprint() -> Blueprint:
    """Return the blueprint with all our routes; its endpoints are ``ibi_archive.<name>``."""
    blueprint = Blueprint(NAME, __name__, template_folder="templates")
    blueprint.record_once(_add_converters)
    blueprint.record(_add_service)
    blueprint.before_app_request(answer_persistent_url)
    routes: dict[str, tuple[str, Any]] = {
        "landing": (f"/col/<{ITEM}:ibi>/", pages.landing),
        "file": (f"/col/<{ITEM}:ibi>/doc/<path:path>", pages.file),
        "files": (f"/col/<{ITEM}:ibi>/files", pages.files),
        "metadata": (f"/col/<{ITEM}:ibi>/metadata", pages.metadata),
        "statistics": (f"/col/<{ITEM}:ibi>/statistics", statistics.item_statistics),
        "archive_statistics": ("/ibi/statistics", statistics.archive_statistics),
        "health": ("/ibi/health", health.ready),
        "health_ready": ("/ibi/health/ready", health.ready),
        "health_live": ("/ibi/health/live", health.live),
    }
    for endpoint, (rule, view) in routes.items():
        blueprint.add_url_rule(rule, endpoint, view)
    return blueprint


def _add_converters(state: BlueprintSetupState) -> None:
    state.app.url_map.converters.update({ITEM: IBIConverter, SERVICE: ServiceConverter})


def _add_service(state: BlueprintSetupState) -> None:
    # a rule without methods: the view itself answers those that it doesn't take
    app, endpoint = state.app, f"{NAME}.service"
    rule = app.url_rule_class(
        f"{state.url_prefix or ''}/<{SERVICE}:ibi>", endpoint=endpoint, methods=None
    )
    app.url_map.add(rule)
    app.view_functions[endpoint] = service
    app.extensions[EXTENSION].service_route = ServiceRoute(cast(Flask, app), endpoint)
