"""URL keys: they prove that the Archive has sent an answer ([R] 6.2; 7.2).

When a resolver requests the URLs of an item, the answer of the Archive contains a new URL key. The
acknowledgment of the resolver contains the same key. So the key proves that the acknowledgment
refers to an answer of this Archive.

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
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flask_ibi_archive.core.protocol.inclusion import is_key

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
        """A short text that identifies the key."""
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
