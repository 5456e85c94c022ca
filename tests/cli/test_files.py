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


def lose(app: Flask) -> Path:
    """Keep an old content that no file needs."""
    path = archive_of(app).files_folder.path("0" * 64)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"lost")
    os.utime(path, (0, 0))
    return path


def test_verify_says_nothing_when_all_is_well(filled: Flask) -> None:
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
        assert advice.startswith("there is no ")
        assert advice.endswith("put it back from a backup, or take the file in again")
    assert len(command(filled, "verify").out.splitlines()) > len(lines)


def test_verify_gives_json(filled: Flask) -> None:
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


def test_verify_takes_out_what_no_file_needs_when_told(filled: Flask) -> None:
    path = lose(filled)
    assert command(filled, "verify").data == ""
    assert json.loads(command(filled, "verify", "--json").data)["unneeded"] == 1
    assert command(filled, "verify", "--prune", "--dry-run").lines == [
        "would take out 1 contents (4 bytes) that no file needs, and 0 leftovers of broken writes"
    ]
    assert path.exists()
    assert command(filled, "verify", "--prune").data == ""
    assert not path.exists()
    assert command(filled, "verify").data == ""


def test_verify_says_what_it_found_on_a_terminal(
    filled: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    lose(filled)
    outcome = command(filled, "verify")
    assert (outcome.status, outcome.out) == (0, "")
    assert "Verifying" in outcome.err
    assert " 0 with a fault" in outcome.err
    assert "1 contents (4 bytes) that no file needs; verify --prune takes them out" in outcome.err
    assert "taken out: 1 contents" in command(filled, "verify", "--prune").err


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--prune", REPORT], "leave the IBIs out"), (["--dry-run"], "--dry-run goes with --prune")],
)
def test_what_does_not_go_together_is_told(filled: Flask, words: list[str], said: str) -> None:
    assert said in command(filled, "verify", *words).usage


def test_an_item_that_is_not_here_is_told(filled: Flask) -> None:
    ibi = "sid.inpe.br/mtc-m18@80/2001/01.01.00.00"
    assert (
        command(filled, "verify", ibi).error == f"no item of this Archive has the identifier {ibi}"
    )
    assert "is not an IBI" in command(filled, "verify", "report").error
