"""The Flask extension of an Archive, which the app of a repository creates.

The extension reads the settings, opens the database, and registers routes, commands and the
functions of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from flask import Flask, Response, current_app, has_request_context
from flask.typing import ResponseReturnValue
from sqlalchemy.exc import ArgumentError

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.commands import create_group
from flask_ibi_archive.archive.commands import ibi as commands
from flask_ibi_archive.archive.harvest.messages import FindItemSets, HarvestSets
from flask_ibi_archive.archive.hosts.flush import announce_removal
from flask_ibi_archive.archive.hosts.host_catalogue import RecordCatalogue
from flask_ibi_archive.archive.hosts.models import IdentifiedItem, find_current_archive
from flask_ibi_archive.archive.hosts.sync import refresh
from flask_ibi_archive.archive.items.access import AccessPolicy
from flask_ibi_archive.archive.items.item_record import Identified, get_ibi
from flask_ibi_archive.archive.items.operations import Clock, read_utc_clock
from flask_ibi_archive.archive.items.sessions import HostSession, SessionSource
from flask_ibi_archive.archive.librarian import admin_page
from flask_ibi_archive.archive.pages.landing import landing, respond
from flask_ibi_archive.archive.routing import create_blueprint
from flask_ibi_archive.archive.service import local_resolution
from flask_ibi_archive.core.protocol.url_list import ArchiveUrls, FindAddress, Named, PageKind
from flask_ibi_archive.core.records.formats import BUILT_IN, FormatRegistry, MetadataFormat, Writer
from flask_ibi_archive.errors import ConfigError
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server import start
from flask_ibi_archive.server.commands.group import HostCommand
from flask_ibi_archive.server.config import EXTENSION, OWN_ARCHIVE, ArchiveConfig
from flask_ibi_archive.server.database.engines import is_same_database
from flask_ibi_archive.server.database.migrate import ARCHIVE, replica_history
from flask_ibi_archive.server.web.requests import find_root
from flask_ibi_archive.signals import Notifier

DATABASE = ARCHIVE.setting
#: Returns the language that the host chose for the reader of the current request, such as ``pt`` or
#: ``pt-BR``; None if the host chooses none.
ChooseLanguage = Callable[[], "str | None"]
#: The type of the function that is registered; a decorator returns the same type.
Policy = TypeVar("Policy", bound=AccessPolicy)


@dataclass
class HostFunctions:
    """The functions that a host has registered with an IBIArchive."""

    find_address: FindAddress | None = None
    access_policy: AccessPolicy | None = None
    choose_language: ChooseLanguage | None = None
    formats: FormatRegistry = field(default_factory=lambda: FormatRegistry(BUILT_IN))
    sets: HarvestSets = field(default_factory=HarvestSets)


class IBIArchive:
    """Provides persistent identifiers for the items of a Flask app, and answers resolvers.

    ::

        ibi = IBIArchive()
        ibi.init_app(app)
        ibi.archive.deposit(title="Annual report", language="en", files=["report.pdf"])

    One object can serve several apps. :attr:`archive` is the Archive of the current app. In
    templates, ``{{ ibi_persistent_url(item) }}`` is the persistent URL of an item.

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
        session: SessionSource | None = None,
        catalogue: RecordCatalogue | None = None,
        clock: Clock = read_utc_clock,
        routes: bool = True,
    ) -> None:
        self.functions: HostFunctions = HostFunctions()
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

    def address(self, function: FindAddress) -> FindAddress:
        """Use a function for the addresses of items, files and pages. This is a decorator.

        ::

            @ibi.address
            def find_address(page, item, path):
                return url_for("thesis", ibi=item.ibip) if page == "item" else None

        URL lists, pages and redirects contain the addresses that the function returns. The
        function also runs for commands. It then has a request context, so that ``url_for`` works.

        :param function: a function with three parameters: the kind of the page (``item``,
            ``file``, ``file_list``, ``metadata`` or ``statistics``), the item with its attributes
            ``rep`` and ``ibip``, and the path of the file. For ``metadata``, the third parameter is
            the format, such as ``oai_dc``, or None. For the other pages, it is None. The function
            returns a path of the app, such as ``/thesis/7``, or a complete URL. None means the
            usual address. The address of a file should end with the path of the file, because
            accesses are counted by this path.
        """
        self.functions.find_address = function
        return function

    def language(self, function: ChooseLanguage) -> ChooseLanguage:
        """Use a function that returns the language of the reader. This is a decorator.

        ::

            @ibi.language
            def choose_language():
                return session.get("language")

        The pages of the Archive are then in the language that the app chose from a session, a path
        or the settings of a user. ``?lang=`` in the URL of a page has precedence. If the app has
        Flask-Babel, its ``get_locale()`` is used without this function.

        :param function: a function without parameters. It returns a language tag, such as
            ``pt-BR``, or None if the reader's cookie and browser choose the language.
        """
        self.functions.choose_language = function
        return function

    def access_policy(self, policy: Policy) -> Policy:
        """Register the function that decides who may read files; use it as a decorator.

        ::

            @ibi.access_policy
            def may_read(
                item: ItemView, file: FileRecord | None, request: Request
            ) -> bool | Response | None:
                if current_user.is_authenticated:
                    return True       # during an embargo and outside the networks, too
                if item.embargo:
                    return current_app.login_manager.unauthorized()  # to the login page
                return None           # the networks and the embargo decide

        The pages and downloads of the Archive call the function, also for each file of a list.
        ``file`` is None if the question is about the files as a whole, or if the item does not
        have the requested file. The function returns:

        - True: the user may read.
        - False: the user may not read and gets a page with status 403.
        - a response, for example a redirect to a login page: the user may not read and gets this
          response. The function may also raise it, as ``flask.abort`` does.
        - None: the networks of the access rule and the embargo decide.

        A user who may not read the files still sees the landing page without links to files, unless
        the access rule hides the description ("others": "none"). With this rule, the function also
        decides about landing page, metadata and statistics. Any other exception in the function is
        an error of the app (status 500). The responses are not for shared caches.

        The function does not change the answers to resolvers: they depend on the user's IP address
        and on the embargo only.

        The last function that is registered replaces earlier ones, for all apps of this object.
        """
        self.functions.access_policy = policy
        return policy

    def metadata_format(
        self,
        name: str,
        *,
        media_type: str,
        schema: str | None = None,
        namespace: str | None = None,
        extension: str | None = None,
        label: str | None = None,
    ) -> Callable[[Writer], Writer]:
        """Register a function that writes metadata in a further format; use it as a decorator.

        ::

            @ibi.metadata_format(
                "mods",
                media_type="application/mods+xml",
                schema="http://www.loc.gov/standards/mods/v3/mods-3-7.xsd",
                namespace="http://www.loc.gov/mods/v3",
            )
            def write_mods(work: Work) -> str:
                return render_template("mods.xml", work=work)

        ``/col/<ibi>/metadata?choice=mods`` then contains the metadata. The landing page and its
        Link header name the format, and programs can negotiate it. If the format has a schema and a
        namespace, OAI-PMH and the answers to resolvers name it, too. Register formats before the
        first request. A format with the name of another one replaces it.

        If the function raises an exception, it is logged with the identifier of the item. The user
        gets a page with status 500, the landing page has no citation in this format, and OAI-PMH
        leaves the record out of lists in this format, as it does if the result is not well-formed
        XML. After a correction of the function, run ``flask ibi renew-harvests``, so that
        harvesters read the items again.

        :param name: the name of the format in URLs: letters, digits, ``_`` and ``-``.
        :param media_type: the media type without parameters.
        :param schema: the URL of the XML schema.
        :param namespace: the XML namespace.
        :param extension: the extension of downloaded files, without a dot. None: ``xml`` for a
            format with a schema, otherwise ``txt``.
        :param label: the name of the format for readers. None: the name.
        :raises ValueError: if a value is wrong.
        """

        def register(write: Writer) -> Writer:
            self.functions.formats.add(
                MetadataFormat(
                    name,
                    media_type,
                    write,
                    extension or ("txt" if schema is None else "xml"),
                    label or name,
                    namespace,
                    schema,
                )
            )
            return write

        return register

    def oai_sets(self, names: Mapping[str, str]) -> Callable[[FindItemSets], FindItemSets]:
        """Register the function that returns the sets of an item; use it as a decorator.

        ::

            @ibi.oai_sets({"theses": "Theses", "theses:master": "Master's theses"})
            def find_sets(work: Work) -> list[str]:
                return ["theses:master"] if work.type is WorkType.MASTER_THESIS else []

        Harvesters (OAI-PMH, ``/ibi/oai``) can harvest one set. Every Archive also has the sets
        ``openaire``, ``driver`` and one for each type, such as ``type:doctoral-thesis``. An item of
        the set "a:b" also belongs to the set "a", if ``names`` contains "a". The sets of an item
        are stored when a harvester asks for the first time after a change of the item. If the sets
        or the function change, run ``flask ibi renew-harvests``. A deleted item stays in its sets,
        so that harvesters of the sets learn of the deletion.

        If the function raises an exception or returns an unknown set, this is logged with the
        identifier of the item, and the item belongs to no set. The list of all items contains it.

        :param names: the names of the sets for people, by setSpec. A setSpec consists of letters,
            digits and ``-_.!~*'()``, and of ``:`` between the levels.
        :raises ValueError: if a setSpec is wrong.
        """

        def register(function: FindItemSets) -> FindItemSets:
            self.functions.sets.define(names, function)
            return function

        return register

    def removing(
        self,
        row: IdentifiedItem,
        *,
        reason: str,
        citation: str | None = None,
        successor: str | Identified | None = None,
        discard_description: bool = False,
    ) -> None:
        """Register the reason for the deletion of a row of a model with IdentifiedItem.

        ::

            ibi.removing(thesis, reason="Retracted by the author.", successor=corrected)
            db.session.delete(thesis)
            db.session.commit()

        The tombstone of the item contains these values. Without this call, the reason is "removed
        by the repository".

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
        """Store the record of a row of a model with IdentifiedItem again.

        ::

            db.session.execute(update(Thesis).where(Thesis.id == 5).values(title="On rain"))
            ibi.refresh(db.session.get(Thesis, 5))

        Call this method after statements that change rows without the session, such as bulk updates
        and bulk inserts, and after changes of files or rows that ``ibi_record()`` uses but
        ``ibi_depends_on`` does not name. If the record of the item does not differ, nothing
        changes. A row without an identifier gets one.

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

        For a removed item, the page is its tombstone. If the item does not exist, or if the user
        may not see it, the page says so.

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
        """Complete the response of the app's own page of an item with data for programs.

        ::

            @app.get("/thesis/<int:id>")
            def show_thesis(id):
                thesis = db.get_or_404(Thesis, id)
                return ibi.respond(thesis, render_template("thesis.html", thesis=thesis))

        The response gets the Link header of our landing page (Signposting). A program that prefers
        a metadata format is redirected to the metadata. For a removed item, the result is the
        tombstone page. For a draft, which is not an item yet, the response is returned unchanged.
        In the template, ``{{ ibi_head(thesis) }}`` is for the ``head``; ``ibi_citation``,
        ``ibi_versions``, ``ibi_files`` and ``ibi_details`` write parts of our page.

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
        return local_resolution.answer_own_item() or local_resolution.answer_former_link()

    commands = staticmethod(create_group)

    def init_app(self, app: Flask) -> None:
        """Add the Archive to an app. The app must already have all settings, and Flask-SQLAlchemy.

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
        start.warn_of_unknown_keys(app, ArchiveConfig, ResolverConfig)
        try:
            self._open(app)
        except ConfigError as error:
            raise start.StartError(error) from None
        if self.routes:
            app.register_blueprint(create_blueprint(app.config))
        app.cli.add_command(commands)
        app.cli.command_class = app.cli.command_class or HostCommand
        app.add_template_global(
            lambda item: self.archive.persistent_url(item), "ibi_persistent_url"
        )
        start.hide_tables_from_host(app)

    def _open(self, app: Flask) -> None:
        """Read the settings of an app, and open the database of its Archive.

        :raises ConfigError: if a setting is missing or wrong.
        """
        if not isinstance(self.catalogue, RecordCatalogue | None):
            expected = "an object of a subclass of RecordCatalogue"
            raise ConfigError("catalogue", self.catalogue, expected)
        session, settings = self._session(app)
        config = ArchiveConfig.from_mapping(settings, app.instance_path)
        database = start.open_database(
            config.database_uri, config.database_timeout, host=None if session is None else app
        )
        replica = config.read_database_uri and start.open_database(
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
        app.extensions[OWN_ARCHIVE] = local_resolution.OwnArchive(archive)

    def _create_addresses(self, app: Flask, config: ArchiveConfig) -> ArchiveUrls:
        """Return the object that builds the URLs of an app."""

        def find_address(page: PageKind, item: Named, path: str | None) -> str | None:
            assert self.functions.find_address is not None
            if has_request_context():
                return self.functions.find_address(page, item, path)
            with app.test_request_context(base_url=addresses.base):
                return self.functions.find_address(page, item, path)

        addresses = ArchiveUrls(config.base_url)
        addresses.find_root = partial(find_root, config.application_root)
        addresses.get_host_function = lambda: self.functions.find_address and find_address
        return addresses

    def _session(self, app: Flask) -> tuple[HostSession | None, Mapping[str, Any]]:
        """Return ``(session, settings)`` of the app.

        The session is None if the app gave none. Otherwise IBI_DATABASE_URI in the returned
        settings is the URL of the session's database.
        """
        if self.session is None:
            if app.config.get(start.BIND):
                expected = (
                    f"unset, because IBIArchive has no session; {DATABASE} names the database"
                )
                raise ConfigError(start.BIND, app.config[start.BIND], expected)
            return None, app.config
        with app.app_context():
            session = HostSession(self.session, start.find_bind(app))
            uri = session.find_uri()
        configured = app.config.get(DATABASE)
        if configured is None or configured == "":
            return session, {**app.config, DATABASE: start.add_connection_options(app, uri)}
        # if the text is not a URL, start.open_database reports the error
        with suppress(ArgumentError, ValueError):
            if isinstance(configured, str) and not is_same_database(configured, uri):
                raise ConfigError(
                    DATABASE,
                    start.hide_password(configured),
                    f"unset, or the URL of the session's database: {start.hide_password(uri)}",
                )
        return session, app.config

    def __repr__(self) -> str:
        return "<IBIArchive>"


@dataclass(frozen=True)
class ExtensionState:
    """The object in ``app.extensions``: the Archive of the app, and the functions of the host."""

    archive: Archive
    functions: HostFunctions
