"""The commands about the claims of Archives: follow, claims, conflicts."""

from __future__ import annotations

import signal
import sys
from datetime import datetime, timedelta, timezone
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.core.claim import fold_name
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import group, terminal

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.conflicts import FoundConflict

#: The columns that the commands print.
COLUMNS = ("service", "address", "state", "names", "read_at", "reason")
CONFLICT_COLUMNS = (
    "id", "about", "name", "first_address", "second_address", "found_at", "told_at", "ended_at",
)  # fmt: skip
REFUSED_COLUMNS = ("service", "item", "reason", "refused_at")


@click.command("follow")
@click.option("--once", is_flag=True, help="Read what is new, and stop.")
@click.option(
    "--again",
    metavar="ARCHIVE",
    help="Let the claims of an Archive be read from the beginning, and stop.",
)
def follow_command(once: bool, again: str | None) -> None:
    """Read the claims of the included Archives.

    An Archive that publishes claims is only asked about items that it claims. The claims of each
    Archive are read every 30 seconds. The command runs until it is stopped (SIGINT, SIGTERM). Run
    it as a service, or set IBI_RESOLVER_FOLLOW = True to do the same in a thread of the app. If
    several processes follow, one of them works, and the others wait until it ends. What is wrong
    with the claims of an Archive is logged; the command "claims" shows it.

    ARCHIVE is the service IBI of an Archive whose answers contradicted its claims, or whose claims
    are refused. The running follower then reads its claims from the beginning. They count again
    when they were read to their end.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver follow
      flask --app example_app:create_resolver ibi-resolver follow --once
    """
    get_resolver().database.check_revision()
    if again is not None:
        _read_again(again)
    else:
        _follow(once)


def _read_again(service_ibi: str) -> None:
    from flask_ibi_archive.resolver.claims import read_again

    resolver = get_resolver()
    archive = resolver.registry.find(service_ibi)
    with resolver.database.writing() as connection:
        if archive is None or not read_again(connection, archive.id):
            raise click.ClickException(
                f"no Archive with the service {service_ibi} publishes claims; to list all, run: "
                "flask ibi-resolver claims"
            )


def _follow(once: bool) -> None:
    stop = Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    shows = sys.stderr.isatty()

    def show(pages: int, claims: int) -> None:
        if shows:
            click.echo(f"\rpages read: {pages}, claims read: {claims}\033[K", nl=False, err=True)

    follower = get_resolver().make_follower(show)
    try:
        if not once:
            follower.run(stop)
        elif not follower.run_once(stop):
            raise click.ClickException("another process follows the claims of Archives")
    finally:
        follower.close()
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
        if shows:
            terminal.say("")


@click.command("claims")
@click.option("--refused", is_flag=True, help="List the claims that are refused.")
@group.json_option
def claims_command(refused: bool, as_json: bool) -> None:
    """List the Archives that publish claims, and their states.

    The command prints a header, then one line for each Archive. The columns are separated by tabs.
    The columns are: service, address, state, number of names, date of the last reading to the end,
    and the last failure. The state is "current" or "silent" (the Archive does not answer; its last
    claims count), or the Archive is asked about each item: "new" (the claims were not read to their
    end yet), "stale" (they can't be read, or are too old), "refused" (some of them are wrong),
    "contradicted" (answers contradicted the claims) or "excluded".

    With --refused, the columns are: service, item, reason, and date. The Archive is asked about
    each item until it claims these items properly.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver claims
      flask --app example_app:create_resolver ibi-resolver claims --refused --json
    """
    from flask_ibi_archive.resolver.claims import list_followed, list_refused

    resolver = get_resolver()
    if refused:
        lines = resolver.database.read(list_refused)
        terminal.write_table(REFUSED_COLUMNS, lines, as_json)
        return
    now, max_age = datetime.now(timezone.utc), timedelta(seconds=resolver.config.claims_max_age)
    archives = resolver.database.read(lambda connection: list_followed(connection, now, max_age))
    terminal.write_table(COLUMNS, archives, as_json)


@click.command("conflicts")
@click.option("--all", "shows_all", is_flag=True, help="Also list the conflicts that have ended.")
@click.option(
    "--prefer",
    metavar="SERVICEIBI",
    type=group.read_ibi,
    help="End the conflicts about NAME in favour of this Archive.",
)
@click.argument("name", required=False)
@group.json_option
def conflicts_command(shows_all: bool, prefer: str | None, name: str | None, as_json: bool) -> None:
    """List conflicts between Archives, or decide about one.

    Two Archives claim the Original of one item, or one alias for two items. The command prints a
    header, then one line for each conflict, the newest first. The columns are separated by tabs.
    The columns are: number of the conflict, "Original" or "alias", name that both claim, addresses
    of the two Archives, and the dates when the conflict was found, when the administrators of both
    Archives were told by e-mail, and when the conflict ended. A conflict ends when one of the two
    claims changes, or one of the two Archives is excluded. With --json, the services and e-mail
    addresses of the Archives are also listed.

    With --prefer and NAME, an IBI or an alias, the command ends the conflicts about NAME: readers
    are led to the Archive with the IBI SERVICEIBI first, until one of the claims changes.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver conflicts --all --json
      flask --app example_app:create_resolver ibi-resolver conflicts \\
        --prefer 8JMKD3MGP8W/34PGRBS doi:10.5281/zenodo.1234567
    """
    from flask_ibi_archive.resolver.conflicts import IS_OPEN, list_conflicts, prefer_archive

    if (prefer is None) != (name is None):
        raise click.UsageError("--prefer and NAME are only valid together")
    resolver = get_resolver()
    if prefer is None or name is None:
        conditions = () if shows_all else (IS_OPEN,)
        found = resolver.database.read(lambda connection: list_conflicts(connection, *conditions))
        terminal.write_table(CONFLICT_COLUMNS, map(_list_values, found), as_json)
        return
    archive = resolver.registry.find(parse_identifier(prefer).text)
    if archive is None:
        raise StorageError(f"no Archive with the service {prefer} is registered")
    now = datetime.now(timezone.utc)
    with resolver.database.writing() as connection:
        count = prefer_archive(connection, archive.id, fold_name(name), now)
    terminal.say(f"conflicts ended: {count}")


def _list_values(conflict: FoundConflict) -> dict[str, Any]:
    from flask_ibi_archive.resolver.conflicts import describe_conflict

    values = describe_conflict(conflict)
    for name, archive in zip(("first", "second"), conflict.claimants, strict=True):
        values[f"{name}_address"] = archive.address
        values[f"{name}_service"] = archive.service_ibi
        values[f"{name}_email"] = archive.admin_email or archive.email
    return values
