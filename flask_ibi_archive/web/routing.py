"""Builds the Flask blueprint of an Archive.

The blueprint contains the routes of the Archive, and a hook. The hook handles messages to the
service of the Archive, and persistent URLs.
"""

from __future__ import annotations

from flask import Blueprint, Response
from flask.blueprints import BlueprintSetupState
from werkzeug.routing import BaseConverter

from flask_ibi_archive.web import health, pages, statistics
from flask_ibi_archive.web.local_resolution import answer_persistent_url
from flask_ibi_archive.web.service import answer_service_request, route_service_request

NAME = "ibi_archive"
#: The name of the converter in routes. The app may already use a short name such as "ibi".
CONVERTER = "flask_ibi_archive_item"


class IBIConverter(BaseConverter):
    """Matches a text in a path that may be an identifier.

    Such a text has two or four parts, in upper or lower case. The path may continue after the text.
    The view checks that the text is an identifier.
    """

    regex = r"[^/]+/[^/]+(?:/[0-9]{4}/[0-9.]+)?"
    part_isolating = False
    weight = 150


def create_blueprint() -> Blueprint:
    """Return the blueprint of an Archive, whose endpoints are named ``ibi_archive.<name>``.

    The blueprint adds a ``before_request`` hook for all requests of the app. The hook routes
    messages to the service, and answers persistent URLs. If the app registers other
    ``before_request`` hooks later, these hooks do not run for persistent URLs.
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
    # Flask never matches this rule; route_service_request() selects the rule
    blueprint.add_url_rule(
        f"/<{CONVERTER}:ibi>",
        "service",
        answer_service_request,
        build_only=True,
        provide_automatic_options=False,
    )
    return blueprint


def answer_unrouted() -> Response | None:
    """Route a message to the service, or answer a persistent URL.

    :returns: the response to a persistent URL; None for messages and for other requests.
    """
    return None if route_service_request() else answer_persistent_url()


def _add_converter(state: BlueprintSetupState) -> None:
    state.app.url_map.converters[CONVERTER] = IBIConverter
