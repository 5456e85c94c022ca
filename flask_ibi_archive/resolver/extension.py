"""The resolver as a Flask extension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click import ClickException
from flask import Flask

from flask_ibi_archive.errors import ConfigError, IBIError, one_line
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.config import RESOLVER_EXTENSION, ArchiveConfig
from flask_ibi_archive.server.database.migrate import RESOLVER
from flask_ibi_archive.server.start import (
    StartError,
    hide_tables_from_host,
    open_database,
    warn_of_unknown_keys,
)
from flask_ibi_archive.signals import Notifier

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.resolving import ResolverService

__all__ = ["IBIResolver"]


class MissingLibrary(IBIError, ClickException):
    """A required library is not installed. Commands print one line instead of a traceback."""


class IBIResolver:
    """Redirects persistent URLs to items. The resolver asks the included Archives for the items.

    ::

        IBIResolver(app)               # or: resolver = IBIResolver(); resolver.init_app(app)

    One IBIResolver object can serve many apps. ``app.extensions["ibi_resolver"].resolver`` is the
    :class:`~flask_ibi_archive.resolver.resolving.ResolverService` of an app. The app's own routes
    have precedence over the routes of the resolver. The same app may also have an
    :class:`~flask_ibi_archive.IBIArchive`.
    """

    def __init__(self, app: Flask | None = None) -> None:
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Add the resolver to an app. The app's config must be complete before this call.

        :raises ConfigError: if a value is missing or wrong. The error names the first wrong key.
        :raises IBIError: if pycurl is not installed.
        :raises RuntimeError: if the app already has a resolver.
        """
        if RESOLVER_EXTENSION in app.extensions:
            raise RuntimeError("this app already has an IBIResolver; an app can have only one")
        try:
            from flask_ibi_archive.resolver.pages import create_resolver_blueprint
            from flask_ibi_archive.resolver.resolving import ResolverService
        except ImportError as error:
            if error.name != "pycurl":
                raise
            raise MissingLibrary(
                f"a resolver needs pycurl ({one_line(error)}); "
                "run: pip install 'flask_ibi_archive[resolver]'"
            ) from None
        try:
            config = ResolverConfig.from_mapping(app.config, app.instance_path)
            database = open_database(config.database_uri, config.database_timeout, RESOLVER)
        except ConfigError as error:
            raise StartError(error) from None
        warn_of_unknown_keys(app, ArchiveConfig, ResolverConfig)
        resolver = ResolverService(config, database, Notifier(app))
        app.extensions[RESOLVER_EXTENSION] = ResolverState(resolver)
        app.register_blueprint(create_resolver_blueprint(resolver))
        app.cli.add_command(ibi_resolver)
        hide_tables_from_host(app)

    def __repr__(self) -> str:
        return "<IBIResolver>"


class ResolverState:
    """The data that the extension stores in an app."""

    def __init__(self, resolver: ResolverService) -> None:
        self.resolver = resolver
