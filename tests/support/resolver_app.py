"""An app with a stub in place of the resolver, to test pages without Archives."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from flask import Blueprint, Flask, Response

from flask_ibi_archive.resolver.front_page import show_at_root
from flask_ibi_archive.server.config import PAGE_POLICY
from flask_ibi_archive.server.pages.app_hooks import add_page, answer_first, prepare_app
from flask_ibi_archive.server.pages.persistent_urls import (
    create_fallback_hook,
    is_like_persistent_url,
)
from flask_ibi_archive.server.pages.static_files import add_static_files


def resolver_app(answer: Callable[..., Response | None]) -> Flask:
    """Return an app without an Archive, in which a function answers persistent URLs."""
    app = Flask("resolver")
    app.config.from_mapping(TESTING=True, PROPAGATE_EXCEPTIONS=True)
    add_resolver(app, answer)
    return app


def add_resolver(app: Flask, answer: Callable[..., Response | None]) -> None:
    """Add a function in place of a resolver to an app."""
    config = SimpleNamespace(
        trusted_proxies=(),
        archive_name=None,
        base_template=None,
        content_security_policy=PAGE_POLICY,
    )
    app.extensions["ibi_resolver"] = SimpleNamespace(resolver=SimpleNamespace(config=config))
    blueprint = Blueprint(
        "ibi_resolver", "flask_ibi_archive.server.pages", template_folder="templates"
    )
    blueprint.record_once(prepare_app)
    add_static_files(blueprint, add_page)
    blueprint.before_app_request(show_at_root)
    hook = create_fallback_hook(answer, is_like_persistent_url)
    blueprint.record_once(lambda state: answer_first(state.app, hook))
    app.register_blueprint(blueprint)
