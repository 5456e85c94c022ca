"""Builds the Flask blueprint of an Archive.

The blueprint contains the routes of the Archive. A hook answers messages to the service of the
Archive, and persistent URLs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from flask import Blueprint, Flask, Response, request
from flask.blueprints import BlueprintSetupState
from flask.sansio.app import App

from flask_ibi_archive.web import (
    crawl_lists,
    file_lists,
    flask_interfaces,
    health,
    metadata_pages,
    oai_pmh,
    pages,
    statistics,
)
from flask_ibi_archive.web.downloads import find_media_type
from flask_ibi_archive.web.item_pages import name_file_type
from flask_ibi_archive.web.local_resolution import answer_persistent_url
from flask_ibi_archive.web.persistent_urls import Hook, is_unrouted
from flask_ibi_archive.web.requests import EXTENSION, current_flask
from flask_ibi_archive.web.responses import add_policy
from flask_ibi_archive.web.service import answer_service_request, route_service_request
from flask_ibi_archive.web.static_files import add_static_files
from flask_ibi_archive.web.translations import PageFunctions

NAME = "ibi_archive"
#: The key of the functions that answer persistent URLs in ``app.extensions``.
ANSWERS = "ibi_answers"
#: The name of the converter that the app may use in its routes. The app may already use a short
#: name such as "ibi".
CONVERTER = "flask_ibi_archive_item"
#: The names of the converters in the routes of this package.
OWN_ITEM, OWN_WORD = "flask_ibi_archive_own_item", "flask_ibi_archive_own_word"


def prepare_app(state: BlueprintSetupState) -> None:
    """Add what the pages need to the app: converters, functions for templates, and hooks.

    The blueprint of an Archive and the blueprint of a resolver call this function.
    """
    state.app.url_map.converters[OWN_WORD] = flask_interfaces.OwnWordConverter
    state.app.jinja_env.add_extension(PageFunctions)
    state.app.jinja_env.globals["ibi_media_type"] = find_media_type
    state.app.jinja_env.globals["ibi_file_type"] = name_file_type
    if ANSWERS not in state.app.extensions:
        state.app.extensions[ANSWERS] = []
        app = cast(Flask, state.app)
        flask_interfaces.answer_before_hooks(app, answer_protocol)
        flask_interfaces.finish_last(app, add_policy)


def add_page(
    blueprint: Blueprint,
    endpoint: str,
    path: str,
    view: Callable[..., Response],
    methods: tuple[str, ...] = ("GET",),
) -> None:
    """Add a page with a fixed path to a blueprint; a route of the app for the path has precedence.

    :param path: the path, such as ``/ibi/health/live``. Two words or more are required. The third
        word and later words may be parameters of the view, such as ``<int:year>``.
    """
    first, word, *rest = path.lstrip("/").split("/")
    rule = "/".join(["", first, f"<{OWN_WORD}('{word}'):word>", *rest])

    def view_without_word(word: str, **parameters: Any) -> Response:
        return view(**parameters)

    blueprint.add_url_rule(
        rule, endpoint, view_without_word, defaults={"word": word}, methods=methods
    )


def add_rule_for_all_methods(
    state: BlueprintSetupState, name: str, path: str, view: Callable[..., Response], **options: Any
) -> None:
    """Add a rule to an app for a view that itself rejects the methods that it does not support.

    :param options: further arguments of the rule.
    """
    endpoint = f"{state.blueprint.name}.{name}"
    path = f"{state.url_prefix or ''}{path}"
    rule = state.app.url_rule_class(path, endpoint=endpoint, methods=None, **options)
    state.app.url_map.add(rule)
    state.app.endpoint(endpoint)(view)


def create_blueprint() -> Blueprint:
    """Return the blueprint of an Archive, whose endpoints are named ``ibi_archive.<name>``.

    The blueprint adds a function that sees all requests of the app first; see
    :func:`answer_protocol`.
    """
    blueprint = Blueprint(NAME, __name__, template_folder="templates")
    blueprint.record_once(_add_item_converters)
    blueprint.record_once(prepare_app)
    blueprint.record_once(lambda state: answer_first(state.app, answer_persistent_url))
    item = f"/col/<{OWN_ITEM}:ibi>"
    for endpoint, rule, view in (
        ("landing", f"{item}/", pages.landing),
        ("file", f"{item}/doc/<path:path>", pages.file),
        ("files", f"{item}/files", file_lists.files),
        ("metadata", f"{item}/metadata", metadata_pages.metadata),
        ("linkset", f"{item}/linkset", metadata_pages.linkset),
        ("statistics", f"{item}/statistics", statistics.item_statistics),
    ):
        blueprint.add_url_rule(rule, endpoint, view)
    add_page(blueprint, "archive_statistics", "/ibi/statistics", statistics.archive_statistics)
    add_static_files(blueprint, add_page)
    add_page(blueprint, "health", "/ibi/health", health.ready)
    add_page(blueprint, "health_ready", "/ibi/health/ready", health.ready)
    add_page(blueprint, "health_live", "/ibi/health/live", health.live)
    add_page(blueprint, "oai_pmh", "/ibi/oai", oai_pmh.answer_harvester, ("GET", "POST"))
    add_page(blueprint, "years", "/ibi/items", crawl_lists.show_years)
    add_page(blueprint, "year", "/ibi/items/<int:year>", crawl_lists.show_year)
    add_page(blueprint, "sitemap", "/ibi/sitemap.xml", crawl_lists.send_sitemap)
    add_page(blueprint, "sitemap_part", "/ibi/sitemap/<int:number>", crawl_lists.send_sitemap_part)
    # Flask never matches this rule; route_service_request() selects the rule
    blueprint.add_url_rule(
        f"/<{OWN_ITEM}:ibi>",
        "service",
        answer_service_request,
        build_only=True,
        provide_automatic_options=False,
    )
    return blueprint


def answer_first(app: App, answer: Hook) -> None:
    """Let a function answer persistent URLs; :func:`prepare_app` is called before.

    :param answer: the function. It returns None if it does not answer the request.
    """
    app.extensions[ANSWERS].append(answer)


def answer_protocol(run_hooks: Callable[[], Any]) -> Any:
    """Answer a message to the service, or a persistent URL.

    A resolver cannot log in, follow a redirect to https, or wait. Therefore the answers of the
    app's hooks do not count here. But the hooks run, because functions that run after the request,
    templates and access policies may need what they prepare.

    :param run_hooks: runs the hooks of the app until one answers, as Flask does.
    :returns: None if the app answers the request.
    """
    app = current_flask()
    is_for_service = EXTENSION in app.extensions and route_service_request()
    if not is_for_service and not is_unrouted():
        return run_hooks()
    try:
        theirs = run_hooks()
    except Exception as error:  # noqa: BLE001 - an error handler of the app may answer it
        theirs = error
    if is_for_service:
        return app.dispatch_request()
    # "/" is no persistent URL; a resolver has its front page there
    if theirs is None or request.path != "/":
        for answer in app.extensions[ANSWERS]:
            ours = answer()
            if ours is not None:
                return ours
    if isinstance(theirs, Exception):
        raise theirs
    return theirs


def _add_item_converters(state: BlueprintSetupState) -> None:
    state.app.url_map.converters.update(
        {CONVERTER: flask_interfaces.IBIConverter, OWN_ITEM: flask_interfaces.OwnItemConverter}
    )
