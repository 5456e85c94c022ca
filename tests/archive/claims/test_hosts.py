"""The claims of hosts: with models of their own, and with their own tables (federation CL-6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, close, make_app
from support.clocks import Clock
from support.host_models import Host
from support.published_logs import read_claims
from support.shelf import Shelf

from flask_ibi_archive import CatalogueRecord, FileRecord, IBIArchive, Tombstone
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.claims import checkpoints, sequencer
from flask_ibi_archive.core.claims.claim import Claim
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import NotReady

SHA256 = "0" * 64


def name(number: int) -> str:
    return f"a.br/item/2001/01.01.{number // 60:02}.{number % 60:02}"


class Listing(Shelf):
    """A catalogue with its own method for changes."""

    def changes(
        self, since: datetime | None, after: tuple[datetime, str] | None, limit: int
    ) -> Iterator[CatalogueRecord]:
        return iter(super().changes(since, after, limit))


@pytest.fixture
def host(uri: str, tmp_path: Path, clock: Clock) -> Iterator[Callable[[Shelf], Archive]]:
    """A function that returns the Archive of a host with a catalogue."""
    made: list[Flask] = []

    def make(shelf: Shelf) -> Archive:
        app = make_app(uri, tmp_path, IBIArchive(clock=clock, catalogue=shelf))
        made.append(app)
        archive_of(app).init()
        archive_of(app).claims.create_key()
        return archive_of(app)

    yield make
    for app in made:
        close(app)


def test_changed_items_of_a_catalogue_are_claimed(
    host: Callable[[Shelf], Archive], clock: Clock, app: Flask
) -> None:
    shelf = Listing()
    archive = host(shelf)

    def put(number: int, **fields: Any) -> None:
        shelf.put(CatalogueRecord(rep=name(number), timestamp=clock(), title="t", **fields))  # type: ignore[typeddict-item]

    def claims() -> list[tuple[str | None, State]]:
        return [(claim.rep, claim.state) for claim in read_claims(archive)[1:]]

    with app.app_context():
        put(
            1,
            files=[FileRecord("a.pdf", url="http://a/a.pdf", sha256=SHA256)],
            target_file="a.pdf",
            same_as=["hdl:20.500/1"],
        )
        put(2, state="Reserved")
        put(3, access={"networks": ["10.0.0.0/8"], "others": "none"})
        assert read_claims(archive)[1:] == [
            Claim(
                name(1),
                None,
                State.ORIGINAL,
                clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
                aliases=("hdl:20.500/1",),
                sha256=SHA256,
            )
        ]
        assert len(claims()) == 1  # nothing changed
        clock.wait(60)
        late = clock()
        put(2)
        assert claims()[1:] == [(name(2), State.ORIGINAL)]
        clock.wait(200)
        shelf.put(CatalogueRecord(rep=name(4), timestamp=late, title="committed late"))
        clock.wait(600)
        shelf.put(
            CatalogueRecord(
                rep=name(1), timestamp=clock(), state="Deleted", tombstone=Tombstone("r")
            )
        )
        assert claims()[2:] == [(name(4), State.ORIGINAL), (name(1), State.DELETED)]


def test_a_catalogue_without_its_own_method_for_changes_publishes_no_claims(
    host: Callable[[Shelf], Archive], clock: Clock, app: Flask
) -> None:
    archive = host(Shelf(CatalogueRecord(rep=name(1), timestamp=clock(), title="t")))
    with app.app_context():
        assert archive.claims.checkpoint(clock()) is None


def test_many_changes_with_one_timestamp_are_read_in_parts(
    host: Callable[[Shelf], Archive], clock: Clock, app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencer, "BATCH", 7)
    records = [
        CatalogueRecord(rep=name(number), timestamp=clock() - timedelta(days=9), title="t")
        for number in range(30)
    ]
    archive = host(Listing(*records))
    with app.app_context():
        with monkeypatch.context() as patch:
            patch.setattr(checkpoints, "EXTENDING_SHARE", 0)
            with pytest.raises(NotReady, match="does not contain all items yet"):
                archive.claims.checkpoint(clock())
        assert archive.claims._checkpoints._thread is None  # it would have no context of the app
        claims = read_claims(archive)[1:]
    assert [claim.rep for claim in claims] == [name(number) for number in range(30)]


def test_rows_of_models_are_claimed(uri: str, tmp_path: Path) -> None:
    host = Host(uri, tmp_path)
    host.archive.claims.create_key()
    row = host.add("On rain", pdf=host.write("a.txt", "abc"))
    host.add("A draft", state="Draft")
    row.title = "not committed"
    host.session.flush()
    host.session.rollback()
    _, claim = read_claims(host.archive)
    assert (claim.ibip, claim.state) == (row.ibi, State.ORIGINAL)
    assert claim.sha256 is not None
    ibip = row.ibi
    host.session.delete(row)
    host.session.commit()
    claims = read_claims(host.archive)[2:]
    assert [(claim.ibip, claim.state) for claim in claims] == [(ibip, State.DELETED)]
    host.close()
