"""verify: every fault of the contents on the disk is found, and nothing that is needed is taken
out.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of
from support.archives import verify as verify_files
from support.commands import ROOT

from flask_ibi_archive.archive import verification
from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.verification import Fault, Verification
from flask_ibi_archive.errors import StorageError, UnknownItem
from flask_ibi_archive.records.record import ItemRecord
from flask_ibi_archive.storage.file_store import GRACE, FileStore, Staging, measure
from flask_ibi_archive.storage.items import Content

SECOND = "dpi.inpe.br/banon/1999/01.09.22.14"
MINTING = {"IBI_MINT_HOST": "sid.inpe.br", "IBI_GRANULARITY": "0.000001"}


@pytest.fixture
def archive(new_app: Callable[..., Flask]) -> ArchiveService:
    found = archive_of(new_app(**MINTING))
    found.init()
    return found


@pytest.fixture
def second(archive: ArchiveService, new_app: Callable[..., Flask]) -> ArchiveService:
    """Another Archive in the same database, with the same folder."""
    found = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND, **MINTING))
    found.init()
    return found


def add(archive: ArchiveService, folder: Path, **files: bytes) -> str:
    """Deposit an item with files."""
    paths = []
    for name, content in files.items():
        paths.append(folder / name)
        paths[-1].write_bytes(content)
    return archive.deposit(ItemRecord(), paths).rep


def place(archive: ArchiveService, content: bytes) -> Path:
    return archive.files_folder.path(hashlib.sha256(content).hexdigest())


def verify(
    archive: ArchiveService, *words: Any, **options: Any
) -> tuple[list[Fault], Verification]:
    faults: list[Fault] = []
    result = verify_files(archive, *words, report=faults.append, **options)
    assert result.faults == len(faults)
    return faults, result


def kinds(faults: list[Fault]) -> list[tuple[str, str, str]]:
    return [(fault.kind, fault.ibi, fault.path) for fault in faults]


def age(path: Path, seconds: float = 2 * GRACE) -> None:
    moment = path.stat().st_mtime - seconds
    os.utime(path, (moment, moment))


# --- faults --------------------------------------------------------------------------------------


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("kind", "damage", "said"),
    [
        ("missing", Path.unlink, "there is no "),
        ("truncated", lambda path: path.write_bytes(b"12345"), "has 5 of 10 bytes"),
        ("truncated", lambda path: path.write_bytes(b""), "has 0 of 10 bytes"),
        ("altered", lambda path: path.write_bytes(b"123456789X"), "has the checksum "),
        ("altered", lambda path: path.write_bytes(b"1234567890X"), "has the checksum "),
        ("swapped", lambda path: path.write_bytes(b"another"), "the content that belongs at "),
        ("swapped", lambda path: path.write_bytes(b"of another Archive"), "that belongs at "),
        ("unreadable", as_folder, "can't be read: Is a directory"),
    ],
)
def test_each_fault_of_a_content_is_found_in_every_file_that_needs_it(
    archive: ArchiveService,
    second: ArchiveService,
    tmp_path: Path,
    kind: str,
    damage: Callable[[Path], Any],
    said: str,
) -> None:
    whole = add(archive, tmp_path, b=b"another")
    first = add(archive, tmp_path, a=b"1234567890", b=b"another")
    other = add(archive, tmp_path, c=b"1234567890")
    add(second, tmp_path, d=b"of another Archive")
    assert verify(archive)[0] == verify(second)[0] == []
    damage(place(archive, b"1234567890"))
    faults, result = verify(archive)
    assert kinds(faults) == [(kind, first, "a"), (kind, other, "c")]
    assert (result.files, result.contents, result.bytes) == (4, 2, 17)
    for fault in faults:
        assert said in fault.advice
        assert str(place(archive, b"1234567890")) in fault.advice
        assert "\n" not in fault.advice
    assert verify(second)[0] == []
    assert kinds(verify(archive, [other.upper()])[0]) == [(kind, other, "c")]
    assert verify(archive, [whole])[0] == []


def test_a_content_that_was_swapped_for_another_is_found_at_both_places(
    archive: ArchiveService, tmp_path: Path
) -> None:
    ibi = add(archive, tmp_path, a=b"first", b=b"other")
    place(archive, b"first").write_bytes(b"other")
    place(archive, b"other").write_bytes(b"first")
    faults, _ = verify(archive)
    assert sorted(kinds(faults)) == [("swapped", ibi, "a"), ("swapped", ibi, "b")]


def test_a_row_that_states_another_size_is_a_fault(archive: ArchiveService, tmp_path: Path) -> None:
    ibi = add(archive, tmp_path, a=b"first")
    with archive.database.writing() as connection:
        connection.exec_driver_sql("UPDATE ibi_file SET size = 7")
    [fault] = verify(archive)[0]
    assert (fault.kind, fault.ibi) == ("altered", ibi)
    assert "the database says that it has 7 bytes, not 5" in fault.advice


def test_a_damaged_content_is_whole_again_when_it_is_taken_in_again(
    archive: ArchiveService, tmp_path: Path
) -> None:
    add(archive, tmp_path, a=b"first")
    place(archive, b"first").write_bytes(b"FIRST")
    assert len(verify(archive)[0]) == 1
    add(archive, tmp_path, b=b"first")
    assert verify(archive)[0] == []


def test_a_content_is_read_once_however_many_files_share_it(
    archive: ArchiveService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcde":
        add(archive, tmp_path, **{name: b"the same"})
    add(archive, tmp_path, other=b"other")
    read: list[Path] = []

    def reading(path: Path, progress: Callable[[int], None]) -> Content:
        read.append(path)
        return measure(path, progress)

    monkeypatch.setattr(verification, "measure", reading)
    told: list[tuple[int, int]] = []
    _, result = verify(archive, progress=lambda done, total: told.append((done, total)))
    assert sorted(read) == sorted({place(archive, b"the same"), place(archive, b"other")})
    assert (result.files, result.contents, result.bytes) == (6, 2, 13)
    assert told[0] == (0, 13)
    assert told[-1] == (13, 13)


def test_a_file_that_was_taken_out_meanwhile_is_no_fault(
    archive: ArchiveService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(archive, tmp_path, a=b"first")

    def vanish(path: Path, progress: Any) -> Any:
        with archive.database.writing() as connection:
            connection.exec_driver_sql("UPDATE ibi_item SET target_path = NULL")
            connection.exec_driver_sql("DELETE FROM ibi_file")
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(verification, "measure", vanish)
    assert verify(archive)[0] == []


def test_an_item_that_is_not_here_is_told(archive: ArchiveService) -> None:
    with pytest.raises(UnknownItem):
        verify(archive, ["sid.inpe.br/mtc-m18@80/2001/01.01.00.00"])


@pytest.mark.parametrize("step", ["copying", "before keeping", "before the commit"])
def test_a_process_that_is_killed_leaves_no_half_file_and_no_row_without_its_file(
    archive: ArchiveService, uri: str, tmp_path: Path, step: str
) -> None:
    (tmp_path / "big.bin").write_bytes(b"0123456789" * 1000)
    script = Path(__file__).with_name("killed_deposit.py")
    killed = subprocess.run(
        [sys.executable, script, uri, tmp_path, step],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT}"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == 9, killed.stderr
    assert verify(archive)[1].files == 0
    assert list(archive.items()) == []
    for kept in archive.files_folder.walk():
        assert archive.files_folder.path(kept.sha256).read_bytes() == b"0123456789" * 1000
    for path in archive.files_folder.folder.rglob("*"):
        age(path)
    verify(archive, prune=True)
    assert [path for path in archive.files_folder.folder.rglob("*") if path.is_file()] == []
    assert list(archive.files_folder.folder.glob(".*")) == []


# --- what no file needs --------------------------------------------------------------------------


def lose(archive: ArchiveService, content: bytes, old: bool = True) -> Path:
    """Keep a content that no row needs."""
    folder = archive.files_folder
    source = folder.folder / "source"
    folder.folder.mkdir(parents=True, exist_ok=True)
    source.write_bytes(content)
    with folder.staging() as staging:
        staging.move_to_store(staging.add(source))
    source.unlink()
    if old:
        age(place(archive, content))
    return place(archive, content)


def test_contents_that_no_file_of_any_archive_needs_are_taken_out_a_day_later(
    archive: ArchiveService, second: ArchiveService, tmp_path: Path
) -> None:
    add(archive, tmp_path, a=b"first")
    add(second, tmp_path, b=b"second")
    needed = [place(archive, b"first"), place(archive, b"second")]
    for path in needed:
        age(path)
    lost = [lose(archive, content) for content in (b"lost", b"lost too")]
    young = lose(archive, b"young", old=False)
    stale, fresh = (archive.files_folder.folder / name for name in (".new-stale", ".new-fresh"))
    stale.mkdir()
    fresh.mkdir()
    age(stale)

    for options in ({}, {"prune": True, "dry_run": True}):
        faults, told = verify(archive, **options)
        assert (faults, told.unneeded, told.unneeded_bytes) == ([], 2, 12)
        assert (told.removed, told.leftovers) == (0, 1)
        assert all(path.exists() for path in lost)
    faults, told = verify(archive, prune=True)
    assert (faults, told.unneeded, told.unneeded_bytes, told.removed, told.leftovers) == (
        ([], 2, 12, 2, 1)
    )
    assert not any(path.exists() for path in [*lost, stale])
    assert all(path.exists() for path in [*needed, young, fresh])
    assert verify(archive)[1].unneeded == 0
    assert verify(second)[0] == []


def test_what_is_asked_of_some_items_says_nothing_of_contents_that_no_file_needs(
    archive: ArchiveService, tmp_path: Path
) -> None:
    ibi = add(archive, tmp_path, a=b"first")
    lose(archive, b"lost")
    assert verify(archive, [ibi])[1].unneeded is None


def test_nothing_is_taken_out_while_a_backup_relies_on_it(archive: ArchiveService) -> None:
    lost = lose(archive, b"lost")
    with archive.files_folder.locked(), pytest.raises(StorageError, match="a backup"):
        verify(archive, prune=True)
    assert lost.exists()


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take out what is young as well: the lock alone must do."""
    monkeypatch.setattr(verification, "GRACE", -GRACE)
    monkeypatch.setattr(FileStore, "stale_stagings", lambda folder, before: [])


