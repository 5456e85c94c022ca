"""The repository of the page docs/hosts.rst: its apps, and its command line."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from flask import Flask
from flask.cli import FlaskGroup
from flask.testing import FlaskCliRunner

# Invenio reads these variables once
os.environ["INVENIO_INSTANCE_PATH"] = str(Path(__file__).with_name("my_instance"))
os.environ["INVENIO_STATIC_FOLDER"] = tempfile.mkdtemp()
from invenio_app.factory import create_app
from invenio_db import db
from my_site import theses


class NoBundles:
    """The manifest of a build of the theme without stylesheets and scripts: a build needs npm."""

    def load(self, path: str) -> dict[str, str]:
        return defaultdict(str)


class Site:
    """The repository: its apps, and its command line."""

    def __init__(self, settings: dict[str, Any]) -> None:
        uri = settings["IBI_DATABASE_URI"]
        self.settings = {**settings, "SQLALCHEMY_DATABASE_URI": uri, "IBI_DATABASE_URI": None}
        self.settings["WEBPACKEXT_MANIFEST_LOADER"] = NoBundles
        self.apps: list[Flask] = []

    def create_app(self, **settings: Any) -> Flask:
        """Return the app of the user interface, with that of the API under /api."""
        app = create_app(**self.settings, **settings)
        self.apps.append(app)
        return app

    def run(self, app: Flask, *words: str) -> str:
        """Run a command of Invenio, as the program ``invenio`` does, and return its output."""
        group = FlaskGroup(create_app=lambda: app)
        result = FlaskCliRunner(app, catch_exceptions=False).invoke(group, words)
        assert result.exit_code == 0, result.output
        return result.stdout

    def check(self, app: Flask) -> dict[str, str]:
        """Return what ``ibi check`` says, with ok or FAIL, by the name of the check."""
        group = FlaskGroup(create_app=lambda: app)
        lines = FlaskCliRunner(app).invoke(group, ["ibi", "check"]).stdout.splitlines()
        parts = [line.partition(": ") for line in lines]
        return {head[5:]: f"{head[:5].strip()} {text}" for head, _, text in parts}

    @property
    def is_on_postgresql(self) -> bool:
        """Whether the database is one of PostgreSQL."""
        return self.settings["SQLALCHEMY_DATABASE_URI"].startswith("postgresql")

    def create_own_tables(self, app: Flask) -> None:
        """Create the tables of Invenio and of the site."""
        if self.is_on_postgresql:
            self.run(app, "alembic", "upgrade")
        else:  # migrations of Invenio need what SQLite does not have
            self.run(app, "db", "create")

    def create_tables(self, app: Flask) -> None:
        """Create all tables."""
        self.create_own_tables(app)
        self.run(app, "ibi", "init")

    def close(self) -> None:
        """Close the connections of all apps."""
        for app in self.apps:
            with app.app_context():
                db.session.remove()
                db.engine.dispose()
                theses.ibi.archive.database.close()


def end_https(app: Flask) -> None:
    """Let an app believe that a proxy has received all requests by https."""
    served = app.wsgi_app

    def serve(environ: dict[str, Any], start: Any) -> Any:
        return served({**environ, "HTTP_X_FORWARDED_PROTO": "https"}, start)

    app.wsgi_app = serve
