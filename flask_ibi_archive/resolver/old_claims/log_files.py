"""Reads the files of a log, and verifies trees with them, without sending requests itself.

The functions are generators. They yield lists of requests, and receive a list with their results
for each. Source: C2SP tlog-tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple, TypeAlias, TypeVar

from flask_ibi_archive.core.claims.checkpoint import Checkpoint
from flask_ibi_archive.core.claims.merkle import (
    HASH_SIZE,
    Frontier,
    ReadHash,
    compute_root,
    prove_consistency,
    verify_consistency,
)
from flask_ibi_archive.core.claims.tiles import (
    WIDTH,
    Tile,
    TileHashes,
    decode_entries,
    encode_entries,
)
from flask_ibi_archive.errors import ClaimError
from flask_ibi_archive.resolver.asking import TransferResult
from flask_ibi_archive.resolver.old_claims.tables import STALE

Result = TypeVar("Result")

OK, NOT_FOUND = 200, 404


class Fetch(NamedTuple):
    """A request.

    :param path: the path of a file in the folder of the log.
    :param etag: the ETag of the known version. None if the whole file is needed.
    """

    path: str
    etag: str | None = None


Requests: TypeAlias = Generator[list[Fetch], list[TransferResult], Result]


class Unread(Exception):
    """The log can't be read or verified now.

    :param reason: why, in one line that follows the address of the Archive.
    """

    state = STALE

    def __init__(self, reason: str) -> None:
        self.reason = reason


def get_body(answer: TransferResult, path: str) -> bytes:
    """Return the content of a file.

    :raises Unread: if the Archive did not send it.
    """
    if answer.reason is not None:
        raise Unread(f"{answer.reason} ({path})")
    if answer.status != OK:
        raise Unread(f"answers with status {answer.status} ({path})")
    return answer.body


def check_root(frontier: Frontier, tree: Checkpoint) -> Requests[None]:
    """Check that the entries that were read are the first ones of a tree.

    :raises ClaimError: if they are not, or if this can't be found out.
    """
    if frontier.size == tree.size:
        is_right = frontier.root() == tree.root
    else:
        proof = yield from _compute(
            lambda read: prove_consistency(frontier.size, tree.size, read), tree.size
        )
        is_right = verify_consistency(frontier.size, frontier.root(), tree.size, tree.root, proof)
    if not is_right:
        raise ClaimError(f"the root of {frontier.size} entries is another one")


def contradicts(old: Checkpoint, new: Checkpoint) -> Requests[bool]:
    """Return whether the tiles prove that two signed trees contradict each other.

    The proof of consistency in the tiles leads to the root of the later tree. If it starts from
    another root than that of the earlier tree, no log contains both trees.

    :raises Unread: if a tile can't be read.
    :raises ClaimError: if a tile is malformed.
    """
    if not 0 < old.size < new.size:
        return False

    def prove(read: ReadHash) -> tuple[bytes, list[bytes]]:
        return compute_root(old.size, read), prove_consistency(old.size, new.size, read)

    root, proof = yield from _compute(prove, new.size)
    return root != old.root and verify_consistency(old.size, root, new.size, new.root, proof)


def _compute(compute: Callable[[ReadHash], Result], size: int) -> Requests[Result]:
    """Compute something from the hashes of a tree.

    :param compute: a function that always reads the same hashes.
    :raises ClaimError: if a tile is malformed.
    """
    tiles: dict[Tile, bytes] = {}

    def note(tile: Tile) -> bytes:
        tiles[tile] = bytes(tile.width * HASH_SIZE)
        return tiles[tile]

    compute(TileHashes(note, size))
    contents = yield from fetch_files(tiles)
    return compute(TileHashes(contents.__getitem__, size))


def fetch_files(tiles: Iterable[Tile]) -> Requests[dict[Tile, bytes]]:
    """Return the contents of files. A server may only have the full version of a partial file.

    :raises ClaimError: if the full version is malformed.
    """
    wanted = list(tiles)
    if not wanted:
        return {}
    answers = yield [Fetch(tile.path) for tile in wanted]
    contents = dict(zip(wanted, answers, strict=True))
    missing = [
        tile
        for tile, answer in contents.items()
        if answer.status == NOT_FOUND and tile.width < WIDTH
    ]
    if missing:
        answers = yield [Fetch(tile._replace(width=WIDTH).path) for tile in missing]
        for tile, answer in zip(missing, answers, strict=True):
            if answer.status == OK:
                contents[tile] = answer._replace(body=_cut(tile, answer.body))
    return {tile: get_body(answer, tile.path) for tile, answer in contents.items()}


def _cut(tile: Tile, content: bytes) -> bytes:
    """Return the beginning of a full file as a partial file."""
    if tile.level is None:
        return encode_entries(decode_entries(content, WIDTH)[: tile.width])
    return content[: tile.width * HASH_SIZE]
