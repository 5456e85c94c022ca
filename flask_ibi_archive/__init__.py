"""Persistent identifiers (IBI, ABNT NBR 16066) for the items of a Flask application.

::

    from flask_ibi_archive import IBIArchive

    ibi = IBIArchive(app)
    item = ibi.archive.deposit(title="Annual report", creators=["Silva, Ana"], files=["report.pdf"])

The names in ``__all__`` are for hosts. All exceptions are in :mod:`flask_ibi_archive.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.hosts.host_catalogue import CatalogueRecord, RecordCatalogue
    from flask_ibi_archive.archive.hosts.models import IdentifiedItem
    from flask_ibi_archive.archive.items.item_record import ItemRecord
    from flask_ibi_archive.archive.items.minting import Minted
    from flask_ibi_archive.core.records.description import WorkType
    from flask_ibi_archive.core.records.record import (
        AccessRule,
        DublinCoreMetadata,
        FileRecord,
        ItemView,
        MetadataAddress,
        MetadataItem,
        Tombstone,
    )
    from flask_ibi_archive.core.records.work import Work
    from flask_ibi_archive.errors import IBIError
    from flask_ibi_archive.extension import IBIArchive

__all__ = [
    "AccessRule",
    "Archive",
    "CatalogueRecord",
    "DublinCoreMetadata",
    "FileRecord",
    "IBIArchive",
    "IBIError",
    "IdentifiedItem",
    "ItemRecord",
    "ItemView",
    "MetadataAddress",
    "MetadataItem",
    "Minted",
    "RecordCatalogue",
    "Tombstone",
    "Work",
    "WorkType",
]

#: The modules of the public names. The modules of the records have the other names.
_MODULES = {
    "Archive": "archive.archive",
    "CatalogueRecord": "archive.hosts.host_catalogue",
    "IBIArchive": "extension",
    "IBIError": "errors",
    # this module listens to the models that use the mixin
    "IdentifiedItem": "archive.hosts.flush",
    "ItemRecord": "archive.items.item_record",
    "ItemView": "core.records.record",
    "Minted": "archive.items.minting",
    "RecordCatalogue": "archive.hosts.host_catalogue",
    "Work": "core.records.work",
    "WorkType": "core.records.description",
}


def __getattr__(name: str) -> Any:
    # Every ``flask`` command imports this package, so the modules are imported only on use.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES.get(name, 'core.records.record')}")
    return getattr(module, name)
