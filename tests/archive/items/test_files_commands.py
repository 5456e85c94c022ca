"""verify."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of
from support.commands import command
from support.web import REPORT, REPORT_IBIP


def contents(app: Flask) -> list[Path]:
    folder = archive_of(app).files_folder
    return [folder.path(kept.sha256) for kept in folder.walk()]


def add_unneeded(app: Flask) -> Path:
    """Add an old stored file that no item needs."""
    path = archive_of(app).files_folder.path("0" * 64)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"lost")
    os.utime(path, (0, 0))
    return path


def test_verify_writes_nothing_if_there_is_no_fault(filled: Flask) -> None:
    assert command(filled, "verify").data == ""
    assert command(filled, "verify", REPORT, REPORT_IBIP).data == ""


def test_verify_writes_a_line_for_each_fault_and_ends_with_1(filled: Flask) -> None:
    for path in contents(filled):
        path.unlink()
    outcome = command(filled, "verify", REPORT_IBIP.lower())
    assert (outcome.status, outcome.err) == (1, "")
    lines = [line.split("\t") for line in outcome.out.splitlines()]
    assert len(lines) > 5
    for kind, ibi, name, advice in lines:
        assert (kind, ibi) == ("missing", REPORT)
        assert name
        assert " does not exist; " in advice
        assert advice.endswith("restore the file from a backup, or add the file again")
    assert len(command(filled, "verify").out.splitlines()) > len(lines)


def test_verify_writes_json(filled: Flask) -> None:
    said = json.loads(command(filled, "verify", "--json").data)
    assert said["faults"] == []
    assert (said["faulty"], said["unneeded"]) == (0, 0)
    assert said["files"] > said["contents"] > 5
    first = contents(filled)[0]
    first.write_bytes(b"")
    outcome = command(filled, "verify", "--json")
    assert (outcome.status, outcome.err) == (1, "")
    said = json.loads(outcome.out)
    assert said["faulty"] == len(said["faults"]) > 0
    for fault in said["faults"]:
        assert (fault["kind"], fault["sha256"]) == ("truncated", first.name)


def test_verify_prune_deletes_unneeded_files(filled: Flask) -> None:
    path = add_unneeded(filled)
    assert command(filled, "verify").data == ""
    assert json.loads(command(filled, "verify", "--json").data)["unneeded"] == 1
    assert command(filled, "verify", "--prune", "--dry-run").lines == [
        "would delete 1 stored files (4 bytes) that no item needs, and 0 temporary folders"
    ]
    assert path.exists()
    assert command(filled, "verify", "--prune").data == ""
    assert not path.exists()
    assert command(filled, "verify").data == ""


def test_verify_writes_counts_to_a_terminal(filled: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    add_unneeded(filled)
    outcome = command(filled, "verify")
    assert (outcome.status, outcome.out) == (0, "")
    assert "Verifying" in outcome.err
    assert ": 0 files are faulty" in outcome.err
    assert "1 stored files (4 bytes) that no item needs; verify --prune deletes them" in outcome.err
    assert "deleted 1 stored files" in command(filled, "verify", "--prune").err


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--prune", REPORT], "omit IBI"), (["--dry-run"], "--dry-run requires --prune")],
)
def test_options_that_exclude_each_other_are_refused(
    filled: Flask, words: list[str], said: str
) -> None:
    assert said in command(filled, "verify", *words).usage


def test_an_unknown_item_is_an_error(filled: Flask) -> None:
    ibi = "sid.inpe.br/mtc-m18@80/2001/01.01.00.00"
    assert (
        command(filled, "verify", ibi).error == f"no item of this Archive has the identifier {ibi}"
    )
    assert "is not an IBI" in command(filled, "verify", "report").error
