"""Commands for the tables: init, upgrade, downgrade."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    confirm,
    say,
    standard_output,
    the_archive,
    warn_of_private_address,
    write,
    yes_option,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive_service import ArchiveService


@click.command("init")
@with_appcontext
def init_command() -> None:
    """Create or update the tables and the Archive.

    Prints the IBI of the service. It can be run again: then it only updates them.

    \b
    Example:
      flask --app example_app ibi init
    """
    archive = the_archive()
    standard_output()
    served, created = archive.init()
    if created and archive.config.archive_service_ibi is None:
        warn_of_private_address(archive)
    write(served.service_ibi)


@click.command("upgrade")
@click.argument("revision", default="head")
@with_appcontext
def upgrade_command(revision: str) -> None:
    """Upgrade the tables to a revision.

    REVISION is the newest one by default.

    \b
    Example:
      flask --app example_app ibi upgrade
    """
    archive = the_archive()
    archive.upgrade(revision)
    _tell_revision(archive)


def _check_revision(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check that a value that looks like an option is a number of revisions, such as -1."""
    if value.startswith("-") and not re.fullmatch("-[0-9]+", value):
        raise click.NoSuchOption(value, ctx=context)
    return value


@click.command("downgrade", context_settings={"ignore_unknown_options": True})
@click.argument("revision", default="-1", callback=_check_revision)
@yes_option
@with_appcontext
def downgrade_command(revision: str, yes: bool) -> None:
    """Downgrade the tables to a revision.

    REVISION is the previous one by default; "base" removes the tables. Data that the older tables
    cannot store is lost, even the dates of issued identifiers. So the command asks for
    confirmation; without a terminal, --yes is required.

    \b
    Example:
      flask --app example_app ibi downgrade 0001
    """
    archive = the_archive()
    confirm(f"Downgrade the tables to {revision}? Data may be lost.", yes)
    archive.downgrade(revision)
    _tell_revision(archive)


def _tell_revision(archive: ArchiveService) -> None:
    from flask_ibi_archive.storage.migrate import current_revision

    revision = archive.database.read(current_revision)
    say("no tables" if revision is None else f"the tables are at revision {revision}")
