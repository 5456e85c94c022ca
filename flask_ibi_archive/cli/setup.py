"""Setting up: init, upgrade, downgrade."""

from __future__ import annotations

import sys

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import the_archive, warn_of_private_address


@click.command("init")
@with_appcontext
def init_command() -> None:
    """Bring the database up to date and create the Archive with its service item.

    Prints the IBI of the service. Harmless when it is all there already.

    \b
    Example:
      flask --app example_app ibi init
    """
    archive = the_archive()
    served, created = archive.init()
    if created and archive.config.archive_service_ibi is None:
        warn_of_private_address(archive)
    click.echo(served.service_ibi)


@click.command("upgrade")
@click.argument("revision", default="head")
@with_appcontext
def upgrade_command(revision: str) -> None:
    """Bring the tables up to REVISION (the newest unless told).

    \b
    Example:
      flask --app example_app ibi upgrade
    """
    the_archive().upgrade(revision)


@click.command("downgrade")
@click.argument("revision", default="-1")
@click.option("--yes", is_flag=True, help="Don't ask.")
@with_appcontext
def downgrade_command(revision: str, yes: bool) -> None:
    """Take the tables down to REVISION (the one before, unless told; "base" takes them out).

    What only the newer tables can hold is lost: asks first on a terminal.

    \b
    Example:
      flask --app example_app ibi downgrade 0001
    """
    if not yes and sys.stdin.isatty():
        click.confirm(
            f"Take the tables down to {revision}? Data may be lost.", abort=True, err=True
        )
    the_archive().downgrade(revision)
