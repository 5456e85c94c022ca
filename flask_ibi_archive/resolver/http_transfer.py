"""One GET after the other on one curl handle: what comes back is bounded, and nothing else is
followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pycurl

from flask_ibi_archive.archive.transport import COMPRESSIONS, CUT_OFF, HEADERS
from flask_ibi_archive.resolver.dns_cache import NO_NAME, Addresses, split_host

#: Bytes of the head of an answer: its status line and its header lines.
MAX_HEAD = 16384
#: What may not stand in a header's value: it could end the line.
_clean = partial(re.compile(r"[^ -~]").sub, "?")
#: Characters of a header's value that are sent.
MAX_HEADER = 1000

_ENDS_OF_HEAD = (b"\r\n", b"\n")

NO_HTTP = "does not speak HTTP as it should"
LATE = "took too long"
NO_ADDRESS = "is no address that can be asked"

#: What an error of libcurl means; errors that are not here are a failure to connect.
_REASONS = {
    pycurl.E_OPERATION_TIMEDOUT: LATE,
    pycurl.E_COULDNT_RESOLVE_HOST: NO_NAME,
    pycurl.E_PARTIAL_FILE: CUT_OFF,
    pycurl.E_GOT_NOTHING: CUT_OFF,
    pycurl.E_SEND_ERROR: CUT_OFF,
    pycurl.E_UNSUPPORTED_PROTOCOL: NO_HTTP,
    pycurl.E_WRITE_ERROR: NO_HTTP,
    pycurl.E_BAD_CONTENT_ENCODING: NO_HTTP,
    getattr(pycurl, "E_WEIRD_SERVER_REPLY", 8): NO_HTTP,
    getattr(pycurl, "E_TOO_LARGE", 100): NO_HTTP,
    pycurl.E_URL_MALFORMAT: NO_ADDRESS,
}
#: Errors after which the same may be asked again: nothing of an answer had come.
AGAIN = frozenset(
    {
        pycurl.E_COULDNT_CONNECT,
        pycurl.E_COULDNT_RESOLVE_HOST,
        pycurl.E_GOT_NOTHING,
        pycurl.E_RECV_ERROR,
        pycurl.E_SEND_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a transfer ended.

    :param status: of the answer; 0: there is none.
    :param content_type: as the answer says it, None where it does not.
    :param reason: why there is no whole answer, in one line without the query; None: there is one.
    :param again: whether it may be tried again at once: the connection failed.
    """

    status: int = 0
    content_type: str | None = None
    body: bytes = b""
    reason: str | None = None
    again: bool = False


