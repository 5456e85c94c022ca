"""Transfers: HTTP GET requests with libcurl, and the results of these requests.

Three rules make transfers secure. The size of an answer is limited. Redirects are not followed.
libcurl connects only to IP addresses that were checked before. An engine (engine.py) runs many
transfers at the same time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import pycurl

from flask_ibi_archive.resolver.host_names import UNKNOWN_NAME, split_host
from flask_ibi_archive.server.http.transport import COMPRESSIONS, CUT_OFF, HEADERS

#: The maximum size of the status line and all headers of an answer, in bytes.
MAX_HEAD = 16384
#: Replaces all characters that are not printable ASCII. Such a character could end a header line.
_clean = partial(re.compile(r"[^ -~]").sub, "?")
#: The maximum number of characters in the value of a sent header. Further characters are cut off.
MAX_HEADER = 1000

_ENDS_OF_HEAD = (b"\r\n", b"\n")

NO_HTTP = "does not send valid HTTP"
TIMED_OUT = "took too long"
INVALID_URL = "has an invalid address"

#: The reason for each error of libcurl. :meth:`Transfer._explain_error` explains all other errors.
_REASONS = {
    pycurl.E_OPERATION_TIMEDOUT: TIMED_OUT,
    pycurl.E_COULDNT_RESOLVE_HOST: UNKNOWN_NAME,
    pycurl.E_PARTIAL_FILE: CUT_OFF,
    pycurl.E_GOT_NOTHING: CUT_OFF,
    pycurl.E_SEND_ERROR: CUT_OFF,
    pycurl.E_UNSUPPORTED_PROTOCOL: NO_HTTP,
    pycurl.E_WRITE_ERROR: NO_HTTP,
    pycurl.E_BAD_CONTENT_ENCODING: NO_HTTP,
    getattr(pycurl, "E_WEIRD_SERVER_REPLY", 8): NO_HTTP,
    getattr(pycurl, "E_TOO_LARGE", 100): NO_HTTP,
    pycurl.E_URL_MALFORMAT: INVALID_URL,
}
#: The errors after which a request may be sent again, because the connection failed.
RETRYABLE = frozenset(
    {
        pycurl.E_COULDNT_CONNECT,
        pycurl.E_COULDNT_RESOLVE_HOST,
        pycurl.E_GOT_NOTHING,
        pycurl.E_RECV_ERROR,
        pycurl.E_SEND_ERROR,
    }
)


class TransferResult(NamedTuple):
    """The result of a transfer.

    :param status: the HTTP status of the answer. 0 if the transfer failed.
    :param content_type: the Content-Type header of the answer. None if the header is missing.
    :param body: the body of the answer.
    :param reason: why the transfer failed, in one line. The line does not contain the query of the
        URL. None if the answer is complete.
    :param is_retryable: True if the connection failed. Then the request may be sent again.
    :param etag: the ETag header of the answer. None if the header is missing.
    """

    status: int = 0
    content_type: str | None = None
    body: bytes = b""
    reason: str | None = None
    is_retryable: bool = False
    etag: str | None = None


class Transfer:
    """A curl handle that runs one transfer after another.

    The handle sends HTTP/1.1 requests, and only to the IP addresses that :meth:`prepare` sets. The
    handle follows no redirects, uses no proxy, and sends no cookies or passwords.

    :param max_answer: the maximum size of an answer's body in bytes. If an answer is larger, the
        transfer fails.
    """

    def __init__(self, max_answer: int) -> None:
        self._max_answer = max_answer
        self._milliseconds = 0
        self._headers: Mapping[str, str] | None = None
        self._addresses: tuple[str, ...] = ()
        self._route = self._resolved = ""
        self._body: list[bytes] = []
        self._room = self._head_room = 0
        self._has_head = False
        self._refusal: str | None = None
        self._etag: str | None = None
        self.curl = pycurl.Curl()
        _set_common_options(self.curl, max_answer)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._read_body)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._read_header)
        self._set_headers(HEADERS)

    def prepare(
        self,
        url: str,
        addresses: tuple[str, ...],
        milliseconds: int,
        headers: Mapping[str, str] = HEADERS,
    ) -> None:
        """Set the URL, addresses, time limit and headers of the next request.

        :param url: a URL for which :func:`.host_names.is_valid_url` returns True.
        :param addresses: the IP addresses of the URL's host.
        :param milliseconds: the time limit of the transfer.
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
        self._head_room = MAX_HEAD
        self._has_head = False
        self._refusal = None
        self._etag = None

    def read_result(self, error: int) -> TransferResult:
        """Return the result of the transfer.

        :param error: the error code of libcurl. 0 means success.
        """
        curl = self.curl
        if self._refusal is not None:
            return TransferResult(reason=self._refusal)
        if error:
            return TransferResult(
                reason=self._explain_error(error), is_retryable=error in RETRYABLE
            )
        # libcurl does not report an error if an answer ends within the headers
        if not self._has_head:
            return TransferResult(reason=CUT_OFF)
        body, self._body = self._body, []
        content_type = curl.getinfo_raw(pycurl.CONTENT_TYPE)  # the value may not be UTF-8
        return TransferResult(
            curl.getinfo(pycurl.RESPONSE_CODE),
            None if content_type is None else content_type.decode("latin-1"),
            body[0] if len(body) == 1 else b"".join(body),
            etag=self._etag,
        )

    def close(self) -> None:
        """Close the curl handle."""
        self.curl.close()

    def _connect_to(self, url: str, addresses: tuple[str, ...]) -> None:
        """Make the next transfer connect to these addresses only.

        All handles share the DNS cache and the open connections of libcurl. Both are stored under
        the name of the server. Therefore this method replaces the host name by another name. If the
        host has one IP address, this address is the name. Otherwise, the name contains all
        addresses of the host. If the addresses of the host change, the name changes too. Then
        libcurl does not use the old cache entries and connections.
        """
        if addresses != self._addresses:
            bracketed = [f"[{address}]" if ":" in address else address for address in addresses]
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

    def _read_header(self, line: bytes) -> int | None:
        self._head_room -= len(line)
        if self._head_room < 0:
            self._refusal = NO_HTTP
            return -1
        if line in _ENDS_OF_HEAD:
            self._has_head = True
        elif line[:5] == b"HTTP/":  # another answer follows an informational answer (status 1xx)
            self._has_head = False
        elif line[:5].lower() == b"etag:":
            self._etag = line[5:].strip().decode("latin-1")
        elif line[:17].lower() == b"content-encoding:":
            encoding = line[17:].strip().lower().decode("latin-1")
            if encoding not in ("", "identity"):
                # other values are not shown, because they may contain parts of the request
                known = f" ({encoding})" if encoding in COMPRESSIONS else ""
                self._refusal = f"answers with a content encoding that was not requested{known}"
                return -1
        return None

    def _read_body(self, piece: bytes) -> int | None:
        self._room -= len(piece)
        if self._room < 0:
            self._refusal = self._explain_size()
            return -1
        self._body.append(piece)
        return None

    def _explain_size(self) -> str:
        return f"answers with more than {self._max_answer} bytes"

    def _explain_error(self, error: int) -> str:
        """Return the reason for an error of libcurl.

        libcurl's own error text is not used, because the text may contain the query of the URL.
        """
        if error == pycurl.E_FILESIZE_EXCEEDED:
            return self._explain_size()
        if error in _REASONS:
            return _REASONS[error]
        number = self.curl.getinfo(pycurl.OS_ERRNO)
        if error == pycurl.E_RECV_ERROR:  # the connection failed, or the data are wrong
            return CUT_OFF if number else NO_HTTP
        return f"can't be reached ({os.strerror(number)})" if number else "can't be reached"


def _set_common_options(curl: pycurl.Curl, max_answer: int) -> None:
    """Set the options that are the same for all transfers."""
    for option, value in (
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTP),
        (pycurl.FOLLOWLOCATION, 0),
        (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
        (pycurl.HTTP09_ALLOWED, 0),
        (pycurl.HTTPAUTH, pycurl.HTTPAUTH_NONE),
        (pycurl.NETRC, pycurl.NETRC_IGNORED),
        # ignore the environment's proxy settings
        (pycurl.PROXY, ""),
        (pycurl.NOPROXY, "*"),
        # Entries never expire: the name of an entry contains its addresses. After each transfer,
        # libcurl would look for expired ones among the entries of all Archives.
        (pycurl.DNS_CACHE_TIMEOUT, -1),
        # do not normalise the path of the URL
        (pycurl.PATH_AS_IS, 1),
        (pycurl.MAXFILESIZE, max_answer),
        (pycurl.NOSIGNAL, 1),
        (pycurl.TCP_NODELAY, 1),
    ):
        curl.setopt(option, value)
