"""Where the taker reads an offer: in a folder, which the giver has written.

The taker writes a receipt for the items that it has stored. The giver reads the receipt, gives up
its Originals, and writes a confirmation. When the taker accepts the folder again, it reads the
confirmation.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from flask_ibi_archive.archive.items.file_io import BLOCK
from flask_ibi_archive.archive.moving.folders import (
    CONFIRMATION,
    FILES,
    ITEMS,
    OFFER,
    RECEIPT,
    write_json,
)
from flask_ibi_archive.archive.moving.offer_source import (
    ReceivedFile,
    UnreadableItem,
    parse_lines,
)
from flask_ibi_archive.core.records.fields import FieldError
from flask_ibi_archive.core.records.offers import (
    COPY,
    MAX_BODY,
    MAX_ITEMS,
    MAX_LINE,
    MAX_PAGE,
    OfferDescription,
    OfferedRecord,
    hash_secret,
)
from flask_ibi_archive.core.records.parse import read_json
from flask_ibi_archive.core.records.switches import (
    StoredVersion,
    SwitchAnswer,
    format_receipt,
    parse_confirmation,
    parse_offer_file,
)
from flask_ibi_archive.errors import OfferError, StorageError

#: The largest number of bytes of a confirmation, which contains the daily counts of all items.
MAX_CONFIRMATION = 256 << 20
#: With these flags, the system neither follows a symbolic link nor waits for the writer of a FIFO.
SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class FolderOffer:
    """An offer in a folder.

    :raises OfferError: if the folder contains no offer.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        description, secret = self._parse(OFFER, parse_offer_file, MAX_BODY)
        self._description: OfferDescription = description
        self._secret_hash = hash_secret(secret)
        self.name = f"folder:{description.offer}"
        self.page_bytes = 0
        self._answers: dict[int, SwitchAnswer] | None = None
        self._lines: Iterator[OfferedRecord | UnreadableItem] = iter(())
        self._last = -1

    def read_description(self) -> OfferDescription:
        """Return what the offer contains."""
        return self._description

    def read_page(self, after: int) -> Sequence[OfferedRecord | UnreadableItem]:
        """Return the next items after a number; an empty list at the end."""
        if after != self._last:  # read the file from its beginning
            self._lines = self._read_lines()
        page: list[OfferedRecord | UnreadableItem] = []
        begin = self.page_bytes
        while len(page) < MAX_ITEMS and self.page_bytes - begin < MAX_PAGE:
            item = next(self._lines, None)
            if item is None:
                break
            if item.number > after:
                page.append(item)
        self._last = page[-1].number if page else after
        return page

    def read_items(self, numbers: Sequence[int]) -> Sequence[OfferedRecord | UnreadableItem]:
        """Return items, in the order of their numbers."""
        return [item for item in self._read_lines() if item.number in set(numbers)]

    def read_file(self, number: int, path: str, sha256: str, size: int, file: ReceivedFile) -> None:
        """Write the rest of a file.

        :raises StorageError: if the folder does not contain the file.
        """
        try:
            with self._open(f"{FILES}/{sha256}") as stream:
                stream.seek(file.size)
                while block := stream.read(BLOCK):
                    file.write(block)
        except OSError as error:
            raise StorageError(
                f"{self.folder / FILES / sha256} can't be read: {error.strerror or error}"
            ) from error

    def switch(self, items: Sequence[StoredVersion]) -> Sequence[SwitchAnswer]:
        """Return the answers that the confirmation contains. Copies need no confirmation."""
        if self._description.kind == COPY:
            return [SwitchAnswer(item.number, "taken") for item in items]
        if self._answers is None:
            self._answers = {one.number: one for one in self._read_confirmation()}
        return [self._answers[item.number] for item in items if item.number in self._answers]

    def finish(self, stored: Iterable[StoredVersion]) -> None:
        """Write the receipt for stored items whose confirmation is missing, if there are any."""
        items = list(stored)
        if items:
            receipt = format_receipt(self._description.offer, items, self._secret_hash)
            write_json(self.folder / RECEIPT, receipt)

    # --- files -----------------------------------------------------------------------------------

    def _read_confirmation(self) -> Sequence[SwitchAnswer]:
        if not (self.folder / CONFIRMATION).exists():
            return ()

        def parse(data: Any) -> Sequence[SwitchAnswer]:
            listed = data.get("items") if isinstance(data, dict) else None
            asked = [
                StoredVersion(item["number"], "")
                for item in (listed if isinstance(listed, list) else ())
                if isinstance(item, dict) and "number" in item
            ]
            return parse_confirmation(data, asked, self._secret_hash)

        answers: Sequence[SwitchAnswer] = self._parse(CONFIRMATION, parse, MAX_CONFIRMATION)
        return answers

    def _parse(self, name: str, parse: Any, limit: int) -> Any:
        path = self.folder / name
        try:
            with self._open(name) as file:
                data = file.read(limit + 1)
            if len(data) > limit:
                raise FieldError("", f"the file has more than {limit} bytes")
            return parse(read_json(data))
        except OSError as error:
            reason = f"can't be read: {error.strerror or error}"
            raise OfferError(str(path), reason) from error
        except FieldError as error:
            raise OfferError(str(path), f"is wrong: {error}") from error

    def _read_lines(self) -> Iterator[OfferedRecord | UnreadableItem]:
        path = str(self.folder / ITEMS)
        try:
            with self._open(ITEMS) as file:
                yield from parse_lines(path, self._split(file))
        except OSError as error:
            raise OfferError(path, f"can't be read: {error.strerror or error}") from error

    def _split(self, file: BinaryIO) -> Iterator[bytes]:
        while line := file.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                raise OfferError(str(self.folder / ITEMS), f"has a line above {MAX_LINE} bytes")
            self.page_bytes += len(line)
            yield line

    @contextmanager
    def _open(self, name: str) -> Iterator[BinaryIO]:
        """Open a regular file of the folder. Other kinds of files are refused.

        :raises OSError: if the file cannot be read.
        """
        path = self.folder / name
        with open(path, "rb", opener=lambda file, flags: os.open(file, flags | SAFE)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("it is not a regular file")
            yield file
