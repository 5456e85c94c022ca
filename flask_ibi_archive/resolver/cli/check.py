"""Whether the resolver works: check."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.check import report
from flask_ibi_archive.cli.group import json_option
from flask_ibi_archive.resolver.cli.group import the_resolver


@click.command("check")
@json_option
@with_appcontext
def check_command(as_json: bool) -> None:
    """Check that the resolver works and can be reached.

    A line each for configuration, pycurl, database, the Archives and the resolver's own address;
    ends with status 1 when one of them is not as it should be.

    \b
    Example:
      flask --app example_app:create_resolver ibi-resolver check
    """
    from flask_ibi_archive.resolver.checking import check_resolver

    report(check_resolver(the_resolver()), as_json)
