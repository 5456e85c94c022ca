"""The Merkle tree and its proofs as RFC 6962 defines them, section 2.1: by recursion, slowly."""

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


def find_path(m: int, entries: Entries) -> list[bytes]:
    """Return PATH(m, D[n]), section 2.1.1: the proof of the entry with the index m."""
    if len(entries) == 1:
        return []
    k = _split(len(entries))
    if m < k:
        return [*find_path(m, entries[:k]), find_root(entries[k:])]
    return [*find_path(m - k, entries[k:]), find_root(entries[:k])]


def find_consistency(m: int, entries: Entries, is_whole: bool = True) -> list[bytes]:
    """Return PROOF(m, D[n]), section 2.1.2: the proof that the tree continues one of size m.

    :param is_whole: whether the old tree is known to the verifier as a whole.
    """
    if m in (0, len(entries)):
        return [] if is_whole else [find_root(entries)]
    k = _split(len(entries))
    if m <= k:
        return [*find_consistency(m, entries[:k], is_whole), find_root(entries[k:])]
    return [*find_consistency(m - k, entries[k:], False), find_root(entries[:k])]


def _split(n: int) -> int:
    k = 1
    while 2 * k < n:
        k *= 2
    return k
