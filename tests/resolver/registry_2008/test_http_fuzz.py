"""Random calls to the document registry: each call gets a well-formed answer, none fails.

IBI_FUZZ_REQUESTS sets the number of calls of the long runs, which are marked as slow.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.databases import new_database
from support.fuzz import HEADERS, REMOTES, SCRAPS, scrap, spoil
from support.pages import Page
from support.registry_calls import (
    COPY_URL,
    DATE,
    DOCUMENT,
    FORM,
    HERMES,
    ICONET,
    PASSWORD,
    URL,
    Pairs,
    actor_call,
    call,
    document_call,
    read_text,
    read_xml,
    registry_app,
    registry_of,
    verb_call,
)
from support.web import Answer

from flask_ibi_archive.core.protocol.pairs import parse_pairs
from flask_ibi_archive.core.protocol.query_strings import format_query_string
from flask_ibi_archive.core.protocol.registry_2008.registry_messages import MAX_BODY

SHORT_RUN = 300
LONG_RUN = int(os.environ.get("IBI_FUZZ_REQUESTS", "10000"))

NEW, OTHER = "a.br/new/2001/01.01.00.00", "a.br/other/2001/01.01.00.00"
ACTORS = [HERMES, HERMES, HERMES, ICONET, ICONET, NEW, "a.br/nobody/2001/01.01.00.00", ""]
DOCUMENTS = [DOCUMENT, DOCUMENT, OTHER, "8JMKD3MGP8W/34PGRBS", "a.br/none/2001/01.01.00.00", ""]
VALUES = [HERMES, DOCUMENT, PASSWORD, URL, COPY_URL, DATE, "yes", "no", "pt-BR", "oai_dc", "", "80",
          "0", "65536", "127.0.0.1", "::1", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00Z",
          "a@b.br", "x" * 256, "http://a.br/" + "x" * 2040, "http://u:p@a.br/", "http://é.br/é",
          "http://a.br/é", "\ufffe", "\u2028", "]]>", "<error>"]  # fmt: skip
METHODS = [*["POST"] * 30, *["GET"] * 8, *["HEAD"] * 2, "PUT", "OPTIONS", "BREW", "get", ""]
KINDS = [
    *[FORM] * 30,
    f"{FORM};",
    "text/plain",
    "multipart/form-data; boundary=x",
    None,
    "",
    "\xff",
]
ACCEPTS = [
    "",
    "",
    "*/*",
    "text/xml",
    "text/plain",
    "text/plain",
    "text/html",
    "text/html;q=x",
    "\xff",
]
RESTS = ["/", "/schema.xsd", f"/{DOCUMENT}", f"/{DOCUMENT}", f"/{OTHER}", f"/{DOCUMENT}/x"]
LENGTHS = ["-1", "x", "", "0", "1", "99999999999999999999", str(MAX_BODY)]


def random_call(chance: random.Random) -> Pairs:
    """Return the arguments of a correct call."""
    actor, document = chance.choice(ACTORS), chance.choice(DOCUMENTS)
    url, other = chance.sample([URL, COPY_URL, "http://a.br/é?x=&y"], 2)
    password = PASSWORD if chance.random() < 0.9 else "wrong"
    match chance.randrange(7):
        case 0:
            return actor_call(actor, ip=chance.choice(["127.0.0.1", "8.8.8.8"]))
        case 1:
            # the password stays the same, so that later calls are still correct
            return verb_call("ChangePassword", actor, password, newPassword=PASSWORD)
        case 2:
            return verb_call("ChangeEMailAddress", actor, password, newEmailAddress="a@b.br")
        case 3:
            original = chance.choice(["yes", "no"])
            pairs = document_call(actor, document, url, originalDocument=original)
            metadata = [("metadataURL", other), ("metadataLastUpdate", DATE)]
            return [*pairs, *metadata * chance.choice([0, 1, 2, 99, 101])]
        case 4:
            new = chance.choice([HERMES, ICONET])
            return verb_call("ChangeActor", actor, password, documentID=document, newActorID=new)
        case 5:
            return verb_call("DeleteDocumentRegistration", actor, password, documentID=document)
    return verb_call("DisplayIDRegistration", actor, password, documentID=document)


def random_arguments(chance: random.Random) -> bytes:
    """Return arguments that are correct, or changed, or any bytes."""
    kind = chance.random()
    if kind < 0.05:
        return b"&".join(scrap(chance) for _ in range(chance.randrange(8)))
    if kind < 0.07:
        return b"ibi=" + spoil(chance, DOCUMENT.encode())
    if kind < 0.09:
        return b"verb=" + b"x" * chance.choice([8192, MAX_BODY])
    pairs = list(random_call(chance))
    if kind < 0.5:
        return format_query_string(pairs).encode()
    for _ in range(chance.choice([1, 1, 2, 5])):
        place = chance.randrange(len(pairs))
        name, value = pairs[place]
        match chance.randrange(5):
            case 0:
                del pairs[place : place + 1]
            case 1:
                pairs.append((name, value))
            case 2:
                pairs[place] = name, chance.choice(VALUES)
            case 3:
                pairs.insert(place, (chance.choice(pairs)[0], chance.choice(VALUES)))
            case 4:
                chance.shuffle(pairs)
        pairs = pairs or [("verb", "x")]
    return spoil(chance, format_query_string(pairs).encode())


def random_requests(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield the options of calls, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        method, rest = chance.choice(METHODS), ""
        if chance.random() < 0.2:
            method, rest = chance.choice([method, "GET", "GET"]), chance.choice(RESTS)
        arguments = random_arguments(chance)
        split = 0
        if method != "POST" or chance.random() < 0.1:
            split = len(arguments) if method != "POST" else chance.randrange(len(arguments) + 1)
        names = chance.sample(sorted(HEADERS), chance.choice([0, 0, 0, 1, 2]))
        headers = {name: chance.choice(HEADERS[name]) for name in names}
        if rest and chance.random() < 0.3:
            rest += (b"/" + spoil(chance, chance.choice(SCRAPS))).decode("latin-1")
        # most senders are new, because the number of wrong passwords of a sender is limited
        remote = ".".join(map(str, (150, *chance.randbytes(3))))
        options: dict[str, Any] = {
            "query": arguments[:split].translate(None, b" \r\n#"),
            "body": arguments[split:],
            "method": method,
            "rest": rest.replace("?", ""),
            "kind": chance.choice(KINDS),
            "accept": chance.choice(ACCEPTS),
            "headers": {name: value for name, value in headers.items() if name != "Content-Length"},
            "remote": chance.choice(REMOTES) if chance.random() < 0.1 else remote,
        }
        if chance.random() < 0.05:
            options["CONTENT_LENGTH"] = chance.choice(LENGTHS)
        yield options


def check_answer(answer: Answer) -> None:
    """Check that an answer is well-formed."""
    assert answer.status < 500
    assert b"Traceback" not in answer.body
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    kind = answer.headers["Content-Type"]
    if not answer.body:  # a redirect, or the answer to a HEAD request
        return
    if kind.startswith("text/xml") and b"<xs:schema" not in answer.body:
        root = read_xml(answer)
        assert (answer.status == 200) is (root.find("error") is None)
    elif kind == "text/plain":
        # a malformed Host header and other paths get an alert
        if [pair.name for pair in parse_pairs(answer.body)][:1] != ["alert"]:
            read_text(answer)
    else:
        assert kind.startswith(("text/html", "text/xml"))
        if kind.startswith("text/html"):
            assert Page(answer.text).text("h1")


@pytest.mark.rule("P4-01")
@pytest.mark.parametrize(
    ("count", "in_urls"), [(SHORT_RUN, True), pytest.param(LONG_RUN, False, marks=pytest.mark.slow)]
)
def test_each_call_gets_a_well_formed_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, backend: str, count: int, in_urls: bool
) -> None:
    statuses: dict[int, int] = {}
    with (
        new_database(backend, tmp_path) as uri,
        registry_app(
            tmp_path,
            IBI_RESOLVER_DATABASE_URI=uri,
            IBI_RESOLVER_REGISTRY_PASSWORDS_IN_URLS=in_urls,
            IBI_TRUSTED_PROXIES="150.0.0.0/8",
        ) as app,
    ):
        for actor in (HERMES, ICONET):
            assert call(app, actor_call(actor)).status == 200
        caplog.set_level(logging.WARNING)
        caplog.clear()
        registry_of(app).wait = lambda seconds: None
        for options in random_requests(20080717, count):
            try:
                answer = call(app, **options)
                check_answer(answer)
            except Exception as error:
                raise AssertionError(f"{options}"[:2000]) from error
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
        assert call(app, actor_call()).status == 200
    assert not caplog.records
    # the calls reach all parts of the registry
    assert {200, 400, 403, 404, 405, 409, 415} <= set(statuses), statuses
    assert statuses[200] > count / 10, statuses
    if count > SHORT_RUN:
        assert {302, 413, 429} <= set(statuses), statuses
        assert not in_urls or 414 in statuses, statuses
