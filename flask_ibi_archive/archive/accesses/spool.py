"""The spool: stores accesses as files while the database is locked or does not answer.

Each access is one file, written completely or not at all. It contains no more about the user than
the database would. Files are imported when the database is available again. A file that is imported
twice counts once, because its URL key is stored with the access and is unique.
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
from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.storage.file_io import new_file, sync_folder

log = getLogger("flask_ibi_archive.accesses")

ADVICE = "see that IBI_SPOOL_FOLDER names a folder that can be written"
SUFFIX = ".json"
#: Bytes that are read of a file at most: more than the longest acknowledgment needs.
MAX_SIZE = 1 << 20
#: Seconds after which a temporary file is one that a crash has left.
ABANDONED = 3600


@dataclass(frozen=True, slots=True)
class ReceivedAccess:
    """An acknowledgment with a valid key, as it is stored; the fields are those of a spool file.

    :param second: when it was received, in POSIX seconds.
    :param url_key: the name of its key.
    :param item: the requested item, as the key says.
    :param state: the state that the acknowledgment names.
    :param ibi: the forms of the delivered item's identifier, none if it names none.
    :param url: what was delivered, percent-encoded.
    :param address: the user's address, anonymised unless a setting says otherwise.
    :param visitors: the user's pseudonym of the day, and perhaps that of the day before.
    :param archive: the Archive that it is for, None: not known yet.
    :param delivery: what was delivered, None: not known yet.
    """

    second: int
    url_key: str
    item: int
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
        """Return the access that a file contains.

        :raises ValueError, TypeError, KeyError: if it contains something else.
        """
        delivery = value.pop("delivery")
        found = cls(
            **{**value, "ibi": tuple(value["ibi"]), "visitors": tuple(value["visitors"])},
            delivery=None if delivery is None else DeliveredItem(**delivery),
        )
        texts = (found.url_key, found.content_type, found.url, found.persistent_url, found.address)
        numbers = (found.second, found.item)
        if not (
            all(isinstance(one, str) for one in (*texts, *found.ibi, *found.visitors))
            and all(type(one) is int for one in numbers)
            and found.visitors
        ):
            raise ValueError("a field has a wrong type")
        return found


class Spool:
    """A folder of accesses that are not in the database yet.

    :param folder: created when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def store(self, access: ReceivedAccess) -> None:
        """Store an access; it is on the disk when this returns.

        :raises NotReady: if it cannot be written.
        """
        claims = (access.content_type, access.ibi, access.url, access.persistent_url)
        # an acknowledgment that is received twice is stored once
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
        """Return the files of an Archive, and those whose Archive is not known, sorted by name.

        :param after: only files whose names follow this one.
        """
        names = sorted([name for name in self._names_for(archive) if name > after])
        return [self.folder / name for name in names[:limit]]

    def is_empty(self, archive: int) -> bool:
        """Return whether no access of an Archive is in the spool."""
        return next(self._names_for(archive), None) is None

    def read(self, path: Path) -> ReceivedAccess | None:
        """Return the access in a file; None if another process has imported it, or it is broken.

        A broken file is renamed, and logged.
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
        """Rename a file so that it is not read again; the administrator can examine it."""
        log.error("%s contains no valid access (%s); see %s.bad", path, reason, path.name)
        with suppress(OSError):
            path.rename(path.with_name(path.name + ".bad"))

    def delete(self, path: Path) -> None:
        """Delete the file of an access that the database has, or that does not count."""
        with suppress(FileNotFoundError):
            try:
                path.unlink()
            except PermissionError as error:
                log.error("%s cannot be deleted: %s", path, error.strerror)

    def sweep(self) -> None:
        """Delete the temporary files that crashes have left."""
        for name in self._names():
            path = self.folder / name
            if name.startswith(".new-"):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > ABANDONED:
                        path.unlink()

    def _names_for(self, archive: int) -> Iterator[str]:
        """Yield the names of the files of an Archive, and of those whose Archive is not known."""
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
