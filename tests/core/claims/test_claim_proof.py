"""Proofs of claims: what they show, whose keys they trust, and that nothing in them can change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each

from flask_ibi_archive.core.claims.checkpoint import Checkpoint
from flask_ibi_archive.core.claims.claim import Claim, format_claim
from flask_ibi_archive.core.claims.claim_proof import format_claim_proof, parse_claim_proof
from flask_ibi_archive.core.claims.keys import SigningKey
from flask_ibi_archive.core.claims.merkle import Frontier, hash_children, hash_leaf
from flask_ibi_archive.core.claims.proof import LogProof, parse_proof
from flask_ibi_archive.core.claims.signed_note import SignedNote, parse_note
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import ClaimError

ARCHIVE = SigningKey("dpi.inpe.br/banon/1999/01.09.22.14#2", bytes(range(32)))
WITNESS, OTHER = SigningKey("urlib.net/a", b"w" * 32), SigningKey("mirror.example.org/a", b"o" * 32)
CLAIM = Claim(
    "dpi.inpe.br/banon/1999/01.09.22.15",
    "8JMKD3MGP8W/34PGRBT",
    State.COPY,
    "2009-07-21T13:23:45Z",
    "dpi.inpe.br/banon/1999/01.09.22.16",
    ("doi:10.5281/zenodo.1234567",),
    "0" * 64,
)
ENTRY = format_claim(CLAIM)
BEFORE, SIGNED, WITNESSED = b"another claim", 1_700_000_000, 1_700_000_060


def write_proof(*witnesses: SigningKey, entry: bytes = ENTRY, **options: Any) -> str:
    """Return the proof of the second of two claims.

    :param witnesses: the witnesses that sign, one second after the other.
    """
    frontier = Frontier()
    for each in (BEFORE, entry):
        frontier.add(hash_leaf(each))
    text = Checkpoint(ARCHIVE.name, 2, frontier.root()).format()
    signatures = [ARCHIVE.sign(text), ARCHIVE.cosign(text, options.get("seconds", SIGNED))]
    signatures += [one.cosign(text, WITNESSED + index) for index, one in enumerate(witnesses)]
    note = SignedNote(text, tuple(signatures)).format()
    stated = options.get("stated", witnesses)
    keys = [one.verifier for one in stated]
    return format_claim_proof(1, [hash_leaf(BEFORE)], note, entry, ARCHIVE.verifier, keys)


def replace_extra(extra: bytes | None) -> str:
    proof = parse_proof(write_proof(WITNESS))
    return LogProof(proof.index, proof.hashes, proof.note, extra).format()


def test_a_proof_says_which_archive_claimed_what_and_since_when_at_the_latest() -> None:
    proven = parse_claim_proof(write_proof(OTHER, WITNESS)).check()
    assert (proven.claim, proven.entry) == (CLAIM, ENTRY)
    assert proven.archive == "dpi.inpe.br/banon/1999/01.09.22.14"
    assert (proven.index, proven.size, proven.seconds) == (1, 2, SIGNED)
    assert [one.key for one in proven.confirmations] == [OTHER.verifier, WITNESS.verifier]
    assert [one.seconds for one in proven.confirmations] == [WITNESSED, WITNESSED + 1]


def test_a_proof_is_a_tlog_proof_of_the_claim_alone() -> None:
    proof = parse_proof(write_proof(WITNESS))
    opened = proof.check(ENTRY, ARCHIVE.verifier)
    assert hash_children(*proof.hashes, hash_leaf(ENTRY)) == opened.checkpoint.root
    assert WITNESS.verifier.find_time(parse_note(proof.note)) == WITNESSED


def test_given_keys_are_told_from_stated_ones() -> None:
    proof = parse_claim_proof(write_proof(OTHER, WITNESS))
    stated = proof.check()
    given_keys = proof.check(ARCHIVE.verifier, [WITNESS.verifier])
    assert (stated.is_given, given_keys.is_given) == (False, True)
    assert [one.is_given for one in stated.confirmations] == [False, False]
    assert [one.is_given for one in given_keys.confirmations] == [False, True]


def test_a_given_witness_need_not_be_stated() -> None:
    proven = parse_claim_proof(write_proof(WITNESS, stated=())).check(None, [WITNESS.verifier])
    assert [one.key for one in proven.confirmations] == [WITNESS.verifier]
    assert parse_claim_proof(write_proof(WITNESS, stated=())).check().confirmations == ()


@for_each(
    ("text", "key", "witnesses", "reason"),
    [
        (write_proof(), OTHER, (), "is that of the log 'dpi.inpe.br/banon"),
        (write_proof(), SigningKey(ARCHIVE.name, bytes(32)), (), "not signed by the known key"),
        (write_proof(), None, (WITNESS,), "no signature of the witness urlib.net/a"),
        (write_proof(WITNESS), None, (OTHER,), "no signature of the witness mirror.example"),
        (write_proof(WITNESS, stated=(OTHER,)), None, (), "no signature of the witness mirror"),
        (write_proof(SigningKey("x", ARCHIVE.seed)), None, (), "has the key of the Archive"),
        (write_proof(seconds=1 << 62), None, (), "after the year 9999"),
        (write_proof(entry=b"no claim"), None, (), "ibi"),
    ],
)
def test_a_proof_with_a_false_or_missing_part_is_refused(
    text: str,
    key: SigningKey | None,
    witnesses: tuple[SigningKey, ...],
    reason: str,
) -> None:
    proof = parse_claim_proof(text)
    with pytest.raises(ClaimError, match=reason):
        proof.check(key and key.verifier, [one.verifier for one in witnesses])


@for_each(
    "extra",
    [
        None, b"", b"\n\n", ENTRY, b"claim " + ENTRY, b"claim " + ENTRY + b"\nkey",
        b"claim " + ENTRY + b"\nwitness " + OTHER.verifier.format().encode() + b"\n",
        b"claim x\nkey " + ARCHIVE.verifier.format().encode(),
        b"claim x\nkey x+12345678+AAAA\n", b"claim \xff\nkey x\n",
        b"claim x\nkey " + b"\nwitness ".join([ARCHIVE.verifier.format().encode()] * 18) + b"\n",
    ],
)  # fmt: skip
def test_a_proof_without_a_claim_and_keys_is_malformed(extra: bytes | None) -> None:
    with pytest.raises(ClaimError):
        parse_claim_proof(replace_extra(extra))


@given(st.data())
def test_a_proof_with_a_changed_character_shows_nothing_else(data: st.DataObject) -> None:
    text = write_proof(WITNESS)
    right = parse_claim_proof(text).check(ARCHIVE.verifier, [WITNESS.verifier])
    place = data.draw(st.integers(0, len(text) - 1))
    sign = data.draw(st.characters(min_codepoint=10, max_codepoint=126))
    changed = text[:place] + sign + text[place + 1 :]
    try:
        shown = parse_claim_proof(changed).check(ARCHIVE.verifier, [WITNESS.verifier])
    except ClaimError:
        return
    # another key may be stated, which the reader does not use
    assert (shown.claim, shown.index, shown.seconds) == (right.claim, right.index, right.seconds)
