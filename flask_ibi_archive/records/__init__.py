"""The records of items: parsing and formatting of the files that are imported and exported.

Such a file is in the format JSON Lines: each line is a JSON object that describes one item. The
commands for import and export, and the methods that deposit an item, use this package.
"""

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
