"""What the page of an item shows: the values of its parts, for our page and for those of hosts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from flask_ibi_archive.archive.items import pages
from flask_ibi_archive.archive.items.access import (
    AccessDecision,
    cannot_write,
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
from flask_ibi_archive.core.records.record import RelatedItem
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_values import name_licence
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, format_persistent_target
from flask_ibi_archive.errors import HostFunctionFailed
from flask_ibi_archive.server.pages.requests import current_archive, user_address
from flask_ibi_archive.server.pages.texts import gettext, page_language

#: The maximum number of files on the page.
SHOWN_FILES = 50
#: The formats of reference managers.
CITATION_FORMATS = ("bibtex", "ris", "csl-json")


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
        failure = cannot_write(work.ibi, format.name)
        with suppress(HostFunctionFailed), logging_failure(failure):
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
