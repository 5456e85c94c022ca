"""The command renew-harvests: all items become changed items for harvesters (OAI-PMH)."""

from __future__ import annotations

import click

from flask_ibi_archive.server.commands.group import get_archive
from flask_ibi_archive.server.commands.terminal import write


@click.command("renew-harvests")
def renew_harvests_command() -> None:
    """Let harvesters (OAI-PMH) read all items again.

    Run this command after a change of the sets or of a metadata format. The sets of the items are
    then computed again, and the next visit of each harvester includes all items.

    \b
    Example:
      flask --app example_app ibi renew-harvests
    """
    from flask_ibi_archive.archive.harvest.harvesting import StoredHarvests
    from flask_ibi_archive.archive.harvest.sets import HarvestSets

    archive = get_archive()
    archive.check_has_items()
    StoredHarvests(archive, HarvestSets()).note_all()
    write("harvesters will read all items again")
