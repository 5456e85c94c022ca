"""Each change of what is claimed makes one claim, and nothing else does (federation CL-1, CL-2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask_ibi_archive.archive.claims.log_tables import ClaimNote
from sqlalchemy import func, select
from support.archives import archive_of, close, import_records, make_app
from support.clocks import Clock
from support.harvesting import MORNING
from support.published_logs import sequence
from support.web import rep

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.claims.claim import Claim, parse_claim
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.states import State

FAR = "dpi.inpe.br/banon/1999/01.09.22.14"
DOI = "doi:10.5281/zenodo.1"
SHA256_OF_ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
SHA256_OF_DEF = "cb8379ac2098aa165029e3938a51da0bcecfc008fd6795f401178647f96c5b34"


@pytest.fixture
def far(uri: str, app: Flask, tmp_path: Path, clock: Clock) -> Iterator[Archive]:
    """Another Archive of the same database."""
    far_app = make_app(uri, tmp_path, IBIArchive(clock=clock), IBI_ARCHIVE_SERVICE_IBI=FAR)
    archive_of(far_app).init()
    archive_of(far_app).claims.create_key()
    yield archive_of(far_app)
    close(far_app)


def read_claims(archive: Archive, since: int = 0) -> list[Claim]:
    """Put all changes into the log, and return its claims from a position on."""
    sequence(archive)
    size = archive.claims.status().size
    claims = []
    for number in range((size + 255) // 256):
        entries = archive.claims.read_entries(number, min(256, size - number * 256))
        assert entries is not None
        claims += [parse_claim(entry) for entry in entries]
    assert archive.claims.verify() == []
    return claims[since:]


def make_file(archive: Archive, name: str = "a.txt", content: str = "abc") -> Path:
    path = archive.files_folder.folder.parent / name
    path.write_text(content)
    return path


def deposit(archive: Archive, **fields: Any) -> str:
    return archive.deposit(title="t", files=[make_file(archive)], **fields).ibip


# --- which items are claimed ---------------------------------------------------------------------


def test_the_service_is_claimed(archive: Archive) -> None:
    [claim] = read_claims(archive)
    assert claim.rep == archive.served().rep
    assert claim.state is State.ORIGINAL


def test_items_that_were_there_before_the_log_are_claimed(app: Flask) -> None:
    archive = archive_of(app)
    ibi = deposit(archive, aliases=["QABCDZ/1"], same_as=[DOI])
    hidden = archive.deposit(access={"networks": ["10.0.0.0/8"], "others": "none"}).ibip
    archive.claims.create_key()
    claims = {claim.ibip: claim for claim in read_claims(archive)}
    assert len(claims) == 2
    assert claims[ibi].aliases == ("QABCDZ/1", DOI)
    assert claims[ibi].sha256 == SHA256_OF_ABC
    assert hidden not in claims


def test_without_a_log_nothing_is_noted(app: Flask) -> None:
    archive = archive_of(app)
    deposit(archive)
    with archive.database.reading() as connection:
        assert connection.scalar(select(func.count(ClaimNote.id))) == 0


def test_an_item_is_claimed_with_all_that_is_claimed(archive: Archive, clock: Clock) -> None:
    ibi = deposit(archive, aliases=["QABCDZ/1"], same_as=[DOI])
    _, claim = read_claims(archive)
    item = archive.get(ibi)
    assert item is not None
    assert claim == Claim(
        item.record.rep,
        ibi,
        State.ORIGINAL,
        format_timestamp(clock()),
        None,
        ("QABCDZ/1", DOI),
        SHA256_OF_ABC,
    )


def hide(archive: Archive, ibi: str) -> str:
    archive.edit(ibi, access={"networks": ["10.0.0.0/8"], "others": "none"})
    return ibi


#: An operation with a deposited item, and the fields of the new claim.
CHANGES: list[tuple[str, Callable[[Archive, str], object], dict[str, Any]]] = [
    (
        "delete",
        lambda archive, ibi: archive.delete(ibi, "wrong"),
        {"state": State.DELETED, "sha256": None},
    ),
    (
        "other file",
        lambda archive, ibi: archive.edit(ibi, files=[make_file(archive, content="def")]),
        {"sha256": SHA256_OF_DEF},
    ),
    (
        "alias",
        lambda archive, ibi: archive.edit(ibi, same_as=["hdl:20.500/1", DOI]),
        {"aliases": (DOI, "hdl:20.500/1")},
    ),
    (
        "moved away, with a Copy left",
        lambda archive, ibi: archive.transfer(ibi, to=FAR, keep_copy=True),
        {"state": State.COPY, "original_archive": FAR},
    ),
    (
        "hidden and deleted",
        lambda archive, ibi: archive.delete(hide(archive, ibi), "wrong"),
        {"state": State.DELETED},
    ),
]


@pytest.mark.parametrize(
    ("change", "fields"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES]
)
def test_a_change_makes_one_claim(
    archive: Archive,
    far: Archive,
    clock: Clock,
    change: Callable[[Archive, str], object],
    fields: dict[str, Any],
) -> None:
    ibi = deposit(archive, same_as=["hdl:20.500/1"])
    *_, before = read_claims(archive)
    count = archive.claims.status().size
    clock.now += timedelta(hours=1)
    change(archive, ibi)
    new = read_claims(archive, count)
    [claim] = new
    timestamp = claim.timestamp
    unchanged = {"rep", "ibip", "state", "original_archive", "aliases", "sha256"}
    expected = {name: getattr(before, name) for name in unchanged} | fields
    assert claim == Claim(timestamp=timestamp, **expected)
    assert archive.claims.read_entries(0, count + 1) is not None


def test_a_copy_is_claimed_with_its_original_archive(archive: Archive, far: Archive) -> None:
    ibi = deposit(archive)
    archive.make_copy(ibi, FAR)
    assert read_claims(far)[-1].original_archive == archive.served().rep
    archive.transfer(ibi, to=FAR)
    assert [(claim.state, claim.ibip) for claim in read_claims(far, 1)] == [
        (State.COPY, ibi),
        (State.ORIGINAL, ibi),
    ]


def test_each_of_several_changes_is_claimed(archive: Archive, clock: Clock) -> None:
    ibi = deposit(archive)
    for number in range(3):
        clock.now += timedelta(hours=1)
        archive.edit(ibi, title=f"title {number}")
    archive.delete(ibi, "wrong")
    states = [claim.state for claim in read_claims(archive, 1)]
    assert states == [State.ORIGINAL] * 4 + [State.DELETED]


def test_reservations_and_stubs_are_not_claimed(archive: Archive) -> None:
    archive.reserve()
    import_records(archive, [{"rep": rep(1), "next_edition": rep(2)}])
    assert [claim.rep for claim in read_claims(archive, 1)] == [rep(1)]


def test_a_hidden_item_is_claimed_when_it_is_shown(archive: Archive) -> None:
    ibi = archive.deposit(access={"networks": ["10.0.0.0/8"], "others": "none"}).ibip
    assert read_claims(archive, 1) == []
    archive.edit(ibi, access=None)
    assert [claim.ibip for claim in read_claims(archive, 1)] == [ibi]


def test_a_rolled_back_change_is_not_claimed(archive: Archive) -> None:
    store_some: list[object] = []

    def fail() -> None:
        with archive.context.transaction() as store:
            store.set_timestamp(1, MORNING)
            store_some[0]

    with pytest.raises(IndexError):
        fail()
    assert len(read_claims(archive)) == 1


def test_imported_items_are_claimed_once(archive: Archive) -> None:
    (folder := archive.files_folder.folder.parent / "in").mkdir()
    (folder / "a.txt").write_text("abc")
    records = [
        {
            "rep": f"sid.inpe.br/mtc-m18@80/2009/07.21.{number // 60:02}.{number % 60:02}",
            "files": [{"path": "a.txt", "source": str(folder / "a.txt")}],
            "target_file": "a.txt",
            "aliases": [f"QABCDZ/{number}"],
            "same_as": [f"hdl:20.500/{number}"],
        }
        for number in range(700)
    ]
    import_records(archive, records, folder)
    claims = read_claims(archive, 1)
    assert [claim.rep for claim in claims] == [record["rep"] for record in records]
    assert [claim.sha256 for claim in claims] == [SHA256_OF_ABC] * 700
    assert [claim.aliases for claim in claims] == [
        (*record["aliases"], *record["same_as"]) for record in records
    ]
