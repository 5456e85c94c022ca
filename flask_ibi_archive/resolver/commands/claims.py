"""The commands about the claims of Archives: follow, claims."""

from __future__ import annotations

import signal
import sys
from datetime import datetime, timedelta, timezone
from threading import Event

import click
from sqlalchemy import select

from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import group, terminal

#: The columns that the command ``claims`` prints, without and with its option.
COLUMNS = ("service", "address", "state", "names", "read_at", "reason")
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
    from flask_ibi_archive.resolver.tables import FollowedArchive, RegisteredArchive

    archive = (
        select(RegisteredArchive.id)
        .join(FollowedArchive, FollowedArchive.archive_id == RegisteredArchive.id)
        .where(RegisteredArchive.service_ibi == service_ibi)
    )
    with get_resolver().database.writing() as connection:
        archive_id = connection.scalar(archive)
        if archive_id is None:
            raise click.ClickException(
                f"no Archive with the service {service_ibi} publishes claims; to list all, run: "
                "flask ibi-resolver claims"
            )
        read_again(connection, archive_id)


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
