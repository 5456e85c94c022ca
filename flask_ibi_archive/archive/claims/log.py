"""The log of claims that an Archive publishes.

Source: federation CL-3 and CL-4; C2SP tlog-tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flask_ibi_archive.core.claims.keys import VerifierKey

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A signed checkpoint.

    :param text: the signed note.
    :param etag: a text without quotation marks that is different for each other text.
    :param size: the number of entries in the tree.
    """

    text: str
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class ClaimsStatus:
    """What an administrator may want to know about the claims.

    :param number: the number of the log, from 1. A log that had to begin anew has the next number.
    :param origin: the name of the log.
    :param key: the public key in one line; None if there is no key.
    :param size: the number of entries.
    :param pending: the number of noted changes that are not in the log yet.
    :param signed_at: the time of the last checkpoint; None if there is none.
    :param folder: the folder of the private key.
    :param warning: what the administrator must do, in one sentence; None if nothing.
    """

    number: int
    origin: str
    key: str | None
    size: int
    pending: int
    signed_at: datetime | None
    folder: Path
    warning: str | None


class ClaimLog:
    """The log of the claims of an Archive. An object can be used by several threads.

    The setting IBI_CLAIMS can be false, and an Archive has no key before ``flask ibi init``. Then
    no claims are published, and the methods that read the log return None.

    All methods raise NotReady if the database does not respond.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    # --- the log for readers ---------------------------------------------------------------------

    def checkpoint(self, now: datetime) -> SignedCheckpoint | None:
        """Return the signed checkpoint; None if no claims are published.

        If the last look at the database was more than a second ago, the changes that were
        committed since then are added to the log first. The checkpoint is signed again when its
        time is more than a minute before ``now``.

        :raises NotReady: also if the folder of the key can't be written.
        """
        raise NotImplementedError

    def read_tile(self, level: int, number: int, width: int) -> bytes | None:
        """Return the content of a tile; None if the log is too short for it.

        :param width: the number of hashes, from 1 to 256.
        """
        raise NotImplementedError

    def read_entries(self, number: int, width: int) -> list[bytes] | None:
        """Return the entries of a bundle; None if the log is too short for it.

        :param width: the number of entries, from 1 to 256.
        """
        raise NotImplementedError

    def read_hash(self, level: int, index: int) -> bytes:
        """Return the hash of a full subtree, for proofs; see :data:`.merkle.ReadHash`.

        The log must contain the subtree.
        """
        raise NotImplementedError

    def find_last_claim(self, ibi: str) -> tuple[int, bytes] | None:
        """Return the position and the entry of the last claim of an item; None if it has none.

        :param ibi: an identifier of the item in canonical case.
        """
        raise NotImplementedError

    # --- for the administrator -------------------------------------------------------------------

    def verifier(self) -> VerifierKey | None:
        """Return the public key; None if no claims are published."""
        raise NotImplementedError

    def status(self) -> ClaimsStatus:
        """Return the state of the log. Nothing is written."""
        raise NotImplementedError

    def create_key(self) -> bool:
        """Create the key, and begin the log with all items, unless both are there.

        :returns: whether something was created.
        :raises NotReady: if the folder of the key can't be written.
        """
        raise NotImplementedError

    def rotate(self) -> VerifierKey:
        """Replace the key of the log. The resolvers must be told with ``register-archive``.

        :returns: the new public key.
        :raises StorageError: if the key is in the setting IBI_CLAIMS_KEY, or if there is no log.
        """
        raise NotImplementedError

    def sequence(self) -> int:
        """Add all committed changes to the log, however long it takes.

        :returns: the number of new claims.
        """
        raise NotImplementedError

    def verify(self, progress: Callable[[int, int], None] = lambda done, total: None) -> list[str]:
        """Compute the whole tree from the entries, and compare it with all that is stored.

        Compared are the stored hashes, the size, the file with the last signed root, and the last
        claims with the current items.

        :param progress: called with the number of entries that were read and the number of all.
        :returns: the errors, each in one sentence.
        """
        raise NotImplementedError
