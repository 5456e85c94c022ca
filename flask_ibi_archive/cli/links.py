"""The command check-links: check the links of items to URLs outside the Archive."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    json_option,
    say,
    standard_output,
    the_archive,
    write,
    write_json_list,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.link_check import LinkFailure

#: The largest number of uses of a link that a line shows.
MAX_USES = 3


@click.command("check-links")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=0,
    metavar="HOURS",
    help="Skip links that were checked in the last HOURS.",
)
@click.option("--host", help="Check only the links to this host.")
@click.option(
    "--delay",
    type=click.FloatRange(min=1),
    default=1,
    show_default=True,
    metavar="SECONDS",
    help="The time between two requests to one host.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="The number of hosts that are checked at the same time.",
)
@json_option
@with_appcontext
def check_links_command(
    older_than: float, host: str | None, delay: float, threads: int, as_json: bool
) -> None:
    """Check that external addresses of items still answer.

    These are the addresses of files, metadata and metadata formats that are on other hosts than the
    Archive. Each address is checked once, and a host gets one request at a time. robots.txt is not
    read, because the Archive itself shows these addresses to its readers.

    An address is reported after IBI_LINK_FAILURES consecutive failed checks, in a line with the
    address, the time of the first failure, the reason and the items that use it, separated by tabs.
    The exit status is 1 if an address is reported. A summary is written to standard error; without
    a terminal it is written only if an address is reported.

    Each result is stored at once. If a run is stopped, the next run continues with the addresses
    whose last check is oldest. Items are not changed.

    \b
    Example:
      flask --app example_app ibi check-links --older-than 20
    """
    from flask_ibi_archive.archive.link_check import LinkChecker

    archive = the_archive()
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
    # cron sends all output by e-mail: without a terminal, write nothing if all links work
    if reported or is_terminal:
        say(format_summary(checker.results, reported))
    if reported:
        raise click.exceptions.Exit(1)


def write_report(failures: Iterator[LinkFailure], as_json: bool) -> int:
    """Write broken links to standard output, one at a time, and return their number."""
    counter = count()  # zip() advances it once for each failure
    counted = (failure for failure, _ in zip(failures, counter, strict=False))
    if as_json:
        write_json_list(failure.to_json() for failure in counted)
    else:
        for failure in counted:
            write(format_failure(failure))
    return next(counter)


def format_summary(results: Mapping[str, int], reported: int) -> str:
    """Return the summary of a run in one line.

    :param results: the number of links for each result: answered, failed, put off.
    """
    counts = ", ".join(
        f"{results.get(name, 0)} {name}" for name in ("answered", "failed", "put off")
    )
    return f"checked {sum(results.values())} addresses: {counts}; {reported} reported as broken"


def format_failure(failure: LinkFailure) -> str:
    """Return a broken link as a line with fields separated by tabs."""
    link = failure.link
    uses = [
        f"{use.ibi} {' '.join((use.path or use.relation or '').split())}"
        for use in failure.uses[:MAX_USES]
    ]
    if failure.used > MAX_USES:
        uses.append(f"and {failure.used - MAX_USES} more")
    since = link.failing_since.strftime("%Y-%m-%dT%H:%M:%SZ")
    return "\t".join([link.url, since, link.error, ", ".join(uses)])
