"""The functions of the package run before and after those of the app; its rules come last."""

from __future__ import annotations

from flask import Blueprint, Flask, Response, request

from flask_ibi_archive.server.web.hooks import (
    answer_first,
    prepare_app,
)
from flask_ibi_archive.server.web.responses import POLICY


def get(app: Flask, path: str) -> str:
    return app.test_client().get(path).text


def test_the_package_answers_although_a_hook_of_the_app_answers() -> None:
    app, asked = Flask(__name__), []

    def hook() -> str | None:
        asked.append(request.path)
        return "hook" if "hook" in request.args else None

    app.add_url_rule("/", "home", lambda: "home")
    app.before_request(hook)
    blueprint = Blueprint("ours", __name__)
    blueprint.record_once(prepare_app)
    blueprint.record_once(
        lambda state: answer_first(
            state.app, lambda: Response("ours") if request.path == "/ours" else None
        )
    )
    app.register_blueprint(blueprint)
    app.before_request(lambda: "later" if "later" in request.args else None)
    paths = ("/", "/?hook", "/?later", "/ours?hook", "/ours", "/other?hook")
    assert [get(app, path) for path in paths] == ["home", "hook", "later", "ours", "ours", "hook"]
    assert asked == [path.partition("?")[0] for path in paths]


def test_the_policy_is_added_after_all_functions_of_the_app() -> None:
    app = Flask(__name__)

    def view() -> str:
        request.environ[POLICY] = "default-src 'self'"
        return "page"

    def set_policy(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = "theirs"
        return response

    app.add_url_rule("/", "home", view)
    if_set = lambda response: set_policy(response) if "set" in request.args else response  # noqa: E731
    app.after_request(if_set)
    blueprint = Blueprint("ours", __name__)
    blueprint.record_once(prepare_app)
    app.register_blueprint(blueprint)
    answers = [app.test_client().get(path) for path in ("/", "/?set")]
    policies = [answer.headers.getlist("Content-Security-Policy") for answer in answers]
    assert policies == [["default-src 'self'"], ["theirs"]]
