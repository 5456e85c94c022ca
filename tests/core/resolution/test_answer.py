"""The usable content of an answer: which pairs count, and which URLs a reader may be sent to."""

from __future__ import annotations

import pytest
from support.cases import for_each

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.hosts import parse_inner_hosts
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import NO_VERBS, parse_verb_list
from flask_ibi_archive.core.resolution.answer import (
    MAX_NAME,
    MAX_URL,
    NO_ENTRY,
    Answer,
    ArchiveSource,
    Question,
    RelationEntry,
    find_usable_url,
    is_same_address,
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


# --- the URLs to which readers may be redirected ----------------------------------------------

ADDRESS = "mtc-m16c.sid.inpe.br"
LONG = "http://a.br/" + "x" * (MAX_URL - 12)


def test_a_web_url_is_usable() -> None:
    for word, url in [
        ("http://a.br/col/x?y=1#z", "http://a.br/col/x?y=1#z"),
        ("HTTPS://A.br", "HTTPS://A.br"),
        ("http://a.br:8080/", "http://a.br:8080/"),
        ("http://a.br:/", "http://a.br:/"),
        ("http://a.br/Relatório 1.pdf", "http://a.br/Relat%C3%B3rio%201.pdf"),
        ("http://a.br/Relat\udcf3rio%20{1}", "http://a.br/Relat%F3rio%20%7B1%7D"),
        ("http://150.163.34.243/x", "http://150.163.34.243/x"),
        ("http://[2001:4860:4860::8888]:80/", "http://[2001:4860:4860::8888]:80/"),
        ("http://a.br.:65535/", "http://a.br.:65535/"),
        ("http://a.br:1/", "http://a.br:1/"),
        ("http://[::ffff:150.163.34.243]/", "http://[::ffff:150.163.34.243]/"),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"),
        (LONG, LONG),
    ]:
        assert find_usable_url((word,), ADDRESS) == url, word


@pytest.mark.rule("R62-11")
def test_other_urls_are_refused() -> None:
    for words in [
        (),
        ("",),
        ("http://a.br/", "http://b.br/"),
        ("javascript:alert(1)",),
        ("data:text/html,x",),
        ("ftp://a.br/",),
        ("file:///etc/passwd",),
        ("//a.br/",),
        ("/col/x",),
        ("http:a.br",),
        ("http://",),
        ("http:///x",),
        ("http://user@a.br/",),
        ("http://user:password@a.br/",),
        ("http://a.br\\@b.br/",),
        ("http://a.br:80@b.br/",),
        ("http://a.br:123456/",),
        ("http://a.br:65536/",),
        ("http://a.br:0/",),
        ("http://a..br/",),
        ("http://.br/",),
        ("http://./",),
        (f"http://{'a' * 64}.br/",),
        (f"http://{'a.' * 127}br/",),
        ("http://[127.0.0.1]/",),
        ("http://[fe80::1%25eth0]/",),
        ("http://a.br:port/",),
        ("http://bücher.example/",),
        ("http://%31%32%37.0.0.1/",),
        ("http://a.br/\r\nSet-Cookie:x=1",),
        ("http://a.br/\0",),
        ("http://a.br/\x7f",),
        (" http://a.br/",),
        (LONG + "x",),
        ("http://a.br/" + "ã" * 3000,),
        ("http://[::1/",),
        ("http://[zz]/",),
    ]:
        assert find_usable_url(words, ADDRESS) is None, words


@for_each(
    ("other", "is_same"),
    [
        ("http://a.br/x/y", True),
        ("https://A.br:443/x/y", True),
        ("http://a.br:80/x%2Fy?z", True),
        ("http://a.br:81/x/y", False),
        ("http://a.br/x/Y", False),
        ("http://b.br/x/y", False),
        ("a.br/x/y", False),
    ],
)
def test_different_spellings_of_an_address_are_the_same(other: str, is_same: bool) -> None:
    assert is_same_address("http://a.br/x/y", other) is is_same


#: Names and unusual spellings; the internal IP addresses are in tests/core/protocol/test_hosts.py.
INTERNAL = [
    *("localhost", "LOCALHOST.", "app.localhost", "intranet", "router.home.arpa", "x.test"),
    *("10.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0x7f000001", "256.1.1.1"),
    *("[::1]", "[fd00::1]", "[::ffff:0:10.0.0.1]"),
]


def test_an_internal_host_is_only_allowed_at_the_address_of_its_archive() -> None:
    for host in INTERNAL:
        assert find_usable_url((f"http://{host}/x",), ADDRESS) is None, host
        assert find_usable_url((f"http://{host}:8000/x",), f"{host}:8001") is None, host
        assert find_usable_url((f"http://{host}:8000/x",), "other.localhost:8000") is None, host
        assert (
            find_usable_url((f"http://{host}:8000/x",), f"{host}:8000") == f"http://{host}:8000/x"
        ), host
        assert find_usable_url((f"https://{host}/x",), host) == f"https://{host}/x", host
        assert find_usable_url((f"http://{host}:80/x",), host) == f"http://{host}:80/x", host


@for_each(
    "host", ["files.corp", "FILES.corp.", "a.b.intranet", "10.1.2.3", "192.168.0.9", "[fd00::1]"]
)
def test_a_configured_internal_host_is_allowed(host: str) -> None:
    named = parse_inner_hosts(
        ["Files.Corp", ".intranet", "10.0.0.0/8", "192.168.0.9", "[fd00::]", "fd00::/8"]
    )
    url = f"http://{host}/x"
    assert find_usable_url((url,), ADDRESS, named) == url


def test_other_internal_hosts_are_not_allowed() -> None:
    for host in [
        *("a.files.corp", "intranet", "myintranet", "11.0.0.1.local", "127.0.0.1", "192.168.0.8"),
        *("167772161", "0xa.0.0.1", "[fe80::1]"),
    ]:
        named = parse_inner_hosts(
            ["files.corp", ".intranet", "10.0.0.0/8", "192.168.0.9", "fd00::/8"]
        )
        assert find_usable_url((f"http://{host}/x",), ADDRESS, named) is None, host
