"""What the page of an item shows: the values of its parts, for our page and for those of hosts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flask import current_app

from flask_ibi_archive.archive.items import pages
from flask_ibi_archive.archive.items.access import (
    AccessDecision,
    check_access,
    logging_failure,
    select_readable_files,
)
from flask_ibi_archive.archive.pages import labels, machine_readable, zip_files
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.records.description import AccessRight, Name, Organisation, Text
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.core.records.formats.abnt import cite
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.record import FileRecord, RelatedItem
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_values import name_licence
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, format_persistent_target
from flask_ibi_archive.errors import CannotWriteMetadata
from flask_ibi_archive.server.pages.requests import current_archive, user_address
from flask_ibi_archive.server.pages.texts import gettext, page_language

#: The maximum number of files on the page.
SHOWN_FILES = 50
#: The formats of reference managers.
CITATION_FORMATS = ("bibtex", "ris", "csl-json")
#: The kinds of previews in the order of preference: the media types, and the largest file in bytes.
PREVIEWS = {
    "pdf": (("application/pdf",), 100_000_000),
    "image": (
        ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"),
        20_000_000,
    ),
    "text": (("text/plain", "text/csv", "text/markdown", "application/json"), 1_000_000_000),
}
#: The number of bytes of a text that the preview shows.
PREVIEWED = 8_000


@dataclass(frozen=True, slots=True)
class Preview:
    """The preview of a file.

    :param kind: ``pdf``, ``image`` or ``text``.
    :param url: the address of the file. If the file is on the host of the page, the address has no
        host: the policy of the page allows no other host, and an Archive may have several names.
    :param text: the beginning of a text; "" for other kinds.
    :param is_cut: True if the text has more than the beginning.
    """

    kind: str
    path: str
    url: str
    text: str = ""
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """An item as one reader sees it.

    :param item: the item.
    :param readable: the item without the files that the reader may not read.
    :param work: the description of the readable item.
    """

    item: ItemView
    readable: ItemView
    work: Work


def show(item: ItemView) -> Shown:
    """Return an item as the user of the request sees it."""
    readable = select_readable_files(item)
    return Shown(item, readable, pages.describe_work(readable))


def describe_parts(shown: Shown) -> dict[str, Any]:
    """Return the variables of the parts of the page, except the numbers of accesses."""
    item, readable, work = shown.item, shown.readable, shown.work
    access = check_access(item)
    if readable.record.files:
        access = replace(access, is_allowed=True)
    return {
        "item": readable,
        "work": work,
        "labels": labels,
        "access": find_access(item, work, access),
        "links_metadata": item.allows(user_address()),
        "notices": pages.list_notices(item, access),
        "original_url": find_original_url(item),
        "type_name": labels.name_type(work),
        "degree_name": labels.name_degree(work.degree) if work.degree else "",
        "newest_edition": find_newest_edition(item),
        "contributors": group_contributors(work.contributors),
        "affiliations": list_affiliations(work.creators),
        "abstracts": sort_texts(work.abstracts),
        "shown_files": SHOWN_FILES,
        "shown_authors": pages.SHOWN_AUTHORS,
        "preview": find_preview(readable),
        "zip": zip_files.offer_zip(readable),
        "licence": name_licence(work.licence_url) if work.licence_url else "",
        "citation_formats": CITATION_FORMATS,
        "citation": cite(work, item.today),
        "citations": list_citations(readable, work),
        **machine_readable.describe_head(readable, replace(work, files=work.files[:SHOWN_FILES])),
    }


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
            text = pages.write_metadata(format, work).decode().strip("\r\n")
            citations.append((format, text))
    return citations


def find_access(item: ItemView, work: Work, access: AccessDecision) -> AccessRight:
    """Return who may read the files; of an item without files, what its description states."""
    if work.access in ("embargoed", "restricted"):
        return work.access
    if item.record.files:
        return "open" if access.is_allowed else "restricted"
    return work.access_right or "metadata only"


def find_newest_edition(item: ItemView) -> RelatedItem | None:
    """Return the newest later edition that was not removed; None if there is no such edition."""
    later = (other for other in reversed(item.related) if other.kind == "later_edition")
    return next((edition for edition in later if not edition.is_removed), None)


def find_original_url(item: ItemView) -> str:
    """Return the persistent URL that leads to the Original, not to a Copy ([R] 6.2)."""
    ibi = parse_identifier(item.record.identifiers[0])
    target = format_persistent_target(PersistentUrl(ibi, requires_original=True))
    return current_archive().config.persistent_url_base + target


def group_contributors(names: Sequence[Name]) -> list[tuple[str, list[Name]]]:
    """Return the name of each role in the language of the page, and its contributors."""
    groups: dict[str, list[Name]] = {}
    for name in names:
        label = gettext(labels.ROLES[name.role or "other"])
        groups.setdefault(label, []).append(name)
    return list(groups.items())


def list_affiliations(names: Sequence[Name]) -> list[Organisation]:
    """Return the affiliations of the authors, each of them once."""
    return list(dict.fromkeys(one for name in names for one in name.affiliations))


def sort_texts(texts: Sequence[Text]) -> list[Text]:
    """Return texts in the order of the languages: that of the reader first."""
    language = page_language().partition("-")[0]
    return sorted(texts, key=lambda text: (text[1] or "").partition("-")[0] != language)


def find_preview(item: ItemView) -> Preview | None:
    """Return the preview of a file that the Archive sends; None if no file has a preview.

    :param item: the item without the files that the user may not read.
    """
    addresses = current_archive().addresses
    for kind, (types, size) in PREVIEWS.items():
        for file in machine_readable.list_own_files(item):
            is_small = item.sizes.get(file.path, size + 1) <= size
            if is_small and pages.find_media_type(file.path) in types:
                url = addresses.file(item, file.path).removeprefix(addresses.origin)
                return _make_preview(Preview(kind, file.path, url), file)
    return None


def _make_preview(preview: Preview, file: FileRecord) -> Preview | None:
    if preview.kind != "text":
        return preview
    try:
        with Path(file.source or "").open("rb") as stream:
            data = stream.read(PREVIEWED + 1)
    except OSError as error:
        current_app.logger.error("the content of the file %s can't be read: %s", file.path, error)
        return None
    # the last character may be cut
    text = data[:PREVIEWED].decode(errors="replace").removesuffix("\ufffd")
    return replace(preview, text=text, is_cut=len(data) > PREVIEWED)
