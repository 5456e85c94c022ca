"""The commands ``flask ibi ...``.

Every ``flask`` command imports this package. Therefore the import must be fast. A command imports
other modules only when the command runs.
"""

from __future__ import annotations

import click

from flask_ibi_archive.server.commands.group import IBIGroup, version_option

#: The sections of the help page. Each section lists its commands, with the module of each command.
SECTIONS = {
    "Set up": "commands.setup.init commands.setup.check commands.setup.upgrade "
    "commands.setup.downgrade",
    "Identifiers": "items.identifier_commands.mint items.identifier_commands.decode "
    "items.identifier_commands.reserve items.identifier_commands.release",
    "Items": "items.life_commands.add items.editing_commands.edit commands.items.show "
    "commands.items.list items.life_commands.copy items.life_commands.transfer "
    "items.life_commands.delete commands.items.url-list",
    "Many items": "items.record_commands.import items.record_commands.export "
    "hosts.commands.adopt care.commands.backup care.commands.restore",
    "Registration with a resolver": "joining.registration_commands.generate-key "
    "joining.registration_commands.registration-email "
    "joining.registration_commands.register-archive "
    "joining.registration_commands.unregister-archive",
    "Registry of documents of a resolver": "joining.registry_commands.registry",
    "Maintenance": "care.commands.verify care.commands.check-links "
    "accesses.commands.stats accesses.commands.purge harvest.commands.renew-harvests",
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
