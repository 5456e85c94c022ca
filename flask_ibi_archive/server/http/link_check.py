"""Checks whether a URL works, with requests of which the body of the answer is not read."""

from __future__ import annotations

from http.client import responses
from time import monotonic
from typing import NamedTuple
from urllib.parse import urljoin

import requests
from urllib3.exceptions import HTTPError

from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.server.http import transport
from flask_ibi_archive.server.http.guarded_http import sending

#: The timeout in seconds for a URL, including all its redirects.
TIMEOUT = 30.0
#: The largest number of redirects that are followed.
MAX_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)


class LinkError(NamedTuple):
    """Why a URL does not work.

    :param reason: the reason, in one line.
    :param is_of_host: whether the host can't be reached, so that its other URLs will not work.
    """

    reason: str
    is_of_host: bool = False


def find_link_error(
    url: str, base_url: str, inner_hosts: InnerHosts, timeout: float = TIMEOUT
) -> LinkError | None:
    """Return why a URL does not work; None if it works.

    A URL works if the last answer, after all redirects, has a status from 200 to 299. The status
    429 is no error either: the server has seen too many requests, and may have the document.

    :param base_url: our own address, which the requests name.
    :param inner_hosts: the internal hosts to which requests may be sent.
    """
    headers = {"User-Agent": f"flask_ibi_archive (+{base_url})", "Accept": "*/*"}
    end, target, prefix = monotonic() + timeout, url, ""

    def send(method: str) -> tuple[int, str]:
        """Return the status of the answer, and the URL to which it redirects or ""."""
        seconds = end - monotonic()
        with sending(
            method, target, headers=headers, seconds=seconds, inner_hosts=inner_hosts
        ) as response:
            location = response.headers.get("Location")
            return response.status_code, _join(target, location) if location else ""

    for _ in range(MAX_REDIRECTS + 1):
        for method in ("HEAD", "GET"):  # some servers answer GET alone
            try:
                error, (status, location) = None, send(method)
            except (requests.RequestException, HTTPError, ValueError, OSError) as cause:
                error, status = transport.explain(target, cause), 0
            if status < 400 and (error is None or error.kind not in transport.BAD_ANSWERS):
                break
        if error is not None:
            is_of_host = target == url and error.kind in transport.HOST_ERRORS
            return LinkError(prefix + error.reason, is_of_host)
        if 200 <= status < 300 or status == 429:
            return None
        if status not in REDIRECTS or not location:
            return LinkError(f"{prefix}answers {status} ({responses.get(status, 'unknown')})")
        target = location
        prefix = f"redirects to {transport.make_printable(target)}, which "
    return LinkError(f"has more than {MAX_REDIRECTS} redirects")


def _join(url: str, location: str) -> str:
    """Return the absolute URL of a redirect, without user and password."""
    data = location.encode("latin-1", "replace")  # the bytes of the header need not be UTF-8
    escaped = "".join(chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}" for byte in data)
    return transport.without_password(urljoin(url, escaped))
