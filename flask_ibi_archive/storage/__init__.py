"""The database and the folder of contents: SQLAlchemy and alembic, no Flask."""
