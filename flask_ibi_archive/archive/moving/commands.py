"""Commands of the giver of a move between servers: offer, offers and offers withdraw."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flask_ibi_archive.server.commands.group import (
    get_archive,
    json_option,
    parse_period,
    read_ibi,
)
from flask_ibi_archive.server.commands.terminal import (
    say,
    standard_input,
    standard_output,
    write,
    write_table,
)

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.moving.choosing import Terms
    from flask_ibi_archive.archive.moving.offers import NewOffer

_COLUMNS = (
    "offer",
    "direction",
    "archive",
    "kind",
    "items",
    "bytes",
    "settled",
    "refused",
    "created_at",
    "expires_at",
    "status",
)


def _parse_period(context: click.Context, parameter: click.Parameter, value: str) -> timedelta:
    return parse_period(value)


@click.command("offer")
@click.argument("identifiers", metavar="[IBI]...", type=read_ibi, nargs=-1)
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
    type=read_ibi,
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
    cannot be offered: Copies, items that are not transferable, items in another open offer. A
    metadata item that describes the items is offered with them.

    \b
    Example:
      flask --app example_app ibi offer 8JMKD3MGP8W/35MME4E \\
          --to sid.inpe.br/mtc-m19@80/2009/08.21.17.02
    """
    from flask_ibi_archive.archive.moving.choosing import Terms
    from flask_ibi_archive.archive.moving.offers import make_offer
    from flask_ibi_archive.core.protocol.states import State
    from flask_ibi_archive.core.records.offer_messages import PATH, OfferAddress

    states = {"copy": State.COPY, "tombstone": State.DELETED}
    terms = Terms(to, states[leave] if kind == "move" else None, period)
    archive = get_archive()
    archive.check_has_items()
    standard_output()
    if [bool(identifiers), all_items, listed is not None].count(True) != 1:
        raise click.UsageError("choose the items with one of: IBI..., --all, --file")
    if listed is not None:
        identifiers = tuple(_read_list(listed))
    new = make_offer(archive, terms, None if all_items else identifiers)
    url = f"{archive.addresses.base}{PATH}/{new.public_id}"
    write(OfferAddress(url, new.secret).text)
    _report(new, terms)
    if terms.leaves is State.DELETED:
        say("Once an item is moved, the other Archive has the only Original, and no copy is here.")


def _read_list(path: str) -> Iterator[str]:
    """Yield the identifiers in a file."""
    try:
        stream = standard_input() if path == "-" else Path(path).open("rb")  # noqa: SIM115
        with stream:
            for number, line in enumerate(stream, 1):
                try:
                    text = line.decode().strip()
                except UnicodeDecodeError as error:
                    raise click.ClickException(f"{path}, line {number}: not UTF-8") from error
                if text:
                    yield read_ibi(text)
    except OSError as error:
        raise click.ClickException(f"{path} can't be read: {error.strerror}") from error


def _report(new: NewOffer, terms: Terms) -> None:
    added = f", {new.added} of them metadata items that were added" if new.added else ""
    say(f"offer {new.public_id}: {new.items} items ({new.bytes} bytes) to {terms.to}{added}")
    if new.left_out:
        say(f"{new.left_out} items can't be offered, and were left out")
    say("Give the address to the administrator of the other Archive; it cannot be shown again.")


@click.group("offers", invoke_without_command=True)
@json_option
@click.pass_context
def offers_command(context: click.Context, as_json: bool) -> None:
    """List the offers made and accepted, with their progress.

    Prints one line for each offer. "settled" is the number of items that were moved or copied, and
    "refused" the number of items that could not be taken; accept lists them.

    \b
    Example:
      flask --app example_app ibi offers
    """
    if context.invoked_subcommand is not None:
        return
    archive = get_archive()
    standard_output()
    write_table(_COLUMNS, [*_list_made(archive), *_list_accepted(archive)], as_json)


def _list_made(archive: Archive) -> Iterator[dict[str, Any]]:
    from flask_ibi_archive.archive.moving.offers import list_offers
    from flask_ibi_archive.core.identifiers.dates import format_timestamp

    now = archive.clock()
    for offer in list_offers(archive):
        yield {
            "offer": offer.public_id,
            "direction": "made",
            "archive": offer.taker,
            "kind": offer.kind,
            "items": offer.items,
            "bytes": offer.bytes,
            "settled": offer.settled,
            "refused": None,
            "created_at": format_timestamp(offer.created_at),
            "expires_at": format_timestamp(offer.expires_at),
            "status": offer.get_status(now),
        }


def _list_accepted(archive: Archive) -> Iterator[dict[str, Any]]:
    from flask_ibi_archive.archive.moving.offers import list_acceptances
    from flask_ibi_archive.core.identifiers.dates import format_timestamp

    for acceptance in list_acceptances(archive):
        yield {
            "offer": acceptance.public_id,
            "direction": "accepted",
            "archive": acceptance.giver,
            "kind": acceptance.kind,
            "items": acceptance.items,
            "bytes": acceptance.bytes,
            "settled": acceptance.done,
            "refused": acceptance.refused,
            "created_at": format_timestamp(acceptance.started_at),
            "expires_at": None,
            "status": "open" if acceptance.finished_at is None else "done",
        }


@offers_command.command("withdraw")
@click.argument("offer", metavar="OFFER")
def withdraw_command(offer: str) -> None:
    """Withdraw an offer, as long as no item was moved.

    \b
    Example:
      flask --app example_app ibi offers withdraw 0123456789abcdef
    """
    from flask_ibi_archive.archive.moving.offers import withdraw_offer

    withdraw_offer(get_archive(), offer)
    say(f"withdrawn: {offer}")
