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
    PASSWORD,
    Entry,
    Place,
    a_document_registry,
    a_location,
    actor_of,
    address_of,
    an_actor,
    documents_of,
    register,
    store,
)
from support.registries import resolver_database
from support.resolving import (
    DEADLINE,
    NEVER,
    NONSENSE,
    ORIGINAL,
    Habits,
    Network,
    X,
    Y,
    Z,
    app_over,
    goes_on,
    leads,
    resolver_of,
    resolver_over,
    silence_of,
    statements_of,
    url_of,
    wants,
)
from support.web import resolver_app

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.relations import parse_verb_list
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.core.resolution.persistent_url import format_persistent_target
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.registry_2008.operations import MAX_REGISTRATIONS, list_answers
from flask_ibi_archive.resolver.resolving import TraceEvent
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.web.alerts import alert_response

IBIP = "8JMKD3MGP8W/35MMLL8"
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


def test_a_next_edition_without_ibi_has_nothing_but_its_url(here: Database) -> None:
    store(here, {X: held(1, DOC, DESCRIBED, next=LATER)})
    for text, expected in (
        (f"{X}!", LATER),
        (f"{X}!+", LATER),
        (f"{X}!:", "metadata"),
        (f"{X}!/a.txt", "edition"),
        (f"{X}!{ORIGINAL}", "original"),
    ):
        assert result_of(resolve(here, text)) == expected, text


def test_identifiers_are_compared_in_canonical_case(here: Database) -> None:
    store(here, {X: held(1, DOC), IBIP: held(1, OTHER)})
    assert result_of(resolve(here, X.upper())) == DOC
    assert result_of(resolve(here, IBIP.lower())) == OTHER


def test_the_answer_names_the_actor_and_has_no_key(here: Database) -> None:
    store(here, ALL)
    events: list[TraceEvent] = []
    found = resolve(here, X, trace=events.append)
    assert isinstance(found, Redirect)
    assert (found.source.service, found.source.address) == (actor_of(1), address_of(1))
    assert (found.state, found.content_type, found.url_key) == ("Original", "Data", None)
    assert [ibi.text for ibi in found.ibi] == [X]
    [registered] = [event for event in events if isinstance(event, Answer)]
    assert registered.pairs == {
        "archiveaddress": (address_of(1),),
        "ibi": ("rep", X),
        "url": (DOC,),
        "contenttype": ("Data",),
        "state": ("Original",),
        "timestamp": ("2008-07-17T20:23:06Z",),
    }


def test_the_alert_about_a_missing_part_lists_what_the_document_has(here: Database) -> None:
    store(here, ALL)
    alert = resolve(here, f"{X}/a.txt")
    assert isinstance(alert, Alert)
    assert [format_persistent_target(url) for url in alert.alternatives] == [
        f"/{X}:",
        f"/{X}:(oai_dc)",
    ]


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
@pytest.mark.parametrize("name", [*PRECEDENCE])
def test_archives_are_preferred_to_the_registry(here: Database, name: str) -> None:
    text, archive, entries, expected = PRECEDENCE[name]
    store(here, entries)
    assert result_of(resolve(here, text, archive)) == expected


def test_the_claim_of_an_actor_for_another_last_edition_does_not_count(here: Database) -> None:
    store(here, {Z: held(1, DOC)})
    first = {f"{X}!": (0, goes_on(Y)), f"{Y}!": (0, EDITION_OF_ARCHIVE)}
    second = {f"{X}!": (0, goes_on(Z))}
    assert result_of(resolve(here, f"{X}!{ORIGINAL}", first, second)) == OTHER
    assert result_of(resolve(here, f"{X}!{ORIGINAL}", second)) == DOC


def test_actors_with_the_originals_of_different_last_editions_are_no_rivals(
    here: Database,
) -> None:
    store(here, {Y: held(1, DOC), Z: held(2, LATER)})
    archives = [{f"{X}!": (0, goes_on(one))} for one in (Y, Z)]
    assert result_of(resolve(here, f"{X}!{ORIGINAL}", *archives)) == DOC


@pytest.mark.parametrize(
    ("text", "archives", "now", "url"),
    [
        (X, [{X: (NEVER, "")}], DEADLINE, DOC),
        (X, [{X: (0.1, leads(OTHER))}], 0.1, OTHER),
        (X, [{X: (0.1, "")}, {X: (3, leads(OTHER))}], 3, OTHER),
        (f"{X}{ORIGINAL}", [{X: (3, "")}], 3, DOC),
        (f"{X}{ORIGINAL}", [{X: (NEVER, "")}], DEADLINE, DOC),
    ],
)
def test_a_registered_document_waits_for_the_answers_of_all_archives(
    here: Database, text: str, archives: Sequence[Habits], now: float, url: str
) -> None:
    store(here, ALL)
    network = Network(*archives)
    assert url_of(network.resolve(text, documents=documents_of(here))) == url
    assert network.now == now


def test_a_follow_up_question_waits_for_all_archives_before_the_registry_counts(
    here: Database,
) -> None:
    store(here, {Y: held(1, EVIL), Z: held(1, EVIL)})
    # the grace period after the answer of the first Archive ends before the answer of the third
    first, second = {f"{X}!": (0, goes_on(Y))}, {f"{X}!": (0, goes_on(Z)), f"{Z}!": (0, goes_on(X))}
    third = {f"{Y}!": (3, EDITION_OF_ARCHIVE)}
    assert result_of(resolve(here, f"{X}!", first, second, third)) == OTHER


