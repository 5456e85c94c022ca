"""The migrations of the tables, and the filter that hides these tables from a host's migrations.

The package is installed as ``flask_ibi_archive.migrations``. In the ``env.py`` of a host::

    context.configure(..., include_name=flask_ibi_archive.migrations.include_name)
"""

from flask_ibi_archive.server.database.migrate import include_name

__all__ = ["include_name"]
