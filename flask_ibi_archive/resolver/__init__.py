"""The resolver: resolves persistent URLs by asking all included Archives.

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
    # imported on first use: every ``flask`` command imports this package to list the commands
    if name == "IBIResolver":
        from flask_ibi_archive.resolver.extension import IBIResolver

        return IBIResolver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
