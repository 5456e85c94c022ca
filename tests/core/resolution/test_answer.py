"""The usable content of an answer: which pairs count, and which URLs a reader may be sent to."""

from __future__ import annotations

from support.cases import for_each

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.hosts import parse_inner_hosts
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import NO_VERBS, parse_verb_list
from flask_ibi_archive.core.resolution.answer import (
    MAX_NAME,
    NO_ENTRY,
    Answer,
    ArchiveSource,
    Question,
    RelationEntry,
    parse_answer,
)
from flask_ibi_archive.core.resolution.choice import Analysis
from flask_ibi_archive.core.resolution.outcome import (
    Alert,
    AlertKind,
    Redirect,
    add_alternatives,
    ask_for_alternatives,
)
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl

IBIP = parse_identifier("8JMKD3MGP7W/3EPGUE5")
ARCHIVE = ArchiveSource("8JMKD3MGP8W/35MME4E", "archive.br:8080")
INNER = parse_inner_hosts([".corp", "10.0.0.0/8"])
ITEM = {"contenttype": ("Data",), "state": ("Original",)}


def answer_with(url: str, source: ArchiveSource = ARCHIVE) -> Answer:
    return Answer(source, Question(IBIP, NO_VERBS), {**ITEM, "url": (url,)})


@for_each(
    ("url", "is_usable"),
    [
        ("http://a.br/x", True),
        ("http://files.corp/x", True),
        ("http://10.1.2.3/x", True),
        ("http://localhost/x", False),
        ("http://192.168.1.1/x", False),
    ],
)
def test_an_answer_leads_to_public_hosts_and_to_the_allowed_internal_hosts(
    url: str, is_usable: bool
) -> None:
    entry = RelationEntry(url, "Data", "Original")
    entries = parse_answer(answer_with(url), INNER).entries
    assert entries.get((), NO_ENTRY) == (entry if is_usable else NO_ENTRY)
    analysis = Analysis(PersistentUrl(IBIP), (), inner_hosts=INNER)
    redirect = analysis.add_answer(answer_with(url))
    assert (isinstance(redirect, Redirect) and redirect.url == url) is is_usable


@for_each("url", ["http://files.corp/x", "http://10.1.2.3/x", "http://localhost/x"])
def test_without_a_setting_no_internal_host_is_allowed(url: str) -> None:
    assert parse_answer(answer_with(url)).entries == {}
    assert Analysis(PersistentUrl(IBIP), ()).add_answer(answer_with(url)) is None


def test_an_archive_may_lead_to_its_own_internal_address_and_its_own_host_to_every_host() -> None:
    own_address = ArchiveSource(ARCHIVE.service, "localhost:8080")
    assert parse_answer(answer_with("http://localhost:8080/x", own_address)).entries
    assert parse_answer(answer_with("http://localhost:8081/x", own_address)).entries == {}
    of_this_process = ArchiveSource(ARCHIVE.service, "archive.br", is_own=True)
    assert parse_answer(answer_with("http://localhost:8081/x", of_this_process)).entries


@for_each(("url", "finds"), [("http://files.corp/x", True), ("http://localhost/x", False)])
def test_the_alternatives_of_an_alert_use_the_same_internal_hosts(url: str, finds: bool) -> None:
    alert = Alert(AlertKind.MISSING, IBIP)
    answers = [
        Answer(ARCHIVE, question, {**ITEM, f"url{question.verbs.relation.name}": (url,)})
        for question in ask_for_alternatives(alert)
    ]
    assert bool(add_alternatives(alert, answers, INNER).alternatives) is finds
    assert add_alternatives(alert, answers).alternatives == ()


def test_an_answer_is_parsed_once_for_the_same_internal_hosts() -> None:
    answer = answer_with("http://files.corp/x")
    assert parse_answer(answer, INNER) is parse_answer(answer, INNER)
    assert parse_answer(answer, INNER) != parse_answer(answer)


@for_each("name", ["urls", "ibis", "state.lastedition", "url.metadata.lastedition.metadata.x", ""])
def test_other_pairs_are_ignored(name: str) -> None:
    answer = answer_with("http://a.br/x")
    pairs = {**answer.pairs, name: ("http://a.br/y",)}
    assert parse_answer(Answer(ARCHIVE, answer.question, pairs)) == parse_answer(answer)


def test_the_name_of_a_pair_has_at_most_256_characters() -> None:
    for length, is_read in [(MAX_NAME, True), (MAX_NAME + 1, False)]:
        format = "x" * (length - len("url.metadata()"))
        question = Question(IBIP, parse_verb_list(f"GetMetadata({format})"))
        pairs = {f"url.metadata({format})": ("http://a.br/x",)}
        assert bool(parse_answer(Answer(ARCHIVE, question, pairs)).entries) is is_read


def test_a_request_has_the_parts_of_its_question() -> None:
    verbs = parse_verb_list("GetLastEdition GetFileList")
    request = Question(IBIP, verbs, "/a%20b.txt").create_request(("192.0.2.1", "10.0.0.1"))
    assert request == UrlRequest(IBIP, ("192.0.2.1", "10.0.0.1"), "/a%20b.txt", verbs)
