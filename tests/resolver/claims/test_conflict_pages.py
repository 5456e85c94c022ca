"""The list of conflicts: page, JSON, Atom feed and command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
from flask import Flask
from sqlalchemy import update
from support.cases import for_each
from support.commands import command
from support.pages import Page
from support.registries import NOON, SERVICE, a_registry, included
from support.resolving import app_over, resolver_of
from support.web import Answer, ask

from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.old_claims.conflict_pages import PAGE
from flask_ibi_archive.resolver.old_claims.conflicts import end_conflicts, note_rival
from flask_ibi_archive.resolver.old_claims.tables import Conflict

OPEN, ENDED = "8JMKD3MGP8W/34PGRBS", "8JMKD3MGP8W/35MMLL8"
OTHER_FORM = "dpi.inpe.br/banon/2009/02.16.17.53"
ATOM = "{http://www.w3.org/2005/Atom}"
PATH = "/ibi/conflicts"
BASE = f"https://urlib.net{PATH}"
ARCHIVES = [
    {"service": SERVICE, "address": "a0.example.org:80"},
    {"service": "a.br/archive1/2001/01.01.00.00", "address": "a1.example.org:80"},
]
#: The conflicts in JSON.
FIRST = {
    "id": 1,
    "url": f"{BASE}/1",
    "ibi": ENDED,
    "other_ibi": None,
    "state": "ended",
    "found_at": "2026-03-01T12:00:00Z",
    "ended_at": "2026-03-03T12:00:00Z",
    "told_at": "2026-03-01T12:01:00Z",
    "archives": ARCHIVES,
}
SECOND = {
    **FIRST,
    "id": 2,
    "url": f"{BASE}/2",
    "ibi": OPEN,
    "other_ibi": OTHER_FORM,
    "state": "open",
    "ended_at": None,
    "told_at": None,
}


@pytest.fixture
def resolver(tmp_path: Path) -> Iterator[Flask]:
    """A resolver with two Archives and without a conflict."""
    with app_over([], tmp_path, SERVER_NAME="urlib.net", PREFERRED_URL_SCHEME="https") as app:
        included(a_registry(resolver_of(app).database), 2)
        yield app


@pytest.fixture
def app(resolver: Flask) -> Flask:
    """The resolver with a conflict that is open, and one that has ended."""
    with resolver_of(resolver).database.writing() as connection:
        note_rival(connection, ENDED, 1, 2, NOON)
        connection.execute(update(Conflict).values(told_at=NOON + timedelta(minutes=1)))
        end_conflicts(connection, ENDED, 1, NOON + timedelta(days=2))
        note_rival(connection, OPEN, 2, 1, NOON, OTHER_FORM)
    return resolver


def see(app: Flask, query: str = "", status: int = 200, **named: str) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in named.items()}
    answer = ask(app, f"{PATH}{query}", headers={"Host": "urlib.net", **headers})
    assert answer.status == status
    assert "@" not in answer.text  # no e-mail addresses
    return answer


def see_json(app: Flask, query: str) -> Any:
    answer = see(app, query)
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    return json.loads(answer.text)


@for_each(
    ("query", "shown"),
    [("", [2]), ("?state=open", [2]), ("?state=ended", [1]), ("?state=all", [2, 1]),
     ("?state=all&before=2", [1]), ("?before=1", [])],
)  # fmt: skip
def test_the_list_shows_the_conflicts_of_a_state(app: Flask, query: str, shown: list[int]) -> None:
    page = Page(see(app, query, Accept="text/html").text)
    links = [urlsplit(link).path for link in page.links]
    assert [f"{PATH}/{number}" for number in shown] == [
        link for link in links if link.startswith(f"{PATH}/")
    ]
    assert page.text("h1") == "Conflicts between Archives"
    query = f"{query}&format=json" if query else "?format=json"
    listed = see_json(app, query)
    assert listed == {
        "conflicts": [{1: FIRST, 2: SECOND}[number] for number in shown],
        "next": None,
    }


def test_the_page_of_a_conflict_names_both_archives(app: Flask) -> None:
    page = Page(see(app, "/2").text)
    assert page.text("h1") == f"Two Archives claim to have the original of {OPEN}"
    text = page.text("dt") + page.text("code") + page.text("a")
    for archive in ARCHIVES:
        assert archive["service"] in text
        assert archive["address"] in text
        assert f"http://{archive['address']}/{OPEN}" in page.links
    assert f"https://urlib.net/{OPEN}" in text
    assert OTHER_FORM in page.text("code")
    assert "How the conflict ends" in page.text("h2")
    page = Page(see(app, "/1").text)
    assert "How the conflict ends" not in page.text("h2")
    assert page.text("h1") == f"The conflict about {ENDED} has ended"
    assert "This conflict has ended" in page.text("p")
    assert see_json(app, "/1?format=json") == FIRST
    assert see_json(app, "/2?format=json") == SECOND


def test_the_pages_are_in_the_readers_language(app: Flask) -> None:
    assert "Conflitos entre acervos" in see(app, Accept_Language="pt-BR").text
    assert "Conflictos entre repositorios" in see(app, Accept_Language="es").text
    assert "Dois acervos declaram" in see(app, "/2", Accept_Language="pt-BR").text


@for_each(
    ("accept", "media_type"),
    [
        ("", "text/html"),
        ("*/*", "text/html"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("application/json", "application/json"),
        ("application/json, text/html;q=0.5", "application/json"),
        ("application/atom+xml", "application/atom+xml"),
        ("image/png", "text/html"),
    ],
)
def test_the_format_is_that_of_the_accept_header(app: Flask, accept: str, media_type: str) -> None:
    answer = see(app, Accept=accept)
    assert answer.headers["Content-Type"] == f"{media_type}; charset=utf-8"
    assert "Accept" in answer.headers["Vary"]


def test_the_feed_has_an_entry_for_each_conflict(app: Flask) -> None:
    answer = see(app, "?format=atom")
    assert answer.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    feed = ElementTree.fromstring(answer.text)
    assert feed.tag == f"{ATOM}feed"
    assert feed.findtext(f"{ATOM}id") == f"{BASE}?format=atom"
    assert feed.findtext(f"{ATOM}updated") == FIRST["ended_at"]
    assert feed.findtext(f"{ATOM}author/{ATOM}name") == "https://urlib.net"
    links = {link.get("rel"): link.get("href") for link in feed.findall(f"{ATOM}link")}
    assert links == {"self": f"{BASE}?format=atom", "alternate": BASE}
    entries = [
        tuple(entry.findtext(f"{ATOM}{name}") for name in ("id", "title", "updated", "published"))
        for entry in feed.findall(f"{ATOM}entry")
    ]
    assert entries == [
        (
            f"{BASE}/2",
            f"Two Archives claim to have the original of {OPEN}",
            SECOND["found_at"],
            SECOND["found_at"],
        ),
        (
            f"{BASE}/1",
            f"The conflict about {ENDED} has ended",
            FIRST["ended_at"],
            FIRST["found_at"],
        ),
    ]
    again = see(app, "?format=atom", 304, If_None_Match=answer.headers["ETag"])
    assert again.text == ""


def test_without_conflicts_the_list_is_empty(resolver: Flask) -> None:
    assert "There are no open conflicts." in see(resolver).text
    assert "No conflict has ended yet." in see(resolver, "?state=ended").text
    assert "No conflict has been found yet." in see(resolver, "?state=all").text
    assert see_json(resolver, "?format=json") == {"conflicts": [], "next": None}
    feed = ElementTree.fromstring(see(resolver, "?format=atom").text)
    assert feed.findtext(f"{ATOM}updated") == "1970-01-01T00:00:00Z"
    assert command(resolver, "conflicts", "--json", group=ibi_resolver).data == "[]\n"


def test_a_long_list_has_pages(resolver: Flask) -> None:
    with resolver_of(resolver).database.writing() as connection:
        for number in range(2 * PAGE + 1):
            note_rival(connection, f"a.br/b/2001/01.01.00.{number:03d}", 1, 2, NOON)
    query, found = "?format=json", []
    while query:
        listed = see_json(resolver, query)
        found.append([conflict["id"] for conflict in listed["conflicts"]])
        query = (listed["next"] or "").removeprefix(BASE)
    assert [len(page) for page in found] == [PAGE, PAGE, 1]
    assert [number for page in found for number in page] == list(range(2 * PAGE + 1, 0, -1))
    page = Page(see(resolver).text)
    [next_link] = [link for link in page.links if "before=" in link]
    assert next_link == f"{PATH}?state=open&before={PAGE + 2}"
    assert f"{PATH}/{PAGE + 1}" in Page(see(resolver, next_link.removeprefix(PATH)).text).links


@for_each(
    ("query", "status"),
    [
        ("?state=other", 400), ("?format=xml", 400), ("?before=x", 400), ("?before=-1", 400),
        ("?before=" + "9" * 40, 200), ("?before=0", 200), ("/3", 404), ("/3?format=json", 404),
        ("/" + "9" * 40, 400), ("/1?format=atom", 400), ("/x", 400), ("/1/x", 400),
    ],
)  # fmt: skip
def test_wrong_requests_have_a_status(app: Flask, query: str, status: int) -> None:
    answer = ask(app, f"{PATH}{query}", headers={"Host": "urlib.net"})
    assert answer.status == status


def test_a_database_that_is_not_ready_is_no_error_of_the_reader(resolver: Flask) -> None:
    with resolver_of(resolver).database.writing() as connection:
        connection.exec_driver_sql("DROP TABLE ibi_resolver_conflict")
    for query in ("", "?format=json", "/1", "/1?format=json"):
        answer = ask(resolver, f"{PATH}{query}", headers={"Host": "urlib.net"})
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "10"


def test_the_command_lists_the_conflicts(app: Flask) -> None:
    outcome = command(app, "conflicts", group=ibi_resolver)
    header = ["id", "ibi", "first_address", "second_address", "found_at", "told_at", "ended_at"]
    line = ["2", OPEN, *(archive["address"] for archive in ARCHIVES), SECOND["found_at"], "", ""]
    assert outcome.lines == ["\t".join(header), "\t".join(map(str, line))]
    listed = json.loads(command(app, "conflicts", "--all", "--json", group=ibi_resolver).data)
    assert [one["id"] for one in listed] == [2, 1]
    assert listed[1]["first_email"] == "banon@dpi.inpe.br"
    assert listed[1]["second_service"] == ARCHIVES[1]["service"]
    assert (listed[1]["told_at"], listed[1]["ended_at"]) == (FIRST["told_at"], FIRST["ended_at"])
