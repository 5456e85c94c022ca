"""Commands of moves between servers: offer, offers, offers withdraw and accept."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import click

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.core.records.values import FieldError
from flask_ibi_archive.server.commands import group, terminal
from flask_ibi_archive.server.commands.terminal import say

#: What remains of an item that was moved, by the values of the option --leave.
LEFT = {"copy": State.COPY, "tombstone": State.DELETED}
COLUMNS = [
    "offer",
    "archive",
    "kind",
    "items",
    "bytes",
    "moved",
    "created_at",
    "expires_at",
    "status",
]
#: The longest line with an address, in bytes.
MAX_LINE = 4096
SHOWN = (
    "the address contains the secret after #, which other users of this computer can see in the "
    "list of processes; run flask ibi accept without an argument, and paste the address when you "
    "are asked"
)


def _parse_period(context: click.Context, parameter: click.Parameter, value: str) -> timedelta:
    return group.parse_period(value)


@click.command("offer")
@click.argument("identifiers", metavar="[IBI]...", type=group.read_ibi, nargs=-1)
@click.option("--all", "all_items", is_flag=True, help="Offer all items.")
@click.option(
    "--file",
    "listed",
    metavar="LIST",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Offer the items that a file lists, one IBI in each line; - reads standard input.",
)
@click.option(
    "--to",
    required=True,
    type=group.read_ibi,
    metavar="IBI",
    help="The service IBI of the other Archive.",
)
@click.option(
    "--as",
    "kind",
    type=click.Choice(["move", "copy"]),
    default="move",
    show_default=True,
    help="Move the items to the other Archive, or let it make Copies.",
)
@click.option(
    "--leave",
    type=click.Choice(["copy", "tombstone"]),
    default="copy",
    show_default=True,
    help="What remains here of an item that was moved.",
)
@click.option(
    "--expires",
    "period",
    default="30d",
    show_default=True,
    callback=_parse_period,
    help="When the offer expires: a number of days (d), weeks (w), months (m) or years (y).",
)
def offer_command(
    identifiers: tuple[str, ...],
    all_items: bool,
    listed: str | None,
    to: str,
    kind: str,
    leave: str,
    period: timedelta,
) -> None:
    """Offer items to an Archive on another server.

    Prints the address of the offer with its secret, which cannot be shown again. Give it to the
    administrator of the other Archive, who runs there: flask ibi accept. Whoever has the address
    can read the offered items and take them. Until an item is moved, it stays as it is here, and
    can be changed.

    Name the items, list them in a file (--file), or offer all (--all). --all leaves out items that
    cannot be offered: Copies, and items that are not transferable. A metadata item that describes
    the items is offered with them. An item may be in several offers: the first Archive that accepts
    it gets it.

    \b
    Example:
      flask --app example_app ibi offer 8JMKD3MGP8W/35MME4E \\
          --to sid.inpe.br/mtc-m19@80/2009/08.21.17.02
    """
    from flask_ibi_archive.archive.moving import offers

    terms = offers.Terms(to, LEFT[leave] if kind == "move" else None, period)
    archive = group.get_archive()
    archive.check_has_items()
    if [bool(identifiers), all_items, listed is not None].count(True) != 1:
        raise click.UsageError("choose the items with one of: IBI..., --all, --file")
    if listed is not None:
        identifiers = tuple(_read_list(listed))
    new = offers.make_offer(archive, terms, None if all_items else identifiers)
    offer = new.offer
    url = f"{archive.addresses.base}{messages.PATH}/{offer.public_id}"
    terminal.write(messages.OfferAddress(url, new.secret).text)
    added = f", {new.added} of them metadata items that were added" if new.added else ""
    size = f"{offer.items} items ({offer.bytes} bytes)"
    say(f"offer {offer.public_id}: {size} to {offer.taker}{added}")
    if new.left_out:
        say(f"{new.left_out} items can't be offered, and were left out")
    say("Give the address to the administrator of the other Archive; it cannot be shown again.")
    if terms.leaves is State.DELETED:
        say("Once an item is moved, the other Archive has the only Original, and no copy is here.")


def _read_list(path: str) -> Iterator[str]:
    """Yield the identifiers in a file."""
    try:
        stream = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115
        with stream:
            for number, line in enumerate(stream, 1):
                try:
                    text = line.decode().strip()
                except UnicodeDecodeError as error:
                    raise click.ClickException(f"{path}, line {number}: not UTF-8") from error
                if text:
                    yield group.read_ibi(text)
    except OSError as error:
        raise click.ClickException(f"{path} can't be read: {error.strerror}") from error


@click.group("offers", invoke_without_command=True)
@group.json_option
@click.pass_context
def offers_command(context: click.Context, as_json: bool) -> None:
    """List the offers that were made, with their progress.

    Prints one line for each offer. "moved" is the number of items that the other Archive has taken
    over. What was refused is written by accept, at the other Archive.

    \b
    Example:
      flask --app example_app ibi offers
    """
    if context.invoked_subcommand is not None:
        return
    from flask_ibi_archive.archive.moving import offers

    archive = group.get_archive()
    now = archive.clock()
    rows = [
        {
            "offer": offer.public_id,
            "archive": offer.taker,
            "kind": offer.kind,
            "items": offer.items,
            "bytes": offer.bytes,
            "moved": offer.moved,
            "created_at": format_timestamp(offer.created_at),
            "expires_at": format_timestamp(offer.expires_at),
            "status": offer.get_status(now),
        }
        for offer in offers.list_offers(archive)
    ]
    terminal.write_table(COLUMNS, rows, as_json)


@offers_command.command("withdraw")
@click.argument("offer", metavar="OFFER")
def withdraw_command(offer: str) -> None:
    """Withdraw an offer, as long as no item was moved.

    \b
    Example:
      flask --app example_app ibi offers withdraw 0123456789abcdef
    """
    from flask_ibi_archive.archive.moving import offers

    offers.withdraw_offer(group.get_archive(), offer)
    say(f"withdrawn: {offer}")


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
    from flask_ibi_archive.archive.moving import accepting
    from flask_ibi_archive.archive.moving.client import OfferClient

    archive = group.get_archive()
    archive.check_has_items()
    archive.served()
    address = _read_address(source)
    with terminal.Bars(work="Checking" if dry_run else "Accepting") as bars:

        def refuse(name: str, reason: str) -> None:
            bars.clear()
            terminal.write(f"{name}\t{reason}")

        acceptor = accepting.Acceptor(
            archive.context,
            OfferClient(address, archive.config.archive_address, archive.config.inner_hosts),
            lambda done, total: bars.show("work", done, total),
            refuse,
        )
        offer = acceptor.offer
        verb = "moves" if offer.kind == messages.MOVE else "copies"
        files = f"{offer.files} files, {offer.bytes} bytes"
        say(f"{offer.giver} {verb} {offer.items} items with {files}")
        done, refused = acceptor.examine() if dry_run else acceptor.run()
    free = accepting.count_free_bytes(archive.context.folder)
    is_full = dry_run and offer.bytes > free
    if is_full:
        say(f"the files have {offer.bytes} bytes, but only {free} bytes are free")
    if dry_run:
        say(f"would take {done} items; {refused} cannot be taken")
    else:
        say(f"{done} items are here; {refused} were not taken")
    if refused or is_full:
        raise click.exceptions.Exit(1)


def _read_address(source: str | None) -> messages.OfferAddress:
    """Return the address of an offer with its secret.

    :raises ClickException: if the address is wrong. The message does not contain the secret.
    """
    if source is not None and "#" in source:
        raise click.UsageError(SHOWN)
    try:
        if source is None:
            address = messages.parse_address(_ask("Address of the offer"))
        elif source == "-":
            line = sys.stdin.buffer.readline(MAX_LINE)
            address = messages.parse_address(line.decode("utf-8", "replace"))
        else:
            url = messages.parse_address(source).url
            secret = messages.parse_secret(_ask("Secret of the offer").strip())
            address = messages.OfferAddress(url, secret)
        if address.secret is None:
            raise FieldError("", "the address has no secret; it should end with # and the secret")
    except FieldError as error:
        raise click.ClickException(error.reason) from None
    return address


def _ask(name: str) -> str:
    """Ask the user for a text that is not shown, and return it."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.ClickException(
            "there is no terminal for the address of the offer; write the address to standard "
            "input: flask ibi accept -"
        )
    return terminal.prompt(name)
