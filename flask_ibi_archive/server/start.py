"""Opens the databases that the settings of an app name, and reports wrong settings.

Archives and resolvers use this module.
"""

from __future__ import annotations

import re
from functools import partial

from click import ClickException
from flask import Flask
from sqlalchemy import Engine

from flask_ibi_archive.errors import ConfigError, one_line
from flask_ibi_archive.server.config import SettingsReader, find_unknown_keys
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.engines import ArgumentError, NoSuchModuleError
from flask_ibi_archive.server.database.migrate import ARCHIVE, History
from flask_ibi_archive.server.pages.requests import EXTENSION, RESOLVER_EXTENSION, find_budget
from flask_ibi_archive.server.setting_values import parse_text

#: The setting that names a bind of Flask-SQLAlchemy.
BIND = "IBI_DATABASE_BIND"


class StartError(ConfigError, ClickException):
    """A missing or wrong setting prevents the start of the app. The error is shown as one line."""

    def __init__(self, error: ConfigError) -> None:
        # the base class IBIError passes the text to ClickException
        super().__init__(error.key, error.value, error.expected)


def warn_of_unknown_keys(app: Flask) -> None:
    """Log the unknown keys that begin with IBI_. Log once, even if an app has both extensions."""
    if app.extensions.keys() & {EXTENSION, RESOLVER_EXTENSION}:
        return
    for key, nearest in find_unknown_keys(app.config):
        hint = "" if nearest is None else f"; did you mean {nearest}?"
        app.logger.warning("%s is not a setting of flask_ibi_archive%s", key, hint)


def find_bind(app: Flask) -> Engine | None:
    """Return the engine that IBI_DATABASE_BIND names; None if this setting is not set.

    Call this in the application context of the app.

    :raises ConfigError: if Flask-SQLAlchemy has no such engine for the app.
    """
    key = SettingsReader(app.config).read(BIND, parse_text)
    if key is None:
        return None
    flask_sqlalchemy = app.extensions.get("sqlalchemy")
    if flask_sqlalchemy is None:
        raise ConfigError(BIND, key, "unset, or used after init_app() of Flask-SQLAlchemy")
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


def open_database(
    uri: str, timeout: float, history: History = ARCHIVE, belongs_to_host: bool = False
) -> Database:
    """Return the database with a URL. The function does not connect to the database.

    :param timeout: the largest number of seconds that a request may wait for databases.
    :param history: the migrations of the tables. ``history.setting`` is the key of the URL setting.
    :param belongs_to_host: whether the database belongs to the host.
    :raises ConfigError: if the URL is invalid, the driver is not installed, or the folder of an
        SQLite file can't be created.
    """
    try:
        return Database.at(uri, history, timeout, partial(find_budget, timeout), belongs_to_host)
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
