"""The commands of the operator of a document registry: actors, check, cancel; also init, check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from support.cases import for_each
from support.commands import Outcome, command
from support.document_registries import (
    actor_ibi,
    add_actors,
    add_documents,
    add_urls,
    read_actors,
    read_documents,
    replace_url,
)
from support.far import Reply, far_server, unused_address
from support.loopback import HERE
from support.registries import NOON

from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.commands import ibi_resolver, registry
from flask_ibi_archive.resolver.registry_2008 import actor_check
from flask_ibi_archive.server.database.database import Database

pytestmark = pytest.mark.no_tables

NewResolver = Callable[..., Flask]
SUMMARY = "checked 3 actors: 1 working, 2 failing; 1 cancelled"


@pytest.fixture
def new_resolver(uri: str) -> Iterator[NewResolver]:
    """Create apps with a resolver and a document registry on the database."""
    made: list[Flask] = []

    def make(**settings: Any) -> Flask:
        app = Flask("resolver")
        values = {
            "IBI_RESOLVER_DATABASE_URI": uri,
            "IBI_RESOLVER_INNER_HOSTS": HERE,
            "IBI_RESOLVER_REGISTRY": True,
            "SERVER_NAME": "registry.urlib.net",
            **settings,
        }
        app.config.from_mapping(values)
        IBIResolver(app)
        made.append(app)
        return app

    yield make
    for app in made:
        app.extensions["ibi_resolver"].resolver.close()


@pytest.fixture
def resolver(new_resolver: NewResolver) -> Flask:
    app = new_resolver()
    run(app, "init", group=ibi_resolver)
    return app


@pytest.fixture
def database(resolver: Flask) -> Database:
    found: Database = resolver.extensions["ibi_resolver"].resolver.database
    return found


@pytest.fixture
def set_day(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the day of the next checks. The checks do not wait between requests."""
    original = actor_check.ActorChecker

    def change(day: int) -> None:
        def now() -> datetime:
            return NOON + timedelta(days=day)

        def patched(*words: Any, **options: Any) -> actor_check.ActorChecker:
            return original(*words, now=now, **{**options, "delay": 0})

        monkeypatch.setattr(actor_check, "ActorChecker", patched)

    return change


@pytest.fixture
def three_actors(database: Database, set_day: Callable[[int], None]) -> Iterator[None]:
    """The URL of the actor A works. Those of the actors B and C do not."""
    add_actors(database, "ABC")
    add_documents(database, {"1": "BA", "2": "B", "3": "AB"})
    add_urls(database, "C", f"http://{unused_address()}/c")
    with far_server() as far:
        far.replies["works"] = Reply()
        replace_url(database, "A", far.url("works"))
        replace_url(database, "B", f"http://{unused_address()}/b", NOON)
        set_day(730)
        yield


def run(app: Flask, *words: object, group: Any = registry.registry_command) -> Outcome:
    return command(app, *words, group=group)


# --- all commands --------------------------------------------------------------------------------

COMMANDS = [("actors",), ("check",), ("cancel", actor_ibi("A"), "--yes")]


@for_each("words", COMMANDS)
def test_commands_of_a_disabled_registry_name_the_setting(
    new_resolver: NewResolver, words: tuple[str, ...]
) -> None:
    app = new_resolver(IBI_RESOLVER_REGISTRY=False)
    assert run(app, "registry", *words, group=ibi_resolver).error == (
        "this resolver has no document registry; set IBI_RESOLVER_REGISTRY = True"
    )


@for_each("words", COMMANDS)
def test_commands_before_init_say_to_run_init(
    new_resolver: NewResolver, words: tuple[str, ...]
) -> None:
    assert run(new_resolver(), *words).error.endswith("run: flask ibi-resolver init")


@for_each(
    ("words", "message"),
    [
        (("chekc",), "No such command 'chekc'. Did you mean check?"),
        (("cancel",), "Missing argument 'ACTORID'."),
        (("check", "--threads", "0"), "'--threads': 0 is not in the range 1<=x<=64."),
    ],
)
def test_wrong_arguments_are_reported(words: tuple[str, ...], message: str) -> None:
    assert run(Flask("none"), *words).usage.endswith(message)


def test_init_prints_the_address_of_the_registry_and_check_tests_it(
    new_resolver: NewResolver, database: Database
) -> None:
    app = new_resolver()
    assert run(app, "init", group=ibi_resolver).lines[2:] == [
        "http://registry.urlib.net/ibi/registry"
    ]
    add_actors(database, "AB")
    assert "/ibi/registry; registered actors: 2\n" in run(app, "check", group=ibi_resolver).out
    add_actors(database, "C", failing_since=NOON)
    add_actors(database, "D", failing_since=NOON, cancelled_at=NOON, password_hash=None)
    outcome = run(app, "check", group=ibi_resolver)
    assert (
        "ok   registry: the address is http://registry.urlib.net/ibi/registry; registered "
        "actors: 3; actors without a working URL in the last check: 1; to list them, run: flask "
        "ibi-resolver registry actors\n"
    ) in outcome.out
    off = new_resolver(IBI_RESOLVER_REGISTRY=False)
    assert len(run(off, "init", group=ibi_resolver).lines) == 2
    assert "registry" not in run(off, "check", group=ibi_resolver).out.replace("//registry.", "")


# --- actors --------------------------------------------------------------------------------------


