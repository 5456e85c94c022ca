"""Commands for identifiers: mint (issue new ones), decode (show the content of one)."""

from __future__ import annotations

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.deposit import get_facts
from flask_ibi_archive.cli.group import (
    json_option,
    read_ibi,
    say,
    standard_output,
    the_archive,
    warn_of_private_address,
    write,
    write_json,
    write_json_list,
)


@click.command("mint")
@click.option(
    "-n", "count", default=1, type=click.IntRange(1, 1_000_000), help="The number of identifiers."
)
@json_option
@with_appcontext
def mint_command(count: int, as_json: bool) -> None:
    """Mint new identifiers.

    Prints one identifier per line: repository name, tab, IBIp. The persistent URLs are written to
    standard error, with --json to standard output. A minted identifier is never issued again, even
    if no item uses it.

    \b
    Example:
      flask --app example_app ibi mint -n 3
    """
    archive = the_archive()
    standard_output()
    minted = archive.mint(count)
    warn_of_private_address(archive)
    if as_json:
        write_json_list(get_facts(archive, one) for one in minted)
        return
    for one in minted:
        write(f"{one.rep}\t{one.ibip}")
    if count == 1:
        say(f"persistent URL: {archive.persistent_url(minted[0].rep)}")
    else:
        say(f"persistent URLs: {archive.persistent_url('')}IDENTIFIER")


@click.command("decode")
@click.argument("ibi", type=read_ibi)
@json_option
def decode_command(ibi: str, as_json: bool) -> None:
    """Show the host or IP, port and date in an identifier.

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
