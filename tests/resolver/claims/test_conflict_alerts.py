"""Both administrators are told about a conflict: by one e-mail, a signal and a line in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import insert, update
from support.loopback import nobody
from support.registries import KEY, NOON, a_registry, a_request
from support.resolving import resolver_over
from support.smtp import Post, post_office

from flask_ibi_archive.resolver.old_claims import conflict_alerts
from flask_ibi_archive.resolver.old_claims.conflict_alerts import (
    MAX_LISTED,
    RETRY,
    WAIT,
    tell_administrators,
)
from flask_ibi_archive.resolver.old_claims.conflicts import (
    end_conflicts,
    list_conflicts,
    note_rival,
)
from flask_ibi_archive.resolver.old_claims.tables import Conflict, FollowedLog
from flask_ibi_archive.resolver.service import ResolverService
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.signals import Notifier, conflict_found

IBI, OTHER = "8JMKD3MGP8W/34PGRBS", "8JMKD3MGP8W/35MMLL8"
LATER = NOON + WAIT
URL = "http://urlib.net/ibi/conflicts"
LOGGER = "flask_ibi_archive.resolver.old_claims.conflict_alerts"


@contextmanager
def telling(uri: str, post: Post | None, **config: Any) -> Iterator[ResolverService]:
    """Yield a resolver with three Archives, whose administrators have different addresses."""
    mail = {} if post is None else mail_settings("{}:{}".format(*post.address))
    with resolver_over([], uri, SERVER_NAME="urlib.net", **mail, **config) as service:
        include(service, 3)
        yield service


def mail_settings(address: str) -> dict[str, Any]:
    host, _, port = address.partition(":")
    return {
        "MAIL_SERVER": host,
        "MAIL_PORT": port,
        "MAIL_DEFAULT_SENDER": "urlib@example.org",
    }


def include(service: ResolverService, count: int) -> None:
    registry = a_registry(service.database)
    for number in range(count):
        ibi = f"a.br/archive{number}/2001/01.01.00.00"
        registry.register(ibi, KEY)
        registry.process(
            a_request(
                service_ibi=ibi,
                address=f"a{number}.example.org",
                admin_email=f"admin{number}@example.org",
            )
        )


def tell(service: ResolverService, now: datetime) -> None:
    tell_administrators(service.database, service.config, Notifier(), now)


def note(service: ResolverService, *conflicts: tuple[str, int, int]) -> None:
    with service.database.writing() as connection:
        for conflict in conflicts:
            note_rival(connection, *conflict, NOON)


def receive(post: Post) -> list[EmailMessage]:
    """Return the e-mails that have arrived."""
    found = []
    while not post.accepted.empty():
        sender, recipients, data = post.accepted.get()
        message = message_from_bytes(data.replace(b"\r\n", b"\n"), policy=policy.default)
        assert sender == "urlib@example.org"
        assert message["To"] == ", ".join(recipients)
        found.append(message)
    return found


@contextmanager
def signals() -> Iterator[list[dict[str, Any]]]:
    """Yield the values of the signals that are sent."""
    received: list[dict[str, Any]] = []

    def store(sender: object, **values: Any) -> None:
        received.append(values)

    with conflict_found.connected_to(store):
        yield received


def test_both_administrators_get_one_email(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    with post_office() as post, telling(uri, post) as service, signals() as sent:
        note(service, (IBI, 2, 1))
        for minutes in range(3):
            tell(service, LATER + timedelta(minutes=10 * minutes))
        [message] = receive(post)
    assert message["To"] == "admin0@example.org, admin1@example.org"
    assert IBI in message["Subject"]
    text = message.get_content()
    for part in (
        "Dois Arquivos declaram ter o Original de um item.",
        "Two Archives claim to have the Original of an item.",
        f"  {IBI}  {URL}/1\n",
        "  a0.example.org  (a.br/archive0/2001/01.01.00.00)\n",
        "  a1.example.org  (a.br/archive1/2001/01.01.00.00)\n",
        "The conflict ends by itself",
    ):
        assert part in text, part
    assert max(map(len, text.splitlines())) <= 100
    archives = ("a.br/archive0/2001/01.01.00.00", "a.br/archive1/2001/01.01.00.00")
    assert sent == [
        {
            "conflict": 1,
            "ibi": IBI,
            "archives": archives,
            "addresses": ("a0.example.org", "a1.example.org"),
            "url": f"{URL}/1",
        }
    ]
    [line] = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert line == (
        f"a0.example.org ({archives[0]}) and a1.example.org ({archives[1]}) both claim the "
        f"Original of {IBI}; see {URL}/1"
    )


def test_the_conflicts_of_two_archives_are_in_one_email(uri: str) -> None:
    many = [(f"a.br/b/2001/01.01.00.{number:03d}", 2, 3) for number in range(MAX_LISTED + 5)]
    with post_office() as post, telling(uri, post) as service, signals() as sent:
        note(service, (IBI, 1, 2), *many, (OTHER, 1, 2))
        tell(service, LATER)
        first, second = receive(post)
    assert first["To"] == "admin0@example.org, admin1@example.org"
    assert "o Original de 2 itens" in first.get_content()
    assert f"  {IBI}  {URL}/1\n  {OTHER}  {URL}/{MAX_LISTED + 7}\n" in first.get_content()
    assert second["To"] == "admin1@example.org, admin2@example.org"
    assert f"the Original of {MAX_LISTED + 5} items" in second.get_content()
    assert f"  and 5 more: {URL}\n" in second.get_content()
    assert second.get_content().count(f"{URL}/") == 2 * MAX_LISTED
    assert [values["ibi"] for values in sent] == [IBI, *(one[0] for one in many), OTHER]


def pin_key(database: Database, archive_id: int) -> None:
    """Pin the key of an Archive's log."""
    name = f"a.br/archive{archive_id}/2001/01.01.00.00"
    row = {"archive_id": archive_id, "origin": name, "key": "key", "pinned_at": NOON}
    with database.writing() as connection:
        connection.execute(insert(FollowedLog).values(frontier=b"", **row))


