"""Identifiers: mint, decode."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    json_option,
    standard_output,
    the_archive,
    warn_of_private_address,
    write,
    write_json,
)


@click.command("mint")
@click.option("-n", "count", default=1, type=click.IntRange(1, 1_000_000), help="How many.")
@with_appcontext
def mint_command(count: int) -> None:
    """Give new identifiers, one a line: repository name, tab, IBIp.

    They are used up, whatever becomes of them.

    \b
    Example:
      flask --app example_app ibi mint -n 3
    """
    archive = the_archive()
    standard_output()
    minted = archive.mint(count)
    warn_of_private_address(archive)
    for one in minted:
        write(f"{one.rep}\t{one.ibip}")


@click.command("decode")
@click.argument("ibi")
@json_option
def decode_command(ibi: str, as_json: bool) -> None:
    """Tell what is written in an identifier: its form, host or IP, port and date.

    \b
    Example:
      flask ibi decode 8JMKD3MGP8W/34PGRBS
    """
    from flask_ibi_archive.identifiers import decode_identifier, format_date, parse_identifier

    decoded = decode_identifier(parse_identifier(ibi))
    facts = {
        "form": decoded.form.value,
        "host": decoded.host,
        "ip": decoded.ip,
        "port": decoded.port,
        "date": None if decoded.date is None else format_date(decoded.date),
    }
    known = {name: value for name, value in facts.items() if value is not None}
    if as_json:
        write_json(known)
        return
    for name, value in known.items():
        write(f"{name} {value}")
