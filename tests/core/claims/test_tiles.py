from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each

from flask_ibi_archive.core.claims.merkle import Frontier, compute_root, hash_leaf
from flask_ibi_archive.core.claims.tiles import (
    Tile,
    TileHashes,
    decode_entries,
    encode_entries,
    find_width,
    list_bundles,
    parse_tile_path,
)
from flask_ibi_archive.errors import ClaimError


@for_each(
    ("tile", "path"),
    [
        (Tile(0, 0), "tile/0/000"),
        (Tile(1, 1234067), "tile/1/x001/x234/067"),
        (Tile(None, 5, 12), "tile/entries/005.p/12"),
        (Tile(63, 999, 255), "tile/63/999.p/255"),
        (Tile(0, 1000, 1), "tile/0/x001/000.p/1"),
    ],
)
def test_a_tile_has_the_path_of_the_specification(tile, path):
    assert tile.path == path
    assert parse_tile_path(path) == tile


@for_each(
    "path",
    [
        "tile/0/0", "tile/00/000", "tile/64/000", "tile/0/x000/001", "tile/0/000.p/0",
        "tile/0/000.p/256", "tile/0/000.p/01", "tile/-1/000", "tile/0/001/000", "tile/a/000",
        "tile/0/000/", "tile/0/x001", "tile/entries/٠٠٠", "",
    ],
)  # fmt: skip
def test_other_paths_are_no_tiles(path):
    assert parse_tile_path(path) is None


@given(st.integers(0, 10**12), st.integers(1, 256), st.sampled_from([None, 0, 7]))
def test_each_tile_is_found_by_its_path(number, width, level):
    assert parse_tile_path(Tile(level, number, width).path) == Tile(level, number, width)


@for_each(
    ("size", "widths"),
    [
        # the examples of the specification
        (70_000, {(0, 272): 256, (0, 273): 112, (0, 274): 0, (1, 0): 256, (1, 1): 17, (2, 0): 1}),
        (256, {(0, 0): 256, (1, 0): 1, (0, 1): 0}),
        (0, {(0, 0): 0, (None, 0): 0}),
        (255, {(None, 0): 255, (1, 0): 0}),
    ],
)
def test_a_tree_has_the_tiles_of_the_specification(size, widths):
    assert {place: find_width(*place, size) for place in widths} == widths


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_a_bundle_contains_its_entries(entries):
    bundle = encode_entries(entries)
    assert decode_entries(bundle, len(entries)) == entries
    for wrong in (bundle + b"\0", bundle[:-1]):
        if wrong != bundle:
            with pytest.raises(ClaimError):
                decode_entries(wrong, len(entries))
    with pytest.raises(ClaimError):
        decode_entries(bundle, len(entries) + 1)


@for_each(
    ("start", "size", "expected"),
    [
        (0, 0, []),
        (0, 300, [Tile(None, 0), Tile(None, 1, 44)]),
        (256, 300, [Tile(None, 1, 44)]),
        (299, 300, [Tile(None, 1, 44)]),
        (10, 256, [Tile(None, 0)]),
    ],
)
def test_the_bundles_with_new_entries(start, size, expected):
    assert list_bundles(start, size) == expected


@pytest.mark.parametrize("size", [1, 255, 256, 257, 65536 + 300])
def test_the_root_can_be_computed_from_tiles(size):
    leaves = [hash_leaf(b"%d" % number) for number in range(size)]
    frontier = Frontier()
    for leaf in leaves:
        frontier.add(leaf)
    levels = [leaves]
    while len(levels[-1]) >= 256:
        levels.append(
            [
                root_of(levels[-1][start : start + 256])
                for start in range(0, len(levels[-1]) - 255, 256)
            ]
        )

    def read_tile(tile):
        start = tile.number * 256
        return b"".join(levels[tile.level][start : start + tile.width])

    assert compute_root(size, TileHashes(read_tile, size)) == frontier.root()


def root_of(hashes):
    frontier = Frontier()
    for node in hashes:
        frontier.add(node)
    return frontier.root()


def test_a_tile_of_a_wrong_length_is_refused():
    with pytest.raises(ClaimError, match=r"tile/0/000.p/3 has 64 bytes, not 3 hashes"):
        compute_root(3, TileHashes(lambda tile: bytes(64), 3))
