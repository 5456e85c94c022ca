"""What every view of a resolver needs of the app it runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from flask import current_app

from flask_ibi_archive.web.context import RESOLVER_EXTENSION

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.service import ResolverService


def current_resolver() -> ResolverService:
    """Return the resolver that the current app runs."""
    return cast("ResolverService", current_app.extensions[RESOLVER_EXTENSION].resolver)
