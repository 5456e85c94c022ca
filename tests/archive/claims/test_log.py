"""The published log: checkpoints, tiles, the key, and what happens to restored databases."""

from __future__ import annotations

import logging
import shutil
import stat
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import archive_of, close, import_records, make_app
from support.clocks import Clock
from support.commands import command
from support.published_logs import (
    DatabaseCopy,
    compute_tree,
    open_published,
    open_tiles,
    read_claims,
    read_entries,
    sequence,
)

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.claims import checkpoints, sequencer
from flask_ibi_archive.archive.joining.registration_state import store_status
from flask_ibi_archive.core.claims.checkpoint import open_checkpoint
from flask_ibi_archive.core.claims.merkle import (
    compute_root,
    prove_consistency,
    verify_consistency,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import ClaimError, ConfigError, NotReady, StorageError

SECOND = timedelta(seconds=1)


def add_items(archive: Archive, count: int, first: int = 0) -> None:
    import_records(
        archive,
        [
            {"rep": f"a.br/item/2001/01.{1 + n // 1440:02}.{n // 60 % 24:02}.{n % 60:02}"}
            for n in range(first, first + count)
        ],
    )


def wait_for_thread(archive: Archive) -> None:
    """Wait until the log has caught up."""
    thread = archive.claims._checkpoints._thread
    assert thread is not None
    thread.join()


# --- checkpoints ---------------------------------------------------------------------------------


def test_the_checkpoint_contains_what_was_committed(archive: Archive, clock: Clock) -> None:
    first = open_published(archive)
    assert first.checkpoint.origin == archive.served().rep
    assert first.checkpoint.size == 1
    assert first.seconds == int(clock().timestamp())
    archive.deposit(title="a")
    assert open_published(archive).checkpoint.size == 1  # the last look was less than a second ago
    clock.now += 2 * SECOND
    second = open_published(archive)
    assert second.checkpoint.size == 2
    assert second.seconds == int(clock().timestamp())


def test_the_checkpoint_is_signed_again_after_a_minute(archive: Archive, clock: Clock) -> None:
    first = archive.claims.checkpoint(clock())
    clock.now += 59 * SECOND
    assert archive.claims.checkpoint(clock()) == first
    clock.now += 2 * SECOND
    later = archive.claims.checkpoint(clock())
    assert first is not None
    assert later is not None
    assert later.etag != first.etag
    assert later.size == first.size
    clock.now -= 600 * SECOND  # the clock was wrong
    assert open_published(archive).seconds == int(clock().timestamp())


def test_a_larger_tree_never_has_an_earlier_time(
    archive: Archive, uri: str, tmp_path: Path, clock: Clock
) -> None:
    first = open_published(archive)
    archive.deposit(title="a")
    behind = make_app(uri, tmp_path, IBIArchive(clock=Clock(clock.now - 2 * SECOND)))
    second = open_published(archive_of(behind))
    assert second.checkpoint.size == first.checkpoint.size + 1
    assert second.seconds == first.seconds  # otherwise, the first one would look like a fork
    close(behind)


def test_all_processes_return_the_same_checkpoint(
    archive: Archive, uri: str, tmp_path: Path, clock: Clock
) -> None:
    first = archive.claims.checkpoint(clock())
    other = make_app(uri, tmp_path, IBIArchive(clock=clock))
    clock.now += 30 * SECOND
    assert archive_of(other).claims.checkpoint(clock()) == first
    close(other)


def test_a_log_that_is_behind_is_not_signed_again(
    archive: Archive, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = archive.claims.checkpoint(clock())
    monkeypatch.setattr(sequencer, "BATCH", 5)
    monkeypatch.setattr(checkpoints, "EXTENDING_SHARE", 0)
    add_items(archive, 20)
    clock.now += 120 * SECOND
    assert archive.claims.checkpoint(clock()) == first
    wait_for_thread(archive)
    assert archive.claims.status().pending == 0  # the log has caught up without a request
    monkeypatch.undo()
    clock.now += 2 * SECOND
    assert open_published(archive).checkpoint.size == 21


def test_a_log_without_all_items_is_not_published(
    app: Flask, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(app)
    monkeypatch.setattr(checkpoints, "EXTENDING_SHARE", 0)
    archive.claims._begin()
    with pytest.raises(NotReady, match="does not contain all items yet; try again later"):
        archive.claims.checkpoint(clock())
    wait_for_thread(archive)
    clock.now += 2 * SECOND
    assert open_published(archive).checkpoint.size == 1


# --- without claims ------------------------------------------------------------------------------


def test_without_a_key_nothing_is_published(app: Flask, clock: Clock) -> None:
    claims = archive_of(app).claims
    assert claims.checkpoint(clock()) is None
    assert claims.verifier() is None
    assert claims.read_entries(0, 1) is None
    assert claims.status().warning == "no claims are published; run: flask ibi init"
    assert claims.verify() == []


def test_the_setting_switches_claims_off(
    archive: Archive, uri: str, tmp_path: Path, clock: Clock
) -> None:
    archive.claims.checkpoint(clock())
    app = make_app(uri, tmp_path, IBI_CLAIMS=False)
    claims = archive_of(app).claims
    assert claims.checkpoint(clock()) is None
    assert claims.verifier() is None
    assert claims.read_entries(0, 1) is None
    close(app)


def count_notes(archive: Archive) -> int:
    [[count]] = archive.database.read_rows(text("SELECT count(*) FROM ibi_claim_note"))
    return int(count)


@pytest.mark.parametrize("is_asked", [True, False])
def test_what_changes_while_claims_are_off_is_claimed_when_they_are_on_again(
    archive: Archive, uri: str, tmp_path: Path, clock: Clock, is_asked: bool
) -> None:
    kept, edited, deleted = (archive.deposit(title=title).ibip for title in "abc")
    before = read_claims(archive)
    archive.deposit(title="noted, but not claimed")
    assert count_notes(archive) > 0
    app = make_app(uri, tmp_path, IBIArchive(clock=clock), IBI_CLAIMS=False)
    off = archive_of(app)
    assert str(off.claims.status().warning) == (
        "changes are noted, but not claimed; run: flask ibi init"
    )
    if is_asked:
        assert off.claims.checkpoint(clock()) is None
    else:
        assert command(app, "init").status == 0
    assert (count_notes(archive), off.claims.status().warning) == (0, None)
    clock.now += SECOND
    new = off.deposit(title="d").ibip
    off.edit(edited, same_as=["doi:10.5281/zenodo.1"])
    off.edit(edited, same_as=["doi:10.5281/zenodo.2"])
    off.delete(deleted, reason="x")
    off.deposit(title="e")
    assert (count_notes(archive), off.claims.verify()) == (0, [])
    close(app)
    clock.now += 2 * SECOND
    after = read_claims(archive)
    assert after[: len(before)] == before
    later = {claim.ibip: claim for claim in after[len(before) :]}
    assert len(after) == len(before) + len(later) == len(before) + 5
    assert kept not in later
    assert new in later
    assert later[edited].aliases == ("doi:10.5281/zenodo.2",)
    assert later[deleted].state is State.DELETED
    assert archive.claims.verify() == []
    archive.deposit(title="f")
    clock.now += 2 * SECOND
    assert len(read_claims(archive)) == len(after) + 1


# --- tiles --------------------------------------------------------------------------------------


@pytest.fixture
def large(archive: Archive) -> Archive:
    """An Archive with more than two tiles of claims."""
    add_items(archive, 600)
    sequence(archive)
    return archive


def test_tiles_and_entries_make_the_tree(large: Archive) -> None:
    opened = open_published(large)
    size = opened.checkpoint.size
    assert size == 601
    entries = read_entries(large, size)
    hashes = open_tiles(large, size)
    assert compute_tree(entries) == opened.checkpoint.root == compute_root(size, hashes)
    assert large.claims.read_tile(1, 0, 2) == hashes(8, 0) + hashes(8, 1)
    for old in (1, 256, 300, 600):
        root = compute_tree(entries[:old])
        proof = prove_consistency(old, size, hashes)
        assert verify_consistency(old, root, size, opened.checkpoint.root, proof)


@pytest.mark.parametrize(
    "read",
    [
        lambda claims: claims.read_tile(0, 2, 90),
        lambda claims: claims.read_tile(1, 0, 3),
        lambda claims: claims.read_tile(0, 0, 0),
        lambda claims: claims.read_entries(2, 90),
        lambda claims: claims.read_entries(0, 0),
    ],
)
def test_there_is_nothing_beyond_the_log(large: Archive, read: Callable[[Any], object]) -> None:
    assert read(large.claims) is None


# --- the key -------------------------------------------------------------------------------------


def test_the_key_is_in_a_file_that_only_the_owner_reads(archive: Archive) -> None:
    open_published(archive)
    folder = archive.config.claims_folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert len([*folder.iterdir()]) == 3


def test_init_makes_one_key(archive: Archive) -> None:
    key = archive.claims.verifier()
    assert not archive.claims.create_key()
    assert archive.claims.verifier() == key


def test_the_key_can_be_a_setting(app: Flask, uri: str, tmp_path: Path, clock: Clock) -> None:
    seed = bytes(range(32))
    with_key = make_app(
        uri, tmp_path, IBIArchive(clock=clock), IBI_CLAIMS_KEY=b64encode(seed).decode()
    )
    archive = archive_of(with_key)
    archive.claims.create_key()
    assert open_published(archive).checkpoint.size == 1
    assert not [*archive.config.claims_folder.glob("*.key")]
    with pytest.raises(StorageError, match="IBI_CLAIMS_KEY; change it there, and then"):
        archive.claims.rotate()
    close(with_key)


@pytest.mark.parametrize("key", ["", "abc", b64encode(b"short").decode(), b"x" * 32, 7])
def test_a_wrong_key_in_the_settings_is_an_error(uri: str, tmp_path: Path, key: object) -> None:
    if key == "":
        close(make_app(uri, tmp_path, IBI_CLAIMS_KEY=key))  # as if it were not set
        return
    with pytest.raises(ConfigError, match="IBI_CLAIMS_KEY is '") as refused:
        make_app(uri, tmp_path, IBI_CLAIMS_KEY=key)
    assert "openssl rand -base64 32" in str(refused.value)


def test_a_new_key_signs_the_same_log(archive: Archive, clock: Clock) -> None:
    before = open_published(archive)
    old = archive.claims.verifier()
    new = archive.claims.rotate()
    assert new != old
    after = open_published(archive)
    assert after.checkpoint == before.checkpoint
    signed = archive.claims.checkpoint(clock())
    assert signed is not None
    assert old is not None
    with pytest.raises(ClaimError):
        open_checkpoint(signed.text, old)


def test_a_new_log_can_be_begun_after_a_fork(archive: Archive) -> None:
    before = open_published(archive)
    old = archive.claims.verifier()
    assert old is not None
    new = archive.claims.rotate(new_log=True)
    assert new.name == f"{old.name}#2"
    assert new.public != old.public
    after = open_published(archive)
    assert (after.checkpoint.origin, after.checkpoint.size) == (new.name, before.checkpoint.size)
    assert archive.claims.verifier() == new


def test_a_lost_folder_leads_to_one_new_key(archive: Archive, clock: Clock) -> None:
    """The resolver reads the key before the checkpoint."""
    open_published(archive)
    shutil.rmtree(archive.config.claims_folder)
    assert archive.claims.create_key()
    key = archive.claims.verifier()
    assert key is not None
    assert key.name.endswith("#2")
    clock.now += 2 * SECOND  # the next checkpoint is not that in memory
    open_published(archive)
    assert archive.claims.verifier() == key


def test_the_administrator_is_told_until_the_resolver_knows_the_key(
    archive: Archive, clock: Clock
) -> None:
    def register() -> None:
        with archive.database.writing() as connection:
            store_status(
                connection,
                archive.served().id,
                "http://r",
                "a",
                "1.2.3.4",
                included=True,
                confirmed=True,
                now=clock(),
            )

    register()
    assert archive.claims.status().warning is None
    clock.now += SECOND
    archive.claims.rotate()
    assert str(archive.claims.status().warning).endswith("again: flask ibi register-archive")
    clock.now += SECOND
    register()
    assert archive.claims.status().warning is None


def test_a_folder_that_cannot_be_written_is_an_error_with_advice(
    app: Flask, uri: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    broken = make_app(uri, tmp_path, IBI_CLAIMS_FOLDER=str(tmp_path / "file" / "claims"))
    with pytest.raises(NotReady, match="set IBI_CLAIMS_FOLDER to a folder"):
        archive_of(broken).claims.create_key()
    close(broken)


def test_archives_can_share_a_folder(
    archive: Archive, uri: str, tmp_path: Path, clock: Clock
) -> None:
    far = make_app(
        uri,
        tmp_path,
        IBIArchive(clock=clock),
        IBI_ARCHIVE_SERVICE_IBI="dpi.inpe.br/banon/1999/01.09.22.14",
    )
    archive_of(far).init()
    archive_of(far).claims.create_key()
    assert archive_of(far).claims.verifier() != archive.claims.verifier()
    for each in (archive, archive_of(far)):
        assert [claim.rep for claim in read_claims(each)] == [each.served().rep]
    close(far)


# --- restored databases --------------------------------------------------------------------------


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.WARNING, "flask_ibi_archive"):
        yield lambda: [record.getMessage() for record in caplog.records]


def test_a_database_that_is_older_than_a_signature_begins_a_new_log(
    archive: Archive, clock: Clock, lines: Callable[[], list[str]]
) -> None:
    archive.deposit(title="a")
    read_claims(archive)
    copy = DatabaseCopy(archive)
    key = archive.claims.verifier()
    archive.deposit(title="b")
    clock.now += 2 * SECOND
    assert open_published(archive).checkpoint.size == 3
    copy.restore()
    assert "the database is older" in str(archive.claims.status().warning)
    clock.now += 2 * SECOND
    claims = read_claims(archive)
    opened = open_published(archive)
    assert opened.checkpoint.origin == f"{archive.served().rep}#2"
    assert archive.claims.verifier() != key
    assert archive.claims.status().number == 2
    with archive.database.reading() as connection:
        items = connection.scalar(text("SELECT count(*) FROM ibi_item"))
    assert len(claims) == items
    [line] = lines()
    assert "begins anew" in line
    assert "register-archive" in line


def test_a_database_with_another_tree_of_the_signed_size_begins_a_new_log(
    archive: Archive, clock: Clock
) -> None:
    copy = DatabaseCopy(archive)
    archive.deposit(title="a")
    clock.now += 2 * SECOND
    assert open_published(archive).checkpoint.size == 2
    copy.restore()
    signed = next(archive.config.claims_folder.glob("*.signed"))
    content = signed.read_text()
    signed.write_text(content.replace('"size": 2', '"size": 1'))
    clock.now += 2 * SECOND
    assert open_published(archive).checkpoint.origin.endswith("#2")


def test_a_database_that_is_as_new_as_the_signature_continues(
    archive: Archive, clock: Clock
) -> None:
    archive.deposit(title="a")
    read_claims(archive)
    DatabaseCopy(archive).restore()
    archive.deposit(title="b")
    clock.now += 2 * SECOND
    opened = open_published(archive)
    assert opened.checkpoint.size == 3
    assert opened.checkpoint.origin == archive.served().rep


def test_a_database_without_the_log_that_was_signed_begins_a_new_log(
    archive: Archive, clock: Clock
) -> None:
    read_claims(archive)
    with archive.database.writing() as connection:
        for table in ("ibi_claim_tile", "ibi_claim", "ibi_claim_log"):
            connection.execute(text(f"DELETE FROM {table}"))
    clock.now += 2 * SECOND
    opened = open_published(archive)
    assert opened.checkpoint.origin.endswith("#2")
    assert opened.checkpoint.size == 1


def test_a_lost_file_of_the_last_signature_begins_a_new_log(archive: Archive, clock: Clock) -> None:
    read_claims(archive)
    next(archive.config.claims_folder.glob("*.signed")).unlink()
    clock.now += 2 * SECOND
    assert open_published(archive).checkpoint.origin.endswith("#2")


def test_servers_that_do_not_share_a_folder_do_not_begin_new_logs_in_turn(
    app: Flask, uri: str, tmp_path: Path, clock: Clock
) -> None:
    key = b64encode(bytes(32)).decode()
    first, second = (
        make_app(
            uri,
            tmp_path,
            IBIArchive(clock=clock),
            IBI_CLAIMS_KEY=key,
            IBI_CLAIMS_FOLDER=tmp_path / name,
        )
        for name in ("first", "second")
    )
    archive_of(first).claims.create_key()
    read_claims(archive_of(first))
    assert open_published(archive_of(second)).checkpoint.origin.endswith("#2")
    clock.now += 2 * SECOND
    with pytest.raises(NotReady, match="one folder for all servers of the Archive"):
        archive_of(first).claims.checkpoint(clock())
    assert "another server" in str(archive_of(first).claims.status().warning)
    assert open_published(archive_of(second)).checkpoint.origin.endswith("#2")
    for path in (tmp_path / "first").glob("*.signed"):
        path.unlink()
    assert open_published(archive_of(first)).checkpoint.origin.endswith("#3")
    close(first)
    close(second)


def test_a_key_that_is_a_setting_changes_with_the_log(
    app: Flask, uri: str, tmp_path: Path, clock: Clock
) -> None:
    key = b64encode(bytes(32)).decode()
    with_key = make_app(uri, tmp_path, IBIArchive(clock=clock), IBI_CLAIMS_KEY=key)
    archive = archive_of(with_key)
    archive.claims.create_key()
    read_claims(archive)
    before = archive.claims.verifier()
    next(archive.config.claims_folder.glob("*.signed")).unlink()
    clock.now += 2 * SECOND
    assert open_published(archive).checkpoint.origin.endswith("#2")
    after = archive.claims.verifier()
    assert before is not None
    assert after is not None
    assert after.public != before.public
    close(with_key)


# --- verification --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        ("UPDATE ibi_claim SET entry = 'x' WHERE position = 7", "the claim at position 7"),
        ("DELETE FROM ibi_claim WHERE position = 7", "claims between the positions 0 and 600"),
        ("UPDATE ibi_claim_tile SET root = frontier FROM (SELECT '0' AS frontier) AS f", "tile 0"),
        ("UPDATE ibi_claim_log SET size = size - 1", "the stored hashes at the end of the log"),
        (
            "INSERT INTO ibi_claim SELECT archive_id, log_number, 601, ibi, entry FROM ibi_claim"
            " WHERE position = 0",
            "but there are more claims",
        ),
    ],
)
def test_verification_finds_damage(large: Archive, damage: str, error: str) -> None:
    open_published(large)
    assert large.claims.verify() == []
    with large.database.writing() as connection:
        connection.execute(text(damage))
    assert error in "\n".join(large.claims.verify())


def test_verification_finds_a_change_that_was_not_noted(archive: Archive) -> None:
    archive.deposit(title="a")
    read_claims(archive)
    with archive.database.writing() as connection:
        connection.execute(text("UPDATE ibi_item SET state = 'Deleted' WHERE NOT is_service"))
        assert archive.claims.verify() == []  # not committed
    assert archive.claims.verify() == []  # noted, and not in the log yet
    with archive.database.writing() as connection:
        connection.execute(text("DELETE FROM ibi_claim_note"))
    [error] = archive.claims.verify()
    assert error.endswith("is not what the Archive has now")
