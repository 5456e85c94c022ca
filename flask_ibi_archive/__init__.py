"""Persistent identifiers (IBI, ABNT NBR 16066) for the items of a Flask application.

::

    from flask_ibi_archive import IBIArchive

    ibi = IBIArchive(app)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flask_ibi_archive.extension import IBIArchive

__all__ = ["IBIArchive"]


def __getattr__(name: str) -> Any:
    # Every ``flask`` command imports this package, so the extension is imported only on use.
    if name == "IBIArchive":
        from flask_ibi_archive.extension import IBIArchive

        return IBIArchive
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