@pytest.fixture
def prune(archive: ArchiveService) -> Iterator[Callable[[], Future[Verification]]]:
    """Begins to take out what nobody needs, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda: pool.submit(archive.verify, prune=True)


@pytest.mark.usefixtures("no_grace")
def test_a_deposit_that_keeps_a_content_while_it_is_to_be_taken_out_does_not_lose_it(
    archive: ArchiveService,
    prune: Callable[[], Future[Verification]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = lose(archive, b"shared")
    pruning: list[Future[Verification]] = []
    started = Event()
    unneeded = verification.Verifier._unneeded

    def looking(self: verification.Verifier, *words: Any) -> Any:
        found = list(unneeded(self, *words))
        assert [kept.sha256 for kept in found] == [lost.name]
        started.set()
        yield from found

    keep = Staging.move_to_store

    def keeping(staging: Staging, content: Any) -> None:
        # its rows are written, and not committed: the pruner finds none, and must wait
        pruning.append(prune())
        assert started.wait(30)
        keep(staging, content)

    monkeypatch.setattr(verification.Verifier, "_unneeded", looking)
    monkeypatch.setattr(Staging, "move_to_store", keeping)
    ibi = add(archive, tmp_path, a=b"shared")
    assert pruning[0].result(60).removed == 0
    assert lost.read_bytes() == b"shared"
    assert verify(archive, [ibi])[0] == []


@pytest.mark.usefixtures("no_grace")
def test_a_deposit_that_comes_while_a_content_is_taken_out_puts_it_back(
    archive: ArchiveService,
    prune: Callable[[], Future[Verification]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = lose(archive, b"shared")
    removing, taken = Event(), Event()
    remove, take = FileStore.remove, Staging.add

    def slowly(folder: FileStore, sha256: str, before: float) -> int | None:
        removing.set()
        assert taken.wait(30)
        return remove(folder, sha256, before)

    def taking(staging: Staging, source: Path) -> Any:
        assert removing.wait(30)
        content = take(staging, source)
        taken.set()
        return content

    monkeypatch.setattr(FileStore, "remove", slowly)
    monkeypatch.setattr(Staging, "add", taking)
    pruning = prune()
    add(archive, tmp_path, a=b"shared")
    assert pruning.result(60).removed == 1
    assert lost.read_bytes() == b"shared"
    assert verify(archive)[0] == []


@pytest.mark.usefixtures("no_grace")
def test_deposits_and_prunings_at_once_never_lose_a_content(
    archive: ArchiveService, prune: Callable[[], Future[Verification]], tmp_path: Path
) -> None:
    for round_ in range(8):
        lose(archive, b"shared %d" % round_)
        pruning = prune()
        add(archive, tmp_path, a=b"shared %d" % round_)
        assert pruning.result(60).removed in (0, 1)
        assert verify(archive)[0] == []
