from __future__ import annotations

import pytest
from support.cases import for_each

from flask_ibi_archive.core.claims.checkpoint import Checkpoint
from flask_ibi_archive.core.claims.keys import SigningKey
from flask_ibi_archive.core.claims.merkle import Frontier, hash_leaf, prove_inclusion
from flask_ibi_archive.core.claims.proof import LogProof, parse_proof
from flask_ibi_archive.errors import ClaimError

KEY = SigningKey("dpi.inpe.br/banon/1999/01.09.22.14", bytes(range(32)))
ENTRIES = [b"claim %d" % number for number in range(5)]
#: The example of the specification.
EXAMPLE = """c2sp.org/tlog-proof@v1
index 73894
gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=
B95lDa8R83lS8n0eG+o0buTxRKQTYFi//1U8anccXmA=

example.com/fancylog
109482
sFodV/vSp5O8n9a8QpW6PRY97tfOSW5bsc2Xl/EQi08=

— example.com/fancylog AAAAAAA=
"""


def make_proof(index: int) -> LogProof:
    frontier = Frontier()
    for entry in ENTRIES:
        frontier.add(hash_leaf(entry))

    def read(level: int, number: int) -> bytes:
        part = Frontier()
        for entry in ENTRIES[number << level : (number + 1) << level]:
            part.add(hash_leaf(entry))
        return part.root()

    note = Checkpoint(KEY.name, 5, frontier.root()).sign(KEY, 1_700_000_000)
    return LogProof(index, tuple(prove_inclusion(index, 5, read)), note, b"extra data")


def test_the_example_of_the_specification_is_read_and_written_again():
    assert parse_proof(EXAMPLE).index == 73894
    assert parse_proof(EXAMPLE).format() == EXAMPLE


@pytest.mark.parametrize("index", range(5))
def test_a_proof_shows_its_claim_and_no_other(index):
    proof = parse_proof(make_proof(index).format())
    assert proof == make_proof(index)
    assert proof.check(ENTRIES[index], KEY.verifier).seconds == 1_700_000_000
    with pytest.raises(ClaimError, match="does not show"):
        proof.check(ENTRIES[index - 1], KEY.verifier)
    with pytest.raises(ClaimError, match="not signed by the known key"):
        proof.check(ENTRIES[index], SigningKey(KEY.name, bytes(32)).verifier)


@for_each(
    "text",
    [
        "", "other\n", EXAMPLE.replace("@v1", "@v2"), EXAMPLE.replace("index", "place"),
        EXAMPLE.replace("73894", "073894"), EXAMPLE.replace("index 73894\n", ""),
        EXAMPLE.replace("gSKy", "gSK"), "c2sp.org/tlog-proof@v1",
        EXAMPLE.replace("index", "extra ???\nindex"),
    ],
)  # fmt: skip
def test_a_malformed_proof_is_refused(text):
    with pytest.raises(ClaimError):
        parse_proof(text)
