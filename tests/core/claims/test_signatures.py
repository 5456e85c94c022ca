"""Signed notes, keys and checkpoints, with the examples of the specifications."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each

from flask_ibi_archive.core.claims.checkpoint import (
    Checkpoint,
    open_checkpoint,
    parse_checkpoint,
)
from flask_ibi_archive.core.claims.keys import SigningKey, VerifierKey, parse_key
from flask_ibi_archive.core.claims.merkle import EMPTY_ROOT, hash_leaf
from flask_ibi_archive.core.claims.signed_note import SignedNote, parse_note
from flask_ibi_archive.errors import ClaimError

KEY_OF_THE_EXAMPLE = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE_OF_THE_EXAMPLE = (
    "This is an example message.\n\n"
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuw"
    "HjG1Yu72IneyaQM=\n"
)
CHECKPOINT_OF_THE_EXAMPLE = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
)
ORIGIN = "dpi.inpe.br/banon/1999/01.09.22.14"
KEY = SigningKey(ORIGIN, bytes(range(32)))
OTHER = SigningKey(ORIGIN, bytes(32))
THIRD = SigningKey("J8LNKB5R7W/3FUQHC5", b"w" * 32)
TREE = Checkpoint(ORIGIN, 3, hash_leaf(b"x"))
SECONDS = 1_700_000_000


def test_the_example_of_the_specification_is_signed_by_its_key():
    key = parse_key(KEY_OF_THE_EXAMPLE)
    assert key.name == "example.com/foo"
    assert key.format() == KEY_OF_THE_EXAMPLE
    note = parse_note(NOTE_OF_THE_EXAMPLE)
    assert note.format() == NOTE_OF_THE_EXAMPLE
    assert key.verify(note)
    with pytest.raises(ClaimError, match=r"the signature of example.com/foo is false"):
        key.verify(SignedNote("This is another message.\n", note.signatures))
    assert not KEY.verifier.verify(note)


@for_each(
    "text",
    [
        "", "example.com/foo", KEY_OF_THE_EXAMPLE.replace("530d", "530e"), KEY_OF_THE_EXAMPLE[:-1],
        KEY_OF_THE_EXAMPLE.replace("Aeky", "Beky"), KEY_OF_THE_EXAMPLE.replace(".com", " com"),
        KEY_OF_THE_EXAMPLE + "\n",
    ],
)  # fmt: skip
def test_a_malformed_key_is_refused(text):
    with pytest.raises(ClaimError):
        parse_key(text)


@for_each(
    "note",
    [
        "", "text\n", "text\n\n", "text\n\n— name", "text\n\n- name AAAAAAA=\n",
        "text\n\n—  AAAAAAA=\n", "text\n\n— a+b AAAAAAA=\n", "text\n\n— name AAAA\n",
        "text\n\n— name ????\n", "te\txt\n\n— name AAAAAAA=\n", "text\n\n— name AAAAAAB=\n",
        "text\r\n\n— name AAAAAAA=\n",
    ],
)  # fmt: skip
def test_a_malformed_note_is_refused(note):
    with pytest.raises(ClaimError):
        parse_note(note)


def test_a_note_may_contain_empty_lines():
    note = parse_note("a\n\nb\n\n— name AAAAAAA=\n")
    assert note.text == "a\n\nb\n"


def test_the_example_of_a_checkpoint_is_read_and_written_again():
    checkpoint = parse_checkpoint(CHECKPOINT_OF_THE_EXAMPLE)
    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20852163)
    assert checkpoint.format() == CHECKPOINT_OF_THE_EXAMPLE
    assert parse_checkpoint(CHECKPOINT_OF_THE_EXAMPLE + "extension\n") == checkpoint


@for_each(
    "text",
    [
        "", "\n\n\n", "a\n1\n", "a\n01\nx\n", "a\n-1\nx\n", "a\n1\nAAAA\n", "a\n٣\nAAAA\n",
        CHECKPOINT_OF_THE_EXAMPLE + "\n", CHECKPOINT_OF_THE_EXAMPLE[:-1],
        CHECKPOINT_OF_THE_EXAMPLE.replace("20852163", "0"),
    ],
)  # fmt: skip
def test_a_malformed_checkpoint_is_refused(text):
    with pytest.raises(ClaimError):
        parse_checkpoint(text)


def test_an_empty_log_has_a_checkpoint():
    empty = Checkpoint(ORIGIN, 0, EMPTY_ROOT)
    assert open_checkpoint(empty.sign(KEY, SECONDS), KEY.verifier).checkpoint == empty


def test_a_signed_checkpoint_states_its_time():
    opened = open_checkpoint(TREE.sign(KEY, SECONDS), KEY.verifier)
    assert (opened.checkpoint, opened.seconds) == (TREE, SECONDS)


def test_the_signatures_of_others_do_not_disturb():
    text = TREE.format()
    lines = (
        THIRD.sign_time(text, 5),
        KEY.sign(text),
        KEY.sign_time(text, SECONDS),
        OTHER.sign(text),
    )
    opened = open_checkpoint(SignedNote(text, lines).format(), KEY.verifier)
    assert opened.seconds == SECONDS
    assert THIRD.verifier.find_time(opened.note) == 5
    assert THIRD.verifier.verify(opened.note) is False


@for_each(
    ("note", "message"),
    [
        (TREE.sign(OTHER, SECONDS), "not signed by the known key"),
        (
            SignedNote(TREE.format(), (KEY.sign(TREE.format()),)).format(),
            "no signature with a time",
        ),
        (TREE.sign(KEY, SECONDS).replace("\n3\n", "\n4\n"), "is false"),
        (
            SignedNote(TREE.format(), (KEY.sign("other\n"), KEY.sign_time("other\n", 1))).format(),
            "is false",
        ),
        (
            Checkpoint("other", 3, TREE.root).sign(SigningKey("other", KEY.seed), SECONDS),
            "is that of the log 'other'",
        ),
    ],
)
def test_a_false_checkpoint_is_refused(note, message):
    with pytest.raises(ClaimError, match=message):
        open_checkpoint(note, KEY.verifier)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_checkpoint_with_a_changed_byte_is_refused(place, change):
    data = bytearray(TREE.sign(KEY, SECONDS).encode())
    data[place % len(data)] ^= change
    try:
        note = data.decode()
    except UnicodeDecodeError:
        return
    with pytest.raises(ClaimError):
        open_checkpoint(note, KEY.verifier)


def test_a_key_shows_no_secret():
    assert "\\x" not in repr(KEY)
    assert VerifierKey(ORIGIN, KEY.verifier.public) == KEY.verifier
