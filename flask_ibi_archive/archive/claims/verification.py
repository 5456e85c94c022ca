"""Verifies a log: its entries, the stored hashes, and the claims of the present items."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlalchemy import Connection, select

from flask_ibi_archive.archive.claims import log_tables
from flask_ibi_archive.archive.claims.claimed_items import read_items
from flask_ibi_archive.archive.claims.log_tables import TILES, ClaimNote, Log
from flask_ibi_archive.archive.claims.signing import SignedTree
from flask_ibi_archive.core.claims.claim import parse_claim
from flask_ibi_archive.core.claims.merkle import Frontier, hash_leaf
from flask_ibi_archive.core.claims.tiles import HEIGHT, WIDTH
from flask_ibi_archive.errors import ClaimError
from flask_ibi_archive.server.database.dialects import is_one_of

#: The number of entries or items that are read at a time, a multiple of the width of a tile.
BATCH = 8 * WIDTH
#: After this number of errors, the verification ends.
MAX_ERRORS = 20


def verify_log(
    connection: Connection,
    log: Log,
    signed: SignedTree | None,
    progress: Callable[[int, int], None],
) -> list[str]:
    """Return what is wrong with a log; see :meth:`.ClaimLog.verify`.

    :param connection: a connection whose statements all read the data of one moment.
    :param signed: the tree that was signed last.
    """
    errors: list[str] = []
    for error in _find_errors(connection, log, signed, progress):
        errors.append(error)
        if len(errors) == MAX_ERRORS:
            break
    return errors


def _find_errors(
    connection: Connection,
    log: Log,
    signed: SignedTree | None,
    progress: Callable[[int, int], None],
) -> Iterator[str]:
    frontier = Frontier()
    signed_root = frontier.root() if signed and signed.size == 0 else None
    for start in range(0, log.size, BATCH):
        end = min(start + BATCH, log.size)
        entries = log_tables.read_entries(connection, log, start, end)
        if len(entries) != end - start:
            yield f"claims between the positions {start} and {end - 1} of the log are missing"
            return
        tiles: dict[tuple[int, int], bytes] = {}
        for position, entry in enumerate(entries, start):
            try:
                parse_claim(entry)
            except ClaimError as error:
                yield f"the claim at position {position} is malformed: {error}"
            completed = frontier.add(hash_leaf(entry))
            for level, root in enumerate(completed[HEIGHT::HEIGHT]):
                tiles[level, position >> HEIGHT * (level + 1)] = root
            if signed is not None and frontier.size == signed.size:
                signed_root = frontier.root()
        yield from _compare_tiles(connection, log, tiles)
        progress(end, log.size)
    if frontier.to_bytes().hex() != log.frontier:
        yield "the stored hashes at the end of the log are not those of the claims"
    if log_tables.read_entries(connection, log, log.size, log.size + 1):
        yield f"the log has the size {log.size}, but there are more claims"
    if signed is None:
        yield "the file that says what was signed last is missing"
    elif signed.number != log.number:
        yield f"the log has the number {log.number}, but that of number {signed.number} was signed"
    elif signed_root != signed.root:
        yield f"the log does not contain the tree of the size {signed.size} that was signed"
    if log.covered is None:
        yield from _compare_items(connection, log)


def _compare_tiles(
    connection: Connection, log: Log, tiles: dict[tuple[int, int], bytes]
) -> Iterator[str]:
    """Compare stored roots of tiles with those of the claims."""
    for level in {level for level, _ in tiles}:
        numbers = [number for tile_level, number in tiles if tile_level == level]
        rows = connection.execute(
            select(TILES.number, TILES.root).where(
                TILES.archive_id == log.archive_id,
                TILES.log_number == log.number,
                TILES.level == level,
                TILES.number.between(min(numbers), max(numbers)),
            )
        )
        stored = {row.number: row.root for row in rows}
        for number in numbers:
            if stored.get(number) != tiles[level, number].hex():
                yield f"the stored hash of tile {number} at level {level} is wrong or missing"


def _compare_items(connection: Connection, log: Log) -> Iterator[str]:
    """Compare the last claims with the items, except those with changes that are not claimed."""
    after = 0
    while items := read_items(connection, log.archive_id, after, BATCH):
        after = max(items)
        noted = set(
            connection.scalars(select(ClaimNote.item_id).where(is_one_of(ClaimNote.item_id, items)))
        )
        known = {row_id: item for row_id, item in items.items() if item and row_id not in noted}
        keys = {item.key for item in known.values()}
        last = log_tables.find_last_claims(connection, log, keys)
        for item in known.values():
            claimed = last.get(item.key)
            if item.write(claimed[1] if claimed else None) is not None:
                yield f"the last claim of {item.key} is not what the Archive has now"
