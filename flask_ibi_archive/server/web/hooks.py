"""Add pages to an app, and answer messages and persistent URLs before the app.

An Archive and a resolver use this module. Persistent URLs have no route: a hook answers them if the
host app has no route for the path. Other functions distinguish persistent URLs with spelling errors
from other pages of the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from string import ascii_letters, digits
from typing import Any, cast
from urllib.parse import urlsplit

from flask import Blueprint, Response, current_app, request
from flask.blueprints import BlueprintSetupState
from flask.sansio.app import App
from werkzeug.exceptions import BadHost, NotFound
from werkzeug.routing import AnyConverter, BaseConverter, RequestRedirect

from flask_ibi_archive.core.identifiers import grammar
from flask_ibi_archive.core.identifiers.parse import decode_identifier
from flask_ibi_archive.core.protocol.hosts import GLOBAL_UNICAST, is_host_and_port
from flask_ibi_archive.core.protocol.pairs import contains_key
from flask_ibi_archive.core.resolution.persistent_url import (
    ResolutionRequest,
    parse_persistent_target,
)
from flask_ibi_archive.errors import IdentifierError, MalformedPersistentUrl
from flask_ibi_archive.server.config import EXTENSION, RESOLVER_EXTENSION
from flask_ibi_archive.server.web import negotiation, request_log, requests, responses
from flask_ibi_archive.server.web.alerts import malformed_response, method_response
from flask_ibi_archive.server.web.texts import FUNCTIONS

# --- persistent URLs ---------------------------------------------------------------------------

#: A function that answers a persistent URL. It returns None if the host should answer with 404.
Resolve = Callable[[ResolutionRequest], "Response | None"]
Hook = Callable[[], "Response | None"]

#: The key of the resolver's function that answers a persistent URL in ``app.extensions``.
RESOLVE = "ibi_resolve"

#: The maximum number of characters that are tested for the beginning of a persistent URL.
MAX_BEGINNING = 1024
#: The endpoint of Flask's route for static files.
STATIC = "static"

#: What werkzeug raises if it finds no route. It may find none if the Host header is malformed.
_UNROUTED = (NotFound, BadHost, RequestRedirect)
#: A rule that matches all paths, such as ``/<path:page>``.
_CATCH_ALL = re.compile(r"/<path(?:\([^>]*\))?:\w+>/?")
#: The characters that identifiers consist of.
_ALPHABET = frozenset(f"{ascii_letters}{digits}./@-")
#: What precedes an identifier in citations.
_SCHEMES = ("http:/", "https:/", "upn:", "ibi:")
_WORD = re.compile(r"(?=[^/]*[0-9.])[A-Za-z0-9][A-Za-z0-9.@-]*/[A-Za-z0-9]")
_DATED = re.compile(
    r"(?=[^/]+\.[^/])[^/]+/[^/]+/[0-9]{4}/[0-9]{2}(?:\.[0-9]{2}){3,4}(?:\.[0-9]+)?"
    r"(?=[!+:/]|%21|%2B|%3A|\Z)"
)


def answer_unrouted(resolve: Resolve, is_meant: Callable[[str], bool]) -> Response | None:
    """Answer a persistent URL for which the app has no route (:func:`is_unrouted`).

    :param resolve: the function that answers a persistent URL.
    :param is_meant: a function that receives a malformed target, and returns whether the target was
        probably meant as a persistent URL.
    :returns: None if the path is not a persistent URL.

    Source: [R] 6.2, Table 6.6.
    """
    failure = request.routing_exception
    if failure is not None:
        # The traceback refers to the request, which refers to the exception. The garbage
        # collector would free such a cycle, with the response, only after many requests.
        failure.__traceback__ = failure.__context__ = None
    host = request.headers.get("Host", "")
    if host and not is_host_and_port(host):  # RFC 9112, 3.2
        return responses.error_response(
            400,
            f"the Host header is {host[:80]!a}; it should be a host name or an IP address, "
            "optionally with a port, such as urlib.net:80",
        )
    if isinstance(failure, RequestRedirect):
        return correct_path(failure)
    return answer_target(resolve, is_meant)


def is_unrouted() -> bool:
    """Return whether the app has no route for the path, so that it may be a persistent URL."""
    if isinstance(request.routing_exception, _UNROUTED):
        return True
    has_static_files = Path(str(current_app.static_folder)).is_dir()
    return request.endpoint == STATIC and not has_static_files and has_only_resolver()


def has_catch_all_route() -> bool:
    """Return whether the app has one route that matches all paths, such as ``/<path:page>``."""
    rule = request.url_rule
    return rule is not None and _CATCH_ALL.fullmatch(rule.rule) is not None


@request_log.logged(request_log.PERSISTENT_URL)
def answer_target(resolve: Resolve, is_meant: Callable[[str], bool]) -> Response | None:
    """Answer the target of the request; return None if the target may be a page of the host.

    The parameters are those of :func:`answer_unrouted`.
    """
    is_read = request.method in ("GET", "HEAD")
    target = requests.request_target()
    try:
        wanted = parse_persistent_target(target)
    except MalformedPersistentUrl as error:
        if not is_meant(target) and not has_only_resolver():
            return None
        if not is_read:
            return method_response()
        return malformed_response(error)
    if not is_read:
        must_answer = is_plausible_ibi(wanted.ibi, target) or has_only_resolver()
        return method_response() if must_answer else None
    return resolve(negotiation.read_resolution_request(wanted, target))


def correct_path(redirect: RequestRedirect) -> Response | None:
    """Return werkzeug's redirect to a corrected path, or None if the path is certainly not ours.

    Werkzeug adds a missing slash at the end of the path, or merges repeated slashes. The returned
    location contains no host, because werkzeug takes the host from the Host header, which an
    attacker can forge. It contains the path under which the app is mounted.
    """
    url = urlsplit(redirect.new_url)
    path = url.path.removeprefix(request.root_path.rstrip("/"))
    if not path.startswith(("/col/", "/ibi")):
        return None
    location = f"{requests.request_root()}{path}" + (f"?{url.query}" if url.query else "")
    return responses.set_headers(Response(status=redirect.code, headers={"Location": location}))


def has_only_resolver() -> bool:
    """Return whether the resolver is the only part of the app that has routes.

    In such an app, each path without a route is meant as a persistent URL. Flask's route for static
    files does not count.
    """
    extensions = current_app.extensions
    if RESOLVER_EXTENSION not in extensions or EXTENSION in extensions:
        return False
    endpoints = {rule.endpoint for rule in current_app.url_map.iter_rules()}
    others = {one for one in endpoints if not one.startswith(f"{RESOLVER_EXTENSION}.")}
    return others <= {STATIC}


def is_plausible_ibi(ibi: grammar.Identifier, target: str) -> bool:
    """Return whether a target was probably meant as an identifier, not as a page of the host.

    Many paths have two words, and an IBIp has two words too. An IBIp is plausible if its first word
    encodes an IP address. An IBIp is also plausible if both words contain digits and are written in
    capital letters in the target.

    :param ibi: the identifier in the target.
    :param target: the path and the query of the request.
    """
    if ibi.form is grammar.Form.IBIP:
        has_digits = all(set("23456789") & set(word) for word in ibi.text.split("/"))
        return _is_address_code(ibi.prefix) or (has_digits and ibi.text in target)
    try:
        return ibi.form is grammar.Form.LEGACY or decode_identifier(ibi) is not None
    except IdentifierError:
        return False


def refuse_registration_key() -> Response | None:
    """Return a 400 response if the query contains a registration key, which is a secret.

    A redirect would send the key to another host.

    :returns: None if the query contains no registration key.
    """
    if not contains_key(request.query_string.decode("latin-1")):
        return None
    return responses.error_response(
        400, "the URL contains a registration key, which may only be sent to the resolver's service"
    )


def begins_with_ibi(target: str) -> bool:
    """Return whether a malformed target begins with an IBI or with a similar text.

    A text with the parts of a repository name is similar, even if its date does not exist. A text
    is also similar if its first word encodes an IP address.

    This function is for hosts that also have other pages. Such pages must not be taken for IBIs
    with spelling errors.
    """
    path = target.partition("?")[0][:MAX_BEGINNING]
    foreign = [end for end, char in enumerate(path) if char not in _ALPHABET]
    for end in [*foreign, len(path)][:5]:
        try:
            parse_persistent_target(path[:end])
        except MalformedPersistentUrl as error:
            if error.suggestion is not None:
                return True
        else:
            return True
    rest = _without_folder(path)
    return _DATED.match(rest) is not None or _is_address_code(rest.partition("/")[0])


def is_like_persistent_url(target: str) -> bool:
    """Return whether a malformed target at a resolver was probably meant as a persistent URL.

    The function returns True for a target that begins with one of these texts:

    - an IBI, or a similar text;
    - a prefix that is used in citations, such as ``ibi:``;
    - two words, if the first word contains a digit or a dot.
    """
    if begins_with_ibi(target):
        return True
    path = target.lstrip("/")[:MAX_BEGINNING]
    return path.lower().startswith(_SCHEMES) or _WORD.match(_without_folder(path)) is not None


def _without_folder(path: str) -> str:
    """Remove the folder ``ibi`` or ``rep``, which precedes the IBI in some URLs, from a path."""
    path = path.lstrip("/")
    folder, _, rest = path.partition("/")
    return rest.lstrip("/") if folder.lower() in ("ibi", "rep") else path


def _is_address_code(word: str) -> bool:
    """Return whether a word can be the first word of an IBIp.

    The first word of an IBIp encodes an IP address that a server can have.
    """
    try:
        address = ip_address(grammar.decode_ibip_prefix(word.upper())[0])
    except ValueError:
        return False
    # without this check, "amex" would be the address 14::
    return address.version == 4 or address in GLOBAL_UNICAST


#: The key of the functions that answer persistent URLs in ``app.extensions``.
ANSWERS = "ibi_answers"
#: The key of the function of an Archive that answers before a route of the app for all paths.
OVER_CATCH_ALL = "ibi_over_catch_all"
#: The key of the function of an Archive that returns the view for a message to its service.
SERVICE = "ibi_service_route"
#: The key of the endpoints of pages for other servers in ``app.extensions``.
SERVER_PAGES = "ibi_server_pages"
#: The name of the converter in the routes of this package.
OWN_WORD = "flask_ibi_archive_own_word"
#: The converter of a number in a path. A larger number is an error in the columns of databases.
NUMBER = f"int(max={2**31 - 1})"


# --- converters ----------------------------------------------------------------------------------
# Of several rules with the same form, Werkzeug selects the rule whose converters have the smallest
# weights. The weight is an attribute of BaseConverter, but the documentation does not mention it.


class IBIConverter(BaseConverter):
    """Matches a text in a path that may be an identifier.

    Such a text has two or four parts, in upper or lower case. The path may continue after the text.
    The view checks that the text is an identifier.
    """

    regex = r"[^/]+/[^/]+(?:/[0-9]{4}/[0-9.]+)?"
    part_isolating = False
    weight = 150


class OwnItemConverter(IBIConverter):
    """Matches an identifier in the routes of this package, and no other text.

    Werkzeug tries converters with a large weight last. Therefore all routes of the app have
    precedence. A path such as ``/col/of/photos``, which is not an identifier, is left to a route of
    the app for all paths.
    """

    # werkzeug allows no groups
    regex: str = "|".join(
        re.sub(r"\((?!\?)", "(?:", form.pattern)
        for form in (grammar.REPOSITORY, grammar.IBIP, grammar.LEGACY)
    )
    weight = 1_000_000


class OwnWordConverter(AnyConverter):
    """Matches a fixed word in the routes of this package.

    Werkzeug selects rules without converters first. Therefore a rule of the app that contains the
    word itself has precedence. A rule of the app with a converter comes later, because its weight
    is larger.
    """

    weight = -1


# --- routes --------------------------------------------------------------------------------------


def prepare_app(state: BlueprintSetupState) -> None:
    """Add what the pages need to the app: a converter, functions for templates, and hooks.

    The blueprint of an Archive and the blueprint of a resolver call this function.

    Flask calls the ``before_request`` functions in the order of registration, until one of them
    answers, and the ``after_request`` functions in the reverse order. The app may have registered
    functions before this package. But this package must act before all ``before_request``
    functions, and after all ``after_request`` functions. Therefore this function replaces two
    methods of the app, as a subclass would do.
    """
    state.app.url_map.converters[OWN_WORD] = OwnWordConverter
    state.app.jinja_env.globals.update(FUNCTIONS)
    if ANSWERS not in state.app.extensions:
        state.app.extensions[ANSWERS] = []
        state.app.extensions[SERVER_PAGES] = set()
        app = cast(Any, state.app)
        run_hooks, process = app.preprocess_request, app.process_response

        def finish(response: Response) -> Response:
            response = responses.add_policy(process(response))
            request_log.finish(response)
            return response

        app.preprocess_request = lambda: answer_protocol(run_hooks)
        app.process_response = finish


def add_page(
    blueprint: Blueprint,
    endpoint: str,
    path: str,
    view: Callable[..., Response],
    methods: tuple[str, ...] = ("GET",),
    *,
    for_servers: bool = False,
) -> None:
    """Add a page with a fixed path to a blueprint; a route of the app for the path has precedence.

    :param path: the path, such as ``/ibi/health/live``. Two words or more are required. The third
        word and later words may be parameters of the view, such as ``f"<{NUMBER}:year>"``.
    :param for_servers: whether other servers read the page. Then the answers of the app's hooks are
        ignored for this page. :func:`prepare_app` must be called before.
    """
    first, word, *rest = path.lstrip("/").split("/")
    rule = "/".join(["", first, f"<{OWN_WORD}('{word}'):word>", *rest])

    def view_without_word(word: str, **parameters: Any) -> Response:
        return view(**parameters)

    blueprint.add_url_rule(
        rule, endpoint, view_without_word, defaults={"word": word}, methods=methods
    )
    if for_servers:
        name = f"{blueprint.name}.{endpoint}"
        blueprint.record_once(lambda state: state.app.extensions[SERVER_PAGES].add(name))


def add_static_files(blueprint: Blueprint) -> None:
    """Add the routes of the static files to a blueprint."""
    for name in responses.STATIC_TYPES:
        endpoint = f"static_{name.partition('.')[2]}"
        add_page(
            blueprint, endpoint, f"/ibi/static/{name}", partial(responses.send_static_file, name)
        )


def add_rule_for_all_methods(
    state: BlueprintSetupState, name: str, path: str, view: Callable[..., Response], **options: Any
) -> None:
    """Add a rule to an app for a view that itself rejects the methods that it does not support.

    :param options: further arguments of the rule.
    """
    endpoint = f"{state.blueprint.name}.{name}"
    path = f"{state.url_prefix or ''}{path}"
    rule = state.app.url_rule_class(path, endpoint=endpoint, methods=None, **options)
    state.app.url_map.add(rule)
    state.app.endpoint(endpoint)(view)


# --- hooks ---------------------------------------------------------------------------------------


def answer_first(app: App, *answers: Hook, before_resolver: bool = False) -> None:
    """Register functions that answer persistent URLs. Call :func:`prepare_app` before.

    The functions are called if the app has no route for the path (:func:`.is_unrouted`).

    :param answers: the functions. They return None if they do not answer the request.
    :param before_resolver: whether these functions precede the function of a resolver in the same
        app, in whatever order the extensions are registered.
    """
    others = app.extensions[ANSWERS]
    app.extensions[ANSWERS] = [*answers, *others] if before_resolver else [*others, *answers]


def answer_protocol(run_hooks: Callable[[], Any]) -> Any:
    """Answer a message to the service, a page for other servers, or a persistent URL.

    A resolver cannot log in, follow a redirect to https, or wait. Therefore the answers of the
    app's hooks are ignored here. But the hooks are run, because later functions, templates and
    access policies may need the data that the hooks prepare.

    :param run_hooks: runs the hooks of the app until one answers, as Flask does.
    :returns: None if the app answers the request.
    """
    request_log.start()
    extensions = current_app.extensions
    service = extensions[SERVICE]() if SERVICE in extensions else None
    is_for_server = service is not None or request.endpoint in extensions[SERVER_PAGES]
    answers: list[Hook]
    if is_for_server:
        answers = []
    elif is_unrouted():
        answers = extensions[ANSWERS]
    elif has_catch_all_route() and OVER_CATCH_ALL in extensions:
        answers = [extensions[OVER_CATCH_ALL]]
    else:
        return run_hooks()
    try:
        theirs = run_hooks()
    except Exception as error:  # noqa: BLE001 - an error handler of the app may answer it
        theirs = error
    if is_for_server:
        return current_app.dispatch_request() if service is None else service()
    # "/" is no persistent URL; a resolver has its front page there
    if theirs is None or request.path != "/":
        for answer in answers:
            ours = answer()
            if ours is not None:
                return ours
    if isinstance(theirs, Exception):
        raise theirs
    return theirs
