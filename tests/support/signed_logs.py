"""Signed logs whose entries are numbers, honest ones and forks, and requests to a witness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import insert

from flask_ibi_archive.core.claims.checkpoint import Checkpoint
from flask_ibi_archive.core.claims.keys import SigningKey
from flask_ibi_archive.core.claims.merkle import (
    compute_root,
    hash_children,
    hash_leaf,
    prove_consistency,
)
from flask_ibi_archive.core.claims.signed_note import encode_base64
from flask_ibi_archive.resolver.claims.tables import FollowedLog
from flask_ibi_archive.server.database.database import Database
from support.registries import NOON

SECONDS = 1_800_000_000


@dataclass(frozen=True)
class SignedLog:
    """A log with a key.

    :param forked_at: the entries from this position on differ from those of the honest log.
    """

    key: SigningKey
    forked_at: int | None = None
    hashes: dict[tuple[int, int], bytes] = field(default_factory=dict, compare=False)

    def fork(self, position: int) -> SignedLog:
        """Return a log with the same key and other entries from a position on."""
        return replace(self, forked_at=position, hashes={})

    def read(self, level: int, index: int) -> bytes:
        """Return the hash of a full subtree."""
        if (level, index) not in self.hashes:
            if level:
                children = (self.read(level - 1, 2 * index), self.read(level - 1, 2 * index + 1))
                self.hashes[level, index] = hash_children(*children)
            else:
                is_forked = self.forked_at is not None and index >= self.forked_at
                self.hashes[level, index] = hash_leaf(f"{index}{is_forked}".encode())
        return self.hashes[level, index]

    def tree(self, size: int) -> Checkpoint:
        """Return the checkpoint of a size."""
        return Checkpoint(self.key.name, size, compute_root(size, self.read))

    def sign(self, size: int, seconds: int = SECONDS) -> str:
        """Return the signed checkpoint of a size."""
        return self.tree(size).sign(self.key, seconds)

    def request(self, old: int, size: int, checkpoint: str | None = None) -> bytes:
        """Return a request to a witness, with a proof by this log."""
        proof = prove_consistency(old, size, self.read) if 0 < old < size else []
        return format_request(old, proof, self.sign(size) if checkpoint is None else checkpoint)


def format_request(old: object, proof: Sequence[bytes], checkpoint: str) -> bytes:
    """Return the body of a request to a witness."""
    lines = [f"old {old}", *map(encode_base64, proof), "", checkpoint]
    return "\n".join(lines).encode()


def pin_key(database: Database, archive_id: int, key: SigningKey) -> None:
    """Pin the key of an Archive's log."""
    with database.writing() as connection:
        connection.execute(
            insert(FollowedLog).values(
                archive_id=archive_id,
                origin=key.name,
                key=key.verifier.format(),
                pinned_at=NOON,
                frontier=b"",
            )
        )
