"""verify: every fault of a stored file is found, and no file that an item needs is deleted."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import make_url
from support.archives import SERVICE, archive_of, close, initialise, make_app
from support.archives import verify as verify_files
from support.commands import ROOT
from support.databases import new_database
from support.loopback import PATIENCE

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.care import verification
from flask_ibi_archive.archive.care.verification import Fault, Verification
from flask_ibi_archive.archive.items.file_io import Content, measure
from flask_ibi_archive.archive.items.file_store import GRACE, FileStore
from flask_ibi_archive.archive.items.staging import Staging
from flask_ibi_archive.errors import StorageError, UnknownItem
from flask_ibi_archive.server.database.engines import identify_database

SECOND = "dpi.inpe.br/banon/1999/01.09.22.14"
MINTING = {"IBI_MINT_HOST": "sid.inpe.br", "IBI_GRANULARITY": "0.000001"}


@pytest.fixture
def archive(new_app: Callable[..., Flask]) -> Archive:
    found = archive_of(new_app(**MINTING))
    found.init()
    return found


@pytest.fixture
def second(archive: Archive, new_app: Callable[..., Flask]) -> Archive:
    """Another Archive in the same database, with the same folder."""
    found = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND, **MINTING))
    found.init()
    return found


def add(archive: Archive, folder: Path, **files: bytes) -> str:
    """Deposit an item with files."""
    paths = []
    for name, content in files.items():
        paths.append(folder / name)
        paths[-1].write_bytes(content)
    return archive.deposit(ItemRecord(), paths).rep


def place(archive: Archive, content: bytes) -> Path:
    return archive.files_folder.path(hashlib.sha256(content).hexdigest())


def verify(archive: Archive, *words: Any, **options: Any) -> tuple[list[Fault], Verification]:
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


DAMAGES: list[tuple[str, Callable[[Path], Any], str]] = [
    ("missing", Path.unlink, " does not exist"),
    ("truncated", lambda path: path.write_bytes(b"12345"), "has 5 of 10 bytes"),
    ("truncated", lambda path: path.write_bytes(b""), "has 0 of 10 bytes"),
    ("altered", lambda path: path.write_bytes(b"123456789X"), "has a wrong checksum, "),
    ("altered", lambda path: path.write_bytes(b"1234567890X"), "has a wrong checksum, "),
    ("swapped", lambda path: path.write_bytes(b"another"), "the content of another file, "),
    ("swapped", lambda path: path.write_bytes(b"of another Archive"), "of another file, "),
    ("unreadable", as_folder, "can't be read: Is a directory"),
]


def test_each_fault_of_a_stored_file_is_found_in_every_item_that_needs_it(
    archive: Archive, second: Archive, tmp_path: Path
) -> None:
    intact = add(archive, tmp_path, b=b"another")
    first = add(archive, tmp_path, a=b"1234567890", b=b"another")
    other = add(archive, tmp_path, c=b"1234567890")
    add(second, tmp_path, d=b"of another Archive")
    assert verify(archive)[0] == verify(second)[0] == []
    path = place(archive, b"1234567890")
    for kind, damage, advice in DAMAGES:
        damage(path)
        faults, result = verify(archive)
        assert kinds(faults) == [(kind, first, "a"), (kind, other, "c")], (kind, advice)
        assert (result.files, result.contents, result.bytes) == (4, 2, 17), (kind, advice)
        for fault in faults:
            assert advice in fault.advice
            assert str(path) in fault.advice, (kind, advice)
            assert "\n" not in fault.advice, (kind, advice)
        assert verify(second)[0] == [], (kind, advice)
        assert kinds(verify(archive, other.upper())[0]) == [(kind, other, "c")], (kind, advice)
        assert verify(archive, intact)[0] == [], (kind, advice)
        if path.is_dir():
            path.rmdir()
        path.write_bytes(b"1234567890")


def test_two_swapped_stored_files_are_both_found(archive: Archive, tmp_path: Path) -> None:
    ibi = add(archive, tmp_path, a=b"first", b=b"other")
    place(archive, b"first").write_bytes(b"other")
    place(archive, b"other").write_bytes(b"first")
    faults, _ = verify(archive)
    assert sorted(kinds(faults)) == [("swapped", ibi, "a"), ("swapped", ibi, "b")]


def test_a_row_that_states_another_size_is_a_fault(archive: Archive, tmp_path: Path) -> None:
    ibi = add(archive, tmp_path, a=b"first")
    with archive.database.writing() as connection:
        connection.exec_driver_sql("UPDATE ibi_file SET size = 7")
    [fault] = verify(archive)[0]
    assert (fault.kind, fault.ibi) == ("altered", ibi)
    assert "5 bytes, but the database states 7" in fault.advice


def test_adding_a_file_again_repairs_a_damaged_stored_file(
    archive: Archive, tmp_path: Path
) -> None:
    add(archive, tmp_path, a=b"first")
    place(archive, b"first").write_bytes(b"FIRST")
    assert len(verify(archive)[0]) == 1
    add(archive, tmp_path, b=b"first")
    assert verify(archive)[0] == []


def test_a_stored_file_is_read_once_however_many_items_share_it(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_a_file_that_was_deleted_meanwhile_is_not_a_fault(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(archive, tmp_path, a=b"first")

    def vanish(path: Path, progress: Any) -> Any:
        with archive.database.writing() as connection:
            connection.exec_driver_sql("UPDATE ibi_item SET target_path = NULL")
            connection.exec_driver_sql("DELETE FROM ibi_file")
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(verification, "measure", vanish)
    assert verify(archive)[0] == []


def test_an_unknown_item_is_refused(archive: Archive) -> None:
    with pytest.raises(UnknownItem):
        verify(archive, "sid.inpe.br/mtc-m18@80/2001/01.01.00.00")


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("copying", marks=pytest.mark.slow),
        pytest.param("before the store", marks=pytest.mark.slow),
        "before the commit",
    ],
)
def test_a_killed_deposit_leaves_no_partial_file_and_no_row_without_its_file(
    archive: Archive, uri: str, tmp_path: Path, step: str
) -> None:
    (tmp_path / "big.bin").write_bytes(b"0123456789" * 1000)
    script = Path(__file__).with_name("killed_deposit.py")
    killed = subprocess.run(
        [sys.executable, script, uri, tmp_path, step],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT}"},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert killed.returncode == 9, killed.stderr
    assert verify(archive)[1].files == 0
    assert list(archive.find()) == []
    for stored in archive.files_folder.walk():
        assert archive.files_folder.path(stored.sha256).read_bytes() == b"0123456789" * 1000
    for path in archive.files_folder.folder.rglob("*"):
        age(path)
    verify(archive, prune=True)
    assert list(archive.files_folder.walk()) == []
    assert list(archive.files_folder.folder.glob(".*")) == []


# --- unneeded files ------------------------------------------------------------------------------


def lose(archive: Archive, content: bytes, old: bool = True) -> Path:
    """Store a file that no row needs."""
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


def test_files_that_no_item_of_any_archive_needs_are_deleted_a_day_later(
    archive: Archive, second: Archive, tmp_path: Path
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


def test_unneeded_files_are_not_counted_when_items_are_named(
    archive: Archive, tmp_path: Path
) -> None:
    ibi = add(archive, tmp_path, a=b"first")
    lose(archive, b"lost")
    assert verify(archive, ibi)[1].unneeded is None


def test_prune_deletes_no_file_of_another_database_that_shares_the_folder(
    archive: Archive, tmp_path: Path
) -> None:
    add(archive, tmp_path, a=b"first")
    needed = place(archive, b"first")
    age(needed)
    lost = lose(archive, b"lost")
    (tmp_path / "other").mkdir()
    with new_database("sqlite", tmp_path / "other", ready=True) as other_uri:
        # IBI_DATABASE_URI is wrong: the same Archive, but in a database without its items
        app = make_app(other_uri, tmp_path, **MINTING)
        wrong = archive_of(app)
        initialise(app, other_uri)
        with pytest.raises(StorageError, match=f"no entry of the Archive {SERVICE}, database sqli"):
            verify(wrong, prune=True)
        # two databases use the folder: neither can know which files the other one needs
        wrong.init()
        database = re.escape(
            archive.served().make_entry(archive.database, archive.files_folder).database
        )
        with pytest.raises(
            StorageError, match=f"also used by the Archive {SERVICE}, .* {database}; "
        ):
            verify(wrong, prune=True, yes=True)
        assert needed.exists()
        with pytest.raises(StorageError, match=r"other/.*; delete .*/archive-.*[.]txt if this is"):
            verify(archive, prune=True, dry_run=True)
        entry = wrong.served().make_entry(wrong.database, wrong.files_folder).name
        close(app)
    assert lost.exists()
    (archive.files_folder.folder / entry).unlink()
    verify(archive, prune=True)
    assert (needed.exists(), lost.exists()) == (True, False)


@pytest.mark.only_on("sqlite")
def test_an_entry_contains_no_password(archive: Archive) -> None:
    entry = identify_database(make_url("postgresql+psycopg://me:secret@127.0.0.1/a?password=b"))
    assert entry == "postgresql localhost:5432/a"
    [path] = archive.files_folder.folder.iterdir()
    name = Path(str(archive.database.engine.url.database)).name  # next to the folder
    assert path.read_text() == f"Archive {SERVICE}, database sqlite {name}\n"


@pytest.mark.only_on("sqlite")
def test_an_sqlite_file_and_the_folder_next_to_it_can_be_moved_together(
    archive: Archive, tmp_path: Path
) -> None:
    lost = lose(archive, b"lost")
    moved = tmp_path / "moved"
    archive.database.close()
    moved.mkdir()
    for path in [*tmp_path.glob("*.sqlite*"), archive.files_folder.folder]:
        path.rename(moved / path.name)
    app = make_app(f"sqlite:///{next(moved.glob('*.sqlite'))}", moved)
    assert verify(archive_of(app), prune=True)[1].removed == 1
    assert not (moved / lost.relative_to(tmp_path)).exists()
    close(app)


def test_a_folder_without_entries_gets_one_from_the_next_deposit_or_init(
    archive: Archive, tmp_path: Path
) -> None:
    def forget() -> None:
        [entry] = archive.files_folder.folder.glob("*.txt")
        entry.unlink()

    for enter in (lambda: add(archive, tmp_path, a=b"first"), archive.init):
        forget()
        assert verify(archive)[0] == []
        with pytest.raises(StorageError, match="run flask ibi init for each Archive that uses"):
            verify(archive, prune=True)
        enter()
        verify(archive, prune=True)


@pytest.mark.parametrize("name", ["notes.txt", "aa/notes.txt", "aa/bb/" + "0" * 64, "zz/xyz"])
def test_prune_deletes_nothing_from_a_folder_with_unknown_files(
    archive: Archive, name: str
) -> None:
    lost = lose(archive, b"lost")
    for ignored in (".DS_Store", "lost+found"):
        (archive.files_folder.folder / ignored).touch()
    verify(archive, prune=True, dry_run=True)
    unknown = archive.files_folder.folder / name
    unknown.parent.mkdir(parents=True, exist_ok=True)
    unknown.touch()
    with pytest.raises(StorageError, match=f"^{unknown} is not a stored file; move it out"):
        verify(archive, prune=True)
    assert lost.exists()


def test_more_than_a_tenth_of_the_files_is_deleted_only_with_yes(
    archive: Archive, tmp_path: Path
) -> None:
    for number in range(4):
        add(archive, tmp_path, a=f"needed {number}".encode())
    lost = [lose(archive, f"lost {number}".encode()) for number in range(11)]
    for options in ({}, {"dry_run": True}):
        with pytest.raises(StorageError, match=r"11 of the 15 stored files .* add --yes"):
            verify(archive, prune=True, **options)
    assert all(path.exists() for path in lost)
    assert verify(archive, prune=True, yes=True)[1].removed == 11
    for content in range(10):  # so few are not suspicious
        lose(archive, f"lost {content}".encode())
    assert verify(archive, prune=True)[1].removed == 10


def test_nothing_is_deleted_during_a_backup(archive: Archive) -> None:
    lost = lose(archive, b"lost")
    with archive.files_folder.locked(), pytest.raises(StorageError, match="another backup"):
        verify(archive, prune=True)
    assert lost.exists()


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete young files too, so that only the lock protects them."""
    monkeypatch.setattr(verification, "GRACE", -GRACE)
    monkeypatch.setattr(FileStore, "find_stale_stagings", lambda folder, before: [])


