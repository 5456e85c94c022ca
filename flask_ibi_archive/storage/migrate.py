"""Creates, upgrades, downgrades and removes the tables with alembic.

The module imports alembic only inside functions. Most commands and servers do not need alembic, and
they start 20 % faster if alembic is not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from flask_ibi_archive.errors import StorageError

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory


@dataclass(frozen=True, slots=True)
class History:
    """The migrations of the tables of an Archive or of a resolver.

    :param folder: the name of the subfolder in the folder ``migrations``.
    :param version_table: the name of the table that contains the revision of the database.
    :param setting: the key of the setting that contains the URL of the database.
    :param init: the command that creates the tables.
    :param upgrade: the command that upgrades the tables.
    """

    folder: str
    version_table: str
    setting: str
    init: str
    upgrade: str


ARCHIVE = History(
    "", "ibi_alembic_version", "IBI_DATABASE_URI", "flask ibi init", "flask ibi upgrade"
)
RESOLVER = History(
    "resolver",
    "ibi_resolver_alembic_version",
    "IBI_RESOLVER_DATABASE_URI",
    "flask ibi-resolver init",
    "flask ibi-resolver init",
)
VERSION_TABLE = ARCHIVE.version_table


def migrations_path(history: History = ARCHIVE) -> Path:
    """Return the folder with the migrations of a history.

    The folder is inside the package. In a checkout of the source code, the folder is next to the
    package.
    """
    package = Path(__file__).resolve().parent.parent
    inside = package / "migrations"
    return (inside if inside.is_dir() else package.parent / "migrations") / history.folder


def configuration(connection: Connection | None = None, history: History = ARCHIVE) -> Config:
    """Return a configuration of alembic for a history and a connection."""
    from alembic.config import Config

    config = Config()
    location = str(migrations_path(history)).replace("%", "%%")
    config.set_main_option("script_location", location)
    if connection is not None:
        config.attributes["connection"] = connection
    return config


def head_revision(history: History = ARCHIVE) -> str:
    """Return the newest revision of the tables that this version of the package knows."""
    head = _scripts(history).get_current_head()
    if head is None:
        raise StorageError(f"the folder {migrations_path(history)} contains no migrations")
    return head


def is_known(revision: str, history: History = ARCHIVE) -> bool:
    """Return whether this version of the package knows a revision."""
    return revision in {one.revision for one in _scripts(history).walk_revisions()}


def current_revision(connection: Connection, history: History = ARCHIVE) -> str | None:
    """Return the revision of the tables in a database; None if the tables do not exist."""
    from alembic.runtime.migration import MigrationContext

    options = {"version_table": history.version_table}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


def upgrade(connection: Connection, revision: str = "head", history: History = ARCHIVE) -> None:
    """Upgrade the tables to a revision in the current transaction of the connection.

    :raises StorageError: if this version of the package does not know this revision or the revision
        of the database.
    """
    if revision == "head" and current_revision(connection, history) == head_revision(history):
        return  # without alembic, which would load all migrations
    from alembic import command

    _run(command.upgrade, connection, revision, history)


def downgrade(connection: Connection, revision: str = "base", history: History = ARCHIVE) -> None:
    """Downgrade the tables to a revision in the current transaction of the connection.

    The revision ``base`` removes the tables and all data.

    :raises StorageError: if this version of the package does not know this revision or the revision
        of the database.
    """
    from alembic import command

    _run(command.downgrade, connection, revision, history)


@lru_cache
def _scripts(history: History) -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(configuration(history=history))


def _run(
    move: Callable[[Config, str], None], connection: Connection, revision: str, history: History
) -> None:
    from alembic.util import CommandError

    try:
        move(configuration(connection, history), revision)
    except CommandError as error:
        reason = " ".join(str(error).split())
        raise StorageError(
            f"the tables can't be migrated to revision {revision!r}: {reason}; this version "
            f"of the package knows the revisions up to {head_revision(history)}"
        ) from error
