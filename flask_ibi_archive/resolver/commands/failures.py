"""The command ``failures``: lists the persistent URLs that failed."""

from __future__ import annotations

from datetime import datetime, timezone

import click

from flask_ibi_archive.resolver.commands import get_resolver
from flask_ibi_archive.server.commands import group, terminal

#: The columns that the command ``failures`` prints.
COLUMNS = ("count", "reason", "identifier")


@click.command("failures")
@click.option(
    "--month",
    type=click.DateTime(["%Y-%m"]),
    metavar="YYYY-MM",
    help="The month. The default is the current month.",
)
@group.json_option
def failures_command(month: datetime | None, as_json: bool) -> None:
    """List the persistent URLs that failed in a month.

    The command prints a header, then one line for each identifier and reason, the most frequent
    first. The columns are separated by tabs. The columns are: how often it failed, the kind of the
    failure, and the identifier. The line without an identifier counts what exceeds the number of
    lines of a day. Counts are kept for thirteen months.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver failures --month 2026-11
    """
    from flask_ibi_archive.resolver.failed_urls import list_counts

    day = (month or datetime.now(timezone.utc)).date()
    rows = get_resolver().database.read(lambda connection: list_counts(connection, day))
    values = (dict(zip(COLUMNS, row, strict=True)) for row in rows)
    terminal.write_table(COLUMNS, values, as_json)
