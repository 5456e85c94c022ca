"""The command ``check-actors``: cancels actors of the document registry."""

from __future__ import annotations

import click

from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import terminal


@click.command("check-actors")
@click.option("--dry-run", is_flag=True, help="Check all URLs, but change nothing.")
def check_actors_command(dry_run: bool) -> None:
    """Cancel actors whose URLs have not worked for two years.

    An actor is a data provider that has registered with the document registry of the resolver.

    The command requests the URLs of the documents and metadata of each actor, until one of them
    works. If none works, the command stores the date. If none has worked for 730 days, the actor is
    cancelled. Each of its documents is handed over to the actor with the oldest copy. A document
    without copies is no longer registered.

    The command prints one line for each change: the actorID, the e-mail address, the state and the
    last error, separated by tabs. The state is "failing" (the first time that no URL works), "works
    again" or "cancelled". If no URL of several actors works, the network of the resolver is
    probably down. Then nothing is stored, and the exit status is 1. The command should run weekly.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver check-actors --dry-run
    """
    from flask_ibi_archive.resolver.registry_2008.check import check_actors

    resolver = get_resolver()
    if resolver.document_registry is None:
        raise click.ClickException(
            "this resolver has no document registry; set IBI_RESOLVER_REGISTRY = True"
        )
    try:
        for change in check_actors(resolver.database, resolver.config, dry_run):
            terminal.write("\t".join([*change[:3], change.error or ""]))
    except ConnectionError as error:
        raise click.ClickException(
            f"{error}, so the network of the resolver is probably down; nothing was stored"
        ) from None
