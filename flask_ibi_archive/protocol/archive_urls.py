"""The URLs of an Archive's service, items and files; a host may replace them by its own."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import quote


class Named(Protocol):
    """An object with an IBI."""

    @property
    def rep(self) -> str | None:
        """Its repository name."""

    @property
    def ibip(self) -> str | None:
        """Its IBIp."""


class ArchiveUrls:
    """The absolute URLs of a running Archive.

    :param base: scheme and archiveaddress, such as ``http://mtc-m16c.sid.inpe.br``.

    An IBI is written in canonical case and unescaped, as rep if the item has one. The path of a
    file is written in UTF-8, with every byte except letters, digits, ``-._~`` and ``/`` as %XX.
    """

    def __init__(self, base: str) -> None:
        self.base = base

    def service(self, item: Named) -> str:
        """Return the URL of the Archive service itself ([R] 4.1)."""
        return f"{self.base}/{item.rep or item.ibip}"

    def item(self, item: Named) -> str:
        """Return the URL of an item's landing page."""
        return f"{self.base}/col/{item.rep or item.ibip}/"

    def file(self, item: Named, path: str) -> str:
        """Return the URL of a file of an item."""
        return f"{self.base}/col/{item.rep or item.ibip}/doc/{quote(path, safe='/')}"

    def file_list(self, item: Named) -> str:
        """Return the URL of the page that lists the files of an item."""
        return f"{self.base}/col/{item.rep or item.ibip}/files"

    def statistics(self, item: Named) -> str:
        """Return the URL of the access statistics of an item."""
        return f"{self.base}/col/{item.rep or item.ibip}/statistics"

    def archive_statistics(self) -> str:
        """Return the URL of the access statistics of the Archive."""
        return f"{self.base}/ibi/statistics"

    def metadata(self, item: Named, format: str | None = None) -> str:
        """Return the URL of an item's metadata, in free form or in a format."""
        choice = f"?choice={format}" if format else ""
        return f"{self.base}/col/{item.rep or item.ibip}/metadata{choice}"
