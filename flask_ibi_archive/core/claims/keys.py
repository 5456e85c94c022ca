"""The Ed25519 keys that sign checkpoints.

One key makes signatures of two types: of the note alone, and of the note with the time. The time
says how old a checkpoint is. Source: C2SP signed-note, tlog-cosignature; RFC 8032.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from flask_ibi_archive.core.claims.signed_note import (
    Signature,
    SignedNote,
    decode_base64,
    encode_base64,
    is_key_name,
)
from flask_ibi_archive.errors import ClaimError

#: The types of signatures: a signature of the note, and a signature with the time (cosignature/v1).
PLAIN, TIMESTAMPED = 0x01, 0x04
KEY_SIZE = 32
_TIME_SIZE = 8


@dataclass(frozen=True)
class VerifierKey:
    """The public half of a key.

    :param name: the name of the key, without spaces and "+".
    :param public: the public key: 32 bytes.
    """

    name: str
    public: bytes

    def find_id(self, kind: int) -> int:
        """Return the number of the key for a type of signatures."""
        content = self.name.encode() + b"\n" + bytes([kind]) + self.public
        return int.from_bytes(sha256(content).digest()[:4], "big")

    def format(self) -> str:
        """Return the key in one line: the name, the number in hexadecimal digits, and the key."""
        code = encode_base64(bytes([PLAIN]) + self.public)
        return f"{self.name}+{self.find_id(PLAIN):08x}+{code}"

    def verify(self, note: SignedNote) -> bool:
        """Return whether a note has a signature of this key.

        :raises ClaimError: if one of its signatures is false: then the note is malformed.
        """
        signatures = self._find(note, PLAIN)
        for signature in signatures:
            self._check(signature.data, note.text.encode())
        return bool(signatures)

    def find_time(self, note: SignedNote) -> int | None:
        """Return the time of the first timestamped signature of this key; None if there is none.

        :returns: the time in POSIX seconds.
        :raises ClaimError: if one of these signatures is false: then the note is malformed.
        """
        times = []
        for signature in self._find(note, TIMESTAMPED):
            times.append(int.from_bytes(signature.data[:_TIME_SIZE], "big"))
            self._check(signature.data[_TIME_SIZE:], _add_time(note.text, times[-1]))
        return times[0] if times else None

    def _find(self, note: SignedNote, kind: int) -> list[Signature]:
        wanted = self.name, self.find_id(kind)
        return [line for line in note.signatures if line[:2] == wanted]

    def _check(self, signature: bytes, message: bytes) -> None:
        try:
            self._key.verify(signature, message)
        except InvalidSignature as error:
            raise ClaimError(f"the signature of {self.name} is false") from error

    @cached_property
    def _key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.public)


def parse_key(text: str) -> VerifierKey:
    """Parse a public key in the form that :meth:`VerifierKey.format` returns.

    :raises ClaimError: if the text is not an Ed25519 key, or if its number is wrong.
    """
    name, _, rest = text.partition("+")
    _, _, code = rest.partition("+")
    data = decode_base64(code)
    if not is_key_name(name) or len(data) != 1 + KEY_SIZE or data[0] != PLAIN:
        raise ClaimError(f"{text[:80]!a} is not an Ed25519 key in the form name+number+key")
    key = VerifierKey(name, data[1:])
    if key.format() != text:
        raise ClaimError(f"{text[:80]!a} is a key with a wrong number")
    return key


@dataclass(frozen=True, repr=False)  # the seed is secret
class SigningKey:
    """A private key.

    :param name: the name of the key, without spaces and "+".
    :param seed: the private key: 32 random bytes.
    """

    name: str
    seed: bytes

    @cached_property
    def verifier(self) -> VerifierKey:
        """The public half of the key."""
        return VerifierKey(self.name, self._key.public_key().public_bytes_raw())

    def sign(self, text: str) -> Signature:
        """Return the signature of a text that ends with a line break."""
        data = self._key.sign(text.encode())
        return Signature(self.name, self.verifier.find_id(PLAIN), data)

    def sign_time(self, text: str, seconds: int) -> Signature:
        """Return the signature of a checkpoint and the time.

        :param seconds: the present time in POSIX seconds.
        """
        data = seconds.to_bytes(_TIME_SIZE, "big") + self._key.sign(_add_time(text, seconds))
        return Signature(self.name, self.verifier.find_id(TIMESTAMPED), data)

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)


def _add_time(text: str, seconds: int) -> bytes:
    """Return what a timestamped signature signs."""
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()
