"""The current app and request: its Archive, its URL, and the IP address of the user.

All views of an Archive and of a resolver use this module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, cast
from urllib.parse import quote, unquote_to_bytes

from flask import current_app, has_request_context, request

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.config import Network
from flask_ibi_archive.resolution.redirect_target import is_same_address
from flask_ibi_archive.storage.request_budget import Budget

#: The keys of the Archive and of the resolver in ``app.extensions``.
EXTENSION = "ibi_archive"
RESOLVER_EXTENSION = "ibi_resolver"
#: The key of the time budget for databases in the WSGI environment of a request.
BUDGET = "ibi.database_budget"
#: The user of a request that passed through more proxies than this number is unknown.
MAX_PROXIES = 100
#: The address of an unknown user: the unspecified address, which no client can have.
UNKNOWN_USER = "0.0.0.0"

#: Characters that a path may contain unencoded, besides letters, digits and "-._~" (RFC 3986).
_PLAIN = "/:@!$&'()*+,;="
_PORT = re.compile(r":[0-9]+\Z")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
#: If a path contains the replacement character, the server may have lost bytes that are not UTF-8.
_REPLACEMENT = "\ufffd".encode()


# --- the Archive and the time budget ------------------------------------------------------------


def current_archive() -> ArchiveService:
    """Return the Archive of the current app."""
    return cast(ArchiveService, current_app.extensions[EXTENSION].archive)


def find_budget(timeout: float) -> Budget | None:
    """Return the time that the current request may still wait for databases.

    :param timeout: the total number of seconds that a request may wait.
    :returns: None outside a request.
    """
    if not has_request_context():
        return None
    # flask.g belongs to the app context, which may live longer than the request
    environ = request.environ
    budget: Budget | None = environ.get(BUDGET)
    if budget is None:
        budget = environ[BUDGET] = Budget(timeout)
    return budget


# --- the URL -----------------------------------------------------------------------------------


def request_path() -> bytes:
    """Return the path of the request as bytes, decoded once and without the path of the app."""
    environ = request.environ
    path: bytes = environ.get("PATH_INFO", "").encode("latin-1")
    if _REPLACEMENT not in path:
        return path
    # the server of werkzeug decodes the path as UTF-8 and loses other bytes, but it also provides
    # the original path
    raw = str(environ.get("REQUEST_URI") or environ.get("RAW_URI") or "").partition("?")[0]
    root: bytes = environ.get("SCRIPT_NAME", "").encode("latin-1")
    original = unquote_to_bytes(raw).removeprefix(root)
    return original if original.decode("utf-8", "replace").encode() == path else path


def request_target() -> str:
    """Return the path and query of the request in ASCII, without the path of the app.

    The server has already decoded the path. This function encodes it again: all bytes that a path
    must not contain become %XX. A "?" without a query is lost.
    """
    query = request.query_string
    target = quote(request_path(), safe=_PLAIN) or "/"
    return f"{target}?{quote(query, safe=_PLAIN + '?%')}" if query else target


def request_host() -> str:
    """Return the host and the port of the request, such as ``urlib.net:80``."""
    environ = request.environ
    host = request.host
    if not host:  # no Host header, or one that werkzeug refuses
        host = f"{environ.get('SERVER_NAME', 'localhost')}:{environ.get('SERVER_PORT', '80')}"
    return host if _PORT.search(host) else f"{host}:{_DEFAULT_PORTS.get(request.scheme, '80')}"


def request_root() -> str:
    """Return the path under which the app is mounted; "" if the app is at the root of the host."""
    return quote(request.root_path.rstrip("/"), safe=_PLAIN)


def request_url() -> str:
    """Return the complete URL of the request, including its port ([R] 8.1, 8.2)."""
    return f"{request.scheme}://{request_host()}{request_root()}{request_target()}"


def is_request_url(url: str, *hosts: str) -> bool:
    """Return whether a URL is the URL of this request, so that a redirect would never end.

    :param hosts: other names of this host, each with its port.
    """
    target = request_root() + request_target()
    return any(is_same_address(url, f"http://{host}{target}") for host in (request_host(), *hosts))


def is_message() -> bool:
    """Return whether the request is a message to a service; if not, it may be a persistent URL."""
    return b"servicesubject=" in request.query_string


# --- the client's address ----------------------------------------------------------------------


def user_address() -> str:
    """Return the IP address of the user; :data:`UNKNOWN_USER` if the address is not known."""
    return request_addresses()[0]


def request_addresses() -> tuple[str, ...]:
    """Return the IP addresses of the user and of the proxies that forwarded the request.

    :returns: the user's address first; :data:`UNKNOWN_USER` alone if it is not known.
    """
    addresses = forwarded_addresses(
        request.remote_addr, request.headers.getlist("X-Forwarded-For"), _trusted_proxies()
    )
    return addresses or (UNKNOWN_USER,)


def forwarded_addresses(
    peer: str | None, forwarded_for: Sequence[str], trusted: Sequence[Network]
) -> tuple[str, ...]:
    """Return the IP addresses of the user and of the proxies from the X-Forwarded-For headers.

    :param peer: the address of the client that opened the connection.
    :param forwarded_for: the values of X-Forwarded-For, in the order of the headers.
    :param trusted: the networks of the trusted proxies. The headers of other clients are ignored.
    :returns: canonical addresses, the user's first. Empty if the user's address is not known: the
        connection has no address (a Unix socket), a trusted proxy sent a value that is not an
        address, or there are more than :data:`MAX_PROXIES` proxies.
    """
    current = find_address(peer)
    if current is None:
        return ()
    found = [current]
    claims = [claim for value in forwarded_for for claim in value.split(",")]
    while claims and any(current in network for network in trusted):
        claimed = find_address(claims.pop().strip())
        if claimed is None or len(found) > MAX_PROXIES:
            return ()
        found.append(claimed)
        current = claimed
    return tuple(str(address) for address in reversed(found))


def find_address(text: str | None) -> IPv4Address | IPv6Address | None:
    """Return the IP address in a text like ``1.2.3.4:80``; None if the text has another form."""
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


def _trusted_proxies() -> Sequence[Network]:
    """Return the value of IBI_TRUSTED_PROXIES from the app's Archive or from its resolver."""
    extensions: dict[str, Any] = current_app.extensions
    if EXTENSION in extensions:
        return current_archive().config.trusted_proxies
    return cast(Sequence[Network], extensions[RESOLVER_EXTENSION].resolver.config.trusted_proxies)
