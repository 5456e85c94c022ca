"""The Merkle tree: vectors of RFC 6962, a definition by recursion, and another implementation."""

from __future__ import annotations

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st
from pymerkle import InmemoryTree
from support.cases import for_each
from support.merkle_trees import root_of

from flask_ibi_archive.core.claims.merkle import (
    EMPTY_ROOT,
    Frontier,
    compute_root,
    hash_leaf,
    prove_consistency,
    verify_consistency,
)

#: The entries and roots of the test vectors of Certificate Transparency.
ENTRIES = [
    bytes.fromhex(entry)
    for entry in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
CONSISTENCY_OF_SIX_AND_EIGHT = [
    "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
]
#: More sizes than one level of tiles needs, with all shapes of small trees.
SIZES = st.integers(1, 300)


def define_root(entries: list[bytes]) -> bytes:
    """Return the root as RFC 6962 defines it, section 2.1."""
    if len(entries) < 2:
        return sha256(b"\0" + entries[0]).digest() if entries else sha256(b"").digest()
    middle = 1
    while 2 * middle < len(entries):
        middle *= 2
    left, right = define_root(entries[:middle]), define_root(entries[middle:])
    return sha256(b"\1" + left + right).digest()


class Reader:
    """Reads the full subtrees of a list of entries."""

    def __init__(self, entries: list[bytes]) -> None:
        self.entries = entries

    def __call__(self, level: int, index: int) -> bytes:
        start, end = index << level, (index + 1) << level
        assert end <= len(self.entries), "only full subtrees are read"
        return define_root(self.entries[start:end])


def make_entries(size: int) -> list[bytes]:
    return [b"entry %d" % number for number in range(size)]


@for_each("size", range(9))
def test_the_roots_are_those_of_the_vectors(size):
    frontier = Frontier()
    for entry in ENTRIES[:size]:
        frontier.add(hash_leaf(entry))
    assert frontier.root().hex() == ROOTS[size]
    assert compute_root(size, Reader(ENTRIES[:size])).hex() == ROOTS[size]


def test_a_proof_is_that_of_the_vectors():
    read = Reader(ENTRIES)
    assert [node.hex() for node in prove_consistency(6, 8, read)] == CONSISTENCY_OF_SIX_AND_EIGHT


@given(SIZES, st.data())
def test_a_frontier_grows_like_the_definition_and_can_be_stored(size, data):
    entries = make_entries(size)
    frontier = Frontier()
    stored_at = data.draw(st.integers(0, size))
    for number, entry in enumerate(entries):
        if number == stored_at:
            frontier = Frontier.from_bytes(frontier.size, frontier.to_bytes())
        frontier.add(hash_leaf(entry))
    assert frontier.size == size
    assert frontier.root() == define_root(entries)


@given(SIZES, st.data())
def test_a_proof_of_consistency_holds_for_a_log_that_only_grew(size, data):
    entries = make_entries(size)
    old = data.draw(st.integers(0, size))
    proof, root = prove_consistency(old, size, Reader(entries)), define_root(entries)
    old_root = define_root(entries[:old])
    assert verify_consistency(old, old_root, size, root, proof)
    assert not verify_consistency(old, hash_leaf(b"other"), size, root, proof)
    assert not verify_consistency(old, old_root, size, root, [*proof, root])
    if old:
        changed = [b"changed", *entries[1:]]
        forged = prove_consistency(old, size, Reader(changed))
        assert not verify_consistency(old, old_root, size, define_root(changed), forged)


@given(st.integers(1, 70), st.data())
def test_another_implementation_accepts_our_roots_and_proofs(size, data):
    entries = make_entries(size)
    tree = InmemoryTree(algorithm="sha256")
    for entry in entries:
        tree.append_entry(entry)
    root = compute_root(size, Reader(entries))
    assert root_of(tree, size) == root
    old = data.draw(st.integers(1, size - 1)) if size > 1 else 1
    proof = prove_consistency(old, size, Reader(entries))
    assert verify_consistency(old, root_of(tree, old), size, root_of(tree, size), proof)


def test_an_empty_log_is_consistent_with_each_log():
    root = define_root(ENTRIES)
    assert verify_consistency(0, EMPTY_ROOT, 8, root, [])
    assert not verify_consistency(0, root, 8, root, [])
    assert not verify_consistency(8, root, 6, define_root(ENTRIES[:6]), [])
