"""URL keys: signed numbers that say which item an answer was about ([R] 6.2, 7.2, Table 5.1).

A key is ``<unix second>-<digits>``. The digits write, as one number, the bytes

    1 | item (8) | chance (8) | signature (16)

where the leading 1 keeps the zeros that follow, the chance makes each key another one, and the
signature is the first half of an HMAC-SHA256 over second, item and chance. Nothing is stored when a
key is issued.
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
#: Seconds that the clocks of two servers of one Archive may be apart.
CLOCK_LEEWAY = 60


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What a good key says.

    :param item: the key of the item that the answer was about (Item.key).
    :param issued: when, in POSIX seconds.
    :param chance: what tells it from every other key.
    """

    item: int
    issued: int
    chance: bytes

    @property
    def name(self) -> str:
        """What tells the key from every other one that was or will be issued."""
        return f"{self.issued}-{self.chance.hex()}"


class HalfHMAC(SigningAlgorithm):
    """The first half of an HMAC-SHA256: short enough to be written in digits."""

    def get_signature(self, key: bytes, value: bytes) -> bytes:
        """Return the signature of a value."""
        return hmac.digest(key, value, "sha256")[:SIGNATURE]


class URLKeys:
    """Issues URL keys and tells whether one is good.

    :param secrets: the secrets to sign with, the newest last; the older ones still verify.
    :param max_age: seconds that a key is good for.
    :param clock: tells the time in POSIX seconds.
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
        # derived once: that costs more than a signature
        self._keys = [signer.derive_key(secret) for secret in signer.secret_keys]
        self._algorithm = HalfHMAC()

    def issue(self, item: int) -> str:
        """Return a new key for an answer about an item (its Item.key)."""
        second = int(self.clock())
        # not of random: a host may seed it, and the same key twice counts one access
        value = b"\x01" + item.to_bytes(8, "big") + os.urandom(8)
        signature = self._algorithm.get_signature(self._keys[-1], b"%d-%b" % (second, value))
        return f"{second:010d}-{int.from_bytes(value + signature, 'big')}"

    def verify(self, key: str) -> KeyFacts | None:
        """Return what a key says, None where it is forged, expired, of another secret or no key of
        ours.
        """
        facts = self.read(key)
        return facts if facts is not None and self.is_current(facts) else None

    def is_current(self, facts: KeyFacts) -> bool:
        """Tell whether a key's time has come and is not over."""
        return -CLOCK_LEEWAY <= self.clock() - facts.issued <= self.max_age

    def read(self, key: str) -> KeyFacts | None:
        """Return what a key says, whenever it was issued; None where it was not signed by us."""
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
