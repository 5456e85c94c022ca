"""Signed notes: a text with signatures below it, each on one line. Source: C2SP signed-note."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import NamedTuple

from flask_ibi_archive.errors import ClaimError

#: The maximum length of a note in bytes. A note with 16 signatures is shorter.
MAX_NOTE = 1 << 20
_DASH = "\N{EM DASH} "
_find_control = re.compile(r"[\x00-\x09\x0b-\x1f]").search


class Signature(NamedTuple):
    """A signature of a note.

    :param name: the name of the key.
    :param key_id: the number that, with the name, identifies the key and its algorithm.
    :param data: the signature itself, whose form depends on the algorithm.
    """

    name: str
    key_id: int
    data: bytes

    def format(self) -> str:
        """Return the line of the signature, with the line break at its end."""
        return f"{_DASH}{self.name} {encode_base64(self.key_id.to_bytes(4, 'big') + self.data)}\n"


@dataclass(frozen=True, slots=True)
class SignedNote:
    """A text and its signatures. Nothing says yet that the signatures are right.

    :param text: the text that is signed. It ends with a line break.
    """

    text: str
    signatures: tuple[Signature, ...]

    def format(self) -> str:
        """Return the whole note."""
        return f"{self.text}\n{''.join(signature.format() for signature in self.signatures)}"


def parse_note(note: str) -> SignedNote:
    """Parse a signed note.

    :raises ClaimError: if the note is malformed.
    """
    if len(note) > MAX_NOTE or _find_control(note):
        raise ClaimError("a signed note is too long, or contains control characters")
    text, gap, below = note.rpartition("\n\n")
    if not gap or not below.endswith("\n"):
        raise ClaimError("a signed note has no signatures below an empty line")
    return SignedNote(f"{text}\n", _parse_signatures(below))


def _parse_signatures(lines: str) -> tuple[Signature, ...]:
    """Parse lines of signatures, each with a line break at its end.

    :raises ClaimError: if a line is malformed.
    """
    signatures = []
    for line in lines[:-1].split("\n"):
        name, _, code = line.removeprefix(_DASH).partition(" ")
        data = decode_base64(code)
        if not line.startswith(_DASH) or not is_key_name(name) or len(data) < 5:
            raise ClaimError("a line of a signed note is no signature")
        signatures.append(Signature(name, int.from_bytes(data[:4], "big"), data[4:]))
    return tuple(signatures)


def is_key_name(name: str) -> bool:
    """Return whether a text can be the name of a key: not empty, and no space and no plus."""
    return name != "" and "+" not in name and name.split() == [name]


def encode_base64(data: bytes) -> str:
    """Return bytes in base64 (RFC 4648, section 4)."""
    return b64encode(data).decode()


def decode_base64(text: str) -> bytes:
    """Return the bytes that a text in canonical base64 contains.

    :raises ClaimError: if the text is not canonical base64.
    """
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ClaimError(f"{text[:80]!a} is not base64") from error
    if encode_base64(data) != text:
        raise ClaimError(f"{text[:80]!a} is not canonical base64")
    return data
