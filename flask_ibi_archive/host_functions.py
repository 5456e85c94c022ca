"""The functions that a host registers with its Archive: addresses, access, formats and sets.

The decorators of this module are methods of IBIArchive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from flask_ibi_archive.archive.harvest.messages import FindItemSets, HarvestSets
from flask_ibi_archive.archive.items.access import AccessPolicy
from flask_ibi_archive.core.protocol.url_list import FindAddress
from flask_ibi_archive.core.records.formats import BUILT_IN, FormatRegistry, MetadataFormat, Writer

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


class HasFunctions(Protocol):
    """The IBIArchive whose methods the functions of this module are."""

    functions: HostFunctions


def address(ibi: HasFunctions, function: FindAddress) -> FindAddress:
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
    ibi.functions.find_address = function
    return function


def language(ibi: HasFunctions, function: ChooseLanguage) -> ChooseLanguage:
    """Use a function that returns the language of the reader. This is a decorator.

    ::

        @ibi.language
        def choose_language():
            return session.get("language")

    The pages of the Archive are then in the language that the app chose from a session, a path or
    the settings of a user. ``?lang=`` in the URL of a page has precedence. If the app has
    Flask-Babel, its ``get_locale()`` is used without this function.

    :param function: a function without parameters. It returns a language tag, such as ``pt-BR``,
        or None if the reader's cookie and browser choose the language.
    """
    ibi.functions.choose_language = function
    return function


def access_policy(ibi: HasFunctions, policy: Policy) -> Policy:
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
    ibi.functions.access_policy = policy
    return policy


def metadata_format(
    ibi: HasFunctions,
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
        ibi.functions.formats.add(
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


def oai_sets(ibi: HasFunctions, names: Mapping[str, str]) -> Callable[[FindItemSets], FindItemSets]:
    """Register the function that returns the sets of an item; use it as a decorator.

    ::

        @ibi.oai_sets({"theses": "Theses", "theses:master": "Master's theses"})
        def find_sets(work: Work) -> list[str]:
            return ["theses:master"] if work.type is WorkType.MASTER_THESIS else []

    Harvesters (OAI-PMH, ``/ibi/oai``) can harvest one set. Every Archive also has the sets
    ``openaire``, ``driver`` and one for each type, such as ``type:doctoral-thesis``. An item of the
    set "a:b" also belongs to the set "a", if it is defined. The sets of an item are stored when a
    harvester asks for the first time after a change of the item. If the sets or the function
    change, run ``flask ibi renew-harvests``. A deleted item stays in its sets, so that
    harvesters of the sets learn of the deletion.

    If the function raises an exception or returns an unknown set, this is logged with the
    identifier of the item, and the item belongs to no set. The list of all items contains it.

    :param names: the names of the sets for people, by setSpec. A setSpec consists of letters,
        digits and ``-_.!~*'()``, and of ``:`` between the levels.
    :raises ValueError: if a setSpec is wrong.
    """

    def register(function: FindItemSets) -> FindItemSets:
        ibi.functions.sets.define(names, function)
        return function

    return register
