"""Read facts about the current app and the current request.

Such facts are the Archive of the app, the URL of the request, the IP address of the user, and the
form of an answer that the client prefers. The views of an Archive and of a resolver use this
module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from flask import current_app, has_request_context, request

from flask_ibi_archive.core.protocol.hosts import extract_host, is_public_host, normalize_host
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.core.resolution.answer import is_same_address
from flask_ibi_archive.server.config import (
    EXTENSION,
    PATH_CHARACTERS,
    RESOLVER_EXTENSION,
    Network,
    SharedConfig,
    parse_root,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.resolver.resolving import ResolverService

#: The maximum number of proxies. If a request passed through more proxies, its user is unknown.
MAX_PROXIES = 100
#: The address that stands for an unknown user. No client can have this address.
UNKNOWN_USER = "0.0.0.0"

_PORT = re.compile(r":[0-9]+\Z")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
#: The replacement character in UTF-8. If a path contains this character, the web server may have
#: lost bytes that are not UTF-8.
_REPLACEMENT = "\ufffd".encode()


# --- the Archive and the resolver ----------------------------------------------------------------


def current_archive() -> Archive:
    """Return the Archive of the current app."""
    archive: Archive = current_app.extensions[EXTENSION].archive
    return archive


def current_resolver() -> ResolverService:
    """Return the resolver of the current app."""
    resolver: ResolverService = current_app.extensions[RESOLVER_EXTENSION].resolver
    return resolver


def shared_config() -> SharedConfig:
    """Return the settings of the Archive; if the app has no Archive, those of the resolver."""
    extensions = current_app.extensions
    if EXTENSION in extensions:
        return current_archive().config
    return current_resolver().config


# --- the URL -----------------------------------------------------------------------------------


def request_path() -> bytes:
    """Return the path of the request as bytes.

    The %XX sequences of the path are decoded once. The path under which the app is mounted is not
    included.
    """
    environ = request.environ
    path: bytes = environ.get("PATH_INFO", "").encode("latin-1")
    if _REPLACEMENT not in path:
        return path
    # The server of werkzeug decodes the path as UTF-8 and loses bytes that are not UTF-8. But this
    # server also provides the original path.
    raw = str(environ.get("REQUEST_URI") or environ.get("RAW_URI") or "").partition("?")[0]
    root: bytes = environ.get("SCRIPT_NAME", "").encode("latin-1")
    original = unquote_to_bytes(raw).removeprefix(root)
    # a middleware may have changed PATH_INFO only; then the original path is not valid any more
    return original if original.decode("utf-8", "replace").encode() == path else path


def request_target() -> str:
    """Return the path and the query of the request in ASCII.

    The path under which the app is mounted is not included. The web server has already decoded the
    path. This function encodes the path again: each byte that a path must not contain becomes %XX.
    If the query is empty, the result has no "?".
    """
    target = quote(request_path(), safe=PATH_CHARACTERS) or "/"
    query = quote(request.query_string, safe=PATH_CHARACTERS + "?%")
    return f"{target}?{query}" if query else target


def read_query() -> dict[str, str]:
    """Return the query of the request as a dictionary. Bytes that are not UTF-8 are allowed."""
    return dict(decode_query_string(request.query_string))


def request_host() -> str:
    """Return the host and the port of the request, such as ``urlib.net:80``."""
    environ, host = request.environ, request.host
    if not host:  # the Host header is missing, or werkzeug refuses the header
        host = f"{environ.get('SERVER_NAME', 'localhost')}:{environ.get('SERVER_PORT', '80')}"
    return host if _PORT.search(host) else f"{host}:{_DEFAULT_PORTS.get(request.scheme, '80')}"


def request_root() -> str:
    """Return the path under which the app is mounted; "" if the app is at the root of the host."""
    return find_root(parse_root(current_app.config["APPLICATION_ROOT"]))


def find_root(configured: str) -> str:
    """Return the path under which the app is mounted, or "".

    If APPLICATION_ROOT names no path, the path is the SCRIPT_NAME of the current request.

    :param configured: the percent-encoded path in APPLICATION_ROOT; "" for the root.
    """
    if configured or not has_request_context():
        return configured
    root = request.root_path
    return quote(root.rstrip("/"), safe=PATH_CHARACTERS) if root else ""


def request_origin() -> str:
    """Return the beginning of the URL of the request, up to :func:`request_target`, with a port."""
    return f"{request.scheme}://{request_host()}{request_root()}"


def request_url() -> str:
    """Return the complete URL of the request, including its port ([R] 8.1, 8.2)."""
    return request_origin() + request_target()


def find_path(url: str) -> str:
    """Remove the host from a URL of the Archive, if the reader uses another host of the app.

    Perhaps only this other host, such as ``http://127.0.0.1:5000``, is reachable. The host stays
    for readers at a former host or at the host of a resolver in the same app, which must be led to
    the address of the Archive.
    """
    config, host = current_archive().config, normalize_host(request_host())
    origin, rest = config.base_url, url[len(config.base_url) :]
    is_ours = url.startswith(origin) and (not rest or re.match("/(?!/)", rest))
    leads_on = host in (normalize_host(config.archive_address), *config.former_hosts) or (
        RESOLVER_EXTENSION in current_app.extensions and is_public_host(extract_host(host))
    )
    return rest if is_ours and not leads_on else url


def is_request_url(url: str, *hosts: str) -> bool:
    """Return whether a URL is the URL of this request.

    A redirect to such a URL would be an endless loop.

    :param hosts: other names of this host, each with a port.
    """
    target = request_root() + request_target()
    return any(is_same_address(url, f"http://{host}{target}") for host in (request_host(), *hosts))


def is_message() -> bool:
    """Return whether the request is a message to a service of an Archive or a resolver."""
    return b"servicesubject=" in request.query_string


# --- the client's address ----------------------------------------------------------------------


def user_address() -> str:
    """Return the IP address of the user, or :data:`UNKNOWN_USER` if the address is unknown."""
    return request_addresses()[0]


def request_addresses() -> tuple[str, ...]:
    """Return the IP addresses of the user and of the proxies that forwarded the request.

    :returns: the address of the user, followed by the addresses of the proxies; or a tuple with
        only :data:`UNKNOWN_USER` if the address of the user is unknown.
    """
    trusted = shared_config().trusted_proxies
    forwarded_for = request.headers.getlist("X-Forwarded-For") if trusted else ()
    return forwarded_addresses(request.remote_addr, forwarded_for, trusted) or (UNKNOWN_USER,)


def forwarded_addresses(
    peer: str | None, forwarded_for: Sequence[str], trusted: Sequence[Network]
) -> tuple[str, ...]:
    """Return the IP addresses of the user and of the proxies from the X-Forwarded-For headers.

    The address of the user is unknown in three cases:

    - the connection has no address, because it uses a Unix socket;
    - a trusted proxy sent a value that is not an address;
    - the request passed through more than :data:`MAX_PROXIES` proxies.

    :param peer: the address of the client that opened the connection.
    :param forwarded_for: the values of X-Forwarded-For, in the order of the headers.
    :param trusted: the networks of the trusted proxies. The headers of other clients are ignored.
    :returns: the address of the user, followed by the addresses of the proxies. All addresses are
        in canonical form. If the address of the user is unknown, the tuple is empty.
    """
    current = find_address(peer)
    if current is None:
        return ()
    addresses = [current]
    # each proxy appends the address of its client; the last address was added last
    claims = ",".join(forwarded_for).split(",") if forwarded_for else []
    while claims and any(current in network for network in trusted):
        claimed = find_address(claims.pop().strip())
        if claimed is None or len(addresses) > MAX_PROXIES:
            return ()
        addresses.append(claimed)
        current = claimed
    return tuple(str(address) for address in reversed(addresses))


@lru_cache(maxsize=256)  # proxies and resolvers send many requests
def find_address(text: str | None) -> IPv4Address | IPv6Address | None:
    """Return the IP address in a text such as ``1.2.3.4:80``.

    :returns: None if the text does not contain an IP address.
    """
    if not text:
        return None
    host = text
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def prefers_page() -> bool:
    """Return whether the client prefers a page to a list of pairs.

    The Accept header contains a quality for HTML pages and for plain text. If both qualities are
    equal, only a browser prefers the page.
    """
    accepted = request.accept_mimetypes
    page, pairs = accepted.quality("text/html"), accepted.quality("text/plain")
    if page != pairs:
        return page > pairs
    # the Accept header of a browser contains "text/html", but not "text/plain"
    named = {kind.lower() for kind in accepted.values()}
    return page > 0 and "text/html" in named and "text/plain" not in named
