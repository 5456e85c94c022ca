"""Checks of the Archive: check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import json_option, the_archive, write, write_json

if TYPE_CHECKING:
    from flask_ibi_archive.archive.checking import Finding


@click.command("check")
@json_option
@with_appcontext
def check_command(as_json: bool) -> None:
    """Check that the Archive works and can be reached.

    Prints one line each for configuration, database, files, the Archive's address, the resolver and
    the registration. The exit status is 1 if one of these checks fails. An Archive that was never
    registered, or is excluded, passes: the line says what to do next.

    \b
    Example:
      flask --app example_app ibi check
    """
    from flask_ibi_archive.archive.checking import check_archive

    report(check_archive(the_archive()), as_json)


def report(results: Iterable[Finding], as_json: bool) -> None:
    """Write each finding in a line as it is yielded; exit with status 1 if a check failed."""
    findings = []
    for finding in results:
        findings.append(finding)
        if not as_json:
            write(f"{'ok  ' if finding.ok else 'FAIL'} {finding.name}: {finding.text}")
    if as_json:
        write_json([asdict(finding) for finding in findings])
    if not all(finding.ok for finding in findings):
        raise click.exceptions.Exit(1)
