"""Checkpoints: the signed statement how large a log is, and what its root is.

Source: C2SP tlog-checkpoint.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from flask_ibi_archive.core.claims.keys import SigningKey, VerifierKey
from flask_ibi_archive.core.claims.merkle import EMPTY_ROOT, HASH_SIZE
from flask_ibi_archive.core.claims.signed_note import (
    SignedNote,
    decode_base64,
    encode_base64,
    parse_note,
)
from flask_ibi_archive.errors import ClaimError

_is_size = re.compile(r"0|[1-9][0-9]{0,17}").fullmatch


def get_service_rep(origin: str) -> str:
    """Return the rep of the service that is named in the origin of a log."""
    return origin.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The size and the root of a log.

    :param origin: the name of the log: the rep of the Archive service, and "#2" and so on if the
        log had to begin anew.
    :param root: the root of the tree: 32 bytes.
    """

    origin: str
    size: int
    root: bytes

    def format(self) -> str:
        """Return the text of the checkpoint, which is signed."""
        return f"{self.origin}\n{self.size}\n{encode_base64(self.root)}\n"

    def sign(self, key: SigningKey, seconds: int) -> str:
        """Return the signed checkpoint, with a plain and a timestamped signature.

        :param seconds: the present time in POSIX seconds.
        """
        text = self.format()
        return SignedNote(text, (key.sign(text), key.sign_time(text, seconds))).format()


@dataclass(frozen=True, slots=True)
class OpenedCheckpoint:
    """A checkpoint whose signatures are right.

    :param seconds: the time of the timestamped signature in POSIX seconds.
    """

    checkpoint: Checkpoint
    seconds: int
    note: SignedNote


def parse_checkpoint(text: str) -> Checkpoint:
    """Parse the text of a checkpoint without its signatures. Further lines are ignored.

    :raises ClaimError: if the text is malformed.
    """
    lines = text.split("\n")
    if len(lines) < 4 or not all(lines[:-1]) or lines[-1] or not _is_size(lines[1]):
        raise ClaimError("a checkpoint must have a line with the origin, the size and the root")
    checkpoint = Checkpoint(lines[0], int(lines[1]), decode_base64(lines[2]))
    if len(checkpoint.root) != HASH_SIZE:
        raise ClaimError("the root in a checkpoint does not have 32 bytes")
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        raise ClaimError("the root of an empty log is wrong")
    return checkpoint


def open_checkpoint(note: str, key: VerifierKey) -> OpenedCheckpoint:
    """Parse a signed checkpoint, and check the signatures of the log's own key.

    :param key: the key of the log, whose name is the origin.
    :raises ClaimError: if the note is malformed, a signature is missing or false, or the checkpoint
        is one of another log.
    """
    parsed = parse_note(note)
    checkpoint = parse_checkpoint(parsed.text)
    if checkpoint.origin != key.name:
        origin = checkpoint.origin[:80]
        raise ClaimError(f"the checkpoint is that of the log {origin!a}, not of {key.name}")
    if not key.verify(parsed):
        raise ClaimError(f"the checkpoint is not signed by the known key of {key.name}")
    seconds = key.find_time(parsed)
    if seconds is None:
        raise ClaimError("the checkpoint has no signature with a time")
    return OpenedCheckpoint(checkpoint, seconds, parsed)
