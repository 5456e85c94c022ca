"""Proofs that a log contains an entry, which need no network to check. Source: C2SP tlog-proof."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flask_ibi_archive.core.claims.checkpoint import OpenedCheckpoint, open_checkpoint
from flask_ibi_archive.core.claims.keys import VerifierKey
from flask_ibi_archive.core.claims.merkle import HASH_SIZE, hash_leaf, verify_inclusion
from flask_ibi_archive.core.claims.signed_note import decode_base64, encode_base64
from flask_ibi_archive.errors import ClaimError

HEADER = "c2sp.org/tlog-proof@v1"
_is_number = re.compile(r"0|[1-9][0-9]{0,18}").fullmatch


@dataclass(frozen=True, slots=True)
class LogProof:
    """A proof that an entry is in a log.

    :param index: the index of the entry in the log, from 0.
    :param hashes: the proof of the inclusion, from the sibling of the entry upwards.
    :param note: the signed checkpoint.
    :param extra: data that the proof does not prove.
    """

    index: int
    hashes: tuple[bytes, ...]
    note: str
    extra: bytes | None = None

    def format(self) -> str:
        """Return the proof as text."""
        extra = "" if self.extra is None else f"extra {encode_base64(self.extra)}\n"
        hashes = "".join(f"{encode_base64(node)}\n" for node in self.hashes)
        return f"{HEADER}\n{extra}index {self.index}\n{hashes}\n{self.note}"

    def check(self, entry: bytes, key: VerifierKey) -> OpenedCheckpoint:
        """Check that the log of a key contains an entry, and return the checkpoint.

        :raises ClaimError: if the checkpoint is not signed by the key, or if the proof is wrong.
        """
        opened = open_checkpoint(self.note, key)
        tree = opened.checkpoint
        if not verify_inclusion(hash_leaf(entry), self.index, tree.size, self.hashes, tree.root):
            raise ClaimError("the proof does not show that the log contains this claim")
        return opened


def parse_proof(text: str) -> LogProof:
    """Parse a proof.

    :raises ClaimError: if the text is malformed.
    """
    head, _, note = text.partition("\n\n")
    lines = head.split("\n")
    if lines[0] != HEADER:
        raise ClaimError(f"a proof must begin with the line {HEADER}")
    del lines[0]
    extra = None
    if lines and lines[0].startswith("extra "):
        extra = decode_base64(lines.pop(0).removeprefix("extra "))
    number = lines.pop(0).removeprefix("index ") if lines else ""
    hashes = tuple(map(decode_base64, lines))
    if not _is_number(number) or any(len(node) != HASH_SIZE for node in hashes):
        raise ClaimError("a proof must have a line with the index, and lines with hashes below it")
    return LogProof(int(number), hashes, note, extra)
