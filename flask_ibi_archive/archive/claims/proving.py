"""Writes proofs of claims, with the signature of the resolver as their witness.

The resolver signs a checkpoint after it has verified that the log only grew since the last
checkpoint that it signed. Its signature contains the time. Source: federation CF-2; C2SP
tlog-witness, tlog-proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flask_ibi_archive.archive.claims.checkpoints import SignedCheckpoint
from flask_ibi_archive.archive.claims.log import ClaimLog
from flask_ibi_archive.core.claims.claim_proof import format_claim_proof
from flask_ibi_archive.core.claims.keys import VerifierKey, parse_key
from flask_ibi_archive.core.claims.merkle import prove_consistency, prove_inclusion
from flask_ibi_archive.core.claims.signed_note import (
    SignedNote,
    encode_base64,
    parse_note,
    parse_signatures,
)
from flask_ibi_archive.errors import ClaimError, StorageError, TransportError
from flask_ibi_archive.server.http.transport import (
    HttpResponse,
    find_alert,
    make_printable,
    request,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The timeout in seconds for each answer of the resolver, and the number of bytes that are read.
TIMEOUT, MAX_ANSWER = 30, 65536
#: The number of times that a checkpoint is sent. The witness may sign others at the same time.
ATTEMPTS = 4
HEADERS = {"Content-Type": "text/plain; charset=utf-8", "Accept": "text/plain"}


class NotWitnessed(Exception):
    """Raised if the resolver has not signed a checkpoint. The message says why, in one line."""


@dataclass
class Prover:
    """Writes proofs of the claims of an Archive.

    :ivar problem: the reason why the resolver has not signed the last proof; None if it has.
    """

    archive: Archive
    problem: str | None = field(default=None, init=False)

    def prove(self, ibi: str) -> str:
        """Return the proof of the last claim of an item.

        :param ibi: an identifier of the item in canonical case.
        :raises StorageError: if the Archive publishes no claims, or if the item has no claim.
        """
        log = ClaimLog(self.archive)  # a new object has not looked at the database yet
        log.sequence()
        found, key = log.find_last_claim(ibi), log.verifier()
        checkpoint = log.checkpoint(self.archive.clock())
        if key is None or checkpoint is None:
            raise StorageError("this Archive publishes no claims; run: flask ibi claims status")
        if found is None:
            raise StorageError(
                f"the Archive has never claimed {ibi}: no public item has this identifier"
            )
        index, entry = found
        self.problem = None
        witnesses: list[VerifierKey] = []
        note, size = checkpoint.text, checkpoint.size
        try:
            witness, note, size = self._cosign(checkpoint)
            witnesses.append(witness)
        except (NotWitnessed, ClaimError, TransportError) as error:
            self.problem = str(error)
        hashes = prove_inclusion(index, size, log.read_hash)
        return format_claim_proof(index, hashes, note, entry, key, witnesses)

    def _cosign(self, checkpoint: SignedCheckpoint) -> tuple[VerifierKey, str, int]:
        """Let the resolver sign a checkpoint.

        :returns: the key of the resolver, the signed note and the size of its tree. The tree is
            larger than the given one if the resolver has already signed a larger one.
        :raises NotWitnessed: if the resolver refuses.
        :raises ClaimError: if the answer is malformed, or if the signature is false.
        :raises TransportError: if the resolver does not answer.
        """
        base = f"{self.archive.config.resolver_base}/ibi/claims/witness"
        answer = _send(f"{base}/key")
        if answer.status != 200:
            raise NotWitnessed(f"the resolver publishes no key of a witness ({_show(answer)})")
        key = parse_key(answer.text.rstrip("\n"))
        old = 0
        for _ in range(ATTEMPTS):
            hashes = prove_consistency(old, checkpoint.size, self.archive.claims.read_hash)
            body = format_add_checkpoint(old, hashes, checkpoint.text)
            answer = _send(f"{base}/add-checkpoint", body.encode())
            if answer.status != 409:
                break
            old = _read_size(answer)
            if old > checkpoint.size:
                checkpoint = self._read_larger(old)
        if answer.status != 200:
            raise NotWitnessed(f"the resolver does not sign the checkpoint ({_show(answer)})")
        note = parse_note(checkpoint.text)
        for signature in parse_signatures(answer.text):
            cosigned = SignedNote(note.text, (*note.signatures, signature))
            if key.find_time(cosigned) is not None:
                return key, cosigned.format(), checkpoint.size
        raise NotWitnessed("the resolver's answer has no signature of the key that it publishes")

    def _read_larger(self, size: int) -> SignedCheckpoint:
        """Return the present checkpoint, which must be as large as one that the resolver signed."""
        checkpoint = ClaimLog(self.archive).checkpoint(self.archive.clock())
        if checkpoint is None or checkpoint.size < size:
            raise NotWitnessed(
                f"the resolver has signed a checkpoint with {size} claims, more than the log has; "
                "run: flask ibi claims status"
            )
        return checkpoint


def format_add_checkpoint(old: int, hashes: Sequence[bytes], note: str) -> str:
    """Return the body of a request for a signature of a witness.

    :param old: the size of the last tree that the witness has signed; 0 if it is unknown.
    :param hashes: the proof that the new tree continues the old one.
    :param note: the signed checkpoint.
    Source: C2SP tlog-witness, add-checkpoint.
    """
    return "\n".join([f"old {old}", *map(encode_base64, hashes), "", note])


def _send(url: str, body: bytes | None = None) -> HttpResponse:
    return request(
        url, headers=HEADERS, seconds=TIMEOUT, limit=MAX_ANSWER, inner_hosts=None, body=body
    )


def _read_size(answer: HttpResponse) -> int:
    """Return the size in an answer with the status 409."""
    text = answer.text.removesuffix("\n")
    if not text.isdecimal() or not text.isascii() or len(text) > 19:
        raise NotWitnessed(f"the resolver states no size of the log ({_show(answer)})")
    return int(text)


def _show(answer: HttpResponse) -> str:
    text = find_alert(answer.body) or make_printable(answer.text)
    if text.startswith("<"):  # a page for readers, which says nothing more
        text = ""
    return f"status {answer.status}: {text}" if text else f"status {answer.status}"
