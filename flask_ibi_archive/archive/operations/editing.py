"""Changes what is known of an item, and its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flask_ibi_archive.archive.operations.context import (
    Files,
    OperationContext,
    canonical,
    checked,
    find_item,
    keep,
    listed,
    now,
    take_files,
)
from flask_ibi_archive.archive.operations.updating import write_over
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.records.record import FileRecord, ItemRecord
from flask_ibi_archive.storage.items import Content
from flask_ibi_archive.storage.states import Event, next_state

#: The fields of a record that an edit may change; identifiers and state have operations of their
#: own.
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


def edit(
    place: OperationContext,
    ibi: str,
    changes: dict[str, Any],
    files: Files | None = None,
    *,
    add_files: Files = (),
    remove_files: Sequence[str] = (),
    add_aliases: Sequence[str] = (),
    remove_aliases: Sequence[str] = (),
) -> None:
    """Change fields of an Original's record; its timestamp becomes now.

    :param changes: the new values of some fields of :data:`EDITABLE`, as an ItemRecord has them.
    :param files: its new files, in place of those it has; None: they stay.
    :param add_files: files that come after those.
    :param remove_files: the paths of files that go.
    :param add_aliases: further identifiers of the item.
    :param remove_aliases: identifiers that it bears by mistake; another item may bear them from
        then on.
    :raises TypeError: if a field can't be edited.
    :raises StorageError: if a value is wrong, or a file can't be taken in.
    :raises RuleBroken: the rule that refuses it.
    :raises ForbiddenMove: if it is no Original.
    """
    for name in changes:
        if name not in EDITABLE:
            raise TypeError(f"{name!r} can't be edited; what can is {', '.join(EDITABLE)}")
    with place.folder.staging() as staging:
        contents = take_files(staging, [*listed(files or ()), *listed(add_files)])
        with place.transaction(canonical(ibi)) as store:
            store.lock_ties()
            item_id, state = find_item(store, ibi)
            next_state(state, Event.EDIT, canonical(ibi))
            before = store.read_record(item_id)
            left = _files_left(before.files if files is None else (), remove_files, contents)
            # what replaces the files, or takes one away, may leave the target file out
            stays = files is None and before.target_file in [file.path for file in left]
            fresh = {
                "files": (*left, *_file_records(contents)),
                "target_file": before.target_file if stays else None,
            }
            record = replace(before, **{**fresh, **changes, "timestamp": now()})
            gone = [canonical(text) for text in remove_aliases]
            record = _with_aliases(before, record, add_aliases, gone)
            record = checked(record, canonical(ibi))
            _check_aliases(before, record, gone)
            write_over(store, item_id, record, contents, now())
            keep(staging, contents)


def _files_left(
    files: Sequence[FileRecord], removed: Sequence[str], contents: Mapping[str, Content]
) -> tuple[FileRecord, ...]:
    """Return the files that stay.

    :param contents: those that come, by their paths.
    """
    paths = [file.path for file in files]
    for path in removed:
        if path not in paths:
            raise StorageError(f"the item has no file {path}; it has {', '.join(paths) or 'none'}")
    for path in contents:
        if path in paths and path not in removed:
            raise StorageError(f"the item has a file {path} already; remove that one to replace it")
    return tuple(file for file in files if file.path not in removed)


def _file_records(contents: dict[str, Content]) -> tuple[FileRecord, ...]:
    return tuple(FileRecord(path, sha256=content.sha256) for path, content in contents.items())


def _with_aliases(
    before: ItemRecord, record: ItemRecord, added: Sequence[str], removed: Sequence[str]
) -> ItemRecord:
    for text in removed:
        if text not in before.aliases:
            aliases = ", ".join(before.aliases) or "none"
            raise StorageError(f"{text} is no alias of {before.identifiers[0]}; it has {aliases}")
    left = [text for text in record.aliases if text not in removed]
    return replace(record, aliases=(*left, *added))


def _check_aliases(before: ItemRecord, record: ItemRecord, removed: Sequence[str]) -> None:
    gone = [text for text in before.aliases if text not in (*record.aliases, *removed)]
    if gone:
        raise RuleBroken(
            1, before.identifiers[0], f"it bears {gone[0]}, and an identifier is given for good"
        )
