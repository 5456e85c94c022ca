"""Send a request, and return the response or raise an error; check whether a URL works.

The query of a request may contain a secret (a registration key). Therefore no error, no cause of an
error and no log contains the query.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead, RemoteDisconnected, responses
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urljoin

import requests
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InvalidChunkLength,
    NewConnectionError,
)
from urllib3.exceptions import TimeoutError as PoolTimeout

from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.core.protocol.pairs import ALERT, hide_keys, parse_pairs
from flask_ibi_archive.errors import IBIError, PeerProtocolError, TransportError, one_line
from flask_ibi_archive.server.http.guarded_http import DeadlinePassed, InternalAddress, sending

#: Compression is not accepted, because a small response could expand to a very large one.
HEADERS = {
    "Accept": "text/plain, */*;q=0.1",
    "Accept-Encoding": "identity",
    "User-Agent": "flask_ibi_archive",
}
COMPRESSIONS = ("gzip", "deflate", "compress", "br", "zstd")
#: The kind of error for an internal host that the settings do not allow, and the reason.
INTERNAL = "internal"
INTERNAL_REASON = "has an internal IP address, which IBI_INNER_HOSTS does not allow"
#: Kinds of errors that concern the whole host. Other URLs of the host will fail, too.
HOST_ERRORS = {"name", INTERNAL, "unreachable"}
#: Kinds of errors after which a request with another method (GET, not HEAD) may succeed.
BAD_ANSWERS = {"cut off", "no http"}

CUT_OFF = "closed the connection before the answer was complete"
#: An error shows at most this number of characters of a message of the operating system.
MAX_DETAIL = 200

#: A message shows at most this number of characters of a text of the resolver.
MAX_SHOWN = 200
#: The number of bytes of a long body that are read at once.
BLOCK = 1 << 16


#: The timeout in seconds for the check of a URL, including all its redirects.
LINK_TIMEOUT = 30.0
#: The largest number of redirects that this check follows.
MAX_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)

#: Takes the status of a response and a block of its body.
Take = Callable[[int, bytes], None]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response of a server.

    :param headers: the values of the headers, by the names in lower case.
    :param complete: False if the body is longer than the limit. Then ``body`` contains only the
        start.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool = True

    @property
    def text(self) -> str:
        """The body as text. Bytes that are not UTF-8 become U+FFFD."""
        return self.body.decode(errors="replace")


def fetch(
    url: str,
    query: str = "",
    *,
    seconds: float,
    limit: int,
    inner_hosts: InnerHosts | None = NO_INNER_HOSTS,
    headers: Mapping[str, str] = {},
    body: bytes | None = None,
    take: Take | None = None,
    block: int = 1,
) -> HttpResponse:
    """Send a request, and return the response. Redirects are not followed.

    :param url: the URL without a query. Errors show it without user and password.
    :param query: the query. Errors do not show the query.
    :param seconds: the timeout for the complete response.
    :param limit: the largest number of bytes of the body that are read.
    :param inner_hosts: see :func:`~flask_ibi_archive.server.http.guarded_http.sending`.
    :param headers: further headers, such as Authorization. Errors do not show them.
    :param body: the body of a POST request. None for a GET request.
    :param take: called as ``take(status, block)`` for each block of the body, if the status is 200
        or 206; the body of the result is then empty. It may raise only errors of this package,
        which end the request. With any other status, at most :data:`BLOCK` bytes of the body are
        read.
    :param block: the number of bytes of the body that are read at once. By default, the body is
        read byte by byte, because a longer read could block until the deadline, and lose the bytes
        that had already arrived.
    :raises TransportError: if no complete response arrives in time.
    """
    hide_keys(URLLIB3_LOGGERS)
    shown = without_password(url)
    outcome: HttpResponse | IBIError
    try:
        with sending(
            "GET" if body is None else "POST",
            f"{url}?{query}" if query else url,
            headers={**HEADERS, **headers},
            seconds=seconds,
            inner_hosts=inner_hosts,
            body=body,
        ) as response:
            outcome = _read(shown, response, limit, take, block)
    except IBIError as error:
        outcome = error.with_traceback(None)
    except Exception as error:  # noqa: BLE001 - any exception may contain the query or the headers
        outcome = explain(shown, error)
    if isinstance(outcome, IBIError):
        # The error is not raised in an except clause. Otherwise the context of the error would
        # contain the query and the headers.
        raise outcome
    return outcome


def make_printable(text: str, limit: int = MAX_SHOWN) -> str:
    """Return a text of another server as one line, safe for terminals and databases.

    :param limit: the largest number of characters; a longer text is cut off.
    """
    readable = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    line = one_line("".join(char if char.isprintable() else " " for char in readable))
    return line if len(line) <= limit else f"{line[:limit]}..."


def find_alert(body: bytes, name: str = ALERT) -> str:
    """Return the alert in an answer (a message for readers) in one line; "" if there is none.

    :param name: the name of the pair that contains the message.
    """
    try:
        return next(
            (make_printable(pair.text) for pair in parse_pairs(body) if pair.name == name), ""
        )
    except PeerProtocolError:
        return ""


def without_password(url: str) -> str:
    """Return a URL without user and password."""
    return re.sub(r"//[^/]*@", "//", url)


def _read(
    url: str, response: requests.Response, limit: int, take: Take | None, block: int
) -> HttpResponse | TransportError:
    """Read at most ``limit`` bytes of the body; return the response or an error.

    :param url: the URL that an error shows.
    """
    if take is not None and response.status_code not in (200, 206):
        take, limit = None, BLOCK
    headers = {name.lower(): value for name, value in response.headers.items()}
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        # An unknown encoding is not shown, because the server may have put the query into it.
        known = f" ({encoding})" if encoding in COMPRESSIONS else ""
        reason = f"sends the answer in an encoding{known} that was not requested"
        return TransportError(url, "encoding", reason, False)
    body, size = bytearray(), 0
    for data in response.raw.stream(block, decode_content=False):
        is_complete = size + len(data) <= limit
        kept = data if is_complete else data[: limit - size]
        size += len(kept)
        if take is None:
            body += kept
        else:
            take(response.status_code, kept)
        if not is_complete:
            return HttpResponse(response.status_code, headers, bytes(body), complete=False)
    length = headers.get("content-length", "")
    # Older versions of urllib3 do not check the length.
    if length.isascii() and length.isdigit() and size < int(length[:18]):
        return TransportError(url, "cut off", CUT_OFF, True)
    return HttpResponse(response.status_code, headers, bytes(body))


def explain(url: str, error: Exception) -> TransportError:
    """Convert an exception of :func:`~.guarded_http.sending` to a TransportError.

    The error does not contain the text of the exception, which may contain the query.

    :param url: the URL that the error shows.
    """
    errors = list(_with_causes(error))

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in errors)

    if has(InternalAddress):
        return TransportError(url, INTERNAL, INTERNAL_REASON, False)
    look_up_error = next((cause for cause in errors if isinstance(cause, socket.gaierror)), None)
    if look_up_error is not None:
        reason = f"can't be reached: the host name is not known{_detail(errors)}"
        return TransportError(url, "name", reason, look_up_error.errno == socket.EAI_AGAIN)
    if has(NewConnectionError):
        return TransportError(url, "unreachable", f"can't be reached{_detail(errors)}", True)
    if has(ConnectTimeoutError, requests.ConnectTimeout):
        return TransportError(url, "unreachable", "can't be reached (no connection in time)", True)
    if has(DeadlinePassed):
        return TransportError(url, "timeout", "took too long", True)
    if has(ssl.SSLError, requests.exceptions.SSLError):
        return TransportError(url, "tls", f"can't be reached over TLS{_detail(errors)}", False)
    if has(TimeoutError, requests.Timeout, PoolTimeout):
        return TransportError(url, "timeout", "took too long", True)
    if any(isinstance(cause, InvalidChunkLength) and cause.length for cause in errors):
        return TransportError(url, "no http", "sends an answer that is not valid HTTP", False)
    if has(RemoteDisconnected, IncompleteRead, ConnectionResetError, BrokenPipeError):
        return TransportError(url, "cut off", CUT_OFF, True)
    if has(HTTPException):
        return TransportError(url, "no http", "sends an answer that is not valid HTTP", False)
    if isinstance(error, ValueError):
        return TransportError(url, "url", "is not a valid address", False)
    reason = f"can't be reached{_detail(errors)}"
    return TransportError(url, "unreachable", reason, has(requests.ConnectionError))


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its causes, and the exceptions in its arguments and attributes."""
    waiting: list[Any] = [error]
    seen: set[int] = set()
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            waiting += [*cause.args, getattr(cause, "reason", None)]
            waiting += [cause.__cause__, cause.__context__]