def test_a_conflict_that_ends_at_once_is_not_told(uri: str) -> None:
    """When an item moves, the claim of the new Archive may be read first."""
    with post_office() as post, telling(uri, post) as service, signals() as sent:
        database = service.database
        for number in (1, 2, 3):
            pin_key(database, number)
        read = update(FollowedLog).values(read_at=NOON - timedelta(minutes=1))
        with database.writing() as connection:
            connection.execute(read)
            after = NOON + timedelta(milliseconds=1)
            connection.execute(read.where(FollowedLog.archive_id == 1).values(read_at=after))
        note(service, (IBI, 1, 2), (OTHER, 1, 3))
        soon = NOON + timedelta(seconds=1)
        tell(service, soon)
        assert (sent, receive(post)) == ([], [])
        # the other logs are read before their turn
        due = database.read_rows(FollowedLog.__table__.select().order_by(FollowedLog.archive_id))
        assert [row.due_at for row in due] == [None, soon, soon]
        with database.writing() as connection:
            end_conflicts(connection, IBI, 2, soon)
            connection.execute(read.where(FollowedLog.archive_id == 2).values(read_at=soon))
            connection.execute(read.where(FollowedLog.archive_id == 3).values(read_at=soon))
        tell(service, soon)
        assert [values["ibi"] for values in sent] == [OTHER]
        [message] = receive(post)
        assert message["To"] == "admin0@example.org, admin2@example.org"
        tell(service, LATER)
        assert len(sent) == 1
        assert receive(post) == []


def test_a_conflict_is_told_even_if_the_other_log_is_not_read(uri: str) -> None:
    with post_office() as post, telling(uri, post) as service:
        pin_key(service.database, 1)
        note(service, (IBI, 1, 2))
        tell(service, LATER - timedelta(seconds=1))
        assert receive(post) == []
        tell(service, LATER)
        assert len(receive(post)) == 1


