"""What this package needs of Flask and Werkzeug, but what these document no way to do.

There is one function or class for each case, whose docstring states the reason. All of them work
with Flask 3.1 and Werkzeug 3.1. If another version behaves differently,
``tests/server/pages/test_flask_interfaces.py`` fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flask import Flask, Response
from werkzeug.routing import AnyConverter, BaseConverter

from flask_ibi_archive.core.identifiers.grammar import IBIP, LEGACY, REPOSITORY


def answer_before_hooks(app: Flask, answer: Callable[[Callable[[], Any]], Any]) -> None:
    """Call a function of this package before the ``before_request`` functions of the app.

    Flask calls the ``before_request`` functions in the order of their registration, up to the first
    that answers. If a function of this package were one of them, it would not be called after an
    answer. ``preprocess_request`` is documented, but only a subclass is meant to replace it.

    :param answer: returns the answer to the request, or None. Its argument is the function that
        calls the ``before_request`` functions of the app, and returns their answer or None.
    """
    run_hooks = app.preprocess_request
    app.preprocess_request = lambda: answer(run_hooks)  # type: ignore[method-assign]


def finish_last(app: Flask, finish: Callable[[Response], Response]) -> None:
    """Call a function with each response after all ``after_request`` functions of the app.

    Flask calls the ``after_request`` functions in reverse order of their registration, so this
    package cannot register the last one. ``process_response`` is documented, but only a subclass is
    meant to replace it.
    """
    process = app.process_response
    app.process_response = lambda response: finish(process(response))  # type: ignore[method-assign]


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
