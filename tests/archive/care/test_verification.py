"""verify finds every fault and deletes no file that an item needs; check-links; the commands."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, import_records, make_app
from support.commands import command
from support.far import Far, Reply
from support.loopback import PATIENCE, free_port
from support.web import rep

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive import care
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items import files
from flask_ibi_archive.archive.items.files import FileStore, Staging

SECOND = "dpi.inpe.br/banon/1999/01.09.22.14"
MINTING = {"IBI_MINT_HOST": "sid.inpe.br", "IBI_GRANULARITY": "0.000001"}
DAY = timedelta(days=1)


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


def verify(archive: Archive) -> list[tuple[str, str, str]]:
    """Return the kind, the item and the path of each fault."""
    found = care.find_faults(archive.database, archive.served().id, archive.files_folder)
    return [fault[:3] for fault in found]


def unneeded(archive: Archive, remove: bool = False, later: timedelta = DAY * 2) -> list[str]:
    """Return the checksums of the files that will be unneeded some days later."""
    now = archive.clock() + later
    return care.find_unneeded(archive.database, archive.files_folder, now, remove)


def test_a_fault_is_found_in_every_item_that_needs_the_file(
    archive: Archive, second: Archive, tmp_path: Path
) -> None:
    first = add(archive, tmp_path, a=b"1234567890", b=b"another")
    other = add(archive, tmp_path, c=b"1234567890")
    add(second, tmp_path, d=b"of another Archive")
    assert verify(archive) == verify(second) == []
    stored = place(archive, b"1234567890")
    for kind, damage in (
        ("damaged", lambda: stored.write_bytes(b"12345")),
        ("damaged", lambda: stored.write_bytes(b"123456789X")),
        ("missing", stored.unlink),
        ("damaged", stored.mkdir),
    ):
        damage()
        assert verify(archive) == [(kind, first, "a"), (kind, other, "c")]
        assert verify(second) == []


def test_a_file_that_was_deleted_meanwhile_is_not_a_fault(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(archive, tmp_path, a=b"first")

    def vanish(path: Path) -> Any:
        with archive.database.writing() as connection:
            connection.exec_driver_sql("UPDATE ibi_item SET target_path = NULL")
            connection.exec_driver_sql("DELETE FROM ibi_file")
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(care, "measure", vanish)
    assert verify(archive) == []


def deposit_and_end(uri: str, folder: Path, step: str) -> None:
    """Deposit a file, and end the process at a step."""
    move = Staging.move_to_store

    def copying(stream: Any, target: Any) -> Any:
        target.write(stream.read(1000))
        os._exit(9)

    def moving(staging: Staging, content: Any) -> None:
        if step == "before the commit":
            move(staging, content)
        os._exit(9)

    Staging.move_to_store = moving  # type: ignore[method-assign]
    if step == "copying":
        files.copy_and_measure = copying
    archive_of(make_app(uri, folder)).deposit(ItemRecord(), [folder / "big.bin"])


@pytest.mark.parametrize("step", ["copying", "before the store", "before the commit"])
def test_a_killed_deposit_leaves_no_partial_file_and_no_row_without_its_file(
    archive: Archive, uri: str, tmp_path: Path, step: str
) -> None:
    (tmp_path / "big.bin").write_bytes(b"0123456789" * 1000)
    process = get_context("fork").Process(target=deposit_and_end, args=(uri, tmp_path, step))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 9
    assert list(archive.find()) == []
    for stored in archive.files_folder.walk():
        assert archive.files_folder.path(stored.sha256).read_bytes() == b"0123456789" * 1000
    unneeded(archive, remove=True)
    assert list(archive.files_folder.walk()) == []
    assert list(archive.files_folder.folder.glob(".*")) == []


def lose(archive: Archive, content: bytes) -> Path:
    """Store a file that no row needs."""
    folder = archive.files_folder
    source = folder.folder / "source"
    folder.folder.mkdir(parents=True, exist_ok=True)
    source.write_bytes(content)
    with folder.staging() as staging:
        staging.move_to_store(files.read_source(source, staging.add_stream))
    source.unlink()
    return place(archive, content)


def test_files_that_no_item_of_any_archive_needs_are_deleted_a_day_later(
    archive: Archive, second: Archive, tmp_path: Path
) -> None:
    add(archive, tmp_path, a=b"first")
    add(second, tmp_path, b=b"second")
    needed = [place(archive, b"first"), place(archive, b"second")]
    lost = [lose(archive, content) for content in (b"lost", b"lost too")]
    folder = archive.files_folder.folder
    others = [folder / "notes.txt", folder / "aa/bb" / ("0" * 64)]
    stale = folder / ".new-stale"
    stale.mkdir()
    others[1].parent.mkdir(parents=True)
    for path in others:
        path.touch()
    assert unneeded(archive, remove=True, later=DAY * 0.9) == []
    assert sorted(unneeded(archive)) == sorted(path.name for path in lost)
    assert all(path.exists() for path in [*lost, stale])
    assert len(unneeded(archive, remove=True)) == 2
    assert not any(path.exists() for path in [*lost, stale])
    assert all(path.exists() for path in [*needed, *others])
    assert unneeded(archive) == verify(archive) == verify(second) == []


@pytest.fixture
def prune(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Future[list[str]]]]:
    """Starts to delete unneeded files, young ones too, in another thread: only locks help."""
    monkeypatch.setattr(FileStore, "find_stale_stagings", lambda folder, before: [])
    with ThreadPoolExecutor(1) as pool:
        yield lambda: pool.submit(unneeded, archive, remove=True)


@pytest.mark.postgresql
def test_a_file_deposited_during_the_search_for_unneeded_files_remains(
    archive: Archive,
    prune: Callable[[], Future[list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = lose(archive, b"shared")
    found, pruning = Event(), []
    keep, walk = Staging.move_to_store, FileStore.walk

    def walking(store: FileStore) -> Any:
        yield from walk(store)
        found.set()

    def keeping(staging: Staging, content: Any) -> None:
        # the rows of the deposit are not committed: the pruner does not see them, and must wait
        pruning.append(prune())
        assert found.wait(PATIENCE)
        keep(staging, content)

    monkeypatch.setattr(FileStore, "walk", walking)
    monkeypatch.setattr(Staging, "move_to_store", keeping)
    add(archive, tmp_path, a=b"shared")
    pruning[0].result(PATIENCE)
    assert lost.read_bytes() == b"shared"
    assert verify(archive) == []


@pytest.mark.postgresql
def test_a_deposit_during_a_deletion_restores_the_file(
    archive: Archive,
    prune: Callable[[], Future[list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = lose(archive, b"shared")
    removing, taken = Event(), Event()
    remove, take = FileStore.remove, Staging.add_stream

    def slowly(folder: FileStore, sha256: str, before: float) -> None:
        removing.set()
        assert taken.wait(PATIENCE)
        remove(folder, sha256, before)

    def taking(staging: Staging, source: Any) -> Any:
        assert removing.wait(PATIENCE)
        content = take(staging, source)
        taken.set()
        return content

    monkeypatch.setattr(FileStore, "remove", slowly)
    monkeypatch.setattr(Staging, "add_stream", taking)
    pruning = prune()
    add(archive, tmp_path, a=b"shared")
    assert pruning.result(PATIENCE) == [lost.name]
    assert lost.read_bytes() == b"shared"
    assert verify(archive) == []


def test_verify_writes_a_line_for_each_fault_and_ends_with_1(filled: Flask) -> None:
    assert command(filled, "verify").data == ""
    folder = archive_of(filled).files_folder
    first, second = [folder.path(stored.sha256) for stored in folder.walk()][:2]
    first.unlink()
    second.write_bytes(b"")
    outcome = command(filled, "verify")
    assert (outcome.status, outcome.err) == (1, "")
    lines = [line.split("\t") for line in outcome.out.splitlines()]
    faults = {(kind, file) for kind, _, _, file in lines}
    assert faults == {("missing", str(first)), ("damaged", str(second))}
    outcome = command(filled, "verify", "--json")
    said = json.loads(outcome.out)
    assert outcome.status == 1
    assert [list(fault.values()) for fault in said["faults"]] == lines
    assert said["unneeded"] == 0


def test_verify_prune_deletes_unneeded_files(
    filled: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lose(archive_of(filled), b"lost")
    os.utime(path, (0, 0))
    assert command(filled, "verify").data == ""
    assert json.loads(command(filled, "verify", "--json").data)["unneeded"] == 1
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    outcome = command(filled, "verify")
    assert (outcome.status, outcome.out, "Verifying" in outcome.err) == (0, "", True)
    unneeded = "1 stored files that no item needs"
    assert f"0 files are missing or damaged; {unneeded} (verify --prune" in outcome.err
    assert path.exists()
    assert f"{unneeded} (deleted)" in command(filled, "verify", "--prune").err
    assert not path.exists()


def test_check_links_asks_each_address_and_writes_those_that_do_not_work(
    app: Flask, far: Far
) -> None:
    url = far.url
    far.replies |= {"works": Reply(), "moved": Reply(301, {"Location": "gone"})}
    deleted = {"state": "Deleted", "timestamp": "2010-01-02T03:04:05Z"}
    import_records(
        archive_of(app),
        [
            {"rep": rep(1), "files": [{"path": name, "url": url(name)} for name in ("works", "a")]},
            {"rep": rep(2), "files": [{"path": "a", "url": url("a")}, {"path": "only named"}]},
            {"rep": rep(3), "metadata": {"url": url("m"), "formats": {"oai_dc": url("works")}}},
            {"rep": rep(4), "content_type": "Metadata", "formats": {"oai_dc": url("moved")}},
            {"rep": rep(5), "files": [{"path": "a", "url": url("deleted")}], **deleted},
        ],
    )
    lost = "answers 404 (Not Found)"
    broken = [
        {"url": url("a"), "error": lost, "items": [rep(1), rep(2)]},
        {"url": url("m"), "error": lost, "items": [rep(3)]},
        {"url": url("moved"), "error": f"redirects to {url('gone')}, which {lost}"}
        | {"items": [rep(4)]},
    ]
    outcome = command(app, "check-links", "--json")
    assert (outcome.status, json.loads(outcome.out)) == (1, broken)
    assert sorted(line for line in far.lines if "HEAD" in line) == [
        f"HEAD {path}" for path in ("a", "gone", "m", "moved", "works")
    ]
    outcome = command(app, "check-links")
    assert (outcome.status, outcome.err) == (1, "")
    assert outcome.out.splitlines() == [
        f"{one['url']}\t{one['error']}\t{', '.join(one['items'])}" for one in broken
    ]


def test_a_host_gets_one_request_at_a_time(app: Flask, far: Far) -> None:
    busy: set[str] = set()

    def answer(host: str) -> Reply:
        assert host not in busy
        busy.add(host)
        busy.remove(host)
        return Reply()

    hosts = ("127.0.0.1", "localhost")
    found = {far.url(f"{host}-{number}", host): ["x"] for number in range(20) for host in hosts}
    for url in found:
        host, _, path = url.removeprefix("http://").partition("/")
        far.replies[path] = lambda host=host: answer(host)  # type: ignore[misc]
    told: list[tuple[int, int]] = []
    inner_hosts = archive_of(app).config.inner_hosts
    broken = care.find_broken(found, "x", inner_hosts, lambda *words: told.append(words))
    assert list(broken) == []
    assert told == [(number, 40) for number in range(1, 41)]


def test_a_host_that_is_down_gets_few_requests(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    find = care.find_link_error

    def note(url: str, *words: object) -> object:
        asked.append(url)
        return find(url, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(care, "find_link_error", note)
    address = f"127.0.0.1:{free_port()}"
    found = {f"http://{address}/{number}": ["x"] for number in range(20)}
    broken = list(care.find_broken(found, "x", archive_of(app).config.inner_hosts))
    assert len(broken) == 20
    assert (len(asked), broken[0].error, broken[-1].error) == (
        care.MAX_FAILURES,
        "can't be reached (Connection refused)",
        "the host can't be reached",
    )