@pytest.mark.parametrize("refused", ["connect", "MAIL", "RCPT", "DATA"])
def test_an_email_that_fails_is_tried_again(
    refused: str, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    with post_office() as post, telling(uri, post) as service, signals() as sent:
        note(service, (IBI, 1, 2), (IBI, 1, 3))
        post.refuses[refused] = "451 later, please"
        tell(service, LATER)
        tell(service, LATER + RETRY / 2)
        assert receive(post) == []
        failures = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
        assert len(failures) == (1 if refused == "connect" else 2)
        assert all("451 later, please" in failure for failure in failures)
        assert len(sent) == 2
        post.refuses.clear()
        tell(service, LATER + RETRY)
        tell(service, LATER + 2 * RETRY)
        assert len(receive(post)) == len(sent) == 2


def test_a_connection_that_breaks_loses_no_email(uri: str) -> None:
    with post_office(refuses={"RSET": ""}) as post, telling(uri, post) as service:
        note(service, (IBI, 1, 2), (IBI, 1, 3), (IBI, 2, 3))
        post.refuses["RCPT"] = ""
        tell(service, LATER)
        post.refuses.clear()
        tell(service, LATER + RETRY)
        assert len(receive(post)) == 3


def test_a_process_that_is_killed_repeats_one_email(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the answer of the mail server and the commit, nobody knows that it was sent."""
    with post_office() as post, telling(uri, post) as service, signals() as sent:
        note(service, (IBI, 1, 2), (IBI, 1, 3), (IBI, 2, 3))
        store = conflict_alerts._set_time

        def die(connection: Any, conflicts: Any, column: str, moment: Any) -> None:
            if column == "told_at" and post.accepted.qsize() == 2:
                raise KeyboardInterrupt
            store(connection, conflicts, column, moment)

        with monkeypatch.context() as patch:
            patch.setattr(conflict_alerts, "_set_time", die)
            with pytest.raises(KeyboardInterrupt):
                tell(service, LATER)
        tell(service, LATER + RETRY)
        tell(service, LATER + 2 * RETRY)
        recipients = [message["To"] for message in receive(post)]
        assert sorted(recipients, key=recipients.count) == [
            "admin0@example.org, admin1@example.org",
            "admin1@example.org, admin2@example.org",
            "admin0@example.org, admin2@example.org",
            "admin0@example.org, admin2@example.org",
        ]
        assert len(sent) == 3


def test_without_a_mail_server_there_is_a_signal(uri: str) -> None:
    with telling(uri, None) as service, signals() as sent:
        note(service, (IBI, 1, 2))
        tell(service, LATER)
        tell(service, LATER)
        assert len(sent) == 1
        [conflict] = service.database.read(list_conflicts)
        assert conflict.told_at is None


def test_a_missing_sender_is_logged(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    with (
        post_office() as post,
        resolver_over([], uri, MAIL_SERVER="127.0.0.1", MAIL_PORT=post.address[1]) as service,
    ):
        include(service, 2)
        note(service, (IBI, 1, 2))
        tell(service, LATER)
        assert receive(post) == []
    assert any("MAIL_DEFAULT_SENDER" in record.getMessage() for record in caplog.records)


def test_the_mail_server_may_be_down(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    with (
        nobody() as address,
        resolver_over([], uri, **mail_settings(address)) as service,
    ):
        include(service, 2)
        note(service, (IBI, 1, 2))
        tell(service, LATER)
    assert any("can't be reached" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_conflicts_of_different_archives_are_told(count: int, uri: str) -> None:
    """The time is printed: with a mail server on this machine, a minute is more than enough."""
    with post_office() as post, telling(uri, post) as service:
        with service.database.writing() as connection:
            columns = "service_ibi, address, ip, platform_version, admin_email, key_hash"
            for number in range(4, count + 1):
                connection.exec_driver_sql(
                    f"INSERT INTO ibi_resolver_archive ({columns}, included_at, registered_at)"
                    f" SELECT 'a.br/x{number}/2001/01.01.00.00', 'x{number}.example.org', ip,"
                    f" platform_version, 'x{number}@example.org', key_hash, included_at,"
                    " registered_at FROM ibi_resolver_archive WHERE id = 1"
                )
            connection.execute(
                insert(Conflict),
                [
                    {"ibi": IBI, "first_archive_id": 1, "second_archive_id": other,
                     "found_at": NOON}
                    for other in range(2, count + 1)
                ],
            )  # fmt: skip
        start = time.monotonic()
        tell(service, LATER)
        print(f"{time.monotonic() - start:.1f} s")
        assert len({message["To"] for message in receive(post)}) == count - 1


class Telling(RuleBasedStateMachine):
    """Conflicts are found and end, the mail server fails at times: each is told once."""

    uri: str

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.post = self.stack.enter_context(post_office())
        self.service = self.stack.enter_context(telling(self.uri, self.post))
        self.now = NOON
        self.open: dict[tuple[str, int, int], int] = {}
        self.told: set[int] = set()

    @rule(ibi=st.sampled_from((IBI, OTHER)), pair=st.permutations((1, 2, 3)))
    def find(self, ibi: str, pair: Sequence[int]) -> None:
        """The follower reads a second claim of an Original."""
        first, second = sorted(pair[:2])
        with self.service.database.writing() as connection:
            is_new = note_rival(connection, ibi, pair[0], pair[1], self.now)
        assert is_new == ((ibi, first, second) not in self.open)
        if is_new:
            newest = self.service.database.read(lambda connection: list_conflicts(connection)[0])
            self.open[ibi, first, second] = newest.id

    @rule(ibi=st.sampled_from((IBI, OTHER)), archive=st.integers(1, 3))
    def end(self, ibi: str, archive: int) -> None:
        """The follower reads that an Archive no longer claims the Original."""
        with self.service.database.writing() as connection:
            ended = end_conflicts(connection, ibi, archive, self.now)
        found = [one for one in self.open if one[0] == ibi and archive in one[1:]]
        assert ended == len(found)
        for one in found:
            del self.open[one]

    @rule()
    def fail(self) -> None:
        """The mail server refuses e-mails from now on."""
        self.post.refuses["MAIL"] = "451 later"

    @rule()
    def recover(self) -> None:
        """The mail server accepts e-mails again."""
        self.post.refuses.clear()

    @rule()
    def tell(self) -> None:
        """Time passes, and the follower tells what is to be told."""
        self.now += RETRY
        tell(self.service, self.now)
        told = {
            int(line.rpartition("/")[2])
            for message in receive(self.post)
            for line in message.get_content().splitlines()
            if f"{URL}/" in line
        }
        assert not told & self.told
        self.told |= told
        if not self.post.refuses:
            assert set(self.open.values()) <= self.told

    @invariant()
    def list(self) -> None:
        """The open conflicts are listed, the newest first."""
        found = self.service.database.read(
            lambda connection: list_conflicts(connection, Conflict.ended_at.is_(None))
        )
        assert [one.id for one in found] == sorted(self.open.values(), reverse=True)

    def teardown(self) -> None:
        """Close the resolver."""
        self.stack.close()


def test_each_conflict_is_told_once(tmp_path: Any) -> None:
    machine = type("OnThisDatabase", (Telling,), {"uri": "sqlite://"})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=5, stateful_step_count=20, suppress_health_check=list(HealthCheck)
        ),
    )
