"""Registration keys as a resolver keeps them: hashed, so that who reads its database can use none."""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from hashlib import scrypt

#: What a hash costs: 16 MiB and some hundredths of a second. A key may have no more than ten
#: digits.
COST = 2**14
_BLOCK, _PARALLEL = 8, 1
_SALT, _LENGTH = 16, 32
_MEMORY = 2**28


def hash_key(key: str, cost: int = COST) -> str:
    """Return what is kept of a key: a salted hash, with all that is needed to compute it again.

    :param key: the registration key.
    :param cost: a power of 2.
    :returns: ``scrypt$COST$SALT$HASH``.
    Source: RFC 7914.
    """
    return _format(key, cost, secrets.token_bytes(_SALT))


def is_key_of(key: str, kept: str) -> bool:
    """Tell whether a key is the one that a hash was made of; it takes as long whatever the key is.

    :param kept: as :func:`hash_key` gives it.
    """
    _, cost, salt, _ = kept.split("$")
    return hmac.compare_digest(_format(key, int(cost), b64decode(salt)), kept)


def _format(key: str, cost: int, salt: bytes) -> str:
    options = {"n": cost, "r": _BLOCK, "p": _PARALLEL, "dklen": _LENGTH, "maxmem": _MEMORY}
    return _join(cost, salt, scrypt(key.encode(), salt=salt, **options))


def _join(cost: int, salt: bytes, found: bytes) -> str:
    return f"scrypt${cost}${b64encode(salt).decode()}${b64encode(found).decode()}"
