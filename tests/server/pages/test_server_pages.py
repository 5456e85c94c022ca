"""Pages for other servers: hooks of the app run, but do not answer instead of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask import Flask, abort, redirect, request
from support.archives import SERVICE, configure

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.resolver import IBIResolver

#: Methods and paths, and the statuses of apps without data.
PAGES = [
    ("GET", "/ibi/claims/checkpoint", 503),
    ("GET", "/ibi/claims/key", 503),
    ("GET", "/ibi/claims/tile/0/000", 503),
]


@pytest.fixture
def app(tmp_path: Path) -> Flask:
    """An app with an Archive and a resolver without databases, which lets nobody in."""
    app = Flask("host", instance_path=str(tmp_path))
    missing = f"sqlite:///{tmp_path / 'missing.sqlite'}"
    configure(app, missing, tmp_path, IBI_RESOLVER_DATABASE_URI=missing, PROPAGATE_EXCEPTIONS=True)

    @app.before_request
    def refuse() -> Any:
        if request.method == "POST":
            abort(400, "the CSRF token is missing")
        return redirect("/login")

    IBIArchive(app)
    IBIResolver(app)
    return app


@pytest.mark.parametrize(("method", "path", "status"), PAGES)
def test_a_server_is_not_asked_to_log_in(app: Flask, method: str, path: str, status: int) -> None:
    answer = app.test_client().open(path, method=method, data=f"service={SERVICE}")
    assert answer.status_code == status
    assert answer.location is None


@pytest.mark.parametrize("path", ["/ibi/items", "/ibi/statistics", "/ibi/claims/unknown"])
def test_the_hooks_of_the_app_answer_for_other_pages(app: Flask, path: str) -> None:
    assert app.test_client().get(path).location == "/login"
