"""The Merkle tree of a log: its root, and proofs that it only grew.

The tree of n entries is defined by recursion. A tree of one entry is the hash of the entry. A
larger tree is split: the left subtree contains the first k entries, where k is the largest power of
two below n, and the right subtree contains the rest. Therefore all left subtrees are full, and they
never change when entries are added. Two things follow from this:

- The full subtrees that make up a tree, from left to right, correspond to the ones in the binary
  form of n. They are the *frontier*. The root of any later tree can be computed from the frontier
  and the later entries. Whoever keeps the frontier can check that a log only grew.
- A proof that a tree is a continuation of an earlier tree lists the subtrees from which both roots
  can be computed.

Leaves and inner nodes are hashed with different first bytes, so that no entry can pretend to be an
inner node. Source: RFC 6962, section 2.1; the verification is that of RFC 9162, section 2.1.4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeAlias

HASH_SIZE = 32
#: The root of a tree without entries.
EMPTY_ROOT = sha256(b"").digest()

#: Returns the hash of a full subtree. The parameters are the level (the subtree contains
#: ``2**level`` entries) and the index of the subtree among those of this level, from 0.
ReadHash: TypeAlias = Callable[[int, int], bytes]


def hash_leaf(entry: bytes) -> bytes:
    """Return the hash of an entry: 32 bytes."""
    return sha256(b"\0" + entry).digest()


def hash_children(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return sha256(b"\1" + left + right).digest()


class Frontier:
    """The full subtrees of a tree that grows.

    :ivar size: the number of entries.
    :param hashes: the hashes of the full subtrees, from left to right.
    """

    def __init__(self, size: int = 0, hashes: Sequence[bytes] = ()) -> None:
        self.size = size
        self._hashes = list(hashes)

    @classmethod
    def from_bytes(cls, size: int, data: bytes) -> Frontier:
        """Return the frontier that :meth:`to_bytes` has written."""
        hashes = [data[start : start + HASH_SIZE] for start in range(0, len(data), HASH_SIZE)]
        return cls(size, hashes)

    def to_bytes(self) -> bytes:
        """Return the hashes, one after the other."""
        return b"".join(self._hashes)

    def copy(self) -> Frontier:
        """Return a frontier that grows independently of this one."""
        return Frontier(self.size, self._hashes)

    def add(self, leaf: bytes) -> list[bytes]:
        """Add the hash of an entry.

        :returns: the hashes of the full subtrees that end with the entry, from level 0 upwards.
        """
        completed = [leaf]
        size = self.size
        while size & 1:
            completed.append(hash_children(self._hashes.pop(), completed[-1]))
            size >>= 1
        self._hashes.append(completed[-1])
        self.size += 1
        return completed

    def root(self) -> bytes:
        """Return the root of the tree."""
        if not self._hashes:
            return EMPTY_ROOT
        root = self._hashes[-1]
        for left in self._hashes[-2::-1]:
            root = hash_children(left, root)
        return root


def compute_root(size: int, read: ReadHash) -> bytes:
    """Return the root of a tree.

    :param read: returns the hashes of full subtrees.
    """
    return _hash_range(0, size, read) if size else EMPTY_ROOT


def prove_consistency(old: int, new: int, read: ReadHash) -> list[bytes]:
    """Return the proof that the tree of the size ``new`` continues the tree of the size ``old``.

    The proof is empty if one of the sizes is 0, or if the sizes are equal.
    """
    if old in (0, new):
        return []
    proof, start, end = [], 0, new
    # go down to the rightmost subtree of the old tree
    while end != old:
        middle = start + _split(end - start)
        if old <= middle:
            proof.append((middle, end))
            end = middle
        else:
            proof.append((start, middle))
            start = middle
    if start:  # otherwise, this subtree is the whole old tree, whose root the verifier knows
        proof.append((start, end))
    return [_hash_range(*place, read) for place in reversed(proof)]


def verify_consistency(
    old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Return whether a proof shows that a tree continues an earlier tree."""
    if old == 0:
        return old_root == EMPTY_ROOT and not proof
    if old == new:
        return old_root == new_root and not proof
    if old > new or not proof:
        return False
    # a full old tree is the first subtree of the new one; its root is not part of the proof
    hashes = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    node, last = old - 1, new - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old_hash = new_hash = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old_hash = hash_children(sibling, old_hash)
            new_hash = hash_children(sibling, new_hash)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new_hash = hash_children(new_hash, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and old_hash == old_root and new_hash == new_root


def _split(size: int) -> int:
    """Return the largest power of two below a size of at least 2."""
    return 1 << ((size - 1).bit_length() - 1)


def _hash_range(start: int, end: int, read: ReadHash) -> bytes:
    """Return the hash of a subtree that contains the entries from ``start`` to ``end - 1``."""
    size = end - start
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return read(level, start >> level)
    middle = start + _split(size)
    return hash_children(_hash_range(start, middle, read), _hash_range(middle, end, read))
