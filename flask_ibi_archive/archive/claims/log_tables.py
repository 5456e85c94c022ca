"""Reads and extends the log in the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Connection,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    false,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Mapped, aliased, mapped_column

from flask_ibi_archive.archive.items.tables import Base
from flask_ibi_archive.core.claims.merkle import Frontier, compute_root, hash_leaf
from flask_ibi_archive.core.claims.tiles import HEIGHT, WIDTH, Tile, TileHashes, find_width
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime, list_values

# --- claims ------------------------------------------------------------------------------------

#: Values of the column ``covered`` of the log.
WAITING, PAUSED = -1, -2


class ClaimLogRow(Base):
    """The log of an Archive. Triggers note changes of items only if there is one, not paused."""

    __tablename__ = "ibi_claim_log"
    __table_args__ = (CheckConstraint("number > 0 AND size >= 0", name="ck_ibi_claim_log_size"),)

    archive_id: Mapped[int] = mapped_column(
        Key,
        ForeignKey("ibi_archive.id", name="fk_ibi_claim_log_archive"),
        primary_key=True,
        autoincrement=False,
    )
    #: 1, and one more each time that the log had to begin anew.
    number: Mapped[int] = mapped_column(Integer)
    #: The number of claims in the log.
    size: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The hashes of the full subtrees (:class:`.merkle.Frontier`), in hexadecimal digits.
    frontier: Mapped[str] = mapped_column(Text)
    begun_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: The time when the Archive got its present key.
    key_at: Mapped[datetime] = mapped_column(UTCDateTime)
    #: All items up to this row ID were claimed since the log began. None: all items. -1: the
    #: transactions that may not have seen this row, and noted nothing, may not have ended yet. -2:
    #: the log is paused, and triggers note nothing, because no claims are to be published.
    covered: Mapped[int | None] = mapped_column(Key)
    #: How far the changes of a host's own catalogue were read (:mod:`.claims.host_changes`).
    changes: Mapped[str | None] = mapped_column(Text)
    #: On SQLite, the number of the present operation, which its notes have.
    change_no: Mapped[int] = mapped_column(BigInteger, server_default="0")


class ClaimNote(Base):
    """A change of an item that is not in the log yet, with what is claimed after the change.

    Triggers add the rows in the transaction of the change.
    """

    __tablename__ = "ibi_claim_note"
    __table_args__ = (
        Index("ix_ibi_claim_note_archive", "archive_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(Key)
    item_id: Mapped[int] = mapped_column(Key)
    #: Notes of one item with the same number belong to one change: on PostgreSQL to a transaction,
    #: on SQLite to an operation. Only the last of them is true for others than the transaction.
    change_no: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(9))
    rep: Mapped[str | None] = mapped_column(String(255))
    ibip: Mapped[str | None] = mapped_column(String(255))
    timestamp: Mapped[datetime] = mapped_column(UTCDateTime)
    original_archive: Mapped[str | None] = mapped_column(String(255))
    #: A JSON list, in any order; None: no aliases.
    aliases: Mapped[str | None] = mapped_column(Text)
    #: The SHA-256 of the target file in hexadecimal digits.
    sha256: Mapped[str | None] = mapped_column(String(64))
    #: Whether the description is hidden from the public.
    is_hidden: Mapped[bool] = mapped_column(server_default=false())


class ClaimRow(Base):
    """A claim of a log. Rows are never changed, and stay when the log begins anew."""

    __tablename__ = "ibi_claim"
    __table_args__ = (Index("ix_ibi_claim_ibi", "ibi", "archive_id", "log_number", "position"),)

    archive_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_archive.id", name="fk_ibi_claim_archive"), primary_key=True
    )
    log_number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    #: The position in the log, from 0.
    position: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    #: The ibip of the item, or its rep if it has no ibip.
    ibi: Mapped[str] = mapped_column(String(255))
    #: The claim itself (:mod:`.core.claims.claim`).
    entry: Mapped[str] = mapped_column(Text)


class ClaimTile(Base):
    """The root of a full tile of a log, which is a hash of the tile at the next level."""

    __tablename__ = "ibi_claim_tile"

    archive_id: Mapped[int] = mapped_column(
        Key, ForeignKey("ibi_archive.id", name="fk_ibi_claim_tile_archive"), primary_key=True
    )
    log_number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    level: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    #: The hash in hexadecimal digits.
    root: Mapped[str] = mapped_column(String(64))


# --- log tables --------------------------------------------------------------------------------


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
    if rows:
        connection.execute(insert(ClaimRow), rows)
    if tiles:
        connection.execute(insert(ClaimTile), tiles)
    return log._replace(size=frontier.size, frontier=frontier.to_bytes().hex())


def find_last_claims(
    connection: Connection, log: Log, keys: Collection[str]
) -> dict[str, tuple[int, bytes]]:
    """Return the positions and the entries of the last claims of items, by the keys of the items.

    The result does not contain items without a claim.
    """
    # Scalar subqueries let PostgreSQL use the indexes, whatever it expects of the table. A join
    # would read the whole log until the table has been analyzed.
    listed = list_values("keys")
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
    rows = connection.execute(select(listed.c.value, position, entry), {"keys": keys})
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
