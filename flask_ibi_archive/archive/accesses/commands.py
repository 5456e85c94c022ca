"""The commands for accesses: ``stats`` shows statistics, ``purge`` deletes old accesses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.server.commands.group import get_archive, json_option, read_ibi
from flask_ibi_archive.server.commands.terminal import write, write_json

if TYPE_CHECKING:
    from flask_ibi_archive.archive.accesses.statistics import Statistics


@click.command("stats")
@click.argument("ibi", type=read_ibi, required=False)
@click.option(
    "--by",
    type=click.Choice(["day", "month", "year"]),
    default="month",
    show_default=True,
    help="The length of the periods in the table.",
)
@json_option
def stats_command(ibi: str | None, by: str, as_json: bool) -> None:
    """Show how often an item or the Archive was read.

    Without IBI, the accesses to all items of the Archive are counted. Views are accesses to
    metadata. Downloads are accesses to data. Double clicks (the earlier of two clicks within 30
    seconds) and accesses of robots are counted separately. The COUNTER Code of Practice requires
    this. Days begin at midnight UTC.

    \b
    Example:
      flask --app example_app ibi stats 8JMKD3MGP8W/35MME4E --by year
    """
    statistics = get_archive().statistics(ibi, by)
    if as_json:
        write_json(statistics.to_json())
    else:
        write_table(statistics)


def write_table(statistics: Statistics) -> None:
    """Write a table. Each period has one line; the last line contains the sums."""
    header, *rows = statistics.csv_rows()
    total = ["total", *(str(getattr(statistics, name)) for name in header[1:])]
    lines = [[word.replace("_", " ") for word in header], *rows, total]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        padded = [word.rjust(width) for word, width in zip(others, widths[1:], strict=True)]
        write("  ".join([first.ljust(widths[0]), *padded]))


@click.command("purge")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the number of accesses that would be deleted. Change nothing.",
)
def purge_command(dry_run: bool) -> None:
    """Delete old accesses, but keep the counts of accesses.

    IBI_KEEP_ACCESSES says how many days are kept. The statistics do not change. An access is
    deleted only after its URL key has expired. Otherwise the key could be used again. If the
    command was killed, run the command again. The result is printed only on a terminal, because
    cron sends all output by e-mail.

    \b
    Example:
      flask --app example_app ibi purge --dry-run
    """
    result = get_archive().purge(dry_run=dry_run)
    if dry_run or sys.stdout.isatty():
        verb = "would purge" if dry_run else "purged"
        write(f"{verb} {result.purged} accesses before {result.before.isoformat()}")
