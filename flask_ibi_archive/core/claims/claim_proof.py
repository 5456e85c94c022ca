"""Proofs that an Archive claimed something, with all that a reader needs to check them.

A proof is a tlog-proof. Its extra data are lines of text: ``claim`` with the claim, ``key`` with
the key of the Archive, and one line ``witness`` with the key of each witness. The proof covers the
claim. The keys are only stated: who made the file could have stated others. Therefore a reader
compares them with the keys that the Archive and the witnesses publish, or gives those keys.

Source: federation CF-2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flask_ibi_archive.core.claims.checkpoint import get_service_rep
from flask_ibi_archive.core.claims.claim import Claim, parse_claim
from flask_ibi_archive.core.claims.keys import TIMESTAMPED, VerifierKey, parse_key
from flask_ibi_archive.core.claims.proof import LogProof, parse_proof
from flask_ibi_archive.core.claims.signed_note import MAX_NOTE
from flask_ibi_archive.errors import ClaimError

#: The largest number of witnesses in a proof, and the last second of the year 9999.
MAX_WITNESSES, MAX_SECONDS = 16, 253_402_300_799


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a witness has confirmed: that the log contained the claim at a time.

    :param seconds: the time in POSIX seconds.
    :param is_given: whether the reader gave the key of the witness; otherwise, the proof states it.
    """

    key: VerifierKey
    seconds: int
    is_given: bool


@dataclass(frozen=True, slots=True)
class ProvenClaim:
    """What a proof shows.

    :param entry: the claim as it is in the log.
    :param index: the index of the claim in the log, from 0.
    :param size: the number of claims in the log when the checkpoint was signed.
    :param seconds: the time of the checkpoint according to the Archive, in POSIX seconds.
    :param key: the key of the Archive. Its name is the origin of the log.
    :param is_given: whether the reader gave the key of the Archive.
    :param confirmations: the confirmations of the witnesses, the earliest first.
    """

    claim: Claim
    entry: bytes
    index: int
    size: int
    seconds: int
    key: VerifierKey
    is_given: bool
    confirmations: tuple[Confirmation, ...]

    @property
    def archive(self) -> str:
        """The IBI of the service of the Archive that made the claim."""
        return get_service_rep(self.key.name)


@dataclass(frozen=True, slots=True)
class ClaimProof:
    """A proof that a log contains a claim, and the keys that the file states.

    :param entry: the claim as it is in the log.
    """

    proof: LogProof
    entry: bytes
    key: VerifierKey
    witnesses: tuple[VerifierKey, ...] = ()

    def check(
        self, key: VerifierKey | None = None, witnesses: Sequence[VerifierKey] = ()
    ) -> ProvenClaim:
        """Check the proof, and return what it shows.

        :param key: the key of the Archive, if the reader has it. None: the key in the proof.
        :param witnesses: keys of witnesses that the reader has. Each must have confirmed the claim.
        :raises ClaimError: if a part of the proof is false or missing.
        """
        archive_key = key or self.key
        opened = self.proof.check(self.entry, archive_key)
        confirmations = []
        for witness in dict.fromkeys((*witnesses, *self.witnesses)):
            if witness.public == archive_key.public:
                # the signed text does not contain the name of the key
                raise ClaimError(f"the witness {witness.name} has the key of the Archive itself")
            seconds = witness.find_time(opened.note)
            if seconds is None:
                text = witness.format(TIMESTAMPED)
                raise ClaimError(f"the proof has no signature of the witness {text}")
            confirmations.append(Confirmation(witness, seconds, witness in witnesses))
        if max(opened.seconds, *(one.seconds for one in confirmations), 0) > MAX_SECONDS:
            raise ClaimError("the proof has a time after the year 9999")
        return ProvenClaim(
            parse_claim(self.entry),
            self.entry,
            self.proof.index,
            opened.checkpoint.size,
            opened.seconds,
            archive_key,
            key is not None,
            tuple(sorted(confirmations, key=lambda each: each.seconds)),
        )


def format_claim_proof(
    index: int,
    hashes: Sequence[bytes],
    note: str,
    entry: bytes,
    key: VerifierKey,
    witnesses: Sequence[VerifierKey] = (),
) -> str:
    """Return the text of a proof.

    :param index: the index of the claim in the log, from 0.
    :param hashes: the proof of the inclusion, from the sibling of the claim upwards.
    :param note: the checkpoint with the signatures of the Archive and of the witnesses.
    :param entry: the claim as it is in the log.
    """
    keys = [f"key {key.format()}", *(f"witness {one.format(TIMESTAMPED)}" for one in witnesses)]
    extra = b"claim " + entry + "\n".join(["", *keys, ""]).encode()
    return LogProof(index, tuple(hashes), note, extra).format()


def parse_claim_proof(text: str) -> ClaimProof:
    """Parse a proof. Nothing says yet that it is true.

    :raises ClaimError: if the text is malformed.
    """
    if len(text) > 2 * MAX_NOTE:
        raise ClaimError("the proof is too long")
    proof = parse_proof(text)
    try:
        extra = (proof.extra or b"").decode("ascii")
    except UnicodeDecodeError as error:
        raise ClaimError("the extra line is not ASCII text") from error
    names, values = zip(*(line.partition(" ")[::2] for line in extra.split("\n")), strict=True)
    count = len(names) - 3
    if names != ("claim", "key", *["witness"] * count, "") or count > MAX_WITNESSES:
        raise ClaimError("the extra line must contain a claim, a key and the keys of witnesses")
    key, *witnesses = map(parse_key, values[1:-1])
    return ClaimProof(proof, values[0].encode(), key, tuple(witnesses))
