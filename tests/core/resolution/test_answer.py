"""The usable content of an answer: which pairs count, and which URLs a reader may be sent to."""

from __future__ import annotations

import pytest
from support.vectors import load

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.hosts import parse_inner_hosts
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.resolution.answer import (
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
from flask_ibi_archive.core.resolution.outcome import Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl

#: The cases of the tests below.
CASES = load("resolution/answer.json")

IBIP = parse_identifier("8JMKD3MGP7W/3EPGUE5")
ARCHIVE = ArchiveSource("8JMKD3MGP8W/35MME4E", "archive.br:8080")
INNER = parse_inner_hosts([".corp", "10.0.0.0/8"])
ITEM = {"contenttype": ("Data",), "state": ("Original",)}


def answer_with(url: str, source: ArchiveSource = ARCHIVE) -> Answer:
    return Answer(source, Question(IBIP, NO_VERBS), {**ITEM, "url": (url,)})


@pytest.mark.parametrize(
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


def test_an_archive_may_lead_to_its_own_internal_address_and_its_own_host_to_every_host() -> None:
    own_address = ArchiveSource(ARCHIVE.service, "localhost:8080")
    assert parse_answer(answer_with("http://localhost:8080/x", own_address)).entries
    assert parse_answer(answer_with("http://localhost:8081/x", own_address)).entries == {}
    of_this_process = ArchiveSource(ARCHIVE.service, "archive.br", is_own=True)
    assert parse_answer(answer_with("http://localhost:8081/x", of_this_process)).entries


@pytest.mark.parametrize(
    "name", ["urls", "ibis", "state.lastedition", "url.metadata.lastedition.metadata.x", ""]
)
def test_other_pairs_are_ignored(name: str) -> None:
    answer = answer_with("http://a.br/x")
    pairs = {**answer.pairs, name: ("http://a.br/y",)}
    assert parse_answer(Answer(ARCHIVE, answer.question, pairs)) == parse_answer(answer)


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


@pytest.mark.parametrize(
    ("other", "is_same"), CASES["different spellings of an address are the same"]
)
def test_different_spellings_of_an_address_are_the_same(other: str, is_same: bool) -> None:
    assert is_same_address("http://a.br/x/y", other) is is_same


@pytest.mark.parametrize("host", CASES["a configured internal host is allowed"])
def test_a_configured_internal_host_is_allowed(host: str) -> None:
    named = parse_inner_hosts(
        ["Files.Corp", ".intranet", "10.0.0.0/8", "192.168.0.9", "[fd00::]", "fd00::/8"]
    )
    url = f"http://{host}/x"
    assert find_usable_url((url,), ADDRESS, named) == url
