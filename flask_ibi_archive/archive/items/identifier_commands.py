"""Commands for identifiers: mint, decode, reserve and release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.archive.items.life_commands import build_identifier_json
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

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


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
        write_json_list(build_identifier_json(archive, identifiers) for identifiers in minted)
        return
    for identifiers in minted:
        write(f"{identifiers.rep}\t{identifiers.ibip}")
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


@click.command("reserve")
@click.option(
    "-n", "count", type=click.IntRange(1, 10_000), help="The number of identifiers.  [default: 1]"
)
@click.option("--note", metavar="TEXT", help="A note on the purpose of the reservation.")
@click.option("--list", "listing", is_flag=True, help="List the reservations. Reserve nothing.")
@json_option
def reserve_command(count: int | None, note: str | None, listing: bool, as_json: bool) -> None:
    """Reserve identifiers for drafts.

    Prints one line for each identifier: the repository name, a tab and the IBIp. The command
    "add --reserved" gives a reserved identifier to an item. The command "release" ends the
    reservation. A reserved identifier is never issued again.

    --list prints one line for each reservation: repository name, IBIp, status (held, used or
    released), date and note, separated by tabs.

    \b
    Example:
      flask --app example_app ibi reserve --note "Thesis of Ana, to be printed on the cover"
      flask --app example_app ibi reserve --list
    """
    if listing:
        if count is not None or note is not None:
            raise click.UsageError("--list cannot be used with -n or --note")
        _write_reservations(as_json)
        return
    archive = get_archive()
    standard_output()
    warn_of_private_address(archive)
    reserved = []
    for _ in range(count or 1):
        identifiers = archive.reserve(note)
        if not as_json:
            write(f"{identifiers.rep}\t{identifiers.ibip}")
        reserved.append({"rep": identifiers.rep, "ibip": identifiers.ibip})
    if as_json:
        write_json(reserved)


def _write_reservations(as_json: bool) -> None:
    """Write all reservations, including those that are used or released."""
    from flask_ibi_archive.core.identifiers.dates import format_timestamp

    reservations = get_archive().reservations()
    if as_json:
        write_json(
            [
                {
                    "rep": reservation.rep,
                    "ibip": reservation.ibip,
                    "status": reservation.status,
                    "note": reservation.note,
                    "reserved_at": format_timestamp(reservation.reserved_at),
                    "settled_at": format_timestamp(reservation.settled_at),
                }
                for reservation in reservations
            ]
        )
        return
    for reservation in reservations:
        date = format_timestamp(reservation.reserved_at) or ""
        note = " ".join((reservation.note or "").split())
        write("\t".join([reservation.rep, reservation.ibip, reservation.status, date, note]))


@click.command("release")
@click.argument("ibis", metavar="IBI...", type=read_ibi, nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Check the identifiers. Change nothing.")
def release_command(ibis: tuple[str, ...], dry_run: bool) -> None:
    """Release reserved identifiers forever.

    A released identifier is never used for an item. If one of the identifiers is not held, the
    command releases no identifier.

    \b
    Example:
      flask --app example_app ibi release 8JMKD3MGP8W/35MME4E
    """
    archive = get_archive()
    standard_output()
    for rep in _find_held_names(archive, ibis):
        if not dry_run:
            archive.release(rep)
        write(f"{'would release' if dry_run else 'released'} {rep}")


def _find_held_names(archive: Archive, ibis: Iterable[str]) -> list[str]:
    """Return the repository names of reservations, without repetition.

    :param ibis: the repository names or IBIps of the reservations.
    :raises StorageError: if an identifier is not reserved, or is already used or released.
    """
    from flask_ibi_archive.core.identifiers import parse_identifier
    from flask_ibi_archive.errors import StorageError

    known = {}
    for reservation in archive.reservations():
        known[reservation.rep] = known[reservation.ibip] = reservation
    chosen: dict[str, None] = {}
    for ibi in ibis:
        text = parse_identifier(ibi).text
        if text not in known:
            raise StorageError(f"{text} is not reserved; see flask ibi reserve --list")
        if known[text].status != "held":
            raise StorageError(f"the reservation of {text} was already {known[text].status}")
        chosen[known[text].rep] = None
    return list(chosen)
