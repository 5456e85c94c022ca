"""Brings the tables up to date, or takes them out again, with alembic."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from flask_ibi_archive.errors import StorageError

#: Ours alone, so that a host's own history is left in peace.
VERSION_TABLE = "ibi_alembic_version"


def migrations_path() -> Path:
    """Give the folder of the history: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def configuration(connection: Connection | None = None) -> Config:
    """Give alembic's configuration for our history, on a connection."""
    config = Config()
    config.set_main_option("script_location", str(migrations_path()).replace("%", "%%"))
    if connection is not None:
        config.attributes["connection"] = connection
    return config


@lru_cache
def head_revision() -> str:
    """Give the newest revision that this version of the package knows."""
    head = ScriptDirectory.from_config(configuration()).get_current_head()
    if head is None:
        raise StorageError(f"no migrations in {migrations_path()}")
    return head


def is_known(revision: str) -> bool:
    """Tell whether a revision belongs to the history of this version."""
    script = ScriptDirectory.from_config(configuration())
    return revision in {one.revision for one in script.walk_revisions()}


def current_revision(connection: Connection) -> str | None:
    """Give the revision of a database, None where it has none of our tables."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Bring the tables up to a revision, inside the connection's transaction.

    :raises StorageError: if there is no such revision, or the database is at one that is unknown.
    """
    _run(command.upgrade, connection, revision)


def downgrade(connection: Connection, revision: str = "base") -> None:
    """Take the tables down to a revision; ``base`` takes them out, with all that is in them.

    :raises StorageError: as :func:`upgrade`.
    """
    _run(command.downgrade, connection, revision)


def _run(move: Callable[[Config, str], None], connection: Connection, revision: str) -> None:
    try:
        move(configuration(connection), revision)
    except CommandError as error:
        reason = " ".join(str(error).split())
        raise StorageError(
            f"the tables can't be brought to revision {revision!r}: {reason}; this version knows "
            f"revisions up to {head_revision()}"
        ) from error
