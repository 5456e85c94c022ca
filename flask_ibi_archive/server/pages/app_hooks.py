"""Adds pages to an app, and a hook that answers messages and persistent URLs before the app.

An Archive and a resolver use this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from flask import Blueprint, Flask, Response, request
from flask.blueprints import BlueprintSetupState
from flask.sansio.app import App

from flask_ibi_archive.server.pages import flask_interfaces
from flask_ibi_archive.server.pages.persistent_urls import Hook, has_catch_all_route, is_unrouted
from flask_ibi_archive.server.pages.requests import current_flask
from flask_ibi_archive.server.pages.responses import add_policy
from flask_ibi_archive.server.pages.texts import PageFunctions

#: The key of the functions that answer persistent URLs in ``app.extensions``.
ANSWERS = "ibi_answers"
#: The key of the function of an Archive that returns the view for a message to its service.
SERVICE = "ibi_service_route"
#: The key of the endpoints of pages for other servers in ``app.extensions``.
SERVER_PAGES = "ibi_server_pages"
#: The name of the converter in the routes of this package.
OWN_WORD = "flask_ibi_archive_own_word"
#: The converter of a number in a path. A larger number is an error in the columns of databases.
NUMBER = f"int(max={2**31 - 1})"


class PageBlueprint(Blueprint):
    """A blueprint whose rules are for one host in an app with ``host_matching=True``.

    The option ``host`` of ``register_blueprint`` is a host name or an address, with or without a
    port.
    """

    def make_setup_state(
        self, app: App, options: dict[str, Any], first_registration: bool = False
    ) -> BlueprintSetupState:
        """Return the object that adds the rules to an app."""
        return _SetupState(self, app, options, first_registration)


class _SetupState(BlueprintSetupState):
    def add_url_rule(
        self,
        rule: str,
        endpoint: str | None = None,
        view_func: Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        """Add a rule to the app."""
        super().add_url_rule(rule, endpoint, view_func, **options, **_choose_host(self))


def _choose_host(state: BlueprintSetupState) -> dict[str, Any]:
    """Return the argument ``host`` of a rule if the app has ``host_matching=True``."""
    if not state.app.url_map.host_matching:
        return {}
    # werkzeug compares it with the Host header in lower case and without a default port
    return {"host": re.sub(r":(80|443)$", "", state.options["host"].lower())}


def prepare_app(state: BlueprintSetupState) -> None:
    """Add what the pages need to the app: a converter, functions for templates, and hooks.

    The blueprint of an Archive and the blueprint of a resolver call this function.
    """
    state.app.url_map.converters[OWN_WORD] = flask_interfaces.OwnWordConverter
    state.app.jinja_env.add_extension(PageFunctions)
    if ANSWERS not in state.app.extensions:
        state.app.extensions[ANSWERS] = []
        state.app.extensions[SERVER_PAGES] = set()
        app = cast(Flask, state.app)
        flask_interfaces.answer_before_hooks(app, answer_protocol)
        flask_interfaces.finish_last(app, add_policy)


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


def answer_first(app: App, *answers: Hook, before_resolver: bool = False) -> None:
    """Let functions answer persistent URLs; :func:`prepare_app` is called before.

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
    app = current_flask()
    service = app.extensions[SERVICE]() if SERVICE in app.extensions else None
    is_for_server = service is not None or request.endpoint in app.extensions[SERVER_PAGES]
    if not is_for_server and not is_unrouted() and not has_catch_all_route():
        return run_hooks()
    try:
        theirs = run_hooks()
    except Exception as error:  # noqa: BLE001 - an error handler of the app may answer it
        theirs = error
    if is_for_server:
        return app.dispatch_request() if service is None else service()
    # "/" is no persistent URL; a resolver has its front page there
    if theirs is None or request.path != "/":
        for answer in app.extensions[ANSWERS]:
            ours = answer()
            if ours is not None:
                return ours
    if isinstance(theirs, Exception):
        raise theirs
    return theirs
