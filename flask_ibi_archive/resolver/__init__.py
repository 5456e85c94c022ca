"""The resolver: takes persistent URLs, asks all Archives, redirects.

::

    from flask_ibi_archive.resolver import IBIResolver

    resolver = IBIResolver(app)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.extension import IBIResolver

__all__ = ["IBIResolver"]


def __getattr__(name: str) -> Any:
    # loaded when first used: every ``flask`` command imports this package to list its commands
    if name == "IBIResolver":
        from flask_ibi_archive.resolver.extension import IBIResolver

        return IBIResolver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
