"""The command accept: takes the items that an Archive on another server offers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from flask_ibi_archive.server.commands.group import get_archive
from flask_ibi_archive.server.commands.terminal import (
    Bars,
    prompt,
    say,
    standard_input,
    standard_output,
    write,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.moving.acceptances import ItemStatus
    from flask_ibi_archive.archive.moving.http_offer import HttpOffer
    from flask_ibi_archive.archive.moving.incoming import IncomingOffer

#: The longest line with an address, in bytes.
MAX_LINE = 4096
SHOWN = (
    "the address contains the secret after #, which other users of this computer can see in the "
    "list of processes; run flask ibi accept without an argument, and paste the address when you "
    "are asked"
)


@click.command("accept")
@click.argument("source", required=False, metavar="[ADDRESS|-]")
@click.option("--dry-run", is_flag=True, help="Read the offer, and report conflicts only.")
def accept_command(source: str | None, dry_run: bool) -> None:
    """Accept the items that an Archive on another server offers.

    The giver has created the offer with flask ibi offer, and sent its address. Without an argument,
    the command asks for this address and does not show it, because it ends with a secret. With -,
    it reads the address from standard input. With the ADDRESS without the part from # on, it asks
    for the secret.

    The items are stored as Copies, with their files. If they move, the giver then gives up its
    Originals, and the Copies become the Originals. Items that cannot be taken stay at the giver:
    the command writes their identifiers and the reasons to standard output, and its exit status is
    1. If the command was interrupted, run it again: it continues.

    With --dry-run, nothing is changed.

    \b
    Example:
      flask --app example_app ibi accept --dry-run
      flask --app example_app ibi accept
    """
    from flask_ibi_archive.archive.moving.incoming import IncomingOffer

    archive = get_archive()
    archive.check_has_items()
    archive.served()
    standard_output()
    opened = _open(archive, source)
    incoming = IncomingOffer(archive.context, opened)
    offer = incoming.description
    verb = "moves" if offer.kind == "move" else "copies"
    say(f"{offer.giver} {verb} {offer.items} items with {offer.files} files, {offer.bytes} bytes")
    if (_examine(incoming) if dry_run else _accept(incoming)) > 0:
        raise click.exceptions.Exit(1)


def _open(archive: Archive, source: str | None) -> HttpOffer:
    """Return the offer at an address.

    :raises ClickException: if the address is wrong. The message does not contain the secret.
    """
    from flask_ibi_archive.archive.moving.http_offer import HttpOffer
    from flask_ibi_archive.core.records.offer_messages import (
        OfferAddress,
        parse_address,
        parse_secret,
    )
    from flask_ibi_archive.core.records.values import FieldError

    if source is not None and "#" in source:
        raise click.UsageError(SHOWN)
    try:
        if source is None:
            address = parse_address(_ask("Address of the offer"))
        elif source == "-":
            line = standard_input().readline(MAX_LINE)
            address = parse_address(line.decode("utf-8", "replace"))
        else:
            url = parse_address(source).url
            address = OfferAddress(url, parse_secret(_ask("Secret of the offer").strip()))
        if address.secret is None:
            raise FieldError("", "the address has no secret; it should end with # and the secret")
    except FieldError as error:
        raise click.ClickException(error.reason) from None
    return HttpOffer(address, archive.config.archive_address, archive.config.inner_hosts)


def _ask(name: str) -> str:
    """Return what the user types without showing it."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.ClickException(
            "there is no terminal for the address of the offer; write the address to standard "
            "input: flask ibi accept -"
        )
    return prompt(name)


def _write_refused(bars: Bars, item: ItemStatus) -> None:
    bars.clear()
    write(f"{item.ibi or f'item {item.number}'}\t{item.reason}")


def _examine(incoming: IncomingOffer) -> int:
    """Report what could not be taken, and return the number of problems."""
    from flask_ibi_archive.archive.moving.taken_files import count_free_bytes

    with Bars(work="Checking") as bars:
        count = incoming.examine(
            lambda done, total: bars.show("work", done, total),
            lambda item: _write_refused(bars, item),
        )
    offer, free = incoming.description, count_free_bytes(incoming.context.folder)
    is_full = offer.bytes > free
    if is_full:
        say(f"the files have {offer.bytes} bytes, but only {free} bytes are free")
    say(f"would take {offer.items - count} items; {count} cannot be taken")
    return count + is_full


def _accept(incoming: IncomingOffer) -> int:
    """Accept the items, and return the number of those that were refused."""
    from flask_ibi_archive.archive.moving.accepting import Acceptor

    with Bars(work="Accepting") as bars:
        outcome = Acceptor(
            incoming,
            lambda done, total: bars.show("work", done, total),
            lambda item: _write_refused(bars, item),
        ).run()
    say(f"{outcome.done} items are here; {outcome.refused} were not taken")
    return outcome.refused + outcome.stored
