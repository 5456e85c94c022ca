"""Keeps the items of an Archive consistent with the rows of the host's own models."""

from flask_ibi_archive.archive.host_rows.flushes import announce_removal, refresh
from flask_ibi_archive.archive.host_rows.identified_item import IdentifiedItem

__all__ = ["IdentifiedItem", "announce_removal", "refresh"]
