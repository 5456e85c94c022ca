"""Where the things of an Archive are on the web; a host may put its own in their place."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import quote


class Named(Protocol):
    """Whatever bears an IBI."""

    @property
    def rep(self) -> str | None:
        """Its repository name."""

    @property
    def ibip(self) -> str | None:
        """Its IBIp."""


class ArchiveUrls:
    """The addresses of a running Archive, as absolute URLs.

    :param base: what they begin with, such as ``http://mtc-m16c.sid.inpe.br``.

    An IBI is written in canonical case and unescaped, as rep where there is one. A file's path is
    written as UTF-8, every byte but letters, digits, ``-._~`` and ``/`` as %XX.
    """

    def __init__(self, base: str) -> None:
        self.base = base

    def service(self, item: Named) -> str:
        """Return the address of the Archive service itself ([R] 4.1)."""
        return f"{self.base}/{item.rep or item.ibip}"

    def item(self, item: Named) -> str:
        """Return the address of an item's landing page."""
        return f"{self.base}/col/{item.rep or item.ibip}/"

    def file(self, item: Named, path: str) -> str:
        """Return the address of a file of an item."""
        return f"{self.base}/col/{item.rep or item.ibip}/doc/{quote(path, safe='/')}"

    def file_list(self, item: Named) -> str:
        """Return the address of the page that lists the files of an item."""
        return f"{self.base}/col/{item.rep or item.ibip}/files"

    def statistics(self, item: Named) -> str:
        """Return the address of the page that says how often an item was read."""
        return f"{self.base}/col/{item.rep or item.ibip}/statistics"

    def archive_statistics(self) -> str:
        """Return the address of the page that says how often the Archive's items were read."""
        return f"{self.base}/ibi/statistics"

    def metadata(self, item: Named, format: str | None = None) -> str:
        """Return the address of an item's metadata, in free form or in a format."""
        choice = f"?choice={format}" if format else ""
        return f"{self.base}/col/{item.rep or item.ibip}/metadata{choice}"
