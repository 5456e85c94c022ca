"""What was asked for, as it stood in the request: the framework has taken it apart."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

from flask import request

from flask_ibi_archive.resolution.redirect_target import is_same_address

#: What may stand in a path as it is, besides letters, digits and "-._~" (RFC 3986).
_PLAIN = "/:@!$&'()*+,;="
_PORT = re.compile(r":[0-9]+\Z")
#: What stands for bytes that are no UTF-8.
_LOST = "\ufffd".encode()
_PORTS = {"http": "80", "https": "443"}


def asked_path() -> bytes:
    """Return the path asked for, below the app's root, decoded once, in the bytes that it came in."""
    environ = request.environ
    path: bytes = environ.get("PATH_INFO", "").encode("latin-1")
    if _LOST not in path:
        return path
    # werkzeug's own server decodes a path as UTF-8, and what is none is lost; but it keeps the
    # original
    raw = str(environ.get("REQUEST_URI") or environ.get("RAW_URI") or "").partition("?")[0]
    root: bytes = environ.get("SCRIPT_NAME", "").encode("latin-1")
    whole = unquote_to_bytes(raw).removeprefix(root)
    return whole if whole.decode("utf-8", "replace").encode() == path else path


def asked_target() -> str:
    """Return path and query as they were asked for: below the app's root, percent-encoded, ASCII.

    The server decodes the path once before the app sees it: what may stand in a path is given as it
    is, every other byte as %XX. A "?" that nothing follows is lost.
    """
    query = request.query_string
    target = quote(asked_path(), safe=_PLAIN) or "/"
    return f"{target}?{quote(query, safe=_PLAIN + '?%')}" if query else target


def asked_host() -> str:
    """Return host and port that were asked, the port always: ``urlib.net:80``."""
    environ = request.environ
    host = request.host
    if not host:  # there is none, or the framework does not read it
        host = f"{environ.get('SERVER_NAME', 'localhost')}:{environ.get('SERVER_PORT', '80')}"
    return host if _PORT.search(host) else f"{host}:{_PORTS.get(request.scheme, '80')}"


def asked_root() -> str:
    """Return what is in front of the target in the path: "" unless the app is mounted somewhere."""
    return quote(request.root_path.rstrip("/"), safe=_PLAIN)


def asked_url() -> str:
    """Return the whole URL that was asked for, with its port ([R] 8.1, 8.2)."""
    return f"{request.scheme}://{asked_host()}{asked_root()}{asked_target()}"


def is_asked(url: str, *hosts: str) -> bool:
    """Tell whether a URL is the very address asked for: to redirect there would never end.

    :param hosts: further names of this host, with their port.
    """
    behind = asked_root() + asked_target()
    return any(is_same_address(url, f"http://{host}{behind}") for host in (asked_host(), *hosts))
