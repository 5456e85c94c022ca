"""The private key of a log, and the file that says what was signed last.

The database can be older than what was signed: a backup was restored, or a replica took over. To
continue the log then would sign another tree of a size that was signed before, and every reader of
both trees would have proof that the Archive contradicts itself. Therefore the size and the root are
written to a file *before* they are signed. The file is beside the key, and so in no backup of the
database. A database that does not contain the tree of the file is older, and a new log begins, with
another name and another key.

Source: federation CL-4 and CL-5.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from flask_ibi_archive.core.claims.checkpoint import OpenedCheckpoint, open_checkpoint
from flask_ibi_archive.core.claims.keys import KEY_SIZE, SigningKey
from flask_ibi_archive.errors import ClaimError, NotReady, StorageError
from flask_ibi_archive.server.files import new_file


@dataclass(frozen=True, slots=True)
class SignedTree:
    """The tree that was signed last, or is signed next.

    :param number: the number of the log.
    :param root: the root of the tree: 32 bytes.
    """

    number: int
    size: int
    root: bytes


class KeyFolder:
    """The folder with the private key of an Archive. Several Archives can share a folder.

    The caller of a method that writes must have the lock of the log. All methods raise NotReady if
    the folder can't be read or written.

    :param seed: the private key of the setting IBI_CLAIMS_KEY, or None.
    :param service_ibi: the IBI of the Archive service.
    """

    def __init__(self, folder: Path, seed: bytes | None, service_ibi: str) -> None:
        self.folder = folder
        self.is_key_set = seed is not None
        self._seed = seed
        self._service_ibi = service_ibi
        # an identifier has characters that names of files can't have
        self._prefix = sha256(service_ibi.encode()).hexdigest()[:16]

    def name_origin(self, number: int) -> str:
        """Return the name of a log and of its key.

        :param number: the number of the log, from 1.
        """
        return self._service_ibi if number == 1 else f"{self._service_ibi}#{number}"

    def read_key(self, number: int) -> SigningKey | None:
        """Return the key of a log; None if there is no key."""
        origin = self.name_origin(number)
        if self._seed is None:
            stored = self._read("key")
            return None if stored is None else SigningKey(origin, bytes.fromhex(stored))
        # a log that begins anew has another key, although the setting is the same
        seed = self._seed if number == 1 else sha256(self._seed + origin.encode()).digest()
        return SigningKey(origin, seed)

    def require_key(self, number: int) -> SigningKey:
        """Return the key of a log.

        :raises NotReady: if there is no key.
        """
        key = self.read_key(number)
        if key is None:
            raise NotReady(
                "the private key of the claims is missing",
                "restore it, or make a new one: flask ibi init",
                str(self.folder),
            )
        return key

    def replace_key(self) -> None:
        """Write a new random key, unless the key is in the setting."""
        if not self.is_key_set:
            self._write("key", secrets.token_hex(KEY_SIZE))

    def forget_tree(self) -> None:
        """Delete the file with the tree that was signed last: the log can't be continued then."""
        with self._explaining():
            self._path("signed").unlink(missing_ok=True)

    def read_tree(self) -> SignedTree | None:
        """Return the tree that was signed last; None if nothing was signed yet."""
        text = self._read("signed")
        if text is None:
            return None
        stored = json.loads(text)
        return SignedTree(stored["log"], stored["size"], bytes.fromhex(stored["root"]))

    def write_tree(self, tree: SignedTree) -> None:
        """Write the tree that is signed next."""
        stored = {"log": tree.number, "size": tree.size, "root": tree.root.hex()}
        self._write("signed", json.dumps(stored))

    def open_checkpoint(self, key: SigningKey) -> OpenedCheckpoint | None:
        """Return the checkpoint that was signed last, which another process may have signed.

        :returns: None if there is none with this key.
        """
        text = self._read("checkpoint")
        try:
            return None if text is None else open_checkpoint(text, key.verifier)
        except ClaimError:  # it is that of an earlier key
            return None

    def write_checkpoint(self, text: str) -> None:
        """Store a signed checkpoint, so that all processes return the same."""
        self._write("checkpoint", text)

    def _path(self, name: str) -> Path:
        return self.folder / f"{self._prefix}.{name}"

    def _read(self, name: str) -> str | None:
        with self._explaining():
            try:
                return self._path(name).read_text()
            except FileNotFoundError:
                return None

    def _write(self, name: str, text: str) -> None:
        """Replace a file. After a power failure, the file has the old or the new content."""
        with self._explaining():
            self.folder.mkdir(0o700, parents=True, exist_ok=True)
            with new_file(self._path(name)) as file:
                file.write(text.encode())

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (OSError, StorageError) as error:
            raise NotReady(
                "the folder of the claims can't be used",
                "set IBI_CLAIMS_FOLDER to a folder that this process may write, or IBI_CLAIMS to "
                "false",
                str(error),
            ) from error
