"""The routes of an Archive, and the hook for its service and for persistent URLs.

The extension registers them as a blueprint of Flask.
"""

from __future__ import annotations

from flask import Blueprint, Response
from flask.blueprints import BlueprintSetupState
from werkzeug.routing import BaseConverter

from flask_ibi_archive.web import health, pages, statistics
from flask_ibi_archive.web.local_resolution import answer_persistent_url
from flask_ibi_archive.web.service import answer_service_request, route_service_request

NAME = "ibi_archive"
#: The name of the converter in routes. A short name such as "ibi" might be in use in the app.
CONVERTER = "flask_ibi_archive_item"


class IBIConverter(BaseConverter):
    """Matches an identifier in a path: two or four parts, in upper or lower case.

    The path may continue after the identifier. The view parses the identifier.
    """

    regex = r"[^/]+/[^/]+(?:/[0-9]{4}/[0-9.]+)?"
    part_isolating = False
    weight = 150


def create_blueprint() -> Blueprint:
    """Return the blueprint with the routes of an Archive; its endpoints are ``ibi_archive.<name>``.

    A hook for all requests of the app routes the messages to the service and answers persistent
    URLs. Hooks that the app registers later do not run for persistent URLs.
    """
    blueprint = Blueprint(NAME, __name__, template_folder="templates")
    blueprint.record_once(_add_converter)
    blueprint.before_app_request(answer_unrouted)
    item = f"/col/<{CONVERTER}:ibi>"
    for endpoint, rule, view in (
        ("landing", f"{item}/", pages.landing),
        ("file", f"{item}/doc/<path:path>", pages.file),
        ("files", f"{item}/files", pages.files),
        ("metadata", f"{item}/metadata", pages.metadata),
        ("statistics", f"{item}/statistics", statistics.item_statistics),
        ("archive_statistics", "/ibi/statistics", statistics.archive_statistics),
        ("health", "/ibi/health", health.ready),
        ("health_ready", "/ibi/health/ready", health.ready),
        ("health_live", "/ibi/health/live", health.live),
    ):
        blueprint.add_url_rule(rule, endpoint, view)
    # never matched: route_service_request() selects this rule
    blueprint.add_url_rule(
        f"/<{CONVERTER}:ibi>",
        "service",
        answer_service_request,
        build_only=True,
        provide_automatic_options=False,
    )
    return blueprint


def answer_unrouted() -> Response | None:
    """Route a message to the service, or answer a persistent URL; return None for other requests."""
    return None if route_service_request() else answer_persistent_url()


def _add_converter(state: BlueprintSetupState) -> None:
    state.app.url_map.converters[CONVERTER] = IBIConverter