def _detail(errors: list[BaseException]) -> str:
    """Return the message of the operating system in brackets, or "" if there is no message.

    This message never contains the query.
    """
    for error in errors:
        text: object = None
        if isinstance(error, ssl.SSLCertVerificationError):
            text = str(error.verify_message)
        elif isinstance(error, OSError) and not isinstance(error, requests.RequestException):
            text = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        if isinstance(text, str) and text:
            return f" ({' '.join(text.split())[:MAX_DETAIL]})"
    return ""


#: The loggers to which urllib3 writes the URL of each request.
URLLIB3_LOGGERS = tuple(
    f"urllib3.{name}"
    for name in ("connectionpool", "connection", "poolmanager", "response", "util.retry")
)


# --- checking a URL ------------------------------------------------------------------------------


class LinkError(NamedTuple):
    """The reason why a URL does not work.

    :param reason: the reason, in one line.
    :param is_of_host: whether the whole host cannot be reached, so that other URLs of this host
        will not work either.
    """

    reason: str
    is_of_host: bool = False


def find_link_error(
    url: str, base_url: str, inner_hosts: InnerHosts, timeout: float = LINK_TIMEOUT
) -> LinkError | None:
    """Request a URL, and return why it does not work; None if it works.

    A URL works if the last answer, after all redirects, has a status from 200 to 299. The status
    429 is no error either: the server has seen too many requests, and may have the document.

    :param base_url: our own address. The User-Agent header of the requests contains it.
    :param inner_hosts: the internal hosts to which requests may be sent.
    """
    headers = {"User-Agent": f"flask_ibi_archive (+{base_url})", "Accept": "*/*"}
    end, target, prefix = monotonic() + timeout, url, ""

    def send(method: str) -> tuple[int, str]:
        """Send a request; return ``(status, URL of the redirect or "")``."""
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
                error, status = explain(target, cause), 0
            if status < 400 and (error is None or error.kind not in BAD_ANSWERS):
                break
        if error is not None:
            is_of_host = target == url and error.kind in HOST_ERRORS
            return LinkError(prefix + error.reason, is_of_host)
        if 200 <= status < 300 or status == 429:
            return None
        if status not in REDIRECTS or not location:
            return LinkError(f"{prefix}answers {status} ({responses.get(status, 'unknown')})")
        target = location
        prefix = f"redirects to {make_printable(target)}, which "
    return LinkError(f"has more than {MAX_REDIRECTS} redirects")


def _join(url: str, location: str) -> str:
    """Return the absolute URL of a redirect, without user and password."""
    data = location.encode("latin-1", "replace")  # the bytes of the header need not be UTF-8
    escaped = "".join(chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}" for byte in data)
    return without_password(urljoin(url, escaped))
