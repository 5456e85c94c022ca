"""Claims, pages and keys as text (federation CL-1, CL-3 and CL-5)."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from support.identifier_strategies import GRAPHEMES, repository_names

from flask_ibi_archive.core.claim import (
    MAX_NAME,
    MAX_NAMES,
    MAX_PAGE,
    Claim,
    Page,
    fold_name,
    format_claim,
    format_key,
    format_page,
    parse_claim,
    parse_key,
    parse_page,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import PeerProtocolError

REP, IBIP = "dpi.inpe.br/banon/1999/01.09.22.14", "8JMKD3MGP8W/34PGRBS"
SERVICE = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
TIME = "2009-07-21T13:23:45Z"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
EPOCH = "5f2c9a1704b6d8e3"

#: Claims and their lines.
LINES = [
    (Claim("18"), "item 18 state Unclaimed"),
    (
        Claim("17", REP, IBIP, State.ORIGINAL, TIME),
        f"item 17 ibi {{rep {REP} ibip {IBIP}}} state Original timestamp {TIME}",
    ),
    (
        Claim("1", None, IBIP, State.COPY, TIME, SERVICE),
        f"item 1 ibi {{ibip {IBIP}}} state Copy timestamp {TIME} ibi.archiveservice {SERVICE}",
    ),
    (
        Claim("1", REP, None, State.DELETED, TIME, SERVICE),
        f"item 1 ibi {{rep {REP}}} state Deleted timestamp {TIME} ibi.archiveservice {SERVICE}",
    ),
    (
        Claim("1", REP, None, State.DELETED, TIME, None, ("QABCDZ/1", "doi:10.1234/é{}%41 ")),
        f"item 1 ibi {{rep {REP}}} state Deleted timestamp {TIME}"
        " aliases {QABCDZ/1 doi:10.1234/%C3%A9%7B%7D%2541}",
    ),
]


@pytest.mark.parametrize(("claim", "line"), LINES, ids=lambda value: str(value)[:20])
def test_a_claim_is_one_line(claim: Claim, line: str) -> None:
    claim = replace(claim, aliases=tuple(alias.strip() for alias in claim.aliases))
    assert format_claim(claim) == line
    assert parse_claim(line) == claim
    assert parse_claim(f"unknown {{pair}} {line}") == claim


def ibips() -> st.SearchStrategy[str]:
    return st.text(GRAPHEMES, min_size=1, max_size=9).map(lambda word: f"8JMKD3MGP8W/{word}")


_suffixes = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20).map(
    lambda text: f"doi:10.1234/{text}"
)
_aliases = st.one_of(
    _suffixes,
    ibips(),
    st.integers(0, 10**9).map(lambda number: f"http://a.br:8080/{number}?x=%C3%A9"),
    st.integers(0, 10**9).map(lambda number: f"urn:nbn:br:x-{number}"),
)
_claims = st.builds(
    Claim,
    st.from_regex(r"[0-9a-f]{1,32}", fullmatch=True),
    repository_names().map(str.lower),
    st.none() | ibips(),
    st.sampled_from([State.COPY, State.DELETED]),
    st.just(TIME),
    repository_names().map(str.lower),
    st.lists(_aliases, max_size=9, unique=True).map(tuple),
)


@given(_claims)
def test_a_claim_is_parsed_as_it_was_made(claim: Claim) -> None:
    line = format_claim(claim)
    assert line.isascii()
    assert "\n" not in line
    assert parse_claim(line) == claim


#: A change of a claim that makes it malformed, and the name of the pair in the message.
WRONG = {
    "item": [("item 17", "item {}"), ("item 17", "item a:b"), ("item 17 ", "")],
    "state": [("Original", "Reserved"), ("Original", "{}"), ("state Original", "x y")],
    "ibi": [(REP, REP.upper()), (REP, IBIP), ("rep ", "legacy "), (f"{{rep {REP}}}", "{}")],
    "timestamp": [(TIME, "2009-07-21"), (f"timestamp {TIME}", "")],
    "ibi.archiveservice": [
        ("Original", "Copy"),
        ("state", f"ibi.archiveservice {SERVICE} state"),
        ("state Original", f"ibi.archiveservice {SERVICE.upper()} state Copy"),
        ("state Original", f"ibi.archiveservice {{{SERVICE} {REP}}} state Copy"),
    ],
    "aliases": [
        ("item", f"aliases {{{' '.join(f'hdl:20.500/{n}' for n in range(MAX_NAMES))}}} item"),
        ("item", "aliases doi:10.1234/%FF item"),
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_malformed_claim_is_refused_by_the_name_of_its_pair(name: str) -> None:
    line = f"item 17 ibi {{rep {REP}}} state Original timestamp {TIME}"
    parse_claim(line)
    for old, new in WRONG[name]:
        assert old in line
        with pytest.raises(PeerProtocolError, match=rf"^{name}: "):
            parse_claim(line.replace(old, new))


@pytest.mark.parametrize("alias", ["mailto:a", "doi:10.1234/a%20b", "doi:10.1234/" + "a" * 2037])
def test_a_name_that_is_no_alias_or_is_too_long_is_refused(alias: str) -> None:
    with pytest.raises(PeerProtocolError):
        parse_claim(f"item 1 ibi {{rep {REP}}} state Original timestamp {TIME} aliases {alias}")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (REP, REP.upper()),
        ("doi:10.1234/ABC", "https://doi.org/10.1234/abc"),
        ("http://a.br:80/x", "https://A.br/x"),
        ("ark:12345/x-5", "ark:/12345/x5"),
    ],
)
def test_equal_names_have_one_form(one: str, other: str) -> None:
    assert fold_name(one) == fold_name(other)


@given(st.text(st.sampled_from("aé€%{"), min_size=500, max_size=2036))
def test_a_name_and_its_folded_form_fit_into_an_index(suffix: str) -> None:
    name = f"doi:10.1234/{suffix}"
    try:
        folded = fold_name(name)
    except PeerProtocolError:
        assert len(format_claim(Claim("1", REP, None, State.ORIGINAL, TIME, None, (name,)))) > 2100
    else:
        assert len(folded.encode()) <= MAX_NAME


def test_the_longest_claim_fits_into_a_page() -> None:
    longest = [f"doi:10.1234/{number:03}{'a' * 2033}" for number in range(MAX_NAMES - 1)]
    claim = Claim("9" * 255, REP, None, State.COPY, TIME, SERVICE, tuple(longest))
    assert parse_claim(format_claim(claim)) == claim
    assert len(format_claim(claim)) < MAX_PAGE


# --- pages ---------------------------------------------------------------------------------------

PAGE = Page(
    SERVICE, EPOCH, "", f"2-2-9c41d0be6a5f0173-{EPOCH}", False, "2026-03-01T12:00:00Z",
    ("8JMKD3MGP8W", "dpi.inpe.br/banon"), tuple(line for _, line in LINES),
)  # fmt: skip


def test_a_page_is_readable_text() -> None:
    header = f"""archive {SERVICE}
