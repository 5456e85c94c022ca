"""References name items as text, whether the items are here, elsewhere or not yet imported."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from support.archives import import_records
from support.operations import group_of, record_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.record import MetadataItem
from flask_ibi_archive.errors import RecordError

REP, IBIP = "sid.inpe.br/mtc-m18@80/2009/07.21.13.23", "8JMKD3MGP8W/35MME4E"
LEGACY = "abZc/1"

pytestmark = pytest.mark.postgresql


def bring(archive: Archive, **fields: Any) -> None:
    """Import the item to which others refer."""
    record = {"rep": REP, "ibip": IBIP, "aliases": [LEGACY], **fields}
    import_records(archive, [record], on_conflict="update")


@pytest.mark.parametrize("name", [REP, IBIP, LEGACY])
def test_references_are_rewritten_when_their_item_arrives_or_gets_a_rep(
    archive: Archive, name: str
) -> None:
    if name == IBIP:
        import_records(archive, [{"ibip": IBIP}])
    earlier = archive.deposit(next_edition=name).rep
    english = archive.deposit(language="en", translations={"pt": name}).rep
    described = archive.deposit(metadata={"ibi": name}).rep
    bring(archive)
    assert record_of(archive, earlier).next_edition == REP
    assert record_of(archive, english).translations == {"pt": REP}
    assert record_of(archive, described).metadata == MetadataItem(REP)
    assert record_of(archive, REP).language == "pt"
    assert group_of(archive, REP) == {("en", english), ("pt", REP)}


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
    other = archive.deposit(language="en", translations={"pt": IBIP}).rep
    for language, reason in ((None, "two items in the language en"), ("fr", "states the language")):
        with pytest.raises(RecordError, match=reason):
            bring(archive, **({"language": language} if language else {}))
    assert archive.get(REP) is None
    archive.edit(other, language="fr")
    bring(archive)
    assert group_of(archive, REP) == {("en", english), ("fr", other), ("pt", REP)}


@pytest.mark.only_on("sqlite")
def test_an_import_leaves_the_settings_of_a_connection_as_they_are(archive: Archive) -> None:
    names = ("cache_size", "wal_autocheckpoint")

    def read() -> list[Any]:
        with archive.database.writing() as connection:
            return [connection.scalar(text(f"PRAGMA {name}")) for name in names]

    before = read()
    bring(archive)
    assert read() == before
