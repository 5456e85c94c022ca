"""Offers in folders, for institutions whose servers cannot reach each other.

The folder contains ``offer.json`` (the description and the secret), ``items.jsonl`` (the lines of
all pages) and ``files/<sha256>``. The taker writes ``receipt.json``, and the giver answers it in
``confirmation.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import select

from flask_ibi_archive.archive.items.exporting import copy_content
from flask_ibi_archive.archive.items.operations.context import HasContext
from flask_ibi_archive.archive.items.tables import Offer
from flask_ibi_archive.archive.moving.giving import (
    KnownOffer,
    describe_offer,
    read_offered,
)
from flask_ibi_archive.archive.moving.switching import switch_items
from flask_ibi_archive.core.records.fields import FieldError
from flask_ibi_archive.core.records.offers import MAX_ITEMS, format_offered
from flask_ibi_archive.core.records.parse import read_json
from flask_ibi_archive.core.records.switches import (
    SwitchAnswer,
    format_confirmation,
    format_offer_file,
    get_offer,
    parse_receipt,
)
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.dialects import batched
from flask_ibi_archive.server.files import new_file

OFFER, ITEMS, FILES = "offer.json", "items.jsonl", "files"
RECEIPT, CONFIRMATION = "receipt.json", "confirmation.json"

#: A function that reports progress: the number of items that are done, and their total number.
Progress = Callable[[int, int], None]


def prepare_folder(folder: Path) -> None:
    """Create the folder of an offer.

    :raises StorageError: if the folder cannot be created, or is not empty.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_used = any(folder.iterdir())
    except OSError as error:
        raise StorageError(f"{folder} can't be written: {error.strerror}") from error
    if is_used:
        raise StorageError(f"{folder} is not empty; name a new folder")


def write_folder(
    archive: HasContext, offer: KnownOffer, secret: str, folder: Path, progress: Progress
) -> None:
    """Write an offer to a folder. The file ``offer.json`` is written last.

    :raises StorageError: if a file cannot be written, or if a stored file is missing or damaged.
    """
    store_of_files = archive.context.folder
    with archive.context.reading() as store, new_file(folder / ITEMS) as lines:
        for done, offered in enumerate(read_offered(store, offer), 1):
            lines.write(format_offered(offered))
            for path in offered.sizes:
                [file] = [file for file in offered.record.files if file.path == path]
                _copy(store_of_files.path(str(file.sha256)), str(file.sha256), folder / FILES)
            progress(done, offer.items)
    description = format_offer_file(describe_offer(archive, offer), secret)
    write_json(folder / OFFER, description)


def _copy(source: Path, sha256: str, folder: Path) -> None:
    try:
        copy_content(source, sha256, folder)
    except OSError as error:
        raise StorageError(
            f"{source} can't be copied to {folder}: {error.strerror}: {error.filename}"
        ) from error
    except ValueError as error:
        raise StorageError(f"{source} is damaged; run flask ibi verify") from error


def answer_receipt(archive: HasContext, path: Path, progress: Progress) -> list[SwitchAnswer]:
    """Switch the items that a receipt names, and write the confirmation beside the receipt.

    The items are switched in batches. If it is interrupted, it can be repeated: items that were
    switched get the same answer again.

    :param path: the path of the receipt.
    :raises StorageError: if the receipt is wrong, or if a file cannot be read or written.
    """
    try:
        data = read_json_file(path)
        public_id = get_offer(data)
        with archive.context.reading() as store:
            secret_hash = store.connection.scalar(
                select(Offer.secret_hash).where(
                    Offer.public_id == public_id, Offer.archive_id == store.archive_id
                )
            )
        if secret_hash is None:
            raise FieldError("offer", f"this Archive has made no offer {public_id}")
        stored = parse_receipt(data, secret_hash)
    except FieldError as error:
        raise StorageError(f"{path}: {error}") from error
    answers: list[SwitchAnswer] = []
    for batch in batched(stored, MAX_ITEMS):
        answers += switch_items(archive, public_id, batch)
        progress(len(answers), len(stored))
    confirmation = format_confirmation(public_id, answers, secret_hash)
    write_json(path.with_name(CONFIRMATION), confirmation)
    return answers


def read_json_file(path: Path) -> Any:
    """Return the JSON value in a file.

    :raises StorageError: if the file cannot be read.
    :raises FieldError: if it is not JSON.
    """
    try:
        return read_json(path.read_bytes())
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}") from error


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value to a file that only its owner can read.

    :raises StorageError: if the file cannot be written.
    """
    with new_file(path) as stream:
        stream.write(json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n")
