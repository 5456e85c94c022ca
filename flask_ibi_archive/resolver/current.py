"""The resolver of the current app, for views in the packages that the resolver itself uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from flask_ibi_archive.server.pages.requests import RESOLVER_EXTENSION, current_flask

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.service import ResolverService


def current_resolver() -> ResolverService:
    """Return the resolver of the current app."""
    return cast("ResolverService", current_flask().extensions[RESOLVER_EXTENSION].resolver)
