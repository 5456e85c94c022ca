"""What this package needs from Flask and Werkzeug, but for which they document no way.

There is one function or class for each case; its docstring says why. They work with Flask 3.0 and
3.1, and Werkzeug 3.0 and 3.1. ``tests/server/pages/test_flask_interfaces.py`` fails if another
version behaves differently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, Response
from werkzeug.routing import AnyConverter, BaseConverter

from flask_ibi_archive.server.pages.requests import current_flask, current_request


def answer_before_hooks(app: Flask, answer: Callable[[Callable[[], Any]], Any]) -> None:
    """Let a function decide about the answers of the ``before_request`` functions of the app.

    Flask calls these functions in the order of their registration, up to the first that answers. A
    function of this package would not be called if one that was registered earlier answers.
    ``preprocess_request`` is documented, but only a subclass is meant to replace it.

    :param answer: gets the function that calls those of the app, and returns an answer or None.
    """
    run_hooks = app.preprocess_request
    app.preprocess_request = lambda: answer(run_hooks)  # type: ignore[method-assign]


def finish_last(app: Flask, finish: Callable[[Response], Response]) -> None:
    """Call a function with each response after all ``after_request`` functions of the app.

    Flask calls those that were registered first at the end. ``process_response`` is documented, but
    only a subclass is meant to replace it.
    """
    process = app.process_response
    app.process_response = lambda response: finish(process(response))  # type: ignore[method-assign]


def select_view(endpoint: str, **view_args: Any) -> None:
    """Let a view answer the current request, although Flask has found another one or none.

    The functions of the app then see the endpoint, too. A route that matches only some values is
    not possible: Werkzeug does not try the next rule if a converter refuses a value.
    """
    request = current_request()
    request.routing_exception = None
    request.url_rule = next(current_flask().url_map.iter_rules(endpoint))
    request.view_args = view_args


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
    """Matches an identifier in the routes of this package.

    The large weight gives rules of the app precedence, whichever converter they use.
    """

    weight = 1_000_000


class OwnWordConverter(AnyConverter):
    """Matches a fixed word in the routes of this package.

    A rule of the app that contains the word itself has precedence, because Werkzeug selects rules
    without converters first. A rule of the app with another converter has a larger weight.
    """

    weight = -1
