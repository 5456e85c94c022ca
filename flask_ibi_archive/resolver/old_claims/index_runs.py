"""The files of the index: immutable runs of sorted bindings, each with 20 bytes.

A *record* says that an Archive claims an identifier or an alias. It consists of the key of the name
(16 bytes of SHA-256), the id of the Archive (3 bytes, big-endian) and the number of the state (1
byte). A *run* is a file with a header and records in ascending order, at most one for each key and
Archive. The keys are hash values, so they are distributed evenly, and the place of a key in the
file can be computed from the key: an interpolation search reads two or three blocks, however long
the file is. Names that were chosen to collide in their first bytes make the search slower, but not
wrong, because each second step after the first ones halves the range.

Blocks are read with ``pread``: the file needs no memory of this process, threads and forked
processes can share the open file, and the file can be deleted while it is open.
"""

from __future__ import annotations

import os
import struct
import weakref
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from flask_ibi_archive.core.claims.claim import KEY_SIZE
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.files import new_file

#: The number of bytes of a key, and of a record.
KEY, SIZE = KEY_SIZE, KEY_SIZE + 4
#: The largest id of an Archive that a record can contain.
MAX_ARCHIVE_ID = 2**24 - 1
#: The records that a step of a search reads, and those that a step of a merge reads of each run.
BLOCK, MERGE_BLOCK = 128, 8192
#: The records that are read first when a key was found. Most names are claimed by few Archives.
FEW = 4
#: The steps of a search that only interpolate. On average two steps suffice.
FIRST_STEPS = 4

#: The header: the kind of the file, the number of records, their checksum; then its own checksum.
_HEADER = struct.Struct(">8sQI")
_CHECKSUM = struct.Struct(">I")
_MAGIC = b"ibi-run1"
_START = _HEADER.size + _CHECKSUM.size
#: A record as a key that identifies it, and its state.
_ITEM = struct.Struct(">19sc")
#: A record as its key, the id of the Archive in two parts, and its state.
_RECORD = struct.Struct(">16sBHB")


class Holding(NamedTuple):
    """An Archive claims a name.

    :param archive_id: the id of the Archive in the table of registered Archives.
    :param state: the number of the state of the item (core/claims/claim.py).
    """

    archive_id: int
    state: int


def pack(key: bytes, archive_id: int, state: int) -> bytes:
    """Return the record of a binding."""
    return _RECORD.pack(key, archive_id >> 16, archive_id & 0xFFFF, state)


class Run:
    """An open run. The file is closed when nobody uses the object any more.

    :raises FileNotFoundError: if the file is missing.
    :raises StorageError: if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        weakref.finalize(self, os.close, self._file)
        header = os.pread(self._file, _START, 0)
        checksum = _CHECKSUM.pack(crc32(header[: _HEADER.size]))
        if not header.startswith(_MAGIC) or header[_HEADER.size :] != checksum:
            raise self._damaged("is damaged: its header is wrong")
        self.records: int
        self.checksum: int
        _, self.records, self.checksum = _HEADER.unpack_from(header)
        if os.fstat(self._file).st_size != _START + self.records * SIZE:
            raise self._damaged("is damaged: its size is wrong")

    def find(self, key: bytes) -> list[Holding]:
        """Return the Archives that claim a name, in the order of their ids.

        :raises StorageError: if the file can't be read.
        """
        wanted = _to_number(key)
        # the first record that is not below the key is in low..high; the numbers are the keys there
        low, high = 0, self.records
        lowest, highest = 0, 2**64
        step = 0
        while low < high:
            step += 1
            middle = (high - low) // 2
            if highest > lowest and (step <= FIRST_STEPS or step % 2):
                middle = (high - low) * (wanted - lowest) // (highest - lowest)
            start = max(low, min(low + middle - BLOCK // 2, high - BLOCK))
            block = self.read(start, BLOCK)
            first, last = block[:KEY], block[-SIZE : KEY - SIZE]
            if key > last:
                low, lowest = start + len(block) // SIZE, _to_number(last)
            elif key <= first and start > low:
                high, highest = start, _to_number(first)
            else:
                place = block.find(key)
                while place % SIZE and place > 0:  # the end of a record and the start of the next
                    place = block.find(key, place + 1)
                return [] if place < 0 else self._collect(key, start + place // SIZE)
        return self._collect(key, low)

    def _collect(self, key: bytes, position: int) -> list[Holding]:
        """Return the holdings of a key, whose first record is at a position, if there is one."""
        holdings: list[Holding] = []
        count = FEW
        while block := self.read(position, count):
            for name, high, low, state in _RECORD.iter_unpack(block):
                if name != key:
                    return holdings
                holdings.append(Holding(high << 16 | low, state))
            position += count
            count = BLOCK
        return holdings

    def read(self, position: int, count: int) -> bytes:
        """Return the records from a position on, at most ``count``.

        :raises StorageError: if the file can't be read, or became shorter.
        """
        length = max(min(count, self.records - position), 0) * SIZE
        try:
            block = os.pread(self._file, length, _START + position * SIZE)
        except OSError as error:
            raise self._damaged(f"can't be read: {error.strerror}") from error
        if len(block) != length:
            raise self._damaged("is damaged: its end is missing")
        return block

    def check(self, checksum: int) -> None:
        """Compare the checksum of all records with that in the header.

        :raises StorageError: if they differ.
        """
        if checksum != self.checksum:
            raise self._damaged("is damaged: the checksum of its content is wrong")

    def _damaged(self, reason: str) -> StorageError:
        return explain_damage(self.path, reason)


def _to_number(key: bytes) -> int:
    """Return the first 8 bytes of a key as a number."""
    return int.from_bytes(key[:8], "big")


def explain_damage(path: Path | str, reason: str) -> StorageError:
    """Return the error about a file of the index that can't be used."""
    return StorageError(
        f"the file {path} of the index of claims {reason}; run: flask ibi-resolver rebuild-index"
    )


