"""Edit Originals: the fields of the records, the files, and the aliases (further identifiers)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flask_ibi_archive.archive.items.items import Contents
from flask_ibi_archive.archive.items.operations.context import (
    HasContext,
    canonicalize,
    find_item,
    validate_record,
)
from flask_ibi_archive.archive.items.operations.description import (
    Files,
    Identified,
    Metadata,
    read_description,
    require_ibi,
)
from flask_ibi_archive.archive.items.operations.staged_files import list_files, stage_files
from flask_ibi_archive.archive.items.operations.updating import UpdateBatch
from flask_ibi_archive.archive.items.operations.work_fields import RICH_FIELDS
from flask_ibi_archive.core.protocol.states import Event, State, next_state
from flask_ibi_archive.core.records.record import FileRecord, Record
from flask_ibi_archive.errors import RuleBroken, StorageError

#: The fields that an edit may change. Other operations change the state and the identifiers.
EDITABLE = (
    "title",
    "creators",
    "aliases",
    "same_as",
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
    "embargo",
    "key",
    *RICH_FIELDS,
)


def edit(
    archive: HasContext,
    ibi: str | Identified,
    *,
    files: Files | None = None,
    add_files: Files = (),
    remove_files: Sequence[str] = (),
    add_aliases: Sequence[str] = (),
    remove_aliases: Sequence[str] = (),
    take_back: bool = False,
    **changes: Any,
) -> None:
    """Change fields of an Original, and set the timestamp of the item to the current time.

    ::

        ibi.archive.edit(item.ibi, title="Annual report 2026", add_files=["data.csv"])

    :param files: the new files, which replace all old files. None: the old files remain.
    :param add_files: files to add at the end of the list of files.
    :param remove_files: the paths of files to remove.
    :param add_aliases: further identifiers to add to the item.
    :param remove_aliases: wrong aliases to remove. Another item may get a removed alias.
    :param take_back: True: if the Original is in another Archive, and a Copy or a tombstone here,
        make this item the Original again. The other Archive must give up its Original.
    :param changes: the new values of fields of :class:`ItemRecord`, by name.
    :raises TypeError: if a field cannot be edited.
    :raises StorageError: if a value is wrong, or if a file cannot be read.
    :raises RuleBroken: if a rule does not allow the change.
    :raises StorageError: if the item is not an Original.
    """
    context, text = archive.context, require_ibi(ibi)
    for name in changes:
        if name not in EDITABLE:
            raise TypeError(
                f"{name!r} can't be edited; the fields that can be edited are {', '.join(EDITABLE)}"
            )
    with context.staging() as staging:
        new_files, contents = stage_files(
            staging, [*list_files(files or ()), *list_files(add_files)]
        )
        removed = [canonicalize(text) for text in remove_aliases]
        now = context.now()

        def change(before: Record) -> tuple[Record, Contents]:
            if not (take_back and before.original_elsewhere):
                next_state(State(before.state), Event.EDIT, canonicalize(text))
            old_files = before.files if files is None else ()
            remaining = _remaining_files(old_files, remove_files, new_files)
            # The edit may replace or remove the old target file.
            keeps_target = before.target_file in [file.path for file in remaining]
            new_values = {
                "state": State.ORIGINAL.value,
                "original_archive": None,
                "tombstone": None,
                "files": (*remaining, *new_files),
                "target_file": before.target_file if keeps_target else None,
                **read_description(changes, before.metadata).values,
                "timestamp": now,
            }
            record = _with_aliases(before, replace(before, **new_values), add_aliases, removed)
            record = validate_record(record, canonicalize(text))
            _check_aliases(before, record, removed)
            return record, contents

        with context.transaction(canonicalize(text)) as store:
            item_id, _ = find_item(store, text)
            batch = UpdateBatch(store, {item_id: change})
            batch.lock()
            batch.write(now)
            for content in contents.values():
                staging.move_to_store(content)


def attach_metadata(archive: HasContext, ibi: str | Identified, metadata: Metadata) -> None:
    """Replace the metadata of an item; see :meth:`edit`.

    ::

        ibi.archive.attach_metadata(item.ibi, {"dc": {"title": ["Annual report"]}})

    :param metadata: the new metadata. None: the metadata are removed.
    """
    edit(archive, ibi, metadata=metadata)


def replace_files(
    archive: HasContext, ibi: str | Identified, files: Files, *, target_file: str | None = None
) -> None:
    """Replace the files of an item; see :meth:`edit`.

    ::

        ibi.archive.replace_files(item.ibi, ["report.pdf", "data.csv"])

    :param target_file: the name of the new target file. None: the first file.
    """
    edit(archive, ibi, files=files, target_file=target_file)


def _remaining_files(
    files: Sequence[FileRecord], removed: Sequence[str], new: Sequence[FileRecord]
) -> tuple[FileRecord, ...]:
    """Return the files of an item that are not removed.

    :param new: the files that are added.
    :raises StorageError: if a path to remove does not exist, or if a path to add already exists.
    """
    paths = [file.path for file in files]
    for path in removed:
        if path not in paths:
            raise StorageError(
                f"the item has no file {path}; the files are: {', '.join(paths) or 'none'}"
            )
    for path in [file.path for file in new]:
        if path in paths and path not in removed:
            raise StorageError(
                f"the item already has a file {path}; remove that file to replace it"
            )
    return tuple(file for file in files if file.path not in removed)


def _with_aliases(
    before: Record, record: Record, added: Sequence[str], removed: Sequence[str]
) -> Record:
    """Return a record that has the added aliases and does not have the removed aliases.

    :param before: the present record of the item.
    :param record: the new record of the item.
    :raises StorageError: if the item does not have an alias to remove.
    """
    for text in removed:
        if text not in before.aliases:
            aliases = ", ".join(before.aliases) or "none"
            raise StorageError(
                f"{text} is not an alias of {before.identifiers[0]}; the aliases are: {aliases}"
            )
    remaining = [text for text in record.aliases if text not in removed]
    return replace(record, aliases=(*remaining, *added))


def _check_aliases(before: Record, record: Record, removed: Sequence[str]) -> None:
    """Check that the new record still has all aliases, except the aliases to remove.

    :param before: the present record of the item.
    :param removed: the aliases to remove.
    :raises RuleBroken: rule 1, if another alias is missing.
    """
    lost = [text for text in before.aliases if text not in (*record.aliases, *removed)]
    if lost:
        raise RuleBroken(
            1,
            before.identifiers[0],
            f"the alias {lost[0]} is missing, but identifiers are permanent; remove a wrong alias "
            "with remove_aliases",
        )
