"""The index is built again from the kept entries; what is lost is read from the Archives again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import update
from support.cases import for_each
from support.claim_logs import ClaimLog, a_claim
from support.commands import command
from support.followers import Following

from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.old_claims.rebuilding import Rebuilding, rebuild_index
from flask_ibi_archive.resolver.old_claims.tables import (
    CONTRADICTED,
    CURRENT,
    FORKED,
    NEW,
    Binding,
    FollowedLog,
    IndexRun,
)

OTHER = "b.br/service/2001/01.01.00.00"
NAMES = [a_claim(number).identifiers[0] for number in (0, 1, 299, 300)]


@pytest.fixture
def log(following: Following) -> ClaimLog:
    """A log with 601 entries: the first item is now deleted, and one entry is not valid."""
    log = following.new_log()
    log.add(*map(a_claim, range(300)), b"nonsense", *map(a_claim, range(299)))
    return log.add(a_claim(0, State.DELETED))


@pytest.fixture
def archive_id(following: Following, log: ClaimLog) -> int:
    """An Archive whose log was read; its claims are in files."""
    archive_id = following.include(log)
    following.follow()
    following.index.fold(force=True)
    return archive_id


def rebuild(following: Following, **options: Callable[[int, int], None]) -> Rebuilding:
    return rebuild_index(following.database, following.index, following.kept, **options)


def find_all(following: Following) -> list[list[tuple[int, int]]]:
    return [following.holders(name) for name in NAMES]


def lose_files(following: Following) -> None:
    shutil.rmtree(following.config.claims_folder / "index")
    following.index.close()
    with pytest.raises(StorageError, match="run: flask ibi-resolver rebuild-index"):
        find_all(following)


def test_a_lost_index_is_built_again_without_asking_archives(
    following: Following, log: ClaimLog, archive_id: int
) -> None:
    before = find_all(following)
    assert before == [[(archive_id, 3)], [(archive_id, 1)], [(archive_id, 1)], []]
    rows = following.rows(FollowedLog)
    lose_files(following)
    asked = len(log.asked)
    progress: list[tuple[int, int]] = []
    result = rebuild(following, on_progress=lambda *done: progress.append(done))
    assert result == Rebuilding(1, 601, {})
    assert progress == [(256, 601), (512, 601), (601, 601)]
    assert find_all(following) == before
    assert following.rows(FollowedLog) == rows
    assert len(following.rows(IndexRun)) == 1
    assert len(log.asked) == asked


def test_recent_bindings_remain(following: Following, log: ClaimLog, archive_id: int) -> None:
    log.add(a_claim(300, State.COPY), a_claim(1, State.DELETED))
    following.follow(60)
    assert following.rows(Binding)
    lose_files(following)
    rebuild(following)
    assert find_all(following) == [[(archive_id, state)] for state in (3, 3, 1, 2)]
    following.index.fold(force=True)
    assert find_all(following) == [[(archive_id, state)] for state in (3, 3, 1, 2)]


def test_an_index_without_logs_is_empty(following: Following) -> None:
    assert rebuild(following) == Rebuilding()
    assert following.rows(IndexRun) == []


@for_each("damage", ["missing", "partial missing", "cut", "garbled"])
def test_a_log_whose_kept_entries_are_lost_is_read_again(
    damage: str, following: Following, log: ClaimLog, archive_id: int
) -> None:
    version = following.version()
    other_id = following.include(following.new_log(OTHER).add(a_claim(300)), service=OTHER)
    following.follow(60)
    [first, *_, last] = sorted((following.kept.folder / str(archive_id)).rglob("*.gz"))
    content = first.read_bytes()
    if damage == "missing":
        first.unlink()
    elif damage == "partial missing":
        last.unlink()
    elif damage == "cut":
        first.write_bytes(content[:100])
    else:
        first.write_bytes(content[:99] + bytes([content[99] ^ 1]) + content[100:])
    result = rebuild(following)
    assert list(result.lost) == [log.origin]
    assert (following.row(archive_id).state, following.row(archive_id).size) == (NEW, 0)
    assert following.row(other_id).state == CURRENT
    assert following.version() > version
    following.follow()
    assert following.row(archive_id).state == CURRENT
    expected = [[(archive_id, 3)], [(archive_id, 1)], [(archive_id, 1)], [(other_id, 1)]]
    assert find_all(following) == expected
    assert rebuild(following).lost == {}
    assert find_all(following) == expected


@for_each(("state", "after", "size"), [(FORKED, FORKED, 601), (CONTRADICTED, CONTRADICTED, 0)])
def test_an_archive_that_is_always_asked_remains_so(
    state: str, after: str, size: int, following: Following, archive_id: int
) -> None:
    with following.database.writing() as connection:
        connection.execute(update(FollowedLog).values(state=state))
    shutil.rmtree(following.kept.folder, ignore_errors=True)
    rebuild(following)
    assert (following.row(archive_id).state, following.row(archive_id).size) == (after, size)


def test_the_command_says_what_it_did(
    following: Following, archive_id: int, tmp_path: Path
) -> None:
    app = Flask("resolver", instance_path=str(tmp_path))
    app.config.from_mapping(
        IBI_RESOLVER_DATABASE_URI=str(following.database.engine.url),
        IBI_RESOLVER_CLAIMS_FOLDER=str(following.config.claims_folder),
    )
    IBIResolver(app)
    lose_files(following)
    done = command(app, "rebuild-index", group=ibi_resolver)
    assert (done.status, done.out) == (0, "")
    assert done.err == "the index contains 601 claims of 1 Archives\n"
    assert find_all(following)[0] == [(archive_id, 3)]
    shutil.rmtree(following.kept.folder)
    done = command(app, "rebuild-index", group=ibi_resolver)
    assert done.err.startswith("Warning: the claims of dpi.inpe.br/banon/1999/01.09.22.14 will be ")
    app.extensions["ibi_resolver"].resolver.close()
