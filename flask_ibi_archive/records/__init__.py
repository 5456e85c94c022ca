"""The records of items, as import and export write them: JSON Lines, one item a line. Pure."""

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
