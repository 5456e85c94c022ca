"""Sends all files of an item as one ZIP file, which is written while it is sent."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Response
from flask.typing import ResponseReturnValue
from zipstream import ZIP_STORED, ZipStream

from flask_ibi_archive.archive.items import item_pages
from flask_ibi_archive.archive.items.access import check_access, select_readable_files
from flask_ibi_archive.core.records.record import FileRecord, ItemView
from flask_ibi_archive.server.web.requests import current_archive
from flask_ibi_archive.server.web.responses import set_headers
from flask_ibi_archive.server.web.texts import format_size, gettext

#: The largest sum of the sizes in bytes, and the largest number of files.
MAX_SIZE, MAX_FILES = 2 * 10**9, 1000


@dataclass(frozen=True, slots=True)
class ItemZip:
    """What a page says about the ZIP file with all files of an item.

    :param url: the address of the ZIP file; None if there are too many bytes or files for one.
    :param size: the sum of the sizes of the files in bytes.
    :param count: the number of the files.
    """

    url: str | None
    size: int
    count: int


def offer_zip(item: ItemView) -> ItemZip | None:
    """Return the ZIP file of an item; None if fewer than two of its files are stored here.

    :param item: the item without the files that the user may not read.
    """
    files = _list_stored(item)
    if len(files) < 2:
        return None
    size = sum(item.sizes[file.path] for file in files)
    is_small = size <= MAX_SIZE and len(files) <= MAX_FILES
    url = current_archive().addresses.relative.zip_file(item) if is_small else None
    return ItemZip(url, size, len(files))


def _list_stored(item: ItemView) -> list[FileRecord]:
    """Return those files of an item whose content is stored in this Archive."""
    return [file for file in item.record.files if file.source and file.path in item.sizes]


@item_pages.with_item
def zip_file(item: ItemView) -> ResponseReturnValue:
    """Send all files of an item that the user may read, as one ZIP file."""
    access = check_access(item)
    if not access.is_allowed:
        return item_pages.restricted_page(item, access)
    readable = select_readable_files(item)
    offer = offer_zip(readable)
    if offer is None or offer.url is None:
        title = gettext("The files of this item are not available as one ZIP file")
        advice = ""
        if offer is not None:
            advice = gettext(
                "A ZIP file contains at most {count} files and {size}. Download the files one by "
                "one.",
                count=MAX_FILES,
                size=format_size(MAX_SIZE),
            )
        return item_pages.message(404, title, advice, item=readable, links_files=True)
    stream = ZipStream(compress_type=ZIP_STORED, sized=True)
    for file in _list_stored(readable):
        # the name of a file may have bytes that are not UTF-8
        name = file.path.encode("utf-8", "replace").decode()
        stream.add_path(file.source, name)
    stream.comment = f"{current_archive().persistent_url_base}/{item.ibi}"
    response = Response(iter(stream), content_type="application/zip")
    response.content_length = len(stream)
    item_pages.set_file_name(response, "attachment", item.ibi, ".zip")
    return set_headers(response, "", private=not item.is_open)
