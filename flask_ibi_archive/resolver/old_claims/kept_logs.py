"""The verified entries of logs that a resolver keeps on its disk.

From these entries the index can be built again, and names can be exported. The claims of an Archive
that has disappeared are not lost either. The bundles of entries have the paths of the log (C2SP
tlog-tiles), below a folder for each log of the Archive, and are compressed::

    <folder>/<id of the Archive>/<number of the log>/tile/entries/x001/234.gz
    <folder>/<id of the Archive>/<number of the log>/tile/entries/x001/235.p/5.gz

The logs of an Archive are numbered from 1. A log that began anew has a new key and contains
everything that the Archive holds, so only the entries of the newest log count, and the others are
deleted (replaced_logs.py).
"""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from flask_ibi_archive.core.claims.claim import Claim
from flask_ibi_archive.core.claims.tiles import WIDTH, Tile, decode_entries, encode_entries
from flask_ibi_archive.errors import ClaimError
from flask_ibi_archive.resolver.old_claims.entry_check import check_entries


class KeptLogs:
    """The folder of the kept logs.

    :param folder: the path of the folder, which need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def list_archives(self) -> list[int]:
        """Return the ids of the Archives that have kept logs, in ascending order."""
        return _list_numbers(self.folder)

    def list_logs(self, archive_id: int) -> list[int]:
        """Return the numbers of the kept logs of an Archive, in ascending order."""
        return _list_numbers(self.folder / str(archive_id))

    def find_log_number(self, archive_id: int) -> int | None:
        """Return the number of the newest log of an Archive; None if no log is kept."""
        return next(reversed(self.list_logs(archive_id)), None)

    def list_files(self, archive_id: int, log_number: int) -> Iterator[Path]:
        """Yield the files with the bundles of a log, in any order."""
        return (self.folder / str(archive_id) / str(log_number)).rglob("*.gz")

    def remove_log(self, archive_id: int, log_number: int) -> None:
        """Delete the folder of a log.

        :raises OSError: if it can't be deleted.
        """
        shutil.rmtree(self.folder / str(archive_id) / str(log_number))

    def write_bundle(
        self, archive_id: int, log_number: int, number: int, entries: Sequence[bytes]
    ) -> None:
        """Store a bundle, and remove its shorter versions.

        :param log_number: the number of the log among those of the Archive, from 1.
        :param number: the number of the bundle, from 0.
        :param entries: the verified entries of the bundle, at most 256.
        """
        path = self._path(archive_id, log_number, Tile(None, number, len(entries)))
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        # the same entries always make the same file
        with part.open("wb") as file:
            file.write(gzip.compress(encode_entries(entries), mtime=0))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        partial = self._path(archive_id, log_number, Tile(None, number, 1)).parent
        if len(entries) == WIDTH:
            shutil.rmtree(partial, ignore_errors=True)
        else:
            for width in _list_numbers(partial, ".gz"):
                if width < len(entries):
                    (partial / f"{width}.gz").unlink(missing_ok=True)

    def read_bundle(self, archive_id: int, log_number: int, number: int) -> list[bytes]:
        """Return the entries of a bundle. The list is empty if the bundle is not kept.

        :raises ClaimError: if the file is damaged.
        """
        partial = self._path(archive_id, log_number, Tile(None, number, 1)).parent
        for width in (WIDTH, *reversed(_list_numbers(partial, ".gz"))):
            path = self._path(archive_id, log_number, Tile(None, number, width))
            try:
                return self.read_file(path)
            except FileNotFoundError:
                continue
        return []

    def read_file(self, path: Path) -> list[bytes]:
        """Return the entries in a file.

        :raises FileNotFoundError: if there is no such file.
        :raises ClaimError: if the file is damaged.
        """
        is_partial = path.parent.name.endswith(".p")
        width = int(path.name.removesuffix(".gz")) if is_partial else WIDTH
        try:
            return decode_entries(gzip.decompress(path.read_bytes()), width)
        except FileNotFoundError:
            raise
        except (EOFError, OSError, zlib.error, ClaimError) as error:
            raise ClaimError(f"{path} is damaged ({error})") from error

    def read_entries(self, archive_id: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the positions and the entries of the newest log of an Archive, in their order.

        :param start: the first position.
        :raises ClaimError: if a file is damaged.
        """
        log_number = self.find_log_number(archive_id)
        number = start // WIDTH
        while log_number is not None:
            entries = self.read_bundle(archive_id, log_number, number)
            for position, entry in enumerate(entries, number * WIDTH):
                if position >= start:
                    yield position, entry
            if len(entries) < WIDTH:
                return
            number += 1

    def read_claims(self, archive_id: int, services: Collection[str] = ()) -> Iterator[Claim]:
        """Yield the claims in the newest log of an Archive, in their order.

        A later claim of an item replaces an earlier one. Entries that the index does not contain
        are left out.

        :param services: the IBIs of the service of the Archive.
        :raises ClaimError: if a file is damaged.
        """
        for position, entry in self.read_entries(archive_id):
            yield from check_entries([entry], position, services).claims

    def _path(self, archive_id: int, log_number: int, tile: Tile) -> Path:
        return self.folder / str(archive_id) / str(log_number) / f"{tile.path}.gz"


def _list_numbers(folder: Path, suffix: str = "") -> list[int]:
    """Return the numbers that are names in a folder, in ascending order.

    :param suffix: the text that follows the number in each name.
    """
    if not folder.is_dir():
        return []
    names = [path.name for path in folder.iterdir() if path.name.endswith(suffix)]
    return sorted(int(text) for name in names if (text := name.removesuffix(suffix)).isdecimal())
