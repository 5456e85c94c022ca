"""The Flask extension of an Archive. The app of a repository creates this extension.

The extension reads the settings, opens the database, and registers routes and commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask import Flask, Response, current_app, has_app_context, has_request_context
from flask.typing import ResponseReturnValue
from sqlalchemy.exc import ArgumentError

from flask_ibi_archive import host_functions
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.commands import create_group
from flask_ibi_archive.archive.commands import ibi as commands
from flask_ibi_archive.archive.hosts.current_archive import set_finder
from flask_ibi_archive.archive.hosts.flushes import announce_removal, refresh
from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem
from flask_ibi_archive.archive.hosts.record_catalogue import RecordCatalogue
from flask_ibi_archive.archive.items.operations import Clock, Identified, get_ibi, read_utc_clock
from flask_ibi_archive.archive.items.sessions import HostSession, SessionSource
from flask_ibi_archive.archive.librarian import admin_page
from flask_ibi_archive.archive.pages.landing import landing, respond
from flask_ibi_archive.archive.routing import create_blueprint
from flask_ibi_archive.archive.service.local_resolution import (
    OwnArchive,
    answer_former_link,
    answer_own_item,
)
from flask_ibi_archive.core.protocol.url_list import ArchiveUrls, Named, PageKind
from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.config import ArchiveConfig, NoDatabaseYet, find_address
from flask_ibi_archive.server.database.engines import is_same_database
from flask_ibi_archive.server.database.migrate import ARCHIVE, replica_history
from flask_ibi_archive.server.start import (
    BIND,
    StartError,
    WaitingArchive,
    add_connection_options,
    find_bind,
    hide_password,
    hide_tables_from_host,
    open_database,
    open_later,
    warn_of_unknown_keys,
)
from flask_ibi_archive.server.web.requests import (
    EXTENSION,
    OWN_ARCHIVE,
    current_archive,
    find_root,
)
from flask_ibi_archive.signals import Notifier

DATABASE = ARCHIVE.setting


def find_current_archive() -> Archive:
    """Return the Archive of the current app.

    :raises RuntimeError: outside of an app context, or if the current app has no Archive.
    """
    if not has_app_context():
        raise RuntimeError(
            "ibi.archive and the rows of models with IdentifiedItem need an application context; "
            "use: with app.app_context(): ..."
        )
    if EXTENSION not in current_app.extensions:
        raise RuntimeError("the current app has no IBIArchive; call ibi.init_app(app) first")
    return current_archive()


set_finder(find_current_archive)


class IBIArchive:
    """Provides persistent identifiers for the items of a Flask app, and answers resolvers.

    ::

        ibi = IBIArchive()
        ibi.init_app(app)
        ibi.archive.deposit(title="Annual report", language="en", files=["report.pdf"])

    One object can serve several apps. :attr:`archive` is the Archive of the current app. In
    templates, ``{{ ibi_persistent_url(item) }}`` is the persistent URL of an item.

    :param addresses: a subclass of
        :class:`~flask_ibi_archive.core.protocol.url_list.ArchiveUrls`, if the method
        :meth:`address` is not sufficient.
    :param session: the database session of the app. Operations on items are then part of the
        transactions of the app, and the app commits. The session is a ``scoped_session`` (such as
        ``db.session`` of Flask-SQLAlchemy), a ``Session``, or a callable that returns the current
        session. The Archive uses the database of the session, or the bind of Flask-SQLAlchemy that
        IBI_DATABASE_BIND names. IBI_DATABASE_URI must not name another database.
    :param catalogue: an object of a subclass of :class:`~flask_ibi_archive.RecordCatalogue`, if the
        app keeps all data of its items in its own tables. Then the app changes the items there, and
        operations such as ``deposit`` are refused.
    :param clock: returns the current time, with a time zone; see
        :class:`~flask_ibi_archive.archive.archive.Archive`. Tests use a clock that stands still.
    :param routes: False for an app that deposits and changes items, but does not serve the Archive,
        such as an API or a worker.
    """

    def __init__(
        self,
        app: Flask | None = None,
        *,
        addresses: type[ArchiveUrls] = ArchiveUrls,
        session: SessionSource | None = None,
        catalogue: RecordCatalogue | None = None,
        clock: Clock = read_utc_clock,
        routes: bool = True,
    ) -> None:
        self.functions = host_functions.HostFunctions()
        self.addresses = addresses
        self.session = session
        self.catalogue = catalogue
        self.clock = clock
        self.routes = routes
        if app is not None:
            self.init_app(app)

    @property
    def archive(self) -> Archive:
        """The Archive of the current app.

        :raises RuntimeError: outside of an app context, or if the current app has no Archive.
        """
        return find_current_archive()

    address = host_functions.address
    language = host_functions.language
    access_policy = host_functions.access_policy
    metadata_format = host_functions.metadata_format
    oai_sets = host_functions.oai_sets

    def removing(
        self,
        row: IdentifiedItem,
        *,
        reason: str,
        citation: str | None = None,
        successor: str | Identified | None = None,
        discard_description: bool = False,
    ) -> None:
        """State why a row of a model with IdentifiedItem will be deleted.

        ::

            ibi.removing(thesis, reason="Retracted by the author.", successor=corrected)
            db.session.delete(thesis)
            db.session.commit()

        The tombstone of the item contains the values. Without this call, the reason is "removed by
        the repository".

        :param reason: the reason for the removal, which the public can read.
        :param citation: a text that cites the item. None: pages make the citation from the
            metadata.
        :param successor: the IBI of the item that replaces the removed item, or a row or another
            object with an ``ibi``.
        :param discard_description: True: the tombstone keeps no metadata of the item.
        :raises StorageError: if a value is wrong, or if the object is not a row of such a model.
        """
        announce_removal(row, reason, citation, successor, discard_description)

    def refresh(self, row: IdentifiedItem) -> None:
        """Write the item of a row of a model with IdentifiedItem again.

        ::

            db.session.execute(update(Thesis).where(Thesis.id == 5).values(title="On rain"))
            ibi.refresh(db.session.get(Thesis, 5))

        Call this method after statements that change rows without the session, such as bulk updates
        and bulk inserts, and after changes of other rows that ``ibi_record()`` uses. If the record
        of the item does not differ, nothing changes. A row without an identifier gets one.

        :raises StorageError: if the row is not in a session, if its record is wrong, or if it has
            lost its identifier; then run ``flask ibi adopt``.
        """
        refresh(row)

    def landing_page(self, item: str | Identified) -> Response:
        """Return the landing page of an item, for a route of the app at the same address.

        ::

            @app.get("/col/<flask_ibi_archive_item:ibi>/")
            def show_item(ibi):
                thesis = find_thesis(ibi)
                return ibi_archive.landing_page(ibi) if thesis is None else show(thesis)

        For a removed item, the page is its tombstone. If there is no such item, or if the user may
        not see it, the page says so.

        :param item: an identifier, or an object with an ``ibi``.
        :raises StorageError: if the object has no identifier yet.
        """
        return current_app.make_response(landing(ibi=get_ibi("item", item)))

    def admin_page(self) -> Response:
        """Return the page of the librarian, for a view of the app that requires a login.

        ::

            @app.route("/admin/ibi", methods=["GET", "POST"])
            @login_required
            def care():
                if not current_user.is_librarian:
                    abort(403)
                return ibi.admin_page()

        The page shows the state of the registration, failing links, damaged files, embargoes that
        end soon, and the most read items. Its form withdraws items without a row in a table of the
        app. Everyone who can open the view can use it: the app decides who that is.
        """
        return admin_page()

    def respond(self, item: str | Identified, response: ResponseReturnValue) -> Response:
        """Return the response of the app's own page of an item, with what programs need.

        ::

            @app.get("/thesis/<int:id>")
            def show_thesis(id):
                thesis = db.get_or_404(Thesis, id)
                return ibi.respond(thesis, render_template("thesis.html", thesis=thesis))

        The response gets the Link header of our landing page (Signposting). A program that prefers
        a metadata format is redirected to the metadata. A removed item has its tombstone. A draft,
        which is no item yet, has the response as it is. In the template, ``{{ ibi_head(thesis) }}``
        is for the ``head``; ``ibi_citation``, ``ibi_versions``, ``ibi_files`` and ``ibi_details``
        write parts of our page.

        :param item: an identifier, or an object with an ``ibi``.
        :param response: what the view would return.
        """
        return current_app.make_response(respond(item, current_app.make_response(response)))

    def answer_persistent_url(self) -> Response | None:
        """Answer the current request if its URL leads to an item of the Archive.

        The URL may be a persistent URL, a foreign identifier or a former address.

        ::

            @app.get("/<owner>/<name>")
            def show(owner, name):
                return ibi.answer_persistent_url() or show_page(owner, name)

        Call this method in a view whose route matches identifiers, too. A route for all paths
        (``/<path:page>``) does not need it.

        :returns: None if the request is for another page.
        """
        return answer_own_item() or answer_former_link()

    commands = staticmethod(create_group)

    def init_app(self, app: Flask) -> None:
        """Add the Archive to an app. The app must already have all settings.

        If the session has no database yet, because Flask-SQLAlchemy is initialised later, the
        settings are read when an application context begins.

        :raises ConfigError: if a setting is missing or wrong. The error names the first of them.
        :raises RuntimeError: if the app already has an Archive.
        """
        if not isinstance(app, Flask):
            raise TypeError(
                f"{app!r} is not a Flask app; use IBIArchive(app), or IBIArchive(session=...) "
                "and init_app(app)"
            )
        if EXTENSION in app.extensions:
            raise RuntimeError("this app already has an IBIArchive; an app can have only one")
        warn_of_unknown_keys(app, ArchiveConfig, ResolverConfig)
        try:
            self._open(app)
        except NoDatabaseYet as error:
            open_later(app, WaitingArchive(self._open, self.functions, StartError(error)))
        except ConfigError as error:
            raise StartError(error) from None
        if self.routes:
            blueprint = create_blueprint(app.config)
            app.register_blueprint(blueprint, host=find_address(app.config))
        app.cli.add_command(commands)
        app.add_template_global(
            lambda item: self.archive.persistent_url(item), "ibi_persistent_url"
        )
        hide_tables_from_host(app)

    def _open(self, app: Flask) -> None:
        """Read the settings of an app, and open the database of its Archive.

        :raises ConfigError: if a setting is missing or wrong.
        :raises NoDatabaseYet: if the session of the app has no database yet.
        """
        if not isinstance(self.catalogue, RecordCatalogue | None):
            expected = "an object of a subclass of RecordCatalogue"
            raise ConfigError("catalogue", self.catalogue, expected)
        session, settings = self._session(app)
        config = ArchiveConfig.from_mapping(settings, app.instance_path)
        database = open_database(
            config.database_uri, config.database_timeout, host=None if session is None else app
        )
        replica = config.read_database_uri and open_database(
            config.read_database_uri, config.database_timeout, replica_history(ARCHIVE)
        )
        addresses = self._create_addresses(app, config)
        archive = Archive(
            config,
            database,
            addresses,
            session=session,
            catalogue=self.catalogue,
            notifier=Notifier(app),
            clock=self.clock,
            formats=self.functions.formats,
            sets=self.functions.sets,
            replica=replica or None,
        )
        # without a registration key, no resolver can have included the Archive
        app.extensions[EXTENSION] = ExtensionState(archive, self.functions)
        app.extensions[OWN_ARCHIVE] = OwnArchive(archive)

    def _create_addresses(self, app: Flask, config: ArchiveConfig) -> ArchiveUrls:
        """Return the object that builds the URLs of an app."""

        def find_address(page: PageKind, item: Named, path: str | None) -> str | None:
            assert self.functions.find_address is not None
            if has_request_context():
                return self.functions.find_address(page, item, path)
            with app.test_request_context(base_url=addresses.base):
                return self.functions.find_address(page, item, path)

        addresses = self.addresses(config.base_url)
        addresses.find_root = partial(find_root, config.application_root)
        addresses.get_host_function = lambda: self.functions.find_address and find_address
        return addresses

    def _session(self, app: Flask) -> tuple[HostSession | None, Mapping[str, Any]]:
        """Return the session and the settings of the app.

        The session is None if the app uses none. IBI_DATABASE_URI in the settings is the database
        of the session.
        """
        if self.session is None:
            if app.config.get(BIND):
                expected = (
                    f"unset, because IBIArchive has no session; {DATABASE} names the database"
                )
                raise ConfigError(BIND, app.config[BIND], expected)
            return None, app.config
        with app.app_context():
            session = HostSession(self.session, find_bind(app))
            uri = session.find_uri()
        configured = app.config.get(DATABASE)
        if configured is None or configured == "":
            return session, {**app.config, DATABASE: add_connection_options(app, uri)}
        # if the text is not a URL, open_database reports the error
        with suppress(ArgumentError, ValueError):
            if isinstance(configured, str) and not is_same_database(configured, uri):
                raise ConfigError(
                    DATABASE,
                    hide_password(configured),
                    f"unset, or the URL of the session's database: {hide_password(uri)}",
                )
        return session, app.config

    def __repr__(self) -> str:
        return "<IBIArchive>"


@dataclass(frozen=True)
class ExtensionState:
    """What is in ``app.extensions``: the Archive of an app, and the functions of the host."""

    archive: Archive
    functions: host_functions.HostFunctions
