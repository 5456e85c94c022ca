"""The spool: a folder that stores accesses while the database is locked or does not answer.

Each access is stored in its own file. A file is written completely or not at all. The files contain
only such data about the user as the database also contains. The files are imported when the
database is available again. If a file is imported twice, the access is counted only once, because
the URL key of an access is unique in the database.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from logging import getLogger
from pathlib import Path
from typing import Any

from flask_ibi_archive.archive.accesses.delivered_item import DeliveredItem
from flask_ibi_archive.archive.items.file_io import new_file, sync_folder
from flask_ibi_archive.archive.service.item_catalogue import ItemKey
from flask_ibi_archive.errors import NotReady, StorageError

log = getLogger("flask_ibi_archive.accesses")

ADVICE = "set IBI_SPOOL_FOLDER to a folder that can be written"
SUFFIX = ".json"
#: The maximum number of bytes that are read from a file. No acknowledgment is longer.
MAX_SIZE = 1 << 20
#: The age in seconds after which temporary files are deleted. A process that crashed has left
#: these files.
ABANDONED = 3600


@dataclass(frozen=True, slots=True)
class ReceivedAccess:
    """An access that an acknowledgment with a valid URL key reports. A spool file contains it.

    :param second: the time when the acknowledgment was received, in POSIX seconds.
    :param url_key: the name of the URL key (KeyFacts.name).
    :param item: the key of the requested item, from the URL key.
    :param content_type: the content type of the delivered item, ``Data`` or ``Metadata``.
    :param state: the state of the item in the acknowledgment.
    :param ibi: the identifiers (rep, ibip or both) of the delivered item; empty if the
        acknowledgment contains no identifier.
    :param url: the URL that was delivered, percent-encoded.
    :param persistent_url: the persistent URL that the reader requested, percent-encoded.
    :param address: the user's IP address; anonymised unless IBI_ANONYMISE_IPS is false.
    :param visitors: the user's pseudonym of the day. Shortly after midnight, the user's pseudonym
        of the day before follows.
    :param robot: whether a robot made the access.
    :param archive: the row ID of the Archive; None if the Archive is not known yet.
    :param delivery: the delivered item; None if the item is not known yet.
    """

    second: int
    url_key: str
    item: ItemKey
    content_type: str
    state: str | None
    ibi: tuple[str, ...]
    url: str
    persistent_url: str
    address: str
    visitors: tuple[str, ...]
    robot: bool
    archive: int | None = None
    delivery: DeliveredItem | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ReceivedAccess:
        """Return the access that a spool file contains.

        :raises ValueError, TypeError, KeyError: if the file does not contain an access.
        """
        delivery = value.pop("delivery")
        found = cls(
            **{**value, "ibi": tuple(value["ibi"]), "visitors": tuple(value["visitors"])},
            delivery=None if delivery is None else DeliveredItem(**delivery),
        )
        texts = (found.url_key, found.content_type, found.url, found.persistent_url, found.address)
        if not (
            all(isinstance(one, str) for one in (*texts, *found.ibi, *found.visitors))
            and type(found.second) is int
            and type(found.item) in (int, str)
            and found.visitors
        ):
            raise ValueError("a field has a wrong type")
        return found


class Spool:
    """A folder of accesses that are not in the database yet.

    :param folder: the folder; it is created when the first access is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def store(self, access: ReceivedAccess) -> None:
        """Store an access as a file, and wait until the file is on the disk.

        :raises NotReady: if the file cannot be written.
        """
        claims = (access.content_type, access.ibi, access.url, access.persistent_url)
        # equal acknowledgments have the same file name, so they are stored only once
        digest = hashlib.sha256(repr(claims).encode()).hexdigest()[:16]
        path = self.folder / f"{access.archive or 0}-{access.url_key}-{digest}{SUFFIX}"
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync_folder(self.folder.parent)
            elif path.exists():
                return
            with new_file(path) as file:
                file.write(json.dumps(asdict(access)).encode())
        except OSError as error:
            detail = f"{error.filename or self.folder}: {error.strerror}"
            raise NotReady("an access cannot be stored now", ADVICE, detail) from error
        except StorageError as error:
            raise NotReady("an access cannot be stored now", ADVICE, str(error)) from error

    def list_files(self, archive: int, after: str = "", limit: int | None = None) -> list[Path]:
        """Return the files of an Archive and the files whose Archive is unknown, sorted by name.

        :param archive: the row ID of the Archive.
        :param after: a file name; only files whose names come after this name are returned.
        :param limit: the maximum number of files; None returns all files.
        """
        names = sorted([name for name in self._names_for(archive) if name > after])
        return [self.folder / name for name in names[:limit]]

    def is_empty(self, archive: int) -> bool:
        """Return whether there are no files of an Archive and no files whose Archive is unknown.

        :param archive: the row ID of the Archive.
        """
        return next(self._names_for(archive), None) is None

    def read(self, path: Path) -> ReceivedAccess | None:
        """Return the access in a file, or None if the file cannot be read or does not exist.

        If the content is invalid, the file is renamed and an error is logged. If the file does not
        exist, another process has imported the file.
        """
        try:
            with path.open("rb") as stream:
                return ReceivedAccess.from_json(json.loads(stream.read(MAX_SIZE)))
        except FileNotFoundError:
            return None
        except OSError as error:
            log.error("%s cannot be read: %s", path, error.strerror)
            return None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self.set_aside(path, " ".join(str(error).split())[:200])
            return None

    def set_aside(self, path: Path, reason: str) -> None:
        """Rename an invalid file, which is then not read again, and log an error.

        The administrator can examine the renamed file.
        """
        log.error("%s contains no valid access (%s); see %s.bad", path, reason, path.name)
        with suppress(OSError):
            path.rename(path.with_name(path.name + ".bad"))

    def delete(self, path: Path) -> None:
        """Delete the file of an access; an error is only logged."""
        with suppress(FileNotFoundError):
            try:
                path.unlink()
            except PermissionError as error:
                log.error("%s cannot be deleted: %s", path, error.strerror)

    def delete_abandoned_files(self) -> None:
        """Delete temporary files of processes that crashed."""
        for name in self._names():
            path = self.folder / name
            if name.startswith(".new-"):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > ABANDONED:
                        path.unlink()

    def _names_for(self, archive: int) -> Iterator[str]:
        """Yield the names of the files of an Archive and of the files whose Archive is unknown."""
        wanted = (f"{archive}-", "0-")
        for name in self._names():
            if name.startswith(wanted) and name.endswith(SUFFIX):
                yield name

    def _names(self) -> Iterator[str]:
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    yield entry.name
        except FileNotFoundError:
            return
        except OSError as error:
            log.error("%s cannot be read: %s", self.folder, error.strerror)
