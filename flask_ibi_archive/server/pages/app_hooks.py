"""Adds pages to an app, and a hook that answers messages and persistent URLs before the app.

An Archive and a resolver use this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from flask import Blueprint, Response, current_app, request
from flask.blueprints import BlueprintSetupState
from flask.sansio.app import App
from werkzeug.routing import AnyConverter, BaseConverter

from flask_ibi_archive.core.identifiers.grammar import IBIP, LEGACY, REPOSITORY
from flask_ibi_archive.server.pages.persistent_urls import Hook, has_catch_all_route, is_unrouted
from flask_ibi_archive.server.pages.responses import STATIC_TYPES, add_policy, send_static_file
from flask_ibi_archive.server.pages.texts import PageFunctions

#: The key of the functions that answer persistent URLs in ``app.extensions``.
ANSWERS = "ibi_answers"
#: The key of the function of an Archive that answers before a route of the app for all paths.
OVER_CATCH_ALL = "ibi_over_catch_all"
#: The key of the function of an Archive that returns the view for a message to its service.
SERVICE = "ibi_service_route"
#: The key of the endpoints of pages for other servers in ``app.extensions``.
SERVER_PAGES = "ibi_server_pages"
#: The name of the converter in the routes of this package.
OWN_WORD = "flask_ibi_archive_own_word"
#: The converter of a number in a path. A larger number is an error in the columns of databases.
NUMBER = f"int(max={2**31 - 1})"


# --- converters ----------------------------------------------------------------------------------
# Of several rules with the same form, Werkzeug selects the rule whose converters have the smallest
# weights. The weight is an attribute of BaseConverter, but the documentation does not mention it.


class IBIConverter(BaseConverter):
    """Matches a text in a path that may be an identifier.

    Such a text has two or four parts, in upper or lower case. The path may continue after the text.
    The view checks that the text is an identifier.
    """

    regex = r"[^/]+/[^/]+(?:/[0-9]{4}/[0-9.]+)?"
    part_isolating = False
    weight = 150


class OwnItemConverter(IBIConverter):
    """Matches an identifier in the routes of this package, and no other text.

    The large weight gives rules of the app precedence, whichever converter they use. Other paths
    that begin as ours, such as ``/col/of/photos``, remain for a route of the app for all paths.
    """

    # werkzeug allows no groups
    regex = "|".join(
        re.sub(r"\((?!\?)", "(?:", form.pattern) for form in (REPOSITORY, IBIP, LEGACY)
    )
    weight = 1_000_000


class OwnWordConverter(AnyConverter):
    """Matches a fixed word in the routes of this package.

    A rule of the app that contains the word itself has precedence, because Werkzeug selects rules
    without converters first. A rule of the app with another converter has a larger weight.
    """

    weight = -1


# --- routes --------------------------------------------------------------------------------------


class PageBlueprint(Blueprint):
    """A blueprint whose rules are for one host in an app with ``host_matching=True``.

    The option ``host`` of ``register_blueprint`` is a host name or an address, with or without a
    port.
    """

    def make_setup_state(self, *arguments: Any, **options: Any) -> BlueprintSetupState:
        """Return the object that adds the rules to an app."""
        return _SetupState(self, *arguments, **options)


class _SetupState(BlueprintSetupState):
    def add_url_rule(self, rule: str, *arguments: Any, **options: Any) -> None:
        """Add a rule to the app."""
        options.update(_choose_host(self))
        super().add_url_rule(rule, *arguments, **options)


def _choose_host(state: BlueprintSetupState) -> dict[str, Any]:
    """Return the argument ``host`` of a rule if the app has ``host_matching=True``."""
    if not state.app.url_map.host_matching:
        return {}
    # werkzeug compares it with the Host header in lower case and without a default port
    return {"host": re.sub(r":(80|443)$", "", state.options["host"].lower())}


def prepare_app(state: BlueprintSetupState) -> None:
    """Add what the pages need to the app: a converter, functions for templates, and hooks.

    The blueprint of an Archive and the blueprint of a resolver call this function.

    Flask calls the ``before_request`` functions in the order of their registration, up to the first
    that answers, and the ``after_request`` functions in reverse order. A function of this package
    could be neither the first of the ones nor the last of the others. Therefore two methods of the
    app are replaced, which only a subclass is meant to replace.
    """
    state.app.url_map.converters[OWN_WORD] = OwnWordConverter
    state.app.jinja_env.add_extension(PageFunctions)
    if ANSWERS not in state.app.extensions:
        state.app.extensions[ANSWERS] = []
        state.app.extensions[SERVER_PAGES] = set()
        app = cast(Any, state.app)
        run_hooks, process = app.preprocess_request, app.process_response
        app.preprocess_request = lambda: answer_protocol(run_hooks)
        app.process_response = lambda response: add_policy(process(response))


def add_page(
    blueprint: Blueprint,
    endpoint: str,
    path: str,
    view: Callable[..., Response],
    methods: tuple[str, ...] = ("GET",),
    *,
    for_servers: bool = False,
) -> None:
    """Add a page with a fixed path to a blueprint; a route of the app for the path has precedence.

    :param path: the path, such as ``/ibi/health/live``. Two words or more are required. The third
        word and later words may be parameters of the view, such as ``f"<{NUMBER}:year>"``.
    :param for_servers: whether other servers read the page. The hooks of the app do not answer
        instead of it; :func:`prepare_app` is called before.
    """
    first, word, *rest = path.lstrip("/").split("/")
    rule = "/".join(["", first, f"<{OWN_WORD}('{word}'):word>", *rest])

    def view_without_word(word: str, **parameters: Any) -> Response:
        return view(**parameters)

    blueprint.add_url_rule(
        rule, endpoint, view_without_word, defaults={"word": word}, methods=methods
    )
    if for_servers:
        name = f"{blueprint.name}.{endpoint}"
        blueprint.record_once(lambda state: state.app.extensions[SERVER_PAGES].add(name))


def add_static_files(blueprint: Blueprint) -> None:
    """Add the routes of the static files to a blueprint."""
    for name in STATIC_TYPES:
        endpoint = f"static_{name.partition('.')[2]}"
        add_page(blueprint, endpoint, f"/ibi/static/{name}", partial(send_static_file, name))


def add_rule_for_all_methods(
    state: BlueprintSetupState, name: str, path: str, view: Callable[..., Response], **options: Any
) -> None:
    """Add a rule to an app for a view that itself rejects the methods that it does not support.

    :param options: further arguments of the rule.
    """
    endpoint = f"{state.blueprint.name}.{name}"
    path = f"{state.url_prefix or ''}{path}"
    options.update(_choose_host(state))
    rule = state.app.url_rule_class(path, endpoint=endpoint, methods=None, **options)
    state.app.url_map.add(rule)
    state.app.endpoint(endpoint)(view)


# --- hooks ---------------------------------------------------------------------------------------


def answer_first(app: App, *answers: Hook, before_resolver: bool = False) -> None:
    """Let functions answer persistent URLs; :func:`prepare_app` is called before.

    The functions are called if the app has no route for the path (:func:`.is_unrouted`).

    :param answers: the functions. They return None if they do not answer the request.
    :param before_resolver: whether these functions are called before that of a resolver in the
        same app, in whichever order both are registered.
    """
    others = app.extensions[ANSWERS]
    app.extensions[ANSWERS] = [*answers, *others] if before_resolver else [*others, *answers]


def answer_protocol(run_hooks: Callable[[], Any]) -> Any:
    """Answer a message to the service, a page for other servers, or a persistent URL.

    A resolver cannot log in, follow a redirect to https, or wait. Therefore the answers of the
    app's hooks do not count here. But the hooks run, because functions that run after the request,
    templates and access policies may need what they prepare.

    :param run_hooks: runs the hooks of the app until one answers, as Flask does.
    :returns: None if the app answers the request.
    """
    extensions = current_app.extensions
    service = extensions[SERVICE]() if SERVICE in extensions else None
    is_for_server = service is not None or request.endpoint in extensions[SERVER_PAGES]
    answers: list[Hook]
    if is_for_server:
        answers = []
    elif is_unrouted():
        answers = extensions[ANSWERS]
    elif has_catch_all_route() and OVER_CATCH_ALL in extensions:
        answers = [extensions[OVER_CATCH_ALL]]
    else:
        return run_hooks()
    try:
        theirs = run_hooks()
    except Exception as error:  # noqa: BLE001 - an error handler of the app may answer it
        theirs = error
    if is_for_server:
        return current_app.dispatch_request() if service is None else service()
    # "/" is no persistent URL; a resolver has its front page there
    if theirs is None or request.path != "/":
        for answer in answers:
            ours = answer()
            if ours is not None:
                return ours
    if isinstance(theirs, Exception):
        raise theirs
    return theirs
