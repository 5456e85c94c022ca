"""The current request: the URL that the client sent, and the client's address behind proxies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, cast
from urllib.parse import quote, unquote_to_bytes

from flask import current_app, request

from flask_ibi_archive.config import Network
from flask_ibi_archive.resolution.redirect_target import is_same_address
from flask_ibi_archive.web.context import EXTENSION, RESOLVER_EXTENSION, current_archive

#: A request that passed through more proxies counts as one from an unknown user.
MAX_PROXIES = 100
#: Stands for the address of an unknown user: the unspecified address, which no client can have.
UNKNOWN_USER = "0.0.0.0"

#: Characters that a path may contain unencoded, besides letters, digits and "-._~" (RFC 3986).
_PLAIN = "/:@!$&'()*+,;="
_PORT = re.compile(r":[0-9]+\Z")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
#: The replacement character in a path shows that the server lost bytes that are not UTF-8.
_REPLACEMENT = "\ufffd".encode()


# --- the URL -----------------------------------------------------------------------------------


def request_path() -> bytes:
    """Return the path of the request, without the app's root, percent-decoded once, as bytes."""
    environ = request.environ
    path: bytes = environ.get("PATH_INFO", "").encode("latin-1")
    if _REPLACEMENT not in path:
        return path
    # werkzeug's own server decodes the path as UTF-8 and so loses other bytes, but it also
    # provides the original text
    raw = str(environ.get("REQUEST_URI") or environ.get("RAW_URI") or "").partition("?")[0]
    root: bytes = environ.get("SCRIPT_NAME", "").encode("latin-1")
    original = unquote_to_bytes(raw).removeprefix(root)
    return original if original.decode("utf-8", "replace").encode() == path else path


def request_target() -> str:
    """Return path and query of the request, without the app's root, percent-encoded, in ASCII.

    The server has already decoded the path. Characters that a path may contain are therefore
    returned unencoded, all other bytes as %XX. A "?" without a query is lost.
    """
    query = request.query_string
    target = quote(request_path(), safe=_PLAIN) or "/"
    return f"{target}?{quote(query, safe=_PLAIN + '?%')}" if query else target


def request_host() -> str:
    """Return host and port of the request, always with the port: ``urlib.net:80``."""
    environ = request.environ
    host = request.host
    if not host:  # no Host header, or one that werkzeug refuses
        host = f"{environ.get('SERVER_NAME', 'localhost')}:{environ.get('SERVER_PORT', '80')}"
    return host if _PORT.search(host) else f"{host}:{_DEFAULT_PORTS.get(request.scheme, '80')}"


def request_root() -> str:
    """Return the path under which the app is mounted, "" for an app at the root of the host."""
    return quote(request.root_path.rstrip("/"), safe=_PLAIN)


def request_url() -> str:
    """Return the complete URL of the request, with its port ([R] 8.1, 8.2)."""
    return f"{request.scheme}://{request_host()}{request_root()}{request_target()}"


def is_request_url(url: str, *hosts: str) -> bool:
    """Return whether a URL is the one of this request; a redirect to it would never end.

    :param hosts: further names of this host, with their port.
    """
    target = request_root() + request_target()
    return any(is_same_address(url, f"http://{host}{target}") for host in (request_host(), *hosts))


def is_message() -> bool:
    """Return whether the query is that of a message to a service, not of a persistent URL."""
    return b"servicesubject=" in request.query_string


# --- the client's address ----------------------------------------------------------------------


def user_address() -> str:
    """Return the IP address of the user, :data:`UNKNOWN_USER` if it is not known."""
    return request_addresses()[0]


def request_addresses() -> tuple[str, ...]:
    """Return the IP addresses through which the request came: the user's first, then the proxies'.

    :returns: at least one; the first is :data:`UNKNOWN_USER` if the user's is not known.
    """
    addresses = forwarded_addresses(
        request.remote_addr, request.headers.getlist("X-Forwarded-For"), _trusted_proxies()
    )
    return addresses or (UNKNOWN_USER,)


def forwarded_addresses(
    peer: str | None, forwarded_for: Sequence[str], trusted: Sequence[Network]
) -> tuple[str, ...]:
    """Return the IP addresses of the user and of the proxies, by the X-Forwarded-For headers.

    :param peer: the address that the connection came from.
    :param forwarded_for: the values of X-Forwarded-For, in the order of the headers.
    :param trusted: the networks of the trusted proxies. What other clients claim is ignored.
    :returns: canonical addresses, the user's first. Empty if the user's is not known: the
        connection has no address (a Unix socket), a trusted proxy sent something that is no
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
    """Return the IP address in a text, which may have a port; None if it holds none."""
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
    """Return IBI_TRUSTED_PROXIES, which an Archive and a resolver of one app share."""
    extensions: dict[str, Any] = current_app.extensions
    if EXTENSION in extensions:
        return current_archive().config.trusted_proxies
    return cast(Sequence[Network], extensions[RESOLVER_EXTENSION].resolver.config.trusted_proxies)
