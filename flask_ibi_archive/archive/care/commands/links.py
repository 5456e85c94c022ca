"""The command check-links. It checks the links from items to URLs outside the Archive."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.server.commands.group import (
    delay_option,
    get_archive,
    json_option,
    note_host_items,
)
from flask_ibi_archive.server.commands.terminal import say, standard_output, write, write_json_list

if TYPE_CHECKING:
    from flask_ibi_archive.archive.care.link_check import LinkFailure

#: The largest number of uses of a link in one line of the report.
MAX_USES = 3


@click.command("check-links")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=0,
    metavar="HOURS",
    help="Skip links that were already checked in the last HOURS.",
)
@click.option("--host", help="Check only the links to this host.")
@delay_option
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="The number of hosts that are checked at the same time.",
)
@json_option
def check_links_command(
    older_than: float, host: str | None, delay: float, threads: int, as_json: bool
) -> None:
    """Check that the external addresses of items still answer.

    External addresses are the addresses of files, metadata and metadata formats on other hosts.
    The command checks each address once. A host gets one request at a time. The command does not
    read robots.txt, because the Archive shows the same addresses to its readers.

    An address is reported after IBI_LINK_FAILURES consecutive failed checks. The report contains
    one line for each such address: the address, the time of the first failure, the reason, and the
    items that use the address, separated by tabs. The exit status is 1 if an address is reported.
    A summary is written to standard error. Without a terminal, the summary is written only if an
    address is reported.

    Each result is stored immediately. If a run is stopped, the next run starts with the addresses
    whose last check is the oldest. Items are not changed.

    \b
    Example:
      flask --app example_app ibi check-links --older-than 20
    """
    from flask_ibi_archive.archive.care.link_check import LinkChecker

    archive = get_archive()
    note_host_items(archive, "checked")
    standard_output()
    checker = LinkChecker(
        archive, delay=delay, threads=threads, older_than=timedelta(hours=older_than), host=host
    )
    due = checker.find_links()
    is_terminal = sys.stderr.isatty()
    with click.progressbar(
        length=due, label="Checking", file=sys.stderr, hidden=not is_terminal
    ) as bar:
        checker.check(bar.update)
    reported = write_report(checker.report(), as_json)
    # cron sends all output by e-mail; so without a terminal, nothing is written if all links work
    if reported or is_terminal:
        say(format_summary(checker.results, reported))
    if reported:
        raise click.exceptions.Exit(1)


def write_report(failures: Iterator[LinkFailure], as_json: bool) -> int:
    """Write broken links to standard output, and return the number of broken links."""
    counter = count()  # zip() advances the counter once for each failure
    counted = (failure for failure, _ in zip(failures, counter, strict=False))
    if as_json:
        write_json_list(failure.to_json() for failure in counted)
    else:
        for failure in counted:
            write(format_failure(failure))
    return next(counter)


def format_summary(results: Mapping[str, int], reported: int) -> str:
    """Return a line that summarises a run.

    :param results: the number of links by result. A result is answered, failed or put off.
    :param reported: the number of links that are reported as broken.
    """
    counts = ", ".join(
        f"{results.get(name, 0)} {name}" for name in ("answered", "failed", "put off")
    )
    return f"checked {sum(results.values())} addresses: {counts}; {reported} reported as broken"


def format_failure(failure: LinkFailure) -> str:
    """Return the line of the report for a broken link. Tabs separate its fields."""
    from flask_ibi_archive.core.identifiers.dates import format_timestamp

    link = failure.link
    uses = [
        f"{use.ibi} {' '.join((use.path or use.relation or '').split())}"
        for use in failure.uses[:MAX_USES]
    ]
    if failure.used > MAX_USES:
        uses.append(f"and {failure.used - MAX_USES} more")
    since = format_timestamp(link.failing_since)
    return "\t".join([link.url, since, link.error, ", ".join(uses)])
