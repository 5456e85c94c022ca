"""Persistent URLs on this host: read as they were asked for, answered where no route of the host
is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote, urlsplit

from flask import Response, current_app, request
from werkzeug.exceptions import BadHost, HTTPException, NotFound
from werkzeug.routing import RequestRedirect

from flask_ibi_archive.archive.log_keys import holds_key
from flask_ibi_archive.errors import IdentifierError, MalformedPersistentUrl
from flask_ibi_archive.identifiers import Form, Identifier, decode_identifier
from flask_ibi_archive.identifiers.ibip import decode_ibip_prefix
from flask_ibi_archive.protocol.hosts import GLOBAL_UNICAST, is_host_and_port
from flask_ibi_archive.resolution.languages import LanguageRange, parse_accept_language
from flask_ibi_archive.resolution.persistent_url import PersistentUrl, parse_persistent_target
from flask_ibi_archive.web.alerts import malformed_response, method_response
from flask_ibi_archive.web.asked import asked_root, asked_target, asked_url
from flask_ibi_archive.web.context import (
    EXTENSION,
    RESOLVER_EXTENSION,
    current_addresses,
    current_archive,
)
from flask_ibi_archive.web.headers import set_headers
from flask_ibi_archive.web.service import alert

#: A persistent URL, its text as it is acknowledged, the client's addresses, the languages it
#: prefers.
Asked = tuple[PersistentUrl, str, tuple[str, ...], tuple[LanguageRange, ...]]
Hook = Callable[[], "Response | None"]

#: Characters at the beginning of a target that tell whether it begins as a persistent URL.
MAX_BEGINNING = 1024
#: The endpoint of Flask's own route for static files.
STATIC = "static"

_FOREIGN = re.compile(r"[^A-Za-z0-9./@-]|\Z")
_SCHEME = re.compile("(?:https?:/|upn:|ibi:)", re.IGNORECASE)
_FOLDER = re.compile("(?:ibi/|rep/)?/*", re.IGNORECASE)
_WORD = re.compile(r"(?=[^/]*[0-9.])[A-Za-z0-9][A-Za-z0-9.@-]*/[A-Za-z0-9]")
_DATED = re.compile(
    r"(?=[^/]+\.[^/])[^/]+/[^/]+/[0-9]{4}/[0-9]{2}(?:\.[0-9]{2}){3,4}(?:\.[0-9]+)?(?=[!+:/]|%21|%2B|%3A|\Z)"
)
_CAPITALS_AND_DIGITS = re.compile("(?=[^/]*[2-9])[^/]+/.*[2-9]")


def read_resolution_request() -> Asked:
    """Return the persistent URL that the request is, its text, who asks, and in which languages.

    The text has host and port that were asked; the first address is the user's, ``0.0.0.0`` where
    that is not known.

    :raises MalformedPersistentUrl: if it is none.
    Source: [R] 6.2, Table 6.6.
    """
    wanted = parse_persistent_target(asked_target())
    ranges = parse_accept_language(",".join(request.headers.getlist("Accept-Language")))
    return wanted, asked_url(), current_addresses(), ranges


def fall_back_to(
    answer: Callable[
        [PersistentUrl, str, tuple[str, ...], tuple[LanguageRange, ...]], Response | None
    ],
    begins: Callable[[str], bool],
) -> Hook:
    """Return a hook for ``before_app_request`` that answers persistent URLs where no route of the
    host is.

    Where a route is, but not for the method, the host has its way; so it has with paths that are no
    persistent URLs. A redirect of the framework's to one of our own paths goes to the configured
    address.

    :param answer: takes what :func:`read_resolution_request` gives; None: the host says 404.
    :param begins: tells of what is malformed whether it was meant as a persistent URL; takes the
        target.
    """

    @wraps(answer)
    def fall_back() -> Response | None:
        failure = request.routing_exception
        # with a wrong Host header the framework may find no route at all
        is_unrouted = isinstance(failure, (NotFound, BadHost, RequestRedirect))
        if not is_unrouted and not (request.endpoint == STATIC and answers_every_path()):
            return None
        if refusal := refuse_malformed_host():
            return refusal
        if isinstance(failure, RequestRedirect):
            return redirect_to_own_address(failure)
        reads = request.method in ("GET", "HEAD")
        try:
            asked = read_resolution_request()
        except MalformedPersistentUrl as error:
            if begins(asked_target()) or answers_every_path():
                return malformed_response(error) if reads else method_response()
            return None
        if not reads:
            is_meant = looks_meant(asked[0].ibi, asked_target()) or answers_every_path()
            return method_response() if is_meant else None
        return answer(*asked)

    return fall_back


def refuse_malformed_host() -> Response | None:
    """Return 400 for a malformed Host header; None: it is not malformed, or there is none.

    Source: RFC 9112, 3.2.
    """
    host = request.headers.get("Host", "")
    if not host or is_host_and_port(host):
        return None
    return alert(
        400,
        f"the Host header is {host[:80]!a}, which is not a host with an optional port, "
        "such as urlib.net:80",
    )


def redirect_to_own_address(redirect: RequestRedirect) -> Response | None:
    """Return a redirect to the right spelling of one of our paths, at the configured address.

    :param redirect: werkzeug's, which adds a missing last slash or merges repeated ones. It repeats
        the Host header, and a cache may store it.
    :returns: None if the path is not ours.
    """
    adapter = current_app.create_url_adapter(request)
    if adapter is None:  # there always is one for a request
        return None
    path = urlsplit(redirect.new_url).path.removeprefix(request.root_path.rstrip("/"))
    try:
        endpoint, _ = adapter.match(unquote(path), "GET")
    except HTTPException:
        return None
    blueprint = str(endpoint).partition(".")[0]
    if blueprint == EXTENSION:
        base = current_archive().config.base_url
    elif blueprint == RESOLVER_EXTENSION:
        # without a configured address the path alone: no host can be put into it
        base = current_app.extensions[RESOLVER_EXTENSION].resolver.config.base_url or ""
    else:
        return None
    query = asked_target().partition("?")[2]
    location = f"{base}{asked_root()}{path}" + (f"?{query}" if query else "")
    return set_headers(Response(status=redirect.code, headers={"Location": location}))


def answers_every_path() -> bool:
    """Return whether the app serves nothing but a resolver: every other path is read as a
    persistent URL.

    Flask's route for static files does not count where their folder does not exist.
    """
    extensions = current_app.extensions
    if RESOLVER_EXTENSION not in extensions or EXTENSION in extensions:
        return False
    endpoints = {rule.endpoint for rule in current_app.url_map.iter_rules()}
    others = {one for one in endpoints if not one.startswith(f"{RESOLVER_EXTENSION}.")}
    return others <= {STATIC} and not (others and Path(str(current_app.static_folder)).is_dir())


def looks_meant(ibi: Identifier, target: str) -> bool:
    """Tell whether an identifier was meant as one: the address of a page of the host may look like
    it.

    An IBIp is two words, as many an address is: it counts where the first is the code of an
    address, or where both stand in capitals in the target and hold digits.
    """
    if ibi.form is Form.IBIP:
        in_capitals = ibi.text in target and _CAPITALS_AND_DIGITS.match(ibi.text)
        return _is_address_code(ibi.prefix) or bool(in_capitals)
    try:
        return ibi.form is Form.LEGACY or decode_identifier(ibi) is not None
    except IdentifierError:
        return False


def refuse_key() -> Response | None:
    """Refuse a query with a registration key: it would go on to a stranger, who could use it."""
    if not holds_key(request.query_string.decode("latin-1")):
        return None
    return alert(400, "a registration key goes to the resolver's service alone, not to an item")


def begins_with_ibi(target: str) -> bool:
    """Tell whether a target that is no persistent URL begins as one: with an IBI, or nearly one.

    Nearly one has the parts of a repository name, though there be no such date, or the code of an
    address. For a host with pages of its own, whose addresses are not to be taken for misspelt
    IBIs.
    """
    path = target.partition("?")[0][:MAX_BEGINNING]
    for number, end in enumerate(_FOREIGN.finditer(path)):
        try:
            parse_persistent_target(path[: end.start()])
        except MalformedPersistentUrl as error:
            if error.suggestion is not None:
                return True
        else:
            return True
        if number == 4:
            break
    rest = _FOLDER.sub("", path.lstrip("/"), count=1)
    return _DATED.match(rest) is not None or _is_address_code(rest.partition("/")[0])


def begins_like_one(target: str) -> bool:
    """Tell whether a target that is no persistent URL was meant as one, at a resolver.

    It was where it begins with an IBI, with what citations have in front of one, or with two words
    of which the first has a digit or a dot; ``/favicon.ico`` was not.
    """
    if begins_with_ibi(target):
        return True
    path = target.lstrip("/")[:MAX_BEGINNING]
    rest = _FOLDER.sub("", path, count=1)
    return bool(_SCHEME.match(path) or _WORD.match(rest))


def _is_address_code(word: str) -> bool:
    """Tell whether a word is the first half of an IBIp, of an address that a server may have."""
    try:
        address = ip_address(decode_ibip_prefix(word.upper())[0])
    except ValueError:
        return False
    # "amex" would be that of 14::
    return address.version == 4 or address in GLOBAL_UNICAST
