"""Commands for identifiers: mint and decode."""

from __future__ import annotations

import click

from flask_ibi_archive.archive.items.commands.deposit import build_identifier_json
from flask_ibi_archive.server.commands.group import (
    get_archive,
    json_option,
    read_ibi,
    warn_of_private_address,
)
from flask_ibi_archive.server.commands.terminal import (
    say,
    standard_output,
    write,
    write_json,
    write_json_list,
)


@click.command("mint")
@click.option(
    "-n", "count", default=1, type=click.IntRange(1, 1_000_000), help="The number of identifiers."
)
@json_option
def mint_command(count: int, as_json: bool) -> None:
    """Mint new identifiers.

    Prints one line for each identifier: the repository name, a tab and the IBIp. Prints the
    persistent URLs on standard error. With --json, the URLs are part of the JSON output. A minted
    identifier is never issued again, even if no item uses this identifier.

    \b
    Example:
      flask --app example_app ibi mint -n 3
    """
    archive = get_archive()
    standard_output()
    minted = archive.mint(count)
    warn_of_private_address(archive)
    if as_json:
        write_json_list(build_identifier_json(archive, one) for one in minted)
        return
    for one in minted:
        write(f"{one.rep}\t{one.ibip}")
    if count == 1:
        say(f"persistent URL: {archive.persistent_url(minted[0])}")
    else:
        say(f"persistent URLs: {archive.persistent_url('')}IDENTIFIER")


@click.command("decode")
@click.argument("ibi", type=read_ibi)
@json_option
def decode_command(ibi: str, as_json: bool) -> None:
    """Show the address, port and date in an identifier.

    The address is a host name or an IP address.

    \b
    Example:
      flask ibi decode 8JMKD3MGP8W/34PGRBS
    """
    from flask_ibi_archive.core.identifiers import decode_identifier, format_date, parse_identifier

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
