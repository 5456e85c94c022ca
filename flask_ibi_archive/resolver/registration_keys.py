"""Registration keys: the hashes of the keys, and the rate limit of wrong keys.

A registration key is a password. An Archive sends this password with inclusion requests and
exclusion requests. The number of wrong keys per minute is limited for each sender and for each
Archive (:mod:`.rate_limit`). There are two reasons for the rate limit. A key may have only ten
digits. And each comparison of a key takes 16 MiB of memory and some hundredths of a second. If an
Archive is not registered, its keys are refused without a comparison and are not counted.

The limit for the Archive does not apply to the IP address in the Archive's last inclusion request.
The functions for hashes are also used for the passwords of actors.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from dataclasses import dataclass
from hashlib import scrypt

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    String,
    and_,
    insert,
    literal,
    select,
)
from werkzeug.security import check_password_hash, generate_password_hash

from flask_ibi_archive.resolver.rate_limit import RateLimit
from flask_ibi_archive.resolver.tables import KeyAttempt, RegisteredArchive
from flask_ibi_archive.storage.dialects import UTCDateTime

#: The cost of a hash (N of scrypt). A hash takes 16 MiB and some hundredths of a second.
COST = 2**14
#: The first characters of the hashes that version 0.1.0 stored. These hashes have the form
#: ``scrypt$COST$SALT$HASH``. SALT and HASH are in base64.
OLD_FORMAT = "scrypt$"


def hash_key(key: str, cost: int = COST) -> str:
    """Return a salted hash of a registration key in the format of werkzeug.security.

    :param cost: the parameter N of scrypt (RFC 7914), a power of 2.
    """
    return generate_password_hash(key, f"scrypt:{cost}:8:1")


def matches_hash(key: str, key_hash: str) -> bool:
    """Return True if a hash was made from this key. The duration does not depend on the key."""
    if not key_hash.startswith(OLD_FORMAT):
        return check_password_hash(key_hash, key)
    _, cost, salt, expected = key_hash.split("$")
    found = scrypt(
        key.encode(), salt=b64decode(salt), n=int(cost), r=8, p=1, dklen=32, maxmem=2**28
    )
    return hmac.compare_digest(found, b64decode(expected))


@dataclass(frozen=True)
class KeyRateLimit(RateLimit):
    """The rate limit that applies to one received key.

    :param archive_id: the id of the Archive that the key was sent for.
    """

    archive_id: int

    table = KeyAttempt
    lock = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'ibi_keys', 'big')})"
    max_of_sender = 10
    max_of_target = 30

    @property
    def of_target(self) -> ColumnElement[bool]:
        """The condition for the wrong keys for this Archive."""
        return KeyAttempt.archive_id == self.archive_id

    @property
    def outdated(self) -> ColumnElement[bool]:
        """The condition for the wrong keys for this Archive that are no longer counted."""
        return and_(self.of_target, super().outdated)

    @property
    def own_ip(self) -> ScalarSelect[str | None]:
        """The IP address in the Archive's last inclusion request, or NULL without a request."""
        statement = select(RegisteredArchive.ip).where(RegisteredArchive.id == self.archive_id)
        return statement.scalar_subquery()

    def lock_target(self, connection: Connection) -> None:
        """Lock the row of the Archive until the end of the transaction."""
        statement = select(RegisteredArchive.id).where(RegisteredArchive.id == self.archive_id)
        connection.execute(statement.with_for_update())

    def store_attempt(self, connection: Connection) -> None:
        """Store the wrong key if the Archive is still registered."""
        row = select(
            RegisteredArchive.id,
            literal(self.sender, String()),
            literal(self.now, UTCDateTime()),
        ).where(RegisteredArchive.id == self.archive_id)
        connection.execute(
            insert(KeyAttempt).from_select(["archive_id", "sender", "attempted_at"], row)
        )
