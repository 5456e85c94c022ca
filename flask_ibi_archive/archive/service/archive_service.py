"""The Archive service, which answers the messages of resolvers, and URL keys ([R] 4, 6.2, 7).

The service has an IBI. The address of the service is the host of the Archive with the IBI as path.

When a resolver requests the URLs of an item, the answer of the Archive contains a new URL key. The
acknowledgment of the resolver contains the same key. The key proves that the Archive has sent the
answer to which the acknowledgment refers.

A key has the form ``<POSIX time>-<digits>``. The POSIX time is the time when the key was issued.
The digits are the decimal form of a number with these bytes:

    2 | identifier of the item | random bytes (8) | signature (16)

The first byte is not 0, because a number cannot begin with zeros. The random bytes make each key
unique. The signature is the first half of an HMAC-SHA256 of the other parts of the key. The Archive
does not store the keys that it issues.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from flask import Response, current_app, request
from werkzeug.exceptions import BadHost

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import messages
from flask_ibi_archive.core.protocol.hosts import find_client
from flask_ibi_archive.core.protocol.inclusion import is_key
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.core.protocol.url_list import UrlPair
from flask_ibi_archive.errors import ConfigError, IdentifierError, NotReady, PeerProtocolError
from flask_ibi_archive.server.config import RESOLVER_EXTENSION
from flask_ibi_archive.server.web import responses
from flask_ibi_archive.server.web.requests import current_archive, is_message
from flask_ibi_archive.signals import Notice, url_requested

# --- messages ----------------------------------------------------------------------------------

# The path of a service is a repository name or an IBIp, in upper or lower case.
_IBIP_CHARACTER = "[2-9A-HJ-NP-Ua-hj-np-u]"
_SERVICE_PATH = re.compile(
    r"/[A-Za-z0-9.-]+/[A-Za-z0-9@.-]+/[0-9]{4}/[0-9.]+"
    rf"|/{_IBIP_CHARACTER}+[WXwx]{_IBIP_CHARACTER}*/{_IBIP_CHARACTER}+(?:[Ww]{_IBIP_CHARACTER}+)?"
)


def find_service_view() -> Callable[[], Response] | None:
    """Return the view of the service if the request is for the address of the service.

    Flask cannot find this view, because the IBI of the service is in the database. A route for all
    paths with the form of an IBI would hide routes of the app.

    :returns: None for other requests. If the app has a route for exactly the address of the
        service, the app answers the request.
    """
    path = request.path
    if _SERVICE_PATH.fullmatch(path) is None or isinstance(request.routing_exception, BadHost):
        return None
    if request.url_rule is not None and not request.url_rule.arguments:
        return None
    archive = current_archive()
    try:
        # most requests have the canonical case
        if not archive.serves(path[1:]) and not archive.serves(parse_identifier(path[1:]).text):
            return None
    except IdentifierError:
        return None
    except NotReady as error:  # the IBI of the service is unknown
        resolves = archive.config.local_resolution or RESOLVER_EXTENSION in current_app.extensions
        if resolves and not is_message():  # it may be a persistent URL
            return None
        return partial(_unavailable, error)
    except ConfigError as error:
        return partial(_unavailable, error)
    return answer_service_request


def answer_service_request() -> Response:
    """Answer a message, or return an alert that says why the message is refused."""
    if (refusal := responses.refuse_request()) is not None:
        return refusal
    archive = current_archive()
    # a request with HEAD must not change anything (RFC 9110, 9.3.2)
    is_get = request.method == "GET"

    def list_urls(message: messages.UrlRequest) -> Sequence[UrlPair]:
        pairs = archive.list_urls(message)
        if is_get and url_requested.receivers:
            values = {
                "ibi": message.ibi.text,
                "client_address": find_client(
                    message.client_addresses, archive.config.anonymise_ips
                ),
                "filepath": message.filepath,
                "urls": len(pairs),
            }
            archive.notifier.send([Notice(url_requested, values)])
        return pairs

    def count(acknowledgment: messages.Acknowledgment) -> None:
        if is_get:
            sender, reader = map(request.headers.get, ("User-Agent", "X-Forwarded-User-Agent"))
            archive.take_acknowledgment(acknowledgment, messages.Agents(sender, reader))

    try:
        message = messages.parse_request(decode_query_string(request.query_string))
        return responses.pairs_response(messages.build_response(message, list_urls, count))
    except PeerProtocolError as error:
        return responses.error_response(400, str(error))
    except (NotReady, ConfigError) as error:
        return _unavailable(error)


def _unavailable(error: NotReady | ConfigError) -> Response:
    current_app.logger.error("the Archive can't answer: %s", error)
    return responses.error_response(
        503, responses.summarise_error(error), Retry_After=responses.RETRY_AFTER
    )


# --- URL keys ----------------------------------------------------------------------------------

SALT = b"flask_ibi_archive.url_key"
NONCE = 8
SIGNATURE = 16
#: The first byte of keys.
VERSION = b"\x02"
#: No key has more characters, not even the key of an item with an identifier of 255 characters.
MAX_LENGTH = 700
#: The maximum difference in seconds between the clocks of two servers of an Archive.
CLOCK_LEEWAY = 60


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """The content of a valid key.

    :param ibi: an identifier of the requested item.
    :param issued: the time when the key was issued, in POSIX seconds.
    :param nonce: the random bytes of the key.
    """

    ibi: str
    issued: int
    nonce: bytes

    @property
    def name(self) -> str:
        """A short text that is different for each key."""
        return f"{self.issued}-{self.nonce.hex()}"


class URLKeys:
    """Issues URL keys and verifies them.

    :param secrets: the secrets; the newest secret is the last. Keys are signed with the newest
        secret. A key is valid if it was signed with any of the secrets.
    :param max_age: the number of seconds for which a key is valid.
    :param clock: a function that returns the time in POSIX seconds.
    """

    def __init__(
        self,
        secrets: Iterable[str | bytes],
        max_age: float = 3600,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.max_age = max_age
        self.clock = clock
        keys = [secret.encode() if isinstance(secret, str) else secret for secret in secrets]
        # prepared once, because this takes longer than to sign a value
        self._signers = [
            hmac.new(hmac.digest(key, SALT, "sha256"), digestmod=hashlib.sha256) for key in keys
        ]

    def issue(self, ibi: str) -> str:
        """Return a new URL key for an item.

        :param ibi: an identifier of the item, in canonical case.
        """
        second = int(self.clock())
        # not random.randbytes(): an app may seed the generator, and keys would then be equal
        value = VERSION + ibi.encode() + os.urandom(NONCE)
        signature = _sign(self._signers[-1], second, value)
        return f"{second:010d}-{int.from_bytes(value + signature, 'big')}"

    def is_current(self, facts: KeyFacts) -> bool:
        """Return whether a key is valid at this time.

        A key is not valid if it has expired or was issued in the future.
        """
        return -CLOCK_LEEWAY <= self.clock() - facts.issued <= self.max_age

    def read(self, key: str) -> KeyFacts | None:
        """Return the content of a key, or None if the key is forged.

        This method does not check whether the key has expired (:meth:`is_current`).
        """
        if len(key) > MAX_LENGTH or not is_key(key):
            return None
        first, _, second = key.partition("-")
        issued = int(first)
        number = int(second or 0)
        whole = number.to_bytes((number.bit_length() + 7) // 8, "big")
        if key != f"{issued:010d}-{number}" or whole[:1] != VERSION:
            return None
        value, signature = whole[:-SIGNATURE], whole[-SIGNATURE:]
        if not any(
            hmac.compare_digest(_sign(signer, issued, value), signature)
            for signer in reversed(self._signers)
        ):
            return None
        return KeyFacts(value[1:-NONCE].decode(), issued, value[-NONCE:])


def _sign(signer: hmac.HMAC, second: int, value: bytes) -> bytes:
    """Return the signature of a key: the first half of the HMAC, so that URL keys are short."""
    mac = signer.copy()
    mac.update(b"%d-%b" % (second, value))
    return mac.digest()[:SIGNATURE]
