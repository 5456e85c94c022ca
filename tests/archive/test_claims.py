"""What an Archive claims, page by page (federation, CL-1 to CL-6)."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, insert, make_url, update
from support.archives import FAR_SERVICE, archive_of, close, import_records, make_app
from support.clocks import Clock
from support.commands import command
from support.databases import copy_database
from support.harvesting import MORNING, harvest
from support.moves import item, rep
from support.shelf import Shelf

from flask_ibi_archive import CatalogueRecord, IBIArchive
from flask_ibi_archive.archive import claims
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items import changes
from flask_ibi_archive.archive.items.operations import change_names
from flask_ibi_archive.archive.items.tables import ItemIdentifier, SameAs
from flask_ibi_archive.core import claim as core_claim
from flask_ibi_archive.core.claim import MAX_NAME, MAX_NAMES, Claim, Page, parse_key, parse_page
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import StorageError

HIDDEN = {"networks": ["10.0.0.0/8"], "others": "none"}
DOI = "doi:10.5281/zenodo.1"
NewApp = Callable[..., Flask]


class ClaimReader:
    """A reader that applies pages: a claim replaces the one before, Unclaimed removes it.

    :ivar rows: the claims and their epochs, by item and epoch.
    """

    def __init__(self, app: Flask) -> None:
        self.client = app.test_client()
        self.service = archive_of(app).served().service_ibi
        self.key = parse_key(self.client.get(f"{claims.PATH}/key").data, self.service)
        self.position = ""
        self.rows: dict[tuple[str, str], Claim] = {}

    def read(self, limit: int | None = None) -> Page:
        """Read and apply the next page."""
        query = {"after": self.position} | ({} if limit is None else {"limit": str(limit)})
        answer = self.client.get(claims.PATH, query_string=query)
        assert answer.status_code == 200, answer.text
        page = parse_page(answer.data, self.key)
        assert page.archive == self.service
        assert page.after in (self.position, "")
        assert len(page.claims) <= (limit or 10**9)
        new = {claim.item: claim for claim in map(core_claim.parse_claim, page.claims)}
        assert len(new) == len(page.claims)
        self.rows |= {(name, page.epoch): claim for name, claim in new.items()}
        self.rows = {
            key: row
            for key, row in self.rows.items()
            if row.state is not None and (page.more or key[1] == page.epoch)
        }
        self.position = page.position
        return page

    def read_all(self, limit: int | None = None) -> Page:
        """Read until there is nothing more, and return the last page."""
        while (page := self.read(limit)).more:
            pass
        return page

    def claims(self) -> dict[str, Claim]:
        """Read all, and return the claims by the short identifiers, without that of the service."""
        self.read_all()
        named = {claim.identifiers[-1]: claim for claim in self.rows.values()}
        assert len(named) == len(self.rows)
        return {ibi: claim for ibi, claim in named.items() if self.service not in claim.identifiers}


def read_claims(app: Flask) -> dict[str, Claim]:
    """Return the present claims by the short identifiers, without that of the service."""
    return ClaimReader(app).claims()


def keep_database(archive: Archive, folder: Path) -> Callable[[], None]:
    """Copy the database of an Archive (SQLite), and return the function that sets it back."""
    path, copy = make_url(archive.config.database_uri).database, folder / "copy.sqlite"
    copy_database(path, copy)
    return lambda: copy_database(copy, path)


@pytest.fixture
def clock() -> Clock:
    return Clock(MORNING)


@pytest.fixture
def app(uri: str, tmp_path: Path, clock: Clock) -> Iterator[Flask]:
    """An app whose Archive publishes claims."""
    app = make_app(uri, tmp_path, IBIArchive(clock=clock))
    archive_of(app).init()
    archive_of(app).claims.create_key()
    yield app
    close(app)


@pytest.fixture
def archive(app: Flask, uri: str, tmp_path: Path) -> Archive:
    """The Archive, with another one in the same database."""
    far = make_app(uri, tmp_path, IBI_ARCHIVE_SERVICE_IBI=FAR_SERVICE)
    archive_of(far).init()
    close(far)
    return archive_of(app)


@pytest.fixture
def reader(app: Flask) -> ClaimReader:
    return ClaimReader(app)


# --- what is claimed (CL-1, CL-2) ----------------------------------------------------------------


def test_an_item_is_claimed_with_all_its_names(
    archive: Archive, clock: Clock, reader: ClaimReader
) -> None:
    # the service is claimed, but no reserved identifier and no reference
    archive.reserve()
    reader.read()
    [claim] = reader.rows.values()
    assert (claim.rep, claim.state) == (reader.service, State.ORIGINAL)
    import_records(archive, [item(1, next_edition=rep(2))])
    assert [*reader.claims()] == [rep(1)]
    names = {"aliases": ["QABCDZ/1"], "same_as": ["http://a.br/é", "doi:10.1234/é{}%41", DOI]}
    minted = archive.deposit(title="Rain", **names)
    claim = reader.claims()[minted.ibip]
    assert replace(claim, item="") == Claim(
        "",
        minted.rep,
        minted.ibip,
        State.ORIGINAL,
        format_timestamp(clock()),
        None,
        ("QABCDZ/1", "doi:10.1234/é{}%41", DOI, "http://a.br/%C3%A9"),
    )


def test_a_hidden_item_is_unclaimed_and_its_prefixes_are_published(
    archive: Archive, reader: ClaimReader
) -> None:
    minted = archive.deposit(access=HIDDEN)
    page = reader.read_all()
    # nobody learns from a page that the item exists
    assert len(page.claims) == 1
    assert {*page.hidden} == {parse_identifier(ibi).prefix for ibi in (minted.rep, minted.ibip)}
    archive.edit(minted, access=None)
    page = reader.read_all()
    assert (len(page.claims), page.hidden) == (1, ())
    name = reader.claims()[minted.ibip].item
    archive.edit(minted, access=HIDDEN)
    page = reader.read_all()
    assert page.claims == (f"item {name} state Unclaimed",)
    assert len(page.hidden) == 2
    assert reader.claims() == {}
    archive.delete(minted, "wrong")  # it stays hidden
    assert reader.claims() == {}


def test_a_copy_and_a_tombstone_name_the_archive_of_the_original(
    archive: Archive, reader: ClaimReader
) -> None:
    import_records(archive, [item(1, same_as=[DOI]), item(2), item(3)])
    archive.transfer(rep(1), FAR_SERVICE, keep_copy=True)
    archive.transfer(rep(2), FAR_SERVICE)
    found = reader.claims()
    assert {ibi: (one.state, one.original_archive) for ibi, one in found.items()} == {
        rep(1): (State.COPY, FAR_SERVICE),
        rep(2): (State.DELETED, FAR_SERVICE),
        rep(3): (State.ORIGINAL, None),
    }
    assert found[rep(1)].aliases == (DOI,)


@pytest.mark.postgresql
def test_statements_of_others_are_noted_too(archive: Archive, reader: ClaimReader) -> None:
    ibi = archive.deposit(aliases=["QABCDZ/1"], same_as=[DOI]).ibip
    item_id = int(reader.claims()[ibi].item)
    for statement, aliases in (
        (update(SameAs).values(text="doi:10.5281/zenodo.2"), ("QABCDZ/1", "doi:10.5281/zenodo.2")),
        (delete(SameAs), ("QABCDZ/1",)),
        (delete(ItemIdentifier).where(ItemIdentifier.alias_no > 0), ()),
        (
            insert(SameAs).values(
                item_id=item_id, archive_id=archive.served().id, digest="0", position=0, text=DOI
            ),
            (DOI,),
        ),
    ):
        with archive.database.writing() as connection:
            connection.execute(statement)
        [line] = reader.read_all().claims
        assert reader.claims()[ibi].aliases == aliases, line


# --- pages (CL-3) --------------------------------------------------------------------------------


def get(app: Flask, **query: str) -> Any:
    return app.test_client().get(claims.PATH, query_string=query)


def test_a_page_has_a_limited_size(
    app: Flask, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "MAX_PAGE", 250)
    import_records(archive, [item(n, same_as=[f"http://a.br/{n:0{n * 99}}"]) for n in (1, 2, 3)])
    reader, sizes = ClaimReader(app), []
    while (page := reader.read()).more:
        sizes.append(len(page.claims))
    assert [*sizes, len(page.claims)] == [1, 1, 1, 1]  # one that is longer is alone


def test_an_unchanged_list_is_not_sent_again(
    app: Flask, archive: Archive, reader: ClaimReader
) -> None:
    reader.read_all()

    def ask(etag: str = "", after: str = reader.position) -> Any:
        return app.test_client().get(
            claims.PATH, query_string={"after": after}, headers={"If-None-Match": etag}
        )

    first = ask()
    assert first.headers["Cache-Control"] == "no-cache"
    again = ask(first.headers["ETag"])
    assert (again.status_code, again.data) == (304, b"")
    archive.deposit(access=HIDDEN)
    changed = ask(first.headers["ETag"])
    assert changed.status_code == 200
    assert parse_page(changed.data, reader.key).hidden
    # a page with claims is sent even if the list has the state that the reader names
    assert ask(changed.headers["ETag"], after="").status_code == 200


def test_the_headers_of_a_page(app: Flask) -> None:
    answer = app.test_client().get(claims.PATH, headers={"Accept-Encoding": "br, gzip;q=0.5"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(answer.data).startswith(b"archive ")
    assert answer.headers["Vary"] == get(app).headers["Vary"] == "Accept-Encoding"
    assert "Content-Encoding" not in get(app).headers
    for path in (claims.PATH, f"{claims.PATH}/key"):
        answer = app.test_client().head(path)
        assert (answer.status_code, answer.data) == (200, b"")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert app.test_client().post(path).status_code == 405
    for limit in ("0", "-1", "x", "1.0", ""):
        answer = get(app, limit=limit)
        assert (answer.status_code, answer.text) == (400, claims.NO_LIMIT)


def test_nothing_is_found_if_no_claims_are_published(new_app: NewApp) -> None:
    app = new_app(IBI_CLAIMS=False)
    archive_of(app).init()
    for path in (claims.PATH, f"{claims.PATH}/key"):
        answer = app.test_client().get(path)
        assert (answer.status_code, answer.text) == (404, "This Archive publishes no claims.\n")
        assert answer.headers["Cache-Control"] == "no-store"
    new_archive = archive_of(new_app())  # with claims, but a database that does not answer
    new_archive.downgrade("base")
    answer = get(new_app())
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")


def test_a_request_without_time_for_all_changes_says_that_there_is_more(
    app: Flask, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_records(archive, [item(number) for number in range(1, 10)])
    monkeypatch.setattr(changes, "BATCH", 4)
    monkeypatch.setattr(changes, "PUBLISHING_SHARE", 0)
    reader = ClaimReader(app)
    page = reader.read()
    assert (page.claims, page.more) == ((), True)
    monkeypatch.setattr(changes, "PUBLISHING_SHARE", 0.5)
    assert len(reader.claims()) == 9


def test_an_invented_position_leads_to_the_beginning_or_to_the_end(
    app: Flask, archive: Archive
) -> None:
    archive.deposit(title="Rain")
    epoch = "0123456789abcdef"
    for position in ("x", f"1-1-{epoch}-{epoch}", f"{'9' * 18}-0-0-{epoch}", "--", "é"):
        reader = ClaimReader(app)
        reader.position = position
        page = reader.read()
        assert len(page.claims) == (2 if page.after == "" else 0)


# --- who reads on misses nothing (CL-4) ----------------------------------------------------------


class Editors:
    """Random operations on an Archive."""

    def __init__(self, archive: Archive, chance: random.Random) -> None:
        self.archive, self.random, self.count = archive, chance, 0

    def change(self) -> None:
        """Do one random operation."""
        self.count += 1
        archive, choice, n = self.archive, self.random.choice, self.count
        operations: list[Callable[[], object]] = [
            lambda: archive.deposit(title=f"title {n}", access=choice([None, None, HIDDEN])),
            self.add,
            archive.reserve,
        ]
        if found := [*archive.find()]:
            ibi = choice(found).ibi
            operations += [
                lambda: archive.edit(ibi, title=f"title {n}"),
                lambda: archive.edit(ibi, access=choice([None, HIDDEN])),
                lambda: archive.edit(ibi, same_as=[f"hdl:20.500/{n}"]),
                lambda: change_names(archive, ibi, add=[f"QABCDZ/{n}", f"hdl:20.502/{n}"]),
                lambda: archive.delete(ibi, "wrong"),
                lambda: archive.transfer(ibi, to=FAR_SERVICE, keep_copy=choice([True, False])),
            ]
        with suppress(StorageError):  # the state of the item does not allow it
            choice(operations)()

    def add(self) -> None:
        """Import new items and others that are there."""
        numbers = self.random.sample(range(1, 9), 2)
        records = [item(no, same_as=[f"hdl:20.501/{self.count}{no}"]) for no in numbers]
        import_records(self.archive, records, on_conflict="update")


@pytest.mark.postgresql
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_readers_end_with_the_present_claims(
    app: Flask, archive: Archive, clock: Clock, uri: str, tmp_path: Path, seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    chance = random.Random(seed)
    monkeypatch.setattr(changes, "BATCH", chance.choice([2, 1000]))
    editors = Editors(archive, chance)
    readers = [ClaimReader(app) for _ in range(3)]
    restore: Callable[[], None] | None = None
    for step in range(30):
        action = chance.choice(["change", "change", "read", "read", "harvest"])
        if action == "change":
            clock.wait(chance.choice([0, 1, 60]))
            editors.change()
        elif action == "read":
            chance.choice(readers).read(chance.choice([1, 2, 3, None]))
        else:
            harvest(app, verb="Identify")
        if step == 10 and archive.database.engine.dialect.name == "sqlite":
            restore = keep_database(archive, tmp_path)
        if step == 20 and restore is not None:
            restore()
    shown = [view.record for view in archive.find() if not view.record.is_hidden]
    claimed = [changes.make_claim("", view) for view in shown]
    expected = {claim.identifiers[-1]: claim for claim in claimed}
    for reader in readers:
        reader.read_all(chance.choice([1, 2, None]))
        assert {ibi: replace(one, item="") for ibi, one in reader.claims().items()} == expected


# --- the key (CL-5) ------------------------------------------------------------------------------


def test_the_key_is_in_a_file_that_only_its_owner_reads(
    app: Flask, archive: Archive, reader: ClaimReader
) -> None:
    folder = archive.claims.key.folder
    [path] = folder.glob("*.key")
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    answer = app.test_client().get(f"{claims.PATH}/key")
    archive.claims.create_key()  # there is one
    assert answer.data == app.test_client().get(f"{claims.PATH}/key").data
    # the position is written before the page is sent, and only if it is new
    page = reader.read()
    [path] = folder.glob("*.position")
    assert page.position.startswith(f"1-{path.read_text()}-")
    inode = path.stat().st_ino
    reader.read()
    assert path.stat().st_ino == inode
    archive.deposit(title="Rain")
    reader.read()
    assert path.stat().st_ino != inode


def test_the_command_replaces_the_key(app: Flask, archive: Archive, reader: ClaimReader) -> None:
    archive.deposit(title="Rain")
    reader.read()
    done = command(app, "claims", "rotate", "--yes")
    new = parse_key(done.out, reader.service)
    assert new.public_bytes_raw() != reader.key.public_bytes_raw()
    assert "flask ibi register-archive" in done.err
    reader.key = new
    assert reader.read().after != ""  # the list goes on


# --- hosts (CL-6) --------------------------------------------------------------------------------


class Listing(Shelf):
    """A catalogue with its own method for changes."""

    def changes(
        self, since: datetime | None, after: tuple[datetime, str] | None, limit: int
    ) -> Iterator[CatalogueRecord]:
        return iter(super().changes(since, after, limit))


@pytest.fixture
def host(uri: str, tmp_path: Path, clock: Clock) -> Iterator[Callable[[Shelf], Flask]]:
    """A function that returns the app of a host with a catalogue."""
    made: list[Flask] = []

    def make(shelf: Shelf) -> Flask:
        made.append(make_app(uri, tmp_path, IBIArchive(clock=clock, catalogue=shelf)))
        archive_of(made[-1]).init()
        archive_of(made[-1]).claims.create_key()
        return made[-1]

    yield make
    for app in made:
        close(app)


def record(number: int, timestamp: datetime, **fields: Any) -> CatalogueRecord:
    return CatalogueRecord(rep=rep(number), timestamp=timestamp, title="t", **fields)  # type: ignore[typeddict-item]


def test_changed_items_of_a_catalogue_are_claimed(
    host: Callable[[Shelf], Flask], clock: Clock
) -> None:
    shelf = Listing(record(1, clock(), same_as=[DOI]), record(2, clock(), access=HIDDEN))
    shelf.put(record(3, clock(), state="Reserved"))
    app = host(shelf)
    reader = ClaimReader(app)
    page = reader.read()
    assert {*reader.claims()} == {rep(1)}
    prefixes = [
        parse_identifier(ibi).prefix for ibi in (reader.service, archive_of(app).mint()[0].rep)
    ]
    assert {*prefixes} <= {*page.hidden}
    assert not any(rep(2) in line or rep(3) in line for line in page.claims)
    # what is committed late is found
    clock.wait(60)
    late = clock()
    shelf.put(record(4, clock()))
    assert {*reader.claims()} == {rep(1), rep(4)}
    clock.wait(200)
    shelf.put(record(5, late))
    assert {*reader.claims()} == {rep(1), rep(4), rep(5)}
    clock.wait(600)
    shelf.put(record(1, clock(), access=HIDDEN))
    assert {*reader.claims()} == {rep(4), rep(5)}
    # another key begins a new epoch
    before = reader.read()
    reader.key = parse_key(command(app, "claims", "rotate", "--yes").out, reader.service)
    assert reader.read().epoch != before.epoch
    assert {*reader.claims()} == {rep(4), rep(5)}


def test_changes_of_a_catalogue_are_read_in_parts(
    host: Callable[[Shelf], Flask], clock: Clock
) -> None:
    shelf = Listing(*(record(number, clock()) for number in range(1, 20)))
    reader = ClaimReader(host(shelf))
    for number in range(20, 23):  # changes during the reading, some of them committed late
        assert reader.read(limit=3).more
        shelf.put(record(number, clock() - timedelta(seconds=250)))
        clock.wait(100)
    reader.read_all(limit=3)
    assert {*reader.claims()} == {rep(number) for number in range(1, 23)}


def test_a_catalogue_without_its_own_method_for_changes_publishes_no_claims(
    host: Callable[[Shelf], Flask], clock: Clock
) -> None:
    app = host(Shelf(record(1, clock())))
    assert get(app).status_code == 404
    error = command(app, "claims", "rotate", "--yes").error
    assert error.endswith("no claims: the catalogue of the host has no method changes()")


# --- web pages of hosts --------------------------------------------------------------------------


def test_check_finds_what_hides_the_claims(
    app: Flask, new_app: NewApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{claims.PATH}/key"
    app.add_url_rule(path, "taken", lambda: "taken")
    assert f"FAIL claims: the app itself answers {path}" in command(app, "check").out
    # the key can be read, but the folder can't be written
    monkeypatch.setattr(claims.ClaimKey, "read", lambda self, name: "ab" * 32 * (name == "key"))
    app = new_app(IBI_FOLDER="/proc")
    assert get(app).status_code == 503
    assert "FAIL claims: the folder of the claims can't be written" in command(app, "check").out


# --- names (CL-1) --------------------------------------------------------------------------------

#: One name more than an item can have beside its rep and its ibip.
TOO_MANY = [f"hdl:20.500/{number}" for number in range(MAX_NAMES - 1)]


def add_names(archive: Archive) -> None:
    ibi = archive.deposit(title="Rain", same_as=TOO_MANY[:-1]).ibip
    change_names(archive, ibi, add=TOO_MANY)


def join_names(archive: Archive) -> None:
    """Import other names of an item, which keeps those that it has."""
    import_records(archive, [item(1, same_as=TOO_MANY[1:])])
    import_records(archive, [item(1, same_as=["hdl:20.5/x", "hdl:20.5/y"])], on_conflict="update")


#: The ways in which an item gets names.
WAYS: dict[str, Callable[[Archive], object]] = {
    "deposit": lambda archive: archive.deposit(title="Rain", same_as=TOO_MANY),
    "edit": lambda archive: archive.edit(archive.deposit(title="Rain"), same_as=TOO_MANY),
    "import": lambda archive: import_records(archive, [item(1, same_as=[*TOO_MANY, DOI])]),
    "alias": add_names,
    "merge": join_names,
}


@pytest.mark.parametrize("way", WAYS)
def test_an_item_has_at_most_500_names(archive: Archive, way: str) -> None:
    with pytest.raises(Exception, match="an item has at most 500 identifiers and aliases"):
        WAYS[way](archive)


def test_names_of_2048_bytes_are_claimed_whole(archive: Archive, reader: ClaimReader) -> None:
    # an alias whose form in a claim is too long, though it has few characters
    too_long = "doi:10.1234/" + "é" * (MAX_NAME // 6)
    with pytest.raises(Exception, match="a name has at most 2048 bytes"):
        archive.deposit(title="Rain", same_as=[too_long])
    archive.deposit(title="Snow", same_as=[too_long[:-3]])
    ibi = archive.deposit(title="Rain", same_as=TOO_MANY[1:]).ibip
    claim = reader.claims()[ibi]
    assert len({*claim.identifiers, *claim.aliases}) == MAX_NAMES
