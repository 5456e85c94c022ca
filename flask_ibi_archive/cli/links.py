"""Addresses elsewhere that items lead to: check-links."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
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

#: Places of an address that a line names.
PLACES = 3


@click.command("check-links")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    metavar="HOURS",
    help="Leave out what was looked at in the last HOURS.",
)
@click.option("--host", help="Look at the addresses of this host alone.")
@click.option(
    "--delay",
    type=click.FloatRange(min=1),
    default=1,
    show_default=True,
    metavar="SECONDS",
    help="How long a host is left alone between two requests.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="How many hosts are asked side by side.",
)
@json_option
@with_appcontext
def check_links_command(
    older_than: float | None, host: str | None, delay: float, threads: int, as_json: bool
) -> None:
    """Check that external addresses of items still answer.

    Those of files, of metadata and of their formats. A host is asked for one address at a time, and
    robots.txt is not asked for: each address is one that the Archive itself gives its readers. A
    failure is told only when an address has failed IBI_LINK_FAILURES looks in a row: a line with
    the address, since when it fails, what is wrong and which items lead there, apart by tabs. Ends
    with status 1 while there are such. A summary follows on standard error; without a terminal only
    where there are such.

    Each look is kept as it comes: a run that is stopped loses nothing, and the next one begins with
    what waits longest. Changes nothing but these notes.

    \b
    Example:
      flask --app example_app ibi check-links --older-than 20
    """
    from flask_ibi_archive.archive.link_check import LinkChecker

    archive = the_archive()
    standard_output()
    with LinkChecker(
        archive,
        delay=delay,
        threads=threads,
        older_than=None if older_than is None else timedelta(hours=older_than),
        host=host,
    ) as checker:
        count = checker.collect()
        with click.progressbar(
            length=count, label="Looking", file=sys.stderr, hidden=not sys.stderr.isatty()
        ) as bar:
            checker.look(bar.update)
        failures = Counted(checker.failures())
        if as_json:
            write_json_list(failure.to_json() for failure in failures)
        else:
            for failure in failures:
                write(line_of(failure))
    # without a terminal, as in cron, nothing is said while all is well
    if failures.count or sys.stderr.isatty():
        say(summary_of(checker.found, failures.count))
    if failures.count:
        raise click.exceptions.Exit(1)


class Counted:
    """Gives what an iterator gives, and counts it."""

    def __init__(self, failures: Iterator[LinkFailure]) -> None:
        self._failures = failures
        self.count = 0

    def __iter__(self) -> Iterator[LinkFailure]:
        for failure in self._failures:
            self.count += 1
            yield failure


def summary_of(found: Mapping[str, int], reported: int) -> str:
    """Return what a run found, in one line.

    :param found: how many addresses answered, failed and were put off.
    """
    counts = ", ".join(f"{found.get(name, 0)} {name}" for name in ("answered", "failed", "put off"))
    return f"checked {sum(found.values())} addresses: {counts}; {reported} reported as broken"


def line_of(failure: LinkFailure) -> str:
    """Return an address that failed as a line."""
    note = failure.note
    since = note.failing_since.strftime("%Y-%m-%dT%H:%M:%SZ") if note.failing_since else ""
    places = [
        f"{use.ibi} {' '.join((use.path or use.relation or '').split())}"
        for use in failure.uses[:PLACES]
    ]
    if failure.used > PLACES:
        places.append(f"and {failure.used - PLACES} more")
    return "\t".join([note.url, since, note.error or "", ", ".join(places)])
