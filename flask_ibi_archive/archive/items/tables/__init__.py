"""Defines typed models for the tables of an Archive.

The migrations create the tables. The migrations also create constraints that SQLAlchemy cannot
express: the grammars of rule 5 and the triggers of rules 4 and 6. See
:mod:`flask_ibi_archive.archive.items.rules`.
"""

from flask_ibi_archive.archive.items.tables.activity import (
    Access,
    AccessCount,
    ArchiveAccessCount,
    FileCheck,
    Registration,
    VisitorSalt,
)
from flask_ibi_archive.archive.items.tables.claims import (
    ClaimLogRow,
    ClaimNote,
    ClaimRow,
    ClaimTile,
)
from flask_ibi_archive.archive.items.tables.harvest import (
    ChangedItem,
    Harvest,
    HarvestEnd,
    HarvestSet,
)
from flask_ibi_archive.archive.items.tables.items import (
    ArchiveRow,
    Base,
    EditionSeries,
    File,
    Item,
    ItemIdentifier,
    Prefix,
    Reservation,
    SameAs,
    TombstoneRow,
    TranslationGroup,
    metadata,
)
from flask_ibi_archive.archive.items.tables.moves import (
    Acceptance,
    AcceptedItem,
    Offer,
    OfferedItem,
)
from flask_ibi_archive.archive.items.tables.programs import (
    ApiKey,
    ApiRequest,
    IssuedIdentifier,
    RequestCount,
)

__all__ = [
    "Acceptance",
    "AcceptedItem",
    "Access",
    "AccessCount",
    "ApiKey",
    "ApiRequest",
    "ArchiveAccessCount",
    "ArchiveRow",
    "Base",
    "ChangedItem",
    "ClaimLogRow",
    "ClaimNote",
    "ClaimRow",
    "ClaimTile",
    "EditionSeries",
    "File",
    "FileCheck",
    "Harvest",
    "HarvestEnd",
    "HarvestSet",
    "IssuedIdentifier",
    "Item",
    "ItemIdentifier",
    "Offer",
    "OfferedItem",
    "Prefix",
    "Registration",
    "RequestCount",
    "Reservation",
    "SameAs",
    "TombstoneRow",
    "TranslationGroup",
    "VisitorSalt",
    "metadata",
]
