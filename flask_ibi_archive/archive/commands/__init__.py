"""The commands ``flask ibi ...``.

Every ``flask`` command imports this package. Therefore the import must be fast. A command imports
other modules only when the command runs.
"""

from __future__ import annotations

import click

from flask_ibi_archive.server.commands.group import IBIGroup, version_option

#: The sections of the help page. Each section lists its commands, with the module of each command.
SECTIONS = {
    "Set up": "setup.init setup.check setup.upgrade setup.downgrade",
    "Identifiers": "identifiers.mint identifiers.decode reservations.reserve reservations.release",
    "Items": "deposit.add editing.edit items.show items.list life.copy life.transfer life.delete "
    "items.url-list",
    "Many items": "records.import records.export adoption.adopt backup.backup backup.restore",
    "Registration with a resolver": "registration.generate-key registration.registration-email "
    "registration.register-archive registration.unregister-archive",
    "Registry of documents of a resolver": "registry.registry",
    "Maintenance": "backup.verify links.check-links statistics.stats statistics.purge "
    "harvests.renew-harvests",
}


__all__ = ["ibi"]


@click.group("ibi", cls=IBIGroup, sections=SECTIONS, package="flask_ibi_archive.archive")
@version_option
def ibi() -> None:
    """Give items persistent identifiers (IBI) and resolve them.

    \b
    Example:
      flask --app example_app ibi init
      flask --app example_app ibi add report.pdf --title "Annual report"
    """