epoch {EPOCH}
after {{}}
position 2-2-9c41d0be6a5f0173-{EPOCH}
more false
time 2026-03-01T12:00:00Z
hidden {{8JMKD3MGP8W dpi.inpe.br/banon}}
"""
    text = format_page(PAGE, KEY).decode()
    lines = "".join(f"{line}\n" for line in PAGE.claims)
    signature = b64encode(KEY.sign((header + lines).encode())).decode()
    assert text == f"{header}{lines}signature {signature}\n"


_positions = st.from_regex(r"[0-9]{1,9}-[0-9a-f-]{1,40}", fullmatch=True)


@given(
    _positions | st.just(""),
    _positions,
    st.booleans(),
    st.lists(ibips().map(lambda ibi: ibi.partition("/")[0]), max_size=3).map(tuple),
    st.lists(st.sampled_from([line for _, line in LINES]), max_size=5).map(tuple),
)
def test_a_page_is_parsed_as_it_was_made(
    after: str, position: str, more: bool, hidden: tuple[str, ...], lines: tuple[str, ...]
) -> None:
    page = Page(SERVICE, EPOCH, after, position, more, TIME, hidden, lines)
    assert parse_page(format_page(page, KEY), KEY.public_key()) == page


@given(st.integers(0, 10**9), st.integers(1, 255))
def test_a_changed_byte_makes_the_signature_wrong(place: int, change: int) -> None:
    body = bytearray(format_page(PAGE, KEY))
    end = body.index(b"signature ")
    body[place % end] ^= change
    with pytest.raises(PeerProtocolError, match="signature"):
        parse_page(bytes(body), KEY.public_key())


@pytest.mark.parametrize(
    "body", [b"", b"signature \n", b"archive a\n", b"\nsignature x\n", b"\xff"]
)
def test_what_is_no_signed_page_is_refused(body: bytes) -> None:
    with pytest.raises(PeerProtocolError, match="signature"):
        parse_page(body, KEY.public_key())


@pytest.mark.parametrize("name", ["archive", "epoch", "position", "more", "time"])
def test_a_malformed_header_is_refused_by_its_name(name: str) -> None:
    lines = format_page(PAGE, KEY).decode().splitlines()[:-1]
    [number] = [number for number, line in enumerate(lines) if line.startswith(f"{name} ")]
    for wrong in ([], [f"{name} {{a b}}"], [f"{name} {{}}"]):
        content = "\n".join([*lines[:number], *wrong, *lines[number + 1 :], ""]).encode()
        signed = content + b"signature " + b64encode(KEY.sign(content)) + b"\n"
        with pytest.raises(PeerProtocolError, match=f"^{name}: "):
            parse_page(signed, KEY.public_key())


# --- keys ----------------------------------------------------------------------------------------


def test_a_key_is_two_pairs() -> None:
    text = format_key(SERVICE, KEY.public_key())
    assert text == f"archive {SERVICE}\nkey A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n"
    assert parse_key(text, SERVICE) == KEY.public_key()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (format_key(REP, KEY.public_key()), "archive: the key is not that of"),
        (f"archive {SERVICE}\nkey AAAA\n", "key: not an Ed25519 key"),
        (f"archive {SERVICE}\nkey é\n", "key: not an Ed25519 key"),
        (f"archive {SERVICE}\n", "key: not an Ed25519 key"),
    ],
)
def test_a_malformed_key_is_refused(text: str, message: str) -> None:
    with pytest.raises(PeerProtocolError, match=f"^{message}"):
        parse_key(text, SERVICE)
