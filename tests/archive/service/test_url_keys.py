"""URL keys: they identify the item of an answer and cannot be forged ([R] 6.2, Table 5.1)."""

from __future__ import annotations

import hmac
import random
import re
from collections.abc import Callable

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from support.archives import archive_of

from flask_ibi_archive.archive.service.url_keys import (
    CLOCK_LEEWAY,
    MAX_LENGTH,
    KeyFacts,
    URLKeys,
)
from flask_ibi_archive.core.protocol.inclusion import is_key

IBI = "8JMKD3MGP8W/35MME4E"
NOW = 1_424_636_122.75


def keys(*secrets: str | bytes, now: float = NOW, max_age: float = 3600) -> URLKeys:
    return URLKeys(secrets or ("a secret",), max_age, lambda: now)


def verify(ours: URLKeys, key: str) -> KeyFacts | None:
    """Return the content of a key that is neither forged nor expired."""
    facts = ours.read(key)
    return facts if facts is not None and ours.is_current(facts) else None


@pytest.mark.rule("R72-09", "R72-10")
def test_a_key_is_unique_and_valid_for_an_hour() -> None:
    # a key contains the unix second and the identifier
    for ibi in [IBI, "sid.inpe.br/mtc-m18@80/2008/03.17.15.17", "x" * 255]:
        for now in [1.0, NOW, 99_999_999_999.0]:
            ours = keys(now=now)
            key = ours.issue(ibi)
            assert is_key(key)
            assert re.fullmatch(rf"0*{int(now)}-[0-9]{{70,}}", key)
            assert len(key) <= MAX_LENGTH
            facts = verify(ours, key)
            assert facts is not None
            assert (facts.ibi, facts.issued, len(facts.nonce)) == (ibi, int(now), 8)
    # all keys are different
    ours = keys()
    issued = [ours.issue(IBI) for _ in range(2000)]
    assert len(set(issued)) == len(issued)
    again = []
    for _ in range(2):
        random.seed(7)  # as an app may
        again.append(ours.issue(IBI))
    assert again[0] != again[1]
    assert len({facts.nonce for key in issued if (facts := verify(ours, key))}) == len(issued)
    # a key is valid for an hour and not before it is issued
    for later, good in [
        (3599, True),
        (3599.25, True),  # an hour after the issued second
        (3600.25, False),
        (-CLOCK_LEEWAY - 0.75, True),
        (-CLOCK_LEEWAY - 1, False),
    ]:
        key = keys().issue(IBI)
        assert (verify(keys(now=NOW + later), key) is not None) is good


def test_other_texts_are_no_keys() -> None:
    # a key signed with another secret is invalid
    for secrets in [("another",), (b"A secret",), ("a", "secret")]:
        assert verify(keys(*secrets), keys().issue(IBI)) is None
    # keys that an earlier version issued are valid
    facts = verify(keys(), sign(b"\2" + IBI.encode() + NONCE))
    assert facts is not None
    assert (facts.ibi, facts.issued, facts.nonce) == (IBI, int(NOW), NONCE)
    # a signed text of another form is no key
    for value in [b"\1" + (7).to_bytes(8, "big") + NONCE, b"\3" + IBI.encode() + NONCE, b""]:
        assert verify(keys(), sign(value)) is None
    # text that is not one of our keys is invalid
    for key in [
        "",
        "1424636122",
        "1424636122-5331490054869684",
        "1424636122-" + "9" * 5000,
        "1424636122-1234567890\n",
    ]:
        assert verify(keys(), key) is None


def sign(value: bytes) -> str:
    """Return a key with any content, signed as described in the module, with "a secret"."""
    secret = hmac.digest(b"a secret", b"flask_ibi_archive.url_key", "sha256")
    signature = hmac.digest(secret, b"%d-%b" % (int(NOW), value), "sha256")[:16]
    return f"{int(NOW)}-{int.from_bytes(value + signature, 'big')}"


NONCE = bytes(range(8))


@pytest.mark.rule("R72-10")
@given(st.integers(0, 3), st.integers(0, 2**256 - 1), st.integers(1, 2**128 - 1))
def test_no_forged_key_is_accepted(kind: int, bits: int, half: int) -> None:
    """Any number, another signature, another item, the halves of two keys."""
    ours = keys()
    value, other = (int(ours.issue(f"{IBI}{n}").partition("-")[2]) for n in range(2))
    forged = (
        (1 << 256) | bits,
        value ^ half,
        value ^ (half << 128),
        (value >> 128 << 128) | (other & (2**128 - 1)),
    )[kind]
    key = f"{int(NOW)}-{forged}"
    assert is_key(key)
    assert verify(ours, key) is None


def test_url_keys_use_the_settings_of_the_app(new_app: Callable[..., Flask]) -> None:
    before = archive_of(new_app(SECRET_KEY="old", IBI_URL_KEY_MAX_AGE=5)).url_keys
    now = archive_of(new_app(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["old", "older"])).url_keys
    assert before.max_age == 5
    assert now.max_age == 3600
    assert verify(now, before.issue(IBI)) is not None
    assert verify(now, keys("older", now=now.clock()).issue(IBI)) is not None
    assert verify(before, now.issue(IBI)) is None
    assert verify(keys("new", now=now.clock()), now.issue(IBI)) is not None
