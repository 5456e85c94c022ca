"""URL keys: signed numbers that identify the item of an answer ([R] 6.2, 7.2, Table 5.1).

The Archive issues a URL key with each answer to a resolver. The resolver sends the key back in its
acknowledgment, which proves that the Archive has sent this answer.

A key is ``<unix second>-<digits>``. The digits are the decimal form of a number with these bytes:

    1 | item (8) | random bytes (8) | signature (16)

The leading 1 preserves zeros at the beginning of the other bytes. The random bytes make each key
unique. The signature is the first half of an HMAC-SHA256 of second, item and random bytes. Nothing
is stored when a key is issued.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from itsdangerous import Signer
from itsdangerous.signer import SigningAlgorithm

from flask_ibi_archive.protocol.registration import is_key

SALT = b"flask_ibi_archive.url_key"
SIGNATURE = 16
LENGTH = 1 + 8 + 8 + SIGNATURE
MAX_LENGTH = 120
#: Seconds by which the clocks of two servers of one Archive may differ.
CLOCK_LEEWAY = 60


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """The content of a valid key.

    :param item: the item of the answer (CatalogueItem.key).
    :param issued: the time when the key was issued, in POSIX seconds.
    :param nonce: the random bytes of the key.
    """

    item: int
    issued: int
    nonce: bytes

    @property
    def name(self) -> str:
        """A text that is different for each key."""
        return f"{self.issued}-{self.nonce.hex()}"


class HalfHMAC(SigningAlgorithm):
    """The first half of an HMAC-SHA256, to keep the keys short."""

    def get_signature(self, key: bytes, value: bytes) -> bytes:
        """Return the signature of a value."""
        return hmac.digest(key, value, "sha256")[:SIGNATURE]


class URLKeys:
    """Issues URL keys and verifies them.

    :param secrets: the secrets, the newest last; only the newest signs, all of them verify.
    :param max_age: the seconds for which a key is valid.
    :param clock: returns the time in POSIX seconds.
    """

    def __init__(
        self,
        secrets: Iterable[str | bytes],
        max_age: float = 3600,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.max_age = max_age
        self.clock = clock
        signer = Signer(
            [one.encode() if isinstance(one, str) else one for one in secrets],
            salt=SALT,
            key_derivation="hmac",
            digest_method=hashlib.sha256,
        )
        # derived once, because a derivation takes longer than a signature
        self._keys = [signer.derive_key(secret) for secret in signer.secret_keys]
        self._algorithm = HalfHMAC()

    def issue(self, item: int) -> str:
        """Return a new key for an answer about an item (CatalogueItem.key)."""
        second = int(self.clock())
        # not random.randbytes: an app may seed it; equal keys would count only one access
        value = b"\x01" + item.to_bytes(8, "big") + os.urandom(8)
        signature = self._algorithm.get_signature(self._keys[-1], b"%d-%b" % (second, value))
        return f"{second:010d}-{int.from_bytes(value + signature, 'big')}"

    def verify(self, key: str) -> KeyFacts | None:
        """Return the content of a key, or None if it is not valid now or was not signed by us."""
        facts = self.read(key)
        return facts if facts is not None and self.is_current(facts) else None

    def is_current(self, facts: KeyFacts) -> bool:
        """Return whether a key has not expired and was not issued in the future."""
        return -CLOCK_LEEWAY <= self.clock() - facts.issued <= self.max_age

    def read(self, key: str) -> KeyFacts | None:
        """Return the content of a key, even an expired one, or None if it was not signed by us."""
        if len(key) > MAX_LENGTH or not is_key(key):
            return None
        first, _, second = key.partition("-")
        issued = int(first)
        number = int(second or 0)
        if number.bit_length() != LENGTH * 8 - 7 or key != f"{issued:010d}-{number}":
            return None
        whole = number.to_bytes(LENGTH, "big")
        value, signature = whole[:-SIGNATURE], whole[-SIGNATURE:]
        signed = b"%d-%b" % (issued, value)
        if not any(
            self._algorithm.verify_signature(secret, signed, signature)
            for secret in reversed(self._keys)
        ):
            return None
        return KeyFacts(int.from_bytes(value[1:9], "big"), issued, value[9:])
