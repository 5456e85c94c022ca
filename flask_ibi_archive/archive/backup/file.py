"""Reads a backup, and believes nothing of it that it has not checked."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from flask_ibi_archive.archive.backup.format import (
    CONTENT,
    FAULTS,
    MANIFEST,
    MAX_TEXT,
    PART,
    BackupManifest,
    Part,
    parse_manifest,
)
from flask_ibi_archive.errors import BackupError
from flask_ibi_archive.storage import migrate
from flask_ibi_archive.storage.file_store import (
    BLOCK,
    FileStore,
    ProgressReader,
    Staging,
    copy_and_measure,
)
from flask_ibi_archive.storage.items import Content
from flask_ibi_archive.storage.table_rows import NAMES

#: What zipfile raises where a file is no ZIP, or not the one that it was.
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    NotImplementedError,
    OverflowError,
    RecursionError,
    RuntimeError,
    ValueError,
)


@contextmanager
def open_backup(path: Path) -> Iterator[BackupFile]:
    """Open a backup.

    :raises BackupError: if it is none, here and wherever it is read.
    """
    with told(path):
        try:
            archive = zipfile.ZipFile(path)
        except OSError as error:
            raise BackupError(str(path), f"it can't be read: {error.strerror or error}") from error
        with archive, BackupFile(path, archive) as backup:
            yield backup


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Let what is wrong with a backup be told in one line."""
    try:
        yield
    except BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BackupError(
            str(path), f"it is no backup, or not what it was: {reason[:200]}"
        ) from error


class BackupFile:
    """A backup that is open."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self._reading: set[io.BufferedReader] = set()

    def __enter__(self) -> BackupFile:
        return self

    def __exit__(self, *error: object) -> None:
        # who reads rows may have given up in the middle
        for stream in self._reading:
            stream.close()

    @cached_property
    def manifest(self) -> BackupManifest:
        """What it says of itself."""
        with self._open(MANIFEST) as stream:
            text = stream.read(MAX_TEXT + 1)
        if len(text) > MAX_TEXT:
            raise ValueError(f"{MANIFEST} is too long")
        manifest = parse_manifest(json.loads(text))
        if not migrate.is_known(manifest.revision):
            raise BackupError(
                str(self.path),
                f"its tables are of revision {manifest.revision[:40]!r}, this version knows those up to "
                f"{migrate.head_revision()}; use the version that made it, or a newer one",
            )
        return manifest

    def rows(self, table: str) -> Iterator[Any]:
        """Return the rows of a table."""
        for part in self.manifest.parts[table]:
            with self._open(part.name) as stream:
                self._reading.add(stream)
                while line := stream.readline(MAX_TEXT + 1):
                    if len(line) > MAX_TEXT:
                        raise ValueError(f"a row in {part.name} is too long")
                    yield json.loads(line)
                self._reading.remove(stream)

    @cached_property
    def faulty(self) -> frozenset[str]:
        """The checksums of the contents that it lacks, or has damaged."""
        found = set()
        with self._open(FAULTS) as stream:
            while line := stream.readline(MAX_TEXT):
                found.add(str(json.loads(line)["sha256"]))
        return frozenset(found)

    def contents(self) -> Iterator[Content]:
        """Return the contents that it has whole, as it states them."""
        for info in self._archive.infolist():
            found = CONTENT.fullmatch(info.filename)
            if found and found[1] not in self.faulty:
                yield Content(found[1], info.file_size)

    # --- checks ----------------------------------------------------------------------------------

    def check(
        self,
        folder: FileStore,
        staging: Staging | None,
        progress: Callable[[str, int, int], None],
    ) -> None:
        """Check all of it, and take in the contents that the folder has not.

        :param staging: where to take them in; None: nowhere.
        """
        total = self.manifest.bytes + sum(
            part.bytes for parts in self.manifest.parts.values() for part in parts
        )
        done = 0

        def read(count: int) -> None:
            nonlocal done
            done += count
            progress("bytes", done, max(done, total))

        self._check_names()
        for parts in self.manifest.parts.values():
            for part in parts:
                self._check_part(part, read)
        self._check_contents(folder, staging, read)

    def _check_names(self) -> None:
        manifest = self.manifest
        for table, found in manifest.parts.items():
            if table not in NAMES:
                raise ValueError(f"it holds a table {table[:80]!r}, which is none of ours")
            for number, part in enumerate(found, 1):
                if part.name != f"tables/{table}/{number:06}.jsonl":
                    raise ValueError(f"{part.name[:80]!r} is no part of {table}")
        expected = {part.name for parts in manifest.parts.values() for part in parts}
        expected |= {MANIFEST, FAULTS}
        seen = set()
        for info in self._archive.infolist():
            name = info.filename
            if name not in expected and not CONTENT.fullmatch(name):
                kind = (
                    "a part that its manifest does not name" if PART.fullmatch(name) else "a file"
                )
                raise ValueError(f"it holds {kind}: {name[:80]!r}")
            if name in seen:
                raise ValueError(f"it holds {name} twice")
            if info.flag_bits & 1 or info.compress_type not in (
                zipfile.ZIP_STORED,
                zipfile.ZIP_DEFLATED,
            ):
                raise ValueError(f"{name} is encrypted, or compressed in another way")
            seen.add(name)
        for name in sorted(expected - seen):
            raise ValueError(f"{name} is missing")
        if len(self.faulty) != manifest.faults:
            raise ValueError(f"{FAULTS} does not hold the faults that {MANIFEST} counts")

    def _check_part(self, part: Part, progress: Callable[[int], None]) -> None:
        rows = size = 0
        digest = hashlib.sha256()
        with self._open(part.name) as stream:
            while size <= part.bytes and (block := stream.read(BLOCK)):
                size += len(block)
                rows += block.count(b"\n")
                digest.update(block)
                progress(len(block))
        stated = self._archive.getinfo(part.name).file_size
        found = (rows, size, stated, digest.hexdigest())
        if found != (part.rows, part.bytes, part.bytes, part.sha256):
            raise ValueError(f"{part.name} is not what {MANIFEST} says")

    def _check_contents(
        self, folder: FileStore, staging: Staging | None, progress: Callable[[int], None]
    ) -> None:
        digest = hashlib.sha256()
        count = size = 0
        for stated in sorted(self.contents(), key=lambda content: content.sha256):
            found = self._take(stated, folder, staging, progress)
            if found != stated:
                raise ValueError(f"contents/{stated.sha256} has the checksum {found.sha256}")
            digest.update(f"{stated.sha256}\n".encode())
            count += 1
            size += found.size
        manifest = self.manifest
        if (count, size, digest.hexdigest()) != (
            manifest.contents,
            manifest.bytes,
            manifest.digest,
        ):
            raise ValueError(f"its contents are not those that {MANIFEST} says")

    def _take(
        self,
        stated: Content,
        folder: FileStore,
        staging: Staging | None,
        progress: Callable[[int], None],
    ) -> Content:
        with self._open(f"contents/{stated.sha256}") as stream:
            source = ProgressReader(stream, progress)
            if staging is None or folder.holds(stated):
                return copy_and_measure(source, None)
            return staging.take_stream(source)

    def _open(self, name: str) -> io.BufferedReader:
        return io.BufferedReader(cast(io.RawIOBase, self._archive.open(name)), BLOCK)
