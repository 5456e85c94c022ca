"""The Archive in the app of a resolver.

The resolver asks this Archive without HTTP. The Archive puts the object into ``app.extensions``,
because a resolver imports nothing of an Archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

from flask import Response, current_app

from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.core.resolution.languages import LanguageRange
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.resolver.resolution_context import OwnArchive
from flask_ibi_archive.server.pages.requests import OWN_ARCHIVE


class LocalArchive(Protocol):
    """What a resolver asks the Archive of its app."""

    def find_service(self) -> str | None:
        """Return the IBI of the service; None if the Archive is not ready."""

    def answer(
        self, question: Question, client_addresses: tuple[str, ...]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the pairs that answer a question. The method may raise NotReady."""

    def resolve(
        self,
        wanted: PersistentUrl,
        persistent_url: str,
        addresses: tuple[str, ...],
        ranges: tuple[LanguageRange, ...],
    ) -> Response | None:
        """Return a redirect to an item of the Archive; None if all Archives must be asked."""


def find_own_archive() -> LocalArchive | None:
    """Return the Archive of the current app, or None."""
    return cast("LocalArchive | None", current_app.extensions.get(OWN_ARCHIVE))


def open_own_archive() -> OwnArchive | None:
    """Return the Archive of the current app for questions of the resolver, or None."""
    archive = find_own_archive()
    service_ibi = None if archive is None else archive.find_service()
    if archive is None or service_ibi is None:
        return None
    return OwnArchive(service_ibi, archive.answer)
