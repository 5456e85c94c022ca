"""The spool: keeps accesses as files while the database is locked or away.

One file an access, written so that it is there wholly or not at all, whatever crashes. What is in
it tells no more of the user than the database would. Whoever finds the database free takes the
files in; an access is taken in once, since its URL key works once, so that a file may be met a
second time.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from logging import getLogger
from pathlib import Path
from typing import Any

from flask_ibi_archive.archive.accesses.delivered_item import Delivery
from flask_ibi_archive.errors import NotReady

log = getLogger("flask_ibi_archive.accesses")

ADVICE = "see that IBI_SPOOL_FOLDER names a folder that can be written"
SUFFIX = ".json"
#: Bytes of the longest file that is read: more than the longest acknowledgment makes.
MAX_SIZE = 1 << 20
#: Seconds after which a temporary file was left by a crash.
ABANDONED = 3600


@dataclass(frozen=True, slots=True)
class Arrival:
    """An acknowledgment with a good key, as it is kept.

    :param second: when it came, in POSIX seconds.
    :param url_key: the name of its key.
    :param item: the item asked for, as the key tells.
    :param state: as it was told.
    :param ibi: the forms of the identifier delivered, none where it names none.
    :param url: what was delivered, percent-encoded.
    :param address: the user's, anonymised unless the Archive is told not to.
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
    delivery: Delivery | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Arrival:
        """Return the arrival that a file holds.

        :raises ValueError, TypeError, KeyError: if it holds none.
        """
        delivery = value.pop("delivery")
        found = cls(
            **{**value, "ibi": tuple(value["ibi"]), "visitors": tuple(value["visitors"])},
            delivery=None if delivery is None else Delivery(**delivery),
        )
        texts = (found.url_key, found.content_type, found.url, found.persistent_url, found.address)
        numbers = (found.second, found.item)
        if not (
            all(isinstance(one, str) for one in (*texts, *found.ibi, *found.visitors))
            and all(type(one) is int for one in numbers)
            and found.visitors
        ):
            raise ValueError("a field is not what it should be")
        return found


class Spool:
    """A folder of accesses that wait for the database.

    :param folder: made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, arrival: Arrival) -> None:
        """Keep an access; it is on the disk when this returns.

        :raises NotReady: if it can't be written.
        """
        claims = (arrival.content_type, arrival.ibi, arrival.url, arrival.persistent_url)
        # the same said twice is kept once
        digest = hashlib.sha256(repr(claims).encode()).hexdigest()[:16]
        path = self.folder / f"{arrival.archive or 0}-{arrival.url_key}-{digest}{SUFFIX}"
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _sync(self.folder.parent)
            elif path.exists():
                return
            _write(path, json.dumps(asdict(arrival)).encode())
        except OSError as error:
            detail = f"{error.filename or self.folder}: {error.strerror}"
            raise NotReady("an access can't be kept now", ADVICE, detail) from error

    def waiting(self, archive: int, after: str = "", limit: int | None = None) -> list[Path]:
        """Return the files of an Archive, and those whose Archive is not known, in the order of
        names.

        :param after: the name that they come behind.
        """
        wanted = (f"{archive}-", "0-")
        names = sorted(
            name
            for name in self._names()
            if name.startswith(wanted) and name.endswith(SUFFIX) and name > after
        )
        return [self.folder / name for name in names[:limit]]

    def is_empty(self, archive: int) -> bool:
        """Tell whether no access of an Archive waits; costs next to nothing."""
        wanted = (f"{archive}-", "0-")
        return not any(name.startswith(wanted) and name.endswith(SUFFIX) for name in self._names())

    def read(self, path: Path) -> Arrival | None:
        """Return what a file holds; None where another process has taken it, or it is broken.

        A broken one is set aside, and logged.
        """
        try:
            with path.open("rb") as stream:
                return Arrival.from_json(json.loads(stream.read(MAX_SIZE)))
        except FileNotFoundError:
            return None
        except OSError as error:
            log.error("%s can't be read: %s", path, error.strerror)
            return None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self.set_aside(path, " ".join(str(error).split())[:200])
            return None

    def set_aside(self, path: Path, reason: str) -> None:
        """Put a file where it is not met again, for the administrator to look at."""
        log.error("%s holds no access that can be kept (%s); see %s.bad", path, reason, path.name)
        with suppress(OSError):
            path.rename(path.with_name(path.name + ".bad"))

    def drop(self, path: Path) -> None:
        """Throw away the file of an access that the database has."""
        with suppress(FileNotFoundError):
            try:
                path.unlink()
            except PermissionError as error:
                log.error("%s can't be thrown away: %s", path, error.strerror)

    def sweep(self) -> None:
        """Throw away what crashes have left."""
        for name in self._names():
            path = self.folder / name
            if name.startswith(".new-"):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > ABANDONED:
                        path.unlink()

    def _names(self) -> Iterator[str]:
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    yield entry.name
        except FileNotFoundError:
            return
        except OSError as error:
            log.error("%s can't be read: %s", self.folder, error.strerror)


def _write(path: Path, content: bytes) -> None:
    """Write a file that is there wholly or not at all, even after a power cut."""
    temporary = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
