"""A small institutional repository of theses and reports, with persistent identifiers.

Copy from it what your repository needs:

- ``extensions``: Flask-SQLAlchemy, Flask-Migrate, Flask-Login, Flask-WTF and this package;
- ``models``: users, and publications with persistent identifiers;
- ``catalogue``, ``editing``, ``accounts`` and ``forms``: the pages;
- ``templates`` and ``static``: the theme, in which the pages of this package also appear;
- ``seed``: adds two users and some publications.

``python -m example_app`` (module ``__main__``) sets up and runs a complete system: two such
repositories and a resolver. The app reads settings from the environment too, such as
``FLASK_IBI_ARCHIVE_ADDRESS=...``. With the defaults below, every command runs without settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flask import Flask, Response, current_app, render_template
from sqlalchemy.exc import OperationalError, ProgrammingError
from werkzeug.exceptions import HTTPException

from example_app.accounts import accounts
from example_app.catalogue import catalogue
from example_app.editing import editing
from example_app.extensions import csrf, db, ibi, login, migrate
from flask_ibi_archive.errors import NotReady

DEFAULTS = {
    "SECRET_KEY": "only for the example: choose your own long random text",
    "MAX_CONTENT_LENGTH": 50_000_000,
    "SESSION_COOKIE_SAMESITE": "Lax",
    "WTF_CSRF_TIME_LIMIT": None,  # as long as the session
    "IBI_BASE_TEMPLATE": "base.html",
    "IBI_ARCHIVE_NAME": "Vale University Repository",
    "IBI_ARCHIVE_ADDRESS": "localhost:5000",
    "IBI_ARCHIVE_SERVICE_IBI": "sid.inpe.br/mtc-m18@80/2008/03.17.15.17",
    "IBI_PLATFORM_SOFTWARE_IBI": "dpi.inpe.br/banon/1998/08.02.08.56",
    "IBI_MINT_HOST": "repository.example.org",
    "IBI_ARCHIVE_IP": "127.0.0.1",
    "IBI_ARCHIVE_ADMIN_EMAIL": "admin@example.org",
}


def create_app(settings: Mapping[str, Any] | None = None) -> Flask:
    """Return the app of the repository.

    :param settings: settings that replace those of the environment.
    """
    app = Flask(__name__)
    app.config.from_mapping(DEFAULTS)
    app.config.from_prefixed_env()
    app.config.from_mapping(settings)
    app.config.setdefault("UPLOAD_FOLDER", str(Path(app.instance_path) / "uploads"))
    # the publications and the Archive share one database
    uri = app.config.get("IBI_DATABASE_URI", "sqlite:///repository.sqlite")
    app.config.setdefault("SQLALCHEMY_DATABASE_URI", uri)

    db.init_app(app)
    migrate.init_app(app, db)
    login.init_app(app)
    csrf.init_app(app)
    ibi.init_app(app)
    # harvesters may use POST (docs/howto/harvesting.rst)
    csrf.exempt(app.blueprints["ibi_archive"])

    app.register_blueprint(catalogue)
    app.register_blueprint(accounts)
    app.register_blueprint(editing)
    app.after_request(protect_page)
    app.register_error_handler(HTTPException, show_error)
    for not_ready in (OperationalError, ProgrammingError, NotReady):
        app.register_error_handler(not_ready, show_setup)
    return app


def create_resolver(settings: Mapping[str, Any] | None = None) -> Flask:
    """Return the app of a resolver.

    :param settings: settings that replace those of the environment.
    """
    # imported here, because a repository needs neither the resolver nor the library pycurl
    from flask_ibi_archive.resolver import IBIResolver

    app = Flask(__name__)
    app.config.from_prefixed_env()
    app.config.from_mapping(settings)
    IBIResolver(app)
    return app


def protect_page(response: Response) -> Response:
    """Forbid pages to load anything from other hosts."""
    if response.mimetype == "text/html":
        policy = "default-src 'self'; frame-ancestors 'none'"
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
    return response


def show_error(error: HTTPException) -> tuple[str, int]:
    """Return the page of an error."""
    return render_template("error.html", error=error), error.code or 500


def show_setup(error: Exception) -> tuple[str, int]:
    """Return the page that says how to set up the database."""
    current_app.logger.error("the database does not answer: %s", error)
    # without the variables of render_template(): for them, Flask-Login asks the database
    return current_app.jinja_env.get_template("setup.html").render(), 503
