"""Functions for the start of an app: settings, databases, the migration commands of the host.

Archives and resolvers use this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from click import ClickException
from flask import Flask, appcontext_pushed, has_request_context, request_started
from sqlalchemy import Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from flask_ibi_archive.errors import ConfigError, ask_if_meant, one_line
from flask_ibi_archive.server.config import (
    EXTENSION,
    RESOLVER_EXTENSION,
    ArchiveConfig,
    find_unknown_keys,
    read_setting,
)
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import ARCHIVE, History, include_name

#: The setting that names a bind of Flask-SQLAlchemy.
BIND = "IBI_DATABASE_BIND"
#: The setting of Flask-SQLAlchemy with the arguments of its default engine.
ENGINE_OPTIONS = "SQLALCHEMY_ENGINE_OPTIONS"


class StartError(ConfigError, ClickException):
    """A missing or wrong setting prevents the start of the app. The error is shown as one line."""

    def __init__(self, error: ConfigError) -> None:
        # the base class IBIError passes the text to ClickException
        super().__init__(error.key, error.value, error.expected)


def warn_of_unknown_keys(app: Flask, *declaring: type[Any]) -> None:
    """Log the unknown keys that begin with IBI_. Log once, even if an app has both extensions.

    :param declaring: the classes that declare all settings.
    """
    if app.extensions.keys() & {EXTENSION, RESOLVER_EXTENSION}:
        return
    for key, nearest in find_unknown_keys(app.config, *declaring):
        app.logger.warning("%s is not a setting of flask_ibi_archive%s", key, ask_if_meant(nearest))


def find_bind(app: Flask) -> Engine | None:
    """Return the engine that IBI_DATABASE_BIND names; None without this setting.

    Call this in the application context of the app.

    :raises ConfigError: if Flask-SQLAlchemy has no such engine for the app.
    """
    key = read_setting(ArchiveConfig, "database_bind", app.config)
    if key is None:
        return None
    flask_sqlalchemy = app.extensions.get("sqlalchemy")
    if flask_sqlalchemy is None:
        raise ConfigError(BIND, key, "unset, or the app should have Flask-SQLAlchemy")
    engines: dict[str | None, Engine] = flask_sqlalchemy.engines
    if key not in engines:
        names = ", ".join(sorted(name for name in engines if name is not None))
        expected = (
            f"a key of SQLALCHEMY_BINDS: {names}"
            if names
            else "unset, because SQLALCHEMY_BINDS is empty"
        )
        raise ConfigError(BIND, key, expected)
    return engines[key]


def add_connection_options(app: Flask, uri: str) -> str:
    """Add the options with which the app opens connections to the URL of the app's database.

    Flask-SQLAlchemy keeps these options in the argument ``connect_args`` of engines. Without an
    option such as ``search_path``, our tables would be in another schema.
    """
    url = make_url(uri)
    if url.get_backend_name() != "postgresql":
        return uri
    arguments = _find_engine_options(app).get("connect_args") or {}
    # others, such as prepare_threshold, are no options of libpq but arguments of the driver
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
    return url.update_query_dict(texts).render_as_string(hide_password=False)


def _find_engine_options(app: Flask) -> Mapping[str, Any]:
    """Return the arguments that the app has set for the engine of its session."""
    key = app.config.get(BIND)
    options = app.config["SQLALCHEMY_BINDS"][key] if key else app.config.get(ENGINE_OPTIONS)
    return options if isinstance(options, Mapping) else {}


def open_database(
    uri: str,
    timeout: float,
    history: History = ARCHIVE,
    host: Flask | None = None,
) -> Database:
    """Return a :class:`Database` for a URL, without connecting to it.

    :param timeout: the largest number of seconds that a statement of a request may take.
    :param history: the migrations of the tables. ``history.setting`` is the key of the URL setting.
    :param host: the app, if the database is the one that the session of the app uses.
    :raises ConfigError: if the URL is invalid, the driver is not installed, or the folder of an
        SQLite file can't be created.
    """
    try:
        creator = None if host is None else _find_engine_options(host).get("creator")
        return Database(
            uri,
            history,
            timeout,
            lambda: timeout if has_request_context() else None,
            host is not None,
            creator,
        )
    except OSError as error:
        expected = (
            "the URL of an SQLite file in a folder that exists or can be created "
            f"({error.filename}: {error.strerror})"
        )
    except ImportError as error:
        ours = re.match(r"postgresql(\+psycopg)?:", uri)
        advice = "; run: pip install 'flask_ibi_archive[postgresql]'" if ours else ""
        expected = f"a SQLAlchemy URL whose driver is installed ({one_line(error)}){advice}"
    except (ArgumentError, ValueError) as error:
        # other errors are not shown, because their text may contain a part of the password
        reason = f" ({one_line(error)})" if isinstance(error, NoSuchModuleError) else ""
        expected = (
            "a SQLAlchemy URL, as sqlite:////srv/ibi.sqlite or "
            f"postgresql+psycopg://user@host/database{reason}"
        )
    raise ConfigError(history.setting, hide_password(uri), expected)


def hide_password(uri: str) -> str:
    """Return a URL without its password, even if the URL is invalid."""
    uri = re.sub(r"(password=)[^&]*", r"\1***", uri)
    return re.sub(r"^([a-z0-9+]*://[^:@/]*)?.*@", r"\1@", uri, flags=re.DOTALL)


#: The key of Flask-Migrate in ``app.extensions``.
FLASK_MIGRATE = "migrate"
#: The key of the function that looks for Flask-Migrate.
SEARCH = "ibi_host_migrations"


def hide_tables_from_host(app: Flask) -> None:
    """Make the migrations of an app ignore our tables, in addition to the app's own filters.

    The app may initialise Flask-Migrate before or after this call, or not at all. Therefore the
    function looks for Flask-Migrate each time that an application context begins, as in each
    command, until the first request.
    """
    if SEARCH in app.extensions:
        return

    def add_filter(app: Flask, **details: object) -> None:
        if FLASK_MIGRATE not in app.extensions:
            return
        stop()
        arguments = app.extensions[FLASK_MIGRATE].configure_args
        theirs = arguments.get("include_name", lambda *described: True)
        arguments["include_name"] = lambda *described: (
            include_name(*described) and theirs(*described)
        )

    def stop(*request: object, **details: object) -> None:
        # without a sender, because a receiver that only leaves a sender remains in the signal
        appcontext_pushed.disconnect(add_filter)
        request_started.disconnect(stop)

    app.extensions[SEARCH] = add_filter  # the signals do not keep it
    appcontext_pushed.connect(add_filter, app)
    request_started.connect(stop, app)
    add_filter(app)
