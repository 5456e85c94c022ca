"""The resolver of persistent URLs, as a Flask extension.

A persistent URL contains the identifier (IBI) of an item, for example
``http://urlib.net/8JMKD3MGP8W/35MMLL8``. The items are in Archives. An administrator registers
Archives with the resolver. A registered Archive then requests to be included. The resolver asks all
included Archives for the item. It redirects the user to the URL that an Archive returns.

::

    from flask_ibi_archive.resolver import IBIResolver

    resolver = IBIResolver(app)

- ``extension``: the class IBIResolver. ``config``: the settings.
- ``resolving``: which Archives are asked about a persistent URL, when, in which order.
- ``asking``: sends the requests to many Archives at the same time.
- ``archives``: the registered Archives: registration, inclusion, exclusion.
- ``claims``: follows the lists of what the Archives hold. ``conflicts``: two Originals of one item.
- ``pages``: the web addresses. ``checking``: ``flask ibi-resolver check``.
- ``metrics``: the response times of Archives, and which Archive had items with which prefix.
- ``commands``: the commands. ``registry_2008``: the document registry. ``tables``: the database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.extension import IBIResolver

__all__ = ["IBIResolver"]


def __getattr__(name: str) -> Any:
    # Imported on first use: every ``flask`` command imports this package to list the commands.
    if name == "IBIResolver":
        from flask_ibi_archive.resolver.extension import IBIResolver

        return IBIResolver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
