"""Pages of this package: hooks of the app do not answer for other servers; numbers are limited."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from flask import Blueprint, Flask, Response, abort, redirect, request
from support.archives import configure

from example_app import create_app
from flask_ibi_archive import IBIArchive
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.server.web.hooks import prepare_app
from flask_ibi_archive.server.web.responses import POLICY


@pytest.fixture
def app(tmp_path: Path) -> Flask:
    """An app with an Archive and a resolver without databases, which lets nobody in."""
    app = Flask("host", instance_path=str(tmp_path))
    missing = f"sqlite:///{tmp_path / 'missing.sqlite'}"
    configure(app, missing, tmp_path, IBI_RESOLVER_DATABASE_URI=missing, IBI_IDENTIFICATION=True)

    @app.before_request
    def refuse() -> Any:
        if request.method == "POST":
            abort(400, "the CSRF token is missing")
        return redirect("/login")

    IBIArchive(app)
    IBIResolver(app)
    return app


def test_a_server_is_not_asked_to_log_in(app: Flask) -> None:
    for path in ("/ibi/claims", "/ibi/claims/key"):
        answer = app.test_client().get(path)
        assert (answer.status_code, answer.location) == (503, None)
    for path in ("/ibi/items", "/ibi/statistics", "/ibi/claims/unknown"):
        assert app.test_client().get(path).location == "/login"


@pytest.fixture
def apps(app: Flask, tmp_path: Path) -> list[Flask]:
    """An app with all pages of this package, and the example app."""
    app.before_request_funcs.clear()
    missing = app.config["IBI_DATABASE_URI"]
    return [app, create_app({"IBI_DATABASE_URI": missing, "UPLOAD_FOLDER": str(tmp_path)})]


def test_each_number_in_a_path_has_a_limit(apps: list[Flask]) -> None:
    text = "\n".join(rule.rule for app in apps for rule in app.url_map.iter_rules())
    numbers = re.findall("<(int.*?):[a-z]+>", text)
    assert len(numbers) > 10
    assert set(numbers) == {"int(max=2147483647)"}
    for path in ("/ibi/items/", "/ibi/sitemap/", "/ibi/conflicts/", "/publications/"):
        assert [app.test_client().get(f"{path}{10**22}").status_code for app in apps] == [404, 404]


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
