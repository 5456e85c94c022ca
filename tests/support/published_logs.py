"""Reads a log of claims as others see it, and checks everything about it."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url, text

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.claims.checkpoint import OpenedCheckpoint, open_checkpoint
from flask_ibi_archive.core.claims.claim import Claim, parse_claim
from flask_ibi_archive.core.claims.merkle import Frontier, hash_leaf
from flask_ibi_archive.core.claims.tiles import WIDTH, Tile, TileHashes, find_width

#: The tables that a backup of the log consists of.
TABLES = ("ibi_claim_log", "ibi_claim_note", "ibi_claim", "ibi_claim_tile")


def sequence(archive: Archive) -> int:
    """Add all committed changes to the log; return the number of new claims."""
    added, is_more = 0, True
    while is_more:
        count, is_more = archive.claims._sequencer.run_batch()
        added += count
    archive.claims._checkpoints._looked_at = 0.0  # the next checkpoint contains them
    return added


def open_published(archive: Archive) -> OpenedCheckpoint:
    """Return the checkpoint that the Archive publishes now, with the signatures checked."""
    signed = archive.claims.checkpoint(archive.clock())
    key = archive.claims.verifier()
    assert signed is not None
    assert key is not None
    return open_checkpoint(signed.text, key)


def read_entries(archive: Archive, size: int) -> list[bytes]:
    """Return the entries of the log up to a size."""
    entries: list[bytes] = []
    for number in range((size + WIDTH - 1) // WIDTH):
        bundle = archive.claims.read_entries(number, find_width(None, number, size))
        assert bundle is not None
        entries += bundle
    return entries


def compute_tree(entries: list[bytes]) -> bytes:
    """Return the root of a tree."""
    frontier = Frontier()
    for entry in entries:
        frontier.add(hash_leaf(entry))
    return frontier.root()


def read_claims(archive: Archive) -> list[Claim]:
    """Return the claims that the Archive publishes now. All hashes are checked."""
    sequence(archive)
    opened = open_published(archive)
    entries = read_entries(archive, opened.checkpoint.size)
    assert compute_tree(entries) == opened.checkpoint.root
    assert archive.claims.verify() == []
    return [parse_claim(entry) for entry in entries]


def open_tiles(archive: Archive, size: int) -> TileHashes:
    """Return the function that reads hashes from published tiles."""

    def read(tile: Tile) -> bytes:
        content = archive.claims.read_tile(tile.level or 0, tile.number, tile.width)
        assert content is not None
        return content

    return TileHashes(read, size)


class DatabaseCopy:
    """A copy of the database of an Archive, to which the database can be set back."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._rows: dict[str, list[dict[str, object]]] = {}
        url = make_url(archive.config.database_uri)
        self._file = Path(str(url.database)) if url.get_backend_name() == "sqlite" else None
        if self._file is not None:
            with archive.database.writing() as connection:
                connection.exec_driver_sql("SELECT 1")
            archive.database.close()
            self._content = self._file.read_bytes()
            return
        with archive.database.reading() as connection:
            for table in TABLES:
                rows = connection.execute(text(f"SELECT * FROM {table}")).mappings()
                self._rows[table] = [{**row} for row in rows]

    def restore(self) -> None:
        """Set the database back. On PostgreSQL, only the tables of the log."""
        archive = self._archive
        if self._file is not None:
            archive.database.close()
            for suffix in ("-wal", "-shm"):
                self._file.with_name(self._file.name + suffix).unlink(missing_ok=True)
            self._file.write_bytes(self._content)
            return
        with archive.database.writing() as connection:
            for table in reversed(TABLES):
                connection.execute(text(f"DELETE FROM {table}"))
            for table in TABLES:
                for row in self._rows[table]:
                    names = ", ".join(row)
                    values = ", ".join(f":{name}" for name in row)
                    connection.execute(
                        text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row
                    )
