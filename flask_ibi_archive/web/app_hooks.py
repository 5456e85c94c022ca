"""Adds pages to an app, and a hook that answers messages and persistent URLs before the app.

An Archive and a resolver use this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Flask, Response, request
from flask.blueprints import BlueprintSetupState
from flask.sansio.app import App
from werkzeug.routing import AnyConverter

from flask_ibi_archive.web.persistent_urls import Hook, is_unrouted
from flask_ibi_archive.web.requests import current_flask
from flask_ibi_archive.web.responses import add_policy_hook
from flask_ibi_archive.web.translations import PageFunctions

#: The key of the functions that answer persistent URLs in ``app.extensions``.
ANSWERS = "ibi_answers"
#: The key of the function of an Archive that selects the view for a message to its service.
SERVICE = "ibi_service_route"
#: The name of the converter in the routes of this package.
OWN_WORD = "flask_ibi_archive_own_word"


class OwnWordConverter(AnyConverter):
    """Matches a fixed word in the routes of this package.

    A rule of the app that contains the word itself has precedence, because werkzeug selects rules
    without converters first. A rule of the app with another converter has a larger weight.
    """

    weight = -1


def prepare_app(state: BlueprintSetupState) -> None:
    """Add what the pages need to the app: a converter, functions for templates, and a hook.

    The blueprint of an Archive and the blueprint of a resolver call this function.
    """
    state.app.url_map.converters[OWN_WORD] = OwnWordConverter
    state.app.jinja_env.add_extension(PageFunctions)
    add_policy_hook(state.app)


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


def answer_first(app: App, answer: Hook) -> None:
    """Let a function answer persistent URLs, whatever the hooks of the app answer.

    :param answer: the function. It returns None if it does not answer the request.
    """
    answers = app.extensions.setdefault(ANSWERS, [])
    if not answers:
        # before the hooks that the app has already; before_request() appends those of later
        app.before_request_funcs.setdefault(None, []).insert(0, answer_protocol)
    answers.append(answer)


def answer_protocol() -> Any:
    """Answer a message to the service, or a persistent URL.

    A resolver cannot log in, follow a redirect to https, or wait. Therefore the answers of the
    app's hooks do not count here. But the hooks run, because functions that run after the request,
    templates and access policies may need what they prepare. As in Flask, the first hook that
    answers is the last one to run.

    :returns: None if the app answers the request.
    """
    app = current_flask()
    is_for_service = SERVICE in app.extensions and app.extensions[SERVICE]()
    if not is_for_service and not is_unrouted():
        return None
    theirs = _run_hooks(app)
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
    return app.dispatch_request() if theirs is None else theirs


def _run_hooks(app: Flask) -> object:
    """Run the other hooks until one answers. Return its answer, which may be an exception."""
    hooks = app.before_request_funcs[None]
    for hook in hooks[hooks.index(answer_protocol) + 1 :]:
        try:
            answer = app.ensure_sync(hook)()
        except Exception as error:  # noqa: BLE001 - an error handler of the app may answer it
            return error
        if answer is not None:
            return answer
    return None
