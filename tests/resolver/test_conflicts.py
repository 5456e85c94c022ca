"""Conflicts: two Archives claim the Original of one item, or one alias for two items."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from sqlalchemy import delete, insert, select, update
from support.claiming import ClaimingArchive, follow_row
from support.clocks import Clock
from support.commands import command
from support.pages import Page
from support.registries import (
    NOON,
    SERVICE,
    a_config,
    a_registry,
    included,
)
from support.resolving import app_over, resolver_of
from support.smtp import Post, post_office
from support.web import Answer, ask

from flask_ibi_archive.core.claim import Claim
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver import conflicts
from flask_ibi_archive.resolver.asking import TransferResult
from flask_ibi_archive.resolver.claims import ReadingStore, list_due, read_result
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.conflicts import (
    MAX_LISTED,
    RETRY,
    FoundConflict,
    find_open_conflict,
    list_conflicts,
    prefer_archive,
    tell_administrators,
    update_conflicts,
)
from flask_ibi_archive.resolver.resolving import ResolverService
from flask_ibi_archive.resolver.tables import (
    ClaimedName,
    Conflict,
    RegisteredArchive,
)
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.signals import Notifier, conflict_found

REP, IBIP = "dpi.inpe.br/banon/2009/02.16.17.53", "8JMKD3MGP8W/34PGRBS"
OTHER = "8JMKD3MGP8W/35MMLL8"
DOI, OLD = "doi:10.5281/zenodo.1", "url:old.example.org/handle/1/2"
ITEM, OLD_URL = "dpi.inpe.br/banon/2009/02.16.17.54", "http://old.example.org/handle/1/2"
OTHER_SERVICE = "b.br/service/2001/01.01.00.00"
ORIGINAL, COPY, DELETED = 1, 2, 3
LATER = NOON + timedelta(hours=1)
#: How long a conflict waits before it is told.
WAIT = timedelta(seconds=60)
PATH = "/ibi/conflicts"
BASE = f"https://urlib.net{PATH}"
SERVICES = (SERVICE, "a.br/archive1/2001/01.01.00.00", "a.br/archive2/2001/01.01.00.00")
ARCHIVES = [
    {"service": service, "address": f"a{number}.example.org:80"}
    for number, service in enumerate(SERVICES[:2])
]


def kind_of(name: str) -> int:
    if name[:4] in ("doi:", "url:"):
        return 3
    return 1 if "." in name else 2


def claim(
    database: Database,
    archive_id: int,
    item: str,
    state: int | None = None,
    *names: str,
    now: datetime = NOON,
    **kinds: int,
) -> None:
    """Replace what an Archive claims about an item, and compare it, as the follower does.

    :param state: None: the item is no longer claimed.
    :param kinds: the kind of an identifier that is an alias here, by its place in ``names``.
    """
    of_item = ClaimedName.archive_id == archive_id, ClaimedName.item == item
    with database.writing() as connection:
        select_old = select(ClaimedName.name, ClaimedName.state, ClaimedName.since).where(*of_item)
        old = {row.name: row for row in connection.execute(select_old)}
        connection.execute(delete(ClaimedName).where(*of_item))
        for place, name in enumerate(names):
            kept = name in old and old[name].state == state
            row = {"archive_id": archive_id, "item": item, "name": name, "state": state}
            row |= {"kind": kinds.get(f"kind{place}", kind_of(name)), "reading": 1}
            row |= {"timestamp": "2026-03-01T12:00:00Z", "since": old[name].since if kept else now}
            connection.execute(insert(ClaimedName).values(row))
        update_conflicts(connection, archive_id, {*old, *names}, now)


def see(database: Database, *conditions: Any) -> list[FoundConflict]:
    """Return the conflicts, the oldest first."""
    return database.read(lambda connection: list_conflicts(connection, *conditions))[::-1]


def open_names(database: Database) -> list[tuple[str, int, int]]:
    """Return the names of the open conflicts, and the Archives."""
    return [
        (one.name, one.claimants[0].id, one.claimants[1].id)
        for one in see(database)
        if one.ended_at is None
    ]


@pytest.fixture
def database(database: Database) -> Database:
    """A resolver with three Archives."""
    assert included(a_registry(database), 3) == [1, 2, 3]
    return database


# --- what is a conflict --------------------------------------------------------------------------


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # an item with two identifiers is one conflict
        ((ORIGINAL, REP, IBIP, DOI), (ORIGINAL, REP, IBIP, DOI), [(IBIP, REP, False)]),
        ((ORIGINAL, IBIP), (COPY, IBIP), []),
        # an alias of another item, each alias is a conflict
        (
            (ORIGINAL, IBIP, DOI, OLD),
            (COPY, OTHER, DOI, OLD),
            [(DOI, None, True), (OLD, None, True)],
        ),
        ((ORIGINAL, IBIP, DOI), (DELETED, OTHER, DOI), []),
        ((ORIGINAL, REP, IBIP, DOI), (COPY, IBIP, DOI), []),
    ],
)
def test_two_claims_contradict_each_other(
    database: Database, first: Any, second: Any, expected: list[Any]
) -> None:
    for one, other in ((1, 2), (3, 2)):  # whichever Archive is read first
        claim(database, one, "a", *first)
        claim(database, other, "b", *second)
        for repeated in (one, other):
            claim(database, repeated, "ab"[repeated == 2], *(first, second)[repeated == 2])
        found = [(one.name, one.other_name, one.is_alias) for one in see(database)]
        assert found == expected
        claim(database, one, "a")
        claim(database, other, "b")
        with database.writing() as connection:
            assert all(one.ended_at == NOON for one in see(database))
            connection.execute(delete(Conflict))


def test_a_conflict_is_not_open_while_an_archive_is_excluded(database: Database) -> None:
    def exclude(at: datetime | None) -> None:
        with database.writing() as connection:
            included_at = None if at else NOON
            values = {"excluded_at": at, "included_at": included_at, "confirmed_at": included_at}
            connection.execute(
                update(RegisteredArchive).where(RegisteredArchive.id == 2).values(values)
            )

    claim(database, 1, "a", ORIGINAL, IBIP)
    claim(database, 2, "b", ORIGINAL, IBIP)
    exclude(LATER)
    assert find_open_conflict(database, IBIP) is None
    assert see(database)[0].ended_at == LATER
    # a conflict with an Archive that was excluded before is not shown
    claim(database, 1, "c", ORIGINAL, OTHER, now=LATER + WAIT)
    claim(database, 2, "d", ORIGINAL, OTHER, now=LATER + WAIT)
    assert len(see(database)) == 1
    exclude(None)
    assert find_open_conflict(database, IBIP) == 1
    assert find_open_conflict(database, OTHER) == 2


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        # an alias moves to another item, in the same state
        (
            [(0, (REP, DOI), (ITEM,), "Original"), (1, (REP, DOI), (), "Copy"),
             (0, (REP,), (ITEM, DOI), "Original")],
            {DOI},
        ),
        # an identifier becomes an alias, and the Original of another item keeps it
        ([(0, (REP, DOI), (), "Original"), (1, (ITEM, DOI), (), "Original")], {DOI}),
        ([(0, (REP,), (), "Original"), (1, (REP,), (), "Original"), (0, (REP,), (), "Copy")],
         set()),
    ],
)  # fmt: skip
def test_the_follower_finds_the_conflicts_of_what_was_read(
    database: Database, readings: Any, expected: set[str]
) -> None:
    clock = Clock(NOON)
    services = OTHER_SERVICE, "c.br/service/2001/01.01.00.00"
    archives = [ClaimingArchive(service, clock, seed) for seed, service in enumerate(services)]
    ids = [follow_row(database, archive) for archive in archives]
    for number, first, second, state in readings:
        clock.wait(60)
        original = SERVICE if state == "Copy" else None
        for item, names in (("a", first), ("b", second)):
            facts = State(state), "2026-03-01T12:00:00Z", original, names[1:]
            archives[number].set(Claim(item, names[0], None, *facts) if names else Claim(item))
        due = database.read(lambda connection: list_due(connection, clock(), 2))
        [asked] = [one for one in due if one.archive_id == ids[number]]
        answer = TransferResult(status=200, body=archives[number].page(asked.position))
        reading = read_result(asked, answer, clock(), a_config())
        with database.writing() as connection:
            ReadingStore(connection, a_config(), clock(), clock()).store(reading)
    assert {one.name for one in see(database) if one.ended_at is None} == expected


# --- the operator prefers one --------------------------------------------------------------------


def order(database: Database, name: str) -> list[int]:
    """Return the Archives in the order of their claims of a name."""
    claims = select(ClaimedName.archive_id).where(ClaimedName.name == name)
    return [row[0] for row in database.read_rows(claims.order_by(ClaimedName.since))]


def prefer(database: Database, archive_id: int, name: str, now: datetime = LATER) -> int:
    with database.writing() as connection:
        return prefer_archive(connection, archive_id, name, now)


@pytest.mark.postgresql
def test_the_preferred_claim_comes_first_until_one_changes(database: Database) -> None:
    claim(database, 1, "a", ORIGINAL, REP, IBIP, now=NOON)
    claim(database, 2, "a", ORIGINAL, REP, IBIP, DOI, now=NOON + WAIT)
    assert order(database, REP) == order(database, IBIP) == [1, 2]
    assert prefer(database, 2, REP) == 1
    assert order(database, REP) == order(database, IBIP) == [2, 1]
    [decided] = see(database)
    assert (decided.ended_at, decided.preferred_id) == (LATER, 2)
    # the same claims, read once more: also at the beginning of another epoch
    for archive, names in ((1, (REP, IBIP)), (2, (REP, IBIP, DOI))):
        claim(database, archive, "a", ORIGINAL, *names, now=LATER + WAIT)
    assert open_names(database) == []
    # the claim of one changes
    claim(database, 1, "a", COPY, REP, IBIP, now=LATER + WAIT)
    claim(database, 1, "a", ORIGINAL, REP, IBIP, now=LATER + 2 * WAIT)
    assert open_names(database) == [(IBIP, 1, 2)]
    claim(database, 2, "a", ORIGINAL, REP, IBIP, DOI, now=LATER + 3 * WAIT)
    assert len(see(database)) == 2


@pytest.mark.parametrize(
    ("archive", "name", "message"),
    [
        (3, DOI, "no open conflict about doi:10.5281/zenodo.1"),
        (1, "url:a.org/1", "no open conflict about http://a.org/1"),
        (2, DOI, "the other one the Original"),
    ],
)
def test_a_decision_that_can_not_be_made_is_refused(
    database: Database, archive: int, name: str, message: str
) -> None:
    claim(database, 1, "a", ORIGINAL, IBIP, DOI)
    claim(database, 2, "b", COPY, OTHER, DOI)
    with pytest.raises(conflicts.StorageError, match=message):
        prefer(database, archive, name)
    assert open_names(database) == [(DOI, 1, 2)]


# --- telling -------------------------------------------------------------------------------------


@contextmanager
def telling(uri: str, folder: Path, post: Post | None) -> Iterator[ResolverService]:
    """Yield a resolver with three Archives, whose administrators have different addresses."""
    mail: dict[str, Any] = {"IBI_RESOLVER_EMAIL": "urlib@example.org"}
    if post is not None:
        mail |= post.settings
    settings = {"IBI_RESOLVER_DATABASE_URI": uri, "SERVER_NAME": "urlib.net", **mail}
    with app_over([], folder, PREFERRED_URL_SCHEME="https", **settings) as app:
        service = resolver_of(app)
        included(a_registry(service.database), 3)
        with service.database.writing() as connection:
            for number in (1, 2, 3):
                values = {"admin_email": f"admin{number}@example.org"}
                is_its = RegisteredArchive.id == number
                connection.execute(update(RegisteredArchive).where(is_its).values(values))
        yield service


def note(service: ResolverService, *found: tuple[str, int, int]) -> None:
    rows = [
        {"name": name, "first_archive_id": one, "second_archive_id": other, "found_at": NOON}
        for name, one, other in found
    ]
    with service.database.writing() as connection:
        connection.execute(insert(Conflict), rows)


def tell(service: ResolverService, now: datetime) -> None:
    tell_administrators(service.database, service.config, Notifier(), now)


@pytest.fixture
def sent() -> Iterator[list[dict[str, Any]]]:
    """The values of the signals that are sent."""
    received: list[dict[str, Any]] = []

    def store(sender: object, **values: Any) -> None:
        received.append(values)

    with conflict_found.connected_to(store):
        yield received


def test_both_administrators_are_told_once(
    uri: str, tmp_path: Path, sent: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    with post_office() as post, telling(uri, tmp_path, post) as service:
        claim(service.database, 1, "a", ORIGINAL, REP, IBIP, OLD)
        claim(service.database, 2, "a", ORIGINAL, REP, IBIP)
        claim(service.database, 2, "b", ORIGINAL, OTHER, OLD)
        for minutes in range(3):
            tell(service, NOON + WAIT + timedelta(minutes=10 * minutes))
        [message] = post.receive()
        told = {one.told_at for one in see(service.database)}
    assert told == {NOON + WAIT}
    assert message["To"] == "admin1@example.org, admin2@example.org"
    text = message.get_content()
    for part in (
        "Um item tem um único Original",
        "An item has only one Original",
        f"  a0.example.org:80  ({SERVICES[0]})\n  a1.example.org:80  ({SERVICES[1]})\n",
        f"  Original {IBIP} = {REP}  {BASE}/1\n",
        f"  alias http://old.example.org/handle/1/2  {BASE}/2\n",
    ):
        assert part in text, part
    assert [values["conflict"] for values in sent] == [1, 2]
    assert sent[0] == {
        "conflict": 1,
        "name": IBIP,
        "archives": SERVICES[:2],
        "addresses": ("a0.example.org:80", "a1.example.org:80"),
        "url": f"{BASE}/1",
    }
    assert f"both claim Original {IBIP} = {REP}; see {BASE}/1" in caplog.text


def test_the_conflicts_of_two_archives_are_in_one_email(uri: str, tmp_path: Path) -> None:
    many = [(f"a.br/b/2001/01.01.00.{number:03d}", 2, 3) for number in range(MAX_LISTED + 5)]
    with post_office() as post, telling(uri, tmp_path, post) as service:
        note(service, (IBIP, 1, 2), *many, (OTHER, 1, 2))
        tell(service, LATER)
        first, second = post.receive()
    assert f"{IBIP}  {BASE}/1\n  Original {OTHER}  {BASE}/{MAX_LISTED + 7}" in first.get_content()
    assert second["To"] == "admin2@example.org, admin3@example.org"
    assert second.get_content().count(f"{BASE}/") == MAX_LISTED
    assert f"  +5  {BASE}\n" in second.get_content()


@pytest.mark.parametrize("refused", ["MAIL", "RCPT", "DATA"])
def test_an_email_that_fails_is_tried_again(
    refused: str, uri: str, tmp_path: Path, sent: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with post_office() as post, telling(uri, tmp_path, post) as service:
        note(service, (IBIP, 1, 2), (IBIP, 1, 3))
        post.refuses[refused] = "451 later, please"
        tell(service, LATER)
        tell(service, LATER + RETRY / 2)
        assert post.receive() == []
        failures = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
        assert len(failures) == 2
        assert all("451 later, please" in failure for failure in failures)
        post.refuses.clear()
        tell(service, LATER + RETRY)
        tell(service, LATER + 2 * RETRY)
        assert len(post.receive()) == len(sent) == 2


# --- pages and command ---------------------------------------------------------------------------

#: The conflicts of the fixture ``app`` in JSON.
FIRST = {
    "id": 1,
    "name": IBIP,
    "other_name": REP,
    "about": "Original",
    "state": "ended",
    "found_at": "2026-03-01T12:00:00Z",
    "ended_at": "2026-03-01T13:00:00Z",
    "preferred": None,
    "told_at": "2026-03-01T12:01:00Z",
    "archives": ARCHIVES,
}
SECOND = {
    **FIRST,
    "id": 2,
    "name": "http://old.example.org/handle/1/2",
    "other_name": None,
    "about": "alias",
    "state": "open",
    "ended_at": None,
    "told_at": None,
}
THIRD = {**SECOND, "id": 3, "name": OTHER, "about": "Original"}
ALL = {1: FIRST, 2: SECOND, 3: THIRD}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    """A resolver with two open conflicts, and one that has ended."""
    with app_over([], tmp_path, SERVER_NAME="urlib.net", PREFERRED_URL_SCHEME="https") as app:
        database = resolver_of(app).database
        included(a_registry(database), 2)
        for archive in (1, 2):
            claim(database, archive, "a", ORIGINAL, REP, IBIP)
        with database.writing() as connection:
            connection.execute(update(Conflict).values(told_at=NOON + WAIT))
        claim(database, 2, "a", COPY, REP, IBIP, now=LATER)
        claim(database, 1, "b", ORIGINAL, OTHER, OLD)
        claim(database, 2, "b", ORIGINAL, "8JMKD3MGP8W/35MMLLA", OLD)
        claim(database, 2, "c", ORIGINAL, OTHER)
        yield app


def look(app: Flask, query: str = "", status: int = 200, **named: str) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in named.items()}
    answer = ask(app, f"{PATH}{query}", headers={"Host": "urlib.net", **headers})
    assert answer.status == status
    assert "@" not in answer.text  # no e-mail addresses
    return answer


def look_json(app: Flask, query: str) -> Any:
    answer = look(app, query)
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    return json.loads(answer.text)


@pytest.mark.parametrize(
    ("query", "shown"),
    [("?", [3, 2]), ("?state=ended", [1]), ("?state=all", [3, 2, 1])],
)
def test_the_list_shows_the_conflicts_of_a_state(app: Flask, query: str, shown: list[int]) -> None:
    page = Page(look(app, query, Accept="text/html").text)
    links = [urlsplit(link).path for link in page.links]
    assert [f"{PATH}/{number}" for number in shown] == [
        link for link in links if link.startswith(f"{PATH}/")
    ]
    listed = look_json(app, f"{query}&format=json")
    assert listed == {"conflicts": [ALL[number] for number in shown]}


def test_the_page_of_a_conflict_names_both_archives(app: Flask) -> None:
    page = Page(look(app, "/3").text)
    assert page.text("h1") == f"Two Archives claim to have the original of {OTHER}"
    text = page.text("dt") + page.text("code") + page.text("a")
    for archive in ARCHIVES:
        assert archive["service"] in text
        assert f"http://{archive['address']}/{OTHER}" in page.links
    assert f"https://urlib.net/{OTHER}" in text
    page = Page(look(app, "/2").text)
    assert page.text("h1") == f"Two Archives claim {SECOND['name']} for different items"
    assert "How the conflict ends" in page.text("h2")
    page = Page(look(app, "/1").text)
    assert page.text("h1") == f"The conflict about {IBIP} has ended"
    assert "How the conflict ends" not in page.text("h2")
    for number, expected in ALL.items():
        assert look_json(app, f"/{number}?format=json") == expected


@pytest.mark.parametrize(
    ("query", "status"),
    [("?state=other", 400), ("?format=xml", 400), ("/4?format=json", 404),
     ("/" + "9" * 40, 400)],
)  # fmt: skip
def test_wrong_requests_have_a_status(app: Flask, query: str, status: int) -> None:
    look(app, query, status)


def test_the_command_lists_conflicts_and_decides(app: Flask) -> None:
    outcome = command(app, "conflicts", group=ibi_resolver)
    addresses = [archive["address"] for archive in ARCHIVES]
    line = ["2", "alias", SECOND["name"], *addresses, SECOND["found_at"], "", ""]
    assert outcome.lines[2] == "\t".join(map(str, line))
    listed = json.loads(command(app, "conflicts", "--all", "--json", group=ibi_resolver).data)
    assert [one["id"] for one in listed] == [3, 2, 1]
    assert listed[1]["first_email"] == "banon@dpi.inpe.br"
    old = "https://old.example.org:443/handle/1/2"
    decided = command(app, "conflicts", "--prefer", SERVICES[1], old, group=ibi_resolver)
    assert (decided.status, decided.err) == (0, "conflicts ended: 1\n")
    assert order(resolver_of(app).database, OLD) == [2, 1]
    assert look_json(app, "/2?format=json")["preferred"] == SERVICES[1]
    assert "Persistent URLs lead to a1.example.org:80 first" in look(app, "/2").text
    again = command(app, "conflicts", "--prefer", SERVICES[1], old, group=ibi_resolver)
    assert again.error == "the Archive has no open conflict about http://old.example.org/handle/1/2"
    unknown = command(app, "conflicts", "--prefer", SERVICES[2], old, group=ibi_resolver)
    assert unknown.error == f"no Archive with the service {SERVICES[2]} is registered"
    assert command(app, "conflicts", "--prefer", SERVICE, group=ibi_resolver).status == 2