@pytest.mark.parametrize("habit", [(NEVER, ""), (0, NONSENSE)])
def test_while_the_archive_that_had_the_item_is_silent_the_registry_does_not_count(
    here: Database, habit: tuple[float, str | None]
) -> None:
    store(here, ALL)
    found = resolve(here, f"{X}!", {f"{X}!": habit}, hinted=1)
    assert silence_of(found) == (AlertKind.SILENT, 1, 1)
    assert result_of(resolve(here, X, {}, {X: habit}, hinted=1)) == DOC


@pytest.mark.parametrize(
    ("ibi", "is_suspect"),
    [
        ("a.br/service/2026/11.23.10.00", True),
        ("a.br/service.8080/2026/11.23.10.00", False),
        ("br/a1/2026/11.23.10.00", True),
        ("a.br/x/2026/11.23.10.00", False),
        ("83LX3pFwXQZeBBx/hwiTk", False),
    ],
)
def test_while_the_archive_that_may_have_minted_the_ibi_is_silent_the_registry_does_not_count(
    here: Database, ibi: str, is_suspect: bool
) -> None:
    store(here, {ibi: held(1, DOC)})
    found = resolve(here, ibi, {ibi: (NEVER, "")})
    assert result_of(found) == (AlertKind.SILENT if is_suspect else DOC)


def test_without_a_registered_document_all_archives_are_waited_for(here: Database) -> None:
    store(here, {})
    network = Network({X: (3, leads(OTHER))})
    assert url_of(network.resolve(X, documents=documents_of(here))) == OTHER


@pytest.mark.parametrize(
    ("text", "archive", "expected"),
    [
        (Y, {}, (AlertKind.UNKNOWN, 0, 1)),
        (Y, {Y: (NEVER, "")}, (AlertKind.SILENT, 1, 1)),
        (f"{X}:(marc)", {}, (AlertKind.MISSING, 0, 1)),
        (f"{X}:(marc)", {f"{X}:(marc)": (NEVER, "")}, (AlertKind.SILENT, 1, 1)),
        (f"{X}:(marc)", {f"{X}:(marc)": (1, leads(OTHER, relation=".metadata(marc)"))}, None),
    ],
)
def test_alerts_wait_for_all_archives(
    here: Database, text: str, archive: Habits, expected: tuple[AlertKind, int, int] | None
) -> None:
    store(here, ALL)
    outcome = resolve(here, text, archive)
    if expected is None:
        assert url_of(outcome) == OTHER
    else:
        assert silence_of(outcome) == expected


# --- the database --------------------------------------------------------------------------------


def test_a_resolution_reads_the_registry_once_for_each_round(here: Database) -> None:
    store(here, {X: held(1, DOC, next=cited(Y)), **LATER_DESCRIBED})
    with statements_of(here) as sent:
        resolve(here, f"{X}!")
    assert len(sent) == 2
    with statements_of(here) as sent:
        resolve(here, X, {X: (0, leads(OTHER))})
    assert sent == []


def test_only_some_copies_of_a_document_are_read(here: Database) -> None:
    copies = [Place(number, COPY) for number in range(2, MAX_REGISTRATIONS + 9)]
    store(here, {X: Entry([Place(99, None, [(FREE, None, None)]), *copies])})
    question = Question(parse_identifier(X), parse_verb_list(""))
    answers = here.read(lambda connection: list_answers(connection, [question], ("::1",)))
    assert len(answers) == MAX_REGISTRATIONS
    assert answers[0].source.service == actor_of(99)


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


@pytest.mark.parametrize(("config", "statements"), [({}, 1), ({"IBI_RESOLVER_REGISTRY": True}, 2)])
def test_the_registry_is_read_only_if_it_is_enabled(
    config: dict[str, object], statements: int
) -> None:
    with resolver_over([], SERVER_NAME="urlib.net", **config) as resolver:
        store(resolver.database, ALL)
        resolver.resolve(wants(X))  # writes the hint
        with statements_of(resolver.database) as sent:
            outcome = resolver.resolve(wants(X))
        assert result_of(outcome) == (DOC if config else UNKNOWN)
        assert len(sent) == statements


@pytest.mark.rule("P4-15")
def test_operations_of_the_registry_change_the_answers(here: Database) -> None:
    registry = a_document_registry(here)
    first, second = an_actor(registry, "first"), an_actor(registry, "second")
    newer = register(registry, first, None, a_location("newer"))
    older = a_location("older", "oai_dc", next_edition_url=cited(newer))
    register(registry, first, X, older, original=True)
    register(registry, second, X, a_location("copy"))
    host = "http://hermes.dpi.inpe.br"
    for text, expected in (
        (f"{X}{ORIGINAL}", f"{host}/older"),
        (f"{X}:(oai_dc)", f"{host}/older/0"),
        (f"{X}!", f"{host}/newer"),
    ):
        assert result_of(resolve(here, text)) == expected, text
    registry.change_actor(first, PASSWORD, X, second)
    assert result_of(resolve(here, f"{X}{ORIGINAL}")) == f"{host}/copy"
    # the new holder of the older edition has not stated the newer one
    assert result_of(resolve(here, f"{X}!")) == f"{host}/copy"


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


def test_the_page_about_suspects_links_only_to_archives() -> None:
    archive = ArchiveSource(Y, "archive.br")
    actor = ArchiveSource(actor_of(1), address_of(1), is_actor=True)
    alert = Alert(AlertKind.SUSPECTS, parse_identifier(X), (archive, actor))
    client = resolver_app(lambda *values: alert_response(alert)).test_client()
    page = client.get(f"/{X}", headers={"Accept": "text/html"}).text
    assert f'<dd><a href="http://archive.br/{X}">archive.br</a> (<code>{Y}</code>)' in page
    assert f"<dd>{address_of(1)} (<code>{actor_of(1)}</code>)</dd>" in page
