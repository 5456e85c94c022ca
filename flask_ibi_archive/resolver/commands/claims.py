"""The commands about the claims of Archives: follow, claims."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import group, terminal

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.old_claims.log_lists import ListedLog

#: The columns that the command ``claims`` prints, without and with each option.
COLUMNS = ("service", "address", "state", "entries", "age_seconds", "read_at", "reason")
KEY_COLUMNS = ("service", "pinned_at", "key")
REJECTED_COLUMNS = ("service", "entry", "reason", "rejected_at")


@click.command("follow")
@click.option("--once", is_flag=True, help="Read what is new, and stop.")
def follow_command(once: bool) -> None:
    """Read and verify the claims of the included Archives.

    An Archive that publishes claims is only asked about items that it claims. The claims of each
    Archive are read once a minute. The command runs until it is stopped (SIGINT, SIGTERM). Run it
    as a service, or set IBI_RESOLVER_FOLLOW = True to do the same in a thread of the app. If
    several processes follow, one of them works, and the others wait until it ends. What is wrong
    with the claims of an Archive is logged; the command "claims" shows it.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver follow
      flask --app example_app:create_resolver ibi-resolver follow --once
    """
    resolver = get_resolver()
    resolver.database.check_revision()
    stop = Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    shows = sys.stderr.isatty()

    def show(logs: int, entries: int) -> None:
        if shows:
            click.echo(f"\rlogs read: {logs}, claims read: {entries}\033[K", nl=False, err=True)

    follower = resolver.make_follower(show)
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
@click.option("--keys", "shown", flag_value="keys", help="List all keys that were pinned.")
@click.option("--rejected", "shown", flag_value="rejected", help="List the entries kept out.")
@group.json_option
def claims_command(shown: str | None, as_json: bool) -> None:
    """List the Archives that publish claims, and their states.

    The command prints a header, then one line for each Archive. The columns are separated by tabs.
    The columns are: service, address, state, number of entries that were read, age of the last
    signature in seconds, date of the last reading, and reason of the state. The state is "current"
    or "silent" (the Archive does not answer at all; its last claims count), or the Archive is asked
    about each item: "new", "stale" (the claims can't be read or stored, or are too old), "forked"
    (signed checkpoints contradict each other), "contradicted" (answers contradicted the claims),
    "full" (there are more claims than IBI_RESOLVER_CLAIMS_MAX_SIZE allows) or "excluded".

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver claims
      flask --app example_app:create_resolver ibi-resolver claims --rejected --json
    """
    from flask_ibi_archive.resolver.old_claims import log_lists

    read = get_resolver().database.read
    if shown == "keys":
        terminal.write_table(KEY_COLUMNS, _name(KEY_COLUMNS, read(log_lists.list_keys)), as_json)
    elif shown == "rejected":
        rows = _name(REJECTED_COLUMNS, read(log_lists.list_rejected))
        terminal.write_table(REJECTED_COLUMNS, rows, as_json)
    else:
        now = datetime.now(timezone.utc)
        logs = (_log_values(log, now) for log in read(log_lists.list_logs))
        terminal.write_table(COLUMNS, logs, as_json)


def _name(columns: tuple[str, ...], rows: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows as mappings; times as text."""
    for row in rows:
        values = (format_timestamp(one) if isinstance(one, datetime) else one for one in row)
        yield dict(zip(columns, values, strict=True))


def _log_values(log: ListedLog, now: datetime) -> dict[str, Any]:
    age = None if log.signed_at is None else round((now - log.signed_at).total_seconds())
    return {
        "service": log.service_ibi,
        "address": log.address,
        "state": log.state if log.is_included else "excluded",
        "entries": log.size,
        "age_seconds": age,
        "read_at": format_timestamp(log.read_at),
        "reason": log.reason,
        "origin": log.origin,
        "key": log.key,
        "contradictions": log.contradictions,
    }
