"""The URLs of the service, the items and the files of an Archive.

If a host application needs other URLs, the application replaces the class :class:`ArchiveUrls`.
"""

from __future__ import annotations

from typing import Protocol
from urllib.parse import quote


class Named(Protocol):
    """An object that has a repository name or an IBIp."""

    @property
    def rep(self) -> str | None:
        """The repository name of the object, or None."""

    @property
    def ibip(self) -> str | None:
        """The IBIp of the object, or None."""


class ArchiveUrls:
    """Builds the absolute URLs of a running Archive.

    :param base: the scheme and the archiveaddress of the Archive, such as
        ``http://mtc-m16c.sid.inpe.br``.

    A URL contains the repository name of the item, or the IBIp if the item has no repository name.
    A URL contains the path of a file in UTF-8. All characters of the path are percent-encoded,
    except letters, digits, ``-._~`` and ``/``.
    """

    def __init__(self, base: str) -> None:
        self.base = base

    def service(self, item: Named) -> str:
        """Return the URL of the Archive service itself ([R] 4.1)."""
        return f"{self.base}/{item.rep or item.ibip}"

    def item(self, item: Named) -> str:
        """Return the URL of the landing page of an item."""
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
        """Return the URL of the metadata of an item.

        :param format: the format of the metadata; None for metadata in free form.
        """
        choice = f"?choice={format}" if format else ""
        return f"{self.base}/col/{item.rep or item.ibip}/metadata{choice}"
