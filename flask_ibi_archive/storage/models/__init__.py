"""The tables, as typed models.

What these classes can't say (the grammars of rule 5, the triggers of rules 4 and 6) stands in the
migrations, which alone create the tables. The eight rules and what keeps each are listed in
:mod:`flask_ibi_archive.storage.rules`.
"""

from flask_ibi_archive.storage.models.accesses import (
    Access,
    AccessCount,
    ArchiveAccessCount,
    CountedAccesses,
    VisitorSalt,
)
from flask_ibi_archive.storage.models.base import Base, metadata
from flask_ibi_archive.storage.models.imports import Import, ImportLine
from flask_ibi_archive.storage.models.items import (
    Archive,
    EditionSeries,
    File,
    Item,
    ItemIdentifier,
    Prefix,
    TranslationGroup,
)
from flask_ibi_archive.storage.models.life import Reservation, TombstoneRow
from flask_ibi_archive.storage.models.links import Link
from flask_ibi_archive.storage.models.registration import Registration

__all__ = [
    "Access",
    "AccessCount",
    "Archive",
    "ArchiveAccessCount",
    "Base",
    "CountedAccesses",
    "EditionSeries",
    "File",
    "Import",
    "ImportLine",
    "Item",
    "ItemIdentifier",
    "Link",
    "Prefix",
    "Registration",
    "Reservation",
    "TombstoneRow",
    "TranslationGroup",
    "VisitorSalt",
    "metadata",
]
