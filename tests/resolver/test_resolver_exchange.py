"""The messages of the examples in [R] 8 between a user, a resolver and an Archive."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from support.archive_servers import Servers, http
from support.loopback import PATIENCE
from support.registries import KEY, a_registry, a_request
from support.resolving import app_over, resolver_of
from support.vectors import FOLDER, load
from support.web import Answer, ask

EXAMPLES = load("resolution/examples.json")
examples = pytest.mark.parametrize("example", EXAMPLES, ids=[one["source"] for one in EXAMPLES])
BROWSER = "Mozilla/5.0 (X11; Linux x86_64)"
#: An Archive that does not know the item.
OTHER = "dpi.inpe.br/banon/1999/01.09.22.14"


class RecordedArchive:
    """The Archive of an example; it returns the recorded answers byte for byte."""

    def __init__(self, hosts: Servers, example: dict[str, Any]) -> None:
        self.base = example["url_requests"][0].partition("?")[0]
        answers = sorted((FOLDER / example["items"]).glob("answer*.txt"))
        self.answers = {
            self.here(url): http(answer.read_bytes())
            for url, answer in zip(example["url_requests"], answers, strict=True)
        }
        self.service = urlsplit(self.base).path[1:]
        self.came: SimpleQueue[str] = SimpleQueue()
        self.server = hosts.add(self)

    def here(self, url: str) -> str:
        """Return path and query of a URL."""
        parts = urlsplit(url)
        return f"{parts.path}?{parts.query}"

    def __call__(self, target: str, head: str) -> bytes:
        """Answer a request."""
        self.came.put(target)
        if "servicesubject=acknowledgment" in target:
            return http("notice {acknowledgment received}")
        return self.answers.get(target) or http("alert {not in the document}", "400 Bad Request")

    def next(self) -> str:
        """Return the next request, as it would be sent to the Archive of the standard."""
        return f"http://{urlsplit(self.base).netloc}{self.came.get(timeout=PATIENCE)}"


@pytest.fixture
def archive(hosts: Servers, example: dict[str, Any]) -> RecordedArchive:
    """The Archive of the example."""
    return RecordedArchive(hosts, example)


def follow(app: Flask, example: dict[str, Any], more: str = "") -> Answer:
    """Request the persistent URL of an example as its user does, through a trusted proxy."""
    user, proxy = example["client_ips"]
    parts = urlsplit(example["persistent_url"])
    headers = {
        "Host": parts.netloc,
        "Accept-Language": example["accept_language"],
        "X-Forwarded-For": user,
        "User-Agent": BROWSER,
    }
    return ask(app, f"{parts.path}{more}", headers=headers, remote=proxy)


def include(app: Flask, service: str, address: str) -> None:
    registry = a_registry(resolver_of(app).database)
    registry.register(service, KEY)
    registry.process(a_request(service_ibi=service, address=address))


@pytest.mark.rule("R62-07", "R8-01", "R8-03")
@examples
def test_messages_and_redirect_are_those_of_the_standard(
    example: dict[str, Any], archive: RecordedArchive, hosts: Servers, tmp_path: Path
) -> None:
    other = hosts.add(lambda target, head: http(""))
    with app_over([], tmp_path, IBI_TRUSTED_PROXIES=example["client_ips"][1]) as app:
        include(app, archive.service, archive.server.address)
        include(app, OTHER, other.address)
        answer = follow(app, example)
        assert (answer.status, answer.headers["Location"]) == (302, example["redirect"])
        assert [archive.next() for _ in example["url_requests"]] == example["url_requests"]
        assert archive.next() == example["acknowledgment"]
        resolver_of(app).close(PATIENCE)
    assert archive.came.empty()
    # others get the same questions but no acknowledgment; the last round does not wait for them
    questions = [urlsplit(url).query for url in example["url_requests"]]
    asked = [urlsplit(target) for target in other.asked]
    assert {one.path for one in asked} <= {f"/{OTHER}"}
    assert [one.query for one in asked] in (questions, questions[:-1])


@pytest.mark.rule("R62-04")
@examples
def test_languages_and_required_status_are_not_sent_to_archives(
    example: dict[str, Any], archive: RecordedArchive, tmp_path: Path
) -> None:
    with app_over([], tmp_path, IBI_TRUSTED_PROXIES=example["client_ips"][1]) as app:
        include(app, archive.service, archive.server.address)
        answer = follow(app, example, "?ibiurl.requireditemstatus=Original")
        assert answer.headers["Location"] == example["redirect"]
        assert [archive.next() for _ in example["url_requests"]] == example["url_requests"]
        archive.next()
        resolver_of(app).close(PATIENCE)
    assert not [head for head in archive.server.heads if "Accept-Language" in head]
