"""Receives the files of offered items. The stated sizes and checksums are binding."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from flask_ibi_archive.archive.items.files import Content, FileStore, Staging
from flask_ibi_archive.archive.moving.http_offer import HttpOffer
from flask_ibi_archive.core.records.offer_messages import OfferedRecord
from flask_ibi_archive.errors import StorageError

#: The number of bytes that must remain free on the disk.
RESERVE = 16 << 20


def count_free_bytes(folder: FileStore) -> int:
    """Return the number of bytes that new files may occupy on the disk of the stored files."""
    path = folder.folder.absolute()
    existing = next(path for path in (path, *path.parents) if path.exists())
    return max(shutil.disk_usage(existing).free - RESERVE, 0)


@dataclass
class FileTaker:
    """Receives the files of the items of an offer.

    :param staging: the folder for files that are not complete, or not stored yet.
    :param bytes_left: the number of bytes that further files may have, by the offer.
    """

    source: HttpOffer
    store: FileStore
    staging: Staging
    bytes_left: int

    def take(self, item: OfferedRecord, present: Mapping[str, Content]) -> dict[str, Content]:
        """Return the contents of the stored files of an item, after all are complete.

        :param present: the contents of the files of the item that this Archive has already.
        :raises StorageError: if a file cannot be taken.
        """
        contents = {
            file.path: Content(str(file.sha256), item.sizes[file.path])
            for file in item.record.files
            if file.path in item.sizes
        }
        for path, content in contents.items():
            is_here = present.get(path) == content and self.store.has_undamaged_file(content)
            if not is_here:
                self._take_file(item.number, path, content)
        return contents

    def _take_file(self, number: int, path: str, content: Content) -> None:
        if content.size > self.bytes_left:
            raise StorageError(
                f"the file {path} has {content.size} bytes, but the offer states only "
                f"{self.bytes_left} more"
            )
        if not self.staging.has(content):
            free = count_free_bytes(self.store)
            if content.size > free:
                raise StorageError(
                    f"the file {path} has {content.size} bytes, but only {free} are free in "
                    f"{self.store.folder}"
                )
            try:
                with self.staging.receive(content) as file:
                    self.source.read_file(number, path, content.sha256, content.size, file)
            except StorageError as error:
                raise StorageError(f"the file {path}: {error}") from error
        self.bytes_left -= content.size
