"""The commands ``flask ibi ...``: their group, and init, check, upgrade and downgrade.

Every ``flask`` command imports this module. Therefore the import must be fast. A command imports
other modules only when the command runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING

import click
from flask import Flask
from flask.cli import ScriptInfo

from flask_ibi_archive.server.commands.group import (
    IBIGroup,
    get_archive,
    json_option,
    version_option,
    warn_of_private_address,
    write_findings,
    yes_option,
)
from flask_ibi_archive.server.commands.terminal import confirm, say, standard_output, warn, write

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The sections of the help page. Each section lists its commands, with the module of each command.
SECTIONS = {
    "Every day": "commands.init commands.check items.life_commands.add "
    "items.editing_commands.edit show_commands.show show_commands.list items.life_commands.delete "
    "items.record_commands.import items.record_commands.export "
    "joining.registration_commands.register-archive moving.commands.offer "
    "moving.accept_commands.accept",
    "Items": "items.life_commands.copy items.life_commands.transfer items.alias_commands.alias "
    "accesses.commands.stats",
    "Rows of models": "hosts.commands.adopt hosts.commands.compare",
    "Resolvers and other servers": "joining.registration_commands.generate-key "
    "joining.registration_commands.registration-email "
    "joining.registration_commands.unregister-archive moving.commands.offers "
    "claims.commands.claims identification.commands.api-key",
    "Maintenance": "care.commands.verify care.commands.check-links accesses.commands.purge "
    "harvest.commands.renew-harvests",
    "For experts": "commands.upgrade commands.downgrade items.identifier_commands.mint "
    "items.identifier_commands.decode items.identifier_commands.reserve "
    "items.identifier_commands.release show_commands.url-list",
}


@click.group("ibi", cls=IBIGroup, sections=SECTIONS, package="flask_ibi_archive.archive")
@version_option
def ibi() -> None:
    """Give items persistent identifiers (IBI) and resolve them.

    \b
    Example:
      flask --app example_app ibi init
      flask --app example_app ibi add report.pdf --title "Annual report"
    """


def create_group(create_app: Callable[[], Flask] | None = None) -> click.Group:
    """Return the commands ``ibi ...`` for a command line that is not Flask's.

    ::

        @click.group()
        def repository(): ...

        repository.add_command(ibi.commands(create_app))

    :param create_app: returns the app. None: the command line opens an application context before
        it runs a command.
    """
    group = copy(ibi)
    if create_app is not None:
        script = ScriptInfo(create_app=create_app, set_debug_flag=False)
        group.context_settings = {**ibi.context_settings, "obj": script}
    return group


@click.command("init")
def init_command() -> None:
    """Create or update the tables and the Archive.

    Prints the IBI of the service. The command can be repeated. It then updates the tables. The
    private key of the Archive's claims is made, unless it exists or IBI_CLAIMS is false. If this
    fails, the command says why on standard error, and all else works without claims. If IBI_CLAIMS
    is false, changes of items are not noted any more.

    \b
    Example:
      flask --app example_app ibi init
    """
    from flask_ibi_archive.errors import NotReady
    from flask_ibi_archive.server.pages.requests import current_archive

    archive = get_archive()
    standard_output()
    session = current_archive().session
    if session is not None:
        session.check_schema(archive.database)
    served, created = archive.init()
    if created and archive.config.archive_service_ibi is None:
        warn_of_private_address(archive)
    try:
        if archive.claims.is_enabled:
            archive.claims.create_key()
        else:
            archive.claims.pause()
    except NotReady as error:
        warn(f"no claims are published: {error}")
    write(served.service_ibi)


@click.command("check")
@json_option
def check_command(as_json: bool) -> None:
    """Check that the Archive works and can be reached.

    Prints one line for each check: the configuration, the database, the files, a page, a persistent
    URL, the address of the Archive, the resolver and the registration. If IBI_BASE_TEMPLATE is set,
    the template is checked too. The exit status is 1 if a check fails.

    The check of the registration also succeeds if the Archive was never registered or is excluded.
    The line then says what to do next.

    \b
    Example:
      flask --app example_app ibi check
    """
    from flask_ibi_archive.archive.checking import check_archive
    from flask_ibi_archive.server.commands.group import run_check

    archive = get_archive()
    layout = archive.config.base_template
    findings = [] if layout is None else [run_check("layout", lambda: _check_layout(layout))]
    write_findings(chain(check_archive(archive), findings), as_json)


def _check_layout(name: str) -> str:
    from flask_ibi_archive.server.pages.responses import read_layout

    missing = read_layout(name)[1]
    blocks = "" if not missing else f"; it has no block {' and no block '.join(missing)}"
    return f"the template {name} of the app exists{blocks}"


@click.command("upgrade")
@click.argument("revision", default="head")
def upgrade_command(revision: str) -> None:
    """Upgrade the tables to a revision.

    By default, REVISION is the newest revision. If IBI_VERSION_TABLE is set, the app's own
    migrations upgrade the tables, and this command only checks the revision.

    \b
    Example:
      flask --app example_app ibi upgrade
    """
    archive = get_archive()
    archive.upgrade(revision)
    _write_revision(archive)


def _check_revision(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the value. Refuse a value that looks like an option; -1, -2 and so on are allowed."""
    if value.startswith("-") and not re.fullmatch("-[0-9]+", value):
        raise click.NoSuchOption(value, ctx=context)
    return value


@click.command("downgrade", context_settings={"ignore_unknown_options": True})
@click.argument("revision", default="-1", callback=_check_revision)
@yes_option
def downgrade_command(revision: str, yes: bool) -> None:
    """Downgrade the tables to a revision.

    By default, REVISION is the previous revision. The REVISION "base" removes the tables. Data that
    the older tables cannot store is lost. Even the dates of issued identifiers may be lost.
    Therefore the command asks for confirmation. Without a terminal, --yes is required.

    \b
    Example:
      flask --app example_app ibi downgrade 0001
    """
    archive = get_archive()
    confirm(f"Downgrade the tables to {revision}? Data may be lost.", yes)
    archive.downgrade(revision)
    _write_revision(archive)


def _write_revision(archive: Archive) -> None:
    revision = archive.database.read(archive.database.find_revision)
    say(
        "the database has no tables"
        if revision is None
        else f"the tables are at revision {revision}"
    )
