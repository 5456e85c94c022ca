"""What the package replaces in an app works as it does in the versions that it was written for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, Response, request
from werkzeug.routing import BaseConverter, PathConverter

from flask_ibi_archive.server.pages.flask_interfaces import (
    IBIConverter,
    OwnItemConverter,
    OwnWordConverter,
    answer_before_hooks,
    finish_last,
)


@pytest.fixture
def app() -> Flask:
    app = Flask(__name__)
    app.add_url_rule("/", "home", lambda: "home")
    app.before_request(lambda: "hook" if "hook" in request.args else None)
    return app


def get(app: Flask, path: str) -> str:
    return app.test_client().get(path).text


def test_flask_asks_the_function_once_for_the_answer_of_the_hooks(app: Flask) -> None:
    answers: list[Any] = []

    def answer(run_hooks: Callable[[], Any]) -> Any:
        answers.append(run_hooks())
        return "ours" if request.path == "/ours" else answers[-1]

    answer_before_hooks(app, answer)
    app.before_request(lambda: "later" if "later" in request.args else None)
    paths = ("/", "/?hook", "/?later", "/ours?hook", "/ours")
    assert [get(app, path) for path in paths] == ["home", "hook", "later", "ours", "ours"]
    assert answers == [None, "hook", "later", "hook", None]


def test_flask_calls_the_function_after_those_of_the_app(app: Flask) -> None:
    def append(text: str) -> Callable[[Response], Response]:
        def change(response: Response) -> Response:
            response.set_data(response.get_data(as_text=True) + text)
            return response

        return change

    app.after_request(append(" before"))
    finish_last(app, append(" last"))
    app.after_request(append(" after"))
    assert get(app, "/") == "home after before last"
    assert get(app, "/?hook") == "hook after before last"
    assert get(app, "/none").endswith(" after before last")


def test_werkzeug_selects_the_rule_with_the_smallest_weight(app: Flask) -> None:
    class Heavy(BaseConverter):
        weight = 999_999

    converters = {"item": OwnItemConverter, "word": OwnWordConverter, "theirs": IBIConverter}
    app.url_map.converters.update(converters, heavy=Heavy)
    assert BaseConverter.weight < IBIConverter.weight < PathConverter.weight
    for number, rule in enumerate(
        (
            "/item/<item:x>/",
            "/item/<theirs:x>/",
            "/path/<item:x>/",
            "/path/<path:x>/",
            "/heavy/<item:x>/",
            "/heavy/<heavy:x>/<heavy:y>/",
            "/word/<word('a'):x>",
            "/word/<x>",
            "/fixed/<word('a'):x>",
            "/fixed/a",
        )
    ):
        app.add_url_rule(rule, str(number), lambda rule=rule, **values: rule)
    paths = ("/item/a/b/", "/path/a/b/", "/heavy/a/b/", "/word/a", "/fixed/a")
    assert [get(app, path) for path in paths] == [
        "/item/<theirs:x>/",
        "/path/<path:x>/",
        "/heavy/<heavy:x>/<heavy:y>/",
        "/word/<word('a'):x>",
        "/fixed/a",
    ]
