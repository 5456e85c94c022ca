"""What was asked for, as it stood in the request: the framework has taken it apart."""

from __future__ import annotations

import re
from urllib.parse import quote

from flask import request

#: What may stand in a path as it is, besides letters, digits and "-._~" (RFC 3986).
_PLAIN = "/:@!$&'()*+,;="
_HOST = re.compile(r"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_PORT = re.compile(r":[0-9]+\Z")
_PORTS = {"http": "80", "https": "443"}


def asked_target() -> str:
    """Give path and query as they were asked for: below the app's root, percent-encoded, ASCII.

    The server decodes the path once before the app sees it: what may stand in a path is given as it is,
    every other byte as %XX. A "?" that nothing follows is lost.
    """
    path: str = request.environ.get("PATH_INFO", "")
    query = request.query_string
    target = quote(path.encode("latin-1"), safe=_PLAIN) or "/"
    return f"{target}?{quote(query, safe=_PLAIN + '?%')}" if query else target


def asked_host() -> str:
    """Give host and port that were asked, the port always: ``urlib.net:80``."""
    environ = request.environ
    host = request.host
    if not _HOST.fullmatch(host):  # nobody can be led there
        host = f"{environ.get('SERVER_NAME', 'localhost')}:{environ.get('SERVER_PORT', '80')}"
    return host if _PORT.search(host) else f"{host}:{_PORTS.get(request.scheme, '80')}"


def asked_root() -> str:
    """Give what is in front of the target in the path: "" unless the app is mounted somewhere."""
    return quote(request.root_path.rstrip("/"), safe=_PLAIN)


def asked_url() -> str:
    """Give the whole URL that was asked for, with its port ([R] 8.1, 8.2)."""
    return f"{request.scheme}://{asked_host()}{asked_root()}{asked_target()}"
