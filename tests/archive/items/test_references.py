"""References name items as text, whether the items are here, elsewhere or not yet imported."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import archive_of, import_records
from support.operations import group_of, record_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.record import MetadataItem
from flask_ibi_archive.errors import RecordError

REP, IBIP = "sid.inpe.br/mtc-m18@80/2009/07.21.13.23", "8JMKD3MGP8W/35MME4E"
LEGACY = "abZc/1"

pytestmark = pytest.mark.postgresql


@pytest.fixture
def archive(app: Flask) -> Archive:
    return archive_of(app)


def bring(archive: Archive, **fields: Any) -> None:
    """Import the item to which others refer."""
    import_records(archive, [{"rep": REP, "ibip": IBIP, "aliases": [LEGACY], **fields}])


@pytest.mark.parametrize("name", [REP, IBIP, LEGACY])
def test_references_are_rewritten_when_their_item_arrives(archive: Archive, name: str) -> None:
    earlier = archive.deposit(next_edition=name).rep
    english = archive.deposit(language="en", translations={"pt": name}).rep
    described = archive.deposit(metadata={"ibi": name}).rep
    bring(archive)
    assert record_of(archive, earlier).next_edition == REP
    assert record_of(archive, english).translations == {"pt": REP}
    assert record_of(archive, described).metadata == MetadataItem(REP)
    assert record_of(archive, REP).language == "pt"
    assert group_of(archive, REP) == {("en", english), ("pt", REP)}


def test_references_follow_an_item_that_gets_a_rep(archive: Archive) -> None:
    import_records(archive, [{"ibip": IBIP, "language": "pt"}])
    earlier = archive.deposit(next_edition=IBIP).rep
    english = archive.deposit(language="en", translations={"pt": IBIP}).rep
    import_records(archive, [{"rep": REP, "ibip": IBIP, "language": "pt"}], on_conflict="update")
    assert record_of(archive, earlier).next_edition == REP
    assert record_of(archive, english).translations == {"pt": REP}
    assert record_of(archive, IBIP).language == "pt"


def test_two_items_with_one_next_edition_are_named_when_it_arrives(archive: Archive) -> None:
    first, second = archive.deposit(next_edition=REP).rep, archive.deposit(next_edition=IBIP).rep
    with pytest.raises(RecordError) as refused:
        bring(archive)
    assert (refused.value.line, refused.value.field) == (1, "next_edition")
    assert first in refused.value.reason
    assert second in refused.value.reason
    archive.edit(second, next_edition=None)
    bring(archive)
    assert record_of(archive, first).next_edition == REP


def test_groups_with_the_same_item_are_merged_when_it_arrives(archive: Archive) -> None:
    english = archive.deposit(language="en", translations={"pt": REP}).rep
    french = archive.deposit(language="fr", translations={"pt": IBIP}).rep
    bring(archive)
    assert group_of(archive, REP) == {("en", english), ("fr", french), ("pt", REP)}


def test_two_groups_with_one_language_cannot_be_merged(archive: Archive) -> None:
    archive.deposit(language="en", translations={"pt": REP})
    archive.deposit(language="en", translations={"pt": IBIP})
    with pytest.raises(RecordError, match="two items in the language en"):
        bring(archive)
    with pytest.raises(RecordError, match="states the language fr"):
        bring(archive, language="fr")
    assert archive.get(REP) is None


@pytest.mark.only_on("sqlite")
def test_an_import_leaves_the_settings_of_a_connection_as_they_are(archive: Archive) -> None:
    names = ("cache_size", "wal_autocheckpoint")

    def read() -> list[Any]:
        with archive.database.writing() as connection:
            return [connection.scalar(text(f"PRAGMA {name}")) for name in names]

    before = read()
    bring(archive)
    assert read() == before
