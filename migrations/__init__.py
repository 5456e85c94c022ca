"""The history of the tables, told by alembic; shipped as ``flask_ibi_archive.migrations``."""
