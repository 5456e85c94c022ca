"""Reads and extends the log in the database.

The entries are stored, and the root of each full tile, which is a hash of the tile at the next
level. The hashes at level 0 are computed from the entries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select, update
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items.bulk import insert_rows
from flask_ibi_archive.archive.items.tables import ClaimLogRow, ClaimRow, ClaimTile
from flask_ibi_archive.core.claims.merkle import Frontier, compute_root, hash_leaf
from flask_ibi_archive.core.claims.tiles import HEIGHT, WIDTH, Tile, TileHashes, find_width
from flask_ibi_archive.server.database.dialects import list_values

CLAIMS, TILES = ClaimRow.__table__.c, ClaimTile.__table__.c


class Log(NamedTuple):
    """The row of a log; see :class:`.ClaimLogRow`."""

    archive_id: int
    number: int
    size: int
    frontier: str
    begun_at: datetime
    key_at: datetime
    covered: int | None
    changes: str | None

    @property
    def root(self) -> bytes:
        """The root of the tree."""
        return self.open_frontier().root()

    def open_frontier(self) -> Frontier:
        """Return the frontier of the tree, to which entries can be added."""
        return Frontier.from_bytes(self.size, bytes.fromhex(self.frontier))


def find_log(connection: Connection, archive_id: int, lock: bool = False) -> Log | None:
    """Return the log of an Archive; None if the Archive has no log.

    :param lock: True to wait until no other process changes the log, and to prevent changes by
        others until the transaction ends.
    """
    columns = ClaimLogRow.__table__.c
    statement = select(*(columns[name] for name in Log._fields)).where(
        columns.archive_id == archive_id
    )
    row = connection.execute(statement.with_for_update() if lock else statement).first()
    return None if row is None else Log(*row)


def update_log(connection: Connection, log: Log) -> None:
    """Store the row of a log."""
    values = log._asdict()
    connection.execute(
        update(ClaimLogRow)
        .where(ClaimLogRow.archive_id == values.pop("archive_id"))
        .values(**values)
    )


def append(connection: Connection, log: Log, claims: Sequence[tuple[str, bytes]]) -> Log:
    """Add claims to a log. The caller must have the lock of the log, and store the result.

    :param claims: the keys of the items and the entries.
    :returns: the row of the log with the new entries.
    """
    frontier = log.open_frontier()
    log_id = {"archive_id": log.archive_id, "log_number": log.number}
    rows, tiles = [], []
    for key, entry in claims:
        position = frontier.size
        rows.append({**log_id, "position": position, "ibi": key, "entry": entry.decode()})
        completed = frontier.add(hash_leaf(entry))
        for level, root in enumerate(completed[HEIGHT::HEIGHT]):
            number = position >> HEIGHT * (level + 1)
            tiles.append({**log_id, "level": level, "number": number, "root": root.hex()})
    insert_rows(connection, ClaimRow, rows)
    insert_rows(connection, ClaimTile, tiles)
    return log._replace(size=frontier.size, frontier=frontier.to_bytes().hex())


def find_last_claims(
    connection: Connection, log: Log, keys: Collection[str]
) -> dict[str, tuple[int, bytes]]:
    """Return the positions and the entries of the last claims of items, by the keys of the items.

    The result does not contain items without a claim.
    """
    # Scalar subqueries let PostgreSQL use the indexes, whatever it expects of the table. A join
    # would read the whole log until the table has been analyzed.
    listed = list_values(connection, keys)
    claim = aliased(ClaimRow)
    position = (
        select(func.max(CLAIMS.position))
        .where(
            CLAIMS.archive_id == log.archive_id,
            CLAIMS.log_number == log.number,
            CLAIMS.ibi == listed.c.value,
        )
        .correlate(listed)
        .scalar_subquery()
    )
    entry = (
        select(claim.entry)
        .where(
            claim.archive_id == log.archive_id,
            claim.log_number == log.number,
            claim.position == position,
        )
        .correlate(listed)
        .scalar_subquery()
    )
    rows = connection.execute(select(listed.c.value, position, entry))
    return {ibi: (position, entry.encode()) for ibi, position, entry in rows if entry is not None}


def read_entries(connection: Connection, log: Log, start: int, end: int) -> list[bytes]:
    """Return the entries from a position to that before ``end``."""
    rows = connection.scalars(
        select(CLAIMS.entry)
        .where(
            CLAIMS.archive_id == log.archive_id,
            CLAIMS.log_number == log.number,
            CLAIMS.position >= start,
            CLAIMS.position < end,
        )
        .order_by(CLAIMS.position)
    )
    return [entry.encode() for entry in rows]


def read_tile(connection: Connection, log: Log, tile: Tile) -> bytes | None:
    """Return the hashes of a tile; None if the log is too short for it."""
    if not 0 < tile.width <= find_width(tile.level, tile.number, log.size):
        return None
    start = tile.number * WIDTH
    if tile.level == 0:
        return b"".join(map(hash_leaf, read_entries(connection, log, start, start + tile.width)))
    roots = connection.scalars(
        select(TILES.root)
        .where(
            TILES.archive_id == log.archive_id,
            TILES.log_number == log.number,
            TILES.level == (tile.level or 0) - 1,
            TILES.number >= start,
            TILES.number < start + tile.width,
        )
        .order_by(TILES.number)
    )
    return bytes.fromhex("".join(roots))


def open_hashes(connection: Connection, log: Log) -> TileHashes:
    """Return the function that reads hashes of the tree."""
    return TileHashes(lambda tile: read_tile(connection, log, tile) or b"", log.size)


def compute_earlier_root(connection: Connection, log: Log, size: int) -> bytes:
    """Return the root of the tree when it had an earlier size."""
    return log.root if size == log.size else compute_root(size, open_hashes(connection, log))