def write_run(path: Path, blocks: Iterable[bytes]) -> int:
    """Write a run, and return the number of its records. The data is on the disk afterwards.

    :param blocks: the records in ascending order.
    :raises StorageError: if the file can't be written.
    """
    length = checksum = 0
    with new_file(path, 0o644) as file:
        file.write(bytes(_START))
        for block in blocks:
            file.write(block)
            length += len(block)
            checksum = crc32(block, checksum)
        header = _HEADER.pack(_MAGIC, length // SIZE, checksum)
        file.seek(0)
        file.write(header + _CHECKSUM.pack(crc32(header)))
    return length // SIZE


def merge(runs: Sequence[Run]) -> Iterator[bytes]:
    """Yield the records of some runs in ascending order, in blocks; newer records win.

    In each step, the lowest of the last keys in memory is the bound, and all records below the
    bound are complete: they are put into a dict from the oldest run to the newest one, sorted, and
    yielded. The records of a key are always in one block.

    :param runs: the runs, from the oldest to the newest.
    :raises StorageError: if a file can't be read or is damaged.
    """
    sources = [_Source(run) for run in runs]
    while any(source.block for source in sources):
        bound = min((source.last_key for source in sources if not source.is_complete), default=None)
        states: dict[bytes, bytes] = {}
        for source in sources:
            states.update(_ITEM.iter_unpack(source.take(bound)))
        names = sorted(states)
        yield b"".join(chain.from_iterable(zip(names, map(states.__getitem__, names), strict=True)))


class _Source:
    """The records of a run that were read and not yet merged.

    If more records follow, the block contains at least two keys, so that each step of a merge takes
    records.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._read = 0  # records
        self._checksum = 0
        self.block = b""
        self._fill()

    @property
    def is_complete(self) -> bool:
        """Whether no records follow the block."""
        return self._read == self._run.records

    @property
    def last_key(self) -> bytes:
        return self.block[-SIZE : KEY - SIZE]

    def take(self, bound: bytes | None) -> bytes:
        """Remove and return the records whose keys are below a bound; None: all records."""
        block = self.block
        end = len(block)
        if bound is not None:
            numbers = range(end // SIZE)
            end = SIZE * bisect_left(
                numbers, bound, key=lambda number: block[number * SIZE : number * SIZE + KEY]
            )
        self.block = block[end:]
        self._fill()
        return block[:end]

    def _fill(self) -> None:
        while not self.is_complete and (
            len(self.block) < SIZE * MERGE_BLOCK // 2 or self.block[:KEY] == self.last_key
        ):
            new = self._run.read(self._read, MERGE_BLOCK)
            self._checksum = crc32(new, self._checksum)
            self.block += new
            self._read += len(new) // SIZE
            if self.is_complete:
                self._run.check(self._checksum)