class Transfer:
    """A curl handle that is used again and again, for one transfer at a time.

    It speaks HTTP/1.1 to the IP addresses that it is given and to nobody else: no redirect is
    followed, no proxy asked, no cookie, name or password sent.

    :param max_answer: bytes of an answer's body that are taken; more are a failure.
    """

    __slots__ = (
        "_addresses",
        "_body",
        "_has_head",
        "_headers",
        "_max_answer",
        "_milliseconds",
        "_refusal",
        "_resolved",
        "_room",
        "_room_of_head",
        "_route",
        "curl",
    )

    def __init__(self, max_answer: int) -> None:
        self._max_answer = max_answer
        self._milliseconds = 0
        self._headers: Mapping[str, str] | None = None
        self._addresses: Addresses = ()
        self._route = self._resolved = ""
        self._body: list[bytes] = []
        self._room = self._room_of_head = 0
        self._has_head = False
        self._refusal: str | None = None
        self.curl = pycurl.Curl()
        _prepare(self.curl, max_answer)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._take_body)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._take_header)
        self._set_headers(HEADERS)

    def begin(
        self,
        url: str,
        addresses: Addresses,
        milliseconds: int,
        headers: Mapping[str, str] = HEADERS,
    ) -> None:
        """Make ready for a URL (:func:`is_askable`), to be answered in some milliseconds.

        :param addresses: the IP addresses of its host.
        """
        curl = self.curl
        curl.setopt(pycurl.URL, url)
        self._connect_to(url, addresses)
        if milliseconds != self._milliseconds:
            curl.setopt(pycurl.TIMEOUT_MS, milliseconds)
            curl.setopt(pycurl.CONNECTTIMEOUT_MS, milliseconds)
            self._milliseconds = milliseconds
        if headers is not self._headers:
            self._set_headers(headers)
        self._body = []
        self._room = self._max_answer
        self._room_of_head = MAX_HEAD
        self._has_head = False
        self._refusal = None

    def end(self, error: int) -> Ended:
        """Return how it ended.

        :param error: libcurl's number of it, 0 for none.
        """
        curl = self.curl
        if self._refusal is not None:
            return Ended(reason=self._refusal)
        if error:
            return Ended(reason=self._explain(error), again=error in AGAIN)
        if not self._has_head:  # libcurl takes what came of it for all
            return Ended(reason=CUT_OFF)
        body, self._body = self._body, []
        content_type = curl.getinfo_raw(pycurl.CONTENT_TYPE)  # whatever bytes the Archive likes
        return Ended(
            curl.getinfo(pycurl.RESPONSE_CODE),
            None if content_type is None else content_type.decode("latin-1"),
            body[0] if len(body) == 1 else b"".join(body),
        )

    def close(self) -> None:
        """Return the handle up."""
        self.curl.close()

    def _connect_to(self, url: str, addresses: Addresses) -> None:
        """Let the transfer connect to some addresses, whatever libcurl knows of the host.

        Handles share libcurl's cache of names and its connections. Both are kept under what is
        connected to: an address, or a name that stands for these very addresses. What the host had
        before is kept under another.
        """
        if addresses != self._addresses:
            bracketed = [f"[{one}]" if ":" in one else one for one in addresses]
            self._route = bracketed[0]
            if len(bracketed) > 1:
                self._route = "_".join(addresses).replace(":", "-")
            self.curl.setopt(pycurl.CONNECT_TO, [f"::{self._route}:"])
            self._addresses = addresses
            self._resolved = ",".join(bracketed)
        if len(addresses) > 1:
            _, port = split_host(url)
            self.curl.setopt(pycurl.RESOLVE, [f"+{self._route}:{port}:{self._resolved}"])

    def _set_headers(self, headers: Mapping[str, str]) -> None:
        lines = [f"{name}: {_clean(value[:MAX_HEADER])}" for name, value in headers.items()]
        self.curl.setopt(pycurl.HTTPHEADER, lines)
        self._headers = headers

    def _take_header(self, line: bytes) -> int | None:
        self._room_of_head -= len(line)
        if self._room_of_head < 0:
            self._refusal = NO_HTTP
            return -1
        if line in _ENDS_OF_HEAD:
            self._has_head = True
        elif line[:5] == b"HTTP/":  # a further one, behind a provisional answer
            self._has_head = False
        elif line[:17].lower() == b"content-encoding:":
            encoding = line[17:].strip().lower().decode("latin-1")
            if encoding not in ("", "identity"):
                # another word may be what was asked, said back
                known = f" ({encoding})" if encoding in COMPRESSIONS else ""
                self._refusal = f"answers in an encoding{known} that was not asked for"
                return -1
        return None

    def _take_body(self, piece: bytes) -> int | None:
        self._room -= len(piece)
        if self._room < 0:
            self._refusal = self._too_much()
            return -1
        self._body.append(piece)
        return None

    def _too_much(self) -> str:
        return f"answers more than {self._max_answer} bytes"

    def _explain(self, error: int) -> str:
        """Say what an error means; libcurl's own text is not used: it may hold the query."""
        if error == pycurl.E_FILESIZE_EXCEEDED:
            return self._too_much()
        if error in _REASONS:
            return _REASONS[error]
        number = self.curl.getinfo(pycurl.OS_ERRNO)
        if error == pycurl.E_RECV_ERROR:  # of the connection, or of what came through it
            return CUT_OFF if number else NO_HTTP
        return f"can't be reached ({os.strerror(number)})" if number else "can't be reached"


def _prepare(curl: pycurl.Curl, max_answer: int) -> None:
    """Set what holds for every transfer."""
    for option, value in (
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTP),
        (pycurl.FOLLOWLOCATION, 0),
        (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
        (pycurl.HTTP09_ALLOWED, 0),
        (pycurl.HTTPAUTH, pycurl.HTTPAUTH_NONE),
        (pycurl.NETRC, pycurl.NETRC_IGNORED),
        # the environment has no say
        (pycurl.PROXY, ""),
        (pycurl.NOPROXY, "*"),
        # seconds that it keeps what RESOLVE says: longer than any transfer takes
        (pycurl.DNS_CACHE_TIMEOUT, 3600),
        # a path is sent as it was written
        (pycurl.PATH_AS_IS, 1),
        (pycurl.MAXFILESIZE, max_answer),
        (pycurl.NOSIGNAL, 1),
        (pycurl.TCP_NODELAY, 1),
    ):
        curl.setopt(option, value)
