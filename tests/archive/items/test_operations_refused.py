"""Refused operations with a clear message: wrong arguments, relations to the service."""

from __future__ import annotations

from typing import Any

import pytest
from support.archives import SERVICE, import_records
from support.operations import dump, record_of

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.errors import RecordError, RuleBroken, StorageError, UnknownItem


def test_an_invalid_identifier_is_an_error_of_one_short_line(archive: Archive) -> None:
    for text in ("a\nb", "a\0b", "\x1b[31m", "8" * 5000):
        with pytest.raises(UnknownItem) as refused:
            archive.delete(text, "gone")
        assert str(refused.value).isprintable(), text
        assert len(str(refused.value)) < 300, text


def test_an_identifier_in_another_case_names_the_same_item(archive: Archive) -> None:
    item = archive.deposit(ItemRecord(language="pt"))
    archive.edit(item.rep, translations={"pt": item.rep.upper()})
    assert record_of(archive, item.rep).language == "pt"


def test_an_invalid_translation_in_the_language_of_the_item_is_an_error(
    archive: Archive,
) -> None:
    item = archive.deposit(ItemRecord(language="pt"))
    with pytest.raises(StorageError, match=r"translations\.pt: 'x' is not an IBI") as refused:
        archive.edit(item.rep, translations={"pt": "x"})
    assert not isinstance(refused.value, RuleBroken)


@pytest.mark.parametrize("changes", [{"next_edition": SERVICE}, {"translations": {"ko": SERVICE}}])
def test_the_service_cannot_be_an_edition_or_a_translation(
    archive: Archive, changes: dict[str, Any]
) -> None:
    item = archive.deposit(ItemRecord(language="en"))
    before = dump(archive.database)
    with pytest.raises(RuleBroken) as broken:
        archive.deposit(ItemRecord(**changes))
    assert broken.value.rule == 6
    with pytest.raises(RuleBroken) as broken:
        archive.edit(item.rep, **changes)
    assert broken.value.rule == 6
    with pytest.raises(RecordError, match="service"):
        import_records(archive, [{"rep": "a.br/x/2001/01.01.00.00", **changes}])
    assert dump(archive.database) == before
