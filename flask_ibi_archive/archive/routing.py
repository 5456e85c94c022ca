"""Builds the Flask blueprint of an Archive, which contains the routes of the Archive."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, current_app, request
from flask.blueprints import BlueprintSetupState
from werkzeug.exceptions import NotFound

from flask_ibi_archive.archive import claims
from flask_ibi_archive.archive.accesses import statistics
from flask_ibi_archive.archive.checking import list_readiness_checks
from flask_ibi_archive.archive.harvest import oai_pmh
from flask_ibi_archive.archive.identification.keys import PATH
from flask_ibi_archive.archive.items.item_pages import find_media_type, redirect_to
from flask_ibi_archive.archive.moving import views
from flask_ibi_archive.archive.pages import files, labels, landing, lists, metadata, zip
from flask_ibi_archive.archive.service.archive_service import find_service_view
from flask_ibi_archive.archive.service.local_resolution import (
    answer_over_catch_all,
    answer_unrouted,
)
from flask_ibi_archive.core.records import offer_messages as offers
from flask_ibi_archive.server.config import RESOLVER_EXTENSION, ArchiveConfig, read_setting
from flask_ibi_archive.server.web import hooks
from flask_ibi_archive.server.web.requests import current_archive
from flask_ibi_archive.server.web.responses import find_list_path, health_response

NAME = "ibi_archive"
#: The name of the URL converter that the app may use in its own routes. It is long, because the app
#: may already have a converter with a short name such as "ibi".
CONVERTER = "flask_ibi_archive_item"
#: The name of the URL converter in the routes of this package.
OWN_ITEM = "flask_ibi_archive_own_item"

#: The methods of views that refuse methods themselves.
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_ITEM_ADDRESS = re.compile(rf"/col/({hooks.IBIConverter.regex})(?:/.*)?", re.DOTALL)


def create_blueprint(config: Mapping[str, Any]) -> Blueprint:
    """Return the blueprint of an Archive, whose endpoints are named ``ibi_archive.<name>``.

    The blueprint also adds a function that is called before each request of the app; see
    :func:`.hooks.answer_protocol`.

    :param config: the Flask config; IBI_IDENTIFICATION adds the identification server.
    """
    blueprint = Blueprint(NAME, "flask_ibi_archive.server.web", template_folder="templates")
    blueprint.record_once(_add_item_functions)
    blueprint.record_once(hooks.prepare_app)
    answers = (redirect_home, explain_mistyped_address, answer_unrouted)
    blueprint.record_once(
        lambda state: hooks.answer_first(state.app, *answers, before_resolver=True)
    )
    item = f"/col/<{OWN_ITEM}:ibi>"
    for endpoint, rule, view in (
        ("landing", f"{item}/", landing.landing),
        ("file", f"{item}/doc/<path:path>", files.file),
        ("files", f"{item}/files", files.files),
        ("zip_file", f"{item}/files.zip", zip.zip_file),
        ("metadata", f"{item}/metadata", metadata.metadata),
        ("statistics", f"{item}/statistics", statistics.item_statistics),
    ):
        blueprint.add_url_rule(rule, endpoint, view)
    hooks.add_static_files(blueprint)
    for endpoint, path, page in (
        ("archive_statistics", "/ibi/statistics", statistics.archive_statistics),
        ("health", "/ibi/health", show_readiness),
        ("health_ready", "/ibi/health/ready", show_readiness),
        ("health_live", "/ibi/health/live", health_response),
        ("years", "/ibi/items", lists.show_years),
        ("year", f"/ibi/items/<{hooks.NUMBER}:year>", lists.show_year),
        ("newest", "/ibi/newest", lists.show_newest),
        ("sitemap", "/ibi/sitemap.xml", lists.send_sitemap),
        ("sitemap_part", f"/ibi/sitemap/<{hooks.NUMBER}:number>", lists.send_sitemap_part),
    ):
        hooks.add_page(blueprint, endpoint, path, page)
    hooks.add_page(blueprint, "oai_pmh", "/ibi/oai", oai_pmh.answer_harvester, ("GET", "POST"))
    hooks.add_page(blueprint, "claims", claims.PATH, claims.send_page, for_servers=True)
    hooks.add_page(blueprint, "claims_key", f"{claims.PATH}/key", claims.send_key, for_servers=True)
    offer, file = f"{offers.PATH}/<offer>", f"files/<{hooks.NUMBER}:number>/<path:path>"
    hooks.add_page(blueprint, "offer", offer, views.answer_offer, METHODS)
    hooks.add_page(blueprint, "offered_items", f"{offer}/items", views.answer_items, METHODS)
    hooks.add_page(blueprint, "switch", f"{offer}/switch", views.answer_switch, METHODS)
    hooks.add_page(blueprint, "offered_file", f"{offer}/{file}", views.answer_file, METHODS)
    if read_setting(ArchiveConfig, "identification", config):
        # imported here, because other apps do not need it
        from flask_ibi_archive.archive.identification import server as identification

        identifier = f"{PATH}/<path:ibi>"
        hooks.add_page(blueprint, "openapi", f"{PATH}/openapi.json", identification.describe)
        hooks.add_page(blueprint, "identifiers", PATH, identification.answer_collection, METHODS)
        hooks.add_page(
            blueprint, "identifier", identifier, identification.answer_identifier, METHODS
        )
    return blueprint


def redirect_home() -> Response | None:
    """Redirect from ``/`` to the list of items. Return None if the app has a page there.

    The routes of the app are looked up at each request. Therefore the order in which they are
    registered does not matter. An app with a resolver has a page there: that of the resolver.
    """
    is_home = request.path == "/" and request.method in ("GET", "HEAD")
    if not is_home or type(request.routing_exception) is not NotFound:
        return None
    path = None if RESOLVER_EXTENSION in current_app.extensions else find_list_path()
    return None if path is None else redirect_to(path)


def explain_mistyped_address() -> Response | None:
    """Say what is wrong in a mistyped address of an item.

    :returns: None if the app has a route for the path, if the path is not the address of an item,
        or if the identifier in it is well-formed.
    """
    if request.method not in ("GET", "HEAD") or type(request.routing_exception) is not NotFound:
        return None
    address = _ITEM_ADDRESS.fullmatch(request.path)
    if address is None or re.fullmatch(hooks.OwnItemConverter.regex, address[1]):
        return None
    return current_app.make_response(landing.landing(ibi=address[1]))


def _add_item_functions(state: BlueprintSetupState) -> None:
    app = state.app
    app.url_map.converters.update({CONVERTER: hooks.IBIConverter, OWN_ITEM: hooks.OwnItemConverter})
    app.jinja_env.globals["ibi_media_type"] = find_media_type
    app.jinja_env.globals["ibi_file_type"] = labels.name_file_type
    app.jinja_env.globals.update(landing.TEMPLATE_FUNCTIONS)
    app.extensions[hooks.SERVICE] = find_service_view
    app.extensions[hooks.OVER_CATCH_ALL] = answer_over_catch_all


def show_readiness() -> Response:
    """Answer with status 200 if the Archive can answer requests; otherwise 503 with the reasons."""
    return health_response(list_readiness_checks(current_archive()))
