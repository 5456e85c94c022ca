"""How pages of claims become rows, and answers that contradict them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.archive_servers import MakeFanOut, Servers, http
from support.claiming import OTHER, ClaimingArchive, a_claim, an_ibi, follow_row, rows_of
from support.clocks import Clock
from support.loopback import PATIENCE
from support.registries import NOON, SERVICE, a_config, resolver_database
from support.resolving import X, archives_of, leads

from flask_ibi_archive.core.claim import Claim
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.pairs import parse_pairs
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver import claims
from flask_ibi_archive.resolver.archives import MAX_CONTRADICTIONS, Archive
from flask_ibi_archive.resolver.asking import TransferResult
from flask_ibi_archive.resolver.claims import (
    Reading,
    ReadingStore,
    audit_claims,
    contradicts,
    list_due,
    read_result,
    store_hidden,
)
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.tables import (
    ClaimedName,
    FollowedArchive,
    PrefixHolder,
    RefusedClaim,
    ResolverState,
)
from flask_ibi_archive.server.database.database import Database

ORIGINAL, COPY, DELETED = 1, 2, 3
DOI, ADDRESS = "doi:10.5281/Zenodo.1", "https://old.example.org/a"
IBIP = "8JMKD3MGP8W/34PGRBS"


class Reader:
    """Reads an Archive without sockets, page by page."""

    def __init__(
        self, database: Database, config: ResolverConfig, clock: Clock, archive: ClaimingArchive
    ) -> None:
        self.database = database
        self.config = config
        self.clock = clock
        self.archive = archive
        self.archive_id = follow_row(database, archive)

    def read(self, body: bytes | None = None, limit: int = 1000, **result: Any) -> Reading:
        """Ask for a page, and store it if it is accepted.

        :param body: what the Archive answers; the page if it is None.
        :param result: values of the result of the request.
        """
        self.clock.wait(300)
        now = self.clock()
        [due] = self.database.read(lambda connection: list_due(connection, now, 1))
        body = self.archive.page(due.position, limit) if body is None else body
        answer = TransferResult(**{"status": 200, "body": body, "etag": '"1"', **result})
        reading = read_result(due, answer, now, self.config)
        with self.database.writing() as connection:
            ReadingStore(connection, self.config, now, now).store(reading)
        return reading

    def read_all(self, limit: int = 1000) -> None:
        """Read to the end of the list."""
        while (reading := self.read(limit=limit)).page is None or reading.page.more:
            pass

    @property
    def row(self) -> Any:
        """The row of the Archive."""
        [row] = self.rows(FollowedArchive)
        return row

    def rows(self, table: Any) -> list[Any]:
        """Return all rows of a table in their order."""
        return rows_of(self.database, table)

    def names(self) -> dict[str, tuple[str, int]]:
        """Return the item and the state of each name."""
        return {row.name: (row.item, row.state) for row in self.rows(ClaimedName)}

    def version(self) -> int:
        """Return the version of the list of Archives."""
        [state] = self.rows(ResolverState)
        return int(state.version)


def a_reader(database: Database, **config: Any) -> Reader:
    clock = Clock(NOON)
    return Reader(database, a_config(**config), clock, ClaimingArchive(clock=clock))


@pytest.fixture
def reader(database: Database) -> Reader:
    """A resolver that has read nothing of its Archive yet."""
    return a_reader(database)


@pytest.mark.postgresql
def test_a_claim_is_a_row_for_each_name(reader: Reader) -> None:
    claim = replace(a_claim(7, State.COPY, aliases=(DOI, ADDRESS)), ibip=IBIP)
    reader.archive.set(claim, a_claim(8, State.DELETED))
    reader.read_all()
    rows = {row.name: row[2:] for row in reader.rows(ClaimedName)}
    facts = COPY, "2026-03-01T12:00:00Z", OTHER, reader.clock.now
    assert rows == {
        an_ibi(7): (1, "7", 1, *facts),
        IBIP: (1, "7", 2, *facts),
        "doi:10.5281/zenodo.1": (1, "7", 3, *facts),
        "url:old.example.org/a": (1, "7", 3, *facts),
        an_ibi(8): (1, "8", 1, DELETED, facts[1], None, facts[3]),
    }
    row = reader.row
    assert (row.names, row.failures, row.reason, row.etag) == (5, 0, None, '"1"')
    assert row.read_at == reader.clock.now
    assert row.due_at == reader.clock.now + timedelta(seconds=30)


# --- refused lines and pages ---------------------------------------------------------------------

START, TIME = f"item 0 ibi {{rep {an_ibi()}}}", "timestamp 2026-03-01T12:00:00Z"


@pytest.mark.parametrize(
    "line",
    [
        "item 0 state Original",
        f"{START} state Lost {TIME}",
        f"{START} state Original {TIME} aliases {{x}}",
        f"{START} state Copy {TIME} ibi.archiveservice {SERVICE}",
        f"{START} state Deleted {TIME} ibi.archiveservice {SERVICE}",
    ],
)
def test_a_line_is_refused_until_its_item_is_claimed_properly(reader: Reader, line: str) -> None:
    reader.archive.set(line, a_claim(1))
    version = reader.version()
    reader.read_all()
    assert reader.names() == {an_ibi(1): ("1", ORIGINAL)}
    [refused] = reader.rows(RefusedClaim)
    assert refused.item == "0"
    assert reader.version() == version  # it was not trusted before
    reader.archive.set(line)  # once more
    reader.read_all()
    assert len(reader.rows(RefusedClaim)) == 1
    reader.archive.set(a_claim(0, None))
    reader.read_all()
    assert reader.rows(RefusedClaim) == []
    assert reader.version() == version + 1


def test_an_address_at_the_host_of_the_resolver_is_ignored_and_reported(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    reader = a_reader(database, SERVER_NAME="urlib.net")
    reader.archive.set(a_claim(aliases=("http://urlib.net/a", ADDRESS)))
    reader.read_all()
    assert set(reader.names()) == {an_ibi(), "url:old.example.org/a"}
    assert "1 addresses that" in caplog.text
    assert reader.rows(RefusedClaim) == []


def test_an_archive_with_too_many_refused_lines_is_read_no_further(reader: Reader) -> None:
    reader.archive.set(*(f"item {number} nonsense" for number in range(1001)))
    reader.read(limit=1000)
    assert len(reader.rows(RefusedClaim)) == 1000
    reader.read()
    assert reader.row.reason == "sent more than 1000 claims that are refused"
    assert len(reader.rows(RefusedClaim)) == 1000


STRANGER = ClaimingArchive(seed=1)


@pytest.mark.parametrize(
    ("answer", "reason", "is_refused"),
    [
        ({"body": b"no page"}, "the signature of the page is missing or wrong", True),
        ({"body": STRANGER.page()}, "the signature of the page is missing or wrong", True),
        ({"status": 404}, "answers with status 404", True),
        ({"status": 503}, "answers with status 503", False),
        ({"status": 0, "reason": "took too long"}, "took too long", False),
    ],
)
def test_an_answer_that_is_no_page_is_refused_or_silence(
    reader: Reader, answer: dict[str, Any], reason: str, is_refused: bool
) -> None:
    reader.archive.set(a_claim())
    reader.read_all()
    read_at, version = reader.row.read_at, reader.version()
    for failures, pause in enumerate((30, 60, 120, 240, 300, 300), 1):
        reader.read(**answer)
        row = reader.row
        assert row.failures == failures
        assert row.reason.endswith(reason)
        assert row.due_at == reader.clock.now + timedelta(seconds=pause)
        assert row.read_at == (None if is_refused else read_at)
    assert reader.version() == version + is_refused
    assert reader.names() == {an_ibi(): ("0", ORIGINAL)}
    reader.read()
    assert reader.row.read_at == reader.clock.now
    assert (reader.row.failures, reader.row.reason) == (0, None)
    assert reader.version() == version + 2 * is_refused


@pytest.mark.parametrize(
    "values",
    [
        {"archive": OTHER},
        {"after": "1-2-3"},
        {"after": "", "position": "0-0-0"},
        {"epoch": "another"},
        {"time": "2026-03-01T11:00:00Z"},
    ],
)
def test_a_signed_page_is_refused_if_it_is_not_the_next_one(
    reader: Reader, values: dict[str, Any]
) -> None:
    reader.archive.set(a_claim())
    reader.read_all()
    reader.archive.set(a_claim(1))
    page = reader.archive.page(reader.row.position, **values)
    assert reader.read(page).is_refused
    assert set(reader.names()) == {an_ibi()}
    assert reader.row.read_at is None
    reader.read_all()
    assert set(reader.names()) == {an_ibi(), an_ibi(1)}


def test_a_304_counts_only_if_it_was_asked_for(reader: Reader) -> None:
    assert reader.read(status=304).is_refused
    reader.read_all()
    assert not reader.read(status=304).is_refused
    assert reader.row.read_at == reader.clock.now
    reader.archive.set(a_claim(), a_claim(1))
    reader.read(limit=1)  # there is more
    assert reader.read(status=304).is_refused


def test_an_archive_with_too_many_names_is_read_no_further(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "MAX_NAMES_OF_ARCHIVE", 2)
    reader.archive.set(a_claim(), a_claim(1))
    reader.read_all()
    assert reader.row.read_at is not None
    reader.archive.set(a_claim(2))
    reader.read()
    assert reader.row.reason == "claims more than 2 names"
    assert reader.row.read_at is None
    reader.archive.set(a_claim(2, None), a_claim(1, State.COPY))
    reader.read()
    assert reader.row.read_at is not None
    assert reader.row.names == 2


# --- trust ---------------------------------------------------------------------------------------


def test_hidden_prefixes_are_those_of_the_last_page(reader: Reader) -> None:
    def hidden() -> dict[str, bool]:
        return {row.prefix: row.is_hidden for row in reader.rows(PrefixHolder)}

    reader.archive.hidden = ("8JMKD3MGP8W", "a.br/items")
    reader.read_all()
    assert hidden() == dict.fromkeys(reader.archive.hidden, True)
    reader.archive.hidden = ("a.br/items",)
    reader.read_all()
    assert hidden() == {"a.br/items": True}
    with reader.database.writing() as connection:
        store_hidden(connection, reader.archive_id, ())
    assert hidden() == {}


# --- a property ----------------------------------------------------------------------------------

NAMES = [an_ibi(number) for number in range(5)]
STATES = [State.ORIGINAL, State.ORIGINAL, State.COPY, None]
CHANGE = st.tuples(
    st.just("change"), st.integers(0, 3), st.sets(st.integers(0, 4), max_size=3), st.integers(0, 3)
)
STEP = st.one_of(
    CHANGE,
    CHANGE,
    st.tuples(st.just("read"), st.sampled_from([1, 1, 2])),
    st.tuples(st.just("read_to_end")),
    st.tuples(st.just("restore"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["save_resolver", "restore_resolver"])),
)


class Model:
    """An Archive, what the resolver must know of it at each moment, and the backups."""

    def __init__(self, database: Database) -> None:
        self.reader = a_reader(database)
        self.archive = self.reader.archive
        self.backups = [self.archive.save()]
        #: What is found and was claimed without interruption since: the state and ``since``.
        self.certain: dict[str, tuple[int, Any]] = {}
        self.file = sqlite3.connect(":memory:")
        for number in range(3):
            self.change(number, {number}, 0)
        self.save_resolver()

    def read(self, limit: int) -> None:
        self.reader.read(limit=limit)

    def read_to_end(self) -> None:
        self.reader.read_all(limit=2)

    def restore(self, changes: int) -> None:
        """Restore the Archive as it was before some changes."""
        self.archive.restore(self.backups[max(len(self.backups) - 1 - changes, 0)])

    def change(self, item: int, numbers: set[int], state: int) -> None:
        """Give an item names, which others lose."""
        names = {NAMES[number] for number in numbers}
        claims = {}
        for claim in self.archive.claims.values():
            left = [name for name in (*claim.identifiers, *claim.aliases) if name not in names]
            if claim.state is not None and len(left) < len(claim.identifiers + claim.aliases):
                claims[claim.item] = self.claim(claim.item, left, claim.state)
        claims[str(item)] = self.claim(str(item), sorted(names), STATES[state])
        self.archive.set(*claims.values())
        self.backups.append(self.archive.save())

    @staticmethod
    def claim(item: str, names: list[str], state: State | None) -> Claim:
        if not names or state is None:
            return a_claim(0, None, item=item)
        return a_claim(0, state, item=item, rep=names[0], aliases=tuple(names[1:]))

    def save_resolver(self) -> None:
        with closing(self.reader.database.engine.raw_connection()) as connection:
            connection.driver_connection.backup(self.file)
        self.resolver_backup = dict(self.certain)

    def restore_resolver(self) -> None:
        with closing(self.reader.database.engine.raw_connection()) as connection:
            self.file.backup(connection.driver_connection)
        self.certain = dict(self.resolver_backup)

    def check(self) -> None:
        """Check that nothing is missing, and note what is found."""
        rows = {row.name: (row.state, row.since) for row in self.reader.rows(ClaimedName)}
        assert self.certain.keys() <= rows.keys()
        for name, (state, since) in self.certain.items():
            if rows[name][0] == state:
                assert rows[name][1] == since
        claimed = self.archive.own_list()
        self.certain = {
            name: row
            for name, row in rows.items()
            if name in claimed and claimed[name][1] == row[0]
        }
        assert self.reader.row.names == len(rows)

    def forget(self) -> None:
        """Forget what the Archive no longer claims as before."""
        claimed = self.archive.own_list()
        for certain in (self.certain, self.resolver_backup):
            for name in [*certain]:
                if name not in claimed or claimed[name][1] != certain[name][0]:
                    del certain[name]


@settings(max_examples=20)
@given(st.lists(STEP, max_size=20))
def test_nothing_is_missed_and_nothing_is_deleted_too_early(steps: list[Any]) -> None:
    with resolver_database("sqlite://") as database:
        model = Model(database)
        for name, *values in steps:
            getattr(model, name)(*values)
            model.forget()
            model.check()
        model.read_to_end()
        assert model.reader.names() == model.archive.own_list()
        assert {row.reading for row in model.reader.rows(ClaimedName)} <= {model.reader.row.reading}
        model.file.close()


# --- the audit -----------------------------------------------------------------------------------

ORIG, A_COPY = State.ORIGINAL, State.COPY
HERE, THERE = "http://here.br/a.pdf", "http://there.br/b.pdf"
SINCE, LATER = "2026-11-26T22:00:00Z", "2026-11-26T22:00:01Z"
CHANGED = f"\r\ntimestamp {LATER}"


@pytest.mark.parametrize(
    ("text", "contradicted"),
    [
        ("", {ORIG, A_COPY}),
        (leads(HERE), {None, A_COPY}),
        ("state Deleted", {None, ORIG, A_COPY}),
        (leads(HERE) + CHANGED, set()),  # the change was perhaps not read yet
        (f"ibi {{rep {X}}}", set()),  # shown to nobody
    ],
)
def test_which_answers_contradict_a_claim(text: str, contradicted: set[State | None]) -> None:
    pairs = parse_pairs(text)
    assert {one for one in (None, ORIG, A_COPY) if contradicts(one, pairs, SINCE)} == contradicted


def test_answers_that_contradict_claims_are_counted_and_end_the_trust(
    database: Database,
    hosts: Servers,
    make_fan_out: MakeFanOut,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(claims, "WAIT", PATIENCE)
    tables = {X: leads(HERE)}, {X: leads(THERE, "Copy")}, {X: http("", "500 No")}
    servers = archives_of(hosts, *tables)
    archives = []
    for number, server in enumerate(servers):
        key = ClaimingArchive(server.service, seed=number)
        archive_id = follow_row(database, key, server.address)
        archives.append(Archive(archive_id, server.service, server.address))
    with database.writing() as connection:
        connection.execute(FollowedArchive.__table__.update().values(epoch="1", read_at=NOON))
    claimed = {archives[0].id: ORIG}
    for count in range(1, MAX_CONTRADICTIONS + 1):
        fan_out = make_fan_out()
        audit_claims(database, fan_out, parse_identifier(X), archives, claimed, 300)
        rows = rows_of(database, FollowedArchive)
        assert [row.contradictions for row in rows] == [0, count, 0]
        [state] = rows_of(database, ResolverState)
        assert state.version == (count == MAX_CONTRADICTIONS)
    assert claims.NO_READER in servers[1].asked[0]
    assert caplog.text.count("contradicted its claims") == MAX_CONTRADICTIONS