def test_actors_lists_documents_copies_and_states(resolver: Flask, database: Database) -> None:
    assert run(resolver, "actors").lines == ["\t".join(registry.COLUMNS)]
    assert json.loads(run(resolver, "actors", "--json").data) == []
    add_actors(database, "AB")
    add_actors(database, "C", failing_since=NOON)
    add_actors(database, "D", failing_since=NOON, cancelled_at=NOON, password_hash=None)
    add_documents(database, {"1": "AB", "2": "A", "3": "BA", "4": "ABC"})
    date = "2026-03-01T12:00:00Z"
    lines = run(resolver, "actors").lines
    assert [line.split("\t") for line in lines[1:]] == [
        ["a.br/a/2001/01.01.00.00", "a.a.br:80", "a@a.br", "3", "1", "", ""],
        ["a.br/b/2001/01.01.00.00", "b.a.br:80", "b@a.br", "1", "2", "", ""],
        ["a.br/c/2001/01.01.00.00", "c.a.br:80", "c@a.br", "0", "1", date, ""],
        ["a.br/d/2001/01.01.00.00", "d.a.br:80", "d@a.br", "0", "0", date, date],
    ]
    found = json.loads(run(resolver, "actors", "--json").data)
    texts = [["" if one is None else str(one) for one in row.values()] for row in found]
    assert [lines[0].split("\t")] * 4 == [list(row) for row in found]
    assert texts == [line.split("\t") for line in lines[1:]]


# --- check ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("three_actors")
def test_check_prints_a_line_for_each_change_and_a_summary(
    resolver: Flask, database: Database
) -> None:
    before = read_actors(database)
    dry = run(resolver, "check", "--dry-run")
    assert read_actors(database) == before
    done = run(resolver, "check")
    assert dry.err == f"{SUMMARY} (--dry-run: nothing was changed)\n"
    assert (done.status, done.err) == (0, f"{SUMMARY}\n")
    refused = "can't be reached (Connection refused)"
    expected = [
        f"{actor_ibi('B')}\tb.a.br:80\tb@a.br\tcancelled\t2026-03-01T12:00:00Z\t{refused}; 1 "
        "documents handed over to other actors, 1 documents and 1 copies no longer registered",
        f"{actor_ibi('C')}\tc.a.br:80\tc@a.br\tfailing\t2028-02-29T12:00:00Z\t{refused}",
    ]
    assert sorted(done.out.splitlines()) == sorted(dry.out.splitlines()) == expected
    assert list(read_documents(database).values()) == ["a", "A", "c"]
    # without a change there is no output, so that cron sends no e-mail
    assert run(resolver, "check") == Outcome(0, "", "", b"")


@pytest.mark.usefixtures("three_actors")
def test_check_writes_json(resolver: Flask) -> None:
    outcome = run(resolver, "check", "--json")
    first, second = sorted(json.loads(outcome.out), key=lambda change: str(change["actor"]))
    refused = "can't be reached (Connection refused)"
    assert first == {
        "actor": actor_ibi("B"),
        "address": "b.a.br:80",
        "email": "b@a.br",
        "state": "cancelled",
        "failing_since": "2026-03-01T12:00:00Z",
        "error": refused,
        "handed_over": 1,
        "deleted_documents": 1,
        "deleted_copies": 1,
    }
    assert second["state"] == "failing"
    assert second["handed_over"] is None
    assert json.loads(run(resolver, "check", "--json").data) == []


def test_check_says_that_the_network_is_probably_down(
    resolver: Flask, database: Database, set_day: Callable[[int], None]
) -> None:
    add_actors(database, "AB", failing_since=NOON)
    for name in "AB":
        add_urls(database, name, f"http://{unused_address()}/")
    set_day(1000)
    message = (
        "no URL of 2 actors works, so the network of the resolver is probably down; nothing was "
        "stored for these actors"
    )
    assert run(resolver, "check").error == message
    outcome = run(resolver, "check", "--json")
    assert (outcome.status, json.loads(outcome.out)) == (1, [])
    assert outcome.err == f"Error: {message}\n"


@pytest.mark.usefixtures("three_actors")
def test_check_shows_its_progress_on_a_terminal(
    resolver: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    outcome = run(resolver, "check")
    assert "Checking" in outcome.err
    assert "100%" in outcome.err
    assert "Checking" not in outcome.out
    outcome = run(resolver, "check")
    assert outcome.err.splitlines()[-1] == ("checked 2 actors: 1 working, 1 failing; 0 cancelled")


# --- cancel --------------------------------------------------------------------------------------


def test_cancel_cancels_an_actor_at_once(resolver: Flask, database: Database) -> None:
    add_actors(database, "AB")
    add_documents(database, {"1": "AB", "2": "A", "3": "BA"})
    ibi = actor_ibi("A")
    assert run(resolver, "cancel", ibi).error == (
        f"Cancel the registration of {ibi} at a.a.br:80, which has 2 documents and 1 copies? "
        "Nothing was done, because there is no terminal for the answer; add --yes."
    )
    assert read_actors(database)["A"] == (None, None)
    outcome = run(resolver, "cancel", f"http://urlib.net/{ibi.upper().replace('A.BR', 'a.br')}")
    assert outcome.status == 1
    outcome = run(resolver, "cancel", ibi, "--yes")
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err == (
        f"{ibi} is cancelled: 1 documents handed over to other actors, 1 documents and 1 copies no "
        "longer registered\n"
    )
    assert read_documents(database) == {"1": "b", "3": "B"}
    assert run(resolver, "cancel", ibi).error == f"the actor {ibi} is already cancelled"
    other = actor_ibi("Z")
    assert run(resolver, "cancel", other).error == (
        f"the actor {other} is not registered; to list the actors, run: flask ibi-resolver "
        "registry actors"
    )
    assert run(resolver, "cancel", "no-ibi!").error.startswith("'no-ibi!' is not")
