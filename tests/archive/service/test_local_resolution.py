"""Resolution by one Archive: answers by value have the same outcome as answers in text."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from support.archives import archive_of, import_records
from support.networks import PREFERENCES, make_wanted
from support.stores import USERS, StoreMaker, rep_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.service import local_resolution
from flask_ibi_archive.archive.service.local_resolution import (
    LocalOutcome,
    create_local_acknowledgment,
    resolve_locally,
)
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.languages import parse_accept_language
from flask_ibi_archive.core.protocol.messages import build_response, format_request, parse_request
from flask_ibi_archive.core.protocol.pairs import encode_word, pairs_as_dict, parse_pairs
from flask_ibi_archive.core.protocol.query_strings import decode_query_string
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.resolution.answer import ArchiveSource, Question
from flask_ibi_archive.core.resolution.outcome import Redirect

KEY = "1234567890-0123456789"
PERSISTENT_URL = "http://archive.example:80/x%20y?z=%C3%A9+%252B"


def answer_by_text(archive: Archive, question: Question, client_addresses: Any) -> Any:
    """Return the answer to a question, formatted as text and parsed like an HTTP response."""
    query = format_request(question.create_request(client_addresses))
    message = parse_request(decode_query_string(query))
    pairs = parse_pairs(build_response(message, archive.list_urls))
    return pairs_as_dict(pairs)


def without_key(outcome: LocalOutcome) -> LocalOutcome:
    """Return an outcome with a fixed URL key, since each answer has a new key."""
    if isinstance(outcome, Redirect) and outcome.url_key is not None:
        return replace(outcome, url_key=KEY)
    return outcome


@pytest.mark.slow
def test_values_give_the_same_outcome_as_text(
    new_app: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(12)
    archives = [archive_of(new_app(IBI_FILTER_URL_LIST=filtered)) for filtered in (True, False)]
    archives[0].init()
    maker = StoreMaker(3, 120)
    import_records(archives[0], maker.records)
    kinds = set()
    for number in range(800):
        archive = archives[number % 2]
        wanted = make_wanted(random_, maker.records)
        ranges = parse_accept_language(random_.choice(PREFERENCES))
        users = (random_.choice(USERS),)
        by_values = without_key(resolve_locally(archive, wanted, ranges, users))
        with monkeypatch.context() as patch:
            patch.setattr(local_resolution, "answer_question", answer_by_text)
            by_text = without_key(resolve_locally(archive, wanted, ranges, users))
        assert by_values == by_text, (wanted, ranges, users)
        kinds.add((type(by_values).__name__, number % 2))
        if isinstance(by_values, Redirect):
            check_acknowledgment(by_values, users, PERSISTENT_URL)
    assert len(kinds) == 4 * 2, kinds  # each Archive had all four kinds of outcomes


def check_acknowledgment(redirect: Redirect, users: tuple[str, ...], url: str) -> None:
    """Check that the acknowledgment is the same as after an HTTP request."""
    sent = redirect.create_acknowledgment(users, url)
    received = sent and parse_request(decode_query_string(format_request(sent)))
    assert create_local_acknowledgment(redirect, users, url) == received


@given(
    st.text(st.characters(blacklist_categories=["Cs"])),
    st.sampled_from(["", "%C3%A9", "%f3", "%", "%2525", "+", "a b", "?x=%26&y"]),
    st.sampled_from([None, KEY]),
)
def test_an_acknowledgment_is_the_same_as_a_parsed_one(
    path: str, end: str, key: str | None
) -> None:
    ibi = parse_identifier(rep_of(1))
    redirect = Redirect(
        f"http://a.br/{encode_word(path + end)}",
        ArchiveSource(rep_of(2), "a.br", is_own=True),
        "Data",
        None,
        key,
        (ibi,),
        depends_on_language=False,
        question=Question(ibi, NO_VERBS),
    )
    check_acknowledgment(redirect, (USERS[0],), PERSISTENT_URL)
