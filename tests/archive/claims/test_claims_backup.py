"""Backup and restore of the log: it continues, or begins anew, and never says two things."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from flask import Flask
from support.archives import SERVICE, archive_of, close, import_records, make_app
from support.commands import Outcome, command
from support.databases import BACKENDS, new_database
from support.givers import item, rep
from support.merkle_trees import find_root
from support.published_claims import read_claims, read_entries

ANEW = "Then register the Archive again: flask ibi register-archive"


@contextmanager
def open_apps(folder: Path, *backends: str) -> Iterator[list[Flask]]:
    """Yield apps of one Archive in databases of some kinds, without tables."""
    with ExitStack() as stack:
        apps = []
        for number, backend in enumerate(backends):
            place = folder / f"{number}"
            place.mkdir()
            uri = stack.enter_context(new_database(backend, place))
            apps.append(make_app(uri, place, IBI_GRANULARITY="0.000001"))
            stack.callback(close, apps[-1])
        yield apps


def fill(app: Flask, *numbers: int) -> None:
    """Add items, and publish their claims."""
    import_records(archive_of(app), [item(number) for number in numbers])
    assert rep(numbers[-1]) in read_claims(app)


def restore(app: Flask, path: Path) -> Outcome:
    """Restore a backup in a new process, so to speak."""
    done = command(app, "restore", path, "--replace", "--yes")
    archive_of(app).forget()
    archive_of(app).__dict__.pop("claims", None)
    return done


def status(app: Flask) -> dict[str, object]:
    return dict(json.loads(command(app, "claims", "status", "--json").data))


@pytest.fixture
def app(backend: str, tmp_path: Path) -> Iterator[Flask]:
    """An app whose Archive publishes the claims of two items."""
    with open_apps(tmp_path, backend) as [app]:
        assert command(app, "init").status == 0
        fill(app, 1, 2)
        yield app


def test_the_log_continues_after_the_last_state_was_restored(app: Flask, tmp_path: Path) -> None:
    entries, key = read_entries(app), command(app, "claims", "key").data
    assert command(app, "backup", tmp_path / "x.zip").status == 0
    assert restore(app, tmp_path / "x.zip").data == ""
    fill(app, 3)
    assert read_entries(app)[: len(entries)] == entries
    assert len(read_entries(app)) == len(entries) + 1
    assert command(app, "claims", "key").data == key
    assert (status(app)["number"], status(app)["warning"]) == (1, None)
    assert command(app, "verify").data == ""


def test_a_change_that_was_committed_but_not_claimed_is_claimed_after_the_restore(
    app: Flask, tmp_path: Path
) -> None:
    size = len(read_entries(app))
    import_records(archive_of(app), [item(3)])
    assert command(app, "backup", tmp_path / "x.zip").status == 0
    assert restore(app, tmp_path / "x.zip").data == ""
    assert [rep(3).encode() in entry for entry in read_entries(app)[size:]] == [True]


def test_an_older_state_begins_a_new_log_and_says_so(app: Flask, tmp_path: Path) -> None:
    key = command(app, "claims", "key").data
    assert command(app, "backup", tmp_path / "x.zip").status == 0
    fill(app, 3)
    signed = {len(entries): find_root(entries) for entries in [read_entries(app)]}
    done = restore(app, tmp_path / "x.zip")
    assert done.status == 0
    assert ANEW in done.err
    assert f"FAIL claims: {status(app)['warning']}" in command(app, "check").out
    claims = read_claims(app)
    assert {rep(1), rep(2)} <= claims.keys()
    assert rep(3) not in claims
    assert (status(app)["number"], status(app)["origin"]) == (2, f"{SERVICE}#2")
    new_key = command(app, "claims", "key").data
    assert new_key != key
    assert new_key.startswith(f"{SERVICE}#2+")
    # no size of the first log is signed again: other items have the same positions now
    fill(app, 4)
    assert find_root(read_entries(app)) not in signed.values()
    assert command(app, "verify").data == ""
    # once more
    assert ANEW in restore(app, tmp_path / "x.zip").err
    assert rep(4) not in read_claims(app)
    assert status(app)["origin"] == f"{SERVICE}#3"


@pytest.mark.parametrize(
    "kinds", [BACKENDS, pytest.param(BACKENDS[::-1], marks=pytest.mark.slow)], ids=" to ".join
)
def test_the_log_continues_in_a_database_of_the_other_kind_with_the_same_key(
    kinds: tuple[str, str], tmp_path: Path
) -> None:
    with open_apps(tmp_path, *kinds) as [first, second]:
        assert command(first, "init").status == 0
        # more claims than one tile has hashes
        reps = [f"b.br/x/2001/01.{1 + n // 60:02}.00.{n % 60:02}" for n in range(260)]
        import_records(archive_of(first), [{"rep": one} for one in reps])
        entries, key = read_entries(first), command(first, "claims", "key").data
        assert command(first, "backup", tmp_path / "x.zip").status == 0
        ours = Path(archive_of(first).config.claims_folder)
        theirs = Path(archive_of(second).config.claims_folder)
        theirs.parent.mkdir()
        ours.rename(theirs)
        assert command(second, "restore", tmp_path / "x.zip").data == ""
        fill(second, 1)
        assert read_entries(second)[: len(entries)] == entries
        assert command(second, "claims", "key").data == key
        assert command(second, "verify").data == ""


def test_without_the_folder_of_the_key_a_new_log_begins(app: Flask, tmp_path: Path) -> None:
    key = command(app, "claims", "key").data
    assert command(app, "backup", tmp_path / "x.zip").status == 0
    with open_apps(tmp_path / "0", "sqlite") as [other]:
        assert command(other, "restore", tmp_path / "x.zip").status == 0
        assert "flask ibi init" in str(status(other)["warning"])
        assert other.test_client().get("/ibi/claims/checkpoint").status_code == 404
        assert command(other, "init").status == 0
        archive_of(other).__dict__.pop("claims", None)
        assert {rep(1), rep(2)} <= read_claims(other).keys()
        new_key = command(other, "claims", "key").data
        assert new_key != key
        assert new_key.startswith(f"{SERVICE}#2+")


def test_the_private_key_is_in_no_backup(app: Flask, tmp_path: Path) -> None:
    assert command(app, "backup", tmp_path / "x.zip").status == 0
    folder = Path(archive_of(app).config.claims_folder)
    secrets = [path.read_bytes().strip() for path in folder.iterdir() if path.suffix == ".key"]
    assert secrets
    with zipfile.ZipFile(tmp_path / "x.zip") as backup:
        whole = b"\n".join(backup.read(name) for name in backup.namelist())
    for secret in secrets:
        assert secret not in whole
        assert bytes.fromhex(secret.decode()) not in whole
