"""Salted hashes of the secrets that the resolver stores: registration keys and passwords."""

from __future__ import annotations

from werkzeug.security import check_password_hash, generate_password_hash

#: The cost of a hash (N of scrypt). A hash takes 16 MiB and some hundredths of a second.
COST = 2**14


def hash_secret(secret: str, cost: int = COST) -> str:
    """Return a salted hash of a secret in the format of werkzeug.security.

    :param cost: the parameter N of scrypt (RFC 7914), a power of 2.
    """
    return generate_password_hash(secret, f"scrypt:{cost}:8:1")


def matches_hash(secret: str, secret_hash: str) -> bool:
    """Return True if a hash was made from a secret. The duration does not depend on the secret."""
    return check_password_hash(secret_hash, secret)
