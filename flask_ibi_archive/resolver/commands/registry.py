"""The commands ``flask ibi-resolver registry ...``: actors, check, cancel."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import group, terminal

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.registry_2008.actor_check import ActorChange, ActorChecker
    from flask_ibi_archive.resolver.registry_2008.actors import Cancellation, ListedActor
    from flask_ibi_archive.resolver.service import ResolverService

#: The sections of the help page, with the modules of the commands.
SECTIONS = {"Actors": "registry.actors registry.check registry.cancel"}
#: The columns that the command ``actors`` prints.
COLUMNS = (
    "actor", "address", "email", "documents", "copies", "failing_since", "cancelled_at",
)  # fmt: skip


@click.group(
    "registry", cls=group.IBIGroup, sections=SECTIONS, package="flask_ibi_archive.resolver.commands"
)
def registry_command() -> None:
    """Administer the document registry of the resolver.

    Data providers ("actors") register with the document registry, and tell the resolver where their
    documents are. IBI_RESOLVER_REGISTRY = True turns the document registry on.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver registry actors
    """


def get_registry() -> ResolverService:
    """Return the resolver of the current app.

    :raises ClickException: if the resolver has no document registry.
    :raises NotReady: if the database is not available or has no tables of this version.
    """
    resolver = get_resolver()
    if resolver.document_registry is None:
        raise click.ClickException(
            "this resolver has no document registry; set IBI_RESOLVER_REGISTRY = True"
        )
    # before a command writes the first line of its output
    resolver.database.check_revision()
    return resolver


@click.command("actors")
@group.json_option
def actors_command(as_json: bool) -> None:
    """List the actors of the document registry.

    The command prints a header, then one line for each actor. The columns are separated by tabs.
    The columns are: actorID, host name and port, e-mail address, number of documents, number of
    copies, date since when no URL of the actor works, and date of the cancellation. The command
    "check" finds the URLs that do not work.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver registry actors
    """
    from flask_ibi_archive.resolver.registry_2008.actors import list_actors

    terminal.write_table(COLUMNS, map(_actor_values, list_actors(get_registry().database)), as_json)


def _actor_values(actor: ListedActor) -> dict[str, str | int | None]:

    return {
        "actor": actor.actor_id,
        "address": actor.address,
        "email": actor.email,
        "documents": actor.documents,
        "copies": actor.copies,
        "failing_since": format_timestamp(actor.failing_since),
        "cancelled_at": format_timestamp(actor.cancelled_at),
    }


@click.command("check")
@click.option("--dry-run", is_flag=True, help="Check all URLs, but change nothing.")
@click.option(
    "--delay",
    type=click.FloatRange(min=1),
    default=1,
    show_default=True,
    metavar="SECONDS",
    help="The time between two requests for an actor.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="The number of actors that are checked at the same time.",
)
@group.json_option
def check_command(dry_run: bool, delay: float, threads: int, as_json: bool) -> None:
    """Cancel actors whose URLs have not worked for two years.

    The command requests the URLs of the documents and metadata of each actor, until one of them
    works. If none works, the command stores the date. If none has worked for 730 days, the
    registration of the actor is cancelled. Each of its documents is handed over to the actor with
    the oldest copy. A document without copies is no longer registered. A new registration of a
    document by the actor deletes the stored date.

    The command prints one line for each change: the actorID, the host name and port, the e-mail
    address, the state, the date since when no URL works, and details, separated by tabs. The state
    is "failing" (the first time that no URL works), "works again" or "cancelled". A summary is
    written to standard error. Without a terminal, the summary is written only if there are changes.

    If no URL of several actors works, the network of the resolver is probably down. Then nothing is
    stored for these actors, and the exit status is 1. A run that was stopped can be started again.
    The command should run at least once a week. A line of a crontab for this:

    \b
      0 3 * * 0  flask --app example_app:create_resolver ibi-resolver registry check

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver registry check --dry-run
    """
    from flask_ibi_archive.resolver.registry_2008.actor_check import ActorChecker

    resolver = get_registry()
    terminal.standard_output()
    checker = ActorChecker(
        resolver.database, resolver.config, dry_run=dry_run, delay=delay, threads=threads
    )
    with terminal.Bars(actors="Checking") as bars:
        changes = list_changes(checker, bars)
        if as_json:
            terminal.write_json_list(map(change_values, changes))
        else:
            for change in changes:
                terminal.write(format_change(change))
    # cron sends all output by e-mail; so without a terminal, nothing is written without changes
    if bars.shown or checker.changes:
        terminal.say(format_summary(checker))
    if checker.unconfirmed:
        raise click.ClickException(
            f"no URL of {checker.unconfirmed} actors works, so the network of the resolver is "
            "probably down; nothing was stored for these actors"
        )


def list_changes(checker: ActorChecker, bars: terminal.Bars) -> Iterator[ActorChange]:
    """Run a check, and yield the changes. The bars show the progress."""
    total = checker.count() if bars.shown else 0
    for change in checker.run(lambda done: bars.show("actors", done, total)):
        bars.clear()
        yield change


def change_values(change: ActorChange) -> dict[str, Any]:
    """Return a change as a JSON object."""

    cancellation = change.cancellation
    return {
        "actor": change.actor_id,
        "address": change.address,
        "email": change.email,
        "state": change.state,
        "failing_since": format_timestamp(change.failing_since),
        "error": change.error,
        "handed_over": cancellation and cancellation.handed_over,
        "deleted_documents": cancellation and cancellation.deleted,
        "deleted_copies": cancellation and cancellation.copies,
    }


def format_change(change: ActorChange) -> str:
    """Return the line of a change. Tabs separate its fields."""

    details = [] if change.error is None else [change.error]
    if change.cancellation is not None:
        details.append(format_cancellation(change.cancellation))
    values = (change.actor_id, change.address, change.email, change.state)
    return "\t".join([*values, str(format_timestamp(change.failing_since)), "; ".join(details)])


def format_cancellation(cancellation: Cancellation) -> str:
    """Return what happened to the documents and copies of a cancelled actor."""
    return (
        f"{cancellation.handed_over} documents handed over to other actors, "
        f"{cancellation.deleted} documents and {cancellation.copies} copies no longer registered"
    )


def format_summary(checker: ActorChecker) -> str:
    """Return a line that summarises a check."""
    from flask_ibi_archive.resolver.registry_2008.actor_check import CANCELLED, FAILING, WORKING

    results = ", ".join(f"{checker.results[kind]} {kind}" for kind in (WORKING, FAILING))
    cancelled = f"{checker.changes[CANCELLED]} cancelled"
    dry_run = " (--dry-run: nothing was changed)" if checker.dry_run else ""
    return f"checked {checker.results.total()} actors: {results}; {cancelled}{dry_run}"


@click.command("cancel")
@click.argument("actor_id", metavar="ACTORID", type=group.read_ibi)
@group.yes_option
def cancel_command(actor_id: str, yes: bool) -> None:
    """Cancel the registration of an actor at once.

    ACTORID is the IBI of the actor. Use this command for an actor that abuses the registry. Each
    document of the actor is handed over to the actor with the oldest copy. A document without
    copies is no longer registered. The cancellation cannot be undone, and the ACTORID can never be
    registered again.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver registry cancel \\
        dpi.inpe.br/banon/2001/01.11.16.21
    """
    from flask_ibi_archive.resolver.registry_2008.actors import cancel_actor, find_actor

    database = get_registry().database
    actor_id = parse_identifier(actor_id).text
    actor = find_actor(database, actor_id)
    if actor is None:
        raise click.ClickException(
            f"the actor {actor_id} is not registered; to list the actors, run: flask ibi-resolver "
            "registry actors"
        )
    terminal.confirm(
        f"Cancel the registration of {actor_id} at {actor.address}, which has {actor.documents} "
        f"documents and {actor.copies} copies?",
        yes or actor.cancelled_at is not None,
    )
    with database.writing() as connection:
        cancellation = cancel_actor(connection, actor.id, datetime.now(timezone.utc))
    if cancellation is None:
        raise click.ClickException(f"the actor {actor_id} is already cancelled")
    terminal.say(f"{actor_id} is cancelled: {format_cancellation(cancellation)}")
