"""An item whose Original is in another Archive becomes an Original only if this is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import FAR_SERVICE, archive_of, import_records
from support.commands import command
from support.operations import dump, make_archives, record_of
from support.stores import moment_of, rep_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.errors import RecordError, RuleBroken, StorageError

A = rep_of(0)
WHEN = moment_of(3)
OLD = {"rep": A, "timestamp": WHEN, "aliases": [rep_of(1)]}
#: What remains of the item after a move.
LEFT = {
    "copy": {**OLD, "state": "Copy", "original_archive": FAR_SERVICE},
    "tombstone": {
        **OLD,
        "state": "Deleted",
        "tombstone": {"reason": "moved", "original_archive": FAR_SERVICE},
    },
}
left = pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)


@left
def test_an_old_record_makes_no_second_original(archive: Archive, left: dict[str, Any]) -> None:
    import_records(archive, [left])
    before = dump(archive.database)
    for record in (OLD, {"rep": rep_of(1)}):
        with pytest.raises(RecordError, match=f"is in {FAR_SERVICE}; .* --take-back") as refused:
            import_records(archive, [record], on_conflict="update")
        assert (refused.value.line, refused.value.field) == (1, "state")
        assert dump(archive.database) == before
    import_records(archive, [OLD], on_conflict="update", take_back=True)
    assert record_of(archive, A).state == "Original"


@left
def test_an_edit_takes_an_original_back_only_if_asked(app: Flask, left: dict[str, Any]) -> None:
    archive = archive_of(app)
    import_records(archive, [left])
    with pytest.raises(StorageError):
        archive.edit(A, language="en")
    assert command(app, "edit", A, "language=en").status == 1
    assert command(app, "edit", A, "language=en", "--take-back").status == 0
    record = record_of(archive, A)
    assert (record.state, record.original_archive, record.tombstone) == ("Original", None, None)
    assert (record.language, record.aliases) == ("en", (rep_of(1),))
    archive.edit(A, take_back=True)  # it is back already
    archive.delete(A, "a mistake")
    with pytest.raises(StorageError):
        archive.edit(A, take_back=True)


def test_an_original_of_the_same_database_is_not_taken_back(new_app: Callable[..., Flask]) -> None:
    here, there = make_archives(new_app, 2)
    moved = here.deposit(title="On rain").rep
    here.transfer(moved, there.served().service_ibi, keep_copy=True)
    with pytest.raises(RuleBroken) as refused:
        here.edit(moved, take_back=True)
    assert refused.value.rule == 3
    with pytest.raises(RecordError, match="another Archive of the database"):
        import_records(here, [{"rep": moved}], on_conflict="update", take_back=True)
    there.transfer(moved, here.served().service_ibi)
    assert record_of(here, moved).state == "Original"


def test_the_command_import_takes_back_only_if_asked(app: Flask, tmp_path: Path) -> None:
    records, works = tmp_path / "old.jsonl", tmp_path / "works.csv"
    records.write_text(json.dumps(OLD))
    works.write_text("key,title\na,On rain\n")
    mint = ("import", works, "--mint", "--on-conflict", "update")
    assert command(app, *mint).status == 0
    item = archive_of(app).find_key("a")
    assert item is not None
    copy = {"rep": item.rep, "state": "Copy", "original_archive": FAR_SERVICE}
    import_records(archive_of(app), [LEFT["copy"], copy], on_conflict="update")
    update = ("import", records, "--on-conflict", "update")
    for words in (update, (*update, "--dry-run"), mint):
        refused = command(app, *words)
        assert (refused.status, FAR_SERVICE in refused.out + refused.err) == (1, True), words
    for words in (update, mint):
        assert command(app, *words, "--take-back").data == "added 0, updated 1, skipped 0\n"
    assert record_of(archive_of(app), A).state == "Original"
