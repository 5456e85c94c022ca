"""The cancellation of actors: what happens to their documents, and when it happens ([P] 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, select
from support.document_registries import (
    add_actors,
    add_documents,
    add_urls,
    delete_documents,
    read_actors,
    read_documents,
    replace_url,
)
from support.far import Far, Reply, far_server, unused_address
from support.registries import NOON, a_config

from flask_ibi_archive.resolver.registry_2008 import actor_check
from flask_ibi_archive.resolver.registry_2008.actor_check import ActorChange, ActorChecker
from flask_ibi_archive.resolver.registry_2008.actors import Cancellation, cancel_actor
from flask_ibi_archive.resolver.registry_2008.tables import Actor, RegisteredMetadata
from flask_ibi_archive.server.database import dialects
from flask_ibi_archive.server.database.database import Database


@pytest.fixture
def far() -> Iterator[Far]:
    """The server of all actors. The URL ``works`` works, and all others answer 404."""
    with far_server() as server:
        server.replies["works"] = Reply()
        yield server


def day(number: float) -> datetime:
    return NOON + timedelta(days=number)


def checker(database: Database, number: float = 0, **options: Any) -> ActorChecker:
    """Return a check that runs on a day, and does not wait between requests."""
    config = options.pop("config", None) or a_config()
    values = {"delay": 0, "threads": 2, **options}
    return ActorChecker(database, config, now=lambda: day(number), **values)


def check(database: Database, number: float = 0, **options: Any) -> list[ActorChange]:
    return list(checker(database, number, **options).run())


def changes(found: list[ActorChange]) -> list[tuple[str, str]]:
    return sorted((change.actor_id[5:6].upper(), change.state) for change in found)


# --- what happens to the documents ---------------------------------------------------------------


@pytest.mark.rule("P4-05")
def test_documents_go_to_the_oldest_copy_and_lose_the_copyright(database: Database) -> None:
    add_actors(database, "ABC")
    add_documents(
        database,
        {"held": "A", "copied": "AB", "copied twice": "ACB", "of others": "BAC", "not": "CB"},
    )
    add_urls(database, "A", None, metadata=["http://a.br/m", "http://a.br/n"])
    before = read_documents(database)
    with database.writing() as connection:
        assert cancel_actor(connection, 1, day(1)) == Cancellation(
            handed_over=2, deleted=2, copies=1
        )
        assert cancel_actor(connection, 1, day(2)) is None
        assert cancel_actor(connection, 9, day(2)) is None
    assert read_documents(database) == {
        "copied": "b",
        "copied twice": "cB",
        "of others": "BC",
        "not": before["not"],
    }
    assert read_actors(database) == {"A": (None, day(1)), "B": (None, None), "C": (None, None)}
    with database.reading() as connection:
        assert connection.scalar(select(Actor.password_hash).where(Actor.id == 1)) is None
        assert connection.scalar(select(RegisteredMetadata.url)) is None


# --- when an actor is cancelled ------------------------------------------------------------------

#: On a day, the URLs of the actor work (+) or fail (x), or the actor registers its documents again
#: (n). Then the day since when the actor fails, or "cancelled".
TIMES: list[tuple[str, float | str | None]] = [
    ("+0", None),
    ("x0", 0),
    ("x0 x729.9", 0),
    ("x0 x730", "cancelled"),
    ("x0 x300 x729 x730", "cancelled"),
    ("+0 x1 x731", "cancelled"),
    ("x0 +730", None),
    ("x0 +729 x730 x1459", 730),
    ("x0 +729 x730 x1460", "cancelled"),
    ("x0 n1 x2 x732", "cancelled"),
    ("x0 n730", None),
]


@pytest.mark.rule("P4-05")
def test_an_actor_is_cancelled_after_two_years_without_a_working_url(
    database: Database, far: Far
) -> None:
    replies = {"+": Reply(), "x": Reply(404)}
    for times, expected in TIMES:
        _empty(database)
        add_actors(database, "A")
        add_urls(database, "A", far.url("a"))
        for text in times.split():
            if text[0] == "n":
                replace_url(database, "A", far.url("a"))
            else:
                far.replies["a"] = replies[text[0]]
                check(database, float(text[1:]))
        since, cancelled_at = read_actors(database)["A"]
        last = day(float(times.split()[-1][1:]))
        if expected == "cancelled":
            assert cancelled_at == last, times
        else:
            assert cancelled_at is None, times
            assert since == (None if expected is None else day(float(expected))), times


def _empty(database: Database) -> None:
    with database.writing() as connection:
        for name in ("metadata", "registration", "document", "actor"):
            connection.exec_driver_sql(f"DELETE FROM ibi_registry_{name}")


def test_documents_are_handed_over_to_actors_that_may_be_cancelled_too(
    database: Database, far: Far
) -> None:
    add_actors(database, "ABCDE", failing_since=NOON)
    dead, alive = f"http://{unused_address()}/", far.url("works")
    add_documents(database, {"1": "ABC", "2": "AB", "3": "A", "4": "CA"})
    for name, url in zip("ABC", (dead, dead, alive), strict=True):
        replace_url(database, name, url, NOON)
    found = check(database, 730)
    assert changes(found) == [("A", "cancelled"), ("B", "cancelled"), ("C", "works again")]
    assert read_documents(database) == {"1": "c", "4": "C"}
    # without registrations, no URL fails
    assert read_actors(database)["D"] == (None, None)
    totals = [change.cancellation for change in found if change.cancellation]
    # B may be cancelled before or after A
    assert sum(total.handed_over for total in totals) in (1, 3)
    assert {change.error for change in found} == {None, "can't be reached (Connection refused)"}


def test_an_actor_that_has_only_copies_is_cancelled(database: Database, far: Far) -> None:
    add_actors(database, "AB")
    add_documents(database, {"1": "BA"})
    replace_url(database, "A", far.url("gone"))
    replace_url(database, "B", far.url("works"))
    assert changes(check(database)) == [("A", "failing")]
    [change] = check(database, 730)
    assert change == ActorChange(
        "a.br/a/2001/01.01.00.00",
        "a.a.br:80",
        "a@a.br",
        "cancelled",
        NOON,
        "answers 404 (Not Found)",
        Cancellation(0, 0, 1),
    )
    assert read_documents(database) == {"1": "B"}


# --- the requests --------------------------------------------------------------------------------


def test_the_check_of_an_actor_ends_with_the_first_url_that_works(
    database: Database, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialects, "PAGE", 2)
    far.replies |= {"b": Reply(), "m": Reply(), "n": Reply()}
    add_actors(database, "A")
    add_urls(database, "A", far.url("a"), None, metadata=[far.url("m"), far.url("n")])
    assert check(database) == []
    assert far.lines == ["HEAD a", "GET a", "HEAD m"]
    add_urls(database, "A", *map(far.url, "cdb"), far.url("e"))
    far.requests.clear()
    assert check(database) == []
    assert [line for line in far.lines if "HEAD" in line] == [f"HEAD {name}" for name in "acdb"]


def test_a_host_that_is_down_gets_few_requests_for_an_actor(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    find = actor_check.find_link_error

    def note(url: str, *words: Any) -> Any:
        asked.append(url)
        return find(url, *words)

    monkeypatch.setattr(actor_check, "find_link_error", note)
    add_actors(database, "A")
    address = unused_address()
    add_urls(database, "A", *(f"http://{address}/{number}" for number in range(20)))
    run, waits = checker(database, delay=5), []
    monkeypatch.setattr(run._stop, "wait", waits.append)
    [change] = run.run()
    assert change.error == "can't be reached (Connection refused)"
    assert len(asked) == actor_check.MAX_HOST_FAILURES
    assert waits == [5] * (len(asked) - 1)


@pytest.mark.parametrize(
    ("url", "error"),
    [("http://[x/", "is not a valid address"), ("http://127.0.0.1/", "internal IP address")],
)
def test_a_url_that_cannot_be_requested_does_not_work(
    database: Database, url: str, error: str
) -> None:
    add_actors(database, "A")
    add_urls(database, "A", url)
    [change] = check(database, config=a_config(IBI_RESOLVER_INNER_HOSTS=()))
    assert error in (change.error or "")


def _during(
    database: Database, far: Far, action: Callable[[], object], since: datetime | None, number: int
) -> list[ActorChange]:
    """Check the actor A, and change the database while its URL is requested."""
    _empty(database)
    add_actors(database, "AB", failing_since=since)
    add_urls(database, "A", far.url("a"))
    add_urls(database, "B", far.url("works"))

    def answer() -> Reply:
        action()
        return Reply(404)

    far.replies["HEAD a"] = answer
    return [change for change in check(database, number) if change.actor_id[5:6] == "a"]


def test_a_registration_that_arrives_during_the_check_wins(database: Database, far: Far) -> None:
    """The registration can also be stored: no transaction is open during a request."""
    for since, number in ((None, 0), (NOON, 730)):
        for expected in (None, since):

            def register(expected: datetime | None = expected) -> None:
                replace_url(database, "A", far.url("new"), expected)

            assert _during(database, far, register, since, number) == []
            assert read_actors(database)["A"] == (expected, None)
            assert len(read_documents(database)) == 2


def test_an_actor_that_changes_otherwise_during_the_check_is_left_alone(
    database: Database, far: Far
) -> None:
    def cancel() -> None:
        with database.writing() as connection:
            cancel_actor(connection, 1, day(5))

    assert _during(database, far, cancel, NOON, 730) == []
    assert read_actors(database)["A"] == (NOON, day(5))
    assert _during(database, far, lambda: delete_documents(database, "A"), NOON, 730) == []
    assert read_actors(database)["A"] == (NOON, None)
    # another process found that a URL works
    assert _during(database, far, lambda: replace_url(database, "A", far.url("a")), NOON, 730) == []
    assert read_actors(database)["A"] == (None, None)


# --- the network of the resolver -----------------------------------------------------------------


def test_nothing_is_stored_if_no_url_of_any_actor_works(database: Database) -> None:
    add_actors(database, "ABC", failing_since=NOON)
    for name in "ABC":
        add_urls(database, name, f"http://{unused_address()}/")
    before = read_documents(database), read_actors(database)
    run = checker(database, 1000)
    assert list(run.run()) == []
    assert (run.unconfirmed, run.results) == (3, {"failing": 3})
    assert (read_documents(database), read_actors(database)) == before


def test_nothing_is_stored_if_the_network_fails_during_the_check(
    database: Database, far: Far
) -> None:
    add_actors(database, "ABCD")
    for name, path in zip("ABCD", ("gone", "b", "gone", "gone"), strict=True):
        add_urls(database, name, far.url(path))
    replies = iter([Reply(), Reply(404), Reply(404)])
    far.replies["b"] = lambda: next(replies)
    run = checker(database, threads=1)
    assert changes(list(run.run())) == [("A", "failing")]
    assert run.unconfirmed == 2
    far.replies["b"] = Reply()
    assert changes(check(database)) == [("C", "failing"), ("D", "failing")]


def test_a_single_actor_can_be_cancelled(database: Database) -> None:
    add_actors(database, "AB", failing_since=NOON)
    add_urls(database, "A", f"http://{unused_address()}/")
    assert changes(check(database, 730)) == [("A", "cancelled")]


# --- interrupted runs, and runs without changes --------------------------------------------------


def _many(database: Database, far: Far) -> None:
    """Register actors that must be cancelled, that begin to fail, and that work again."""
    _empty(database)
    add_actors(database, "ABCD", failing_since=NOON)
    add_actors(database, "EFGH")
    add_documents(database, {"1": "AEF", "2": "ABG", "3": "CA", "4": "DH"})
    for name in "ABCDEFGH":
        url = far.url("works" if name in "DHG" else "gone")
        replace_url(database, name, url, NOON if name in "ABCD" else None)


AFTER_MANY = {"1": "eF", "2": "g", "4": "DH"}


def test_a_run_that_was_stopped_is_continued_by_the_next_run(database: Database, far: Far) -> None:
    for stopped_after in (2, 4):
        _many(database, far)
        run = checker(database, 730, threads=1).run()
        found = [next(run) for _ in range(stopped_after)]
        run.close()
        found += check(database, 730)
        assert changes(found) == [
            ("A", "cancelled"),
            ("B", "cancelled"),
            ("C", "cancelled"),
            ("D", "works again"),
            ("E", "failing"),
            ("F", "failing"),
        ]
        assert read_documents(database) == AFTER_MANY


@pytest.mark.postgresql
def test_a_cancellation_is_stored_completely_or_not_at_all(database: Database, far: Far) -> None:
    """A failure of each statement of a cancellation undoes the whole cancellation."""
    statements = 0

    def count(*args: Any) -> None:
        nonlocal statements
        if args[2].startswith(("UPDATE", "DELETE")):
            statements += 1
            if statements == failing:
                raise KeyboardInterrupt

    for failing in range(1, 5):
        _empty(database)
        add_actors(database, "ABC", failing_since=NOON)
        add_documents(database, {"1": "AB", "2": "A", "3": "BA"})
        before = read_documents(database), read_actors(database)
        statements = 0
        event.listen(database.engine, "before_cursor_execute", count)
        with pytest.raises(KeyboardInterrupt), database.writing() as connection:
            cancel_actor(connection, 1, NOON)
        event.remove(database.engine, "before_cursor_execute", count)
        assert statements == failing
        assert (read_documents(database), read_actors(database)) == before


def test_a_dry_run_reports_the_same_and_changes_nothing(database: Database, far: Far) -> None:
    _many(database, far)
    before = read_documents(database), read_actors(database)
    found = changes(check(database, 730, dry_run=True))
    assert (read_documents(database), read_actors(database)) == before
    assert found == changes(check(database, 730))
    assert read_documents(database) == AFTER_MANY


def test_an_error_in_a_check_ends_the_run(
    database: Database, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    _many(database, far)

    def fail(url: str, *words: object) -> None:
        raise RuntimeError(url)

    monkeypatch.setattr(actor_check, "find_link_error", fail)
    with pytest.raises(RuntimeError, match="http"):
        check(database)
