"""A restored backup never leads to two Originals of an item that was moved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import FAR_SERVICE, archive_of, back_up
from support.databases import new_database

from flask_ibi_archive.archive.archive import Archive

from .conftest import Taker, deposit, record_of

Run = Callable[..., Any]
Make = Callable[..., Taker]


def state(archive: Archive, item: str) -> tuple[str, str | None]:
    record = record_of(archive, item)
    return record.state, (record.tombstone or record).original_archive


def restore(run: Run, archive: Archive, path: Path, *options: str) -> str:
    """Restore a backup with the command, and return its messages."""
    archive.forget()
    restored = run("restore", path, "--yes", *options)
    assert restored.exit_code == 0, restored.output
    return str(restored.stderr)


@pytest.mark.parametrize("leave", ["copy", "tombstone"])
def test_an_item_that_was_moved_since_the_backup_is_no_original_again(
    archive: Archive, run: Run, offer: Make, tmp_path: Path, leave: str
) -> None:
    items = [deposit(archive, f"item {number}") for number in range(3)]
    removed = deposit(archive, "removed")
    archive.delete(removed, "a mistake")
    early = offer(items[0], items[1], "--leave", leave)
    back_up(archive, tmp_path / "backup.zip")
    late = offer(items[2], removed, "--leave", leave)
    pages = early.read()[:1], late.read()
    answers = early.switch(pages[0]), late.switch(pages[1])
    messages = restore(run, archive, tmp_path / "backup.zip", "--replace")
    assert f"1 items were moved to {FAR_SERVICE} after the backup was written" in messages
    assert f"2 items were moved to {FAR_SERVICE} after the backup was written" in messages
    gone = ("Copy" if leave == "copy" else "Deleted", FAR_SERVICE)
    assert [state(archive, item) for item in items] == [gone, ("Original", None), gone]
    assert state(archive, removed) == ("Deleted", FAR_SERVICE)
    # the answers that the taker may have lost are given again, and the offers go on
    assert (early.switch(pages[0]), late.switch(pages[1])) == answers
    assert early.switch(early.read("numbers=2"))[0].result == "switched"


def test_a_withdrawal_since_the_backup_remains(
    archive: Archive, run: Run, offer: Make, tmp_path: Path
) -> None:
    item = deposit(archive, "On rain")
    taker = offer(item)
    page = taker.read()
    back_up(archive, tmp_path / "backup.zip")
    run("offers", "withdraw", taker.address.public_id)
    assert "Warning" not in restore(run, archive, tmp_path / "backup.zip", "--replace")
    assert taker.switch(page)[0].result == "refused"
    assert state(archive, item) == ("Original", None)


def test_items_that_may_have_been_moved_are_copies_until_it_is_known(
    archive: Archive,
    run: Run,
    offer: Make,
    tmp_path: Path,
    new_app: Callable[..., Flask],
    uri: str,
) -> None:
    """The database was lost, and the taker has one of the items of the open offer."""
    second = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI="dpi.inpe.br/banon/1999/01.09.22.14"))
    second.init()
    items = [deposit(archive, f"item {number}", "a.txt") for number in range(3)]
    archive.make_copy(items[2], second.served().service_ibi)
    moving, kept = offer(*items[:2]), offer(items[2])
    back_up(archive, tmp_path / "backup.zip")
    page = moving.read()
    moving.switch(page[:1])
    backend = "postgresql" if uri.startswith("postgresql") else "sqlite"
    with new_database(backend, tmp_path, ready=False) as empty:
        app = new_app(IBI_DATABASE_URI=empty)
        restored = archive_of(app)
        runner = app.test_cli_runner()

        def run_again(*arguments: Any) -> Any:
            return runner.invoke(args=["ibi", *map(str, arguments)])

        messages = restore(run_again, restored, tmp_path / "backup.zip")
        for taker, count in ((moving, 2), (kept, 1)):
            name = taker.address.public_id
            assert f"{count} items of the offer {name} to {FAR_SERVICE} may have been" in messages
        assert [state(restored, item) for item in items] == [("Copy", FAR_SERVICE)] * 3
        listed = json.loads(run_again("offers", "--json").stdout)
        assert [row["status"] for row in listed] == ["restored", "restored"]
        # the taker goes on: it takes the other item
        again = Taker(app.test_client(), moving.address.text)
        assert again.read() == page
        assert again.switch(page[1:])[0].result == "switched"
        # the other offer was not taken, as its taker says
        name = kept.address.public_id
        refused = run_again("offers", "withdraw", name)
        assert refused.exit_code == 1
        assert "1 items of the offer" in refused.stderr
        assert "add --not-moved" in refused.stderr
        assert run_again("offers", "withdraw", name, "--not-moved").exit_code == 0
        assert state(restored, items[2]) == ("Original", None)
        copies = archive_of(
            new_app(
                IBI_DATABASE_URI=empty,
                IBI_ARCHIVE_SERVICE_IBI="dpi.inpe.br/banon/1999/01.09.22.14",
            )
        )
        assert state(copies, items[2]) == ("Copy", restored.served().service_ibi)
        restored.database.close()
        copies.database.close()
