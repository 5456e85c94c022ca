"""Whether everything is as it should be: check."""

from __future__ import annotations

from dataclasses import asdict

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import json_option, the_archive, write, write_json


@click.command("check")
@json_option
@with_appcontext
def check_command(as_json: bool) -> None:
    """Check configuration, database, files, the Archive's address, the resolver and the registration.

    A line each; ends with status 1 when one of them is not as it should be. An Archive that was never
    registered, or is excluded, is as it should be: the line says what comes next.

    \b
    Example:
      flask --app example_app ibi check
    """
    from flask_ibi_archive.service.checking import check_archive

    findings = []
    for finding in check_archive(the_archive()):
        findings.append(finding)
        if not as_json:
            write(f"{'ok  ' if finding.ok else 'FAIL'} {finding.name}: {finding.text}")
    if as_json:
        write_json([asdict(finding) for finding in findings])
    if not all(finding.ok for finding in findings):
        raise click.exceptions.Exit(1)
