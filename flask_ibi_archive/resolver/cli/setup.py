"""Setting up a resolver: init."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import standard_output, write
from flask_ibi_archive.resolver.cli.group import the_resolver


@click.command("init")
@with_appcontext
def init_command() -> None:
    """Create or update the resolver's tables.

    Prints the IBI of its service, and below it, where SERVER_NAME tells the resolver's host, what
    an Archive sets as IBI_RESOLVER_URL. Harmless when it is all there already.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver init
    """
    resolver = the_resolver()
    standard_output()
    resolver.init()
    write(resolver.config.service_ibi)
    if resolver.config.service_url is not None:
        write(resolver.config.service_url)
