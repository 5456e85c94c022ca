"""The group ``ibi-resolver`` and what its commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click
from flask import current_app

from flask_ibi_archive.cli.group import IBIGroup

if TYPE_CHECKING:
    from flask_ibi_archive.service.resolver.resolver import ResolverService

#: The modules that hold the commands, in the order of the help page.
COMMANDS = {
    "init": "setup",
    "register": "registry",
    "list": "registry",
    "remove": "registry",
    "resolve": "resolving",
}
EXTENSION = "ibi_resolver"


@click.group(
    "ibi-resolver", cls=IBIGroup, modules=COMMANDS, package="flask_ibi_archive.cli.resolver"
)
def ibi_resolver() -> None:
    """Resolve persistent URLs, and keep the list of the Archives that are asked.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver init
      flask --app example_app:create_resolver ibi-resolver list
    """


def the_resolver() -> ResolverService:
    """Give the resolver of the current app.

    :raises ClickException: if the app has none.
    """
    state = current_app.extensions.get(EXTENSION)
    if state is None:
        raise click.ClickException(
            "this app has no IBIResolver; call IBIResolver(app) where the app is made"
        )
    return cast("ResolverService", state.resolver)
