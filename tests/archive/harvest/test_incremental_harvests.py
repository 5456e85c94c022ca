"""OAI-PMH harvesters that ask for the changes since the responseDate of an answer miss nothing."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import select, update
from support.archives import import_records
from support.clocks import Clock
from support.commands import command
from support.harvesting import find_errors, harvest, harvest_all, texts
from support.web import rep

from flask_ibi_archive import IBIArchive, ItemRecord, MetadataItem
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.harvest.oai_pmh import StoredHarvests
from flask_ibi_archive.archive.items import changes
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.errors import NotReady


def deposit(archive: Archive) -> str:
    return archive.deposit(ItemRecord(title="Rain")).ibip


def visit(app: Flask) -> str:
    """Return the time that an answer states, and that the harvester sends at its next visit."""
    [time] = texts(harvest(app, verb="ListIdentifiers", metadataPrefix="oai_dc"), "responseDate")
    return time


# --- from= the responseDate of an answer -------------------------------------------------------


def test_no_answer_states_a_time_in_the_future_of_its_server(
    app: Flask, late_app: Flask, clock: Clock
) -> None:
    assert visit(app) == "2026-03-01T08:00:00Z"
    assert visit(late_app) == "2026-03-01T07:59:30Z"
    clock.wait(45)
    assert visit(late_app) == "2026-03-01T08:00:00Z"  # less than a minute after the last change


@pytest.mark.postgresql
def test_a_transaction_that_was_open_during_an_answer_is_found(
    app: Flask, archive: Archive, clock: Clock
) -> None:
    item = deposit(archive)
    visit(app)
    clock.wait(100)
    with archive.database.writing() as connection:
        connection.exec_driver_sql("UPDATE ibi_item SET language = 'pt' WHERE NOT is_service")
        last_visit = visit(app)  # on SQLite, the answer can't move the end of the log
        clock.wait(-50)
    assert harvest_all(app, from_=last_visit) == {item: False}


@pytest.mark.postgresql
def test_an_answer_waits_for_the_changes_that_another_process_moves_to_the_log(
    app: Flask, archive: Archive, clock: Clock
) -> None:
    deposit(archive)
    with archive.database.writing() as connection:
        archive_id = archive.served().id
        end, _ = changes.number_changes(connection, archive_id, clock(), 9, lambda *_: {})
        # a later end could be stated before this change is in the list
        with pytest.raises(NotReady), archive.database.writing(0.01) as other:
            changes.move_end(other, archive_id, datetime.now(timezone.utc))
    assert visit(app) == f"{end:%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.postgresql
def test_a_harvester_that_saw_a_change_learns_that_it_was_taken_back(
    app: Flask, archive: Archive, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = deposit(archive)
    before = archive.database.read_rows(select(Item.dublin_core).where(Item.ibip == item))[0][0]
    visit(app)

    def write(title: str) -> None:
        with archive.database.writing() as connection:
            values = {"dublin_core": {**before, "title": [title]}}
            connection.execute(update(Item).where(Item.ibip == item).values(values))

    monkeypatch.setattr(StoredHarvests, "publish", lambda self: (write("Snow"), clock())[1])
    assert "Snow" in [
        one.text
        for one in harvest(app, verb="ListRecords", metadataPrefix="oai_dc").iter("{*}title")
    ]
    monkeypatch.undo()
    write("Rain")
    clock.wait()
    assert harvest_all(app, from_="2026-03-01T08:00:01Z") == {item: False}


def test_an_import_of_what_was_exported_is_no_change(
    app: Flask, archive: Archive, clock: Clock, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("Rain", encoding="utf-8")
    about = archive.deposit(title="On rain", content_type="Metadata").ibip
    archive.deposit(ItemRecord(metadata=MetadataItem(about), same_as=["hdl:20.500/1"]))
    later = archive.deposit(title="Rain", language="en", files=[("a.txt", tmp_path / "a.txt")])
    related = {"next_edition": later.ibip, "translations": {"en": later.ibip}}
    archive.deposit(title="Chuva", language="pt", **related)
    archive.delete(deposit(archive), "withdrawn")
    assert sorted(harvest_all(app).values()) == [False] * 3 + [True]
    clock.wait(60)
    exported = str(tmp_path / "items.jsonl")
    for words in (["export", exported], ["import", exported, "--on-conflict", "update"]):
        assert command(app, *words).status == 0
    assert visit(app) > "2026-03-01T08:00:00Z"
    archive.edit(later, title="Snow")
    assert list(harvest_all(app, from_="2026-03-01T08:00:01Z")) == [later.ibip]


def test_a_harvester_asks_again_if_one_request_has_no_time_for_all_changes(
    app: Flask, ibi: IBIArchive, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "BATCH", 4)
    monkeypatch.setattr(changes, "PUBLISHING_SHARE", 0)
    ibi.oai_sets({"snow": "Snow"})(lambda work: ["snow"] if work.title == "Snow" else [])
    titles = {rep(n): "Snow" if n >= 10 else "Rain" for n in range(12)}
    records = [{"rep": ibi, "metadata": {"dc": {"title": [it]}}} for ibi, it in titles.items()]
    import_records(archive, records)
    # a list that ends before the import does not wait for it
    words = {"verb": "ListIdentifiers", "metadataPrefix": "oai_dc"}
    assert find_errors(harvest(app, **words, until="2026-02-28")) == ["noRecordsMatch"]
    refused = app.test_client().get("/ibi/oai", query_string={**words, "set": "snow"})
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10")
    monkeypatch.setattr(changes, "PUBLISHING_SHARE", 1000)
    assert list(harvest_all(app, "ListRecords", set="snow")) == [rep(10), rep(11)]
