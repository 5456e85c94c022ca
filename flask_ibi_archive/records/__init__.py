"""The records of items in the format of import and export: JSON Lines, one item per line."""

from flask_ibi_archive.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    ItemRecord,
    MetadataAddress,
    MetadataItem,
    Tombstone,
)

__all__ = [
    "AccessRule",
    "DublinCoreMetadata",
    "FileRecord",
    "ItemRecord",
    "MetadataAddress",
    "MetadataItem",
    "Tombstone",
]
