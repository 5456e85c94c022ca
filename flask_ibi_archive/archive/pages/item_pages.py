"""Prepares the contents of the landing page and of the tombstone of an item."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from flask_ibi_archive.archive.items.host_calls import logging_failure
from flask_ibi_archive.archive.items.pages import find_media_type, write_metadata
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.record import RelatedItem
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import WorkType
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, format_persistent_target
from flask_ibi_archive.errors import CannotWriteMetadata
from flask_ibi_archive.reasons import translatable
from flask_ibi_archive.server.pages.charts import draw_swatch
from flask_ibi_archive.server.pages.requests import current_archive
from flask_ibi_archive.server.pages.texts import gettext

if TYPE_CHECKING:
    pass

SWATCHES = (draw_swatch(0), draw_swatch(1))
#: The maximum number of files on a page.
SHOWN_FILES = 100
#: The formats of reference managers.
CITATION_FORMATS = ("bibtex", "ris", "csl-json")
#: The names of types for readers. Other types are shown in the words of the metadata.
TYPE_NAMES = {
    WorkType.ARTICLE: translatable("Article"),
    WorkType.BACHELOR_THESIS: translatable("Bachelor thesis"),
    WorkType.BOOK: translatable("Book"),
    WorkType.CHAPTER: translatable("Chapter"),
    WorkType.COLLECTION: translatable("Collection"),
    WorkType.CONFERENCE_PAPER: translatable("Conference paper"),
    WorkType.DATASET: translatable("Dataset"),
    WorkType.DOCTORAL_THESIS: translatable("Doctoral thesis"),
    WorkType.IMAGE: translatable("Image"),
    WorkType.LECTURE: translatable("Lecture"),
    WorkType.MAP: translatable("Map"),
    WorkType.MASTER_THESIS: translatable("Master thesis"),
    WorkType.MUSIC: translatable("Music"),
    WorkType.PATENT: translatable("Patent"),
    WorkType.POSTER: translatable("Poster"),
    WorkType.PREPRINT: translatable("Preprint"),
    WorkType.PROCEEDINGS: translatable("Proceedings"),
    WorkType.REPORT: translatable("Report"),
    WorkType.REVIEW: translatable("Review"),
    WorkType.SOFTWARE: translatable("Software"),
    WorkType.SOUND: translatable("Sound"),
    WorkType.STANDARD: translatable("Standard"),
    WorkType.TEXT: translatable("Text"),
    WorkType.THESIS: translatable("Thesis"),
    WorkType.VIDEO: translatable("Video"),
}
#: The names of the types of files that need words; the other files are named by their extension.
FILE_TYPE_NAMES = {
    "audio": translatable("Sound"),
    "image": translatable("Image"),
    "video": translatable("Video"),
}
#: Matches the extension at the end of a file name.
_EXTENSION = re.compile(r"\.([A-Za-z0-9]{1,8})$")


def name_file_type(name: str) -> str:
    """Return the type of a file for readers, such as ``PDF`` or ``Image (PNG)``.

    :param name: the name of the file; the type is that of its extension.
    """
    media_type = find_media_type(name)
    if media_type == "text/plain":
        return gettext("Text")
    family = FILE_TYPE_NAMES.get(media_type.partition("/")[0])
    found = _EXTENSION.search(name)
    if found is None:
        return gettext("File")
    extension = found[1].upper()
    return f"{gettext(family)} ({extension})" if family else extension


def name_type(work: Work) -> str:
    """Return the name of the type of a work for readers; "" if no type is stated."""
    if work.type_text is None:
        return ""
    if work.type is WorkType.OTHER:
        return work.type_text
    return gettext(TYPE_NAMES[work.type])


def list_citations(item: ItemView, work: Work) -> list[tuple[MetadataFormat, str]]:
    """Return each format of reference managers, and the work in this format.

    A format that the host has replaced is left out if its function fails.
    """
    citations: list[tuple[MetadataFormat, str]] = []
    if not item.dublin_core:
        return citations
    for format in filter(None, map(current_archive().formats.get, CITATION_FORMATS)):
        failure = CannotWriteMetadata(work.ibi, format.name)
        with suppress(CannotWriteMetadata), logging_failure(failure):
            text = write_metadata(format, work).decode().strip("\r\n")
            citations.append((format, text))
    return citations


def find_newest_edition(item: ItemView) -> RelatedItem | None:
    """Return the newest edition of an item that was not removed; None if it is this item."""
    later = [one for one in item.related if one.kind == "later_edition" and not one.is_removed]
    return later[-1] if later else None


def find_original_url(item: ItemView) -> str:
    """Return the persistent URL that leads to the Original, not to a Copy ([R] 6.2)."""
    ibi = parse_identifier(item.record.identifiers[0])
    target = format_persistent_target(PersistentUrl(ibi, requires_original=True))
    return current_archive().config.persistent_url_base + target
