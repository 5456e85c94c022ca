"""The command edit."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, import_records
from support.commands import command, show, unchanged
from support.vectors import load
from support.web import ask

#: Items of some kinds, and arguments of the command.
KINDS, EDITS, WRONG, REFUSED = load("edits.json").values()
NUMBERS = count()


def add(app: Flask, kind: str, folder: Path) -> str:
    """Add an item of a kind, and return its identifier."""
    number = next(NUMBERS)
    ibi = f"sid.inpe.br/mtc-m18@80/2010/01.01.{number // 60:02d}.{number % 60:02d}"
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(name)
    import_records(archive_of(app), [{"rep": ibi, **KINDS[kind]}], folder)
    return ibi


def shown(app: Flask, ibi: str) -> dict[str, Any]:
    """Return an item as the command show prints it, without its timestamp."""
    item = show(app, ibi)
    item["files"] = [file["path"] for file in item.get("files", [])]
    del item["timestamp"]
    return item


def test_edit_changes_only_the_fields_that_it_names(here: Flask, tmp_path: Path) -> None:
    for kind, arguments, changes in EDITS:
        ibi, other = add(here, kind, tmp_path), add(here, "dublin core", tmp_path)
        words = [word.replace("OTHER", other.upper()) for word in arguments]
        before = shown(here, ibi)
        outcome = command(here, "edit", ibi.upper(), *words)
        assert (outcome.out, outcome.err) == (f"edited {ibi}\n", ""), words
        expected = json.loads(json.dumps({**before, **changes}).replace("OTHER", other))
        assert shown(here, ibi) == {
            name: value for name, value in expected.items() if value is not None
        }, words


def test_files_are_added_replaced_and_removed(here: Flask, tmp_path: Path) -> None:
    full = add(here, "full", tmp_path)

    def edit(*words: object) -> list[str]:
        assert command(here, "edit", full, *words).status == 0
        return list(shown(here, full)["files"])

    def read(path: str) -> tuple[int, str]:
        answer = ask(here, f"/col/{full}/doc/{path}", remote="150.163.1.1")
        return answer.status, answer.text

    for name in ("c.txt", "d.txt", "new/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"new {name}")
    words = ("--add-file", tmp_path / "c.txt", "--add-file", tmp_path / "d.txt")
    assert edit(*words) == ["a.txt", "b.txt", "c.txt", "d.txt"]
    assert (read("c.txt"), read("a.txt")) == ((200, "new c.txt"), (200, "a.txt"))
    edit("target_file=d.txt")
    assert edit("--remove-file", "b.txt") == ["a.txt", "c.txt", "d.txt"]
    assert shown(here, full)["target_file"] == "d.txt"
    # without a target file, the first file is the target
    assert edit("--remove-file", "d.txt") == ["a.txt", "c.txt"]
    assert "target_file" not in shown(here, full)
    (tmp_path / "new/a.txt").write_text("newer")
    words = ("--remove-file", "a.txt", "--add-file", tmp_path / "new/a.txt")
    assert edit(*words) == ["c.txt", "a.txt"]
    assert read("a.txt") == (200, "newer")
    # all files are replaced, and other fields changed at once
    files = (f"files={tmp_path / 'c.txt'}", f"files={tmp_path / 'new/b.txt'}")
    changes = ("target_file=b.txt", "title=T", "language=pt")
    assert edit(*files, *changes) == ["c.txt", "b.txt"]
    item = shown(here, full)
    assert (item["target_file"], item["language"]) == ("b.txt", "pt")
    assert item["metadata"]["dc"]["title"] == ["T"]
    assert (read("b.txt"), read("a.txt")[0]) == ((200, "new new/b.txt"), 404)
    assert edit("files=") == []


@pytest.fixture
def items(here: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The identifiers of items of all kinds, in whose folder commands run."""
    monkeypatch.chdir(tmp_path)
    return {kind: add(here, kind, tmp_path) for kind in KINDS}


def test_a_wrong_argument_is_named_and_nothing_is_changed(
    here: Flask, items: dict[str, str]
) -> None:
    with unchanged(here):
        for kind, words, reason in WRONG:
            assert reason in command(here, "edit", items[kind], *words).usage, words
        for kind, words, reason in REFUSED:
            assert reason in command(here, "edit", items[kind], *words).error, words
