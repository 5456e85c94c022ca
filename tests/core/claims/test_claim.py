from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each

from flask_ibi_archive.core.claims.claim import Claim, format_claim, name_key, parse_claim
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import ClaimError

REP, IBIP = "sid.inpe.br/mtc-m18@80/2009/07.21.13.23", "8JMKD3MGP8W/35MME4E"
TIME = "2009-07-21T13:23:45Z"
ORIGINAL = Claim(REP, IBIP, State.ORIGINAL, TIME)
FULL = Claim(
    REP,
    IBIP,
    State.COPY,
    TIME,
    "dpi.inpe.br/banon/1999/01.09.22.14",
    ("doi:10.5281/zenodo.1234567", "83LX3pFwXQZeBBx/hwiTk", "http://old.example.org/a?x=%C3%A9"),
    "0" * 64,
)
LINE = format_claim(ORIGINAL).decode()


def test_a_claim_is_a_list_of_pairs_in_one_line():
    assert format_claim(FULL) == (
        b"ibi {rep sid.inpe.br/mtc-m18@80/2009/07.21.13.23 ibip 8JMKD3MGP8W/35MME4E} state Copy "
        b"timestamp 2009-07-21T13:23:45Z ibi.archiveservice dpi.inpe.br/banon/1999/01.09.22.14 "
        b"aliases {doi:10.5281/zenodo.1234567 83LX3pFwXQZeBBx/hwiTk "
        b"http://old.example.org/a?x=%C3%A9} sha256 " + b"0" * 64
    )


@given(
    st.sampled_from([(REP, IBIP), (REP, None), (None, IBIP)]),
    st.sampled_from([State.ORIGINAL, State.DELETED]),
    st.sets(st.sampled_from(FULL.aliases)).map(tuple),
    st.sampled_from([None, "f" * 64]),
)
def test_each_claim_is_read_as_it_was_written(forms, state, aliases, digest):
    claim = Claim(*forms, state, TIME, None, aliases, digest)
    assert parse_claim(format_claim(claim)) == claim
    assert claim.names == (*[form for form in forms if form], *aliases)


def test_pairs_of_later_versions_are_ignored():
    assert parse_claim(f"{LINE} colour {{light blue}}".encode()) == ORIGINAL


@for_each(
    ("entry", "message"),
    [
        (b"", "ibi: "),
        (b"\xff", "one line of ASCII"),
        (LINE.replace("} ", "}\n").encode(), "one line of ASCII"),
        (b"ibi {", "brace"),
        (LINE.encode() + b" " * 70000, "at most 65535 bytes"),
        (LINE.replace(f"rep {REP} ibip {IBIP}", "").encode(), "ibi: "),
        (LINE.replace("rep sid", "rap sid").encode(), "ibi: "),
        (LINE.replace(f"rep {REP}", f"rep {IBIP}").encode(), "is not a rep in canonical case"),
        (LINE.replace(IBIP, IBIP.lower()).encode(), "is not a ibip in canonical case"),
        (LINE.replace(f"ibip {IBIP}", f"rep {REP}").encode(), "ibi: "),
        (LINE.replace("Original", "Elsewhere").encode(), "state: "),
        (LINE.replace("state Original ", "").encode(), "state: "),
        (LINE.replace("Original", "{Original Copy}").encode(), "state: "),
        (LINE.replace("Z", "").encode(), "timestamp: "),
        (LINE.replace("Original", "Copy").encode(), "ibi.archiveservice: "),
        (f"{LINE} ibi.archiveservice {REP}".encode(), "ibi.archiveservice: "),
        (f"{LINE} aliases {{nonsense}}".encode(), "neither an identifier nor an alias"),
        (f"{LINE} sha256 ABC".encode(), "sha256: "),
    ],
)
def test_a_malformed_claim_is_refused(entry, message):
    with pytest.raises(ClaimError, match=message):
        parse_claim(entry)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(entry):
    with suppress(ClaimError):
        parse_claim(entry)


@for_each(
    ("name", "same"),
    [
        (IBIP, IBIP.lower()),
        ("doi:10.5281/zenodo.1234567", "https://doi.org/10.5281/ZENODO.1234567"),
        ("ark:12345/x5-4xz321", "ark:/12345/x54xz321"),
        ("http://old.example.org/a", "https://OLD.example.org:443/a"),
    ],
)
def test_names_that_are_compared_as_equal_have_one_key(name, same):
    assert name_key(name) == name_key(same)
    assert len(name_key(name)) == 16


def test_different_names_have_different_keys():
    names = {*FULL.names, "hdl:20.500.12345/1234567"}
    assert len({name_key(name) for name in names}) == len(names)
    with pytest.raises(ClaimError):
        name_key("no name")


def test_a_claim_can_be_replaced_field_by_field():
    assert replace(ORIGINAL, state=State.DELETED).identifiers == (REP, IBIP)
