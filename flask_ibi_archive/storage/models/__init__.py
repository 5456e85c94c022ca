"""The tables, as typed models.

What these classes can't say (the grammars of rule 5, the triggers of rules 4 and 6) stands in the
migrations, which alone create the tables. The eight rules and what keeps each are listed in
:mod:`flask_ibi_archive.storage.rules`.
"""

from flask_ibi_archive.storage.models.activity import (
    Access,
    AccessCount,
    ArchiveAccessCount,
    CountedAccesses,
    Import,
    ImportLine,
    Link,
    Registration,
    VisitorSalt,
)
from flask_ibi_archive.storage.models.items import (
    Archive,
    Base,
    EditionSeries,
    File,
    Item,
    ItemIdentifier,
    Prefix,
    Reservation,
    TombstoneRow,
    TranslationGroup,
    metadata,
)

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
