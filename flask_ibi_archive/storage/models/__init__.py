"""The tables, as typed models: the items and what belongs to them, and activities.

The migrations create the tables, with the constraints that SQLAlchemy cannot express: the grammars
of rule 5 and the triggers of rules 4 and 6. :mod:`flask_ibi_archive.storage.rules` lists the rules.
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
