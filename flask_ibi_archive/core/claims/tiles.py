"""The files of a log: tiles with the hashes of the tree, and bundles of entries.

A tile contains up to 256 consecutive hashes of one level of the tree. Tiles exist for each eighth
level: the hashes of a tile at level 1 are the roots of the full tiles at level 0, and so on. A full
tile never changes, and a partial tile (less than 256 hashes) is only ever continued. Therefore each
file can be cached. Source: C2SP tlog-tiles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from flask_ibi_archive.core.claims.merkle import HASH_SIZE, hash_children
from flask_ibi_archive.errors import ClaimError

#: The number of hashes or entries in a full file, and the levels of the tree that a tile spans.
WIDTH, HEIGHT = 256, 8
#: The maximum length of an entry in bytes.
MAX_ENTRY = 65535
#: The highest level of tiles.
MAX_LEVEL = 63

_PATH = re.compile(
    r"tile/(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/){0,6})([0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?"
)


class Tile(NamedTuple):
    """The address of a file.

    :param level: the level of the tile; None for a bundle of entries.
    :param number: the number of the file among those of its level, from 0.
    :param width: the number of hashes or entries, from 1 to 256.
    """

    level: int | None
    number: int
    width: int = WIDTH

    @property
    def path(self) -> str:
        """The path of the file in the folder of the log, such as ``tile/0/x001/234.p/5``."""
        groups = [f"{self.number % 1000:03}"]
        number = self.number // 1000
        while number:
            groups.insert(0, f"x{number % 1000:03}")
            number //= 1000
        level = "entries" if self.level is None else self.level
        partial = "" if self.width == WIDTH else f".p/{self.width}"
        return f"tile/{level}/{'/'.join(groups)}{partial}"


def parse_tile_path(path: str) -> Tile | None:
    """Return the address that a path contains, or None if the path is not canonical."""
    parts = _PATH.fullmatch(path)
    if parts is None:
        return None
    level, groups, last, width = parts.groups()
    tile = Tile(
        None if level == "entries" else int(level),
        int(groups.replace("x", "").replace("/", "") + last),
        WIDTH if width is None else int(width),
    )
    is_valid = tile.path == path and (tile.level is None or tile.level <= MAX_LEVEL)
    return tile if is_valid else None


def find_width(level: int | None, number: int, size: int) -> int:
    """Return how many hashes or entries a file has in a tree of a size; 0: there is no such file.

    :param level: the level of the tile; None for a bundle of entries.
    """
    return min(max((size >> HEIGHT * (level or 0)) - number * WIDTH, 0), WIDTH)


def list_bundles(start: int, size: int) -> list[Tile]:
    """Return the bundles with the entries from an index to the end of a log of a size."""
    last = (size + WIDTH - 1) // WIDTH
    return [
        Tile(None, number, find_width(None, number, size)) for number in range(start // WIDTH, last)
    ]


def encode_entries(entries: Iterable[bytes]) -> bytes:
    """Return a bundle: the entries, each after its length in two bytes (big-endian)."""
    return b"".join([len(entry).to_bytes(2, "big") + entry for entry in entries])


def decode_entries(bundle: bytes, count: int) -> list[bytes]:
    """Return the entries of a bundle.

    :param count: the number of entries that the bundle must contain.
    :raises ClaimError: if the bundle contains fewer or more entries.
    """
    entries: list[bytes] = []
    position = 0
    while position < len(bundle) and len(entries) < count:
        start = position + 2
        position = start + int.from_bytes(bundle[position:start], "big")
        entries.append(bundle[start:position])
    if position != len(bundle) or len(entries) != count:
        raise ClaimError(f"a bundle of {count} entries has another length than its entries")
    return entries


class TileHashes:
    """Reads the hashes of full subtrees from tiles; see :data:`.merkle.ReadHash`.

    :param read_tile: returns the content of a tile.
    :param size: the size of the tree, which must contain each subtree that is read.
    """

    def __init__(self, read_tile: Callable[[Tile], bytes], size: int) -> None:
        self._read_tile = read_tile
        self._size = size
        self._tiles: dict[tuple[int, int], bytes] = {}

    def __call__(self, level: int, index: int) -> bytes:
        """Return the hash of a full subtree.

        :raises ClaimError: if a tile has a wrong length.
        """
        tile_level, height = divmod(level, HEIGHT)
        first = index << height
        tile = self._get(tile_level, first // WIDTH)
        start = first % WIDTH
        hashes = [
            tile[HASH_SIZE * place : HASH_SIZE * (place + 1)]
            for place in range(start, start + (1 << height))
        ]
        while len(hashes) > 1:
            hashes = [
                hash_children(left, right)
                for left, right in zip(hashes[::2], hashes[1::2], strict=True)
            ]
        return hashes[0]

    def _get(self, level: int, number: int) -> bytes:
        content = self._tiles.get((level, number))
        if content is None:
            tile = Tile(level, number, find_width(level, number, self._size))
            content = self._read_tile(tile)
            if len(content) != tile.width * HASH_SIZE:
                raise ClaimError(f"{tile.path} has {len(content)} bytes, not {tile.width} hashes")
            self._tiles[level, number] = content
        return content