@pytest.fixture
def prune(archive: Archive) -> Iterator[Callable[[], Future[Verification]]]:
    """Starts to delete unneeded files in another thread."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda: pool.submit(verify_files, archive, prune=True)


@pytest.mark.usefixtures("no_grace")
def test_a_file_deposited_during_the_search_for_unneeded_files_remains(
    archive: Archive,
    prune: Callable[[], Future[Verification]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = lose(archive, b"shared")
    pruning: list[Future[Verification]] = []
    started = Event()
    unneeded = verification.Verifier._find_unneeded

    def looking(self: verification.Verifier, *words: Any) -> Any:
        found = list(unneeded(self, *words))
        assert [kept.sha256 for kept in found] == [lost.name]
        started.set()
        yield from found

    keep = Staging.move_to_store

    def keeping(staging: Staging, content: Any) -> None:
        # the rows of the deposit are not committed: the pruner does not see them, and must wait
        pruning.append(prune())
        assert started.wait(30)
        keep(staging, content)

    monkeypatch.setattr(verification.Verifier, "_find_unneeded", looking)
    monkeypatch.setattr(Staging, "move_to_store", keeping)
    ibi = add(archive, tmp_path, a=b"shared")
    assert pruning[0].result(60).removed == 0
    assert lost.read_bytes() == b"shared"
    assert verify(archive, ibi)[0] == []


@pytest.mark.usefixtures("no_grace")
def test_a_deposit_during_a_deletion_restores_the_file(
    archive: Archive,
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
def test_concurrent_deposits_and_deletions_never_lose_a_file(
    archive: Archive, prune: Callable[[], Future[Verification]], tmp_path: Path
) -> None:
    for round_ in range(8):
        lose(archive, b"shared %d" % round_)
        pruning = prune()
        add(archive, tmp_path, a=b"shared %d" % round_)
        assert pruning.result(60).removed in (0, 1)
        assert verify(archive)[0] == []
