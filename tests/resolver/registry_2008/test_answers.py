"""Registered documents as a source of answers, beside the Archives ([P] 4.4)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.exc import OperationalError
from support.commands import command
from support.document_registries import (
    Entry,
    Place,
    actor_of,
    address_of,
    store,
)
from support.networks import NEVER, NONSENSE, Habits, Network, silence_of, url_of
from support.registries import resolver_database
from support.resolving import ORIGINAL, X, Y, Z, app_over, goes_on, leads, resolver_of
from support.vectors import load

from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.registry_2008.operations import list_answers
from flask_ibi_archive.resolver.resolving import ReadDocuments
from flask_ibi_archive.server.database.database import Database

#: The cases of the tests below.
CASES = load("resolver/registry_2008.json")

DOC, COPY, LATER, OTHER = (f"http://doc.br/{name}" for name in ("doc", "copy", "later", "other"))
FREE, DC, DC_PT, PT = (f"http://meta.br/{name}" for name in ("free", "dc", "dc-pt", "pt"))
EVIL = "http://evil.br/"


def held(*values: Any, **editions: str) -> Entry:
    """Return a document that only its holder has; the values are those of a ``Place``."""
    return Entry([Place(*values, **editions)])


#: Metadata without a format, in a format, and in another language.
DESCRIBED = ((DC, "oai_dc", "en"), (FREE, None, "en"), (DC_PT, "oai_dc", "pt"), (PT, None, "pt"))
ALL = {X: held(1, DOC, DESCRIBED)}
BARE = {X: held(1, DOC)}
ONLY_METADATA = {X: held(1, None, DESCRIBED)}
ONLY_FORMAT = {X: held(1, DOC, [(DC, "oai_dc", None)])}
FORMAT_IN_PORTUGUESE = {X: held(1, DOC, [(FREE, None, "en"), (DC_PT, "oai_dc", "pt")])}
COPIES = {X: Entry([Place(1, DOC), Place(3, COPY, DESCRIBED), Place(2, OTHER)])}
LATER_COPY = {X: Entry([Place(1, None, [(FREE, None, None)]), Place(2, COPY)])}
LATER_DESCRIBED = {Y: held(1, LATER, DESCRIBED)}

UNKNOWN, LOOP = AlertKind.UNKNOWN, AlertKind.LOOP


def cited(ibi: str) -> str:
    """Return a persistent URL."""
    return f"http://urlib.net/{ibi}"


#: The modifier, the registry, and the URL or the missing part. Some cases have a language. Other
#: modifiers are in test_sources_property.py.
MODIFIERS: Sequence[tuple[str, Mapping[str, Entry], str | AlertKind, str | None]] = [
    ("", ALL, DOC, None),
    ("", ONLY_METADATA, FREE, None),
    ("", LATER_COPY, COPY, None),
    (":", ALL, FREE, None),
    (":", ONLY_FORMAT, DC, None),
    (":", BARE, "metadata", None),
    (":(oai_dc)", ALL, DC, None),
    (":(oai_dc)", FORMAT_IN_PORTUGUESE, DC_PT, None),
    (":(marc)", ALL, "format", None),
    ("??", ALL, FREE, None),
    ("+", ALL, DOC, "pt"),
    ("+(pt)", ALL, "translation", None),
    (":+", ALL, FREE, "de"),
    (":", COPIES, FREE, None),
    (":+(de)", ALL, "translation", None),
    (":(oai_dc)+(en)", FORMAT_IN_PORTUGUESE, "translation", None),
    (":(oai_dc)+", FORMAT_IN_PORTUGUESE, DC_PT, "en"),
    ("/a.txt", ALL, "file", None),
    ("/a.txt", ONLY_METADATA, "file", None),
    ("?ibiurl.verblist=GetFileList", ALL, "file", None),
    ("?ibiurl.verblist=GetFileList", ONLY_METADATA, "file", None),
    (ORIGINAL, ALL, DOC, None),
    (ORIGINAL, {X: Entry([Place(1, DOC), Place(2, COPY)], False)}, "original", None),
]

#: The registry, and where ``X!`` leads to.
EDITIONS: Mapping[str, tuple[Mapping[str, Entry], str | AlertKind]] = {
    "the next edition is a persistent URL": (
        {X: held(1, DOC, next=cited(Y)), Y: held(2, LATER)},
        LATER,
    ),
    "in another letter case, with a prefix": (
        {X: held(1, DOC, next=cited(f"rep/{Y.upper()}")), Y: held(2, LATER)},
        LATER,
    ),
    "it is a URL": ({X: held(1, DOC, next=LATER)}, LATER),
    "a persistent URL with a path is a URL": (
        {X: held(1, DOC, next=cited(f"{Y}/a.txt")), Y: held(2, LATER)},
        cited(f"{Y}/a.txt"),
    ),
    "copies do not hide the next edition": (
        {X: Entry([Place(1, DOC, next=cited(Y)), Place(2, COPY)]), Y: held(1, LATER)},
        LATER,
    ),
    "an unknown next edition": ({X: held(1, DOC, next=cited(Y))}, UNKNOWN),
    "a document is its own next edition": ({X: held(1, DOC, next=cited(X))}, LOOP),
    "documents are the next editions of each other": (
        {X: held(1, DOC, next=cited(Y)), Y: held(1, LATER, next=cited(X))},
        LOOP,
    ),
    "the previous edition of another document": (
        {X: held(1, DOC), Y: held(2, EVIL, previous=DOC)},
        DOC,
    ),
    "hijack: a copy states a next edition": (
        {X: Entry([Place(1, DOC), Place(2, COPY, next=EVIL)])},
        DOC,
    ),
    "hijack: another actor registers a document with the URL of the next edition": (
        {X: held(1, DOC, next=LATER), Y: held(2, LATER, next=EVIL)},
        LATER,
    ),
}


def documents_of(database: Database) -> ReadDocuments:
    """Return the function that reads the document registry in a database."""
    return lambda questions, addresses: database.read(
        lambda connection: list_answers(connection, questions, addresses)
    )


@pytest.fixture
def here() -> Iterator[Database]:
    """The database of a resolver, in memory."""
    with resolver_database("sqlite://") as found:
        yield found


def resolve(database: Database, text: str, *archives: Habits, **options: Any) -> Redirect | Alert:
    """Resolve a persistent URL with a registry and some Archives."""
    return Network(*archives).resolve(text, documents=documents_of(database), **options)


def result_of(outcome: Redirect | Alert) -> str | AlertKind:
    """Return the URL, the missing part or the kind of the alert."""
    if isinstance(outcome, Redirect):
        return outcome.url
    if outcome.missing_part is not None:
        return outcome.missing_part.name.lower()
    return outcome.kind


@pytest.mark.rule("P4-13")
def test_each_modifier_leads_to_what_the_record_has(database: Database) -> None:
    for modifier, entries, expected, language in MODIFIERS:
        store(database, entries)
        found = resolve(database, f"{X}{modifier}", language=language)
        assert result_of(found) == expected, (modifier, entries, found)


@pytest.mark.rule("P4-13")
def test_the_holder_decides_what_the_next_edition_is(database: Database) -> None:
    for name, (entries, expected) in EDITIONS.items():
        store(database, entries)
        assert result_of(resolve(database, f"{X}!")) == expected, name


# --- beside Archives -----------------------------------------------------------------------------

EDITION_OF_ARCHIVE = leads(OTHER, relation=".lastedition")

#: The persistent URL, the answers of an Archive, the registry, and the result.
PRECEDENCE: Mapping[str, tuple[str, Habits, Mapping[str, Entry], str | AlertKind]] = {
    "a URL of an Archive wins": (X, {X: (0.1, leads(OTHER, "Copy"))}, ALL, OTHER),
    "an Archive without a usable URL wins": (X, {X: (0, leads("ftp://a.br"))}, ALL, UNKNOWN),
    "an Archive that does not know the item does not": (X, {}, ALL, DOC),
    "an Archive that does not answer correctly does not": (X, {X: (0, NONSENSE)}, ALL, DOC),
    "an Archive that removed the item wins": (X, {X: (0, "state Deleted")}, ALL, AlertKind.REMOVED),
    "an Archive without this format wins": (
        f"{X}:(oai_dc)",
        {f"{X}:(oai_dc)": (0, leads(OTHER))},
        ALL,
        "format",
    ),
    "an Archive knows the next edition": (
        f"{X}!",
        {f"{X}!": (0, goes_on(Y)), f"{Y}!": (0, EDITION_OF_ARCHIVE)},
        ALL,
        OTHER,
    ),
    "the next edition that an Archive knows is registered": (
        f"{X}!",
        {f"{X}!": (0, goes_on(Y))},
        {**ALL, **LATER_DESCRIBED},
        LATER,
    ),
    "the next edition that an Archive knows is unknown": (
        f"{X}!",
        {f"{X}!": (0, goes_on(Y))},
        ALL,
        UNKNOWN,
    ),
    "an Archive has the next edition of a registered document": (
        f"{X}!",
        {f"{Y}!": (0, EDITION_OF_ARCHIVE)},
        {X: held(1, DOC, next=cited(Y))},
        OTHER,
    ),
    "an Archive knows the next edition but one": (
        f"{X}!",
        {f"{X}!": (0, goes_on(Y)), f"{Y}!": (0, goes_on(Z))},
        {X: held(1, DOC), Y: held(1, LATER)},
        UNKNOWN,
    ),
    "a loop of an Archive and the registry": (
        f"{X}!",
        {f"{Y}!": (0, goes_on(X))},
        {X: held(1, DOC, next=cited(Y))},
        LOOP,
    ),
    "two claims of the Original": (f"{X}{ORIGINAL}", {X: (0, leads(OTHER))}, ALL, OTHER),
    "a claim against a copy": (
        f"{X}{ORIGINAL}",
        {X: (0, leads(OTHER))},
        {X: Entry([Place(1, DOC)], is_original=False)},
        OTHER,
    ),
    "a claim of an actor against a copy": (
        f"{X}{ORIGINAL}",
        {X: (0, leads(OTHER, "Copy"))},
        ALL,
        "original",
    ),
    "a claim of an actor alone": (f"{X}{ORIGINAL}", {}, ALL, DOC),
}


@pytest.mark.rule("P5-01")
@pytest.mark.parametrize("name", CASES["archives are preferred to the registry"])
def test_archives_are_preferred_to_the_registry(here: Database, name: str) -> None:
    text, archive, entries, expected = PRECEDENCE[name]
    store(here, entries)
    assert result_of(resolve(here, text, archive)) == expected


@pytest.mark.parametrize("habit", [(NEVER, ""), (0, NONSENSE)])
def test_while_the_archive_that_had_the_item_is_silent_the_registry_does_not_count(
    here: Database, habit: tuple[float, str | None]
) -> None:
    store(here, ALL)
    found = resolve(here, f"{X}!", {f"{X}!": habit}, hinted=1)
    assert silence_of(found) == (AlertKind.SILENT, 1, 1)
    assert result_of(resolve(here, X, {}, {X: habit}, hinted=1)) == DOC


# --- the database --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("archive", "expected"), [({X: (0, leads(OTHER))}, OTHER), ({X: (0, "")}, None), ({}, None)]
)
def test_archives_still_answer_if_the_registry_cannot(
    here: Database, archive: Habits, expected: str | None
) -> None:
    def fail(*arguments: Any) -> Any:
        raise here.explain(OperationalError("SELECT", None, Exception("no connection")))

    network = Network(archive)
    if expected is None:
        # the document may be registered: the alert "unknown" would be wrong
        with pytest.raises(NotReady):
            network.resolve(X, documents=fail)
    else:
        assert url_of(network.resolve(X, documents=fail)) == expected


# --- the app -------------------------------------------------------------------------------------


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    """An app with a resolver that has a document registry, but no Archive."""
    config = {"IBI_RESOLVER_REGISTRY": True, "SERVER_NAME": "urlib.net"}
    with app_over([], tmp_path, **config) as found:
        store(resolver_of(found).database, ALL)
        yield found


def test_the_command_resolve_shows_registered_documents(app: Flask) -> None:
    shown = command(app, "resolve", "--trace", X, group=ibi_resolver)
    assert shown.status == 0
    assert shown.out == f"{DOC}\n"
    assert shown.err == (
        f"<> registered by actor {actor_of(1)} at {address_of(1)}\n"
        f"     archiveaddress {address_of(1)}\n"
        "     contenttype Data\n"
        f"     ibi {{rep {X}}}\n"
        "     state Original\n"
        "     timestamp 2008-07-17T20:23:06Z\n"
        f"     url {DOC}\n"
        f"== round 1: redirect to {DOC}, Original, at {address_of(1)}\n"
    )
    as_json = json.loads(command(app, "resolve", "--json", X, group=ibi_resolver).data)
    assert as_json["actor"] == {"service": actor_of(1), "address": address_of(1)}


@pytest.mark.parametrize(
    ("target", "status", "location"),
    [
        (X, 302, DOC),
        (f"{X}:", 302, FREE),
        (f"{X}?a=b", 302, f"{DOC}?a=b"),
        (f"{X}/a.txt", 404, None),
        (Y, 404, None),
    ],
)
def test_the_resolver_redirects_to_registered_documents(
    app: Flask, target: str, status: int, location: str | None
) -> None:
    response = app.test_client().get(
        f"/{target}", base_url="http://urlib.net", headers={"Accept-Language": "pt"}
    )
    assert (response.status_code, response.headers.get("Location")) == (status, location)
