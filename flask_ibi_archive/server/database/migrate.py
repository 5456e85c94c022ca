"""Create, upgrade, downgrade and remove the tables with alembic.

A host can have its own migrations in the same database. :func:`include_name` hides the tables of
this package from these migrations.

The module imports alembic only inside functions. Most commands and servers do not need alembic, and
they start 20 % faster if alembic is not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, MetaData, inspect

from flask_ibi_archive.errors import NotReady, StorageError

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory


@dataclass(frozen=True, slots=True)
class History:
    """A migration history: the migrations of the tables of an Archive, or of a resolver.

    :param folder: the name of the subfolder in the folder ``migrations``.
    :param version_table: the name of the table that contains the revision of the database.
    :param setting: the key of the setting that contains the URL of the database.
    :param init: the command that creates the tables.
    :param upgrade: the command that upgrades the tables.
    :param table: the name of a table that exists at each revision.
    """

    folder: str
    version_table: str
    setting: str
    init: str
    upgrade: str
    table: str


#: All tables of this package have names with this prefix.
PREFIX = "ibi_"
ARCHIVE = History(
    "",
    "ibi_alembic_version",
    "IBI_DATABASE_URI",
    "flask ibi init",
    "flask ibi upgrade",
    "ibi_archive",
)
RESOLVER = History(
    "resolver",
    "ibi_resolver_alembic_version",
    "IBI_RESOLVER_DATABASE_URI",
    "flask ibi-resolver init",
    "flask ibi-resolver init",
    "ibi_resolver_archive",
)


def replica_history(history: History) -> History:
    """Return the migration history for messages about a replica (a read-only copy).

    The tables of a replica change only after those of the main database.
    """
    return replace(
        history,
        setting="IBI_READ_DATABASE_URI",
        init=f"{history.init}; then wait until the replica has followed",
        upgrade=f"{history.upgrade}; then wait until the replica has followed",
    )


def include_name(name: str | None, type_: str, parent_names: Any) -> bool:
    """Return whether the migrations of a host include a table of the database.

    This is a function for the parameter ``include_name`` of alembic. It returns False for a table
    of this package, so that ``revision --autogenerate`` does not drop this table. A table that the
    models of the host contain is always included, whatever its name is. But these models are only
    known while an ``env.py`` runs.
    """
    if type_ != "table" or not str(name).startswith(PREFIX):
        return True
    from alembic import context

    try:
        models = context.get_context().opts["target_metadata"] or ()
    except (NameError, AttributeError):  # no env.py is running
        return False
    table = parent_names["schema_qualified_table_name"]
    collections = [models] if isinstance(models, MetaData) else models
    return any(table in metadata.tables for metadata in collections)


def migrations_path(history: History = ARCHIVE) -> Path:
    """Return the folder with the migrations of a migration history.

    The folder is inside the package. In a checkout of the source code, the folder is next to the
    package.
    """
    package = Path(__file__).resolve().parents[2]
    inside = package / "migrations"
    return (inside if inside.is_dir() else package.parent / "migrations") / history.folder


def configuration(connection: Connection | None = None, history: History = ARCHIVE) -> Config:
    """Return a configuration of alembic for a migration history and a connection."""
    from alembic.config import Config

    config = Config()
    location = str(migrations_path(history)).replace("%", "%%")
    config.set_main_option("script_location", location)
    config.attributes.update(connection=connection, history=history)
    return config


def head_revision(history: History = ARCHIVE) -> str:
    """Return the newest revision of the tables that this version of the package knows."""
    head = _scripts(history).get_current_head()
    assert head is not None
    return head


def current_revision(connection: Connection, history: History = ARCHIVE) -> str | None:
    """Return the revision of the tables in a database; None if the tables do not exist."""
    from alembic.runtime.migration import MigrationContext

    options = {"version_table": history.version_table}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


def check_revision(connection: Connection, history: History = ARCHIVE) -> None:
    """Check that the tables exist and have the newest revision.

    :raises NotReady: if the check fails. The error says what to do.
    """
    revision = current_revision(connection, history)
    head = head_revision(history)
    if revision is None:
        _refuse_tables_without_revision(connection, history)
        raise NotReady("the database does not contain the tables", f"run: {history.init}")
    if revision != head:
        raise NotReady(
            f"the database is at revision {revision}, but this version needs revision {head}",
            f"run: {history.upgrade}",
        )


def _refuse_tables_without_revision(connection: Connection, history: History) -> None:
    """Refuse tables for which the version table contains no revision.

    :raises NotReady: if such tables exist. The error says what to do.
    """
    if inspect(connection).has_table(history.table):
        raise NotReady(
            f"the table {history.table} exists, but the table {history.version_table} does not "
            "contain its revision",
            "if a program created the tables without migrations, as create_all() does, drop them "
            f"and run: {history.init}; otherwise restore a backup",
        )


def upgrade(connection: Connection, revision: str = "head", history: History = ARCHIVE) -> None:
    """Upgrade the tables to a revision in the current transaction of the connection.

    :raises NotReady: if the tables exist, but the version table contains no revision.
    :raises StorageError: if this version of the package does not know this revision or the revision
        of the database.
    """
    if revision == "head" and current_revision(connection, history) == head_revision(history):
        return  # without alembic, which would load all migrations
    from alembic import command

    _run(command.upgrade, connection, revision, history)


def downgrade(connection: Connection, revision: str = "base", history: History = ARCHIVE) -> None:
    """Downgrade the tables to a revision in the current transaction of the connection.

    The revision ``base`` removes the tables and all data. The errors are those of :func:`upgrade`.
    """
    from alembic import command

    _run(command.downgrade, connection, revision, history)


def run_environment(metadata: MetaData) -> None:
    """Prepare the environment of alembic, and run the migrations. Each ``env.py`` calls this.

    :param metadata: the tables that this migration history manages. alembic ignores all other
        tables of the database.
    """
    from alembic import context

    attributes = context.config.attributes
    context.configure(
        connection=attributes["connection"],
        target_metadata=metadata,
        version_table=attributes["history"].version_table,
        include_name=lambda name, type_, parents: type_ != "table" or name in metadata.tables,
        render_as_batch=True,
    )
    context.run_migrations()


@lru_cache
def _scripts(history: History) -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(configuration(history=history))


def _run(
    move: Callable[[Config, str], None], connection: Connection, revision: str, history: History
) -> None:
    """Run the command upgrade or downgrade of alembic; see :func:`upgrade`."""
    from alembic.util import CommandError

    if current_revision(connection, history) is None:
        _refuse_tables_without_revision(connection, history)
    try:
        move(configuration(connection, history), revision)
    except CommandError as error:
        reason = " ".join(str(error).split())
        raise StorageError(
            f"the tables can't be migrated to revision {revision!r}: {reason}; this version "
            f"of the package knows the revisions up to {head_revision(history)}"
        ) from error
