"""Changes what is known of an item, and its files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.records.record import FileRecord, ItemRecord
from flask_ibi_archive.service.operations.updating import write_over
from flask_ibi_archive.service.operations.workplace import (
    Files,
    Workplace,
    canonical,
    checked,
    find_item,
    keep,
    now,
    take_files,
)
from flask_ibi_archive.storage.items import Content
from flask_ibi_archive.storage.states import Event, next_state

#: The fields of a record that an edit may change; identifiers and state have operations of their own.
EDITABLE = (
    "aliases",
    "content_type",
    "language",
    "transferable",
    "next_edition",
    "translations",
    "metadata",
    "formats",
    "target_file",
    "list_files",
    "access",
)


def edit(place: Workplace, ibi: str, changes: dict[str, Any], files: Files | None = None) -> None:
    """Change fields of an Original's record; its timestamp becomes now.

    :param changes: the new values of some fields of :data:`EDITABLE`, as an ItemRecord has them.
    :param files: its new files, in place of those it has; None: they stay.
    :raises TypeError: if a field can't be edited.
    :raises StorageError: if a value is wrong, or a file can't be taken in.
    :raises RuleBroken: the rule that refuses it.
    :raises ForbiddenMove: if it is no Original.
    """
    for name in changes:
        if name not in EDITABLE:
            raise TypeError(f"{name!r} can't be edited; what can is {', '.join(EDITABLE)}")
    with place.folder.staging() as staging:
        contents = take_files(staging, () if files is None else files)
        with place.transaction(canonical(ibi)) as store:
            store.lock_ties()
            item_id, state = find_item(store, ibi)
            next_state(state, Event.EDIT, canonical(ibi))
            before = store.read_record(item_id)
            # what replaces the files may leave the target file out
            fresh = {} if files is None else {"files": _file_records(contents), "target_file": None}
            record = checked(
                replace(before, **{**fresh, **changes, "timestamp": now()}), canonical(ibi)
            )
            _check_aliases(before, record)
            write_over(store, item_id, record, contents, now())
            keep(staging, contents)


def _file_records(contents: dict[str, Content]) -> tuple[FileRecord, ...]:
    return tuple(FileRecord(path, sha256=content.sha256) for path, content in contents.items())


def _check_aliases(before: ItemRecord, record: ItemRecord) -> None:
    gone = [text for text in before.aliases if text not in record.aliases]
    if gone:
        raise RuleBroken(
            1, before.identifiers[0], f"it bears {gone[0]}, and an identifier is given for good"
        )
