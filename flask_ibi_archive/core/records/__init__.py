"""Parsing and formatting of the records of items.

Import files and export files contain records. Such a file has the format JSON Lines: each line is a
JSON object that describes one item. The commands for import and export use this package. The
methods that deposit an item also use this package.
"""

from flask_ibi_archive.core.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    Tombstone,
)

__all__ = [
    "AccessRule",
    "DublinCoreMetadata",
    "FileRecord",
    "MetadataAddress",
    "MetadataItem",
    "Record",
    "Tombstone",
]
