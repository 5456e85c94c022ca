"""The commands ``flask ibi-resolver ...``.

The module of a command is only imported when the command is run.

- ``administration``: registers Archives, which sends the confirmation e-mail; lists, checks and
  removes them; follows their claims.
- ``resolve``: resolves a persistent URL. ``export_map``: writes a map for nginx.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from flask_ibi_archive.server.commands.group import IBIGroup, find_extension, version_option

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.resolving import ResolverService

#: The sections of the help page. Each section lists its commands, with the module of each command.
SECTIONS = {
    "Every day": "administration.init administration.check administration.register "
    "administration.list administration.remove resolve.resolve",
    "Claims": "administration.follow administration.claims administration.conflicts",
    "For experts": "administration.check-actors export_map.export-map",
}


@click.group(
    "ibi-resolver", cls=IBIGroup, sections=SECTIONS, package="flask_ibi_archive.resolver.commands"
)
@version_option
def ibi_resolver() -> None:
    """Resolve persistent URLs by asking the registered Archives.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver init
      flask --app example_app:create_resolver ibi-resolver list
    """


def get_resolver() -> ResolverService:
    """Return the resolver of the current app.

    :raises ClickException: if the app has no resolver.
    """
    from flask_ibi_archive.server.config import RESOLVER_EXTENSION

    state = find_extension(RESOLVER_EXTENSION)
    if state is None:
        raise click.ClickException(
            "this app has no IBIResolver; call IBIResolver(app) where the app is created"
        )
    return cast("ResolverService", state.resolver)
