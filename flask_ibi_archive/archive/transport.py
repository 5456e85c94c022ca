"""The HTTP client: asks another server once, and gives its answer or says what is wrong.

What is asked (the query) may be a secret: it stands in no error, neither in its text nor in the
errors that it came from, and in no line of a log.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import requests
from urllib3.exceptions import InvalidChunkLength, NewConnectionError
from urllib3.exceptions import TimeoutError as PoolTimeout

from flask_ibi_archive.archive.guarded_http import DeadlinePassed, InternalAddress, sending
from flask_ibi_archive.archive.log_keys import hide_keys
from flask_ibi_archive.errors import TransportError
from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts

#: No compression: what comes is small, and may blow up.
HEADERS = {
    "Accept": "text/plain, */*;q=0.1",
    "Accept-Encoding": "identity",
    "User-Agent": "flask_ibi_archive",
}
COMPRESSIONS = ("gzip", "deflate", "compress", "br", "zstd")
#: Seconds that are waited at least: the sockets take no 0.
LEAST = 0.001
#: The kind of the error where a host is an internal one that may not be asked.
INTERNAL = "internal"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a server answered.

    :param headers: by name, in lower case.
    :param complete: False: there was more than asked for, and it was not read.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool = True

    @property
    def text(self) -> str:
        """The body as text; what is no UTF-8 is replaced."""
        return self.body.decode(errors="replace")


def fetch(
    url: str,
    query: str = "",
    *,
    seconds: float,
    limit: int,
    inner_hosts: InnerHosts | None = NO_INNER_HOSTS,
) -> HttpResponse:
    """Return what a server answers to a GET. Redirects are answers like others.

    :param url: without a query; errors show it.
    :param query: is shown nowhere.
    :param seconds: for the whole answer.
    :param limit: bytes of it that are read.
    :param inner_hosts: as :func:`~flask_ibi_archive.archive.guarded_http.sending` takes them: None
        stands for an address of our own settings.
    :raises TransportError: if there is no whole answer in time.
    """
    seconds = max(seconds, LEAST)
    came = within(seconds, lambda: _ask(url, query, seconds, limit, inner_hosts))
    if came is None:
        came = TransportError(without_password(url), "timeout", "took too long", True)
    if isinstance(came, TransportError):
        # raised here, where no other error is at hand: theirs hold the query
        raise came
    return came


def without_password(url: str) -> str:
    """Return a URL as it may be shown."""
    return re.sub(r"//[^/]*@", "//", url)


def within(seconds: float, work: Callable[[], Result]) -> Result | None:
    """Return what some work, which raises nothing, comes to; None where it takes too long.

    It is done in a thread that may be left behind: the timeouts of sockets are for each read alone,
    and a server that sends a byte now and then never reaches them.
    """
    came: SimpleQueue[Result] = SimpleQueue()
    Thread(target=lambda: came.put(work()), daemon=True).start()
    try:
        return came.get(timeout=seconds)
    except Empty:
        return None


def _ask(
    url: str, query: str, seconds: float, limit: int, inner_hosts: InnerHosts | None
) -> HttpResponse | TransportError:
    shown = without_password(url)
    keep_out_of_logs()
    asked = f"{url}?{query}" if query else url
    try:
        with sending(
            "GET", asked, headers=HEADERS, seconds=seconds, inner_hosts=inner_hosts
        ) as answer:
            return _read(shown, answer, limit)
    except Exception as error:  # noqa: BLE001 - a thread; and the text of any of them may hold the query
        return _explain(shown, error)


def _read(url: str, answer: requests.Response, limit: int) -> HttpResponse | TransportError:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        # another word may be what was asked, said back
        known = f" ({encoding})" if encoding in COMPRESSIONS else ""
        reason = f"answers in an encoding{known} that was not asked for"
        return TransportError(url, "encoding", reason, False)
    body = b""
    for byte in answer.raw.stream(1, decode_content=False):  # more would be waited for
        if len(body) == limit:
            return HttpResponse(answer.status_code, headers, body, complete=False)
        body += byte
    told = headers.get("content-length", "")
    if (
        told.isascii() and told.isdigit() and len(body) < int(told[:18])
    ):  # older urllib3 let it pass
        return TransportError(url, "cut off", CUT_OFF, True)
    return HttpResponse(answer.status_code, headers, body)


CUT_OFF = "broke off before its answer was complete"


def _explain(url: str, error: Exception) -> TransportError:
    """Return an error of ours for one of requests, urllib3 or below; nothing of their texts is
    kept.
    """
    errors = list(_with_causes(error))

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(one, kinds) for one in errors)

    if has(InternalAddress):
        return TransportError(url, INTERNAL, "has an internal IP address", False)
    if has(DeadlinePassed):
        return TransportError(url, "timeout", "took too long", True)
    unknown = next((one for one in errors if isinstance(one, socket.gaierror)), None)
    if unknown is not None:
        again = unknown.errno == socket.EAI_AGAIN
        return TransportError(
            url, "name", f"can't be reached: its name is not known{_detail(errors)}", again
        )
    if has(ssl.SSLError, requests.exceptions.SSLError):
        return TransportError(url, "tls", f"can't be reached over TLS{_detail(errors)}", False)
    if has(TimeoutError, requests.Timeout) or any(_is_late(one) for one in errors):
        return TransportError(url, "timeout", "took too long", True)
    if any(isinstance(one, InvalidChunkLength) and one.length for one in errors):
        return TransportError(url, "no http", "does not speak HTTP as it should", False)
    if has(RemoteDisconnected, IncompleteRead, ConnectionResetError, BrokenPipeError):
        return TransportError(url, "cut off", CUT_OFF, True)
    if has(HTTPException):
        return TransportError(url, "no http", "does not speak HTTP as it should", False)
    return TransportError(
        url, "unreachable", f"can't be reached{_detail(errors)}", has(requests.ConnectionError)
    )


def _is_late(error: BaseException) -> bool:
    return isinstance(error, PoolTimeout) and not isinstance(error, NewConnectionError)


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Return an error and those that it came from or holds."""
    waiting: list[Any] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [*one.args, getattr(one, "reason", None), one.__cause__, one.__context__]


def _detail(errors: list[BaseException]) -> str:
    """Return what the system says of an error, in brackets: it knows nothing of what was asked."""
    for one in errors:
        if isinstance(one, ssl.SSLCertVerificationError):
            return f" ({' '.join(str(one.verify_message).split())[:200]})"
        if isinstance(one, OSError) and not isinstance(one, requests.RequestException):
            text = one.reason if isinstance(one, ssl.SSLError) else one.strerror
            if isinstance(text, str) and text:
                return f" ({' '.join(text.split())[:200]})"
    return ""


# --- logs ----------------------------------------------------------------------------------------

#: urllib3 writes the address of each request to these.
_LOGGERS = tuple(
    f"urllib3.{name}"
    for name in ("connectionpool", "connection", "poolmanager", "response", "util.retry")
)


def keep_out_of_logs() -> None:
    """See that urllib3 logs no registration key, at whatever level."""
    hide_keys(_LOGGERS)
