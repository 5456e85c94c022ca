"""The Merkle tree as RFC 6962 defines them, section 2.1: by recursion, slowly."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymerkle import InmemoryTree

Entries = Sequence[bytes]


def find_root(entries: Entries) -> bytes:
    """Return MTH(D[n]), section 2.1."""
    if not entries:
        return sha256(b"").digest()
    if len(entries) == 1:
        return sha256(b"\0" + entries[0]).digest()
    k = _split(len(entries))
    return sha256(b"\1" + find_root(entries[:k]) + find_root(entries[k:])).digest()


def root_of(tree: InmemoryTree, size: int | None = None) -> bytes:
    """Return the root of a tree of pymerkle, which renamed the method in version 7."""
    find = tree.get_root if hasattr(tree, "get_root") else tree.get_state
    return bytes(find(size))


def _split(n: int) -> int:
    k = 1
    while 2 * k < n:
        k *= 2
    return k
