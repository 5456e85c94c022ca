"""Commands to reserve identifiers for drafts: reserve, release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
from flask.cli import with_appcontext

from flask_ibi_archive.cli.group import (
    json_option,
    read_ibi,
    standard_output,
    the_archive,
    warn_of_private_address,
    write,
    write_json,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive_service import ArchiveService


@click.command("reserve")
@click.option(
    "-n", "count", type=click.IntRange(1, 10_000), help="The number of identifiers.  [default: 1]"
)
@click.option("--note", metavar="TEXT", help="A note on the purpose.")
@click.option("--list", "listing", is_flag=True, help="List the reservations instead.")
@json_option
@with_appcontext
def reserve_command(count: int | None, note: str | None, listing: bool, as_json: bool) -> None:
    """Reserve identifiers for drafts.

    Prints one identifier per line: repository name, tab, IBIp. "add --reserved" uses a reserved
    identifier; "release" releases it. A reserved identifier is never issued again.

    --list prints repository name, IBIp, status (held, used or released), date and note, separated
    by tabs.

    \b
    Example:
      flask --app example_app ibi reserve --note "Thesis of Ana, to be printed on the cover"
      flask --app example_app ibi reserve --list
    """
    if listing:
        if count is not None or note is not None:
            raise click.UsageError("--list cannot be used with -n or --note")
        _list(as_json)
        return
    archive = the_archive()
    standard_output()
    warn_of_private_address(archive)
    reserved = []
    for _ in range(count or 1):
        one = archive.reserve(note)
        if not as_json:
            write(f"{one.rep}\t{one.ibip}")
        reserved.append({"rep": one.rep, "ibip": one.ibip})
    if as_json:
        write_json(reserved)


def _list(as_json: bool) -> None:
    """Write all reservations: held, used and released."""
    from flask_ibi_archive.records.format import format_moment

    found = the_archive().reservations()
    if as_json:
        write_json(
            [
                {
                    "rep": one.rep,
                    "ibip": one.ibip,
                    "status": one.status,
                    "note": one.note,
                    "reserved_at": format_moment(one.reserved_at),
                    "settled_at": format_moment(one.settled_at),
                }
                for one in found
            ]
        )
        return
    for one in found:
        date = format_moment(one.reserved_at) or ""
        note = " ".join((one.note or "").split())
        write("\t".join([one.rep, one.ibip, one.status, date, note]))


@click.command("release")
@click.argument("ibis", metavar="IBI...", type=read_ibi, nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Check the identifiers; change nothing.")
@with_appcontext
def release_command(ibis: tuple[str, ...], dry_run: bool) -> None:
    """Release reserved identifiers for good.

    A released identifier is never used for an item. If one of several identifiers is not held, none
    is released.

    \b
    Example:
      flask --app example_app ibi release 8JMKD3MGP8W/35MME4E
    """
    archive = the_archive()
    standard_output()
    for rep in _held(archive, ibis):
        if not dry_run:
            archive.release(rep)
        write(f"{'would release' if dry_run else 'released'} {rep}")


def _held(archive: ArchiveService, ibis: Iterable[str]) -> list[str]:
    """Return the repository names of held reservations without repetition.

    :param ibis: the repository names or IBIps of the reservations.
    :raises StorageError: if an identifier is not held.
    """
    from flask_ibi_archive.errors import StorageError
    from flask_ibi_archive.identifiers import parse_identifier

    known = {text: one for one in archive.reservations() for text in (one.rep, one.ibip)}
    chosen: dict[str, None] = {}
    for ibi in ibis:
        text = parse_identifier(ibi).text
        if text not in known:
            raise StorageError(f"{text} is not reserved; see flask ibi reserve --list")
        if known[text].status != "held":
            raise StorageError(f"the reservation of {text} was already {known[text].status}")
        chosen[known[text].rep] = None
    return list(chosen)
