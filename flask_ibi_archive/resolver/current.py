"""The resolver of the current app, for views in the packages that the resolver itself uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from flask import current_app

from flask_ibi_archive.server.pages.requests import RESOLVER_EXTENSION

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.service import ResolverService


def current_resolver() -> ResolverService:
    """Return the resolver of the current app."""
    return cast("ResolverService", current_app.extensions[RESOLVER_EXTENSION].resolver)
